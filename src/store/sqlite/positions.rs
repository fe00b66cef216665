//! Positions of sources in the file.

use async_trait::async_trait;

use super::{SqliteStore, judge};
use crate::clock::Millis;
use crate::store::positions::{SOURCES, SourceLine, gathered};
use crate::store::{Positions, SourceGap, SourceRow, StoreError};

#[async_trait]
impl Positions for SqliteStore {
    async fn position(&self, namespace: &str, source: &str) -> Result<Option<String>, StoreError> {
        sqlx::query_scalar("SELECT position FROM source_position WHERE namespace = ?1 AND source = ?2")
            .bind(namespace)
            .bind(source)
            .fetch_optional(&self.readers)
            .await
            .map_err(judge)
    }

    async fn save_position(
        &self,
        namespace: &str,
        source: &str,
        at: Millis,
        position: &str,
        gaps: &[SourceGap],
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        for gap in gaps {
            sqlx::query(
                "INSERT INTO source_gap (namespace, source, from_id, to_id, reason, noted_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            )
            .bind(namespace)
            .bind(source)
            .bind(&gap.from)
            .bind(&gap.to)
            .bind(&gap.reason)
            .bind(gap.noted_at)
            .execute(&mut *transaction)
            .await
            .map_err(judge)?;
        }
        sqlx::query(
            "INSERT INTO source_position (namespace, source, position, saved_at) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO UPDATE SET position = excluded.position, saved_at = excluded.saved_at",
        )
        .bind(namespace)
        .bind(source)
        .bind(position)
        .bind(at)
        .execute(&mut *transaction)
        .await
        .map_err(judge)?;
        transaction.commit().await.map_err(judge)
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        let rows: Vec<(String, String, String, Millis)> = sqlx::query_as(
            "SELECT from_id, to_id, reason, noted_at FROM source_gap WHERE namespace = ?1 AND source = ?2 ORDER BY noted_at, from_id",
        )
        .bind(namespace)
        .bind(source)
        .fetch_all(&self.readers)
        .await
        .map_err(judge)?;
        Ok(rows.into_iter().map(|(from, to, reason, noted_at)| SourceGap { from, to, reason, noted_at }).collect())
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError> {
        let lines: Vec<SourceLine> =
            sqlx::query_as(SOURCES).bind(i64::from(gaps)).fetch_all(&self.readers).await.map_err(judge)?;
        Ok(gathered(lines))
    }
}
