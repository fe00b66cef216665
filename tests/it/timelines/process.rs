//! `poll` as its users run it: over both kinds of services, ended at every point it comes by.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use serde_json::Value;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Queue, RedisQueue};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{MetricsAt, Positions, SqliteStore};

use crate::support::process::{Process, run, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};
use crate::timelines::polled;

const WITHIN: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;

/// What a poll comes by, in this order.
pub const POINTS: [&str; 8] = [
    "after_permit",
    "after_claim",
    "after_answer",
    "after_record",
    "before_commit",
    "after_commit",
    "before_settle",
    "after_settle",
];

async fn survives(backends: Backends) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions { posts_per_second: 20.0, missing_share: 0.1, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("poll.shortest", "1s"),
        ("poll.longest", "2s"),
        ("poll.pages", "2"),
        // A source is nobody's for lookup.timeout + 5 × updater.save_timeout when its poller was killed.
        ("lookup.timeout", "500ms"),
        ("updater.save_timeout", "400ms"),
        ("poll.sources.one.kind", "user"),
        ("poll.sources.one.screen_name", "one"),
        ("poll.sources.two.kind", "search"),
        ("poll.sources.two.query", "two"),
    ]));
    let log = folder.path().join("poll.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    // A source begins with its newest page; what is made after its first reading is never left out.
    let first = Process::start(&["poll"], &world.settings, &log);
    until_true("each source was read", WITHIN, async || {
        ["statuses/user_timeline", "search/tweets"]
            .iter()
            .all(|endpoint| logged().lines().any(|line| line.contains(&polled(endpoint)) && line.contains("settled=1")))
    })
    .await;
    assert_eq!(first.terminate().code(), Some(0), "{}", logged());
    let begun = wall_ms();
    for point in POINTS {
        let mut poller = Process::start(&["poll"], &world.with("TWITTER_UPDATER_CRASH_AT", point), &log);
        assert_eq!(poller.ended(WITHIN).await.signal(), Some(SIGABRT), "{point}: {}", logged());
    }
    let poller = Process::start(&["poll"], &world.settings, &log);
    let until = wall_ms();
    let due: Vec<String> = ["@one", "two"]
        .iter()
        .flat_map(|target| api.timeline(target, begun, until))
        .map(|post| post.id.to_string())
        .collect();
    let all_are_there = async || world.queue.locate(&due).await.unwrap().iter().all(|of| of.len() == 1);
    until_true("every post is in the queue, once", WITHIN, all_are_there).await;
    assert_eq!(poller.terminate().code(), Some(0), "{}", logged());
    let recorded = world.store.standing(NAMESPACE, &due).await.unwrap();
    assert!(recorded.iter().all(Option::is_some), "and in the store, before that");
    // Each has the counts of its page, with the time of that, and again where a later page had others.
    for id in &due {
        let history = world.store.history(NAMESPACE, id).await.unwrap();
        let times = begun - 1_000..=wall_ms();
        assert!(!history.is_empty() && history.iter().all(|row| times.contains(&row.checked_at)), "{id}: {history:?}");
        let grows = |pair: &[MetricsAt]| pair[0].checked_at < pair[1].checked_at && pair[0].metrics != pair[1].metrics;
        assert!(history.windows(2).all(grows), "{id}: {history:?}");
    }
    let exported = text(&run(&["export", "metrics"], &world.settings).stdout);
    assert!(exported.lines().count() > due.len(), "{exported}");
    // What was counted is told to the endpoint's queue, at the latest when the poller leaves.
    let of_sources = polled("search/tweets");
    let queue: Box<dyn Queue> = match &world.redis {
        Some(redis) => Box::new(RedisQueue::new(redis.pool(), &of_sources)),
        None => Box::new(EmbeddedQueue::open(&folder.path().join("jobs.db"), &of_sources, WITHIN).await.unwrap()),
    };
    let counters = queue.stats().await.unwrap().counters;
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    assert!(of("polls") > 0 && of("pages") > 0, "{counters:?}");
    assert!(0 < of("posts_new") && of("posts_new") <= of("posts_seen"), "{counters:?}");
    println!("{backends:?}: {} posts, killed {} times, none lost", due.len(), POINTS.len());
    if !backends.postgres {
        let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
        let position = store.saved_source(&polled("search/tweets"), "two").await.unwrap().position.unwrap();
        assert!(position.contains("\"since\":\""), "{position}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_files() {
    survives(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_servers() {
    survives(Backends { redis: true, postgres: true }).await;
}

/// Each post that X returns is charged, and which ones come is not known before: a poll that might not fit is not made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_of_x_stay_within_the_budget_of_reads() {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions { posts_per_second: 100.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("providers", "x"),
        ("x.api", &api.base_url()),
        ("x.reads", "350"),
        ("x.reads_per", "30d"),
        ("poll.shortest", "1s"),
        ("poll.longest", "2s"),
        ("poll.sources.one.provider", "x"),
        ("poll.sources.one.kind", "user"),
        ("poll.sources.one.user_id", "12"),
    ]));
    let log = folder.path().join("poll.log");
    let poller = Process::start(&["poll"], &world.with("TWITTER_UPDATER__LOG__LEVEL", "debug"), &log);
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    until_true("there is no room for a page", WITHIN, async || {
        logged().matches("the budget of reads has no room for a page").count() > 1
    })
    .await;
    let status: Value = serde_json::from_slice(&run(&["status", "--json"], &world.settings).stdout).unwrap();
    let charged = api.counters().charged;
    assert!((101..=350).contains(&charged), "{charged} charged: {}", logged());
    // Around midnight each counts for both days.
    let counted = status["budget"]["reads"].as_u64().unwrap();
    assert!((charged..=350).contains(&counted), "{charged} charged: {status}");
    assert_eq!(poller.terminate().code(), Some(0), "{}", logged());
}

#[test]
fn without_a_source_it_says_what_to_do() {
    let output = run(&["poll"], &variables(&[("twitter.api", "http://127.0.0.1:9"), ("log.level", "error")]));
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("[poll.sources.NAME]"), "{}", text(&output.stderr));
}
