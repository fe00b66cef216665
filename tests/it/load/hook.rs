//! 200 connections of an ingest against one starter, whose Redis is killed in the middle: what was answered 202
//! is in the store at once, and in the queue after one rebuild, whatever Redis has lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Inspection, RedisQueue};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Lifecycle, PostgresStore};

use crate::support::postgres;
use crate::support::process::{run, text, variables};
use crate::support::redis::TestRedis;
use crate::support::role::{Role, client};
use crate::support::wait::until_true;

const CONNECTIONS: usize = 200;
const TWEETS_EACH: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(60);

/// What the connections have seen so far.
#[derive(Default)]
struct Seen {
    accepted: AtomicU64,
    turned_away: AtomicU64,
    unanswered: AtomicU64,
    /// Those that found each of their tweets in the store right after the answer.
    looked: AtomicU64,
    next: AtomicU32,
    enough: AtomicBool,
}

/// One connection: sends, and sends what was not answered by 202 again, until it is enough.
async fn ingest(url: String, store: Arc<PostgresStore>, seen: Arc<Seen>) -> Vec<String> {
    let client = client();
    let mut accepted = Vec::new();
    let mut ids = Vec::new();
    while !seen.enough.load(SeqCst) {
        if ids.is_empty() {
            let first = seen.next.fetch_add(TWEETS_EACH, SeqCst);
            // 4,096 ids a millisecond and machine: far apart in time, so that none is twice.
            ids = (first..first + TWEETS_EACH).map(|n| TweetId::at(wall_ms() - i64::from(n), n).to_string()).collect();
        }
        match client.post(&url).header("content-type", "application/x-ndjson").body(ids.join("\n")).send().await {
            Ok(answer) if answer.status() == 202 => {
                let receipt: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
                let done = receipt["scheduled"].as_u64().unwrap() + receipt["known"].as_u64().unwrap();
                assert_eq!(done, u64::from(TWEETS_EACH), "{receipt}");
                // Now, not later; some of them, since the database has enough to do.
                if seen.accepted.fetch_add(1, SeqCst).is_multiple_of(8) {
                    let standings = store.standing(NAMESPACE, &ids).await.unwrap();
                    assert!(standings.iter().all(Option::is_some), "202, and not in the store");
                    seen.looked.fetch_add(1, SeqCst);
                }
                accepted.append(&mut ids);
            }
            Ok(answer) => {
                assert_eq!(answer.status(), 503, "{:?}", answer.text().await);
                assert!(answer.headers().contains_key("retry-after"));
                seen.turned_away.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(_) => {
                seen.unanswered.fetch_add(1, SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_and_a_killed_redis() {
    let lost = a_killed_redis_under_an_ingest(&["--appendonly", "yes", "--appendfsync", "everysec"]).await;
    println!("with an AOF: {lost} of them were lost with Redis's last second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_and_a_redis_that_forgets() {
    let lost = a_killed_redis_under_an_ingest(&["--appendonly", "no", "--save", ""]).await;
    println!("without: {lost} of them were lost");
    assert!(lost >= 1_000 * TWEETS_EACH as usize, "what came before it was killed");
}

/// Answers how many tweets that were answered 202 were put back by the rebuild.
async fn a_killed_redis_under_an_ingest(persistence: &[&str]) -> usize {
    let mut redis = TestRedis::start(persistence);
    let database = postgres::database().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let settings = variables(&[
        ("queue.backend", "redis"),
        ("queue.redis.url", &redis.url),
        ("store.backend", "postgres"),
        ("store.postgres.url", &database),
        ("twitter.api", "http://127.0.0.1:9"),
        ("tweet_age", "30d: 1d"),
    ]);
    assert!(run(&["migrate"], &settings).status.success());
    let store = Arc::new(PostgresStore::connect(&SecretString::from(database), 4, PATIENCE).await.unwrap());
    let starter = Role::start_ready("starter", &settings, &log).await;
    let said = || std::fs::read_to_string(&log).unwrap();

    let seen = Arc::new(Seen::default());
    let url = format!("{}/tweets", starter.url);
    let ingests: Vec<_> =
        (0..CONNECTIONS).map(|_| tokio::spawn(ingest(url.clone(), store.clone(), seen.clone()))).collect();
    until_true("it is under load", PATIENCE, async || seen.accepted.load(SeqCst) >= 1_000).await;
    redis.kill();
    until_true("all are turned away", PATIENCE, async || seen.turned_away.load(SeqCst) >= CONNECTIONS as u64).await;
    assert_eq!(starter.get("/live").await.0, 200);
    redis.start_again();
    let before = seen.accepted.load(SeqCst);
    until_true("it is under load again", PATIENCE, async || seen.accepted.load(SeqCst) >= before + 1_000).await;
    seen.enough.store(true, SeqCst);
    let mut accepted = Vec::new();
    for ingest in ingests {
        accepted.extend(ingest.await.unwrap());
    }
    assert_eq!(starter.stopped().await, Some(0), "{}", said());
    let count = |of: &AtomicU64| of.load(SeqCst);
    println!(
        "{} tweets in {} answers 202, {} answers 503, {} without an answer",
        accepted.len(),
        count(&seen.accepted),
        count(&seen.turned_away),
        count(&seen.unanswered)
    );
    assert!(count(&seen.looked) >= 200, "{}", count(&seen.looked));
    assert_eq!(accepted.iter().collect::<HashSet<_>>().len(), accepted.len());

    let standings = store.standing(NAMESPACE, &accepted).await.unwrap();
    assert_eq!(standings.iter().filter(|known| known.is_none()).count(), 0, "not in the store");
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    let missing = async || {
        let mut missing = 0;
        for some in accepted.chunks(1_000) {
            missing += queue.locate(some).await.unwrap().iter().filter(|places| places.is_empty()).count();
        }
        missing
    };
    let lost = missing().await;
    let rebuilt = run(&["rebuild", "--rate", "1000000"], &settings);
    assert!(rebuilt.status.success(), "{}", text(&rebuilt.stderr));
    assert_eq!(missing().await, 0);
    lost
}
