//! `schedule` and `exhume`: adds ids that are in no place, or dead.

use std::collections::HashSet;

use serde_json::json;

use super::super::{NewJob, Result, Scheduled, check_ids};
use super::{DELAYED, EmbeddedQueue, LEASED, rows_of_lanes};
use crate::base::clock;

pub(super) async fn schedule(queue: &EmbeddedQueue, jobs: &[NewJob]) -> Result<Vec<Scheduled>> {
    add(queue, jobs, false).await
}

pub(super) async fn exhume(queue: &EmbeddedQueue, jobs: &[NewJob]) -> Result<Vec<Scheduled>> {
    add(queue, jobs, true).await
}

async fn add(queue: &EmbeddedQueue, jobs: &[NewJob], exhume: bool) -> Result<Vec<Scheduled>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    // Prepared before the transaction, so others can use the file meanwhile.
    let now = clock::wall_ms();
    let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane.name, job.due.moment(now)])).collect();
    let rows = json!(rows).to_string();
    let lanes = rows_of_lanes(jobs.iter().map(|job| &job.lane));
    let mut tx = queue.begin().await?;
    queue.know_lanes(&mut tx, lanes).await?;
    let mut exhumed = 0;
    if exhume {
        // One row per id, and one transaction, so every reader sees the id in a place.
        let ids: Vec<_> = jobs.iter().map(|job| &job.id).collect();
        exhumed = sqlx::query(
            "DELETE FROM queue_job WHERE namespace = ? AND state = 2 AND id IN (SELECT value FROM json_each(?))",
        )
        .bind(&queue.namespace)
        .bind(json!(ids).to_string())
        .execute(&mut *tx)
        .await?
        .rows_affected();
    }
    // Inserts the ids that are in no place, the first of equal ids. There is one writer, so new rows have keys above `last`.
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
    let found = if is_new { Vec::new() } else { queue.states(&mut tx, &rows, last).await? };
    queue.count(&mut tx, now, &[("scheduled", added as i64), ("exhumed", exhumed as i64)]).await?;
    tx.commit().await?;
    if is_new {
        return Ok(vec![Scheduled::Scheduled; jobs.len()]);
    }
    // The previous state of each id.
    let mut seen = HashSet::new();
    let answers = jobs.iter().zip(found).map(|(job, state)| match state {
        None if seen.insert(&job.id) => Scheduled::Scheduled,
        None | Some(DELAYED) => Scheduled::Known,
        Some(LEASED) => Scheduled::Leased,
        Some(_) => Scheduled::Dead,
    });
    Ok(answers.collect())
}
