//! The common way to do it in PostgreSQL: one table, one index, `FOR UPDATE SKIP LOCKED`, in batches. The due
//! time is the lease as well: whoever takes a job moves it ahead, whoever is done moves it on.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{Connection, Executor, PgConnection, Row};

use super::{AsyncStep, BATCH, LEASE, id};
use crate::servers::{Durability, Postgres};

const CLAIM: &str = "UPDATE job SET due = $1 FROM (SELECT id FROM job WHERE due <= $2 ORDER BY due LIMIT $3 \
     FOR UPDATE SKIP LOCKED) AS picked WHERE job.id = picked.id RETURNING job.id";
const SETTLE: &str = "UPDATE job SET due = $1 WHERE id = ANY($2) AND due = $3";

/// Such a queue in a server of its own.
pub struct SkipLocked {
    server: Postgres,
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

impl SkipLocked {
    pub async fn start(ids: u64, durability: Durability) -> Self {
        let server = Postgres::start(durability).await;
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        connection.execute("CREATE TABLE job (id text PRIMARY KEY, due bigint NOT NULL)").await.unwrap();
        let all: Vec<String> = (0..ids).map(id).collect();
        let insert = "INSERT INTO job SELECT id, $2 FROM UNNEST($1::text[]) AS fresh (id)";
        sqlx::query(insert).bind(&all).bind(now()).execute(&mut connection).await.unwrap();
        connection.execute("CREATE INDEX ON job (due)").await.unwrap();
        connection.execute("VACUUM ANALYZE job").await.unwrap();
        Self { server }
    }

    pub async fn takers(&self, connections: usize) -> Vec<Taker> {
        let mut takers = Vec::new();
        for _ in 0..connections {
            takers.push(Taker(PgConnection::connect(&self.server.url()).await.unwrap()));
        }
        takers
    }
}

pub struct Taker(PgConnection);

impl AsyncStep for Taker {
    async fn step(&mut self) -> usize {
        let now = now();
        let fence = now + LEASE.as_millis() as i64;
        let rows = sqlx::query(CLAIM).bind(fence).bind(now).bind(BATCH as i64).fetch_all(&mut self.0).await.unwrap();
        let ids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let settled = sqlx::query(SETTLE).bind(now).bind(&ids).bind(fence).execute(&mut self.0).await.unwrap();
        assert_eq!(settled.rows_affected(), ids.len() as u64);
        ids.len()
    }
}
