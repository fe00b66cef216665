//! What is stored of lists is what happened: each interval contains its true moment, through kills at each point, a wiped
//! queue, and cursors that the network no longer accepts.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::Place;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use crate::support::census::{Census, census};
use crate::support::lists::{self, LISTS, compare};
use crate::support::process::{Process, run, text, variables};
use crate::support::wait::until;
use crate::support::world::{Backends, World};

/// Owners of lists: account 0 has the longest.
const OWNERS: u64 = 24;
const LONGEST: u64 = 900;
const WITHIN: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;

async fn api(cursors_last: Duration) -> Running {
    let options = SimulatorOptions {
        latency: Duration::from_millis(5),
        jitter: Duration::from_millis(5),
        calls_per_window: 0,
        accounts: 2_000,
        accounts_since: wall_ms() - 3_600_000,
        follow_changes: Duration::from_millis(400),
        most_followers: LONGEST,
        cursors_last,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

async fn world(backends: Backends, folder: &std::path::Path, api: &Running) -> (World, Vec<String>) {
    let mut world = World::new(backends, folder, &api.base_url()).await;
    world.settings.extend(lists::settings());
    world.settings.extend(variables(&[("relations.page", "100")]));
    let owners: Vec<String> = (0..OWNERS).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    lists::enqueue(&world, LISTS, &owners);
    (world, owners)
}

async fn is_the_truth(redis: bool) {
    let folder = tempfile::tempdir().unwrap();
    // Shorter than the longest list takes, now and then.
    let api = api(Duration::from_millis(300)).await;
    let (world, owners) = world(Backends { redis, postgres: redis }, folder.path(), &api).await;
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let updater = || Process::start(&["updater"], &world.settings, &log);
    let mut processes = vec![updater(), updater()];
    lists::all_read("at first", WITHIN, &world, &owners, 0).await;
    for kill in 0..20 {
        processes.remove(0).kill();
        processes.push(updater());
        if kill % 5 == 2 {
            lists::all_read("after kills", WITHIN, &world, &owners, wall_ms()).await;
        }
        if let (10, Some(redis)) = (kill, &world.redis) {
            let mut raw = redis.connection().await;
            redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
            let output = run(&["rebuild"], &world.settings);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    lists::all_read("at last", WITHIN, &world, &owners, wall_ms()).await;
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }
    let found = compare(&api, &world, &owners).await;
    println!("redis {redis}: as it was, through 20 kills: {found:?}");
    assert!(found.edges > 1_000 && found.ended > 50, "{found:?}");
    let queue = world.queue_of(folder.path(), LISTS).await;
    let found = census(&*queue, &*world.store, &owners).await;
    assert_eq!(found.delayed + found.leased, owners.len(), "{found:?}");
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_kills_and_a_wiped_queue_on_redis_and_postgres() {
    is_the_truth(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_kills_embedded() {
    is_the_truth(false).await;
}

/// The process ends at each point of a page's way; another goes on with the page that is next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_at_any_point_of_a_page_loses_and_doubles_nothing() {
    for point in [
        "after_permit",
        "after_claim",
        "after_answer",
        "before_commit",
        "after_commit",
        "after_lives",
        "before_settle",
        "after_settle",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let api = api(Duration::ZERO).await;
        let (world, owners) = world(Backends { redis: false, postgres: false }, folder.path(), &api).await;
        let log = folder.path().join("updater.log");
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        let crash_at = format!("{point}:4");
        let mut doomed = Process::start(&["updater"], &world.with("TWITTER_UPDATER_CRASH_AT", &crash_at), &log);
        let status = doomed.ended(WITHIN).await;
        assert_eq!(status.signal(), Some(SIGABRT), "{point}: {status}\n{}", logged());
        let heir = Process::start(&["updater"], &world.settings, &log);
        lists::all_read(point, WITHIN, &world, &owners, 0).await;
        lists::all_read(point, WITHIN, &world, &owners, wall_ms()).await;
        let status = heir.terminate();
        assert!(status.success(), "{point}: {status}\n{}", logged());
        compare(&api, &world, &owners).await;
        let queue = world.queue_of(folder.path(), LISTS).await;
        let found = census(&*queue, &*world.store, &owners).await;
        assert_eq!(found, Census { delayed: owners.len(), ..Census::default() }, "{point}");
        api.stop().await;
    }
}

/// The crawl has ended in the store, and its reader dies before the queue hears of it: the next reader settles it, without a call.
async fn is_read_once(redis: bool) {
    for point in ["after_commit", "after_lives", "before_settle"] {
        let folder = tempfile::tempdir().unwrap();
        let api = api(Duration::ZERO).await;
        let mut world = World::new(Backends { redis, postgres: redis }, folder.path(), &api.base_url()).await;
        world.settings.extend(lists::settings());
        world.settings.extend(variables(&[("relations.revisit", "1h")]));
        let owners = [api.people().id(&Provider::Twitter, OWNERS)];
        lists::enqueue(&world, LISTS, &owners);
        let log = folder.path().join("updater.log");
        let crash_at = format!("{point}:1");
        let mut doomed = Process::start(&["updater"], &world.with("TWITTER_UPDATER_CRASH_AT", &crash_at), &log);
        let status = doomed.ended(WITHIN).await;
        assert_eq!(status.signal(), Some(SIGABRT), "{point}: {status}");
        let heir = Process::start(&["updater"], &world.settings, &log);
        let queue = world.queue_of(folder.path(), LISTS).await;
        until("the list waits for its next visit", WITHIN, async || {
            let places = queue.locate(&owners).await.unwrap().remove(0);
            let waits = |place: &Place| matches!(place, Place::Delayed { due, .. } if *due > wall_ms() + 60_000);
            places.iter().any(waits).then_some(())
        })
        .await;
        assert!(heir.terminate().success(), "{point}");
        let crawls = world.edges.crawls(LISTS, &owners[0], 9).await.unwrap();
        assert!(matches!(&crawls[..], [only] if only.pages == 1), "{point}: {crawls:?}");
        api.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_that_ended_is_not_read_again_embedded() {
    is_read_once(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_that_ended_is_not_read_again_on_redis_and_postgres() {
    is_read_once(true).await;
}
