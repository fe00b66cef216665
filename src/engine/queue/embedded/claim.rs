//! `claim`: a batch under a lease, or how long until one may be ready.

use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::super::{Batch, Claim, ClaimRequest, Fence, Job, Lane, Order, Result};
use super::pick::{Candidate, Pick, halved};
use super::{EmbeddedQueue, Tx};
use crate::base::backend::sqlite::rows_of;
use crate::base::clock::{self, Millis, QueueTime};

/// Suspects (jobs with deliveries) have a call of their own in four while others wait.
const OTHERS_FIRST: u32 = 3;

pub(super) async fn claim(queue: &EmbeddedQueue, request: &ClaimRequest<'_>) -> Result<Claim> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    if let Some(batch) = claimed_before(queue, &mut tx, now, request.token).await? {
        return Ok(Claim::Batch(batch));
    }
    let (last_fence, paused, turns): (Millis, Option<String>, u32) =
        sqlx::query_as("SELECT fence, paused, turns FROM queue_namespace WHERE namespace = ?")
            .bind(&queue.namespace)
            .fetch_one(&mut *tx)
            .await?;
    if paused.is_some() {
        return Ok(Claim::Empty { wait: request.linger, paused });
    }
    let chosen = match choose(queue, &mut tx, now, request, turns >= OTHERS_FIRST).await? {
        Ok(chosen) => chosen,
        Err(wait) => return Ok(Claim::Empty { wait: clock::span(wait), paused: None }),
    };
    // Those whose lease ran out for the first time are no suspects yet.
    let of_suspects = chosen.jobs.first().is_some_and(|job| job.deliveries > u32::from(chosen.expired));
    let turns = if of_suspects { 0 } else { turns.saturating_add(1).min(OTHERS_FIRST) };
    // Unique and rising, whatever the clock does.
    let deadline = (now + clock::millis(request.lease).max(1)).max(last_fence + 1);
    let fence = Fence { deadline, token: request.token.to_owned() };
    lease(queue, &mut tx, &fence, &chosen, turns).await?;
    let ran_out = if chosen.expired { chosen.jobs.len() } else { 0 };
    let counters = [("claims", 1), ("claimed", chosen.jobs.len() as i64), ("expired", ran_out as i64)];
    queue.count(&mut tx, now, &counters).await?;
    // Without it the ids are where they were: due.
    tx.commit_unflushed().await?;
    Ok(Claim::Batch(Batch { fence, now: QueueTime::read(now), claimed_at: now, jobs: chosen.jobs }))
}

/// The batch that the same token has already: the first reply was lost.
async fn claimed_before(queue: &EmbeddedQueue, tx: &mut Tx, now: Millis, token: &str) -> Result<Option<Batch>> {
    let rows = sqlx::query(
        "SELECT job.id, job.lane, job.due, job.deliveries, job.fence, job.failures, coalesce(known.ordering, '')
         FROM queue_job AS job LEFT JOIN queue_lane AS known ON known.namespace = job.namespace AND known.lane = job.lane
         WHERE job.namespace = ? AND job.state = 1 AND job.fence > ? AND job.token = ?",
    )
    .bind(&queue.namespace)
    .bind(now)
    .bind(token)
    .fetch_all(&mut **tx)
    .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let read = |row: &SqliteRow| Job {
        id: row.get(0),
        lane: row.get::<String, _>(1).into(),
        due: row.get(2),
        deliveries: row.get(3),
        failures: row.get(5),
        order: Order::of(row.get(6)),
    };
    Ok(Some(Batch {
        fence: Fence { deadline: first.get(4), token: token.to_owned() },
        now: QueueTime::read(now),
        claimed_at: now,
        jobs: rows.iter().map(read).collect(),
    }))
}

/// Jobs of the next batch.
struct Chosen {
    jobs: Vec<Job>,
    /// The keys of their rows.
    keys: Vec<i64>,
    /// Their leases ran out.
    expired: bool,
}

/// Chooses the next batch, or answers how long none can be ready, ms.
async fn choose(
    queue: &EmbeddedQueue,
    tx: &mut Tx,
    now: Millis,
    request: &ClaimRequest<'_>,
    suspects_turn: bool,
) -> Result<Result<Chosen, Millis>> {
    let lanes = queue.lanes(tx).await?;
    let Expired { first, suspects } = expired(queue, tx, now, request.limit, &lanes).await?;
    let over = |of: Vec<(i64, Job)>| {
        let (keys, jobs) = of.into_iter().unzip();
        Ok(Ok(Chosen { jobs, keys, expired: true }))
    };
    if !first.is_empty() {
        return over(first);
    }
    if !suspects.is_empty() && suspects_turn {
        return over(suspects);
    }
    let pick = Pick {
        now,
        limit: request.limit,
        linger: clock::millis(request.linger),
        lookahead: request.lookahead,
        early: request.early,
        lanes: &lanes,
    };
    let picked = |batch: Vec<Candidate>| {
        let job = |job: Candidate| Job {
            id: job.id,
            lane: lanes[job.lane].name.clone(),
            due: job.due,
            deliveries: job.deliveries,
            failures: job.failures,
            order: lanes[job.lane].order,
        };
        let keys = batch.iter().map(|job| job.key).collect();
        Ok(Ok(Chosen { jobs: batch.into_iter().map(job).collect(), keys, expired: false }))
    };
    if !suspects_turn && let Ok(batch) = pick.batch(candidates(queue, tx, &pick, 0).await?) {
        return picked(batch);
    }
    if !suspects.is_empty() {
        // Nobody else is ready: the call is theirs.
        return over(suspects);
    }
    let candidates = candidates(queue, tx, &pick, u32::MAX).await?;
    let dues: Vec<Millis> = candidates.iter().map(|job| job.due).collect();
    match pick.batch(candidates) {
        Ok(batch) => picked(batch),
        Err(waited) => Ok(Err(wait(queue, tx, now, request, waited, dues).await?)),
    }
}

/// Puts jobs under a lease, and the lease into the namespace's row.
async fn lease(queue: &EmbeddedQueue, tx: &mut Tx, fence: &Fence, chosen: &Chosen, turns: u32) -> Result<()> {
    // What the jobs themselves say, see `expired`.
    let lease = if chosen.expired {
        "UPDATE queue_job
         SET state = 1, fence = ?2, token = ?3, lane = ?4, due = fence, deliveries = deliveries + 1,
             failures = failures + (trial IS NOT NULL AND trial = fence)
         WHERE key IN (SELECT value FROM json_each(?1))"
    } else {
        "UPDATE queue_job SET state = 1, fence = ?2, token = ?3 WHERE key IN (SELECT value FROM json_each(?1))"
    };
    let lease = sqlx::query(lease).bind(json!(chosen.keys).to_string()).bind(fence.deadline).bind(&fence.token);
    let lane = chosen.jobs.first().filter(|_| chosen.expired).map(|job| &*job.lane);
    (if let Some(lane) = lane { lease.bind(lane) } else { lease }).execute(&mut **tx).await?;
    sqlx::query("UPDATE queue_namespace SET fence = ?, turns = ? WHERE namespace = ?")
        .bind(fence.deadline)
        .bind(turns)
        .bind(&queue.namespace)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Leases whose time is up.
struct Expired {
    /// For the first time; with the keys of their rows.
    first: Vec<(i64, Job)>,
    /// Once more.
    suspects: Vec<(i64, Job)>,
}

/// Leases whose time is up, in the order they ran out: half a batch at the most, halved again
/// per further delivery.
async fn expired(queue: &EmbeddedQueue, tx: &mut Tx, now: Millis, limit: usize, lanes: &[Lane]) -> Result<Expired> {
    let rows = sqlx::query(
        "SELECT id, fence, deliveries, failures + (trial IS NOT NULL AND trial = fence), key FROM queue_job
         WHERE namespace = ? AND state = 1 AND fence <= ? ORDER BY fence, id LIMIT ? + 0", // as in `candidates`
    )
    .bind(&queue.namespace)
    .bind(now)
    .bind(2 * limit as i64)
    .fetch_all(&mut **tx)
    .await?;
    let (lane, order) =
        lanes.first().map_or_else(|| ("default".into(), Order::default()), |lane| (lane.name.clone(), lane.order));
    let job = |row: &SqliteRow| {
        let job = Job {
            id: row.get(0),
            lane: lane.clone(),
            due: row.get(1),
            deliveries: row.get::<u32, _>(2) + 1,
            failures: row.get(3),
            order,
        };
        (row.get(4), job)
    };
    let (first, suspects): (Vec<_>, Vec<_>) = rows.iter().map(job).partition(|(_, job)| job.deliveries == 1);
    let halved = |jobs| halved(jobs, limit, |(_, job): &(i64, Job)| job.deliveries);
    Ok(Expired { first: halved(first), suspects: halved(suspects) })
}

/// Each lane's first `limit` jobs with at most so many deliveries, in the order of the lane. Of a newest-first lane as many
/// more that are not due yet: they say when the next batch is ready.
async fn candidates(queue: &EmbeddedQueue, tx: &mut Tx, pick: &Pick<'_>, deliveries: u32) -> Result<Vec<Candidate>> {
    macro_rules! first {
        ($due:literal, $order:literal) => {
            concat!(
                "SELECT key, id, due, deliveries, failures FROM queue_job
                 WHERE namespace = ?1 AND state = 0 AND lane = ?2 AND deliveries <= ?3 ",
                $due,
                " ORDER BY ",
                $order,
                " LIMIT ?4 + 0" // a parameter alone would be planned with: SQLite compiles the statement anew for each claim
            )
        };
    }
    macro_rules! as_json {
        ($rows:expr) => {
            concat!("SELECT json_group_array(json_array(key, id, due, deliveries, failures)) FROM (", $rows, ")")
        };
    }
    let mut candidates = Vec::new();
    for (lane, known) in pick.lanes.iter().enumerate() {
        let sql = match known.order {
            Order::ByLateness | Order::OldestFirst => as_json!(first!("", "due, id")),
            Order::NewestFirst => concat!(
                as_json!(first!("AND due <= ?5", "due DESC, id DESC")),
                " UNION ALL ",
                as_json!(first!("AND due > ?5", "due, id"))
            ),
        };
        let texts: Vec<String> = sqlx::query_scalar(sql)
            .bind(&queue.namespace)
            .bind(&*known.name)
            .bind(deliveries)
            .bind(pick.limit as i64)
            .bind(pick.now)
            .fetch_all(&mut **tx)
            .await?;
        for text in texts {
            let rows: Vec<(i64, String, Millis, u32, u32)> = rows_of(&text)?;
            let candidate =
                |(key, id, due, deliveries, failures)| Candidate { key, id, lane, due, deliveries, failures };
            candidates.extend(rows.into_iter().map(candidate));
        }
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
) -> Result<Millis> {
    let linger = clock::millis(request.linger);
    let mut wait = linger - waited.unwrap_or(0);
    let next_lease: Option<Millis> =
        sqlx::query_scalar("SELECT min(fence) FROM queue_job WHERE namespace = ? AND state = 1")
            .bind(&queue.namespace)
            .fetch_one(&mut **tx)
            .await?;
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
