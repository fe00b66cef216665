//! Positions of sources in PostgreSQL.

use async_trait::async_trait;

use super::PostgresStore;
use crate::clock::Millis;
use crate::store::{Positions, SourceGap, StoreError};

const SAVE: &str = "WITH gap AS (INSERT INTO source_gap (namespace, source, from_id, to_id, reason, noted_at) \
     SELECT $1, $2, fresh.*, $4 FROM UNNEST($5::text[], $6::text[], $7::text[]) AS fresh ON CONFLICT DO NOTHING) \
     INSERT INTO source_position (namespace, source, position, saved_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (namespace, source) DO UPDATE SET position = EXCLUDED.position, saved_at = EXCLUDED.saved_at \
     RETURNING saved_at";

#[async_trait]
impl Positions for PostgresStore {
    async fn position(&self, namespace: &str, source: &str) -> Result<Option<String>, StoreError> {
        let (namespace, source) = (namespace.to_owned(), source.to_owned());
        let rows: Vec<(String,)> = self
            .rows(|| {
                sqlx::query("SELECT position FROM source_position WHERE namespace = $1 AND source = $2")
                    .bind(namespace.clone())
                    .bind(source.clone())
            })
            .await?;
        Ok(rows.into_iter().next().map(|(position,)| position))
    }

    async fn save_position(
        &self,
        namespace: &str,
        source: &str,
        at: Millis,
        position: &str,
        gaps: &[SourceGap],
    ) -> Result<(), StoreError> {
        let column = |of: fn(&SourceGap) -> &String| gaps.iter().map(|gap| of(gap).clone()).collect::<Vec<_>>();
        let (from, to, reason) = (column(|gap| &gap.from), column(|gap| &gap.to), column(|gap| &gap.reason));
        let (namespace, source, position) = (namespace.to_owned(), source.to_owned(), position.to_owned());
        let saved: (i64,) = self
            .row(|| {
                sqlx::query(SAVE)
                    .bind(namespace.clone())
                    .bind(source.clone())
                    .bind(position.clone())
                    .bind(at)
                    .bind(from.clone())
                    .bind(to.clone())
                    .bind(reason.clone())
            })
            .await?;
        debug_assert_eq!(saved.0, at);
        Ok(())
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        let (namespace, source) = (namespace.to_owned(), source.to_owned());
        let rows: Vec<(String, String, String)> = self
            .rows(|| {
                sqlx::query(
                    "SELECT from_id, to_id, reason FROM source_gap WHERE namespace = $1 AND source = $2 \
                     ORDER BY noted_at, from_id",
                )
                .bind(namespace.clone())
                .bind(source.clone())
            })
            .await?;
        Ok(rows.into_iter().map(|(from, to, reason)| SourceGap { from, to, reason }).collect())
    }
}
