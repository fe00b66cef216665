//! Why accounts of Bluesky disappear, by a real updater at the simulated network: a list of profiles leaves them out, and a call
//! for each states the reason.

use std::time::Duration;

use serde_json::Value;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::account::AccountState;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use crate::support::process::{Process, run, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
const BLUESKY: &str = "profiles:bluesky";

/// Accounts that are away for days.
fn away(now: i64) -> SimulatorOptions {
    SimulatorOptions {
        accounts: 1_000,
        accounts_since: now - 100 * 86_400_000,
        accounts_gone: 0.3,
        accounts_deleted: 0.3,
        account_away: Duration::from_secs(20 * 86_400),
        bluesky_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        ..SimulatorOptions::default()
    }
}

/// An account that is in that state, for the next hour, too.
fn one_that_is(api: &Running, state: AccountState, now: i64) -> u64 {
    let is_so =
        |number: &u64| [now, now + 3_600_000].iter().all(|at| api.people().person_at(*number, *at).state == state);
    (0..1_000).find(is_so).unwrap_or_else(|| panic!("no account is {state}"))
}

async fn world(backends: Backends, api: &Running, folder: &tempfile::TempDir) -> World {
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("providers", "bluesky"),
        ("bluesky.api", &api.base_url()),
        ("accounts.collect", "true"),
        ("updater.unavailable_after", "1s"),
    ]));
    world
}

async fn each_state_is_stored(backends: Backends) {
    let now = wall_ms();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), away(now)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let world = world(backends, &api, &folder).await;
    let states = [AccountState::Live, AccountState::Suspended, AccountState::Deactivated, AccountState::Deleted];
    let ids = states.map(|state| api.people().id(&Provider::Bluesky, one_that_is(&api, state, now)));
    let output = run_with_input(&["enqueue", "--accounts", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    let stored = async || {
        let mut stored = Vec::new();
        for id in &ids {
            stored.push(world.store.account(BLUESKY, id).await.unwrap().map_or_else(String::new, |of| of.state));
        }
        stored
    };
    until_true("each has its state", WITHIN, async || stored().await == states.map(|state| state.to_string())).await;
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    let exported = text(&run(&["export", "accounts", "--format", "ndjson"], &world.settings).stdout);
    let rows: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (id, state) in ids.iter().zip(states) {
        let row = rows.iter().find(|row| row["id"] == id.as_str()).unwrap();
        assert_eq!(row["state"], state.to_string(), "{row}");
        assert_eq!(row["url"].is_string(), state == AccountState::Live, "{row}");
    }
}

/// Mastodon returns a suspended account without its content, and its handle stays its name.
async fn a_suspended_account_has_its_handle(backends: Backends) {
    let now = wall_ms();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), away(now)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("providers", "mastodon:social"),
        ("mastodon.instances.social.api", &api.base_url()),
        ("accounts.collect", "true"),
        ("updater.unavailable_after", "1s"),
    ]));
    let social = Provider::Mastodon("social".to_owned());
    let number = one_that_is(&api, AccountState::Suspended, now);
    let id = api.people().id(&social, number);
    let output = run_with_input(&["enqueue", "--accounts", "-"], &world.settings, id.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    let stored = async || world.store.account("profiles:mastodon:social", &id).await.unwrap().unwrap();
    until_true("it is suspended", WITHIN, async || stored().await.state == "suspended").await;
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    let account = stored().await;
    assert_eq!(account.handle, api.people().account(&social, number, now).unwrap().handle, "{account:?}");
    assert!(account.handle.is_some() && account.counts.followers.is_none(), "{account:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_account_has_its_handle_over_files() {
    a_suspended_account_has_its_handle(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_account_has_its_handle_over_servers() {
    a_suspended_account_has_its_handle(Backends { redis: true, postgres: true }).await;
}

/// Calls for the reasons come from the same quota, and wait for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasons_cost_no_call_that_the_quota_lacks() {
    let now = wall_ms();
    let options = SimulatorOptions { bluesky_calls_per_window: 4, ..away(now) };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let world = world(Backends { redis: false, postgres: false }, &api, &folder).await;
    let is_gone = |number: &u64| api.people().person_at(*number, now).state == AccountState::Deactivated;
    let gone: Vec<u64> = (0..1_000).filter(is_gone).take(20).collect();
    let ids: Vec<String> = gone.iter().map(|number| api.people().id(&Provider::Bluesky, *number)).collect();
    assert_eq!(ids.len(), 20);
    let output = run_with_input(&["enqueue", "--accounts", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    until_true("each was looked up", WITHIN, async || {
        let known = world.store.standing(BLUESKY, &ids).await.unwrap();
        known.iter().flatten().all(|known| known.lookups > 0)
    })
    .await;
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap_or_default());
    let mut explained = 0;
    for id in &ids {
        let row = world.store.tweet(BLUESKY, id).await.unwrap().unwrap();
        explained += usize::from(row.missing_reason.as_deref() == Some("deactivated"));
    }
    let counters = api.counters();
    assert_eq!(counters.throttled, 0, "{counters:?}");
    assert!((1..=3).contains(&explained), "{explained} explained by 4 calls, one of them for the list");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_state_is_stored_over_files() {
    each_state_is_stored(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_state_is_stored_over_servers() {
    each_state_is_stored(Backends { redis: true, postgres: true }).await;
}
