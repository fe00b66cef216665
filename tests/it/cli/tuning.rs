//! The configuration is changed under running updaters, as Kubernetes swaps a mounted ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use twitter_updater::base::clock::Stopwatch;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Place, Queue, RedisQueue, WorkerStats};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use super::*;
use crate::support::process::{Process, run_with_input};
use crate::support::redis::TestRedis;
use crate::support::role::Role;
use crate::support::wait::until_true;

/// What a change may take to arrive everywhere.
const SOON: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder as a ConfigMap is mounted: each file is a link to `..data/<name>`, which is a link to a folder of
/// its time, and is swapped by a rename.
struct ConfigMap {
    folder: PathBuf,
    swaps: u32,
}

impl ConfigMap {
    fn new(folder: PathBuf, files: &[(&str, &str)]) -> Self {
        std::fs::create_dir(&folder).unwrap();
        let mut map = Self { folder, swaps: 0 };
        map.swap(files);
        for (name, _) in files {
            std::os::unix::fs::symlink(format!("..data/{name}"), map.folder.join(name)).unwrap();
        }
        map
    }

    /// Other texts, for the same names.
    fn swap(&mut self, files: &[(&str, &str)]) {
        self.swaps += 1;
        let before = std::fs::read_link(self.folder.join("..data")).ok();
        let name = format!("..2026_11_20_10_00_{:02}.1234567890", self.swaps);
        let folder = self.folder.join(&name);
        std::fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(&name, self.folder.join("..data_tmp")).unwrap();
        std::fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data")).unwrap();
        if let Some(before) = before {
            std::fs::remove_dir_all(self.folder.join(before)).unwrap();
        }
    }
}

/// A Redis, an API, tweets, and updaters with one configuration folder.
struct Stage {
    home: Home,
    redis: TestRedis,
    api: Running,
    ids: Vec<String>,
    queue: RedisQueue,
    config: ConfigMap,
    updaters: Vec<Process>,
}

impl Stage {
    async fn new(tweets: u32, updaters: usize, files: &[(&str, &str)]) -> Self {
        let redis = TestRedis::start(&[]);
        let options = SimulatorOptions {
            latency: Duration::from_millis(20),
            calls_per_window: 0,
            missing_share: 0.0,
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let home = Home::new();
        let config = ConfigMap::new(home.path("config"), files);
        let queue = RedisQueue::new(redis.pool(), "tweet:update");
        let mut stage = Self { home, redis, api, ids: young(tweets), queue, config, updaters: Vec::new() };
        let arguments = ["--config", stage.config.folder.to_str().unwrap(), "enqueue"];
        let output = run_with_input(&arguments, &stage.settings(""), stage.ids.join("\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        for number in 0..updaters {
            let arguments = ["--config", stage.config.folder.to_str().unwrap(), "updater"];
            let settings = stage.settings(&format!("updater-{number}"));
            stage.updaters.push(Process::start(&arguments, &settings, &stage.home.path("log")));
        }
        stage
    }

    fn settings(&self, name: &str) -> Variables {
        self.home.settings(&[
            ("queue.backend", "redis"),
            ("queue.redis.url", &self.redis.url),
            ("twitter.api", &self.api.base_url()),
            ("updater.name", name),
        ])
    }

    /// The revision of what the files say now.
    fn revision(&self) -> String {
        let output = run(&["--config", self.config.folder.to_str().unwrap(), "check"], &self.settings("me"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        said.lines().next().unwrap().strip_prefix("# config_revision: ").unwrap().to_owned()
    }

    async fn workers(&self) -> Vec<WorkerStats> {
        self.queue.stats().await.unwrap().workers
    }

    /// Waits until every updater says this of itself.
    async fn all_say(&mut self, within: Duration, what: &str, says: impl Fn(&BTreeMap<String, String>) -> bool) {
        let watch = Stopwatch::start();
        until_true(what, within, async || {
            assert!(self.updaters.iter_mut().all(Process::runs), "{}", log_text(&self.home.path("log")));
            let workers = self.workers().await;
            workers.len() == self.updaters.len() && workers.iter().all(|worker| says(&worker.fields))
        })
        .await;
        println!("{what}: after {:?}", watch.elapsed());
    }

    async fn all_run_by(&mut self, within: Duration, revision: &str) {
        self.all_say(within, revision, |fields| fields["config_revision"] == revision).await;
    }

    async fn until_requests(&self, more: u64) {
        let before = self.api.counters().requests;
        until_true("tweets are looked up", PATIENCE, async || self.api.counters().requests >= before + more).await;
    }

    fn log(&self) -> String {
        log_text(&self.home.path("log"))
    }
}

const BUFFER: &str = "[updater]\nbuffer_ttl = \"50ms\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swapped_config_map_changes_the_intervals_in_every_worker() {
    let files = |ages| [("10-ages.toml", ages), ("20-updater.toml", BUFFER)];
    let mut stage = Stage::new(600, 3, &files("tweet_age = \"1h: 700ms\"\n")).await;
    let before = stage.revision();
    stage.all_run_by(PATIENCE, &before).await;
    stage.until_requests(20).await;

    stage.config.swap(&files("tweet_age = \"2h: 1h\"\n"));
    let after = stage.revision();
    assert_ne!(before, after);
    stage.all_run_by(SOON, &after).await;
    // Each tweet's next update comes by its old interval; the one after that by the new one.
    let by_the_new =
        |place: &Place| matches!(place, Place::Delayed { lane, due } if lane == "2h" && *due > wall_ms() + 50 * MINUTE);
    until_true("every tweet is in the new lane", PATIENCE, async || {
        let places = stage.queue.locate(&stage.ids).await.unwrap();
        places.iter().all(|places| matches!(&places[..], [place] if by_the_new(place)))
    })
    .await;
    // The other way in goes by the new one, too.
    let id = young(601).pop().unwrap();
    let mut connection = stage.redis.connection().await;
    let added: u32 =
        redis::cmd("ZADD").arg("{tweet:update}:incoming").arg(0).arg(&id).query_async(&mut connection).await.unwrap();
    assert_eq!(added, 1);
    until_true("it is drained into the new lane", PATIENCE, async || {
        let places = stage.queue.locate(std::slice::from_ref(&id)).await.unwrap().remove(0);
        places.iter().any(by_the_new)
    })
    .await;

    // Nobody was restarted, and each said what it took over.
    let log = stage.log();
    assert_eq!(log.matches("updater runs").count(), 3, "{log}");
    assert_eq!(log.matches("tweet_age: 1h: 700ms → 2h: 1h").count(), 3, "{log}");
    assert!(!log.contains("ERROR") && !log.contains("needs a restart"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_change_is_refused_and_the_old_one_stays_in_force() {
    let files = |ages| [("10-ages.toml", ages), ("20-updater.toml", BUFFER)];
    let good = "tweet_age = \"1h: 500ms\"\n";
    let mut stage = Stage::new(300, 2, &files(good)).await;
    let revision = stage.revision();
    stage.all_run_by(PATIENCE, &revision).await;

    for (bad, why) in [
        ("tweet_age = \"1h: often\"\n", "often"),
        ("tweet_age = \"1h\n", "10-ages.toml is not TOML, line 1"),
        ("tweet_age = \"1h: 1m\"\n[log]\nlevel = \"loud\"\n", "log.level"),
    ] {
        stage.config.swap(&files(bad));
        stage.all_say(PATIENCE, why, |fields| fields["config_refused"].contains(why)).await;
        assert!(stage.workers().await.iter().all(|worker| worker.fields["config_revision"] == revision));
        stage.until_requests(5).await;
    }
    let output = run(&["status"], &stage.settings("me"));
    assert!(text(&output.stdout).contains("\n  config_refused: log.level"), "{}", text(&output.stdout));
    until_true("the refusals are counted", PATIENCE, async || {
        stage.queue.stats().await.unwrap().counters.get("config_reloads_refused") == Some(&6)
    })
    .await;

    stage.config.swap(&files(good));
    stage.all_say(PATIENCE, "it is as it was", |fields| fields["config_refused"].is_empty()).await;
    stage.all_run_by(PATIENCE, &revision).await;
    let log = stage.log();
    // Each said each refusal once, and where the fault is.
    assert_eq!(log.matches("the changed configuration is refused").count(), 6, "{log}");
    assert_eq!(log.matches("the files again have the configuration in force").count(), 2, "{log}");
    assert!(log.contains("10-ages.toml: ") && !log.contains("a changed configuration is in force"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_and_log_level_change_and_the_rest_needs_a_restart() {
    let file = |more: &str| format!("tweet_age = \"1h: 500ms\"\n{BUFFER}{more}");
    let mut stage = Stage::new(300, 1, &[("a.toml", &file(""))]).await;
    let first = stage.revision();
    stage.all_run_by(PATIENCE, &first).await;
    stage.until_requests(5).await;
    assert!(!stage.log().contains("DEBUG"), "{}", stage.log());

    stage.config.swap(&[("a.toml", &file("concurrency = 2\nlease = \"90s\"\n[log]\nlevel = \"debug\"\n"))]);
    let says = |fields: &BTreeMap<String, String>| {
        fields["concurrency"] == "2"
            && fields["config_needs_restart"] == "updater.lease"
            && fields["config_revision"] != first
    };
    stage.all_say(PATIENCE, "what may change is taken over", says).await;
    assert_ne!(stage.workers().await[0].fields["config_revision"], stage.revision(), "the lease is not in force");
    until_true("it logs at debug", PATIENCE, async || stage.log().contains("DEBUG")).await;
    let log = stage.log();
    assert!(log.contains("updater.lease: 1m → 1m 30s") && log.contains("updater.concurrency: 4 → 2"), "{log}");
    assert_eq!(log.matches("needs a restart").count(), 1, "{log}");

    // The lease is as it was, and the log is quiet.
    stage.config.swap(&[("a.toml", &file("[log]\nlevel = \"warn\"\n"))]);
    let says =
        |fields: &BTreeMap<String, String>| fields["concurrency"] == "4" && fields["config_needs_restart"].is_empty();
    stage.all_say(PATIENCE, "all is in force", says).await;
    let quiet = stage.revision();
    stage.all_run_by(PATIENCE, &quiet).await;
    let said = stage.log().len();
    stage.until_requests(10).await;
    assert_eq!(&stage.log()[said..], "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sighup_reads_the_configuration_and_ends_nobody() {
    let home = Home::new();
    let file = home.file("my.toml", "[updater]\nbuffer_ttl = \"7s\"\n");
    let (with, without) = (home.path("with.log"), home.path("without.log"));
    let settings = home.settings(&[]);
    let mut updaters = [
        (Process::start(&["--config", &file, "updater"], &settings, &with), &with),
        (Process::start(&["updater"], &settings, &without), &without),
    ];
    for (updater, log) in &mut updaters {
        until_true("it runs", PATIENCE, async || log_text(log).contains("updater runs")).await;
        updater.signal("HUP");
        until_true("it reads", PATIENCE, async || {
            assert!(updater.runs());
            log_text(log).contains("no setting has changed")
        })
        .await;
    }
    home.file("my.toml", "[updater]\nbuffer_ttl = \"8s\"\n");
    updaters[0].0.signal("HUP");
    until_true("it takes it over", PATIENCE, async || log_text(&with).contains("updater.buffer_ttl: 7s → 8s")).await;
    // A refusal is said again when somebody asks.
    home.file("my.toml", "[updater]\nbuffer_ttl = \"soon\"\n");
    let refusals = || log_text(&with).matches("the changed configuration is refused").count();
    until_true("it is refused", PATIENCE, async || refusals() == 1).await;
    updaters[0].0.signal("HUP");
    until_true("it is said again", PATIENCE, async || refusals() == 2).await;
    // So is what cannot be read, which changes nothing.
    std::fs::remove_file(&file).unwrap();
    updaters[0].0.signal("HUP");
    until_true("it is missed", PATIENCE, async || log_text(&with).contains("my.toml cannot be read")).await;
    for (updater, _) in updaters {
        assert!(updater.terminate().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_starter_puts_tweets_in_by_the_intervals_in_force() {
    let (home, redis) = (Home::new(), TestRedis::start(&[]));
    let mut config = ConfigMap::new(home.path("config"), &[("10-ages.toml", "tweet_age = \"1h: 10m\"\n")]);
    let settings = home.settings(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]);
    let options = ["--config", config.folder.to_str().unwrap()];
    let starter = Role::start_with(&options, "starter", &settings, &home.path("log")).await;
    starter.until("/ready", 200).await;
    let queue = RedisQueue::new(redis.pool(), "tweet:update");
    let lane_of_posted = async |id: &String| {
        let request =
            starter.client.post(format!("{}/tweets", starter.url)).header("content-type", "application/jsonl");
        let answer = request.body(id.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 202, "{:?}", answer.text().await);
        match &queue.locate(std::slice::from_ref(id)).await.unwrap()[0][..] {
            [Place::Delayed { lane, .. }] => lane.to_string(),
            places => panic!("{places:?}"),
        }
    };
    let ids = young(2);
    assert_eq!(lane_of_posted(&ids[0]).await, "1h");
    config.swap(&[("10-ages.toml", "tweet_age = \"2h: 10m\"\n")]);
    let log = || log_text(&home.path("log"));
    until_true("the change is taken over", SOON, async || log().contains("changed: tweet_age")).await;
    assert_eq!(lane_of_posted(&ids[1]).await, "2h");
    assert_eq!(starter.stopped().await, Some(0), "{}", log());
}

/// Longest wait of these ids, ms; `None` if one of them is not waiting.
async fn longest_wait(queue: &dyn Queue, ids: &[String]) -> Option<i64> {
    let now = queue.stats().await.unwrap().now_ms;
    let wait = |places: &Vec<Place>| match &places[..] {
        [Place::Delayed { due, .. }] => Some(due - now),
        _ => None,
    };
    queue.locate(ids).await.unwrap().iter().map(wait).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// A shorter interval applies to posts and accounts that wait for hours, although no item enters their lanes.
async fn a_shorter_interval_applies_to_waiting_items(
    home: &Home,
    more: &[(&str, &str)],
    open: impl AsyncFn(&str) -> Arc<dyn Queue>,
) {
    const HOUR: i64 = 3_600_000;
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let own = [("twitter.api", &*api.base_url()), ("accounts.collect", "true"), ("accounts.from_posts", "")];
    let settings = home.settings(&[&own[..], more].concat());
    let by = |posts: &str, accounts: &str| {
        format!(
            "tweet_age = \"30d: {posts}\"\n[accounts]\nactive = \"{accounts}\"\nidle = \"{accounts}\"\nfrozen = \"{accounts}\"\n"
        )
    };
    let file = home.file("live.toml", by("6h", "7h"));
    let ids = young(300);
    let enqueue = ["--config", &file, "enqueue", "--first", "interval", "-"];
    let output = run_with_input(&enqueue, &settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let accounts: Vec<String> = (0..50).map(|number| api.people().id(&Provider::Twitter, number)).collect();
    let output =
        run_with_input(&["--config", &file, "enqueue", "--accounts", "-"], &settings, accounts.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = home.path("live.log");
    let mut updater = Process::start(&["--config", &file, "updater"], &settings, &log);
    let (posts, profiles) = (open("tweet:update").await, open("profiles:twitter").await);
    let wait_at_most = async |queue: &dyn Queue, ids: &[String], hours: std::ops::Range<i64>| {
        until_true(&format!("they wait {hours:?} hours"), PATIENCE, async || {
            let longest = longest_wait(queue, ids).await;
            longest.is_some_and(|wait| (hours.start * HOUR..hours.end * HOUR).contains(&wait))
        })
        .await;
    };
    wait_at_most(&*posts, &ids, 5..7).await;
    wait_at_most(&*profiles, &accounts, 6..8).await;

    // A shorter interval, set while the updater runs.
    std::fs::write(&file, by("2h", "3h")).unwrap();
    wait_at_most(&*posts, &ids, 1..3).await;
    wait_at_most(&*profiles, &accounts, 2..4).await;
    assert!(updater.runs(), "{}", log_text(&log));
    assert_eq!(updater.terminate().code(), Some(0));

    // A shorter interval, set while no updater ran.
    std::fs::write(&file, by("30m", "40m")).unwrap();
    let updater = Process::start(&["--config", &file, "updater"], &settings, &log);
    wait_at_most(&*posts, &ids, 0..1).await;
    wait_at_most(&*profiles, &accounts, 0..1).await;
    assert_eq!(updater.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_interval_applies_to_waiting_items_on_redis() {
    let redis = TestRedis::start(&[]);
    let settings = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
    let open = async |namespace: &str| Arc::new(RedisQueue::new(redis.pool(), namespace)) as Arc<dyn Queue>;
    a_shorter_interval_applies_to_waiting_items(&Home::new(), &settings, open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_interval_applies_to_waiting_items_on_the_embedded_queue() {
    let home = Home::new();
    let path = home.path("jobs.db");
    let settings = [("queue.embedded.path", path.to_str().unwrap())];
    let open = async |namespace: &str| {
        Arc::new(EmbeddedQueue::open(&path, namespace, PATIENCE).await.unwrap()) as Arc<dyn Queue>
    };
    a_shorter_interval_applies_to_waiting_items(&home, &settings, open).await;
}
