//! Adds ids that the queue does not have (`schedule`, `revive`), or has as dead (`revive`).

use std::collections::HashSet;

use serde_json::json;

use super::super::{NewJob, Result, ScheduleOutcome, check_ids};
use super::{DELAYED, EmbeddedQueue, LEASED, lane_rows};
use crate::base::clock;

pub(super) async fn schedule(queue: &EmbeddedQueue, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
    add_jobs(queue, jobs, false).await
}

pub(super) async fn revive(queue: &EmbeddedQueue, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
    add_jobs(queue, jobs, true).await
}

async fn add_jobs(queue: &EmbeddedQueue, jobs: &[NewJob], revive: bool) -> Result<Vec<ScheduleOutcome>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    // Prepared before the transaction, so others can use the file meanwhile.
    let now = clock::wall_ms();
    let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane.name, job.due.moment(now)])).collect();
    let rows = json!(rows).to_string();
    let lanes = lane_rows(jobs.iter().map(|job| &job.lane));
    let mut tx = queue.begin().await?;
    queue.store_lanes(&mut tx, lanes).await?;
    let mut revived = 0;
    if revive {
        // One row per id, and one transaction, so every reader sees the id.
        let ids: Vec<_> = jobs.iter().map(|job| &job.id).collect();
        revived = sqlx::query(
            "DELETE FROM queue_job WHERE namespace = ? AND state = 2 AND id IN (SELECT value FROM json_each(?))",
        )
        .bind(&queue.namespace)
        .bind(json!(ids).to_string())
        .execute(&mut *tx)
        .await?
        .rows_affected();
    }
    // Inserts the ids that the queue does not have; of equal ids, the first. There is one writer, so new rows have keys above `last`.
    let last: i64 = sqlx::query_scalar("SELECT coalesce(max(key), 0) FROM queue_job").fetch_one(&mut *tx).await?;
    let added = sqlx::query(
        "INSERT INTO queue_job (namespace, id, state, lane, due)
         SELECT ?2, value ->> 0, 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE true
         ON CONFLICT DO NOTHING",
    )
    .bind(&rows)
    .bind(&queue.namespace)
    .execute(&mut *tx)
    .await?
    .rows_affected();
    let is_new = added == jobs.len() as u64;
    let found = if is_new { Vec::new() } else { queue.read_states(&mut tx, &rows, last).await? };
    queue.count(&mut tx, now, &[("scheduled", added as i64), ("exhumed", revived as i64)]).await?;
    tx.commit().await?;
    if is_new {
        return Ok(vec![ScheduleOutcome::Scheduled; jobs.len()]);
    }
    // The previous state of each id.
    let mut seen = HashSet::new();
    let answers = jobs.iter().zip(found).map(|(job, state)| match state {
        None if seen.insert(&job.id) => ScheduleOutcome::Scheduled,
        None | Some(DELAYED) => ScheduleOutcome::Known,
        Some(LEASED) => ScheduleOutcome::Leased,
        Some(_) => ScheduleOutcome::Dead,
    });
    Ok(answers.collect())
}
