//! The process of media dies at each named point: the right files are there once, and nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Queue, RedisQueue};

use crate::media::process::media_settings;
use crate::media::server::Server;
use crate::media::whole::{Kept, NS, check, put_in};
use crate::support::process::{Process, Variables, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const PATIENCE: Duration = Duration::from_secs(90);
/// The points that a batch of media comes by; the second commit is that of their lives.
const POINTS: [&str; 9] = [
    "after_claim",
    "after_answer",
    "before_commit",
    "before_commit:2",
    "after_commit",
    "after_lives",
    "before_settle",
    "after_settle",
    "after_settle:3",
];
/// Media put in before each death.
const EACH: u32 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_at_any_point_loses_no_file() {
    for on_servers in [false, true] {
        dies_at_each_point(Backends { redis: on_servers, postgres: on_servers }, on_servers).await;
    }
}

/// `in_bucket`: the files are in a bucket whose server has faults, where the program knows buckets.
async fn dies_at_each_point(backends: Backends, in_bucket: bool) {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let world = World::new(backends, folder.path(), "http://127.0.0.1:1").await;
    let queue: Arc<dyn Queue> = match &world.redis {
        Some(redis) => Arc::new(RedisQueue::new(redis.pool(), NS)),
        None => Arc::new(EmbeddedQueue::open(&folder.path().join("jobs.db"), NS, PATIENCE).await.unwrap()),
    };
    let mut settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
    settings.extend(variables(&[
        ("media.per_host", "16"),
        ("media.retry", "50ms"),
        ("media.longest_retry", "200ms"),
        ("updater.buffer_ttl", "20ms"),
        ("updater.lease", "2500ms"),
    ]));
    let kept = if in_bucket { Kept::start().await } else { Kept::Folder };
    settings.extend(kept.settings());
    let log = folder.path().join("updater.log");
    for (at, point) in (0..).zip(POINTS) {
        put_in(&*world.store, &*queue, &server, at * EACH..(at + 1) * EACH).await;
        let crashing = [settings.clone(), vec![("TWITTER_UPDATER_CRASH_AT".to_owned(), point.to_owned())]].concat();
        let mut updater = Process::start(&["updater"], &crashing, &log);
        assert!(!updater.ended(PATIENCE).await.success(), "{point}");
    }
    let all = EACH * POINTS.len() as u32;
    let updater = Process::start(&["updater"], &settings, &log);
    until_true("all are settled", PATIENCE, async || {
        let stats = queue.stats().await.unwrap();
        (stats.delayed, stats.leased, stats.dead) == (0, 0, 0)
    })
    .await;
    assert!(updater.terminate().success());
    check(&*world.store, &kept.files(&folder.path().join("media")), 0..all).await;
    assert_eq!(u64::from(all), world.store.counts(NS).await.unwrap().ended);
}

/// A medium whose batch ends the process, again and again: it alone ends dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_medium_that_ends_its_process_is_dead_alone() {
    const POISON: &str = "7";
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), "http://127.0.0.1:1").await;
    let queue = EmbeddedQueue::open(&folder.path().join("jobs.db"), NS, PATIENCE).await.unwrap();
    let mut settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
    settings.extend(variables(&[
        ("media.retry", "50ms"),
        ("media.longest_retry", "200ms"),
        ("updater.buffer_ttl", "20ms"),
        ("updater.lease", "2500ms"),
        ("updater.max_deliveries", "2"),
    ]));
    settings.push(("TWITTER_UPDATER_POISON".to_owned(), POISON.to_owned()));
    let log = folder.path().join("updater.log");
    put_in(&*world.store, &queue, &server, 0..EACH).await;
    let mut deaths = 0;
    let mut updater = Process::start(&["updater"], &settings, &log);
    until_true("the poison is dead, and all others are settled", PATIENCE, async || {
        if !updater.runs() {
            deaths += 1;
            updater = Process::start(&["updater"], &settings, &log);
        }
        let stats = queue.stats().await.unwrap();
        (stats.delayed, stats.leased, stats.dead) == (0, 0, 1)
    })
    .await;
    assert!(updater.terminate().success());
    let counts = world.store.counts(NS).await.unwrap();
    assert_eq!((counts.ended, counts.dead), (u64::from(EACH) - 1, 1), "after {deaths} deaths");
    assert!(deaths >= 2, "{deaths}");
}
