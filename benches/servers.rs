//! The servers that stand beside the queue: PostgreSQL as a user would set it up, and what it and Redis tell of
//! themselves.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::support::postgres::{OwnPostgres, own};
use crate::support::redis::TestRedis;

/// Beside the server's defaults.
pub const SETTINGS: [&str; 6] = [
    "shared_buffers = '2GB'",
    "max_wal_size = '8GB'",
    "checkpoint_timeout = '15min'",
    "wal_compression = 'lz4'",
    "full_page_writes = on",
    "random_page_cost = 1.1",
];

/// What an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Everything: each commit waits for the disk, as servers do by default.
    Flushed,
    /// A crash of the machine may take the last moment (`synchronous_commit = off`: up to 0.6 s), as it may take
    /// a second from a Redis whose AOF is flushed every second.
    Behind,
    /// A crash of the machine takes the database.
    None,
}

impl Durability {
    /// As settings of the server.
    pub fn settings(self) -> [&'static str; 2] {
        match self {
            Self::Flushed => ["fsync = on", "synchronous_commit = on"],
            Self::Behind => ["fsync = on", "synchronous_commit = off"],
            Self::None => ["fsync = off", "synchronous_commit = off"],
        }
    }
}

/// Its own server.
pub struct Postgres {
    server: OwnPostgres,
}

/// What the server has counted.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot {
    pub wal_bytes: f64,
    updates: f64,
    hot_updates: f64,
    /// The share of updates that touched no index.
    pub hot: f64,
}

impl Snapshot {
    pub fn since(self, before: &Self) -> Self {
        let (updates, hot_updates) = (self.updates - before.updates, self.hot_updates - before.hot_updates);
        Self { wal_bytes: self.wal_bytes - before.wal_bytes, updates, hot_updates, hot: hot_updates / updates.max(1.0) }
    }
}

impl Postgres {
    /// Starts one with an empty database.
    pub async fn start(durability: Durability) -> Self {
        let mut server = own();
        let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
        for setting in SETTINGS.iter().chain(&durability.settings()) {
            connection.execute(AssertSqlSafe(format!("ALTER SYSTEM SET {setting}"))).await.unwrap();
        }
        connection.execute("CREATE DATABASE bench").await.unwrap();
        connection.close().await.unwrap();
        server.stop();
        server.start();
        Self { server }
    }

    pub fn url(&self) -> String {
        self.server.url("bench")
    }

    /// Its first process, the parent of all others.
    pub fn pid(&self) -> u32 {
        let url = self.url();
        let folder = url.split("host=").nth(1).unwrap().split('&').next().unwrap();
        let file = std::fs::read_to_string(format!("{folder}/data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    pub async fn figures(&self) -> Snapshot {
        let mut connection = PgConnection::connect(&self.url()).await.unwrap();
        let (wal_bytes, updates, hot_updates) = sqlx::query_as(
            "SELECT (pg_current_wal_lsn() - '0/0')::float8, n_tup_upd::float8, n_tup_hot_upd::float8 \
             FROM pg_stat_user_tables WHERE relname = 'tweet'",
        )
        .fetch_one(&mut connection)
        .await
        .unwrap();
        connection.close().await.unwrap();
        Snapshot { wal_bytes, updates, hot_updates, hot: f64::NAN }
    }
}

pub async fn redis_pid(redis: &TestRedis) -> u32 {
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut redis.connection().await).await.unwrap();
    info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().parse().unwrap()
}
