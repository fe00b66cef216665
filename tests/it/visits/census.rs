//! Real updaters visit simulated accounts that post by rates and hours of their own: no post is lost, none is doubled, and an
//! account that is followed no more is left alone; through kills, a wiped queue, and accounts that change their parts.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::Place;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use crate::support::census::{Census, census};
use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::visits::{VISITS, all_visited, change, posts_are_stored};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const ACCOUNTS: u64 = 60;
const WITHIN: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;

async fn api() -> Running {
    let options = SimulatorOptions {
        latency: Duration::from_millis(5),
        jitter: Duration::from_millis(5),
        calls_per_window: 0,
        accounts: 1_000,
        accounts_since: wall_ms() - 60_000,
        // A day of half a minute, with up to a hundred posts.
        posts_per_second: 15.0,
        posting_day: Duration::from_secs(30),
        posts_late: Duration::from_millis(300),
        missing_share: 0.0,
        ..SimulatorOptions::default()
    };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

async fn world(backends: Backends, folder: &Path, api: &Running, parts: &str) -> World {
    let mut world = World::new(backends, folder, &api.base_url()).await;
    world.settings.extend(variables(&[
        ("visits.collect", "true"),
        ("visits.every", "2s"),
        ("visits.shortest", "1s"),
        ("visits.longest", "6s"),
        ("visits.parts", parts),
        // Found posts are not looked up again: the visits have the calls.
        ("tweet_age", "1h: 30m"),
    ]));
    world
}

fn accounts(api: &Running, numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| api.people().id(&Provider::Twitter, number)).collect()
}

async fn nothing_is_lost(redis: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (api, began) = (api().await, wall_ms());
    let world = world(Backends { redis, postgres: redis }, folder.path(), &api, "1").await;
    let accounts = accounts(&api, 0..ACCOUNTS);
    let told = change("follow", &world.settings, &accounts);
    assert_eq!((&told["changed"], &told["unchanged"]), (&ACCOUNTS.into(), &0.into()));
    let told = change("follow", &world.settings, &accounts);
    assert_eq!((&told["changed"], &told["unchanged"]), (&0.into(), &ACCOUNTS.into()));

    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let updater = || Process::start(&["updater"], &world.settings, &log);
    let mut processes = vec![updater(), updater()];
    all_visited(WITHIN, "at first", &world, &[VISITS], &accounts, 0).await;
    for kill in 0..10 {
        processes.remove(0).kill();
        processes.push(updater());
        if kill % 5 == 2 {
            all_visited(WITHIN, "after kills", &world, &[VISITS], &accounts, wall_ms()).await;
        }
        if let (5, Some(redis)) = (kill, &world.redis) {
            let mut raw = redis.connection().await;
            redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await.unwrap();
            let output = run(&["rebuild"], &world.settings);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    // Ten are followed no more: they are not visited from then on, also after a rebuild.
    let (left, stay) = accounts.split_at(10);
    assert_eq!(change("unfollow", &world.settings, left)["changed"], 10);
    let listed = run(&["accounts", "list"], &world.settings);
    let listed: BTreeSet<String> = text(&listed.stdout).lines().map(str::to_owned).collect();
    assert_eq!(listed, stay.iter().cloned().collect());
    let objects = run(&["accounts", "list", "--json"], &world.settings);
    let object: serde_json::Value = serde_json::from_str(text(&objects.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((stay.contains(&object["account"].as_str().unwrap().to_owned()), &object["part"]), (true, &0.into()));
    let to = wall_ms();
    all_visited(WITHIN, "at last", &world, &[VISITS], stay, to + 1_000).await;
    let output = run(&["rebuild"], &world.settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let known = world.store.standing(VISITS, left).await.unwrap();
    all_visited(WITHIN, "once more", &world, &[VISITS], stay, wall_ms()).await;
    assert_eq!(world.store.standing(VISITS, left).await.unwrap(), known, "visited after it was left");
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }
    let posts = posts_are_stored(&api, &world, stay, began, to).await;
    println!("redis {redis}: {posts} posts of {} accounts, none lost, 10 kills", stay.len());
    assert!(posts > 50, "{posts}");
    let queue = world.queue_of(folder.path(), VISITS).await;
    let found = census(&*queue, &*world.store, &accounts).await;
    assert_eq!((found.delayed + found.leased, found.ended), (stay.len(), left.len()), "{found:?}");
    // Each post came by a visit of its author.
    let ids: Vec<String> = api.timeline(&stay[0], began, to).iter().map(|post| post.id.to_string()).collect();
    if let Some(id) = ids.first() {
        let ways = world.store.ways(NAMESPACE, id).await.unwrap();
        assert_eq!((&*ways[0].1.pipeline, &*ways[0].1.source), ("visit", stay[0].as_str()));
    }
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_through_kills_and_a_wiped_queue_on_redis_and_postgres() {
    nothing_is_lost(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_through_kills_embedded() {
    nothing_is_lost(false).await;
}

/// The process ends at each point of a visit; another goes on with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_at_any_point_of_a_visit_loses_and_doubles_nothing() {
    for point in
        ["after_claim", "after_answer", "before_commit", "after_commit", "after_lives", "before_settle", "after_settle"]
    {
        let folder = tempfile::tempdir().unwrap();
        let (api, began) = (api().await, wall_ms());
        let world = world(Backends { redis: false, postgres: false }, folder.path(), &api, "1").await;
        let accounts = accounts(&api, 0..20);
        change("follow", &world.settings, &accounts);
        let log = folder.path().join("updater.log");
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        let crash_at = format!("{point}:25");
        let mut doomed = Process::start(&["updater"], &world.with("TWITTER_UPDATER_CRASH_AT", &crash_at), &log);
        let status = doomed.ended(WITHIN).await;
        assert_eq!(status.signal(), Some(SIGABRT), "{point}: {status}\n{}", logged());
        let heir = Process::start(&["updater"], &world.settings, &log);
        let to = wall_ms();
        all_visited(WITHIN, point, &world, &[VISITS], &accounts, to + 1_000).await;
        let status = heir.terminate();
        assert!(status.success(), "{point}: {status}\n{}", logged());
        posts_are_stored(&api, &world, &accounts, began, to).await;
        let queue = world.queue_of(folder.path(), VISITS).await;
        let found = census(&*queue, &*world.store, &accounts).await;
        assert_eq!(found, Census { delayed: accounts.len(), ..Census::default() }, "{point}");
        api.stop().await;
    }
}

/// Each process visits one part; all accounts are in the first one, until they are divided while both run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_change_their_part_while_they_are_visited() {
    const PARTS: [&str; 2] = [VISITS, "visits:twitter:p1"];
    let folder = tempfile::tempdir().unwrap();
    let (api, began) = (api().await, wall_ms());
    let world = world(Backends { redis: true, postgres: true }, folder.path(), &api, "2").await;
    let accounts = accounts(&api, 0..ACCOUNTS);
    change("follow", &world.settings, &accounts);
    world.followed.move_to_part(VISITS, 0, &accounts).await.unwrap();
    let log = folder.path().join("updater.log");
    let updater = |part: &str| {
        let here = variables(&[("visits.here", part)]);
        let settings: Variables = world.settings.iter().cloned().chain(here).collect();
        Process::start(&["updater"], &settings, &log)
    };
    let divide = || {
        let output = run(&["accounts", "divide", "--json"], &world.settings);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let parts = async || {
        let parts = world.followed.followed(VISITS, &accounts).await.unwrap();
        let of = |part| parts.iter().filter(|of| **of == Some(part)).count();
        (of(0), of(1))
    };
    assert_eq!(parts().await, (60, 0));
    // Those whose jobs are in the second queue are put into the first one, too.
    let told = divide();
    assert!(told["moved"].as_u64().unwrap() >= 25, "{told}");
    world.followed.move_to_part(VISITS, 0, &accounts).await.unwrap();
    let mut processes = vec![updater("0"), updater("1")];
    until_true("the second part is empty", WITHIN, async || {
        let queue = world.queue_of(folder.path(), PARTS[1]).await;
        queue.locate(&accounts).await.unwrap().iter().all(Vec::is_empty)
    })
    .await;
    let told = divide();
    let (first, second) = parts().await;
    // As much work in each, and not as many accounts.
    let work = |part: usize| told["visits_per_day"][part].as_f64().unwrap();
    assert!(first.min(second) >= 10 && first + second == 60, "{first} {second}: {told}");
    assert!((work(0) / work(1) - 1.0).abs() < 0.1, "{told}");
    assert_eq!(told["accounts"], serde_json::json!([first, second]));
    all_visited(WITHIN, "after the division", &world, &PARTS, &accounts, wall_ms()).await;
    // One dies while all go back.
    processes.remove(1).kill();
    processes.push(updater("1"));
    world.followed.move_to_part(VISITS, 0, &accounts).await.unwrap();
    let told = divide();
    assert!(told["moved"].as_u64().unwrap() > 0, "{told}");
    let to = wall_ms();
    // Each is visited in its own part.
    until_true("each account is visited in its part", WITHIN, async || {
        let mut visited = 0;
        for (part, pipeline) in PARTS.iter().enumerate() {
            let mine = world.followed.followed(VISITS, &accounts).await.unwrap();
            let ids: Vec<String> = accounts
                .iter()
                .zip(mine)
                .filter(|(_, of)| *of == Some(part as i64))
                .map(|(account, _)| account.clone())
                .collect();
            let known = world.store.standing(pipeline, &ids).await.unwrap();
            visited += known.iter().flatten().filter(|known| known.checked_at.is_some_and(|at| at > to + 500)).count();
        }
        visited == accounts.len()
    })
    .await;
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    let posts = posts_are_stored(&api, &world, &accounts, began, to).await;
    println!("{posts} posts of {} accounts in two parts, none lost", accounts.len());
    // Each account waits in one queue.
    let mut waiting = 0;
    for pipeline in PARTS {
        let queue = world.queue_of(folder.path(), pipeline).await;
        waiting += queue.locate(&accounts).await.unwrap().iter().filter(|places| !places.is_empty()).count();
    }
    assert!(waiting >= accounts.len(), "{waiting}");
    api.stop().await;
}

/// Accounts go to another part and come back, while the job of their first visits still waits.
async fn an_account_that_comes_back_to_its_part_is_due_at_once(redis: bool) {
    let folder = tempfile::tempdir().unwrap();
    let api = api().await;
    let mut world = world(Backends { redis, postgres: redis }, folder.path(), &api, "1").await;
    let slow = [("visits.policy", "round-robin"), ("visits.every", "2d"), ("visits.longest", "7d")];
    world.settings.extend(variables(&slow));
    let accounts = accounts(&api, 0..20);
    change("follow", &world.settings, &accounts);
    let log = folder.path().join("updater.log");
    let updater = Process::start(&["updater"], &world.settings, &log);
    all_visited(WITHIN, "at first", &world, &[VISITS], &accounts, 0).await;
    let status = updater.terminate();
    assert!(status.success(), "{status}\n{}", std::fs::read_to_string(&log).unwrap_or_default());

    let queue = world.queue_of(folder.path(), VISITS).await;
    let divide = |parts: &str| {
        let settings = world.settings.iter().cloned().chain(variables(&[("visits.parts", parts)])).collect();
        let output = run(&["accounts", "divide", "--json"], &settings);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["moved"].as_u64().unwrap()
    };
    let due_now = async || {
        let (places, now) = (queue.locate(&accounts).await.unwrap(), wall_ms());
        let is_due = |places: &Vec<Place>| matches!(places[..], [Place::Delayed { due, .. }] if due <= now);
        places.iter().filter(|places| is_due(places)).count() as u64
    };
    assert_eq!(due_now().await, 0, "each waits for two days");
    let moved = divide("2");
    assert!((5..=15).contains(&moved), "{moved}");
    assert_eq!(due_now().await, 0);
    assert_eq!((divide("1"), due_now().await), (moved, moved));
    assert_eq!((divide("1"), due_now().await), (0, moved), "done again, it changes nothing");
    // A wiped queue is rebuilt from the store, which knows it as well.
    queue.forget(&accounts).await.unwrap();
    let output = run(&["rebuild"], &world.settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    until_true("those that came back are due", WITHIN, async || due_now().await == moved).await;
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_comes_back_to_its_part_is_due_at_once_on_redis_and_postgres() {
    an_account_that_comes_back_to_its_part_is_due_at_once(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_comes_back_to_its_part_is_due_at_once_embedded() {
    an_account_that_comes_back_to_its_part_is_due_at_once(false).await;
}

/// A part is given up while its process and that of the other part visit: its accounts are moved, also those whose visit is under
/// way. An account is due once in this time, so every visit more is one that the move has cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_moves_while_it_is_visited_costs_an_account_a_visit_more_at_most() {
    const PARTS: [&str; 2] = [VISITS, "visits:twitter:p1"];
    const MANY: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let api = api().await;
    let mut world = world(Backends { redis: true, postgres: true }, folder.path(), &api, "2").await;
    world.settings.extend(variables(&[
        ("visits.policy", "round-robin"),
        ("visits.every", "1h"),
        ("visits.longest", "1h"),
        // A service that is slow for a second is no reason for a visit more.
        ("updater.lease", "60s"),
        ("updater.save_timeout", "10s"),
        ("lookup.timeout", "10s"),
    ]));
    let accounts = accounts(&api, 0..MANY);
    change("follow", &world.settings, &accounts);
    let log = folder.path().join("updater.log");
    let updater = |part: &str| {
        let here = variables(&[("visits.here", part)]);
        Process::start(&["updater"], &world.settings.iter().cloned().chain(here).collect(), &log)
    };
    let visits_in = async |part: &str| {
        let known = world.store.standing(part, &accounts).await.unwrap();
        known.into_iter().map(|known| known.map_or(0, |known| known.lookups)).collect::<Vec<i64>>()
    };
    let processes = [updater("0"), updater("1")];
    until_true("a third of the second part is visited", WITHIN, async || {
        visits_in(PARTS[1]).await.iter().sum::<i64>() >= MANY as i64 / 6
    })
    .await;
    let one_part = variables(&[("visits.parts", "1")]);
    let settings: Variables = world.settings.iter().cloned().chain(one_part).collect();
    let output = run(&["accounts", "divide", "--json"], &settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let moved = told["moved"].as_u64().unwrap();
    assert!((MANY / 3..MANY * 2 / 3).contains(&moved), "{told}");
    let [first, second] = PARTS;
    until_true("each account is visited in the first part", WITHIN, async || {
        visits_in(first).await.iter().all(|visits| *visits > 0)
    })
    .await;
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    let visits: Vec<i64> = visits_in(first).await.iter().zip(visits_in(second).await).map(|(a, b)| a + b).collect();
    let twice = visits.iter().filter(|visits| **visits == 2).count();
    println!("{MANY} accounts, {moved} of them moved while they were visited: {twice} visited twice");
    assert!(visits.iter().all(|visits| (1..=2).contains(visits)), "{visits:?}");
    assert!(twice as u64 <= moved && twice > 0, "{twice} of {moved}");
    let found = census(&*world.queue_of(folder.path(), first).await, &*world.store, &accounts).await;
    assert_eq!(found, Census { delayed: accounts.len(), ..Census::default() });
    api.stop().await;
}
