//! The roles as they are seen over HTTP: probes, metrics, the hook as a process, and how they stop.

mod accounts;
mod budget;
pub mod documents;
mod doors;
mod lists;
mod metrics_port;
mod numbers;
mod page;
mod panics;
mod sources;
mod stop;
mod tokens;
mod waits;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Inspection, RedisQueue};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use crate::support::process::{Process, Variables, run, text, variables};
use crate::support::redis::TestRedis;
use crate::support::role::{Role, value};
use crate::support::wait::{until, until_true};

const ROLES: [&str; 3] = ["updater", "starter", "ops"];
const QUEUE_UP: &str = "twitter_updater_queue_up{namespace=\"tweet:update\"}";

/// A folder, and an API that is there.
struct Home {
    folder: TempDir,
    api: Running,
}

impl Home {
    async fn new() -> Self {
        let options =
            SimulatorOptions { latency: Duration::from_millis(20), missing_share: 0.0, ..SimulatorOptions::default() };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        Self { folder: tempfile::tempdir().unwrap(), api }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Everything in one file, unless they say otherwise.
    fn settings(&self, more: &[(&str, &str)]) -> Variables {
        let (file, api) = (self.path("home.db"), self.api.base_url());
        let file = file.to_str().unwrap();
        let own = [
            ("queue.embedded.path", file),
            ("store.sqlite.path", file),
            ("queue.embedded.busy_timeout", "20s"),
            ("store.sqlite.busy_timeout", "20s"),
            ("twitter.api", &*api),
            ("tweet_age", "1h: 1s"),
            ("updater.buffer_ttl", "50ms"),
        ];
        variables(&[&own, more].concat())
    }

    /// The queue in that Redis.
    fn on(&self, redis: &TestRedis, more: &[(&str, &str)]) -> Variables {
        let own = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
        self.settings(&[&own, more].concat())
    }

    async fn role(&self, name: &str, settings: &Variables) -> Role {
        Role::start_ready(name, settings, &self.path(&format!("{name}.log"))).await
    }
}

/// So many ids of young tweets.
fn young(count: u32) -> Vec<String> {
    (0..count).map(|n| TweetId::at(wall_ms() - 60_000, n).to_string()).collect()
}

async fn post(role: &Role, ids: &[String]) -> (u16, String) {
    let response = role
        .client
        .post(format!("{}/tweets", role.url))
        .header("content-type", "application/json")
        .body(json!(ids).to_string())
        .send()
        .await
        .unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// A metric of an updater, of the only namespace it works on.
fn of_updater(text: &str, name: &str) -> Option<f64> {
    value(text, &format!("twitter_updater_{name}{{namespace=\"{NAMESPACE}\"}}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_says_that_it_lives_and_what_it_does() {
    let home = Home::new().await;
    let redis = TestRedis::start(&[]);
    let settings = home.on(&redis, &[]);
    let [updater, starter, ops] = [
        home.role("updater", &settings).await,
        home.role("starter", &settings).await,
        home.role("ops", &settings).await,
    ];
    for role in [&updater, &starter, &ops] {
        assert_eq!(role.get("/live").await, (200, "yes\n".to_owned()));
        for path in ["/live", "/ready", "/metrics"] {
            let healthy = run(&["health", "--url", &format!("{}{path}", role.url)], &Variables::new());
            assert_eq!((healthy.status.code(), text(&healthy.stderr)), (Some(0), String::new()));
        }
        for (accept, kind, build) in [
            ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text; version=1.0.0", "build info"),
            ("text/plain;version=0.0.4", "text/plain; version=0.0.4", "build_info gauge"),
            ("*/*", "text/plain; version=0.0.4", "build_info gauge"),
        ] {
            let response =
                role.client.get(format!("{}/metrics", role.url)).header("accept", accept).send().await.unwrap();
            assert_eq!(response.headers()["content-type"], format!("{kind}; charset=utf-8"), "{accept}");
            let text = response.text().await.unwrap();
            assert!(text.contains(&format!("# TYPE twitter_updater_{build}\n")), "{accept}: {text}");
            assert_eq!(text.ends_with("# EOF\n"), kind.contains("openmetrics"), "{accept}");
        }
    }
    let ids = young(250);
    assert_eq!(post(&starter, &ids).await.0, 202);
    until_true("all are updated", Duration::from_secs(30), async || {
        let shown = updater.get("/metrics").await.1;
        of_updater(&shown, "found_total") >= Some(250.0) && of_updater(&shown, "settle_seconds_count") >= Some(3.0)
    })
    .await;
    let shown = updater.get("/metrics").await.1;
    let of = |name: &str| of_updater(&shown, name).unwrap_or_else(|| panic!("{name}: {shown}"));
    let batches = of("batch_ids_count");
    assert!(batches >= 3.0 && of("lookup_seconds_count") >= 3.0 && of("save_seconds_count") >= 3.0, "{shown}");
    assert!(of("batch_ids_sum") >= 250.0 && of("lateness_seconds_count") == of("batch_ids_sum"), "{shown}");
    assert!((0.0..=4.0).contains(&of("in_flight")), "{shown}");

    // With its beat it tells the queue how late they were.
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    until_true("how late they were is told by several beats", Duration::from_secs(60), async || {
        let minutes = queue.minutes(5).await.unwrap();
        let told: u64 = minutes.iter().map(|minute| minute.lateness.ids()).sum();
        let claimed: i64 = minutes.iter().map(|minute| minute.count("claimed")).sum();
        assert!(told <= claimed.unsigned_abs(), "each once: {told} of {claimed}");
        told >= 1_500
    })
    .await;

    // What `ops` shows is what `status` says.
    let (status, body) = ops.get("/status").await;
    let shown: Value = serde_json::from_str(&body).unwrap();
    let said: Value = serde_json::from_slice(&run(&["status", "--json"], &settings).stdout).unwrap();
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((status, keys(&shown)), (200, keys(&said)));
    let sum = |text: &str, name: &str| -> f64 {
        let start = format!("twitter_updater_{name}{{");
        text.lines()
            .filter(|line| line.starts_with(&start))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    };
    until_true("none is anywhere else", Duration::from_secs(30), async || {
        let text = ops.get("/metrics").await.1;
        assert_eq!(value(&text, QUEUE_UP), Some(1.0), "{text}");
        assert_eq!(sum(&text, "workers"), 1.0, "{text}");
        sum(&text, "delayed") + sum(&text, "leased") == 250.0
    })
    .await;
    for role in [updater, starter, ops] {
        assert_eq!(role.stopped().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_out_makes_nobody_unready_for_good_and_nobody_dead() {
    let home = Home::new().await;
    let mut redis = TestRedis::start(&["--appendonly", "yes"]);
    let settings = home.on(&redis, &[("queue.redis.response_timeout", "1s")]);
    let mut roles = Vec::new();
    for name in ROLES {
        roles.push(home.role(name, &settings).await);
    }
    let [_, starter, ops] = &roles[..] else { panic!() };
    assert_eq!(post(starter, &young(10)).await.0, 202);
    redis.kill();
    assert_eq!(post(starter, &young(20)).await.0, 503);
    for role in &roles {
        role.until("/ready", 503).await;
        assert_eq!(role.get("/live").await.0, 200);
        let url = format!("{}/ready", role.url);
        let sick = run(&["health", "--url", &url], &Variables::new());
        let said = text(&sick.stderr);
        assert!(sick.status.code() == Some(69) && said.lines().count() == 1, "{said}");
        assert!(said.starts_with("twitter-updater: HTTP 503: no: a service is unavailable"), "{said}");
    }
    let (status, shown) = ops.get("/metrics").await;
    assert_eq!((status, value(&shown, QUEUE_UP)), (200, Some(0.0)), "{shown}");
    assert!(
        shown.contains("twitter_updater_build_info{version=") && !shown.contains("twitter_updater_delayed"),
        "{shown}"
    );
    assert_eq!(ops.get("/status").await.0, 503);
    redis.start_again();
    for role in &roles {
        role.until("/ready", 200).await;
    }
    assert_eq!(post(starter, &young(20)).await.0, 202);
    assert_eq!(ops.get("/status").await.0, 200);
    for role in roles {
        assert_eq!(role.stopped().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ops_waits_for_a_queue_that_is_not_there_yet() {
    let home = Home::new().await;
    let mut redis = TestRedis::start(&[]);
    let settings = home.on(&redis, &[]);
    assert!(run(&["migrate"], &settings).status.success(), "the store is there");
    redis.kill();
    let ops = Role::start("ops", &settings, &home.path("ops.log")).await;
    ops.until("/ready", 503).await;
    assert_eq!(value(&ops.get("/metrics").await.1, QUEUE_UP), Some(0.0));
    redis.start_again();
    ops.until("/ready", 200).await;
    assert_eq!(ops.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_asked_for_and_a_bad_one_is_one_line() {
    let home = Home::new().await;
    let settings = home.settings(&[]);
    let taken = Role::start("starter", &settings, &home.path("starter.log")).await;
    let addr = taken.url.strip_prefix("http://").unwrap();
    for role in ROLES {
        let output = run(&[role, "--listen", addr], &settings);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot listen at") && said.contains(addr) && said.contains("--listen"), "{said}");
    }
    let nobody = run(&["health", "--url", "http://127.0.0.1:9/ready"], &Variables::new());
    assert_eq!(nobody.status.code(), Some(69));
    assert_eq!(text(&nobody.stderr), "twitter-updater: no response from 127.0.0.1:9; pass --url\n");
    let no_url = run(&["health", "--url", "me:canary@localhost"], &Variables::new());
    assert!(no_url.status.code() == Some(69) && !text(&no_url.stderr).contains("canary"), "{}", text(&no_url.stderr));

    // An updater serves nothing unless it is told to; by a setting, too.
    let mut silent = Process::start(&["updater"], &settings, &home.path("silent.log"));
    until_true("it runs", Duration::from_secs(20), async || home.log("silent.log").contains("updater runs")).await;
    assert!(!home.log("silent.log").contains("serves HTTP"));
    silent.signal("TERM");
    assert_eq!(silent.ended(Duration::from_secs(20)).await.code(), Some(0));
    let by_setting = home.settings(&[("http.listen", "127.0.0.1:0")]);
    let mut served = Process::start(&["updater"], &by_setting, &home.path("served.log"));
    until_true("it serves", Duration::from_secs(20), async || home.log("served.log").contains("serves HTTP")).await;
    served.signal("TERM");
    assert_eq!(served.ended(Duration::from_secs(20)).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_a_log_is_an_object_where_json_is_asked_for() {
    let home = Home::new().await;
    let settings = home.settings(&[("log.format", "json"), ("log.level", "debug")]);
    let starter = home.role("starter", &settings).await;
    post(&starter, &young(30)).await;
    let others = [home.role("updater", &settings).await, home.role("ops", &settings).await];
    others[1].get("/status").await;
    until_true("a batch is settled", Duration::from_secs(30), async || home.log("updater.log").contains("\"batch\""))
        .await;
    for role in [starter].into_iter().chain(others) {
        assert_eq!(role.stopped().await, Some(0));
    }
    for role in ROLES {
        let log = home.log(&format!("{role}.log"));
        assert!(log.lines().count() >= 3, "{role}: {log}");
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|why| panic!("{role}: {why}: {line}"));
            assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hooks_token_shows_nowhere() {
    const TOKEN: &str = "canary-6f-of-the-hook";
    let home = Home::new().await;
    let file = home.path("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let ways = [("starter.bearer_token", TOKEN), ("starter.bearer_token_file", file.to_str().unwrap())];
    for (name, way) in ways.into_iter().enumerate() {
        let settings = home.settings(&[way, ("log.level", "trace")]);
        let log = home.path(&format!("{name}.log"));
        let starter = Role::start_ready("starter", &settings, &log).await;
        let mut said = String::new();
        for (sent, status) in [(Some(TOKEN), 202), (Some("canary-wrong"), 401), (None, 401)] {
            let mut request = starter.client.post(format!("{}/tweets", starter.url)).body(young(1).remove(0));
            if let Some(sent) = sent {
                request = request.header("authorization", format!("Bearer {sent}"));
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), status);
            said += &format!("{:?}{}", response.headers().clone(), response.text().await.unwrap());
        }
        for path in ["/live", "/ready", "/metrics", "/openapi.json"] {
            said += &starter.get(path).await.1;
        }
        let check = run(&["check"], &settings);
        assert!(check.status.success() && text(&check.stdout).contains("[starter]"));
        said += &text(&check.stdout);
        assert_eq!(starter.stopped().await, Some(0));
        said += &std::fs::read_to_string(&log).unwrap();
        assert!(said.contains("DEBUG") && said.contains("answered over HTTP"), "{said}");
        assert!(!said.contains("canary"), "{}", said.lines().find(|line| line.contains("canary")).unwrap());
    }
    let both = home.settings(&ways);
    let output = run(&["starter"], &both);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(64) && said.contains("starter.bearer_token") && said.contains("remove one"),
        "{said}"
    );
}
