//! The crash matrix: a process ends at each named point as by kill -9, over both queues and both
//! stores; another one takes over, and nothing is lost, doubled or left behind.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::base::failpoint::POINTS;
use twitter_updater::engine::queue::Incoming;
use twitter_updater::model::post::TweetId;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Fault, SimulatorOptions};

use crate::support::accounts_of_posts::{PROFILES, accounts, accounts_in, assert_accounts_of};
use crate::support::census::{Census, assert_answers_are_in_order, census};
use crate::support::community::{self, COMMUNITY};
use crate::support::lists::{self, LISTS, compare};
use crate::support::process::{Process, run_with_input, text, variables};
use crate::support::promoter::Promoter;
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const TWEETS: u32 = 240;
const WITHIN: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;
/// The most followers of an account.
const LONGEST: u64 = 500;

/// By a schedule, or with the accounts of the posts and their lists of followers,
const ACCOUNTS: &str = "accounts and lists";
/// or with a community that grows by the posts,
const GROWTH: &str = "a community";
/// whose own tasks come by these points.
const OF_A_COMMUNITY: [&str; 7] =
    ["after_claim", "after_answer", "before_commit", "after_commit", "after_lives", "before_settle", "after_settle"];
/// Accounts of that network.
const PEOPLE: u64 = 200;

async fn survives(backends: Backends, run: &str) {
    let mut points = if run == GROWTH { OF_A_COMMUNITY.to_vec() } else { POINTS.to_vec() };
    // Posts and accounts come by one commit alone.
    points.retain(|point| matches!(run, GROWTH | ACCOUNTS) || *point != "after_lives");
    for point in &points {
        survives_at(backends, run, point).await;
    }
    println!("{backends:?}, {run}: {} crashes survived, one at each of {points:?}", points.len());
}

async fn survives_at(backends: Backends, run: &str, point: &str) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        latency: Duration::from_millis(60), // more than it takes to be in the middle of it
        jitter: Duration::from_millis(20),
        calls_per_window: 0,
        missing_share: 0.05,
        growth: Duration::from_secs(86_400),
        accounts_since: wall_ms() - 3_600_000,
        follow_changes: Duration::from_secs(1),
        most_followers: LONGEST,
        ..SimulatorOptions::default()
    };
    let options = match run {
        GROWTH => SimulatorOptions { communities: true, accounts: PEOPLE, ..options },
        _ => options,
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(match run {
        GROWTH => community::settings(),
        ACCOUNTS => variables(&[
            ("accounts.collect", "true"),
            ("accounts.schedule", if backends.redis { "adaptive" } else { "silence" }),
            ("accounts.from_posts", "author, mentioned"),
            ("accounts.active", "1s"),
            ("accounts.idle", "1s"),
            ("accounts.frozen", "1s"),
        ]),
        schedule => variables(&[("schedule", schedule)]),
    });
    if run == ACCOUNTS {
        world.settings.extend(lists::settings());
        world.settings.extend(variables(&[("relations.page", "100"), ("relations.revisit", "3s")]));
    }
    let seeds: Vec<String> = (0..PEOPLE / 10).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    if run == GROWTH {
        community::seed(&world, community::NAME, &seeds);
    }
    let now = wall_ms();
    let ids: Vec<String> = (0..TWEETS).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).collect();
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();

    match point {
        "after_record" => {
            let output = run_with_input(
                &["enqueue", "-"],
                &world.with("TWITTER_UPDATER_CRASH_AT", point),
                ids.join("\n").as_bytes(),
            );
            assert_eq!(output.status.signal(), Some(SIGABRT), "{}", text(&output.stderr));
            let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        "before_accept" => {
            let incoming: Vec<Incoming> = ids.iter().map(|id| Incoming { member: id.clone(), created_at: 0 }).collect();
            world.queue.add_incoming(&incoming).await.unwrap();
        }
        _ => {
            let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    let is_release = point.ends_with("_release");
    if point != "after_record" {
        if is_release {
            // What nobody answered is given back.
            api.inject(Fault::Status { status: 503, code: Some(130) }, 1);
        }
        // The second time it comes by: others are in flight, some are done.
        let at = if is_release || point == "before_accept" { point.to_owned() } else { format!("{point}:2") };
        let mut settings = world.with("TWITTER_UPDATER_CRASH_AT", &at);
        if run == GROWTH {
            settings.push(("TWITTER_UPDATER_FAIL_IN".to_owned(), COMMUNITY.to_owned()));
        }
        let mut doomed = Process::start(&["updater"], &settings, &log);
        let status = doomed.ended(WITHIN).await;
        assert_eq!(status.signal(), Some(SIGABRT), "{point}: {status}\n{}", logged());
        assert!(logged().contains("this variable makes the process fail"), "{point}:\n{}", logged());
    }

    let died = wall_ms();
    let mut heir = Process::start(&["updater"], &world.settings, &log);
    until_true(&format!("{point}: every tweet is updated by the heir"), WITHIN, async || {
        assert!(heir.runs(), "{point}:\n{}", logged());
        // What the dead one was draining is the heir's after ten seconds.
        world.all_fresh(&ids, died).await && world.queue.stats().await.unwrap().incoming == 0
    })
    .await;
    if run == ACCOUNTS {
        until_true(&format!("{point}: every account is looked up by the heir"), WITHIN, async || {
            let accounts = accounts(&world).await;
            !accounts.is_empty() && world.all_fresh_in(PROFILES, &accounts, died).await
        })
        .await;
        lists::all_read(point, WITHIN, &world, &accounts_in(LISTS, &world).await, died).await;
    }
    if run == GROWTH {
        let judged = async || community::is_all_judged(&world, died).await;
        until_true(&format!("{point}: every account is judged by the heir"), WITHIN, judged).await;
    }
    let status = heir.terminate();
    assert!(status.success(), "{point}: {status}\n{}", logged());
    if run == ACCOUNTS {
        for namespace in [PROFILES, LISTS] {
            assert_accounts_of(namespace, &ids, &world, folder.path(), 201, point).await;
        }
        compare(&api, &world, &accounts_in(LISTS, &world).await).await;
    }
    if run == GROWTH {
        community::assert_grown(&world, folder.path(), &seeds, &ids, point).await;
    }

    let all = usize::try_from(TWEETS).unwrap();
    let found = census(&*world.queue, &*world.store, &ids).await;
    assert_eq!(found, Census { delayed: all - found.ended, ended: found.ended, ..Census::default() }, "{point}");
    let stats = world.queue.stats().await.unwrap();
    assert_eq!(
        (stats.delayed, stats.incoming),
        ((all - found.ended) as u64, 0),
        "{point}: nothing but what was put in"
    );
    assert_answers_are_in_order(&*world.store, &ids).await;
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_accounts_of_the_posts_and_their_lists_on_redis_and_postgres() {
    survives(Backends { redis: true, postgres: true }, ACCOUNTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_accounts_of_the_posts_and_their_lists_embedded() {
    survives(Backends { redis: false, postgres: false }, ACCOUNTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_community_on_redis_and_postgres() {
    survives(Backends { redis: true, postgres: true }, GROWTH).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_community_embedded() {
    survives(Backends { redis: false, postgres: false }, GROWTH).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_and_postgres() {
    survives(Backends { redis: true, postgres: true }, "age").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_and_sqlite() {
    survives(Backends { redis: true, postgres: false }, "age").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_queue_and_postgres() {
    survives(Backends { redis: false, postgres: true }, "age").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_queue_and_sqlite() {
    survives(Backends { redis: false, postgres: false }, "age").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_the_adaptive_schedule() {
    survives(Backends { redis: true, postgres: true }, "adaptive").await;
}

/// One process promotes all the time; workers end at the points around a settle, one after the other.
async fn promotes_survive(redis: bool) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions {
        latency: Duration::from_millis(60),
        jitter: Duration::from_millis(20),
        calls_per_window: 0,
        missing_share: 0.0,
        growth: Duration::from_secs(86_400),
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let world = World::new(Backends { redis, postgres: false }, folder.path(), &api.base_url()).await;
    let now = wall_ms();
    let ids: Vec<String> = (0..TWEETS).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).collect();
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let promoter = Promoter::start(world.queue.clone(), ids.clone());
    for point in ["after_claim", "before_settle", "after_settle", "before_release", "after_release"] {
        if point.ends_with("_release") {
            api.inject(Fault::Status { status: 503, code: Some(130) }, 1);
        }
        let mut doomed = Process::start(&["updater"], &world.with("TWITTER_UPDATER_CRASH_AT", point), &log);
        let status = doomed.ended(WITHIN).await;
        assert_eq!(status.signal(), Some(SIGABRT), "{point}: {status}\n{}", logged());
    }
    let died = wall_ms();
    let mut heir = Process::start(&["updater"], &world.settings, &log);
    until_true("every tweet is updated by the heir", WITHIN, async || {
        assert!(heir.runs(), "{}", logged());
        world.all_fresh(&ids, died).await
    })
    .await;
    let answers = promoter.stop().await;
    println!("redis {redis}: {answers:?}");
    assert!(answers.moved > 0 && answers.noted > 0 && answers.others == 0, "{answers:?}");
    let status = heir.terminate();
    assert!(status.success(), "{status}\n{}", logged());

    let found = census(&*world.queue, &*world.store, &ids).await;
    assert_eq!(found, Census { delayed: TWEETS as usize, ..Census::default() });
    let stats = world.queue.stats().await.unwrap();
    assert_eq!(stats.delayed, u64::from(TWEETS), "nothing but what was put in");
    assert_eq!(notes_left(&world, folder.path()).await, 0, "each note ends with a lease");
    assert_answers_are_in_order(&*world.store, &ids).await;
    api.stop().await;
}

/// Notes of promotes in the queue, looked at behind its back.
async fn notes_left(world: &World, folder: &std::path::Path) -> i64 {
    if let Some(redis) = &world.redis {
        let mut raw = redis.connection().await;
        return redis::cmd("HLEN").arg("{tweet:update}:promoted").query_async(&mut raw).await.unwrap();
    }
    let file = sqlx::SqlitePool::connect(&format!("sqlite://{}", folder.join("jobs.db").display())).await.unwrap();
    let sql = "SELECT count(*) FROM queue_job WHERE promoted_due IS NOT NULL OR promoted_lane IS NOT NULL";
    sqlx::query_scalar(sql).fetch_one(&file).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_another_promotes_on_redis() {
    promotes_survive(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_another_promotes_on_the_embedded_queue() {
    promotes_survive(false).await;
}
