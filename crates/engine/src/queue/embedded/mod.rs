//! The queue in one durable SQLite file, shared by the processes of one machine.
//!
//! Every call is one transaction, or one step of a transaction that several calls share; there is one writer at a time. The
//! machine's clock is the queue's clock. Statements are set-based (`json_each`): each one costs a hop to SQLite's thread.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::{
    Adoption, Claim, ClaimRequest, Fence, Job, Jobs, Lane, Lateness, MINUTE_MS, MINUTES_KEPT, NewJob, Order,
    PostponeOutcome, PromoteOutcome, Result, ScheduleOutcome, SettleOutcome, Verdict, Workers,
};
use crate::base::backend::RefusedWrites;
use crate::base::backend::sqlite::{self, SharedFile, Statements, Tx};
use crate::base::clock::{self, Millis, Stopwatch};

/// Adds to counters. [`EmbeddedQueue::bind_counters`] binds the values.
macro_rules! count {
    () => {
        "INSERT INTO queue_counter (namespace, minute, name, value)
         SELECT ?, minute.value, counter.value ->> 0, counter.value ->> 1
         FROM json_each(?) AS counter, json_each(json_array(0, ?)) AS minute WHERE true
         ON CONFLICT DO UPDATE SET value = value + excluded.value;
         DELETE FROM queue_counter WHERE namespace = ? AND minute > 0 AND minute <= ?"
    };
}

/// Stores lanes with their current settings. Needs a namespace and [`lane_rows`].
macro_rules! store_lanes {
    () => {
        "INSERT INTO queue_lane (namespace, lane, patience, tier, ordering)
         SELECT ?, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?) WHERE true
         ON CONFLICT DO UPDATE SET patience = excluded.patience, tier = excluded.tier, ordering = excluded.ordering
         WHERE patience <> excluded.patience OR tier <> excluded.tier OR ordering <> excluded.ordering"
    };
}

mod claim;
mod errors;
mod hours;
mod incoming;
mod pick;
mod promote;
mod repair;
mod schedule;
mod settle;
mod stats;

const DELAYED: i64 = 0;
const LEASED: i64 = 1;
const DEAD: i64 = 2;

/// Time for which a worker stays on the list after its last heartbeat.
const WORKER_EXPIRY_MS: Millis = 60_000;

/// The distinct lanes, in the form that [`store_lanes!`] reads.
fn lane_rows<'a>(lanes: impl IntoIterator<Item = &'a Lane>) -> String {
    let mut different: Vec<&Lane> = Vec::new();
    for lane in lanes {
        if !different.contains(&lane) {
            different.push(lane);
        }
    }
    let row = |lane: &Lane| json!([&*lane.name, lane.patience, lane.tier, lane.order.word()]);
    serde_json::Value::from_iter(different.into_iter().map(row)).to_string()
}

#[derive(Debug, Clone)]
pub struct EmbeddedQueue {
    file: SharedFile,
    namespace: String,
}

impl EmbeddedQueue {
    /// Opens the file; creates it and its tables if they are missing.
    ///
    /// # Errors
    /// [`QueueError::Unavailable`](super::QueueError::Unavailable) if the file cannot be opened or created.
    pub async fn open(path: &Path, namespace: &str, busy_timeout: Duration) -> Result<Self> {
        let file = sqlite::open(path, busy_timeout).await?;
        let queue = Self { file, namespace: namespace.to_owned() };
        let mut tx = queue.begin().await?;
        sqlite::create_tables(&mut tx, include_str!("schema.sql")).await?;
        sqlx::query("INSERT INTO queue_namespace (namespace) VALUES (?) ON CONFLICT DO NOTHING")
            .bind(namespace)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(queue)
    }

    async fn begin(&self) -> Result<Tx> {
        self.file.begin().await
    }

    /// Lanes sorted by tier, then by interval, shortest first.
    async fn lanes(&self, file: &mut SqliteConnection) -> Result<Vec<Lane>> {
        let rows = sqlx::query(
            "SELECT lane, patience, tier, ordering FROM queue_lane WHERE namespace = ? ORDER BY tier, patience, lane",
        )
        .bind(&self.namespace)
        .fetch_all(file)
        .await?;
        let lane = |row: &SqliteRow| Lane {
            name: row.get::<String, _>(0).into(),
            patience: row.get(1),
            tier: row.get(2),
            order: Order::from_word(row.get(3)),
        };
        Ok(rows.iter().map(lane).collect())
    }

    async fn store_lanes(&self, tx: &mut Tx, rows: String) -> Result<()> {
        if rows != "[]" {
            sqlx::query(store_lanes!()).bind(&self.namespace).bind(rows).execute(&mut **tx).await?;
        }
        Ok(())
    }

    /// State of the id at the start of each row of `rows` (a JSON list of lists). `None` if the queue does not have the id, or if its key
    /// is greater than `last`.
    async fn read_states(&self, tx: &mut Tx, rows: &str, last: i64) -> Result<Vec<Option<i64>>> {
        let states: String = sqlx::query_scalar(
            "SELECT json_group_array(job.state ORDER BY given.key) FROM json_each(?1) AS given
             LEFT JOIN queue_job AS job ON job.namespace = ?2 AND job.id = given.value ->> 0 AND job.key <= ?3",
        )
        .bind(rows)
        .bind(&self.namespace)
        .bind(last)
        .fetch_one(&mut **tx)
        .await?;
        Ok(sqlite::parse_rows(&states)?)
    }

    /// Binds the values of a text that ends with [`count!`]: the totals (minute 0) and this minute.
    fn bind_counters<'q>(
        &'q self,
        statements: Statements<'q>,
        now: Millis,
        counters: &[(&str, i64)],
    ) -> Statements<'q> {
        let counters: Vec<_> = counters.iter().filter(|(_, by)| *by != 0).collect();
        let minute = now / MINUTE_MS;
        statements
            .bind(&self.namespace)
            .bind(json!(counters).to_string())
            .bind(minute)
            .bind(&self.namespace)
            .bind(minute - Millis::from(MINUTES_KEPT))
    }

    async fn count(&self, tx: &mut Tx, now: Millis, counters: &[(&str, i64)]) -> Result<()> {
        if counters.iter().any(|(_, by)| *by != 0) {
            sqlite::run(tx, self.bind_counters(sqlx::query(count!()), now, counters)).await?;
        }
        Ok(())
    }

    async fn count_lateness(&self, tx: &mut Tx, now: Millis, lateness: &Lateness) -> Result<()> {
        let rows: Vec<_> = lateness.bounds().collect();
        if rows.is_empty() {
            return Ok(());
        }
        let minute = now / MINUTE_MS;
        sqlx::query(
            "INSERT INTO queue_lateness (namespace, minute, upper, ids)
             SELECT ?1, ?2, value ->> 0, value ->> 1 FROM json_each(?3) WHERE true
             ON CONFLICT DO UPDATE SET ids = ids + excluded.ids",
        )
        .bind(&self.namespace)
        .bind(minute)
        .bind(json!(rows).to_string())
        .execute(&mut **tx)
        .await?;
        sqlx::query("DELETE FROM queue_lateness WHERE namespace = ? AND minute <= ?")
            .bind(&self.namespace)
            .bind(minute - Millis::from(MINUTES_KEPT))
            .execute(&mut **tx)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl Jobs for EmbeddedQueue {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn check(&self) -> Result<Vec<String>> {
        let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(self.file.readers()).await?;
        Ok(vec![format!("embedded queue in one file, SQLite {version}, each save and settle flushed to disk")])
    }

    async fn check_writes(&self) -> std::result::Result<(), RefusedWrites> {
        self.file.check_disk().await
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
        schedule::schedule(self, jobs).await
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>> {
        promote::promote(self, jobs).await
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>> {
        promote::postpone(self, jobs).await
    }

    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
        schedule::revive(self, jobs).await
    }

    async fn forget(&self, ids: &[String]) -> Result<()> {
        repair::forget(self, ids).await
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption> {
        repair::adopt(self, token, ids, lease).await
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim> {
        let asked = Stopwatch::start();
        claim::claim(self, request).await.map(|claim| claim.with_request_start(&asked))
    }

    async fn empty_claim(&self, request: &ClaimRequest<'_>) -> Result<Option<Claim>> {
        claim::empty_claim(self, request).await
    }

    async fn settle(&self, fence: &Fence, verdicts: &[(Job, Verdict)], tally: &[(&str, i64)]) -> Result<SettleOutcome> {
        settle::settle(self, fence, verdicts, tally).await
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome> {
        settle::release(self, fence, jobs).await
    }

    async fn mark_trial(&self, fence: &Fence) -> Result<bool> {
        settle::mark_trial(self, fence).await
    }
}

#[async_trait]
impl Workers for EmbeddedQueue {
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let fields: serde_json::Map<_, _> =
            fields.iter().map(|(field, value)| ((*field).to_owned(), json!(value))).collect();
        sqlx::query(
            "INSERT INTO queue_worker (namespace, worker, beat, fields) VALUES (?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET beat = excluded.beat, fields = excluded.fields",
        )
        .bind(&self.namespace)
        .bind(worker)
        .bind(now)
        .bind(serde_json::Value::Object(fields).to_string())
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM queue_worker WHERE namespace = ? AND beat <= ?")
            .bind(&self.namespace)
            .bind(now - WORKER_EXPIRY_MS)
            .execute(&mut *tx)
            .await?;
        self.count(&mut tx, now, counters).await?;
        self.count_lateness(&mut tx, now, lateness).await?;
        Ok(tx.commit_unflushed().await?)
    }

    async fn deregister(&self, worker: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM queue_worker WHERE namespace = ? AND worker = ?")
            .bind(&self.namespace)
            .bind(worker)
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }
}
