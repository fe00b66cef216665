//! What a rebuild and a person who looks after the dead do to the queue.

use std::time::Duration;

use serde_json::json;
use sqlx::Row;

use super::super::{Adopted, Buried, Fence, QueueError, Scheduled, check_id};
use super::{DELAYED, EmbeddedQueue, LEASED};
use crate::backend::sqlite::decide;
use crate::clock::{self, Millis};

/// The lane of a job that nobody has put into one yet; once its lease has run out it is in the first.
const NO_LANE: &str = "default";

pub(super) async fn adopt(
    queue: &EmbeddedQueue,
    token: &str,
    ids: &[String],
    lease: Duration,
) -> Result<Adopted, QueueError> {
    for id in ids {
        check_id(id).map_err(|why| QueueError::Refused(format!("{why}: {id:?}")))?;
    }
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    // The same token again: the first reply was lost. What it took is under its fence.
    let taken: Option<Millis> = sqlx::query_scalar(
        "SELECT fence FROM queue_job WHERE namespace = ? AND state = 1 AND fence > ? AND token = ? LIMIT 1",
    )
    .bind(&queue.namespace)
    .bind(now)
    .bind(token)
    .fetch_optional(&mut *tx)
    .await
    .map_err(decide)?;
    let last_fence: Millis = sqlx::query_scalar("SELECT fence FROM queue_namespace WHERE namespace = ?")
        .bind(&queue.namespace)
        .fetch_one(&mut *tx)
        .await
        .map_err(decide)?;
    let deadline = taken.unwrap_or_else(|| (now + clock::millis(lease).max(1)).max(last_fence + 1));
    let rows = json!(ids).to_string();
    let found = sqlx::query(
        "SELECT job.state, job.fence FROM json_each(?1) AS given
         LEFT JOIN queue_job AS job ON job.namespace = ?2 AND job.id = given.value
         ORDER BY given.key",
    )
    .bind(&rows)
    .bind(&queue.namespace)
    .fetch_all(&mut *tx)
    .await
    .map_err(decide)?;
    let adopted = sqlx::query(
        "INSERT INTO queue_job (namespace, id, state, lane, due, fence, token)
         SELECT ?2, value, 1, ?3, ?4, ?5, ?6 FROM json_each(?1) WHERE true
         ON CONFLICT DO NOTHING",
    )
    .bind(&rows)
    .bind(&queue.namespace)
    .bind(NO_LANE)
    .bind(now)
    .bind(deadline)
    .bind(token)
    .execute(&mut *tx)
    .await
    .map_err(decide)?
    .rows_affected();
    if adopted > 0 {
        sqlx::query("UPDATE queue_namespace SET fence = max(fence, ?) WHERE namespace = ?")
            .bind(deadline)
            .bind(&queue.namespace)
            .execute(&mut *tx)
            .await
            .map_err(decide)?;
        queue.count(&mut tx, now, &[("adopted", adopted as i64)]).await?;
    }
    tx.commit().await.map_err(decide)?;
    let answer = |row: &sqlx::sqlite::SqliteRow| match row.get::<Option<i64>, _>(0) {
        None => Scheduled::Scheduled,
        Some(DELAYED) => Scheduled::Known,
        Some(LEASED) if taken.is_some() && row.get::<Option<Millis>, _>(1) == taken => Scheduled::Scheduled,
        Some(LEASED) => Scheduled::Leased,
        Some(_) => Scheduled::Dead,
    };
    let answers = found.iter().map(answer).collect();
    Ok(Adopted { fence: Fence { deadline, token: token.to_owned() }, now, answers })
}

pub(super) async fn dead(queue: &EmbeddedQueue, from: u64, limit: u32) -> Result<Vec<Buried>, QueueError> {
    let rows: Vec<(String, Millis, Option<String>)> = sqlx::query_as(
        "SELECT id, due, reason FROM queue_job WHERE namespace = ? AND state = 2 ORDER BY due, id LIMIT ? OFFSET ?",
    )
    .bind(&queue.namespace)
    .bind(limit)
    .bind(i64::try_from(from).unwrap_or(i64::MAX))
    .fetch_all(&queue.pool)
    .await
    .map_err(decide)?;
    Ok(rows.into_iter().map(|(id, at, reason)| Buried { id, at, reason: reason.unwrap_or_default() }).collect())
}

pub(super) async fn forget(queue: &EmbeddedQueue, ids: &[String]) -> Result<(), QueueError> {
    let mut tx = queue.begin().await?;
    sqlx::query("DELETE FROM queue_job WHERE namespace = ? AND state <> 1 AND id IN (SELECT value FROM json_each(?))")
        .bind(&queue.namespace)
        .bind(json!(ids).to_string())
        .execute(&mut *tx)
        .await
        .map_err(decide)?;
    tx.commit().await.map_err(decide)
}
