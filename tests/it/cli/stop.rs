//! How an updater stops: what is in flight is finished or given back, and no lease is left behind.

use std::process::Command;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use twitter_updater::base::clock::Stopwatch;
use twitter_updater::engine::queue::{Inspection, Place, RedisQueue};
use twitter_updater::simulator::{self, Fault, Running, SimulatorOptions};

use super::*;
use crate::support::process::{Process, run_with_input};
use crate::support::redis::TestRedis;
use crate::support::wait::{until, until_true};

const ROUNDS: usize = 20;

/// A Redis, an API, tweets, and updaters on them.
struct Stage {
    home: Home,
    redis: TestRedis,
    api: Running,
    ids: Vec<String>,
    connection: MultiplexedConnection,
}

impl Stage {
    async fn new(tweets: u32, settings: &[(&str, &str)]) -> Self {
        let redis = TestRedis::start(&[]);
        let options = SimulatorOptions {
            latency: Duration::from_millis(300),
            calls_per_window: 0,
            missing_share: 0.0,
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let connection = redis.connection().await;
        let stage = Self { home: Home::new(), redis, api, ids: young(tweets), connection };
        let output = run_with_input(&["enqueue"], &stage.settings(settings), stage.ids.join("\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        stage
    }

    fn settings(&self, more: &[(&str, &str)]) -> Variables {
        let base_url = self.api.base_url();
        let own = [
            ("queue.backend", "redis"),
            ("queue.redis.url", &*self.redis.url),
            ("twitter.api", &*base_url),
            ("tweet_age", "1h: 500ms"),
            ("updater.buffer_ttl", "50ms"),
            ("updater.drain_deadline", "10s"),
        ];
        self.home.settings(&[&own, more].concat())
    }

    fn start(&self, settings: &[(&str, &str)]) -> Process {
        Process::start(&["updater"], &self.settings(settings), &self.home.path("log"))
    }

    fn log(&self) -> String {
        log_text(&self.home.path("log"))
    }

    async fn leased(&mut self) -> u64 {
        self.connection.zcard("{tweet:update}:leased").await.unwrap()
    }

    async fn until_leased(&mut self, at_least: u64) {
        until_true("tweets are in flight", Duration::from_secs(20), async || self.leased().await >= at_least).await;
    }

    /// Where each tweet is: in one place, all of them.
    async fn places(&self) -> Vec<Place> {
        let queue = RedisQueue::new(self.redis.pool(), "tweet:update");
        let places = queue.locate(&self.ids).await.unwrap();
        places
            .into_iter()
            .map(|mut places| {
                assert_eq!(places.len(), 1, "{places:?}");
                places.remove(0)
            })
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_stops_under_load_leave_no_lease() {
    // It is seen over HTTP meanwhile, as in a cluster.
    let listen = [("http.listen", "127.0.0.1:0")];
    let mut stage = Stage::new(400, &listen).await;
    for round in 0..ROUNDS {
        // Ctrl-C does the same.
        let signal = if round % 4 == 3 { "INT" } else { "TERM" };
        let mut updater = stage.start(&listen);
        stage.until_leased(100).await;
        let in_flight = stage.leased().await;
        updater.signal(signal);
        let watch = Stopwatch::start();
        let status = updater.ended(Duration::from_secs(10)).await;
        assert_eq!(
            (status.code(), stage.leased().await),
            (Some(0), 0),
            "round {round}, {in_flight} in flight: {}",
            stage.log()
        );
        assert!(watch.elapsed() < Duration::from_secs(10), "round {round}");
    }
    assert!(stage.places().await.iter().all(|place| matches!(place, Place::Delayed { .. })));
    // They went round all the while, none gave up, and nobody is left on the list.
    assert!(stage.api.counters().requests >= ROUNDS as u64);
    let log = stage.log();
    assert_eq!(log.matches("updater stopped").count(), ROUNDS, "{log}");
    assert_eq!(log.matches("serves HTTP").count(), ROUNDS, "{log}");
    assert!(!log.contains("the deadline has passed") && !log.contains("ERROR"), "{log}");
    assert_eq!(super::status(&stage.settings(&[]))["workers"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_hangs_does_not_hold_it_longer_than_the_deadline() {
    let deadline = ("updater.drain_deadline", "1s");
    let mut stage = Stage::new(150, &[]).await;
    let before = stage.places().await;
    stage.api.faults().add(Fault::Timeout);
    let mut updater = stage.start(&[deadline]);
    stage.until_leased(50).await;
    let watch = Stopwatch::start();
    updater.signal("TERM");
    let status = updater.ended(Duration::from_secs(10)).await;
    let took = watch.elapsed();
    assert_eq!((status.code(), stage.leased().await), (Some(0), 0), "{}", stage.log());
    // The call itself would have gone on for lookup.timeout, 10 s.
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(4), "{took:?}");
    assert_eq!(stage.places().await, before, "given back with the old due times");
    assert!(!stage.connection.exists::<_, bool>("{tweet:update}:deliveries").await.unwrap(), "and nobody is to blame");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    for second in ["TERM", "INT"] {
        let mut stage = Stage::new(150, &[]).await;
        let before = stage.places().await;
        stage.api.faults().add(Fault::Timeout);
        let mut updater = stage.start(&[]);
        stage.until_leased(50).await;
        updater.signal("TERM");
        until_true("it drains", Duration::from_secs(10), async || {
            stage.log().contains("stopping: the process finishes")
        })
        .await;
        assert!(updater.runs());
        let watch = Stopwatch::start();
        updater.signal(second);
        let status = updater.ended(Duration::from_secs(10)).await;
        assert_eq!((status.code(), stage.leased().await), (Some(0), 0), "{}", stage.log());
        assert!(watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
        assert_eq!(stage.places().await, before);
    }
}

/// A server that is stopped and goes on when this is dropped: it keeps its connections and says nothing.
struct Frozen(String);

impl Frozen {
    fn new(pid: String) -> Self {
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.0]).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_does_not_hold_it_long() {
    let mut stage = Stage::new(150, &[]).await;
    let info: redis::InfoDict = redis::cmd("INFO").query_async(&mut stage.connection).await.unwrap();
    let settings = [
        ("updater.drain_deadline", "1s"),
        ("queue.redis.response_timeout", "1s"),
        ("lookup.timeout", "1s"),
        ("updater.save_timeout", "1s"),
        ("updater.lease", "3s"),
    ];
    let mut updater = stage.start(&settings);
    stage.until_leased(100).await;
    let frozen = Frozen::new(info.get("process_id").unwrap());
    let watch = Stopwatch::start();
    updater.signal("TERM");
    let status = updater.ended(Duration::from_secs(20)).await;
    let took = watch.elapsed();
    drop(frozen);
    assert_eq!(status.code(), Some(0), "{}", stage.log());
    // The deadline, then 2 s for giving back and 2 s for the farewell.
    assert!(took < Duration::from_secs(1 + 2 + 2 + 1), "{took:?}: {}", stage.log());
    // What it could not give back is taken over when the lease has run out; nothing is lost.
    let mut other = stage.start(&settings);
    let requests = stage.api.counters().requests;
    until_true("all go round again", Duration::from_secs(20), async || stage.api.counters().requests >= requests + 4)
        .await;
    other.signal("TERM");
    assert_eq!(other.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", stage.log());
    assert!(stage.places().await.iter().all(|place| matches!(place, Place::Delayed { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_one_stops_at_once() {
    let stage = Stage::new(1, &[("tweet_age", "1h: 50m")]).await;
    let mut updater = stage.start(&[("tweet_age", "1h: 50m")]);
    until_true("it runs", Duration::from_secs(20), async || stage.log().contains("updater runs")).await;
    let watch = Stopwatch::start();
    updater.signal("TERM");
    assert_eq!(updater.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", stage.log());
    assert!(watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_still_waits_for_a_service_stops_at_once() {
    let home = Home::new();
    // Connections are taken and never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let long = [("queue.redis.connect_timeout", "60s"), ("queue.redis.response_timeout", "60s")];
    let settings = home.settings(&[&[("queue.backend", "redis"), ("queue.redis.url", &*url)], &long[..]].concat());
    let mut updater = Process::start(&["updater"], &settings, &home.path("log"));
    let _connection = until("it connects", Duration::from_secs(20), async || silent.accept().ok()).await;
    let watch = Stopwatch::start();
    updater.signal("TERM");
    assert_eq!(updater.ended(Duration::from_secs(20)).await.code(), Some(0), "{}", log_text(&home.path("log")));
    assert!(watch.elapsed() < Duration::from_secs(3), "{:?}", watch.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_one_name_keep_out_of_each_others_way() {
    let mut stage = Stage::new(1_000, &[]).await;
    let name = [("updater.name", "the same"), ("tweet_age", "1h: 500ms")];
    let mut updaters = [stage.start(&name), stage.start(&name)];
    until_true("they worked", Duration::from_secs(20), async || stage.api.counters().requests >= 60).await;
    for updater in &mut updaters {
        updater.signal("TERM");
        assert_eq!(updater.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", stage.log());
    }
    // Every id of every request was one's own.
    let stats = super::status(&stage.settings(&[]));
    assert_eq!(stats["counters"].get("lost").and_then(Value::as_i64).unwrap_or(0), 0, "{stats}");
    assert_eq!(stage.leased().await, 0);
}
