//! `settle` and `release` of the jobs that a claim still holds.

use serde_json::json;

use super::super::{Fence, Job, Lane, Result, Settled, Verdict};
use super::{EmbeddedQueue, Tx};
use crate::base::clock;

// A promoted job takes its noted lane and the earlier due. `apply` deletes the note, whatever the verdict is.
macro_rules! back {
    ($also:literal) => {
        concat!(
            "state = 0, lane = coalesce(promoted_lane, given.lane),
             due = min(given.number, coalesce(promoted_due, given.number))",
            $also
        )
    };
}

const GIVE_BACK: &str = back!("");
const RESCHEDULE: &str = back!(", deliveries = 0, failures = 0");
const SUSPECT: &str = back!(", deliveries = deliveries + 1");
const RETRY_COUNTED: &str = back!(", deliveries = deliveries + 1, failures = failures + 1");
const BURY: &str = "state = 2, due = given.number, reason = given.text, deliveries = 0, failures = 0";

pub(super) async fn settle(
    queue: &EmbeddedQueue,
    fence: &Fence,
    verdicts: &[(Job, Verdict)],
    tally: &[(&str, i64)],
) -> Result<Settled> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let (mut reschedule, mut retry, mut suspect, mut retry_counted) = (vec![], vec![], vec![], vec![]);
    let (mut bury, mut finish) = (vec![], vec![]);
    let mut lanes: Vec<&Lane> = Vec::new();
    let mut back: Vec<&str> = Vec::new();
    for (job, verdict) in verdicts {
        match verdict {
            Verdict::Reschedule { lane, due } => {
                if !lanes.contains(&lane) {
                    lanes.push(lane);
                }
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
            Verdict::Bury { reason } => bury.push(json!([job.id, null, now, reason])),
        }
    }
    let mut settled = 0;
    if now < fence.deadline {
        for lane in lanes {
            queue.know_lane(&mut tx, lane).await?;
        }
        know_lanes(queue, &mut tx, back).await?;
        let mut counters = Vec::new();
        for (counter, set, rows) in [
            ("rescheduled", RESCHEDULE, reschedule),
            ("retried", GIVE_BACK, retry),
            ("retried", SUSPECT, suspect),
            ("retried", RETRY_COUNTED, retry_counted),
            ("buried", BURY, bury),
        ] {
            if !rows.is_empty() {
                let done = apply(queue, &mut tx, fence, set, &json!(rows)).await?;
                settled += done;
                counters.push((counter, done as i64));
            }
        }
        if !finish.is_empty() {
            let done = remove(queue, &mut tx, fence, &json!(finish)).await?;
            settled += done;
            counters.push(("finished", done as i64));
        }
        if settled > 0 {
            counters.extend_from_slice(tally);
        }
        queue.count(&mut tx, now, &counters).await?;
    }
    let lost = verdicts.len() as u64 - settled;
    queue.count(&mut tx, now, &[("lost", lost as i64)]).await?;
    tx.commit().await?;
    Ok(Settled { settled, lost })
}

pub(super) async fn release(queue: &EmbeddedQueue, fence: &Fence, jobs: &[Job]) -> Result<Settled> {
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let mut settled = 0;
    if now < fence.deadline {
        know_lanes(queue, &mut tx, jobs.iter().map(|job| &*job.lane).collect()).await?;
        let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane, job.due])).collect();
        settled = apply(queue, &mut tx, fence, GIVE_BACK, &json!(rows)).await?;
    }
    let lost = jobs.len() as u64 - settled;
    queue.count(&mut tx, now, &[("released", settled as i64), ("lost", lost as i64)]).await?;
    tx.commit().await?;
    Ok(Settled { settled, lost })
}

/// Jobs go back to these: also one that this file has never heard of (a lease adopted by it) is found there.
async fn know_lanes(queue: &EmbeddedQueue, tx: &mut Tx, mut lanes: Vec<&str>) -> Result<()> {
    lanes.sort_unstable();
    lanes.dedup();
    for lane in lanes {
        queue.know_name(tx, lane).await?;
    }
    Ok(())
}

pub(super) async fn try_alone(queue: &EmbeddedQueue, fence: &Fence) -> Result<bool> {
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

/// Removes what the fence still holds; answers how many rows that were.
async fn remove(queue: &EmbeddedQueue, tx: &mut Tx, fence: &Fence, rows: &serde_json::Value) -> Result<u64> {
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

/// Moves what the fence still holds; answers how many rows that were.
async fn apply(queue: &EmbeddedQueue, tx: &mut Tx, fence: &Fence, set: &str, rows: &serde_json::Value) -> Result<u64> {
    // `set` is one of this file's own texts. The + keeps SQLite from walking the leased rows and
    // reading the JSON again for each of them.
    let sql = format!(
        "WITH given AS MATERIALIZED (
             SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS number, value ->> 3 AS text
             FROM json_each(?1))
         UPDATE queue_job
         SET fence = NULL, token = NULL, promoted_due = NULL, promoted_lane = NULL, {set} FROM given
         WHERE queue_job.namespace = ?2 AND queue_job.id = given.id AND +state = 1 AND +fence = ?3"
    );
    let done = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(rows.to_string())
        .bind(&queue.namespace)
        .bind(fence.deadline)
        .execute(&mut **tx)
        .await?;
    Ok(done.rows_affected())
}
