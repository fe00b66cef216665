//! The page, in the browser its users have. What it shows of each state, `http` and the page's own tests see;
//! here is what takes a browser: that it lives, that it can be used by anybody, and that a tweet stays text.

mod checks;
mod dead;
mod demo;
mod errors;
mod hands;
mod hostile;
mod live;
mod looks;
mod namespaces;
mod past;
mod polled;
mod search;
mod stop;
mod without_mouse;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Job, RecordedError, Verdict};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, Running, SimulatorOptions};

use crate::support::browser::{Browser, PATIENCE};
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::redis::TestRedis;
use crate::support::role::Role;
use crate::support::wait::{until, until_true};
use crate::support::world::World;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const SECTIONS: [&str; 9] = ["freshness", "lateness", "coming", "flow", "quota", "workers", "dead", "tweets", "errors"];
/// What opens the dead to a person.
const TOKEN: &str = "canary-of-the-page";
/// Ends elements and attributes of every kind, and says so if it runs.
const HOSTILE: &str =
    r#"<script>window.ran=1</script><img src=x onerror="window.ran=2">'"&</textarea></title></svg>-->{{7*7}}"#;

/// A Redis, an API, an updater and `ops`, and tweets. The young ones are looked up each second, those older than
/// an hour stay as they were enqueued.
struct Stage {
    world: World,
    redis: TestRedis,
    _api: Running,
    _updater: Process,
    ops: Role,
    ids: Vec<String>,
    folder: TempDir,
}

impl Stage {
    async fn new(more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let redis = TestRedis::start(&[]);
        let options = SimulatorOptions {
            latency: Duration::from_millis(5),
            missing_share: 0.0,
            growth: Duration::from_secs(120),
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let mut world = World::over(Some(&redis.url), None, folder.path(), &api.base_url()).await;
        let own = [("tweet_age", "1h: 1s, 2d: 12h"), ("http.drain_notice", "0s"), ("updater.name", "worker-1")];
        world.settings.extend(variables(&own));
        world.settings.extend(variables(more));
        let updater = Process::start(&["updater"], &world.settings, &folder.path().join("updater.log"));
        let ops = Role::start_ready("ops", &world.settings, &folder.path().join("ops.log")).await;
        let made = wall_ms() - MINUTE;
        let ids = (0..150).map(|number| TweetId::at(made, number).to_string()).collect();
        let stage = Self { world, redis, _api: api, _updater: updater, ops, ids, folder };
        stage.enqueue(&stage.ids.join("\n"));
        stage
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn enqueue(&self, lines: &str) {
        let output = run_with_input(&["enqueue", "--first", "interval"], &self.world.settings, lines.as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// Enqueues a tweet that says this by that author; its next update is hours away.
    fn says(&self, said: &str, author: &str) -> String {
        let id = TweetId::at(wall_ms() - 2 * HOUR, 0).to_string();
        self.enqueue(&json!({"id_str": id, "text": said, "user": {"id_str": "12", "screen_name": author}}).to_string());
        id
    }

    /// Buries so many tweets that were never scheduled, in the store first.
    async fn mark_dead(&self, count: u32, reason: &str) -> Vec<String> {
        self.mark_each_dead(&vec![reason; count as usize]).await
    }

    /// The same, for these reasons.
    async fn mark_each_dead(&self, reasons: &[&str]) -> Vec<String> {
        let made = wall_ms() - 3 * HOUR;
        let dead: Vec<(String, String)> =
            (0..).zip(reasons).map(|(n, reason)| (TweetId::at(made, n).to_string(), (*reason).to_owned())).collect();
        self.world.store.mark_dead(NAMESPACE, wall_ms(), &dead).await.unwrap();
        let ids: Vec<String> = dead.iter().map(|(id, _)| id.clone()).collect();
        let taken = self.world.queue.adopt("bury", &ids, Duration::from_secs(300)).await.unwrap();
        let buried = |(id, reason): (String, String)| {
            let job = Job { id, lane: "x".into(), due: 0, deliveries: 0, failures: 0, order: Default::default() };
            (job, Verdict::MarkDead { reason })
        };
        let verdicts: Vec<_> = dead.into_iter().map(buried).collect();
        assert_eq!(self.world.queue.settle(&taken.fence, &verdicts, &[]).await.unwrap().settled, ids.len() as u64);
        ids
    }

    /// Records 12 errors of that kind at that host, as a worker does.
    async fn record_error(&self, kind: &str, host: &str, message: &str) {
        let error = RecordedError {
            pipeline: NAMESPACE.to_owned(),
            kind: kind.to_owned(),
            host: host.to_owned(),
            endpoint: "statuses/lookup".to_owned(),
            count: 12,
            first_ms: wall_ms() - HOUR,
            last_ms: wall_ms(),
            example: Some(self.ids[0].clone()),
            message: message.to_owned(),
        };
        self.world.queue.record_errors(&[error]).await.unwrap();
    }

    /// The address of that path.
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.ops.url)
    }

    /// A tweet whose counts were found so often to be others.
    async fn grown(&self, times: usize) -> String {
        until("counts that grow", PATIENCE, async || {
            for id in &self.ids {
                if self.world.store.history(NAMESPACE, id).await.unwrap().len() >= times {
                    return Some(id.clone());
                }
            }
            None
        })
        .await
    }

    /// Until the page's first figures hold updates.
    async fn until_updated(&self) {
        until_true("tweets are updated", PATIENCE, async || {
            self.world.queue.stats().await.unwrap().counters.get("rescheduled").is_some_and(|count| *count > 0)
        })
        .await;
    }
}

/// Nothing failed, was refused or missed, and no policy was violated.
async fn is_silent(browser: &Browser) {
    // The browser's own first page says something now and then.
    let said: Vec<_> = browser.console().await.into_iter().filter(|said| !said.starts_with("\"chrome://")).collect();
    assert!(said.is_empty(), "{}: {said:#?}", browser.url().await);
}

/// The moment, ms since the epoch, of the figures that the page shows.
async fn shown_at(browser: &Browser) -> i64 {
    browser.attribute("main", "data-at").await.and_then(|at| at.parse().ok()).expect("main has no data-at")
}
