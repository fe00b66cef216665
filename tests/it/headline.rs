//! The headline after faults that leave little or nothing to do, with the real processes: it is green only after a good answer.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Endpoint, Fault, Rule, Running, SimulatorOptions, id_of};

use crate::support::lists::{self, LISTS};
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::role::{Role, value};
use crate::support::wait::{until, until_true};
use crate::support::world::{Backends, World};

/// The colour and the cause show within so long after a fault begins.
const BOUND: Duration = Duration::from_secs(15);
/// How long a system may take to be green.
const PATIENCE: Duration = Duration::from_secs(90);
const DAY_MS: i64 = 86_400_000;

struct System {
    folder: TempDir,
    api: Running,
    world: World,
    settings: Variables,
}

impl System {
    async fn new(redis: bool, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options =
            SimulatorOptions { missing_share: 0.0, calls_per_window: 0, accounts: 100, ..SimulatorOptions::default() };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let world = World::new(Backends { redis, postgres: false }, folder.path(), &api.base_url()).await;
        let settings = world.settings.iter().cloned().chain(variables(more)).collect();
        Self { folder, api, world, settings }
    }

    fn log(&self, role: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("{role}.log"))
    }

    fn updater(&self) -> Process {
        Process::start(&["updater"], &self.settings, &self.log("updater"))
    }

    async fn ops(&self) -> Role {
        Role::start("ops", &self.settings, &self.log("ops")).await
    }

    /// Puts in so many posts of that age.
    fn put_in(&self, from: u32, posts: u32, age_ms: i64) -> Vec<String> {
        let at = wall_ms() - age_ms;
        let ids: Vec<String> = (from..from + posts).map(|n| id_of(&Provider::Twitter, at - i64::from(n), n)).collect();
        let output = run_with_input(&["enqueue"], &self.settings, ids.join("\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        ids
    }
}

/// State and sentence of a namespace.
async fn headline(ops: &Role, namespace: &str) -> (String, String) {
    let (_, status) = ops.get(&format!("/status?namespace={namespace}")).await;
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    let word = |name: &str| status["answer"][name].as_str().unwrap_or_default().to_owned();
    (word("state"), word("sentence"))
}

async fn is_green(ops: &Role, namespace: &str, says: &str) {
    until_true(&format!("green: {says}"), PATIENCE, async || {
        let (state, sentence) = headline(ops, namespace).await;
        state == "fresh" && sentence.contains(says)
    })
    .await;
}

/// Waits until the headline has another colour and this cause, then looks for so long: it is not green.
async fn is_not_green(ops: &Role, namespace: &str, says: &str, lasts: Duration) {
    let watch = Stopwatch::start();
    let mut named = false;
    while !named || watch.elapsed() < lasts {
        let (state, sentence) = headline(ops, namespace).await;
        let is_green = state == "fresh";
        named |= !is_green && sentence.contains(says);
        assert!(!named || !is_green, "green again after {:?}: {sentence}", watch.elapsed());
        assert!(named || watch.elapsed() <= BOUND, "not {says:?} within {BOUND:?}: {state}: {sentence}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A list whose page is not answered is asked for again after 5 s, 10 s, 20 s: in between the queue has nothing that is due.
async fn an_idle_system_waits_for_an_answer(redis: bool) {
    let system = System::new(redis, &[("relations.collect", "followers"), ("relations.revisit", "1h")]).await;
    let fault = Fault::Status { status: 503, code: None };
    let ops = system.ops().await;
    let _updater = system.updater();
    is_green(&ops, LISTS, "").await;
    let rule = Rule { at: Endpoint::Relations, ..Rule::from(fault) };
    system.api.faults().add(rule);
    let owner = system.api.people().id(&Provider::Twitter, 3);
    let world = World { settings: system.settings.clone(), ..system.world };
    lists::enqueue(&world, LISTS, std::slice::from_ref(&owner));
    is_not_green(&ops, LISTS, "503", Duration::from_secs(25)).await;
    let page = ops.get("/metrics").await.1;
    assert_eq!(value(&page, &format!("twitter_updater_fresh{{namespace=\"{LISTS}\"}}")), Some(0.0));
    system.api.faults().clear();
    is_green(&ops, LISTS, "").await;
    assert!(!world.edges.crawls(LISTS, &owner, 1).await.unwrap().is_empty(), "green without an answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_system_whose_last_call_failed_is_not_green_redis() {
    an_idle_system_waits_for_an_answer(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_system_whose_last_call_failed_is_not_green_embedded() {
    an_idle_system_waits_for_an_answer(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mass_miss_of_few_posts_is_not_green() {
    let system = System::new(true, &[("tweet_age", "1d: 2s, 30d: 6h")]).await;
    // Too few to be a twentieth of all posts, and all that are looked up.
    system.put_in(0, 600, 9 * DAY_MS);
    system.put_in(600, 25, 3_600_000);
    let ops = system.ops().await;
    let _updater = system.updater();
    is_green(&ops, "tweet:update", "All 625 posts are up to date").await;
    system.api.faults().add(Fault::AllMissing);
    is_not_green(&ops, "tweet:update", "mass-miss alert since", Duration::from_secs(20)).await;
    let exposed = ops.get("/metrics").await.1;
    let gauge = |name: &str| value(&exposed, &format!("twitter_updater_{name}{{namespace=\"tweet:update\"}}"));
    assert_eq!((gauge("wave"), gauge("fresh")), (Some(1.0), Some(0.0)));
    system.api.faults().clear();
    is_green(&ops, "tweet:update", "").await;
}

async fn a_wiped_queue_shows(redis: bool) {
    let system = System::new(redis, &[("tweet_age", "30d: 1h")]).await;
    let ops = system.ops().await;
    let _updater = system.updater();
    let ids = system.put_in(0, 300, DAY_MS);
    is_green(&ops, "tweet:update", "All 300 posts are up to date").await;
    match &system.world.redis {
        Some(server) => redis::cmd("FLUSHALL").exec_async(&mut server.connection().await).await.unwrap(),
        None => system.world.queue.forget(&ids).await.unwrap(),
    }
    is_not_green(&ops, "tweet:update", "the queue is empty, and the store has live posts", BOUND).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_wiped_right_after_the_first_posts_is_not_green_redis() {
    a_wiped_queue_shows(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_wiped_right_after_the_first_posts_is_not_green_embedded() {
    a_wiped_queue_shows(false).await;
}

fn first_line(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_names_the_api_that_it_calls_and_no_secret() {
    let more = [
        ("twitter.bearer_token", "canary-token"),
        ("poll.sources.one.kind", "user"),
        ("poll.sources.one.screen_name", "one"),
    ];
    let system = System::new(true, &more).await;
    let api = format!("simulated API at {}, credentials: app-only", system.api.base_url());
    let ops = system.ops().await;
    let _processes = ["updater", "poll"].map(|role| Process::start(&[role], &system.settings, &system.log(role)));
    for role in ["updater", "poll"] {
        let line =
            until("a first line", BOUND, async || Some(first_line(&system.log(role))).filter(|line| line.len() > 9));
        let line = line.await;
        assert!(line.contains(&api), "{role}: {line}");
    }
    let shows = format!("API: {api}");
    until_true("the page names it", BOUND, async || ops.get("/").await.1.contains(&shows)).await;
    let status = run(&["status"], &system.settings);
    assert!(text(&status.stdout).lines().any(|line| line == shows), "{}", text(&status.stdout));
    // Another server is not called a simulator.
    let elsewhere = system.settings.iter().cloned();
    let elsewhere: Variables = elsewhere.chain(variables(&[("twitter.api", "https://api.example.org")])).collect();
    let log = system.log("elsewhere");
    let _other = Process::start(&["updater"], &elsewhere, &log);
    let line = until("a first line", BOUND, async || Some(first_line(&log)).filter(|line| line.len() > 9)).await;
    assert!(line.contains("https://api.example.org") && !line.contains("simulated"), "{line}");
    for role in ["updater", "poll", "elsewhere", "ops"] {
        let log = std::fs::read_to_string(system.log(role)).unwrap();
        assert!(!log.contains("canary"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_is_measured_and_is_no_rate() {
    let system = System::new(true, &[("tweet_age", "30d: 6h")]).await;
    system.put_in(0, 3_000, DAY_MS);
    let ops = system.ops().await;
    let _updater = system.updater();
    let page = until("all posts are up to date", PATIENCE, async || {
        Some(ops.get("/").await.1).filter(|page| page.contains("All 3,000 posts are up to date"))
    })
    .await;
    assert!(page.contains("bursts included: 3,000 posts arrived, "), "{page}");
    assert!(!page.contains("× the quota") && !page.contains("in the long run"), "{page}");
}

/// An alert looks once in a while, and nobody else: its first look finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_look_at_an_idle_ops_finds_that_nothing_can_be_saved() {
    let system = System::new(true, &[("tweet_age", "30d: 6h")]).await;
    system.put_in(0, 20, DAY_MS);
    let ops = system.ops().await;
    let _updater = system.updater();
    is_green(&ops, "tweet:update", "20 posts").await;
    let mut connection = system.world.redis.as_ref().unwrap().connection().await;
    let refuse = redis::cmd("CONFIG").arg("SET").arg("min-replicas-to-write").arg(1).to_owned();
    let _: () = refuse.query_async(&mut connection).await.unwrap();
    // Without a viewer, ops looks at the store alone, every 5 s.
    tokio::time::sleep(Duration::from_secs(7)).await;
    let (state, sentence) = headline(&ops, "tweet:update").await;
    assert!(state == "stopped" && sentence.contains("nothing can be saved"), "{state}: {sentence}");
    assert!(sentence.contains("NOREPLICAS"), "{sentence}");
}
