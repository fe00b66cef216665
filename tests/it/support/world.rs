//! Services for the binary itself: a queue and a store of any kind, and the settings that name them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::engine::queue::{EmbeddedQueue, Queue, RedisQueue};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Communities, Edges, FollowList, PostgresStore, SqliteStore, Store};

use super::postgres;
use super::process::{Variables, variables};
use super::redis::{TestRedis, pool};

/// Services for one case, and the settings that name them.
pub struct World {
    pub settings: Variables,
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    /// Who follows whom, in the same database.
    pub edges: Arc<dyn Edges>,
    /// The accounts that are visited, in the same database.
    pub followed: Arc<dyn FollowList>,
    /// Who belongs to which community, in the same database.
    pub communities: Arc<dyn Communities>,
    /// Where the queue is, if it is in Redis.
    pub redis: Option<TestRedis>,
}

#[derive(Debug, Clone, Copy)]
pub struct Backends {
    pub redis: bool,
    pub postgres: bool,
}

impl World {
    pub async fn new(backends: Backends, folder: &Path, api: &str) -> Self {
        let redis = backends.redis.then(|| TestRedis::start(&["--appendonly", "yes"]));
        let postgres = if backends.postgres { Some(postgres::database().await) } else { None };
        let url = redis.as_ref().map(|redis| &*redis.url);
        let world = Self::over(url, postgres, folder, api).await;
        Self { redis, ..world }
    }

    /// Over the Redis and the PostgreSQL database of these addresses, where there are any.
    pub async fn over(redis: Option<&str>, postgres: Option<String>, folder: &Path, api: &str) -> Self {
        let file = folder.join("jobs.db");
        let tweets = folder.join("tweets.db");
        let mut settings = variables(&[
            ("twitter.api", api),
            ("lookup.timeout", "1s"),
            ("updater.save_timeout", "1s"),
            ("updater.lease", "2500ms"),
            ("updater.buffer_ttl", "100ms"),
            ("updater.unavailable_every", "1s"),
            ("tweet_age", "30d: 1s"),
            ("queue.embedded.path", file.to_str().unwrap()),
            ("store.sqlite.path", tweets.to_str().unwrap()),
        ]);
        let patience = Duration::from_secs(10);
        let queue: Arc<dyn Queue> = match redis {
            Some(url) => {
                settings.extend(variables(&[("queue.backend", "redis"), ("queue.redis.url", url)]));
                Arc::new(RedisQueue::new(pool(url), NAMESPACE))
            }
            None => Arc::new(EmbeddedQueue::open(&file, NAMESPACE, patience).await.unwrap()),
        };
        type Parts = (Arc<dyn Store>, Arc<dyn Edges>, Arc<dyn FollowList>, Arc<dyn Communities>);
        let (store, edges, followed, communities): Parts = if let Some(url) = postgres {
            settings.extend(variables(&[("store.backend", "postgres"), ("store.postgres.url", &url)]));
            let store = Arc::new(PostgresStore::connect(&SecretString::from(url), 2, 3 * patience).await.unwrap());
            (store.clone(), store.clone(), store.clone(), store)
        } else {
            let store = Arc::new(SqliteStore::open(&tweets, patience).await.unwrap());
            (store.clone(), store.clone(), store.clone(), store)
        };
        store.migrate().await.unwrap();
        Self { settings, queue, store, edges, followed, communities, redis: None }
    }

    /// The queue of another pipeline in the Redis at that address.
    pub fn queue_at(&self, url: &str, namespace: &str) -> Arc<dyn Queue> {
        Arc::new(RedisQueue::new(pool(url), namespace))
    }

    /// The queue of another pipeline; `folder` is that of the world's files.
    pub async fn queue_of(&self, folder: &Path, namespace: &str) -> Arc<dyn Queue> {
        match &self.redis {
            Some(redis) => self.queue_at(&redis.url, namespace),
            None => {
                let patience = Duration::from_secs(10);
                Arc::new(EmbeddedQueue::open(&folder.join("jobs.db"), namespace, patience).await.unwrap())
            }
        }
    }

    /// The settings, and one more variable.
    pub fn with(&self, variable: &str, value: &str) -> Variables {
        self.settings.iter().cloned().chain([(variable.to_owned(), value.to_owned())]).collect()
    }

    /// Whether each of these was looked up after that moment and waits for its next time.
    pub async fn all_fresh(&self, ids: &[String], since: i64) -> bool {
        self.all_fresh_in(NAMESPACE, ids, since).await
    }

    /// The same in another pipeline.
    pub async fn all_fresh_in(&self, namespace: &str, ids: &[String], since: i64) -> bool {
        let standings = self.store.standing(namespace, ids).await.unwrap();
        standings.iter().flatten().filter_map(|known| known.checked_at).filter(|checked_at| *checked_at > since).count()
            == ids.len()
    }
}
