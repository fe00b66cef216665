//! The common way to do it in PostgreSQL: one table, `FOR UPDATE SKIP LOCKED`, in batches; in two forms.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use super::{AsyncStep, BATCH, LEASE, id};
use crate::servers::{Durability, Postgres};

/// What a job's row has, and how it goes to a worker and back.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    table: &'static str,
    indexes: &'static [&'static str],
    /// Parameters: the fence, now, how many.
    claim: &'static str,
    /// Parameters: the new due time, the ids, the fence.
    settle: &'static str,
}

/// What this queue keeps of a job: its lane, its due time, whose it is until when, how often it came back.
/// Leases that ran out are found by an index as well.
pub const LEASED: Form = Form {
    table: "CREATE TABLE job (id text PRIMARY KEY, due bigint NOT NULL, lane text NOT NULL DEFAULT '30d', \
         fence bigint, deliveries int NOT NULL DEFAULT 0)",
    indexes: &["CREATE INDEX ON job (due) WHERE fence IS NULL", "CREATE INDEX ON job (fence) WHERE fence IS NOT NULL"],
    claim: "UPDATE job SET fence = $1 FROM (SELECT id FROM job WHERE fence IS NULL AND due <= $2 ORDER BY due LIMIT $3 \
         FOR UPDATE SKIP LOCKED) AS picked WHERE job.id = picked.id RETURNING job.id, due, lane, deliveries",
    settle: "UPDATE job SET due = $1, fence = NULL, deliveries = 0 WHERE id = ANY($2) AND fence = $3",
};

/// The least that can be: the due time is the lease as well. Whoever takes a job moves it ahead, whoever is
/// done moves it on; when it had been due is forgotten.
pub const LEAN: Form = Form {
    table: "CREATE TABLE job (id text PRIMARY KEY, due bigint NOT NULL)",
    indexes: &["CREATE INDEX ON job (due)"],
    claim: "UPDATE job SET due = $1 FROM (SELECT id FROM job WHERE due <= $2 ORDER BY due LIMIT $3 \
         FOR UPDATE SKIP LOCKED) AS picked WHERE job.id = picked.id RETURNING job.id",
    settle: "UPDATE job SET due = $1 WHERE id = ANY($2) AND due = $3",
};

/// Such a queue in a server of its own.
pub struct SkipLocked {
    server: Postgres,
    form: Form,
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

impl SkipLocked {
    pub async fn start(ids: u64, form: Form) -> Self {
        let server = Postgres::start(Durability::Behind).await;
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        connection.execute(form.table).await.unwrap();
        let all: Vec<String> = (0..ids).map(id).collect();
        let insert = "INSERT INTO job SELECT id, $2 FROM UNNEST($1::text[]) AS fresh (id)";
        sqlx::query(insert).bind(&all).bind(now()).execute(&mut connection).await.unwrap();
        for index in form.indexes {
            connection.execute(AssertSqlSafe(*index)).await.unwrap();
        }
        connection.execute("VACUUM ANALYZE job").await.unwrap();
        Self { server, form }
    }

    pub async fn takers(&self, connections: usize) -> Vec<Taker> {
        let mut takers = Vec::new();
        for _ in 0..connections {
            let connection = PgConnection::connect(&self.server.url()).await.unwrap();
            takers.push(Taker { connection, form: self.form });
        }
        takers
    }
}

pub struct Taker {
    connection: PgConnection,
    form: Form,
}

impl AsyncStep for Taker {
    async fn step(&mut self) -> usize {
        let Self { connection, form } = self;
        let now = now();
        let fence = now + LEASE.as_millis() as i64;
        let claim = sqlx::query(form.claim).bind(fence).bind(now).bind(BATCH as i64);
        let ids: Vec<String> = claim.fetch_all(&mut *connection).await.unwrap().iter().map(|row| row.get(0)).collect();
        let settle = sqlx::query(form.settle).bind(now).bind(&ids).bind(fence);
        assert_eq!(settle.execute(connection).await.unwrap().rows_affected(), ids.len() as u64);
        ids.len()
    }
}
