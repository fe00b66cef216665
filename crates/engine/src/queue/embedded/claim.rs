//! `claim`: a batch under a lease, or the time until one may be ready.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sqlx::SqliteConnection;

use super::super::{Batch, Claim, ClaimRequest, Fence, Job, Lane, Order, Result};
use super::pick::{BatchPicker, Candidate, limit_by_deliveries};
use super::{EmbeddedQueue, Tx};
use crate::base::backend::sqlite::{self, parse_rows};
use crate::base::clock::{self, Millis, QueueTime};

/// While others wait, suspects (jobs with deliveries) get one claim in four.
const OTHERS_FIRST: u32 = 3;

/// First read of a claim: the namespace's row, with two lists of jobs. `held`: jobs that this token has leased in an earlier try
/// with a lost reply (all jobs of a lease have one token). `expired`: jobs with an expired lease, the oldest first.
const SELECT_SNAPSHOT: &str = "
    WITH RECURSIVE lease (fence) AS (
        SELECT min(fence) FROM queue_job WHERE namespace = ?1 AND state = 1 AND fence > ?2
        UNION ALL
        SELECT (SELECT min(fence) FROM queue_job WHERE namespace = ?1 AND state = 1 AND fence > lease.fence)
        FROM lease WHERE lease.fence IS NOT NULL
    ), held (fence) AS (
        SELECT fence FROM lease
        WHERE ?3 = (SELECT token FROM queue_job WHERE namespace = ?1 AND state = 1 AND fence = lease.fence LIMIT 1)
    )
    SELECT fence, paused, turns, (
        SELECT json_group_array(json_array(
            job.id, job.lane, job.due, job.deliveries, job.failures, job.fence, coalesce(known.ordering, '')))
        FROM held CROSS JOIN queue_job AS job ON job.namespace = ?1 AND job.state = 1 AND job.fence = held.fence
        LEFT JOIN queue_lane AS known ON known.namespace = job.namespace AND known.lane = job.lane
    ) AS held, (
        SELECT json_group_array(json_array(key, id, fence, deliveries, failures)) FROM (
            SELECT key, id, fence, deliveries, failures + (trial IS NOT NULL AND trial = fence) AS failures FROM queue_job
            WHERE namespace = ?1 AND state = 1 AND fence <= ?2
            ORDER BY fence, id LIMIT ?4 + 0) -- a parameter alone would be planned with: compiled again for each claim
    ) AS expired, EXISTS (SELECT 1 FROM queue_job WHERE namespace = ?1 AND deliveries > 0) AS any_suspects
    FROM queue_namespace WHERE namespace = ?1";

/// Puts jobs under a lease, and the fence into the namespace's row.
macro_rules! lease {
    ($also:literal) => {
        concat!(
            "UPDATE queue_job SET state = 1, fence = ?, token = ?",
            $also,
            " WHERE key IN (SELECT value FROM json_each(?));
             UPDATE queue_namespace SET fence = ?, turns = ? WHERE namespace = ?;
             ",
            count!()
        )
    };
}

const LEASE: &str = lease!("");
/// Leases jobs again whose lease has expired: see [`ClaimSnapshot::expired`].
const LEASE_AGAIN: &str = lease!(
    ", lane = ?, due = max(0, fence - ?), deliveries = deliveries + 1, failures = failures + (trial IS NOT NULL AND trial = fence)"
);

pub(super) async fn claim(queue: &EmbeddedQueue, request: &ClaimRequest<'_>) -> Result<Claim> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let (snapshot, chosen) = match plan_claim(queue, &mut tx, now, request).await? {
        ClaimPlan::Ready(snapshot, chosen) => (snapshot, chosen),
        ClaimPlan::Claimed(batch) => return Ok(Claim::Batch(batch)),
        ClaimPlan::Nothing { wait, paused } => return Ok(Claim::Empty { wait, paused }),
    };
    // Jobs whose lease expired for the first time are not suspects yet.
    let has_suspects = chosen.jobs.first().is_some_and(|job| job.deliveries > u32::from(chosen.expired));
    let turns = if has_suspects { 0 } else { snapshot.turns.saturating_add(1).min(OTHERS_FIRST) };
    // Unique and rising, even if the clock steps back.
    let deadline = (now + clock::millis(request.lease).max(1)).max(snapshot.fence + 1);
    let fence = Fence { deadline, token: request.token.to_owned() };
    lease(queue, &mut tx, now, &fence, request.lease, &chosen, turns).await?;
    // If this commit is lost, the ids are still due.
    tx.commit_unflushed().await?;
    Ok(Claim::Batch(Batch { fence, now: QueueTime::starting_at(now), claimed_at: now, jobs: chosen.jobs }))
}

/// Result of a claim that would get no batch, from a read-only connection.
pub(super) async fn empty_claim(queue: &EmbeddedQueue, request: &ClaimRequest<'_>) -> Result<Option<Claim>> {
    queue.file.check()?;
    let mut file = queue.file.readers().begin().await?;
    Ok(match plan_claim(queue, &mut file, clock::wall_ms(), request).await? {
        ClaimPlan::Nothing { wait, paused } => Some(Claim::Empty { wait, paused }),
        ClaimPlan::Ready(..) | ClaimPlan::Claimed(_) => None,
    })
}

/// Result of a claim's reads, before it writes.
enum ClaimPlan {
    Ready(ClaimSnapshot, ChosenJobs),
    Claimed(Batch),
    /// No jobs: the fields of [`Claim::Empty`].
    Nothing {
        wait: Duration,
        paused: Option<String>,
    },
}

async fn plan_claim(
    queue: &EmbeddedQueue,
    file: &mut SqliteConnection,
    now: Millis,
    request: &ClaimRequest<'_>,
) -> Result<ClaimPlan> {
    let snapshot = read_snapshot(queue, file, now, request).await?;
    if let Some(batch) = snapshot.repeated_batch(now, request.token)? {
        return Ok(ClaimPlan::Claimed(batch));
    }
    if snapshot.paused.is_some() {
        return Ok(ClaimPlan::Nothing { wait: request.linger, paused: snapshot.paused });
    }
    Ok(match choose_jobs(queue, file, now, request, &snapshot).await? {
        Ok(chosen) => ClaimPlan::Ready(snapshot, chosen),
        Err(wait) => ClaimPlan::Nothing { wait: clock::span(wait), paused: None },
    })
}

#[derive(sqlx_macros::FromRow)]
struct ClaimSnapshot {
    fence: Millis,
    paused: Option<String>,
    turns: u32,
    held: String,
    expired: String,
    any_suspects: bool,
}

async fn read_snapshot(
    queue: &EmbeddedQueue,
    file: &mut SqliteConnection,
    now: Millis,
    request: &ClaimRequest<'_>,
) -> Result<ClaimSnapshot> {
    let query = sqlx::query_as(SELECT_SNAPSHOT).bind(&queue.namespace).bind(now).bind(request.token);
    Ok(query.bind(2 * request.limit as i64).fetch_one(file).await?)
}

impl ClaimSnapshot {
    /// The batch that the same token holds already, because the first reply was lost.
    fn repeated_batch(&self, now: Millis, token: &str) -> Result<Option<Batch>> {
        let rows: Vec<(String, String, Millis, u32, u32, Millis, String)> = parse_rows(&self.held)?;
        let Some(deadline) = rows.first().map(|(.., fence, _)| *fence) else { return Ok(None) };
        let job = |(id, lane, due, deliveries, failures, _, order): (String, String, _, _, _, _, String)| Job {
            id,
            lane: lane.into(),
            due,
            deliveries,
            failures,
            order: Order::from_word(&order),
        };
        let fence = Fence { deadline, token: token.to_owned() };
        let jobs = rows.into_iter().map(job).collect();
        Ok(Some(Batch { fence, now: QueueTime::starting_at(now), claimed_at: now, jobs }))
    }

    /// Jobs with expired leases, in the order of expiry: at most half a batch, halved again per further delivery.
    fn expired(&self, request: &ClaimRequest<'_>, lanes: &[Lane]) -> Result<ExpiredJobs> {
        let rows = parse_rows(&self.expired)?;
        let (lane, order) =
            lanes.first().map_or_else(|| ("default".into(), Order::default()), |lane| (lane.name.clone(), lane.order));
        let job = |(key, id, fence, deliveries, failures): (i64, String, Millis, u32, u32)| {
            let lane = Arc::clone(&lane);
            let due = (fence - clock::millis(request.lease)).max(0);
            (key, Job { id, lane, due, deliveries: deliveries + 1, failures, order })
        };
        let (first, suspects): (Vec<_>, Vec<_>) = rows.into_iter().map(job).partition(|(_, job)| job.deliveries == 1);
        let limit_by_deliveries =
            |jobs| limit_by_deliveries(jobs, request.limit, |(_, job): &(i64, Job)| job.deliveries);
        Ok(ExpiredJobs { first: limit_by_deliveries(first), suspects: limit_by_deliveries(suspects) })
    }
}

struct ChosenJobs {
    jobs: Vec<Job>,
    keys: Vec<i64>,
    expired: bool,
}

/// Chooses the next batch, or returns the time in ms until one can be ready.
async fn choose_jobs(
    queue: &EmbeddedQueue,
    file: &mut SqliteConnection,
    now: Millis,
    request: &ClaimRequest<'_>,
    snapshot: &ClaimSnapshot,
) -> Result<Result<ChosenJobs, Millis>> {
    let suspects_turn = !snapshot.any_suspects || snapshot.turns >= OTHERS_FIRST;
    let filter = match (snapshot.any_suspects, suspects_turn) {
        (false, _) => CandidateFilter::Unsuspected,
        (true, false) => CandidateFilter::WithoutSuspects,
        (true, true) => CandidateFilter::All,
    };
    let (lanes, mut found) = read_candidates(queue, file, now, request.limit, filter).await?;
    let ExpiredJobs { first, suspects } = snapshot.expired(request, &lanes)?;
    let expired_batch = |of: Vec<(i64, Job)>| {
        let (keys, jobs) = of.into_iter().unzip();
        Ok(Ok(ChosenJobs { jobs, keys, expired: true }))
    };
    if !first.is_empty() {
        return expired_batch(first);
    }
    if !suspects.is_empty() && suspects_turn {
        return expired_batch(suspects);
    }
    let pick = BatchPicker {
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
        Ok(Ok(ChosenJobs { jobs: batch.into_iter().map(job).collect(), keys, expired: false }))
    };
    if !suspects_turn {
        if let Ok(batch) = pick.choose_batch(found) {
            return picked(batch);
        }
        if !suspects.is_empty() {
            // No other job is ready, so the batch has suspects.
            return expired_batch(suspects);
        }
        (_, found) = read_candidates(queue, file, now, request.limit, CandidateFilter::All).await?;
    }
    let dues: Vec<Millis> = found.iter().map(|job| job.due).collect();
    if snapshot.any_suspects && request.early > 0.0 {
        // Suspects are never early: a failed job is repeated when it is due.
        if let Ok(batch) = (BatchPicker { linger: 0, lookahead: 0.0, early: 0.0, ..pick }).choose_batch(found) {
            return picked(batch);
        }
        // Out of the suspects' turn, the other jobs were tried above.
        found = match suspects_turn {
            true => read_candidates(queue, file, now, request.limit, CandidateFilter::WithoutSuspects).await?.1,
            false => Vec::new(),
        };
    }
    match pick.choose_batch(found) {
        Ok(batch) => picked(batch),
        Err(waited) => Ok(Err(time_until_batch(queue, file, now, request, waited, dues).await?)),
    }
}

async fn lease(
    queue: &EmbeddedQueue,
    tx: &mut Tx,
    now: Millis,
    fence: &Fence,
    span: Duration,
    chosen: &ChosenJobs,
    turns: u32,
) -> Result<()> {
    let lease = sqlx::query(if chosen.expired { LEASE_AGAIN } else { LEASE }).bind(fence.deadline).bind(&fence.token);
    let lane = chosen.jobs.first().filter(|_| chosen.expired).map(|job| &*job.lane);
    let lease = if let Some(lane) = lane { lease.bind(lane).bind(clock::millis(span)) } else { lease };
    let lease = lease.bind(json!(chosen.keys).to_string()).bind(fence.deadline).bind(turns).bind(&queue.namespace);
    let expired_count = if chosen.expired { chosen.jobs.len() } else { 0 };
    let counters = [("claims", 1), ("claimed", chosen.jobs.len() as i64), ("expired", expired_count as i64)];
    sqlite::run(tx, queue.bind_counters(lease, now, &counters)).await?;
    Ok(())
}

struct ExpiredJobs {
    /// First expiry; with the keys of their rows.
    first: Vec<(i64, Job)>,
    /// Expired before.
    suspects: Vec<(i64, Job)>,
}

#[derive(Debug, Clone, Copy)]
enum CandidateFilter {
    /// All, and none has deliveries: the index by due times has all data, and no row is read.
    Unsuspected,
    WithoutSuspects,
    All,
}

impl CandidateFilter {
    fn statement(self) -> &'static str {
        macro_rules! first {
            ($counts:literal, $which:expr, $order:literal) => {
                concat!(
                    "SELECT key, id, due, ",
                    $counts,
                    " FROM queue_job WHERE namespace = ?1 AND state = 0 AND lane = known.lane ",
                    $which,
                    " ORDER BY ",
                    $order,
                    " LIMIT ?2 + 0" // as in `SELECT_SNAPSHOT`
                )
            };
        }
        macro_rules! read_candidates {
            ($counts:literal, $which:literal) => {
                concat!(
                    "SELECT lane, patience, tier, ordering, CASE WHEN ordering = 'newest' THEN (
                         SELECT json_group_array(json_array(key, id, due, deliveries, failures)) FROM (
                             SELECT * FROM (",
                    first!($counts, concat!($which, " AND due <= ?3"), "due DESC, id DESC"),
                    ") UNION ALL SELECT * FROM (",
                    first!($counts, concat!($which, " AND due > ?3"), "due, id"),
                    "))) ELSE (
                         SELECT json_group_array(json_array(key, id, due, deliveries, failures)) FROM (",
                    first!($counts, $which, "due, id"),
                    ")) END
                     FROM queue_lane AS known WHERE namespace = ?1 ORDER BY tier, patience, lane"
                )
            };
        }
        match self {
            Self::Unsuspected => read_candidates!("0 AS deliveries, 0 AS failures", ""),
            Self::WithoutSuspects => read_candidates!("deliveries, failures", "AND deliveries = 0"),
            Self::All => read_candidates!("deliveries, failures", ""),
        }
    }
}

/// The lanes, and each lane's first `limit` jobs in its order. A newest-first lane also gives up to `limit` jobs that are not
/// due: they show when the next batch is ready.
async fn read_candidates(
    queue: &EmbeddedQueue,
    file: &mut SqliteConnection,
    now: Millis,
    limit: usize,
    filter: CandidateFilter,
) -> Result<(Vec<Lane>, Vec<Candidate>)> {
    let query = sqlx::query_as(filter.statement()).bind(&queue.namespace).bind(limit as i64).bind(now);
    let rows: Vec<(String, Millis, u8, String, String)> = query.fetch_all(file).await?;
    let (mut lanes, mut candidates) = (Vec::with_capacity(rows.len()), Vec::new());
    for (lane, (name, patience, tier, ordering, of_lane)) in rows.into_iter().enumerate() {
        let candidate = |(key, id, due, deliveries, failures)| Candidate { key, id, lane, due, deliveries, failures };
        candidates.extend(parse_rows(&of_lane)?.into_iter().map(candidate));
        lanes.push(Lane { name: name.into(), patience, tier, order: Order::from_word(&ordering) });
    }
    Ok((lanes, candidates))
}

/// Time until a batch can be ready: the least of the time until the oldest due id has waited `linger`, the next lease ends, and
/// `limit` ids are due.
async fn time_until_batch(
    queue: &EmbeddedQueue,
    file: &mut SqliteConnection,
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
            .fetch_one(file)
            .await?;
    if let Some(fence) = next_lease {
        wait = wait.min(fence - now);
    }
    // Each lane gave its first `limit`, so the limit-th of all of these is the limit-th of the queue.
    dues.sort_unstable();
    if let Some(ready) = request.limit.checked_sub(1).and_then(|at| dues.get(at)) {
        wait = wait.min(ready - now);
    }
    Ok(wait.max(1))
}
