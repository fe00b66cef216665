//! `claim`: a batch under a lease, or how long until one may be ready.

use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::super::{Batch, Claim, ClaimRequest, Fence, Job, QueueError};
use super::pick::{Candidate, Pick, halved};
use super::{EmbeddedQueue, KnownLane, Tx};
use crate::base::backend::sqlite::decide;
use crate::base::clock::{self, Millis, QueueTime};

/// Suspects (jobs with deliveries) have a call of their own in four while others wait.
const OTHERS_FIRST: u32 = 3;

pub(super) async fn claim(queue: &EmbeddedQueue, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    // The same token again: the first reply was lost.
    let repeated = sqlx::query(
        "SELECT id, lane, due, deliveries, fence, failures FROM queue_job
         WHERE namespace = ? AND state = 1 AND fence > ? AND token = ?",
    )
    .bind(&queue.namespace)
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
            failures: row.get(5),
        };
        return Ok(Claim::Batch(Batch {
            fence: Fence { deadline, token: request.token.to_owned() },
            now: QueueTime::read(now),
            claimed_at: now,
            jobs: repeated.iter().map(read).collect(),
        }));
    }
    let (last_fence, paused, turns): (Millis, Option<String>, u32) =
        sqlx::query_as("SELECT fence, paused, turns FROM queue_namespace WHERE namespace = ?")
            .bind(&queue.namespace)
            .fetch_one(&mut *tx)
            .await
            .map_err(decide)?;
    if paused.is_some() {
        return Ok(Claim::Empty { wait: request.linger, paused });
    }

    let suspects_turn = turns >= OTHERS_FIRST;
    let lanes = queue.lanes(&mut tx).await?;
    let over = expired(queue, &mut tx, now, request.limit, &lanes).await?;
    let (mut jobs, mut expired) = match over {
        Expired { first, .. } if !first.is_empty() => (first, true),
        Expired { ref suspects, .. } if !suspects.is_empty() && suspects_turn => (suspects.clone(), true),
        _ => (Vec::new(), false),
    };
    if !expired {
        let patience: Vec<Millis> = lanes.iter().map(|lane| lane.patience).collect();
        let pick = Pick {
            now,
            limit: request.limit,
            linger: clock::millis(request.linger),
            lookahead: request.lookahead,
            patience: &patience,
        };
        let mut batch = match suspects_turn {
            true => Err(None),
            false => pick.batch(candidates(queue, &mut tx, &lanes, request.limit, 0).await?),
        };
        if batch.is_err() && !over.suspects.is_empty() {
            // Nobody else is ready: the call is theirs.
            (jobs, expired) = (over.suspects, true);
        } else {
            if batch.is_err() {
                let candidates = candidates(queue, &mut tx, &lanes, request.limit, u32::MAX).await?;
                let dues: Vec<Millis> = candidates.iter().map(|job| job.due).collect();
                batch = pick.batch(candidates);
                if let Err(waited) = batch {
                    let wait = wait(queue, &mut tx, now, request, waited, dues).await?;
                    return Ok(Claim::Empty { wait: clock::span(wait), paused: None });
                }
            }
            jobs.extend(batch.into_iter().flatten().map(|job| Job {
                id: job.id,
                lane: lanes[job.lane].name.clone(),
                due: job.due,
                deliveries: job.deliveries,
                failures: job.failures,
            }));
        }
    }
    // Those whose lease ran out for the first time are no suspects yet.
    let of_suspects = jobs.first().is_some_and(|job| job.deliveries > u32::from(expired));
    let turns = if of_suspects { 0 } else { turns.saturating_add(1).min(OTHERS_FIRST) };

    // Unique and rising, whatever the clock does.
    let deadline = (now + clock::millis(request.lease).max(1)).max(last_fence + 1);
    let rows: Vec<_> =
        jobs.iter().map(|job| json!([job.id, &*job.lane, job.due, job.deliveries, job.failures])).collect();
    sqlx::query(
        "WITH given AS MATERIALIZED (
             SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS due,
                    value ->> 3 AS deliveries, value ->> 4 AS failures
             FROM json_each(?1))
         UPDATE queue_job
         SET state = 1, fence = ?3, token = ?4, lane = given.lane, due = given.due,
             deliveries = given.deliveries, failures = given.failures
         FROM given WHERE queue_job.namespace = ?2 AND queue_job.id = given.id",
    )
    .bind(json!(rows).to_string())
    .bind(&queue.namespace)
    .bind(deadline)
    .bind(request.token)
    .execute(&mut *tx)
    .await
    .map_err(decide)?;
    sqlx::query("UPDATE queue_namespace SET fence = ?, turns = ? WHERE namespace = ?")
        .bind(deadline)
        .bind(turns)
        .bind(&queue.namespace)
        .execute(&mut *tx)
        .await
        .map_err(decide)?;
    let ran_out = if expired { jobs.len() } else { 0 };
    let counters = [("claims", 1), ("claimed", jobs.len() as i64), ("expired", ran_out as i64)];
    queue.count(&mut tx, now, &counters).await?;
    tx.commit().await.map_err(decide)?;
    Ok(Claim::Batch(Batch {
        fence: Fence { deadline, token: request.token.to_owned() },
        now: QueueTime::read(now),
        claimed_at: now,
        jobs,
    }))
}

/// Leases whose time is up.
struct Expired {
    /// For the first time.
    first: Vec<Job>,
    /// Once more.
    suspects: Vec<Job>,
}

/// Leases whose time is up, in the order they ran out: half a batch at the most, halved again
/// per further delivery.
async fn expired(
    queue: &EmbeddedQueue,
    tx: &mut Tx,
    now: Millis,
    limit: usize,
    lanes: &[KnownLane],
) -> Result<Expired, QueueError> {
    let rows = sqlx::query(
        "SELECT id, fence, deliveries, failures + (trial IS NOT NULL AND trial = fence) FROM queue_job
         WHERE namespace = ? AND state = 1 AND fence <= ? ORDER BY fence, id LIMIT ?",
    )
    .bind(&queue.namespace)
    .bind(now)
    .bind(2 * limit as i64)
    .fetch_all(&mut **tx)
    .await
    .map_err(decide)?;
    let lane = lanes.first().map_or_else(|| "default".into(), |lane| lane.name.clone());
    let job = |row: &SqliteRow| Job {
        id: row.get(0),
        lane: lane.clone(),
        due: row.get(1),
        deliveries: row.get::<u32, _>(2) + 1,
        failures: row.get(3),
    };
    let (first, suspects): (Vec<Job>, Vec<Job>) = rows.iter().map(job).partition(|job| job.deliveries == 1);
    let halved = |jobs| halved(jobs, limit, |job: &Job| job.deliveries);
    Ok(Expired { first: halved(first), suspects: halved(suspects) })
}

/// Each lane's first `limit` jobs with at most so many deliveries.
async fn candidates(
    queue: &EmbeddedQueue,
    tx: &mut Tx,
    lanes: &[KnownLane],
    limit: usize,
    deliveries: u32,
) -> Result<Vec<Candidate>, QueueError> {
    let mut candidates = Vec::new();
    for (lane, known) in lanes.iter().enumerate() {
        let rows = sqlx::query(
            "SELECT id, due, deliveries, failures FROM queue_job
             WHERE namespace = ? AND state = 0 AND lane = ? AND deliveries <= ? ORDER BY due LIMIT ?",
        )
        .bind(&queue.namespace)
        .bind(&*known.name)
        .bind(deliveries)
        .bind(limit as i64)
        .fetch_all(&mut **tx)
        .await
        .map_err(decide)?;
        candidates.extend(rows.iter().map(|row| Candidate {
            id: row.get(0),
            lane,
            due: row.get(1),
            deliveries: row.get(2),
            failures: row.get(3),
        }));
    }
    Ok(candidates)
}

/// How long until a batch can be ready: the least of the buffer's end, the next lease's end, and
/// when `limit` ids will be due; at most `linger`.
async fn wait(
    queue: &EmbeddedQueue,
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
            .bind(&queue.namespace)
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
