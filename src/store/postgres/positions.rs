//! Positions of sources in PostgreSQL.

use async_trait::async_trait;

use super::PostgresStore;
use crate::clock::Millis;
use crate::store::positions::{SOURCES, SourceLine, gathered};
use crate::store::{Positions, SourceGap, SourceRow, StoreError};

const SAVE: &str = "WITH gap AS (INSERT INTO source_gap (namespace, source, from_id, to_id, reason, noted_at) \
     SELECT $1, $2, fresh.* FROM UNNEST($5::text[], $6::text[], $7::text[], $8::bigint[]) AS fresh ON CONFLICT DO NOTHING) \
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
        let noted_at: Vec<Millis> = gaps.iter().map(|gap| gap.noted_at).collect();
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
                    .bind(noted_at.clone())
            })
            .await?;
        debug_assert_eq!(saved.0, at);
        Ok(())
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError> {
        let (namespace, source) = (namespace.to_owned(), source.to_owned());
        let rows: Vec<(String, String, String, Millis)> = self
            .rows(|| {
                sqlx::query(
                    "SELECT from_id, to_id, reason, noted_at FROM source_gap WHERE namespace = $1 AND source = $2 \
                     ORDER BY noted_at, from_id",
                )
                .bind(namespace.clone())
                .bind(source.clone())
            })
            .await?;
        Ok(rows.into_iter().map(|(from, to, reason, noted_at)| SourceGap { from, to, reason, noted_at }).collect())
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError> {
        let lines: Vec<SourceLine> = self.rows(|| sqlx::query(SOURCES).bind(i64::from(gaps))).await?;
        Ok(gathered(lines))
    }
}
