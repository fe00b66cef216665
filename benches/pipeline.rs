//! The whole pipeline: simulated API → updater → store, each a process of its own, as users run them.
//!
//! Every tweet is due again a second after its update, so there is always more due than is done. What is counted
//! is what the queue has heard of: looked up, saved and rescheduled. The processor time is what the kernel has
//! booked on each process meanwhile.

pub mod cpu;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use tempfile::TempDir;
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::engine::queue::{EmbeddedQueue, Queue, RedisQueue};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;

use crate::Size;
use crate::report::{Report, Table, machine, median};
use crate::servers::{self, Durability, Postgres};
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::redis::TestRedis;
use crate::support::wait::until_true;

use self::cpu::{Cpu, POSTGRES, Parts, Served, UPDATER, Written, family};

/// What is measured in one run.
struct Case {
    name: &'static str,
    store: Kind,
    /// How long the API takes to answer.
    latency: &'static str,
    concurrency: u32,
    /// Whether any object has changed since it was last seen.
    moving: bool,
    /// Whether its processes are sampled afterwards.
    profiled: bool,
    /// Settings of its own.
    more: &'static [(&'static str, &'static str)],
}

/// Where tweets and queue are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL and Redis. A commit waits for the disk, as it does unless a server is told otherwise.
    Postgres,
    /// The same, and a commit waits for nothing.
    PostgresWithoutFsync,
    /// Both in one SQLite file.
    OneFile,
    /// The same in memory, where a flush costs nothing.
    OneFileInMemory,
    /// Each in an SQLite file of its own.
    TwoFiles,
}

impl Kind {
    fn is_sqlite(self) -> bool {
        matches!(self, Self::OneFile | Self::OneFileInMemory | Self::TwoFiles)
    }
}

/// What the others differ from.
const POSTGRES_CASE: Case = Case {
    name: "PostgreSQL",
    store: Kind::Postgres,
    latency: "0ms",
    concurrency: 8,
    moving: true,
    profiled: false,
    more: &[],
};

/// The adaptive schedule where every interval is the table's second: the same tweets in the same order.
const AS_OFTEN: &[(&str, &str)] = &[("schedule", "adaptive"), ("adaptive.faster", "1"), ("adaptive.slower", "1")];
/// The same with intervals of its own, from 10 ms to 8 s, in eleven lanes.
const BY_ITSELF: &[(&str, &str)] = &[("schedule", "adaptive"), ("adaptive.faster", "100")];

const CASES: [Case; 11] = [
    Case { profiled: true, ..POSTGRES_CASE },
    Case { name: "PostgreSQL, no object changed", moving: false, ..POSTGRES_CASE },
    Case { name: "PostgreSQL, fsync off", store: Kind::PostgresWithoutFsync, ..POSTGRES_CASE },
    Case { name: "PostgreSQL, API 100 ms", latency: "100ms", concurrency: 4, ..POSTGRES_CASE },
    Case { name: "PostgreSQL, API 100 ms", latency: "100ms", concurrency: 32, ..POSTGRES_CASE },
    Case { name: "one SQLite file", store: Kind::OneFile, ..POSTGRES_CASE },
    Case { name: "one SQLite file, in memory", store: Kind::OneFileInMemory, ..POSTGRES_CASE },
    Case { name: "two SQLite files", store: Kind::TwoFiles, profiled: true, ..POSTGRES_CASE },
    Case {
        name: "two SQLite files, API 100 ms",
        store: Kind::TwoFiles,
        latency: "100ms",
        concurrency: 32,
        ..POSTGRES_CASE
    },
    Case { name: "PostgreSQL, adaptive", more: AS_OFTEN, ..POSTGRES_CASE },
    Case { name: "PostgreSQL, adaptive, own intervals", more: BY_ITSELF, ..POSTGRES_CASE },
];

/// See the module.
pub async fn run(size: Size) -> Report {
    // Another number of tweets: PIPELINE_TWEETS=2000000.
    let tweets = std::env::var("PIPELINE_TWEETS").map_or(size.pick(200_000, 2_000), |tweets| tweets.parse().unwrap());
    let windows = size.pick(vec![Duration::from_secs(3); 5], vec![Duration::from_millis(300)]);
    let mut speed = Table::new(
        "tweets/s, and µs of processor time per tweet",
        &[
            "setup",
            "concurrency",
            "tweets/s first",
            "tweets/s",
            "updater",
            "simulator",
            "redis",
            "postgres",
            "sum",
            "used %",
            "busy %",
            "updater writes KB/tweet",
            "flushes/s",
            "flushes/tweet",
            "WAL KB/tweet",
            "HOT %",
        ],
    );
    let mut profile = Table::new(
        "processor time by part, as perf samples it",
        &["setup", "process", "part", "share %", "µs per tweet"],
    );
    // A few of them, by their places: PIPELINE_CASES=0,4.
    let only = std::env::var("PIPELINE_CASES").unwrap_or_else(|_| size.pick("", "0,5,9,10").to_owned());
    for (at, case) in CASES.iter().enumerate() {
        if only.is_empty() || only.split(',').any(|number| number == at.to_string()) {
            one(case, tweets, &windows, size, &mut speed, &mut profile).await;
        }
    }
    let about = vec![
        format!(
            "{}; {tweets} tweets, all of them due all the time; tweets/s: the median of {} windows of {:?}",
            machine(),
            windows.len(),
            windows[0]
        ),
        "Objects of 4 KB. Redis: AOF, everysec. Everything on this machine, the simulated API included.".to_owned(),
        format!("PostgreSQL: {}", servers::SETTINGS.join(", ")),
    ];
    Report { about, tables: vec![speed, profile] }
}

async fn one(case: &Case, tweets: u32, windows: &[Duration], size: Size, speed: &mut Table, profile: &mut Table) {
    let mut services = Services::start(case.store).await;
    services.settings.extend(settings(case));
    succeed(&["migrate"], &services.settings, b"");
    succeed(&["enqueue", "--first", "interval", "-"], &services.settings, ids(tweets).join("\n").as_bytes());

    let simulator = services.simulator();
    let updater = Process::start(&["updater"], &services.settings, &services.log());
    let Services { postgres, queue, .. } = &services;

    let rescheduled = async || rescheduled(&**queue).await;
    let total = f64::from(tweets);
    let reach = async |count: f64| reach(&**queue, count).await;
    reach(total * 0.1).await;
    let (from, watch) = (rescheduled().await, Stopwatch::start());
    reach(total * 0.8).await;
    let first = (rescheduled().await - from) / watch.elapsed().as_secs_f64();

    reach(total * 1.2).await;
    let served = services.pids().await;
    let processes = || Cpu::now(Some(updater.id()), simulator.id(), served);
    let figures = async || match postgres {
        Some(postgres) => Some(postgres.figures().await),
        None => None,
    };
    let before = (rescheduled().await, processes(), figures().await, Written::now(updater.id()));
    let mut rates = Vec::new();
    for window in windows {
        let (from, watch) = (rescheduled().await, Stopwatch::start());
        tokio::time::sleep(*window).await;
        rates.push((rescheduled().await - from) / watch.elapsed().as_secs_f64());
    }
    let done = rescheduled().await - before.0;
    let spent = processes().since(&before.1);
    let disk = figures().await.map(|after| after.since(&before.2.unwrap()));
    let written = Written::now(updater.id()).since(&before.3);
    let seconds = windows.iter().sum::<Duration>().as_secs_f64();
    let each = |seconds: f64| json!(round(seconds * 1e6 / done));
    speed.row(vec![
        json!(case.name),
        json!(case.concurrency),
        json!(first.round()),
        json!(median(rates).round()),
        each(spent.updater),
        each(spent.simulator),
        spent.redis.map_or(Value::Null, &each),
        spent.postgres.map_or(Value::Null, &each),
        each(spent.sum()),
        json!(round(spent.sum() / spent.cores * 100.0)),
        json!(round(spent.busy * 100.0)),
        json!(round(written.bytes / 1024.0 / done)),
        json!(round(written.flushes / seconds)),
        json!((written.flushes / done * 1e4).round() / 1e4),
        disk.map_or(Value::Null, |disk| json!(round(disk.wal_bytes / 1024.0 / done))),
        disk.map_or(Value::Null, |disk| json!(round(disk.hot * 100.0))),
    ]);

    if size == Size::Full && case.profiled {
        let span = Duration::from_secs(6);
        let whose = [
            ("updater", Some(updater.id()), UPDATER, Some(spent.updater)),
            ("postgres", served.postgres, POSTGRES, spent.postgres),
        ];
        for (process, pid, words, seconds) in whose {
            let (Some(pid), Some(seconds)) = (pid, seconds) else { continue };
            let pids: Vec<u32> = family(pid).collect();
            let parts = Parts::of(&pids, words, span, services.folder.path());
            for (part, share) in parts.map(|parts| parts.0).unwrap_or_default() {
                let share_of_it = json!((share * 100.0).round());
                profile.row(vec![json!(case.name), json!(process), json!(part), share_of_it, each(seconds * share)]);
            }
        }
    }
    assert!(updater.terminate().success(), "{}", std::fs::read_to_string(services.log()).unwrap());
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased, stats.dead), (u64::from(tweets), 0, 0), "nothing is lost");
    drop(simulator);
}

/// Ids of so many tweets of the last hours, in no order, as files of users are.
pub fn ids(tweets: u32) -> Vec<String> {
    let now = wall_ms();
    let id = |n: u32| TweetId::at(now - 3_600_000 - i64::from(n) * 20, n).to_string();
    let mut ids: Vec<String> = (0..tweets).map(id).collect();
    ids.shuffle(&mut StdRng::seed_from_u64(1));
    ids
}

/// How many ids were rescheduled so far.
pub async fn rescheduled(queue: &dyn Queue) -> f64 {
    queue.stats().await.unwrap().counters.get("rescheduled").copied().unwrap_or(0) as f64
}

/// Waits until they are so many.
pub async fn reach(queue: &dyn Queue, count: f64) {
    until_true("tweets are updated", Duration::from_secs(1_200), async || {
        tokio::time::sleep(Duration::from_millis(20)).await;
        rescheduled(queue).await >= count
    })
    .await;
}

/// Queue and store, in a folder of their own, and the settings of processes that use them.
pub struct Services {
    pub folder: TempDir,
    pub redis: Option<TestRedis>,
    pub postgres: Option<Postgres>,
    pub queue: Arc<dyn Queue>,
    pub settings: Variables,
}

impl Services {
    pub async fn start(store: Kind) -> Self {
        let folder = match store {
            Kind::OneFileInMemory => tempfile::tempdir_in("/dev/shm"),
            _ => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        let redis = (!store.is_sqlite()).then(|| TestRedis::start(&["--appendonly", "yes"]));
        let postgres = match store {
            Kind::Postgres => Some(Postgres::start(Durability::Flushed).await),
            Kind::PostgresWithoutFsync => Some(Postgres::start(Durability::None).await),
            Kind::OneFile | Kind::OneFileInMemory | Kind::TwoFiles => None,
        };
        let file = folder.path().join("queue.db");
        let tweets = if store == Kind::TwoFiles { folder.path().join("tweets.db") } else { file.clone() };
        let mut settings = variables(&[
            ("queue.embedded.path", file.to_str().unwrap()),
            ("store.sqlite.path", tweets.to_str().unwrap()),
            ("simulator.jitter", "0ms"),
            ("simulator.calls_per_window", "0"),
            ("simulator.app_calls_per_window", "0"),
            ("simulator.gzip", "false"),
            ("simulator.missing_share", "0"),
        ]);
        let queue: Arc<dyn Queue> = match &redis {
            Some(redis) => {
                settings.extend(variables(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]));
                Arc::new(RedisQueue::new(redis.pool(), NAMESPACE))
            }
            None => Arc::new(EmbeddedQueue::open(&file, NAMESPACE, Duration::from_secs(10)).await.unwrap()),
        };
        if let Some(postgres) = &postgres {
            settings.extend(variables(&[("store.backend", "postgres"), ("store.postgres.url", &postgres.url())]));
            settings.extend(variables(&[("store.postgres.connections", "8")]));
        }
        Self { folder, redis, postgres, queue, settings }
    }

    pub async fn pids(&self) -> Served {
        let redis = match &self.redis {
            Some(redis) => Some(servers::redis_pid(redis).await),
            None => None,
        };
        Served { redis, postgres: self.postgres.as_ref().map(Postgres::pid) }
    }

    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts a simulated API, which processes are told of that start later.
    pub fn simulator(&mut self) -> Process {
        let listen = ["simulator", "--listen", "127.0.0.1:0"];
        let (simulator, said) = Process::start_announced(&listen, &self.settings, &self.log());
        self.settings.extend(variables(&[("twitter.api", said.trim().rsplit(' ').next().unwrap())]));
        simulator
    }
}

fn settings(case: &Case) -> Variables {
    let mut settings = variables(&[
        ("tweet_age", "30d: 1s"),
        ("updater.concurrency", &case.concurrency.to_string()),
        ("simulator.latency", case.latency),
        ("simulator.growth", if case.moving { "18m" } else { "1s" }),
    ]);
    settings.extend(variables(case.more));
    settings
}

pub fn succeed(arguments: &[&str], settings: &Variables, input: &[u8]) {
    let output = run_with_input(arguments, settings, input);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// To a tenth, and from ten on to a whole.
pub fn round(figure: f64) -> f64 {
    if figure < 10.0 { (figure * 10.0).round() / 10.0 } else { figure.round() }
}
