//! `promote`: jobs that are due earlier, or in another lane; `postpone`: jobs that are due later.

use std::collections::HashSet;

use serde_json::json;

use super::super::promote::DistinctPromotes;
use super::super::{NewJob, PostponeOutcome, PromoteOutcome, Result, check_ids};
use super::{DELAYED, EmbeddedQueue, LEASED, lane_rows};
use crate::base::clock;

pub(super) async fn promote(queue: &EmbeddedQueue, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let promotes = DistinctPromotes::from_jobs(jobs);
    let rows: Vec<_> =
        promotes.distinct.iter().map(|promote| json!([promote.id, &*promote.lane.name, promote.due(now)])).collect();
    let rows = json!(rows).to_string();
    let found = queue.read_states(&mut tx, &rows, i64::MAX).await?;
    let answer = |state: &Option<i64>| match *state {
        None => PromoteOutcome::Absent,
        Some(DELAYED) => PromoteOutcome::Moved,
        Some(LEASED) => PromoteOutcome::Noted,
        Some(_) => PromoteOutcome::Dead,
    };
    let answers: Vec<PromoteOutcome> = found.iter().map(answer).collect();
    let is_promoted = |answer: &PromoteOutcome| matches!(answer, PromoteOutcome::Moved | PromoteOutcome::Noted);
    let granted = promotes.distinct.iter().zip(&answers).filter(|(_, answer)| is_promoted(answer));
    queue.store_lanes(&mut tx, lane_rows(granted.map(|(promote, _)| promote.lane))).await?;
    sqlx::query(
        "WITH given AS MATERIALIZED (
             SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS due FROM json_each(?1))
         UPDATE queue_job
         SET lane = CASE state WHEN 0 THEN given.lane ELSE queue_job.lane END,
             due = CASE state WHEN 0 THEN min(queue_job.due, given.due) ELSE queue_job.due END,
             promoted_lane = CASE state WHEN 1 THEN given.lane END,
             promoted_due = CASE state WHEN 1 THEN min(coalesce(promoted_due, given.due), given.due) END
         FROM given WHERE queue_job.namespace = ?2 AND queue_job.id = given.id AND +state IN (0, 1)",
    )
    .bind(&rows)
    .bind(&queue.namespace)
    .execute(&mut *tx)
    .await?;
    let promoted = answers.iter().filter(|answer| is_promoted(answer)).count();
    queue.count(&mut tx, now, &[("promoted", promoted as i64)]).await?;
    tx.commit().await?;
    Ok(promotes.expand(&answers))
}

pub(super) async fn postpone(queue: &EmbeddedQueue, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let rows: Vec<_> = jobs.iter().map(|job| json!([job.id, &*job.lane.name, job.due.moment(now)])).collect();
    let rows = json!(rows).to_string();
    let found = queue.read_states(&mut tx, &rows, i64::MAX).await?;
    let moved: Vec<String> = sqlx::query_scalar(
        "WITH given AS MATERIALIZED (
             SELECT value ->> 0 AS id, value ->> 1 AS lane, value ->> 2 AS due FROM json_each(?1))
         UPDATE queue_job SET lane = given.lane, due = given.due FROM given
         WHERE queue_job.namespace = ?2 AND queue_job.id = given.id AND +state = 0 AND queue_job.due < given.due
         RETURNING queue_job.id",
    )
    .bind(&rows)
    .bind(&queue.namespace)
    .fetch_all(&mut *tx)
    .await?;
    let moved: HashSet<String> = moved.into_iter().collect();
    let moved_jobs = jobs.iter().filter(|job| moved.contains(&job.id));
    queue.store_lanes(&mut tx, lane_rows(moved_jobs.map(|job| &job.lane))).await?;
    tx.commit().await?;
    let answer = |(job, state): (&NewJob, &Option<i64>)| match *state {
        None => PostponeOutcome::Absent,
        Some(DELAYED) if moved.contains(&job.id) => PostponeOutcome::Moved,
        Some(DELAYED) => PostponeOutcome::Kept,
        Some(LEASED) => PostponeOutcome::Leased,
        Some(_) => PostponeOutcome::Dead,
    };
    Ok(jobs.iter().zip(&found).map(answer).collect())
}
