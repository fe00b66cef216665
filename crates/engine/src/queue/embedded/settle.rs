//! `settle` and `release` of the jobs that a claim still holds.

use serde_json::json;

use super::super::{Fence, Job, Lane, Result, SettleOutcome, Verdict};
use super::{EmbeddedQueue, Statements, Tx, lane_rows};
use crate::base::backend::sqlite;
use crate::base::clock;

/// SQL that moves the jobs that a fence still holds, each `given` with an id, a lane, a number and a text. The SQL of their
/// lanes comes first, the SQL of the counters last.
macro_rules! moves {
    ($lanes:expr, $set:expr) => {
        concat!(
            $lanes,
            // The index of leases is small and has the id, so each job is found there and not among all jobs.
            ";
             WITH given AS MATERIALIZED (
                 SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS number, value ->> 3 AS text
                 FROM json_each(?))
             UPDATE queue_job INDEXED BY queue_job_leased SET fence = NULL, token = NULL, promoted_due = NULL, promoted_lane = NULL, ",
            $set,
            " FROM given WHERE queue_job.namespace = ? AND state = 1 AND fence = ? AND queue_job.id = given.id;
             ",
            count!()
        )
    };
}

// A promoted job takes its noted lane and the earlier due time. `moves` deletes the note for every verdict.
macro_rules! back {
    ($lanes:expr, $also:literal) => {
        moves!(
            $lanes,
            concat!(
                "state = 0, lane = coalesce(promoted_lane, given.lane),
                 due = min(given.number, coalesce(promoted_due, given.number))",
                $also
            )
        )
    };
}

/// SQL that stores lanes by name alone, for jobs that return to a lane that this file does not have (an adopted lease).
macro_rules! store_lane_names {
    () => {
        "INSERT INTO queue_lane (namespace, lane, patience) SELECT ?, value, 60000 FROM json_each(?) WHERE true
         ON CONFLICT DO NOTHING"
    };
}

const RETURN_JOBS: &str = back!(store_lane_names!(), "");
const RESCHEDULE: &str = back!(store_lanes!(), ", deliveries = 0, failures = 0");
const SUSPECT: &str = back!(store_lane_names!(), ", deliveries = deliveries + 1");
const RETRY_COUNTED: &str = back!(store_lane_names!(), ", deliveries = deliveries + 1, failures = failures + 1");
const MARK_DEAD: &str =
    moves!(store_lane_names!(), "state = 2, due = given.number, reason = given.text, deliveries = 0, failures = 0");

pub(super) async fn settle(
    queue: &EmbeddedQueue,
    fence: &Fence,
    verdicts: &[(Job, Verdict)],
    tally: &[(&str, i64)],
) -> Result<SettleOutcome> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let (mut reschedule, mut retry, mut suspect, mut retry_counted) = (vec![], vec![], vec![], vec![]);
    let (mut dead, mut finish) = (vec![], vec![]);
    let mut lanes: Vec<&Lane> = Vec::new();
    let mut back: Vec<&str> = Vec::new();
    for (job, verdict) in verdicts {
        match verdict {
            Verdict::Reschedule { lane, due } => {
                lanes.push(lane);
                reschedule.push(json!([job.id, &*lane.name, due.moment(now)]));
            }
            Verdict::Finish => finish.push(json!([job.id])),
            Verdict::Retry { after, counted } => {
                let rows = if *counted { &mut retry_counted } else { &mut retry };
                rows.push(json!([job.id, &*job.lane, now + after.max(&0)]));
                back.push(&job.lane);
            }
            Verdict::Suspect { after } => {
                suspect.push(json!([job.id, &*job.lane, now + after.max(&0)]));
                back.push(&job.lane);
            }
            Verdict::MarkDead { reason } => dead.push(json!([job.id, null, now, reason])),
        }
    }
    let (mut settled, mut tally_left) = (0, Some(tally));
    let mut counters = Vec::new();
    if now < fence.deadline {
        let (lanes, back) = (lane_rows(lanes), lane_names(back));
        for (counter, moves, lanes, rows) in [
            ("rescheduled", RESCHEDULE, &lanes, reschedule),
            ("retried", RETURN_JOBS, &back, retry),
            ("retried", SUSPECT, &back, suspect),
            ("retried", RETRY_COUNTED, &back, retry_counted),
            ("buried", MARK_DEAD, &back, dead),
        ] {
            if !rows.is_empty() {
                // Counted as if all were still held, which is nearly always true, and corrected below.
                let held = rows.len() as i64;
                let mut counted = vec![(counter, held)];
                counted.extend_from_slice(tally_left.take().unwrap_or_default());
                let moves = bind_move(queue, fence, moves, lanes, &json!(rows));
                let done = apply(&mut tx, queue.bind_counters(moves, now, &counted)).await?;
                settled += done;
                counters.push((counter, done as i64 - held));
            }
        }
        if !finish.is_empty() {
            let done = delete_jobs(queue, &mut tx, fence, &json!(finish)).await?;
            settled += done;
            counters.push(("finished", done as i64));
        }
    }
    match tally_left {
        Some(tally) if settled > 0 => counters.extend_from_slice(tally),
        None if settled == 0 => counters.extend(tally.iter().map(|(counter, by)| (*counter, -by))),
        _ => {}
    }
    let lost = verdicts.len() as u64 - settled;
    counters.push(("lost", lost as i64));
    queue.count(&mut tx, now, &counters).await?;
    tx.commit().await?;
    Ok(SettleOutcome { settled, lost })
}

pub(super) async fn release(queue: &EmbeddedQueue, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let mut settled = 0;
    if now < fence.deadline {
        let lanes = lane_names(jobs.iter().map(|job| &*job.lane).collect());
        let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane, job.due])).collect();
        let moves = bind_move(queue, fence, RETURN_JOBS, &lanes, &json!(rows));
        settled = apply(&mut tx, queue.bind_counters(moves, now, &[])).await?;
    }
    let lost = jobs.len() as u64 - settled;
    queue.count(&mut tx, now, &[("released", settled as i64), ("lost", lost as i64)]).await?;
    tx.commit().await?;
    Ok(SettleOutcome { settled, lost })
}

fn lane_names(mut lanes: Vec<&str>) -> String {
    lanes.sort_unstable();
    lanes.dedup();
    json!(lanes).to_string()
}

pub(super) async fn mark_trial(queue: &EmbeddedQueue, fence: &Fence) -> Result<bool> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let noted =
        sqlx::query("UPDATE queue_job SET trial = fence WHERE namespace = ? AND state = 1 AND fence = ? AND token = ? AND fence > ?")
            .bind(&queue.namespace)
            .bind(fence.deadline)
            .bind(&fence.token)
            .bind(now)
            .execute(&mut *tx)
            .await?;
    tx.commit().await?;
    Ok(noted.rows_affected() > 0)
}

async fn delete_jobs(queue: &EmbeddedQueue, tx: &mut Tx, fence: &Fence, rows: &serde_json::Value) -> Result<u64> {
    let done = sqlx::query(
        "DELETE FROM queue_job WHERE namespace = ? AND state = 1 AND fence = ?
         AND id IN (SELECT value ->> 0 FROM json_each(?))",
    )
    .bind(&queue.namespace)
    .bind(fence.deadline)
    .bind(rows.to_string())
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Binds the values of a [`moves!`] text, except those of the counters.
fn bind_move<'q>(
    queue: &'q EmbeddedQueue,
    fence: &Fence,
    moves: &'static str,
    lanes: &'q str,
    rows: &serde_json::Value,
) -> Statements<'q> {
    sqlx::query(moves)
        .bind(&queue.namespace)
        .bind(lanes)
        .bind(rows.to_string())
        .bind(&queue.namespace)
        .bind(fence.deadline)
}

async fn apply(tx: &mut Tx, moves: Statements<'_>) -> Result<u64> {
    let changed = sqlite::run(tx, moves).await?;
    Ok(changed.get(1).copied().unwrap_or(0)) // after the statement of the lanes
}
