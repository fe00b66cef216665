//! Every call counts, across all workers: eight processes that share three credentials use the whole
//! quota, hardly ever run into a limit, and go on with what is left when credentials fail.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Inspection, RedisQueue};
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{
    self, ClosedWindow, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions, Standing,
};
use twitter_updater::store::{Lifecycle, PostgresStore};

use crate::support::process::{Process, run, run_with_input, text, variables};
use crate::support::wait::until;
use crate::support::{postgres, redis::TestRedis};

const PROCESSES: usize = 8;
const CALLS_PER_WINDOW: u32 = 30;
const WINDOW: Duration = Duration::from_secs(3);
/// Closed windows of each credential that are looked at, after its first.
const WINDOWS: usize = 20;
/// And as many after each change.
const WINDOWS_AFTER: usize = 4;
/// Twice what the quota carries, or more: 3 × 30 calls in 3 to 4 s are 3,000 tweets/s at the most.
const TWEETS: u32 = 18_000;
const INTERVAL: &str = "3s";

const NAMES: [&str; 3] = ["alice", "bob", "site"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_use_the_whole_quota_of_three_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let redis = TestRedis::start(&["--appendonly", "yes"]);
    let database = postgres::database().await;
    let api = api().await;
    let settings = |name: &str| {
        let mut settings = variables(&[
            ("queue.backend", "redis"),
            ("queue.redis.url", &redis.url),
            ("store.backend", "postgres"),
            ("store.postgres.url", &database),
            ("store.postgres.connections", "4"),
            ("twitter.api", &api.base_url()),
            ("updater.name", name),
            ("tweet_age", &format!("30d: {INTERVAL}")),
        ]);
        for name in NAMES {
            let of = |part: &str| format!("twitter.credentials.{name}.{part}");
            let parts: &[&str] = match name {
                "site" => &["consumer_key", "consumer_secret"],
                _ => &["consumer_key", "consumer_secret", "token", "token_secret"],
            };
            let kind = if name == "site" { "app" } else { "user" };
            settings.extend(variables(&[(&of("kind"), kind)]));
            settings.extend(parts.iter().flat_map(|part| variables(&[(&of(part), &secret(name, part))])));
        }
        settings
    };

    let migrated = run(&["migrate"], &settings("starter"));
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    let now = wall_ms();
    let ids: Vec<String> = (0..TWEETS).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).collect();
    let enqueued =
        run_with_input(&["enqueue", "--first", "interval", "-"], &settings("starter"), ids.join("\n").as_bytes());
    assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    until("all are due", Duration::from_secs(30), async || {
        (queue.due_count().await.unwrap() == u64::from(TWEETS)).then_some(())
    })
    .await;

    let log = folder.path().join("updaters.log");
    let mut updaters: Vec<Process> = (0..PROCESSES)
        .map(|number| Process::start(&["updater"], &settings(&format!("updater-{number}")), &log))
        .collect();

    // 1. All three, saturated.
    let windows = closed_windows(&api, &queue, &NAMES, 0, WINDOWS).await;
    let (used, refused) = told("three credentials", &windows);
    assert!(used >= 0.97, "{used}");
    assert!(refused <= 0.02, "{refused}");
    let shares: BTreeMap<_, _> = windows.iter().map(|(name, windows)| (name, share(windows))).collect();
    assert!(shares.values().all(|share| *share >= 0.95), "one is starved: {shares:?}");

    // 2. One is revoked and one is locked, in mid-run: the third goes on, and the command says why.
    assert!(api.set_standing("alice", Standing::Revoked) && api.set_standing("bob", Standing::Locked));
    let windows = closed_windows(&api, &queue, &["site"], wall_ms(), WINDOWS_AFTER).await;
    let (used, refused) = told("the third alone", &windows);
    assert!(used >= 0.97 && refused <= 0.02, "{used}, {refused}");
    let shown = run(&["credentials"], &settings("operator"));
    println!("{}", text(&shown.stdout));
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    for (name, reason) in [("alice", "expired (HTTP 401, code 89)"), ("bob", "locked until its owner logs in")] {
        let shown = text(&shown.stdout);
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.contains(reason), "{line}");
    }

    // 3. Both are good again, and freed by hand.
    assert!(api.set_standing("alice", Standing::Good) && api.set_standing("bob", Standing::Good));
    let checked = run(&["credentials", "--check"], &settings("operator"));
    assert!(checked.status.success(), "{}{}", text(&checked.stdout), text(&checked.stderr));
    let windows = closed_windows(&api, &queue, &NAMES, wall_ms(), WINDOWS_AFTER).await;
    let (used, refused) = told("all three again", &windows);
    assert!(used >= 0.97 && refused <= 0.02, "{used}, {refused}");

    for updater in &mut updaters {
        assert!(updater.runs(), "{}", std::fs::read_to_string(&log).unwrap());
    }
    // The end: nothing is lost, nothing is doubled.
    for updater in updaters {
        assert!(updater.terminate().success(), "{}", std::fs::read_to_string(&log).unwrap());
    }
    let store =
        PostgresStore::connect(&SecretString::from(database.clone()), 2, Duration::from_secs(10)).await.unwrap();
    let standings = store.standing(NAMESPACE, &ids).await.unwrap();
    let mut lost = 0;
    for ((id, places), standing) in ids.iter().zip(queue.locate(&ids).await.unwrap()).zip(standings) {
        let ended = standing.is_some_and(|known| known.state == ItemState::Ended);
        assert!(places.len() + usize::from(ended) <= 1, "{id} is in {places:?}");
        lost += usize::from(places.is_empty() && !ended);
    }
    println!("lost {lost} of {TWEETS}, dead {}", queue.stats().await.unwrap().dead);
    assert_eq!(lost, 0);
}

fn secret(name: &str, part: &str) -> String {
    format!("{part}-of-{name}")
}

async fn api() -> Running {
    let credential = |name: &str| {
        let secret = |part| SecretString::from(secret(name, part));
        let (consumer_key, consumer_secret) = (secret("consumer_key"), secret("consumer_secret"));
        let keys = match name {
            "site" => SimulatedKeys::App { consumer_key, consumer_secret },
            _ => SimulatedKeys::User {
                consumer_key,
                consumer_secret,
                token: secret("token"),
                token_secret: secret("token_secret"),
            },
        };
        SimulatedCredential { name: name.to_owned(), keys }
    };
    let options = SimulatorOptions {
        credentials: Some(NAMES.map(credential).into()),
        calls_per_window: CALLS_PER_WINDOW,
        app_calls_per_window: CALLS_PER_WINDOW,
        window: WINDOW,
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(40),
        body_padding: 0,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Waits until each of these has closed so many windows that started at `since` or after it, the first
/// of them not counted: it may have been cut. Something is due all the while.
async fn closed_windows(
    api: &Running,
    queue: &RedisQueue,
    names: &[&'static str],
    since: i64,
    count: usize,
) -> BTreeMap<&'static str, Vec<ClosedWindow>> {
    let of = |name: &str| -> Vec<ClosedWindow> {
        let is_its = |who: &str| who.split_once(' ').is_some_and(|(_, its)| its == name);
        let closed = api.closed_windows().into_iter();
        closed.filter(|window| is_its(&window.who) && window.span.0 >= since).skip(1).take(count).collect()
    };
    until("enough windows are closed", WINDOW * u32::try_from(4 * count).unwrap(), async || {
        assert!(queue.due_count().await.unwrap() > 0, "not saturated");
        let windows: BTreeMap<_, _> = names.iter().map(|name| (*name, of(name))).collect();
        windows.values().all(|windows| windows.len() == count).then_some(windows)
    })
    .await
}

/// The share of the calls that were used.
fn share(windows: &[ClosedWindow]) -> f64 {
    let sum = |figure: fn(&ClosedWindow) -> u32| windows.iter().map(|window| f64::from(figure(window))).sum::<f64>();
    sum(|window| window.used) / sum(|window| window.limit)
}

/// Prints what was made of the windows: the share of the quota that was used, and the share of the
/// calls that were refused.
fn told(what: &str, windows: &BTreeMap<&str, Vec<ClosedWindow>>) -> (f64, f64) {
    for (name, windows) in windows {
        let calls: Vec<u32> = windows.iter().map(|window| window.used).collect();
        let open: i64 = windows.iter().map(|window| window.span.1 - window.span.0).sum();
        let whole = windows.last().map_or(0, |last| last.span.1) - windows.first().map_or(0, |first| first.span.0);
        println!(
            "{name}: {:.4} of {} windows used, open {:.3} of the time: {calls:?}",
            share(windows),
            windows.len(),
            open as f64 / whole as f64
        );
    }
    let all: Vec<ClosedWindow> = windows.values().flatten().cloned().collect();
    let (used, refused): (u32, u32) = all.iter().fold((0, 0), |sum, w| (sum.0 + w.used, sum.1 + w.refused));
    let refused = f64::from(refused) / f64::from(used + refused);
    println!("{what}: {:.4} of the quota used, {refused:.4} of the calls refused (429)", share(&all));
    (share(&all), refused)
}
