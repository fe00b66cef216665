//! A worker that is stopped past its lease and wakes up when another has done its work: what it says then
//! changes nothing, and is counted.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{NewJob, Place};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Fault, SimulatorOptions};

use crate::support::census::{Census, assert_answers_are_in_order, census};
use crate::support::process::Process;
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const TWEETS: usize = 100;
const WITHIN: Duration = Duration::from_secs(60);

/// Where it is stopped: it holds the ids, and they are done by another meanwhile.
const POINTS: [&str; 6] =
    ["after_claim", "after_answer", "before_commit", "after_commit", "before_settle", "before_release"];

async fn changes_nothing(redis: bool) {
    for point in POINTS {
        while !changes_nothing_after(point, redis).await {
            println!("{point}: it was stopped with the file's lock in its hand, once more");
        }
    }
    println!("redis {redis}: {} zombies changed nothing, stopped at {POINTS:?}", POINTS.len());
}

/// Answers `false` where its beat, say, was just writing to the queue's file when it was stopped: then
/// nobody gets at the file.
async fn changes_nothing_after(point: &str, redis: bool) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        calls_per_window: 0,
        missing_share: 0.0,
        growth: Duration::from_secs(3_600),
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    // One that is stopped in the middle of a write to a SQLite file keeps everybody from it: PostgreSQL.
    let mut world = World::new(Backends { redis, postgres: true }, folder.path(), &api.base_url()).await;
    world.settings = world.with("TWITTER_UPDATER__TWEET_AGE", "30d: 1h");
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();

    let now = wall_ms();
    let ids: Vec<String> =
        (0..).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).take(TWEETS).collect();
    let lane = Lane::new("30d", Duration::from_secs(3_600));
    let jobs: Vec<NewJob> = ids.iter().map(|id| NewJob { id: id.clone(), lane: lane.clone(), due: 0.into() }).collect();
    world.queue.schedule(&jobs).await.unwrap();

    if point == "before_release" {
        api.inject(Fault::Status { status: 503, code: Some(130) }, 1);
    }
    let mut zombie = Process::start(&["updater"], &world.with("TWITTER_UPDATER_STOP_AT", point), &log);
    until_true(&format!("{point}: it is stopped"), WITHIN, async || {
        assert!(zombie.runs(), "{point}:\n{}", logged());
        zombie.is_stopped()
    })
    .await;
    if !redis && world.queue.pause(None).await.is_err() {
        return false;
    }
    let stopped = wall_ms();
    assert_eq!(world.queue.stats().await.unwrap().leased, TWEETS as u64, "{point}: it holds all of them");

    let mut heir = Process::start(&["updater"], &world.settings, &log);
    until_true(&format!("{point}: the other has updated all"), WITHIN, async || {
        assert!(heir.runs(), "{point}:\n{}", logged());
        world.all_fresh(&ids, stopped).await && world.queue.stats().await.unwrap().leased == 0
    })
    .await;
    let places = world.queue.locate(&ids).await.unwrap();
    let standings = world.store.standing(NAMESPACE, &ids).await.unwrap();
    assert!(
        places.iter().all(|places| matches!(&places[..], [Place::Delayed { due, .. }] if *due > stopped + 3_000_000))
    );

    zombie.signal("CONT");
    until_true(&format!("{point}: what it said late is counted"), WITHIN, async || {
        assert!(zombie.runs(), "{point}:\n{}", logged());
        world.queue.stats().await.unwrap().counters.get("lost").copied().unwrap_or(0) >= TWEETS as i64
    })
    .await;
    assert_eq!(world.queue.locate(&ids).await.unwrap(), places, "{point}: it moved something");
    assert_eq!(world.store.standing(NAMESPACE, &ids).await.unwrap(), standings, "{point}: it overwrote something");
    for process in [zombie, heir] {
        let status = process.terminate();
        assert!(status.success(), "{point}: {status}\n{}", logged());
    }
    let found = census(&*world.queue, &*world.store, &ids).await;
    assert_eq!(found, Census { delayed: TWEETS, ..Census::default() }, "{point}");
    assert_answers_are_in_order(&*world.store, &ids).await;
    api.stop().await;
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    changes_nothing(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_queue() {
    changes_nothing(false).await;
}
