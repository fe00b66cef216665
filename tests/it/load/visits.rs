//! Many followed accounts, visited by eight processes with too few calls: all of the quota is used, and no post is lost, through
//! kills, a wiped queue and accounts that change their parts. Accounts post by rates and hours of their own.
//!
//! `VISITS_ACCOUNTS`, `VISITS_WINDOWS`, `VISITS_CALLS` (of a credential and window) and `VISITS_DAY` (the accounts' day, s) make it
//! larger than it is by default.

use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::base::clock::{Millis, Stopwatch, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, ClosedWindow, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions};

use super::memory::used_memory;
use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::visits::{VISITS, change};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const PARTS: [&str; 2] = [VISITS, "visits:twitter:p1"];
const PROCESSES: usize = 8;
const NAMES: [&str; 2] = ["alice", "bob"];
const WINDOW: Duration = Duration::from_secs(3);

/// Accounts whose timelines the simulated API refuses: they are never visited.
const REFUSED: [&str; 2] = ["403", "404"];

fn size(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn api(calls_per_window: u32) -> Running {
    let credential = |name: &str| {
        let secret = |part| SecretString::from(format!("{part}-of-{name}"));
        let keys = SimulatedKeys::User {
            consumer_key: secret("consumer_key"),
            consumer_secret: secret("consumer_secret"),
            token: secret("token"),
            token_secret: secret("token_secret"),
        };
        SimulatedCredential { name: name.to_owned(), keys }
    };
    let day = size("VISITS_DAY", 30);
    let options = SimulatorOptions {
        credentials: Some(NAMES.map(credential).into()),
        calls_per_window,
        window: WINDOW,
        latency: Duration::from_millis(10),
        jitter: Duration::from_millis(10),
        body_padding: 0,
        missing_share: 0.0,
        posts_per_second: SLOTS as f64 / day as f64,
        posting_day: Duration::from_secs(day),
        posts_late: Duration::from_millis(300),
        accounts_since: wall_ms(),
        accounts: 200_000,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Moments of a day at which an account may post. The simulated API shows the newest 3,200 of them.
const SLOTS: u64 = 240;

/// The intervals are those by which this many times the quota would be used: all are so much longer.
const OVERLOAD: f64 = 3.75;

async fn world(folder: &std::path::Path, api: &Running, (accounts, calls): (u64, u64)) -> World {
    let calls_a_second = (calls * NAMES.len() as u64) as f64 / WINDOW.as_secs_f64();
    let every = accounts as f64 / calls_a_second / OVERLOAD;
    let times = |of: f64| format!("{}ms", (every * of * 1_000.0) as u64);
    let mut world = World::new(Backends { redis: true, postgres: true }, folder, &api.base_url()).await;
    world.settings.extend(variables(&[
        ("tweet_age", "1h: 30m"),
        ("updater.lease", "20s"),
        ("updater.save_timeout", "5s"),
        ("lookup.timeout", "5s"),
        ("store.postgres.connections", "4"),
        ("visits.collect", "true"),
        ("visits.every", &times(1.0)),
        // One round is as long as another: a wide range would have quiet accounts wait for many of the others'.
        ("visits.shortest", &times(0.9)),
        ("visits.longest", &times(1.1)),
        ("visits.parts", "2"),
    ]));
    for name in NAMES {
        let of = |part: &str| format!("twitter.credentials.{name}.{part}");
        world.settings.extend(variables(&[(&of("kind"), "user")]));
        for part in ["consumer_key", "consumer_secret", "token", "token_secret"] {
            world.settings.extend(variables(&[(&of(part), &format!("{part}-of-{name}"))]));
        }
    }
    world
}

/// Closed windows of the visits between two moments, without the first of each credential.
fn closed(api: &Running, since: Millis, until: Millis) -> Vec<ClosedWindow> {
    let of = |name: &str| {
        let its = api.closed_windows().into_iter().filter(|window| {
            let is_its = window.who.split_once(' ').is_some_and(|(_, who)| who == name);
            let is_in_time = window.span.0 >= since && window.span.1 <= until;
            is_its && window.endpoint.contains("user_timeline") && is_in_time
        });
        its.skip(1).collect::<Vec<_>>()
    };
    NAMES.iter().flat_map(|name| of(name)).collect()
}

/// Waits until all were visited after a moment. So many accounts are asked for now and then only: the machine is the updaters'.
async fn all_visited(what: &str, within: Duration, world: &World, accounts: &[String], since: Millis) {
    let watch = Stopwatch::start();
    while visited(world, accounts, since).await < accounts.len() {
        assert!(watch.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Accounts that were visited after a moment, in any part.
async fn visited(world: &World, accounts: &[String], since: Millis) -> usize {
    let mut sum = 0;
    for ids in accounts.chunks(5_000) {
        let mut is_visited = vec![false; ids.len()];
        for part in PARTS {
            let known = world.store.standing(part, ids).await.unwrap();
            for (is_visited, known) in is_visited.iter_mut().zip(known) {
                *is_visited |= known.is_some_and(|known| known.checked_at.is_some_and(|at| at > since));
            }
        }
        sum += is_visited.into_iter().filter(|is| *is).count();
    }
    sum
}

/// Posts of that time, and how many of them are not stored.
async fn census(api: &Running, world: &World, accounts: &[String], from: Millis, to: Millis) -> (usize, usize) {
    let (mut all, mut lost) = (0, 0);
    for accounts in accounts.chunks(200) {
        let posts = accounts.iter().flat_map(|account| api.timeline(account, from, to));
        let ids: Vec<String> = posts.map(|post| post.id.to_string()).collect();
        for ids in ids.chunks(5_000) {
            let known = world.store.standing(NAMESPACE, ids).await.unwrap();
            all += ids.len();
            lost += known.iter().filter(|known| known.is_none()).count();
        }
    }
    (all, lost)
}

/// Memory of a process that is no file's, kB.
fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn told(arguments: &[&str], settings: &Variables) -> String {
    let output = run(arguments, settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes some minutes of the whole machine: run it with --ignored"]
async fn all_of_the_quota_is_used_and_no_post_is_lost() {
    let (count, windows) = (size("VISITS_ACCOUNTS", 600), size("VISITS_WINDOWS", 5));
    let folder = tempfile::tempdir().unwrap();
    // A round of all accounts takes some windows.
    let calls = size("VISITS_CALLS", (count / 10).clamp(40, 450));
    let api = api(u32::try_from(calls).unwrap()).await;
    let world = world(folder.path(), &api, (count, calls)).await;
    // Those with the first numbers write posts.
    let ids = (0..).map(|n| api.people().id(&Provider::Twitter, n)).filter(|id| !REFUSED.contains(&id.as_str()));
    let accounts: Vec<String> = ids.take(count as usize).collect();
    let redis = world.redis.as_ref().unwrap();
    let before = used_memory(redis).await;
    let began = std::time::Instant::now();
    change("follow", &world.settings, &accounts);
    let (took, each) = (began.elapsed().as_secs_f64(), (used_memory(redis).await - before) as f64 / count as f64);
    println!("{count} accounts are followed after {took:.1} s, {each:.0} bytes of Redis each");

    let log = folder.path().join("updaters.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let updater = |number: usize| {
        Process::start(&["updater"], &world.with("TWITTER_UPDATER__UPDATER__NAME", &format!("u{number}")), &log)
    };
    let mut updaters: Vec<Process> = (0..PROCESSES).map(updater).collect();
    let patience = Duration::from_secs(120 + count / 50);
    all_visited("all accounts were visited", patience, &world, &accounts, 0).await;
    println!("all were visited after {:.0} s", began.elapsed().as_secs_f64());
    let from = wall_ms();
    until_true("windows are closed", WINDOW * (4 * windows as u32 + 20), async || {
        closed(&api, from, wall_ms()).len() as u64 >= windows * NAMES.len() as u64
    })
    .await;
    let steady = wall_ms();

    // Troubles: half of the processes are killed, accounts move, the queue is lost.
    for number in 0..PROCESSES / 2 {
        updaters.remove(0).kill();
        updaters.push(updater(PROCESSES + number));
    }
    world.followed.move_to_part(VISITS, 0, &accounts[..accounts.len() / 4]).await.unwrap();
    println!("{}", told(&["accounts", "divide"], &world.settings));
    let mut raw = redis.connection().await;
    redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
    told(&["rebuild"], &world.settings);
    let to = wall_ms();
    let memory = |of: &Process| resident(of.id()).unwrap_or(0) / 1024;
    println!("MB of the processes: {:?}", updaters.iter().map(memory).collect::<Vec<_>>());
    all_visited("all accounts were visited again", patience, &world, &accounts, to + 500).await;
    for updater in &mut updaters {
        assert!(updater.runs(), "{}", logged());
    }
    for updater in updaters {
        assert!(updater.terminate().success(), "{}", logged());
    }

    let windows = closed(&api, from, steady);
    let sum = |figure: fn(&ClosedWindow) -> u32| windows.iter().map(|of| f64::from(figure(of))).sum::<f64>();
    let used = sum(|of| of.used) / sum(|of| of.limit);
    let refused = sum(|of| of.refused) / (sum(|of| of.refused) + sum(|of| of.used));
    let (posts, lost) = census(&api, &world, &accounts, from, to).await;
    println!(
        "{count} accounts, {PROCESSES} processes: {:.1} % of {} windows used, {:.2} % refused; {posts} posts, {lost} lost",
        used * 100.0,
        windows.len(),
        refused * 100.0
    );
    assert!(used >= 0.99, "{used}");
    assert!(refused <= 0.01, "{refused}");
    assert!(posts > 1_000, "{posts}");
    assert_eq!(lost, 0, "of {posts}");
    api.stop().await;
}
