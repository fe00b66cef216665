//! The queue in one durable SQLite file, shared by the processes of one machine.
//!
//! Every call is one `BEGIN IMMEDIATE` transaction: one writer at a time, so no call sees half of
//! another. The machine's clock is the queue's clock. Statements are set-based (`json_each`), since
//! each statement costs a hop to SQLite's thread.

mod pick;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{Row, Sqlite, Transaction};

use self::pick::{Candidate, Pick};
use super::{
    Batch, Claim, ClaimRequest, Fence, Incoming, Job, LaneStats, NewJob, Place, Queue, QueueError, Scheduled, Settled,
    Stats, Verdict, WorkerStats, check_id, suspect_limit,
};
use crate::backend::sqlite::{self, decide};
use crate::clock::{self, Millis, QueueTime};

const DELAYED: i64 = 0;
const LEASED: i64 = 1;
const DEAD: i64 = 2;

/// Connections of a process to the file: one writes at a time, the others read.
const CONNECTIONS: u32 = 4;
/// How long a drainer of `incoming` keeps the place after its last read.
const DRAINER_HOLD_MS: Millis = 10_000;
/// How long a worker stays on the list after its last beat.
const WORKER_EXPIRY_MS: Millis = 60_000;
/// How long the counters of a minute are kept.
const RATE_MINUTES: Millis = 120;
/// A lane somebody gives a job back to without its patience being known.
const UNKNOWN_PATIENCE_MS: Millis = 60_000;

/// The queue of one namespace in a SQLite file.
#[derive(Debug, Clone)]
pub struct EmbeddedQueue {
    pool: SqlitePool,
    namespace: String,
}

type Tx = Transaction<'static, Sqlite>;

/// A lane as the file knows it.
struct KnownLane {
    name: Arc<str>,
    patience: Millis,
}

impl EmbeddedQueue {
    /// Opens the file, making it and its tables where they are missing.
    ///
    /// # Errors
    /// [`QueueError::Unavailable`] when the file cannot be opened or made.
    pub async fn open(path: &Path, namespace: &str, busy_timeout: Duration) -> Result<Self, QueueError> {
        let pool = sqlite::open(path, busy_timeout, CONNECTIONS).await?;
        let queue = Self { pool, namespace: namespace.to_owned() };
        let mut tx = queue.begin().await?;
        sqlx::raw_sql(include_str!("schema.sql")).execute(&mut *tx).await.map_err(decide)?;
        sqlx::query("INSERT INTO queue_namespace (namespace) VALUES (?) ON CONFLICT DO NOTHING")
            .bind(namespace)
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
        tx.commit().await.map_err(decide)?;
        Ok(queue)
    }

    async fn begin(&self) -> Result<Tx, QueueError> {
        self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(decide)
    }

    async fn lanes(&self, tx: &mut Tx) -> Result<Vec<KnownLane>, QueueError> {
        let rows = sqlx::query("SELECT lane, patience FROM queue_lane WHERE namespace = ? ORDER BY patience, lane")
            .bind(&self.namespace)
            .fetch_all(&mut **tx)
            .await
            .map_err(decide)?;
        Ok(rows.iter().map(|row| KnownLane { name: row.get::<String, _>(0).into(), patience: row.get(1) }).collect())
    }

    async fn know_lane(&self, tx: &mut Tx, lane: &str, patience: Option<Millis>) -> Result<(), QueueError> {
        sqlx::query(
            "INSERT INTO queue_lane (namespace, lane, patience) VALUES (?1, ?2, coalesce(?3, ?4))
             ON CONFLICT DO UPDATE SET patience = ?3 WHERE ?3 IS NOT NULL AND patience <> ?3",
        )
        .bind(&self.namespace)
        .bind(lane)
        .bind(patience)
        .bind(UNKNOWN_PATIENCE_MS)
        .execute(&mut **tx)
        .await
        .map_err(decide)?;
        Ok(())
    }

    /// Adds to counters, for ever (minute 0) and for this minute.
    async fn count(&self, tx: &mut Tx, now: Millis, counters: &[(&str, i64)]) -> Result<(), QueueError> {
        let counters: Vec<_> = counters.iter().filter(|(_, by)| *by != 0).collect();
        if counters.is_empty() {
            return Ok(());
        }
        let minute = now / 60_000;
        sqlx::query(
            "INSERT INTO queue_counter (namespace, minute, name, value)
             SELECT ?1, minute.value, counter.value ->> 0, counter.value ->> 1
             FROM json_each(?2) AS counter, json_each(json_array(0, ?3)) AS minute WHERE true
             ON CONFLICT DO UPDATE SET value = value + excluded.value",
        )
        .bind(&self.namespace)
        .bind(json!(counters).to_string())
        .bind(minute)
        .execute(&mut **tx)
        .await
        .map_err(decide)?;
        sqlx::query("DELETE FROM queue_counter WHERE namespace = ? AND minute > 0 AND minute < ?")
            .bind(&self.namespace)
            .bind(minute - RATE_MINUTES)
            .execute(&mut **tx)
            .await
            .map_err(decide)?;
        Ok(())
    }

    /// Leases whose time is up, in the order they ran out: half a batch at the most, halved again
    /// per further delivery.
    async fn expired(&self, tx: &mut Tx, now: Millis, limit: usize) -> Result<Vec<Job>, QueueError> {
        let rows = sqlx::query(
            "SELECT id, fence, deliveries FROM queue_job
             WHERE namespace = ? AND state = 1 AND fence <= ? ORDER BY fence, id LIMIT ?",
        )
        .bind(&self.namespace)
        .bind(now)
        .bind(suspect_limit(limit, 1) as i64)
        .fetch_all(&mut **tx)
        .await
        .map_err(decide)?;
        let lane: Arc<str> = match self.lanes(tx).await?.first() {
            Some(lane) => lane.name.clone(),
            None => "default".into(),
        };
        let mut picked = Vec::new();
        let mut most = 0;
        for row in rows {
            let deliveries = row.get::<u32, _>(2) + 1;
            most = most.max(deliveries);
            if picked.len() >= suspect_limit(limit, most) {
                break;
            }
            picked.push(Job { id: row.get(0), lane: lane.clone(), due: row.get(1), deliveries });
        }
        Ok(picked)
    }

    /// Each lane's first `limit` jobs.
    async fn candidates(&self, tx: &mut Tx, lanes: &[KnownLane], limit: usize) -> Result<Vec<Candidate>, QueueError> {
        let mut candidates = Vec::new();
        for (lane, known) in lanes.iter().enumerate() {
            let rows = sqlx::query(
                "SELECT id, due, deliveries FROM queue_job
                 WHERE namespace = ? AND state = 0 AND lane = ? ORDER BY due LIMIT ?",
            )
            .bind(&self.namespace)
            .bind(&*known.name)
            .bind(limit as i64)
            .fetch_all(&mut **tx)
            .await
            .map_err(decide)?;
            candidates.extend(rows.iter().map(|row| Candidate {
                id: row.get(0),
                lane,
                due: row.get(1),
                deliveries: row.get(2),
            }));
        }
        Ok(candidates)
    }

    /// How long until a batch can be ready: the least of the buffer's end, the next lease's end, and
    /// when `limit` ids will be due; at most `linger`.
    async fn wait(
        &self,
        tx: &mut Tx,
        now: Millis,
        request: &ClaimRequest<'_>,
        waited: Option<Millis>,
        mut dues: Vec<Millis>,
    ) -> Result<Millis, QueueError> {
        let linger = clock::millis(request.linger);
        let mut wait = linger - waited.unwrap_or(0);
        let next_lease: Option<Millis> =
            sqlx::query_scalar("SELECT min(fence) FROM queue_job WHERE namespace = ? AND state = 1")
                .bind(&self.namespace)
                .fetch_one(&mut **tx)
                .await
                .map_err(decide)?;
        if let Some(fence) = next_lease {
            wait = wait.min(fence - now);
        }
        // Each lane gave its first `limit`, so the limit-th of them all is the limit-th of the queue.
        dues.sort_unstable();
        if let Some(ready) = request.limit.checked_sub(1).and_then(|at| dues.get(at)) {
            wait = wait.min(ready - now);
        }
        Ok(wait.max(1))
    }

    /// Moves what the fence still holds; answers how many rows that were.
    async fn apply(&self, tx: &mut Tx, fence: &Fence, set: &str, rows: &serde_json::Value) -> Result<u64, QueueError> {
        // `set` is one of this file's own texts. The + keeps SQLite from walking the leased rows and
        // reading the JSON again for each of them.
        let sql = format!(
            "WITH given AS MATERIALIZED (
                 SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS number, value ->> 3 AS text
                 FROM json_each(?1))
             UPDATE queue_job SET fence = NULL, token = NULL, {set} FROM given
             WHERE queue_job.namespace = ?2 AND queue_job.id = given.id AND +state = 1 AND +fence = ?3"
        );
        let done = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(rows.to_string())
            .bind(&self.namespace)
            .bind(fence.deadline)
            .execute(&mut **tx)
            .await
            .map_err(decide)?;
        Ok(done.rows_affected())
    }
}

const GIVE_BACK: &str = "state = 0, lane = given.lane, due = given.number";
const RESCHEDULE: &str = "state = 0, lane = given.lane, due = given.number, deliveries = 0";
const RETRY_COUNTED: &str = "state = 0, lane = given.lane, due = given.number, deliveries = deliveries + 1";
const BURY: &str = "state = 2, due = given.number, reason = given.text, deliveries = 0";

#[async_trait]
impl Queue for EmbeddedQueue {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn check(&self) -> Result<Vec<String>, QueueError> {
        let version: String =
            sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&self.pool).await.map_err(decide)?;
        Ok(vec![format!("embedded queue in one file, SQLite {version}, every commit synced to disk")])
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<Scheduled>, QueueError> {
        for job in jobs {
            check_id(&job.id).map_err(|why| QueueError::Refused(format!("{why}: {:?}", job.id)))?;
        }
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let mut lanes: Vec<&super::Lane> = Vec::new();
        for job in jobs {
            if !lanes.contains(&&job.lane) {
                lanes.push(&job.lane);
                self.know_lane(&mut tx, &job.lane.name, Some(job.lane.patience)).await?;
            }
        }
        let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, job.lane.name, now + job.delay.max(0)])).collect();
        let rows = json!(rows).to_string();
        // Where each is already; then all that are nowhere go in, the first of equal ids.
        let found = sqlx::query(
            "SELECT job.state FROM json_each(?1) AS given
             LEFT JOIN queue_job AS job ON job.namespace = ?2 AND job.id = given.value ->> 0
             ORDER BY given.key",
        )
        .bind(&rows)
        .bind(&self.namespace)
        .fetch_all(&mut *tx)
        .await
        .map_err(decide)?;
        sqlx::query(
            "INSERT INTO queue_job (namespace, id, state, lane, due)
             SELECT ?2, value ->> 0, 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE true
             ON CONFLICT DO NOTHING",
        )
        .bind(&rows)
        .bind(&self.namespace)
        .execute(&mut *tx)
        .await
        .map_err(decide)?;
        let mut seen = std::collections::HashSet::new();
        let answers: Vec<Scheduled> = jobs
            .iter()
            .zip(found)
            .map(|(job, row)| match row.get::<Option<i64>, _>(0) {
                None if seen.insert(&job.id) => Scheduled::Scheduled,
                None | Some(DELAYED) => Scheduled::Known,
                Some(LEASED) => Scheduled::Leased,
                Some(_) => Scheduled::Dead,
            })
            .collect();
        let scheduled = answers.iter().filter(|answer| **answer == Scheduled::Scheduled).count();
        self.count(&mut tx, now, &[("scheduled", scheduled as i64)]).await?;
        tx.commit().await.map_err(decide)?;
        Ok(answers)
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        // The same token again: the first reply was lost.
        let repeated = sqlx::query(
            "SELECT id, lane, due, deliveries, fence FROM queue_job
             WHERE namespace = ? AND state = 1 AND fence > ? AND token = ?",
        )
        .bind(&self.namespace)
        .bind(now)
        .bind(request.token)
        .fetch_all(&mut *tx)
        .await
        .map_err(decide)?;
        if let Some(row) = repeated.first() {
            let deadline: Millis = row.get(4);
            let read = |row: &SqliteRow| Job {
                id: row.get(0),
                lane: row.get::<String, _>(1).into(),
                due: row.get(2),
                deliveries: row.get(3),
            };
            return Ok(Claim::Batch(Batch {
                fence: Fence { deadline, token: request.token.to_owned() },
                now: QueueTime::read(now),
                claimed_at: now,
                jobs: repeated.iter().map(read).collect(),
            }));
        }
        let (last_fence, paused): (Millis, Option<String>) =
            sqlx::query_as("SELECT fence, paused FROM queue_namespace WHERE namespace = ?")
                .bind(&self.namespace)
                .fetch_one(&mut *tx)
                .await
                .map_err(decide)?;
        if paused.is_some() {
            return Ok(Claim::Empty { wait: request.linger, paused });
        }

        let mut jobs = self.expired(&mut tx, now, request.limit).await?;
        let expired = jobs.len();
        if jobs.is_empty() {
            let lanes = self.lanes(&mut tx).await?;
            let candidates = self.candidates(&mut tx, &lanes, request.limit).await?;
            let dues: Vec<Millis> = candidates.iter().map(|job| job.due).collect();
            let patience: Vec<Millis> = lanes.iter().map(|lane| lane.patience).collect();
            let pick = Pick {
                now,
                limit: request.limit,
                linger: clock::millis(request.linger),
                lookahead: request.lookahead,
                patience: &patience,
            };
            match pick.batch(candidates) {
                Err(waited) => {
                    let wait = self.wait(&mut tx, now, request, waited, dues).await?;
                    return Ok(Claim::Empty { wait: clock::span(wait), paused: None });
                }
                Ok(batch) => jobs.extend(batch.into_iter().map(|job| Job {
                    id: job.id,
                    lane: lanes[job.lane].name.clone(),
                    due: job.due,
                    deliveries: job.deliveries,
                })),
            }
        }

        // Unique and rising, whatever the clock does.
        let deadline = (now + clock::millis(request.lease).max(1)).max(last_fence + 1);
        let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane, job.due, job.deliveries])).collect();
        sqlx::query(
            "WITH given AS MATERIALIZED (
                 SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS due, value ->> 3 AS deliveries
                 FROM json_each(?1))
             UPDATE queue_job
             SET state = 1, fence = ?3, token = ?4, lane = given.lane, due = given.due, deliveries = given.deliveries
             FROM given WHERE queue_job.namespace = ?2 AND queue_job.id = given.id",
        )
        .bind(json!(rows).to_string())
        .bind(&self.namespace)
        .bind(deadline)
        .bind(request.token)
        .execute(&mut *tx)
        .await
        .map_err(decide)?;
        sqlx::query("UPDATE queue_namespace SET fence = ? WHERE namespace = ?")
            .bind(deadline)
            .bind(&self.namespace)
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
        let counters = [("claims", 1), ("claimed", jobs.len() as i64), ("expired", expired as i64)];
        self.count(&mut tx, now, &counters).await?;
        tx.commit().await.map_err(decide)?;
        Ok(Claim::Batch(Batch {
            fence: Fence { deadline, token: request.token.to_owned() },
            now: QueueTime::read(now),
            claimed_at: now,
            jobs,
        }))
    }

    async fn settle(&self, fence: &Fence, verdicts: &[(Job, Verdict)]) -> Result<Settled, QueueError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let (mut reschedule, mut retry, mut retry_counted, mut bury, mut finish) =
            (vec![], vec![], vec![], vec![], vec![]);
        let mut lanes: Vec<&super::Lane> = Vec::new();
        for (job, verdict) in verdicts {
            match verdict {
                Verdict::Reschedule { lane, delay } => {
                    if !lanes.contains(&lane) {
                        lanes.push(lane);
                    }
                    reschedule.push(json!([job.id, lane.name, now + delay.max(&0)]));
                }
                Verdict::Finish => finish.push(json!([job.id])),
                Verdict::Retry { after, counted } => {
                    let rows = if *counted { &mut retry_counted } else { &mut retry };
                    rows.push(json!([job.id, &*job.lane, now + after.max(&0)]));
                }
                Verdict::Bury { reason } => bury.push(json!([job.id, null, now, reason])),
            }
        }
        let mut settled = 0;
        if now < fence.deadline {
            for lane in lanes {
                self.know_lane(&mut tx, &lane.name, Some(lane.patience)).await?;
            }
            let mut counters = Vec::new();
            for (counter, set, rows) in [
                ("rescheduled", RESCHEDULE, reschedule),
                ("retried", GIVE_BACK, retry),
                ("retried", RETRY_COUNTED, retry_counted),
                ("buried", BURY, bury),
            ] {
                if !rows.is_empty() {
                    let done = self.apply(&mut tx, fence, set, &json!(rows)).await?;
                    settled += done;
                    counters.push((counter, done as i64));
                }
            }
            if !finish.is_empty() {
                let done = sqlx::query(
                    "DELETE FROM queue_job WHERE namespace = ? AND state = 1 AND fence = ?
                     AND id IN (SELECT value ->> 0 FROM json_each(?))",
                )
                .bind(&self.namespace)
                .bind(fence.deadline)
                .bind(json!(finish).to_string())
                .execute(&mut *tx)
                .await
                .map_err(decide)?;
                settled += done.rows_affected();
                counters.push(("finished", done.rows_affected() as i64));
            }
            self.count(&mut tx, now, &counters).await?;
        }
        let lost = verdicts.len() as u64 - settled;
        self.count(&mut tx, now, &[("lost", lost as i64)]).await?;
        tx.commit().await.map_err(decide)?;
        Ok(Settled { settled, lost })
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<Settled, QueueError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let mut settled = 0;
        if now < fence.deadline {
            let mut lanes: Vec<&str> = jobs.iter().map(|job| &*job.lane).collect();
            lanes.sort_unstable();
            lanes.dedup();
            for lane in lanes {
                self.know_lane(&mut tx, lane, None).await?;
            }
            let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane, job.due])).collect();
            settled = self.apply(&mut tx, fence, GIVE_BACK, &json!(rows)).await?;
        }
        let lost = jobs.len() as u64 - settled;
        self.count(&mut tx, now, &[("released", settled as i64), ("lost", lost as i64)]).await?;
        tx.commit().await.map_err(decide)?;
        Ok(Settled { settled, lost })
    }

    async fn stats(&self) -> Result<Stats, QueueError> {
        let mut tx = self.pool.begin().await.map_err(decide)?;
        let now = clock::wall_ms();
        let mut lanes = Vec::new();
        for known in self.lanes(&mut tx).await? {
            let (delayed, due, oldest): (i64, i64, Option<Millis>) = sqlx::query_as(
                "SELECT count(*), coalesce(sum(due <= ?1), 0), min(due) FROM queue_job
                 WHERE namespace = ?2 AND state = 0 AND lane = ?3",
            )
            .bind(now)
            .bind(&self.namespace)
            .bind(&*known.name)
            .fetch_one(&mut *tx)
            .await
            .map_err(decide)?;
            lanes.push(LaneStats {
                lane: known.name.to_string(),
                patience_ms: known.patience,
                delayed: delayed as u64,
                due: due as u64,
                oldest_lateness_ms: oldest.map_or(0, |oldest| (now - oldest).max(0)),
            });
        }
        let row = sqlx::query(
            "SELECT (SELECT count(*) FROM queue_job WHERE namespace = ?1 AND state = 1),
                    (SELECT count(*) FROM queue_job WHERE namespace = ?1 AND state = 1 AND fence <= ?2),
                    (SELECT count(*) FROM queue_job WHERE namespace = ?1 AND state = 2),
                    (SELECT count(*) FROM queue_incoming WHERE namespace = ?1),
                    (SELECT count(*) FROM queue_incoming_refused WHERE namespace = ?1),
                    (SELECT paused FROM queue_namespace WHERE namespace = ?1)",
        )
        .bind(&self.namespace)
        .bind(now)
        .fetch_one(&mut *tx)
        .await
        .map_err(decide)?;
        let number = |at: usize| row.get::<i64, _>(at) as u64;
        let counters: Vec<(String, i64)> =
            sqlx::query_as("SELECT name, value FROM queue_counter WHERE namespace = ? AND minute = 0")
                .bind(&self.namespace)
                .fetch_all(&mut *tx)
                .await
                .map_err(decide)?;
        let workers: Vec<(String, Millis, String)> = sqlx::query_as(
            "SELECT worker, beat, fields FROM queue_worker WHERE namespace = ? ORDER BY beat LIMIT 1000",
        )
        .bind(&self.namespace)
        .fetch_all(&mut *tx)
        .await
        .map_err(decide)?;
        let workers = workers
            .into_iter()
            .map(|(worker, beat, fields)| WorkerStats {
                worker,
                beat_age_ms: now - beat,
                fields: serde_json::from_str(&fields).unwrap_or_default(),
            })
            .collect();
        Ok(Stats {
            namespace: self.namespace.clone(),
            now_ms: now,
            leased: number(0),
            expired: number(1),
            dead: number(2),
            incoming: number(3),
            incoming_refused: number(4),
            paused: row.get(5),
            counters: counters.into_iter().collect(),
            workers,
            ..Stats::default()
        }
        .with_lanes(lanes))
    }

    async fn due(&self) -> Result<u64, QueueError> {
        // Per lane, so that each is a walk over the due part of an index.
        let due: i64 = sqlx::query_scalar(
            "SELECT coalesce(sum((SELECT count(*) FROM queue_job AS job
                                  WHERE job.namespace = ?1 AND job.state = 0 AND job.lane = known.lane AND job.due <= ?2)), 0)
             FROM queue_lane AS known WHERE known.namespace = ?1",
        )
        .bind(&self.namespace)
        .bind(clock::wall_ms())
        .fetch_one(&self.pool)
        .await
        .map_err(decide)?;
        Ok(u64::try_from(due).unwrap_or(0))
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError> {
        let rows = sqlx::query(
            "SELECT job.state, job.lane, job.due, job.fence, job.reason FROM json_each(?1) AS given
             LEFT JOIN queue_job AS job ON job.namespace = ?2 AND job.id = given.value
             ORDER BY given.key",
        )
        .bind(json!(ids).to_string())
        .bind(&self.namespace)
        .fetch_all(&self.pool)
        .await
        .map_err(decide)?;
        let place = |row: &SqliteRow| match row.get::<Option<i64>, _>(0)? {
            DELAYED => Some(Place::Delayed { lane: row.get(1), due: row.get(2) }),
            LEASED => Some(Place::Leased { fence: row.get(3) }),
            DEAD => Some(Place::Dead { at: row.get(2), reason: row.get::<Option<String>, _>(4).unwrap_or_default() }),
            _ => None,
        };
        Ok(rows.iter().map(|row| place(row).into_iter().collect()).collect())
    }

    async fn incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>, QueueError> {
        // A plain look first: an idle drainer takes no write lock.
        let any: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM queue_incoming WHERE namespace = ?)")
            .bind(&self.namespace)
            .fetch_one(&self.pool)
            .await
            .map_err(decide)?;
        if !any {
            return Ok(Vec::new());
        }
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let held = sqlx::query(
            "UPDATE queue_namespace SET drainer = ?2, drainer_until = ?3
             WHERE namespace = ?1 AND (drainer IS NULL OR drainer = ?2 OR drainer_until <= ?4)",
        )
        .bind(&self.namespace)
        .bind(drainer)
        .bind(now + DRAINER_HOLD_MS)
        .bind(now)
        .execute(&mut *tx)
        .await
        .map_err(decide)?;
        if held.rows_affected() == 0 {
            return Ok(Vec::new());
        }
        let members: Vec<(String, Millis)> = sqlx::query_as(
            "SELECT member, created_at FROM queue_incoming WHERE namespace = ? ORDER BY created_at, member LIMIT ?",
        )
        .bind(&self.namespace)
        .bind(limit as i64)
        .fetch_all(&mut *tx)
        .await
        .map_err(decide)?;
        tx.commit().await.map_err(decide)?;
        Ok(members.into_iter().map(|(member, created_at)| Incoming { member, created_at }).collect())
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<(), QueueError> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM queue_incoming WHERE namespace = ? AND member IN (SELECT value FROM json_each(?))")
            .bind(&self.namespace)
            .bind(json!(members).to_string())
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
        tx.commit().await.map_err(decide)
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<(), QueueError> {
        let mut tx = self.begin().await?;
        for (member, reason) in members {
            sqlx::query(
                "INSERT INTO queue_incoming_refused (namespace, member, reason) VALUES (?, ?, ?)
                 ON CONFLICT DO UPDATE SET reason = excluded.reason",
            )
            .bind(&self.namespace)
            .bind(member)
            .bind(reason)
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
            sqlx::query("DELETE FROM queue_incoming WHERE namespace = ? AND member = ?")
                .bind(&self.namespace)
                .bind(member)
                .execute(&mut *tx)
                .await
                .map_err(decide)?;
        }
        tx.commit().await.map_err(decide)
    }

    async fn put_incoming(&self, members: &[Incoming]) -> Result<(), QueueError> {
        let mut tx = self.begin().await?;
        let rows: Vec<_> = members.iter().map(|incoming| json!([incoming.member, incoming.created_at])).collect();
        sqlx::query(
            "INSERT INTO queue_incoming (namespace, member, created_at)
             SELECT ?1, value ->> 0, value ->> 1 FROM json_each(?2) WHERE true
             ON CONFLICT DO UPDATE SET created_at = excluded.created_at",
        )
        .bind(&self.namespace)
        .bind(json!(rows).to_string())
        .execute(&mut *tx)
        .await
        .map_err(decide)?;
        tx.commit().await.map_err(decide)
    }

    async fn beat(&self, worker: &str, fields: &[(&str, String)], counters: &[(&str, i64)]) -> Result<(), QueueError> {
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
        .await
        .map_err(decide)?;
        sqlx::query("DELETE FROM queue_worker WHERE namespace = ? AND beat <= ?")
            .bind(&self.namespace)
            .bind(now - WORKER_EXPIRY_MS)
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
        self.count(&mut tx, now, counters).await?;
        tx.commit().await.map_err(decide)
    }

    async fn leave(&self, worker: &str) -> Result<(), QueueError> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM queue_worker WHERE namespace = ? AND worker = ?")
            .bind(&self.namespace)
            .bind(worker)
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
        tx.commit().await.map_err(decide)
    }

    async fn pause(&self, reason: Option<&str>) -> Result<(), QueueError> {
        sqlx::query("UPDATE queue_namespace SET paused = ? WHERE namespace = ?")
            .bind(reason)
            .bind(&self.namespace)
            .execute(&self.pool)
            .await
            .map_err(decide)?;
        Ok(())
    }
}
