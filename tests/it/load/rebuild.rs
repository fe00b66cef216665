//! The queue is wiped while updaters are in full swing, and rebuilt by two at once: nothing is lost, nothing
//! is doubled, and neither the dead nor the ended come back.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use sqlx::{ConnectOptions, Executor};
use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Place, Queue, RedisQueue};
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{PostgresStore, SqliteStore, Store};

use crate::support::process::{Process, Variables, command, run, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::{postgres, redis::TestRedis};

const TWEETS: u32 = 1_500;
const DEAD: usize = 40;
const PATIENCE: Duration = Duration::from_secs(30);

struct Stage {
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
    settings: Vec<(&'static str, String)>,
    folder: TempDir,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_in_full_swing() {
    let redis = TestRedis::start(&[]);
    let database = postgres::database().await;
    let store = PostgresStore::connect(&SecretString::from(database.clone()), 4, PATIENCE).await.unwrap();
    let settings = vec![
        ("queue.backend", "redis".to_owned()),
        ("queue.redis.url", redis.url.clone()),
        ("store.backend", "postgres".to_owned()),
        ("store.postgres.url", database),
    ];
    let queue = Arc::new(RedisQueue::new(redis.pool(), NAMESPACE));
    let stage = Stage { queue, store: Arc::new(store), settings, folder: tempfile::tempdir().unwrap() };
    stage
        .full_swing(async || {
            let mut connection = redis.connection().await;
            let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_file_in_full_swing() {
    let folder = tempfile::tempdir().unwrap();
    let [jobs, tweets] = ["queue.db", "tweets.db"].map(|name| folder.path().join(name));
    let store = SqliteStore::open(&tweets, PATIENCE).await.unwrap();
    let settings = vec![
        ("queue.embedded.path", jobs.to_str().unwrap().to_owned()),
        ("store.sqlite.path", tweets.to_str().unwrap().to_owned()),
        ("queue.embedded.busy_timeout", "20s".to_owned()),
        ("store.sqlite.busy_timeout", "20s".to_owned()),
    ];
    let queue = Arc::new(EmbeddedQueue::open(&jobs, NAMESPACE, PATIENCE).await.unwrap());
    let stage = Stage { queue, store: Arc::new(store), settings, folder };
    stage
        .full_swing(async || {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&jobs).busy_timeout(PATIENCE);
            let mut connection = options.connect().await.unwrap();
            connection.execute("BEGIN IMMEDIATE; DELETE FROM queue_job; DELETE FROM queue_lane; COMMIT").await.unwrap();
        })
        .await;
}

impl Stage {
    fn settings(&self, more: &[(&str, &str)]) -> Variables {
        let own: Vec<(&str, &str)> = self.settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        variables(&[&own, more].concat())
    }

    async fn full_swing(&self, wipe: impl AsyncFnOnce()) {
        let options = SimulatorOptions {
            latency: Duration::from_millis(100),
            jitter: Duration::from_millis(50),
            calls_per_window: 0,
            missing_share: 0.1,
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        // Some of the missing end every few moments; the others go round.
        let settings = self.settings(&[
            ("twitter.api", &api.base_url()),
            ("lookup.timeout", "2s"),
            ("updater.save_timeout", "5s"),
            ("updater.lease", "10s"),
            ("updater.buffer_ttl", "200ms"),
            ("updater.unavailable_after", "200ms"),
            ("updater.unavailable_every", "2s"),
            ("updater.unavailable_limit", "3"),
            ("updater.unavailable_for", "1s"),
            ("tweet_age", "1h: 1s, 30d: 3s"),
        ]);
        assert!(run(&["migrate"], &settings).status.success());
        let now = wall_ms();
        let age = |n: u32| if n.is_multiple_of(2) { 60_000 } else { 86_400_000 };
        let ids: Vec<String> = (0..TWEETS).map(|n| TweetId::at(now - age(n) - i64::from(n), n).to_string()).collect();
        let enqueued = run_with_input(&["enqueue", "--first", "interval"], &settings, ids.join("\n").as_bytes());
        assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));
        // The dead are dead in the store, as after an earlier wipe.
        let dead: Vec<_> = ids[..DEAD].iter().map(|id| (id.clone(), "why".to_owned())).collect();
        self.queue.forget(&ids[..DEAD]).await.unwrap();
        self.store.mark_dead(NAMESPACE, now, &dead).await.unwrap();

        let log = self.folder.path().join("log");
        let mut updaters: Vec<_> = (0..3).map(|_| Process::start(&["updater"], &settings, &log)).collect();
        let said = || std::fs::read_to_string(&log).unwrap();
        until_true("they are in full swing, and some have ended", Duration::from_secs(60), async || {
            let counts = self.store.counts(NAMESPACE).await.unwrap();
            counts.ended >= 20 && self.queue.stats().await.unwrap().leased > 0
        })
        .await;

        wipe().await;
        let wiped = wall_ms();
        let ended = self.in_state(&ids, ItemState::Ended).await;
        let rebuilds = [self.start_rebuild(&settings), self.start_rebuild(&settings)].map(finished);
        let put_back: u64 = rebuilds.iter().map(|done| done["put_back"].as_u64().unwrap()).sum();
        println!("{rebuilds:?}");
        assert!(rebuilds.iter().all(|done| done["complete"] == true));
        let buried: u64 = rebuilds.iter().map(|done| done["buried"].as_u64().unwrap()).sum();
        assert_eq!(buried, DEAD as u64, "each is dead in the queue again, by one of the two");
        // Once each; those that ended before the wipe and the dead are none of them.
        assert!(put_back > 500 && put_back <= u64::from(TWEETS) - (DEAD + ended.len()) as u64, "{put_back}");

        // Every living tweet goes round again.
        until_true("all are updated after the wipe", Duration::from_secs(60), async || {
            self.store.standing(NAMESPACE, &ids).await.unwrap().into_iter().flatten().all(|known| {
                matches!(known.state, ItemState::Ended | ItemState::Dead) || known.checked_at.unwrap_or(0) > wiped
            })
        })
        .await;
        // A worker whose lease was wiped may have ended a tweet after it was put back: its next answer says so
        // again, and then it is in no place.
        until_true("who has ended is in no place", Duration::from_secs(60), async || {
            let over: Vec<_> = self.in_state(&ids, ItemState::Ended).await.into_iter().collect();
            self.queue.locate(&over).await.unwrap().iter().all(Vec::is_empty)
        })
        .await;
        for updater in &mut updaters {
            assert!(updater.runs(), "{}", said());
        }
        for updater in updaters {
            assert!(updater.terminate().success(), "{}", said());
        }
        let last = finished(self.start_rebuild(&settings));
        assert_eq!(last["put_back"], 0, "nothing was left behind: {last}");
        for ((id, places), standing) in (ids.iter().zip(self.queue.locate(&ids).await.unwrap()))
            .zip(self.store.standing(NAMESPACE, &ids).await.unwrap())
        {
            let state = standing.unwrap().state;
            assert_eq!(places.len(), usize::from(state != ItemState::Ended), "{id}: {places:?}, {state}");
            let is_dead = matches!(places[..], [Place::Dead { .. }]);
            assert_eq!(is_dead, state == ItemState::Dead, "{id}: {places:?}, {state}");
        }
        let still = self.in_state(&ids, ItemState::Ended).await;
        assert!(still.is_superset(&ended), "{:?} live again", ended.difference(&still));
        assert_eq!(self.in_state(&ids, ItemState::Dead).await, ids[..DEAD].iter().cloned().collect());
        api.stop().await;
    }

    async fn in_state(&self, ids: &[String], state: ItemState) -> BTreeSet<String> {
        let standings = self.store.standing(NAMESPACE, ids).await.unwrap();
        let is = |(id, known): (&String, Option<twitter_updater::store::Standing>)| {
            known.is_some_and(|known| known.state == state).then(|| id.clone())
        };
        ids.iter().zip(standings).filter_map(is).collect()
    }

    fn start_rebuild(&self, settings: &Variables) -> Child {
        command(&["rebuild", "--json"], settings).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn finished(rebuild: Child) -> Value {
    let output = rebuild.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
