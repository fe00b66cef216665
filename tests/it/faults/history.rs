//! The history of accounts is what happened to them, through kill -9, a wiped queue and answers that come too late.

use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, ScriptedChange, SimulatorOptions};
use twitter_updater::store::Change;

use crate::support::accounts_of_posts::PROFILES;
use crate::support::process::{Process, run, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const ACCOUNTS: u64 = 1_000;
const WITHIN: Duration = Duration::from_secs(60);
/// An absence is believed by so many rounds of all accounts.
const ROUNDS: Millis = 2;
/// A call takes no longer, ms. An answer's moment is that at which its call began.
const CALL: Millis = 2_000;
/// Time to be watched, ms, and that in rounds: the slower they are, the fewer changes last for longer than two of them.
const SPAN: Millis = 26_000;
const SPAN_ROUNDS: Millis = 10;

/// The value of a field at a moment, by the changes of that field.
fn value_at(steps: &[&ScriptedChange], at: Millis) -> String {
    let before = steps.iter().rev().find(|step| step.at <= at).map(|step| step.change.new.clone());
    before.unwrap_or_else(|| steps[0].change.old.clone())
}

/// Whether the field had that value at some moment of that span.
fn was(steps: &[&ScriptedChange], value: &str, from: Millis, to: Millis) -> bool {
    let within = steps.iter().filter(|step| (from..=to).contains(&step.at)).map(|step| step.change.new.clone());
    std::iter::once(value_at(steps, from)).chain(within).any(|known| known == value)
}

/// The time in which no change may be missing, if it lasts for that resolution.
#[derive(Clone, Copy)]
struct Watched {
    from: Millis,
    until: Millis,
    resolution: Millis,
}

/// Compares what is stored of an account with its script; returns the number of the changes that had to be told. `was_found`:
/// before it was watched, so that what it was then is known.
fn compare(number: u64, script: &[ScriptedChange], stored: &[Change], watched: Watched, was_found: bool) -> usize {
    let Watched { from, until: end, resolution } = watched;
    let mut sure = 0;
    let mut fields: Vec<&str> = stored.iter().map(|change| &*change.field).collect();
    fields.extend(script.iter().map(|step| step.change.field));
    fields.sort_unstable();
    fields.dedup();
    for field in fields {
        let steps: Vec<&ScriptedChange> = script.iter().filter(|step| step.change.field == field).collect();
        let told: Vec<&Change> = stored.iter().filter(|change| change.field == field).collect();
        assert!(told.is_empty() || !steps.is_empty(), "{number} {field}: nothing happened, and {told:?} is told");
        for change in &told {
            let [old, new] = [&change.old, &change.new].map(|value| value.clone().unwrap_or_default());
            assert!(was(&steps, &new, change.at, change.at + CALL), "{number} {field}: {change:?} of {steps:?}");
            // Before it was away, perhaps.
            assert!(was(&steps, &old, 0, change.at + CALL), "{number} {field}: {change:?} of {steps:?}");
        }
        for pair in told.windows(2) {
            assert!(pair[0].at < pair[1].at && pair[0].new == pair[1].old, "{number} {field}: {pair:?}");
        }
        // What lasted long enough to be seen is told once.
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| was_found && step.at > from) {
            let until = steps.get(at + 1).map_or(end, |next| next.at);
            let tells = |change: &&&Change| {
                change.new.clone().unwrap_or_default() == step.change.new
                    && (step.at - CALL..=until).contains(&change.at)
            };
            let times = told.iter().filter(tells).count();
            assert!(times <= 1, "{number} {field}: {step:?} is told {times} times: {told:?}");
            // And so did what was before it, while somebody looked.
            let before = at.checked_sub(1).map_or(from, |before| steps[before].at.max(from));
            let near = step.at - resolution..=step.at + resolution;
            let is_away = |other: &ScriptedChange| other.change.field == "state" && near.contains(&other.at);
            let is_there = field == "state" || !script.iter().any(is_away);
            let is_seen = until - step.at > resolution && step.at - before > resolution && is_there;
            sure += usize::from(is_seen);
            assert!(times == 1 || !is_seen, "{number} {field}: {step:?} is not told: {told:?}, {steps:?}");
        }
    }
    sure
}

async fn api() -> Running {
    let options = SimulatorOptions {
        latency: Duration::from_millis(20),
        jitter: Duration::from_millis(20),
        calls_per_window: 0,
        accounts: ACCOUNTS,
        account_changes: Duration::from_secs(10),
        accounts_gone: 0.3,
        account_away: Duration::from_secs(24),
        accounts_deleted: 0.1,
        accounts_since: wall_ms() - 600_000,
        missing_share: 0.0,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_accounts_is_their_script_through_kills_a_wiped_queue_and_late_answers() {
    let folder = tempfile::tempdir().unwrap();
    let api = api().await;
    let mut world = World::new(Backends { redis: true, postgres: true }, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("accounts.collect", "true"),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("accounts.gone", "1s"),
        ("updater.unavailable_after", "1s"),
    ]));
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let started = wall_ms();
    let ids: Vec<String> = (0..ACCOUNTS).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    let output = run_with_input(&["enqueue", "--accounts", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The longest round: from the beginning of one to the end of the next, every account was looked up.
    let (mut began, mut longest) = (wall_ms(), 0);
    let mut fresh = async |what: &str| {
        let since = wall_ms();
        let asked = async || world.all_fresh_in(PROFILES, &ids, since).await;
        until_true(&format!("{what}: every account is looked up"), WITHIN, asked).await;
        longest = longest.max(wall_ms() - began);
        began = since;
        longest
    };
    let updater = || Process::start(&["updater"], &world.settings, &log);
    let mut processes = vec![updater(), updater()];
    let mut round = fresh("at first").await;

    // What was away then has no fields to compare with.
    let mut found = Vec::new();
    for id in &ids {
        found.push(world.store.account(PROFILES, id).await.unwrap().is_some_and(|account| account.handle.is_some()));
    }
    let since = wall_ms();
    let (mut kills, mut late) = (0, None);
    while wall_ms() < since + SPAN.max(SPAN_ROUNDS * round) || kills < 9 {
        processes.remove(0).kill();
        processes.push(updater());
        round = fresh("after a kill").await;
        kills += 1;
        match kills {
            // One stops with an answer in its hand, and others have given newer ones when it goes on.
            3 => {
                let settings = world.with("TWITTER_UPDATER_STOP_AT", "before_commit:3");
                let mut stopped = Process::start(&["updater"], &settings, &log);
                until_true("it is stopped", WITHIN, async || {
                    assert!(stopped.runs(), "{}", logged());
                    stopped.is_stopped()
                })
                .await;
                late = Some(stopped);
            }
            5 => late.as_ref().unwrap().signal("CONT"),
            7 => {
                let mut raw = world.redis.as_ref().unwrap().connection().await;
                redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
                let output = run(&["rebuild"], &world.settings);
                assert!(output.status.success(), "{}", text(&output.stderr));
            }
            _ => {}
        }
    }
    let resolution = ROUNDS * fresh("at last").await;
    let watched = Watched { from: since, until: wall_ms() - CALL, resolution };
    for process in processes.into_iter().chain(late) {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }

    let (mut changes, mut away, mut sure) = (0, 0, 0);
    for ((number, id), was_found) in (0..).zip(&ids).zip(found) {
        let script = api.people().visible_changes(&Provider::Twitter, number, started - 600_000, wall_ms());
        let stored = world.store.account_changes(PROFILES, id).await.unwrap();
        away += stored.iter().filter(|change| change.field == "state").count();
        changes += stored.len();
        sure += compare(number, &script, &stored, watched, was_found);
    }
    println!(
        "{changes} changes of {ACCOUNTS} accounts in {kills} kills, {away} of them of the state, as they happened; {sure} \
         lasted longer than {resolution} ms before and after, and each of these is told"
    );
    assert!(changes > 1_000 && away > 100 && sure > 30, "{changes} {away} {sure}");
    api.stop().await;
}
