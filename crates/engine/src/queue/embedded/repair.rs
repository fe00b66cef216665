//! Changes by a rebuild, by a person, and by the repair of due times.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sqlx::Row;

use super::super::{Administration, Adoption, Fence, Lane, PAGE_LIMIT, QueueError, Result, ScheduleOutcome, check_ids};
use super::{DELAYED, EmbeddedQueue, LEASED, Tx, errors, hours, lane_rows};
use crate::base::clock::{self, Millis};

/// Lane of an adopted job that is in no lane yet. After an expired lease it is in the first lane.
const NO_LANE: &str = "default";

pub(super) async fn adopt(queue: &EmbeddedQueue, token: &str, ids: &[String], lease: Duration) -> Result<Adoption> {
    check_ids(ids)?;
    let mut tx = queue.begin().await?;
    let now = clock::wall_ms();
    let taken = fence_of_token(queue, &mut tx, now, token).await?;
    let last_fence = queue.last_fence(&mut tx).await?;
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
    .await?;
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
    .await?
    .rows_affected();
    if adopted > 0 {
        sqlx::query("UPDATE queue_namespace SET fence = max(fence, ?) WHERE namespace = ?")
            .bind(deadline)
            .bind(&queue.namespace)
            .execute(&mut *tx)
            .await?;
        queue.count(&mut tx, now, &[("adopted", adopted as i64)]).await?;
    }
    tx.commit().await?;
    let answer = |row: &sqlx::sqlite::SqliteRow| match row.get::<Option<i64>, _>(0) {
        None => ScheduleOutcome::Scheduled,
        Some(DELAYED) => ScheduleOutcome::Known,
        Some(LEASED) if taken.is_some() && row.get::<Option<Millis>, _>(1) == taken => ScheduleOutcome::Scheduled,
        Some(LEASED) => ScheduleOutcome::Leased,
        Some(_) => ScheduleOutcome::Dead,
    };
    let answers = found.iter().map(answer).collect();
    Ok(Adoption { fence: Fence { deadline, token: token.to_owned() }, now, answers })
}

/// Fence of the jobs that the same token has leased already, because the first reply was lost.
async fn fence_of_token(queue: &EmbeddedQueue, tx: &mut Tx, now: Millis, token: &str) -> Result<Option<Millis>> {
    sqlx::query_scalar(
        "SELECT fence FROM queue_job WHERE namespace = ? AND state = 1 AND fence > ? AND token = ? LIMIT 1",
    )
    .bind(&queue.namespace)
    .bind(now)
    .bind(token)
    .fetch_optional(&mut **tx)
    .await
    .map_err(QueueError::from)
}

pub(super) async fn forget(queue: &EmbeddedQueue, ids: &[String]) -> Result<()> {
    let mut tx = queue.begin().await?;
    for forget in [
        "DELETE FROM queue_job WHERE namespace = ? AND state <> 1 AND id IN (SELECT value FROM json_each(?))",
        "UPDATE queue_job SET promoted_due = NULL, promoted_lane = NULL
         WHERE namespace = ? AND id IN (SELECT value FROM json_each(?)) AND promoted_due IS NOT NULL",
    ] {
        let ids = json!(ids).to_string();
        sqlx::query(forget).bind(&queue.namespace).bind(ids).execute(&mut *tx).await?;
    }
    errors::remove_names(queue, &mut tx, ids).await?;
    Ok(tx.commit().await?)
}

#[async_trait]
impl Administration for EmbeddedQueue {
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64> {
        let (slack, limit) = (clock::millis(slack), limit.min(PAGE_LIMIT) as u64);
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        if self.last_fence(&mut tx).await? - now > slack {
            return Ok(0);
        }
        let mut repaired = 0;
        for lane in self.lanes(&mut tx).await?.into_iter().filter(|lane| lane.order.counts_lateness()) {
            repaired += self.spread_due_times(&mut tx, &lane, (now, slack), limit - repaired).await?;
        }
        self.count(&mut tx, now, &[("mended", repaired as i64)]).await?;
        tx.commit().await?;
        Ok(repaired)
    }

    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let Some(known) = self.lanes(&mut tx).await?.into_iter().find(|known| known.name == lane.name) else {
            return Ok(0);
        };
        if known != *lane {
            self.store_lanes(&mut tx, lane_rows([lane])).await?;
        }
        let moved = match lane.order.counts_lateness() && self.last_fence(&mut tx).await? - now <= clock::millis(slack)
        {
            true => self.spread_due_times(&mut tx, lane, (now, 0), limit.min(PAGE_LIMIT) as u64).await?,
            false => 0,
        };
        tx.commit().await?;
        Ok(moved)
    }

    async fn sum_hours(&self) -> Result<()> {
        hours::sum_minutes(self).await
    }

    async fn pause(&self, reason: Option<&str>) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE queue_namespace SET paused = ? WHERE namespace = ?")
            .bind(reason)
            .bind(&self.namespace)
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }
}

impl EmbeddedQueue {
    async fn last_fence(&self, tx: &mut Tx) -> Result<Millis> {
        let fence = sqlx::query_scalar("SELECT fence FROM queue_namespace WHERE namespace = ?").bind(&self.namespace);
        Ok(fence.fetch_one(&mut **tx).await?)
    }

    /// Spreads ids due later than `now` + patience + `slack` evenly over the patience from `now`: up to `limit`, whose number it returns.
    async fn spread_due_times(
        &self,
        tx: &mut Tx,
        lane: &Lane,
        (now, slack): (Millis, Millis),
        limit: u64,
    ) -> Result<u64> {
        // The n-th of `all_of` is due n/all_of of the patience from now, rounded up.
        let spread = sqlx::query(
            "WITH far AS MATERIALIZED (
                 SELECT key, row_number() OVER (ORDER BY due, id) AS n, count(*) OVER () AS all_of
                 FROM (SELECT key, id, due FROM queue_job WHERE namespace = ?1 AND state = 0 AND lane = ?2 AND due > ?3
                       ORDER BY due, id LIMIT ?4))
             UPDATE queue_job SET due = ?5 + max(1, (?6 * far.n + far.all_of - 1) / far.all_of)
             FROM far WHERE queue_job.key = far.key",
        );
        let spread = spread
            .bind(&self.namespace)
            .bind(&*lane.name)
            .bind(now.saturating_add(lane.patience).saturating_add(slack))
            .bind(limit as i64)
            .bind(now)
            .bind(lane.patience);
        Ok(spread.execute(&mut **tx).await?.rows_affected())
    }
}
