//! Read-only views of the queue.

use async_trait::async_trait;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::super::{
    DUE_SLACK, DeadJob, Hour, Inspection, LaneDue, LaneStats, MINUTE_MS, MINUTES_KEPT, Minute, PAGE_LIMIT, Place,
    Result, RowRange, Sample, Stats, WorkerStats, worker_name_of_token,
};
use super::{DEAD, DELAYED, EmbeddedQueue, LEASED, WORKER_EXPIRY_MS, hours};
use crate::base::clock::{self, Millis};

#[async_trait]
impl Inspection for EmbeddedQueue {
    async fn stats(&self) -> Result<Stats> {
        let mut tx = self.file.readers().begin().await?;
        let now = clock::wall_ms();
        let lanes = lane_stats(self, &mut tx, now).await?;
        Ok(brief_stats(self, &mut tx, now).await?.with_lanes(lanes))
    }

    async fn brief_stats(&self) -> Result<Stats> {
        let mut tx = self.file.readers().begin().await?;
        brief_stats(self, &mut tx, clock::wall_ms()).await
    }

    async fn due_count(&self) -> Result<u64> {
        // Per lane, so that each is a walk over the due part of an index.
        let due: i64 = sqlx::query_scalar(
            "SELECT coalesce(sum((SELECT count(*) FROM queue_job AS job
                                  WHERE job.namespace = ?1 AND job.state = 0 AND job.lane = known.lane AND job.due <= ?2)), 0)
             FROM queue_lane AS known WHERE known.namespace = ?1",
        )
        .bind(&self.namespace)
        .bind(clock::wall_ms())
        .fetch_one(self.file.readers())
        .await?;
        Ok(u64::try_from(due).unwrap_or(0))
    }

    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>> {
        let now = clock::wall_ms();
        // Counting walks over an index here, so each id is counted once, between two moments.
        let (mut from, mut spans) = (Millis::MIN, Vec::with_capacity(offsets.len()));
        for offset in offsets {
            let to = now.saturating_add(*offset);
            spans.push((from, to));
            from = to;
        }
        let rows: Vec<(String, Option<i64>, u64)> = sqlx::query_as(
            "SELECT known.lane, span.key, (SELECT count(*) FROM queue_job AS job
                                 WHERE job.namespace = ?1 AND job.state = 0 AND job.lane = known.lane
                                   AND job.due > (span.value ->> 0) AND job.due <= (span.value ->> 1))
             FROM queue_lane AS known LEFT JOIN json_each(?2) AS span WHERE known.namespace = ?1
             ORDER BY known.tier, known.patience, known.lane, span.key",
        )
        .bind(&self.namespace)
        .bind(json!(spans).to_string())
        .fetch_all(self.file.readers())
        .await?;
        let mut lanes: Vec<LaneDue> = Vec::new();
        for (lane, moment, count) in rows {
            if lanes.last().is_none_or(|last| last.lane != lane) {
                lanes.push(LaneDue { lane, counts: Vec::with_capacity(offsets.len()) });
            }
            // A row without a moment only states that the lane exists.
            if let Some(last) = lanes.last_mut().filter(|_| moment.is_some()) {
                last.counts.push(last.counts.last().unwrap_or(&0) + count);
            }
        }
        Ok(lanes)
    }

    async fn minutes(&self, count: u32) -> Result<Vec<Minute>> {
        let this = clock::wall_ms() / MINUTE_MS;
        let first = this - Millis::from(count.min(MINUTES_KEPT)) + 1;
        let mut minutes: Vec<Minute> =
            (first..=this).map(|minute| Minute { at_ms: minute * MINUTE_MS, ..Minute::default() }).collect();
        // One transaction, so both are of one moment.
        let mut tx = self.file.readers().begin().await?;
        let counters: Vec<(Millis, String, i64)> = sqlx::query_as(
            "SELECT minute, name, value FROM queue_counter WHERE namespace = ? AND minute BETWEEN ? AND ?",
        )
        .bind(&self.namespace)
        .bind(first)
        .bind(this)
        .fetch_all(&mut *tx)
        .await?;
        let lateness: Vec<(Millis, Millis, u64)> = sqlx::query_as(
            "SELECT minute, upper, ids FROM queue_lateness WHERE namespace = ? AND minute BETWEEN ? AND ?",
        )
        .bind(&self.namespace)
        .bind(first)
        .bind(this)
        .fetch_all(&mut *tx)
        .await?;
        let place = |minute: Millis| usize::try_from(minute - first).ok();
        for (minute, name, value) in counters {
            if let Some(minute) = place(minute).and_then(|at| minutes.get_mut(at)) {
                minute.counters.insert(name, value);
            }
        }
        for (minute, upper, ids) in lateness {
            if let Some(minute) = place(minute).and_then(|at| minutes.get_mut(at)) {
                minute.lateness.add(upper, ids);
            }
        }
        Ok(minutes)
    }

    async fn hours(&self, count: u32) -> Result<Vec<Hour>> {
        hours::read_hours(self, count).await
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>> {
        let rows = sqlx::query(
            "SELECT job.state, job.lane, job.due, job.fence, job.reason, job.token FROM json_each(?1) AS given
             LEFT JOIN queue_job AS job ON job.namespace = ?2 AND job.id = given.value
             ORDER BY given.key",
        )
        .bind(json!(ids).to_string())
        .bind(&self.namespace)
        .fetch_all(self.file.readers())
        .await?;
        let now = clock::wall_ms();
        let holder = |row: &SqliteRow, fence| {
            let token = row.get::<Option<String>, _>(5).filter(|_| fence > now);
            token.map(|token| worker_name_of_token(&token).to_owned())
        };
        let leased = |row: &SqliteRow, fence| Place::Leased { fence, by: holder(row, fence) };
        let place = |row: &SqliteRow| match row.get::<Option<i64>, _>(0)? {
            DELAYED => Some(Place::Delayed { lane: row.get(1), due: row.get(2) }),
            LEASED => Some(leased(row, row.get(3))),
            DEAD => Some(Place::Dead { at: row.get(2), reason: row.get::<Option<String>, _>(4).unwrap_or_default() }),
            _ => None,
        };
        Ok(rows.iter().map(|row| place(row).into_iter().collect()).collect())
    }

    async fn sample(&self, most: usize) -> Result<Vec<Sample>> {
        let most = most.min(PAGE_LIMIT) as i64;
        let mut tx = self.file.readers().begin().await?;
        let lanes = self.lanes(&mut tx).await?;
        let mut samples = Vec::with_capacity(lanes.len() + 1);
        // SQLite reads the ids from an index, and keeps only the first `most` of the random order in memory.
        for known in lanes.iter().map(Some).chain([None]) {
            let (counted, chosen) = if known.is_some() {
                (
                    "SELECT count(*) FROM queue_job WHERE namespace = ? AND state = 0 AND lane = ?",
                    "SELECT id FROM queue_job WHERE namespace = ? AND state = 0 AND lane = ? ORDER BY random() LIMIT ?",
                )
            } else {
                (
                    "SELECT count(*) FROM queue_job WHERE namespace = ? AND state = 1 AND ? IS NULL",
                    "SELECT id FROM queue_job WHERE namespace = ? AND state = 1 AND ? IS NULL ORDER BY random() LIMIT ?",
                )
            };
            let lane = known.map(|lane| &*lane.name);
            let total: i64 = sqlx::query_scalar(counted).bind(&self.namespace).bind(lane).fetch_one(&mut *tx).await?;
            let ids =
                sqlx::query_scalar(chosen).bind(&self.namespace).bind(lane).bind(most).fetch_all(&mut *tx).await?;
            samples.push(Sample {
                lane: lane.map(str::to_owned),
                patience_ms: known.map(|lane| lane.patience),
                order: known.map(|lane| lane.order).unwrap_or_default(),
                total: total as u64,
                ids,
            });
        }
        Ok(samples)
    }

    async fn list_dead(&self, range: RowRange) -> Result<Vec<DeadJob>> {
        let rows: Vec<(String, Millis, Option<String>)> = sqlx::query_as(
            "SELECT id, due, reason FROM queue_job WHERE namespace = ? AND state = 2 ORDER BY due, id LIMIT ? OFFSET ?",
        )
        .bind(&self.namespace)
        .bind(range.limit())
        .bind(i64::try_from(range.first()).unwrap_or(i64::MAX))
        .fetch_all(self.file.readers())
        .await?;
        Ok(rows.into_iter().map(|(id, at, reason)| DeadJob { id, at, reason: reason.unwrap_or_default() }).collect())
    }
}

async fn brief_stats(queue: &EmbeddedQueue, file: &mut SqliteConnection, now: Millis) -> Result<Stats> {
    let row = sqlx::query(
        "SELECT (SELECT count(*) FROM queue_job WHERE namespace = ?1 AND state = 1),
                (SELECT count(*) FROM queue_job WHERE namespace = ?1 AND state = 1 AND fence <= ?2),
                (SELECT count(*) FROM queue_job WHERE namespace = ?1 AND state = 2),
                (SELECT count(*) FROM queue_incoming WHERE namespace = ?1),
                (SELECT count(*) FROM queue_incoming_refused WHERE namespace = ?1),
                (SELECT paused FROM queue_namespace WHERE namespace = ?1),
                (SELECT max(0, fence - ?2) FROM queue_namespace WHERE namespace = ?1)",
    )
    .bind(&queue.namespace)
    .bind(now)
    .fetch_one(&mut *file)
    .await?;
    let number = |at: usize| row.get::<i64, _>(at) as u64;
    let counters: Vec<(String, i64)> =
        sqlx::query_as("SELECT name, value FROM queue_counter WHERE namespace = ? AND minute = 0")
            .bind(&queue.namespace)
            .fetch_all(&mut *file)
            .await?;
    let workers = worker_stats(queue, file, now).await?;
    Ok(Stats {
        namespace: queue.namespace.clone(),
        now_ms: now,
        leased: number(0),
        expired: number(1),
        dead: number(2),
        incoming: number(3),
        incoming_refused: number(4),
        paused: row.get(5),
        fence_ahead_ms: row.get(6),
        counters: counters.into_iter().collect(),
        workers,
        ..Stats::default()
    })
}

async fn lane_stats(queue: &EmbeddedQueue, file: &mut SqliteConnection, now: Millis) -> Result<Vec<LaneStats>> {
    let mut lanes = Vec::new();
    for known in queue.lanes(&mut *file).await? {
        let (delayed, due, oldest, beyond): (i64, i64, Option<Millis>, i64) = sqlx::query_as(
            "SELECT count(*), coalesce(sum(due <= ?1), 0), min(due), coalesce(sum(due > ?4), 0) FROM queue_job
             WHERE namespace = ?2 AND state = 0 AND lane = ?3",
        )
        .bind(now)
        .bind(&queue.namespace)
        .bind(&*known.name)
        .bind(now.saturating_add(known.patience).saturating_add(clock::millis(DUE_SLACK)))
        .fetch_one(&mut *file)
        .await?;
        let counts = [delayed, due, beyond].map(|count| count as u64);
        lanes.push(LaneStats::from_counts(&known, now, counts, oldest));
    }
    Ok(lanes)
}

async fn worker_stats(queue: &EmbeddedQueue, file: &mut SqliteConnection, now: Millis) -> Result<Vec<WorkerStats>> {
    let workers: Vec<(String, Millis, String)> = sqlx::query_as(
        "SELECT worker, beat, fields FROM queue_worker WHERE namespace = ? AND beat > ? ORDER BY beat LIMIT 1000",
    )
    .bind(&queue.namespace)
    .bind(now - WORKER_EXPIRY_MS)
    .fetch_all(&mut *file)
    .await?;
    Ok(workers
        .into_iter()
        .map(|(worker, beat, fields)| WorkerStats {
            worker,
            beat_age_ms: WorkerStats::heartbeat_age(beat, now),
            fields: serde_json::from_str(&fields).unwrap_or_default(),
        })
        .collect())
}
