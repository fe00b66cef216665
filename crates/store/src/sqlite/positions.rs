use async_trait::async_trait;

use super::SqliteStore;
use super::forget::find_blocked;
use crate::positions::{GAPS, SAVED, SOURCES, SourceLine, merge_lines, save_trouble, to_saved_source};
use crate::rows::clean;
use crate::{Positions, Result, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble, StoreError};
use engine::base::clock::Millis;

const SAVE_TROUBLE: &str = save_trouble!("TRUE");

const IS_FOLLOWED_AS_BEFORE: &str = "SELECT CASE WHEN ?3 IS NULL \
     THEN NOT EXISTS (SELECT 1 FROM visit WHERE namespace = ?1 AND account = ?2) \
     ELSE EXISTS (SELECT 1 FROM visit WHERE namespace = ?1 AND account = ?2 AND left_at IS NULL AND followed_at = ?3) END";

#[async_trait]
impl Positions for SqliteStore {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource> {
        let line = sqlx::query_as(SAVED).bind(namespace).bind(source).fetch_optional(self.readers());
        Ok(to_saved_source(line.await?))
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let as_before = sqlx::query_scalar(IS_FOLLOWED_AS_BEFORE).bind(namespace).bind(source).bind(page.followed_at);
        let is_away = !find_blocked(&mut transaction, &self.keys, namespace, [source]).await?.is_empty();
        if is_away || !as_before.fetch_one(&mut *transaction).await? {
            return Ok(false);
        }
        for gap in page.gaps {
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
            .await?;
        }
        sqlx::query(
            "INSERT INTO source_position (namespace, source, position, saved_at, brought_at, notes) \
             VALUES (?1, ?2, ?3, ?4, ?4, ?6) ON CONFLICT DO UPDATE SET notes = COALESCE(excluded.notes, notes), \
             position = excluded.position, saved_at = excluded.saved_at, \
             brought_at = CASE WHEN ?5 OR brought_at IS NULL THEN excluded.brought_at ELSE brought_at END, \
             failing_since = NULL, failures = 0, error = NULL, failed_at = NULL",
        )
        .bind(namespace)
        .bind(source)
        .bind(page.position)
        .bind(page.at)
        .bind(page.has_new_posts)
        .bind(page.notes.map(clean))
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<()> {
        let mut transaction = self.begin().await?;
        if !find_blocked(&mut transaction, &self.keys, namespace, [source]).await?.is_empty() {
            return Ok(());
        }
        sqlx::query(SAVE_TROUBLE)
            .bind(namespace)
            .bind(source)
            .bind(trouble.since)
            .bind(i64::from(trouble.failures))
            .bind(clean(&trouble.error))
            .bind(trouble.at)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool> {
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM source_position WHERE namespace IN (SELECT value FROM json_each(?1)) \
             AND saved_at > ?4 AND saved_at <= ?5 AND NOT (namespace = ?2 AND source = ?3))",
        )
        .bind(serde_json::json!(namespaces).to_string())
        .bind(namespace)
        .bind(source)
        .bind(since)
        .bind(until)
        .fetch_one(self.readers())
        .await
        .map_err(StoreError::from)
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>> {
        Ok(sqlx::query_as(GAPS).bind(namespace).bind(source).fetch_all(self.readers()).await?)
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>> {
        let lines: Vec<SourceLine> = sqlx::query_as(SOURCES).bind(i64::from(gaps)).fetch_all(self.readers()).await?;
        Ok(merge_lines(lines))
    }
}
