//! `incoming`: ids from other programs, read by one drainer at a time.

use async_trait::async_trait;
use serde_json::json;

use super::super::{Inbox, Incoming, REFUSED_KEPT, REFUSED_KEPT_FOR, Result};
use super::{EmbeddedQueue, Tx};
use crate::base::clock::{self, Millis};

/// Time for which a drainer of `incoming` keeps its role after its last read.
const DRAINER_HOLD_MS: Millis = 10_000;

#[async_trait]
impl Inbox for EmbeddedQueue {
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>> {
        // A read first, so an idle drainer takes no write lock.
        let any: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM queue_incoming WHERE namespace = ?)")
            .bind(&self.namespace)
            .fetch_one(self.file.readers())
            .await?;
        if !any {
            return Ok(Vec::new());
        }
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let held = sqlx::query(
            "UPDATE queue_namespace SET drainer = ?2, drainer_until = ?3
             WHERE namespace = ?1 AND (drainer IS NULL OR drainer = ?2 OR drainer_until <= ?4)",
        )
        .bind(&self.namespace)
        .bind(drainer)
        .bind(now + DRAINER_HOLD_MS)
        .bind(now)
        .execute(&mut *tx)
        .await?;
        if held.rows_affected() == 0 {
            return Ok(Vec::new());
        }
        let members: Vec<(String, Millis)> = sqlx::query_as(
            "SELECT member, created_at FROM queue_incoming WHERE namespace = ? ORDER BY created_at, member LIMIT ?",
        )
        .bind(&self.namespace)
        .bind(limit as i64)
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(members.into_iter().map(|(member, created_at)| Incoming { member, created_at }).collect())
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM queue_incoming WHERE namespace = ? AND member IN (SELECT value FROM json_each(?))")
            .bind(&self.namespace)
            .bind(json!(members).to_string())
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<()> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        for (member, reason) in members {
            sqlx::query(
                "INSERT INTO queue_incoming_refused (namespace, member, reason, at) VALUES (?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET reason = excluded.reason, at = excluded.at",
            )
            .bind(&self.namespace)
            .bind(member)
            .bind(reason)
            .bind(now)
            .execute(&mut *tx)
            .await?;
            sqlx::query("DELETE FROM queue_incoming WHERE namespace = ? AND member = ?")
                .bind(&self.namespace)
                .bind(member)
                .execute(&mut *tx)
                .await?;
        }
        limit_refused(self, &mut tx, now).await?;
        Ok(tx.commit().await?)
    }

    async fn add_incoming(&self, members: &[Incoming]) -> Result<()> {
        let mut tx = self.begin().await?;
        let rows: Vec<_> = members.iter().map(|incoming| json!([incoming.member, incoming.created_at])).collect();
        sqlx::query(
            "INSERT INTO queue_incoming (namespace, member, created_at)
             SELECT ?1, value ->> 0, value ->> 1 FROM json_each(?2) WHERE true
             ON CONFLICT DO UPDATE SET created_at = excluded.created_at",
        )
        .bind(&self.namespace)
        .bind(json!(rows).to_string())
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }
}

async fn limit_refused(queue: &EmbeddedQueue, tx: &mut Tx, now: Millis) -> Result<()> {
    let namespace = &queue.namespace;
    // Rejected by a version that stored no time: older than all that is rejected now.
    sqlx::query("UPDATE queue_incoming_refused SET at = ? WHERE namespace = ? AND at = 0")
        .bind(now - 1)
        .bind(namespace)
        .execute(&mut **tx)
        .await?;
    sqlx::query(
        "DELETE FROM queue_incoming_refused WHERE namespace = ?1 AND (at <= ?2 OR member IN (
             SELECT member FROM queue_incoming_refused WHERE namespace = ?1 ORDER BY at DESC, member LIMIT -1 OFFSET ?3))",
    )
    .bind(namespace)
    .bind(now - clock::millis(REFUSED_KEPT_FOR))
    .bind(REFUSED_KEPT as i64)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
