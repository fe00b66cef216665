//! What is stored of lists is what happened: each interval contains its true moment, through kills at each point, a wiped
//! queue, and cursors that the network no longer accepts.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, SimulatorOptions};
use twitter_updater::store::{CrawlRecord, Edge, EdgeChange};

use crate::support::census::{Census, census};
use crate::support::process::{Process, run, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const LISTS: &str = "followers:twitter";
/// Owners of lists: account 0 has the longest.
const OWNERS: u64 = 24;
const LONGEST: u64 = 900;
const WITHIN: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;
/// No follow lasts longer: a round of the longest list, ms.
const LASTS: Millis = 900_000;
/// Clocks of processes and of the network are one, read at different moments, ms.
const SLACK: Millis = 5;

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
    world.settings.extend(variables(&[
        ("relations.collect", "followers"),
        ("relations.revisit", "1s"),
        ("relations.complete_every", "0s"),
        ("relations.shrink", "1"),
        ("relations.page", "100"),
    ]));
    let owners: Vec<String> = (0..OWNERS).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    let output = run_with_input(&["enqueue", "--pipeline", LISTS, "-"], &world.settings, owners.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    (world, owners)
}

/// The newest complete crawl of a list.
async fn complete(world: &World, owner: &str) -> Option<CrawlRecord> {
    let crawls = world.edges.crawls(LISTS, owner, 20).await.unwrap();
    crawls.into_iter().find(|crawl| crawl.ended.as_deref() == Some("complete"))
}

/// Waits until each list was read as a whole since then.
async fn all_read(what: &str, world: &World, owners: &[String], since: Millis) {
    until_true(&format!("{what}: each list is read"), WITHIN, async || {
        for owner in owners {
            if complete(world, owner).await.is_none_or(|crawl| crawl.started_at <= since) {
                return false;
            }
        }
        true
    })
    .await;
}

/// All edges of all lists, open and closed ones.
async fn edges(world: &World) -> Vec<Edge> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let span = (0, Millis::MAX);
        let page = world.edges.edge_changes(LISTS, EdgeChange::Appeared, span, after, 1_000).await.unwrap();
        let Some((place, _)) = page.last() else { return all };
        after = Some(*place);
        all.extend(page.into_iter().map(|(_, edge)| edge));
    }
}

/// Fails where an edge is not as it was, or one is missing; returns how many there are, and how many of them ended.
async fn compare(api: &Running, world: &World, owners: &[String]) -> (usize, usize) {
    let (people, all, until) = (api.people(), edges(world).await, wall_ms());
    let number = |id: &str| people.number(&Provider::Twitter, id).unwrap();
    let mut newest = std::collections::BTreeMap::new();
    for owner in owners {
        newest.insert(owner.clone(), complete(world, owner).await.unwrap());
    }
    for edge in &all {
        let truth =
            people.follows().between(number(&edge.member), number(&edge.owner), edge.appeared_by - LASTS, until);
        let began = |from: Millis| {
            edge.appeared_after.is_none_or(|after| from > after - SLACK) && from <= edge.appeared_by + SLACK
        };
        assert!(truth.iter().any(|follow| began(follow.from)), "no follow began then: {edge:?} of {truth:?}");
        match (edge.vanished_after, edge.vanished_by) {
            (Some(after), Some(by)) => {
                let ended = |until: Millis| until > after - SLACK && until <= by + SLACK;
                assert!(truth.iter().any(|follow| ended(follow.until)), "no follow ended then: {edge:?} of {truth:?}");
            }
            (None, None) => {
                let read = newest[&edge.owner].started_at;
                let is_there = truth.iter().any(|follow| follow.until > read - SLACK);
                assert!(is_there, "open, and it ended before the last complete crawl: {edge:?} of {truth:?}");
            }
            other => panic!("half an end: {other:?}"),
        }
    }
    // Nothing is closed that was there all the time.
    let open: BTreeSet<(&str, &str)> = all
        .iter()
        .filter(|edge| edge.vanished_by.is_none())
        .map(|edge| (edge.owner.as_str(), edge.member.as_str()))
        .collect();
    assert_eq!(open.len(), all.iter().filter(|edge| edge.vanished_by.is_none()).count(), "one open edge a pair");
    for owner in owners {
        let crawl = &newest[owner];
        let ended = crawl.ended_at.unwrap();
        let at_its_start =
            people.follows().followers(number(owner), crawl.started_at - SLACK, crawl.started_at - SLACK);
        for follow in at_its_start.filter(|follow| follow.holds(ended + SLACK)) {
            let member = people.id(&Provider::Twitter, follow.follower);
            let is_told = open.contains(&(owner.as_str(), member.as_str())) || !follow.holds(until);
            assert!(is_told, "{follow:?} held through the last complete crawl {crawl:?}, and is not open");
        }
    }
    (all.len(), all.iter().filter(|edge| edge.vanished_by.is_some()).count())
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
    all_read("at first", &world, &owners, 0).await;
    for kill in 0..20 {
        processes.remove(0).kill();
        processes.push(updater());
        if kill % 5 == 2 {
            all_read("after kills", &world, &owners, wall_ms()).await;
        }
        if let (10, Some(redis)) = (kill, &world.redis) {
            let mut raw = redis.connection().await;
            redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
            let output = run(&["rebuild"], &world.settings);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    all_read("at last", &world, &owners, wall_ms()).await;
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }
    let (all, ended) = compare(&api, &world, &owners).await;
    let mut restarts = 0;
    for owner in &owners {
        let crawls = world.edges.crawls(LISTS, owner, 1_000).await.unwrap();
        restarts += crawls.iter().filter(|crawl| crawl.ended.as_deref() == Some("stale")).count();
    }
    println!("redis {redis}: {all} edges, {ended} of them ended, as it was; {restarts} crawls began again, 20 kills");
    assert!(all > 1_000 && ended > 50, "{all} {ended}");
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
        all_read(point, &world, &owners, 0).await;
        all_read(point, &world, &owners, wall_ms()).await;
        let status = heir.terminate();
        assert!(status.success(), "{point}: {status}\n{}", logged());
        compare(&api, &world, &owners).await;
        let queue = world.queue_of(folder.path(), LISTS).await;
        let found = census(&*queue, &*world.store, &owners).await;
        assert_eq!(found, Census { delayed: owners.len(), ..Census::default() }, "{point}");
        api.stop().await;
    }
}
