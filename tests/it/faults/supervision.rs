//! A task of an updater panics, or hangs: it is begun anew, alone. Nothing else stops, nothing is lost or doubled, and everybody
//! can ask what each task is doing.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::Incoming;
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::accounts_of_posts::{PROFILES, accounts, assert_accounts_of};
use crate::support::census::{Census, assert_answers_are_in_order, census};
use crate::support::process::{run_with_input, text, variables};
use crate::support::role::Role;
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const TWEETS: u32 = 150;
const WITHIN: Duration = Duration::from_secs(60);
const POSTS: &str = "tweet:update";

/// What is done to a process.
struct Case {
    /// The failpoint, and how often.
    fails: (&'static str, &'static str),
    /// In the tasks of that pipeline.
    within: &'static str,
    /// The task that it hits: a loop, or one by its name.
    task: &'static str,
    cause: &'static str,
    times: usize,
}

/// Restarts of such tasks, as the metrics count them: those that are meant, and all.
async fn restarts(updater: &Role, case: &Case) -> (usize, usize) {
    let metrics = updater.get("/metrics").await.1;
    let lines = metrics.lines().filter(|line| line.starts_with("twitter_updater_task_restarts_total{"));
    let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize;
    let is_meant = |line: &&str| {
        let has = |label: &str, value: &str| line.contains(&format!("{label}=\"{value}"));
        has("namespace", case.within) && has("task", case.task) && has("cause", case.cause)
    };
    (lines.clone().filter(is_meant).map(count).sum(), lines.map(count).sum())
}

async fn goes_on(case: Case) {
    let folder = tempfile::tempdir().unwrap();
    let now = wall_ms();
    let options = SimulatorOptions {
        calls_per_window: 0,
        missing_share: 0.0,
        growth: Duration::from_secs(86_400),
        accounts_since: now - 3_600_000,
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let backends = Backends { redis: false, postgres: false };
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("accounts.collect", "true"),
        ("accounts.from_posts", "author"),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("supervision.silent_after", "3s"), // longer than the lease of 2.5 s
    ]));
    let ids: Vec<String> = (0..TWEETS).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).collect();
    let (given, dropped) = ids.split_at(100);
    let output = run_with_input(&["enqueue", "-"], &world.settings, given.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let incoming: Vec<Incoming> = dropped.iter().map(|id| Incoming { member: id.clone(), created_at: 0 }).collect();
    world.queue.add_incoming(&incoming).await.unwrap();

    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let mut settings = world.with(case.fails.0, case.fails.1);
    settings.push(("TWITTER_UPDATER_FAIL_IN".to_owned(), case.within.to_owned()));
    let mut updater = Role::start("updater", &settings, &log).await;
    until_true("the task was begun anew as often as it failed", WITHIN, async || {
        assert!(updater.process.runs(), "{}", logged());
        restarts(&updater, &case).await.0 == case.times
    })
    .await;
    // The page would not be green: the worker tells of it.
    let queue = world.queue_of(folder.path(), case.within).await;
    until_true("the worker tells of it", WITHIN, async || {
        let stats = queue.stats().await.unwrap();
        stats.workers.iter().any(|worker| worker.failing().is_some_and(|why| why.contains(case.task)))
    })
    .await;
    let failed = wall_ms();
    until_true("everything is looked up since", WITHIN, async || {
        assert!(updater.process.runs(), "{}", logged());
        let accounts = accounts(&world).await;
        world.all_fresh(&ids, failed).await
            && !accounts.is_empty()
            && world.all_fresh_in(PROFILES, &accounts, failed).await
    })
    .await;

    // Everybody can ask what is going on, and nothing ends by that.
    for times in 1..=2 {
        updater.process.signal("QUIT");
        until_true("it says what each task is doing", WITHIN, async || logged().matches("SIGQUIT: ").count() == times)
            .await;
    }
    let said = logged();
    let asked = said.rsplit("SIGQUIT: ").next().unwrap();
    for task in ["loop 1: ", "loop 2: ", "heartbeat: ", "incoming: ", "maintenance: "] {
        for pipeline in [POSTS, PROFILES] {
            let told =
                asked.lines().any(|line| line.starts_with(&format!("{pipeline} {task}")) && line.ends_with(" s"));
            assert!(told, "{pipeline} {task}: {asked}");
        }
    }
    assert!(asked.contains("process configuration: waits, for "), "{asked}");
    assert_eq!(said.matches("a task is restarted, alone").count(), case.times, "{said}");
    let (meant, all) = restarts(&updater, &case).await;
    assert_eq!((meant, all), (case.times, case.times), "nothing else was begun anew");
    let status = updater.process.terminate();
    assert!(status.success(), "{status}\n{}", logged());
    let found = census(&*world.queue, &*world.store, &ids).await;
    assert_eq!(found, Census { delayed: ids.len(), ..Census::default() });
    assert_answers_are_in_order(&*world.store, &ids).await;
    assert_accounts_of(PROFILES, &ids, &world, folder.path(), 1, case.fails.1).await;
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_panics_is_begun_anew_alone() {
    let fails = ("TWITTER_UPDATER_PANIC_AT", "after_answer:3");
    goes_on(Case { fails, within: PROFILES, task: "loop", cause: "panic", times: 3 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_beside_the_loops_that_panics_is_begun_anew_alone() {
    let fails = ("TWITTER_UPDATER_PANIC_AT", "before_accept:2");
    goes_on(Case { fails, within: POSTS, task: "incoming", cause: "panic", times: 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_hangs_is_begun_anew_alone() {
    let fails = ("TWITTER_UPDATER_HANG_AT", "after_claim:2");
    goes_on(Case { fails, within: PROFILES, task: "loop", cause: "silence", times: 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_beside_the_loops_that_hangs_is_begun_anew_alone() {
    let fails = ("TWITTER_UPDATER_HANG_AT", "before_accept:1");
    goes_on(Case { fails, within: POSTS, task: "incoming", cause: "silence", times: 1 }).await;
}
