//! A tweet that makes its process abort, again and again: it alone ends dead, however many batches are in
//! flight beside it, and everything else stays fresh.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::census::{Census, assert_answers_are_in_order, census};
use crate::support::process::{Process, run_with_input, text};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(180);
const MAX_DELIVERIES: u32 = 3;

/// The id ends its process,
const ABORT: &str = "TWITTER_UPDATER_POISON";
/// or the loop that has it, which is begun anew.
const PANIC: &str = "TWITTER_UPDATER_PANIC_POISON";

async fn ends_dead_alone(backends: Backends, in_flight: usize, how: &str) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        latency: Duration::from_millis(100), // so that others are in flight with it
        jitter: Duration::from_millis(100),
        calls_per_window: 0,
        missing_share: 0.0,
        growth: Duration::from_secs(86_400),
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    for (setting, value) in [
        ("UPDATER__CONCURRENCY", in_flight.to_string()),
        ("UPDATER__MAX_DELIVERIES", MAX_DELIVERIES.to_string()),
        // Never idle: more is due at any time than all batches in flight hold.
        ("TWEET_AGE", "30d: 2s".to_owned()),
    ] {
        world.settings = world.with(&format!("TWITTER_UPDATER__{setting}"), &value);
    }
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();

    let (now, tweets) = (wall_ms(), in_flight * 150);
    let ids: Vec<String> =
        (0..).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).take(tweets).collect();
    let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let poison = ids[tweets / 2].clone();
    let poisoned = world.with(how, &poison);

    // Whoever starts containers again when they end. A crash costs a lease, and each halves what the id
    // travels in.
    let mut deaths = 0;
    let mut updater = Process::start(&["updater"], &poisoned, &log);
    until_true("the poison is buried", WITHIN, async || {
        if !updater.runs() {
            deaths += 1;
            updater = Process::start(&["updater"], &poisoned, &log);
        }
        world.queue.stats().await.unwrap().dead > 0
    })
    .await;
    let buried = wall_ms();
    let innocent: Vec<String> = ids.iter().filter(|id| **id != poison).cloned().collect();
    until_true("everybody else is fresh", WITHIN, async || {
        assert!(updater.runs(), "it died once more:\n{}", logged());
        world.all_fresh(&innocent, buried).await
    })
    .await;
    let status = updater.terminate();
    assert!(status.success(), "{status}\n{}", logged());

    println!("{backends:?}, {in_flight} in flight: {deaths} deaths, and one tweet of {tweets} is dead");
    let panics = logged().matches("asked to panic at an id").count();
    match how {
        ABORT => assert!(deaths >= MAX_DELIVERIES, "{deaths}"),
        // Each time its lease runs out: no hot loop.
        _ => {
            assert!(deaths == 0 && (MAX_DELIVERIES as usize..20).contains(&panics), "{deaths} deaths, {panics} panics")
        }
    }
    let dead = world.queue.locate(std::slice::from_ref(&poison)).await.unwrap();
    let why = format!("{dead:?}");
    assert!(why.contains("it failed 3 times while it was alone: its process ended, or the API refused it"), "{why}");
    let found = census(&*world.queue, &*world.store, &ids).await;
    assert_eq!(found, Census { delayed: tweets - 1, dead: 1, ..Census::default() });
    assert_answers_are_in_order(&*world.store, &innocent).await;
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_in_flight_on_redis() {
    ends_dead_alone(Backends { redis: true, postgres: false }, 8, ABORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_in_flight_on_redis() {
    ends_dead_alone(Backends { redis: true, postgres: true }, 16, ABORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_in_flight_on_the_embedded_queue() {
    ends_dead_alone(Backends { redis: false, postgres: false }, 8, ABORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_eight_in_flight_on_the_embedded_queue() {
    ends_dead_alone(Backends { redis: false, postgres: false }, 8, PANIC).await;
}
