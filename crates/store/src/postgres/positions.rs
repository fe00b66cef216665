use async_trait::async_trait;

use super::{PostgresStore, not_blocked};
use crate::positions::{GAPS, SAVED, SOURCES, SourceLine, merge_lines, save_trouble, to_saved_source};
use crate::rows::clean;
use crate::{Positions, Result, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble};
use engine::base::clock::Millis;

/// An unfollow waits for the lock, so a page is saved before it or not at all.
const SAVE: &str = concat!(
    "WITH visited AS MATERIALIZED (SELECT left_at, followed_at FROM visit \
         WHERE namespace = $1 AND account = $2 FOR SHARE), \
     is_saved AS MATERIALIZED (SELECT WHERE CASE WHEN $12 IS NULL THEN NOT EXISTS (SELECT FROM visited) \
         ELSE EXISTS (SELECT FROM visited WHERE left_at IS NULL AND followed_at = $12) END \
         AND ",
    not_blocked!("$2", "$11"),
    "), \
     gap AS (INSERT INTO source_gap (namespace, source, from_id, to_id, reason, noted_at) \
         SELECT $1, $2, fresh.* FROM is_saved, UNNEST($5::text[], $6::text[], $7::text[], $8::bigint[]) AS fresh \
         ON CONFLICT DO NOTHING) \
     INSERT INTO source_position AS known (namespace, source, position, saved_at, brought_at, notes) \
     SELECT $1, $2, $3, $4, $4, $10 FROM is_saved \
     ON CONFLICT (namespace, source) DO UPDATE SET position = EXCLUDED.position, \
     notes = COALESCE(EXCLUDED.notes, known.notes), saved_at = EXCLUDED.saved_at, \
     brought_at = CASE WHEN $9 OR known.brought_at IS NULL THEN EXCLUDED.brought_at ELSE known.brought_at END, \
     failing_since = NULL, failures = 0, error = NULL, failed_at = NULL \
     RETURNING known.saved_at"
);

const SAVE_TROUBLE: &str = save_trouble!(not_blocked!("$2", "$7"));

const WAS_ANOTHER_SOURCE_READ: &str = "SELECT EXISTS (SELECT FROM source_position WHERE namespace = ANY($1) AND saved_at > $4 \
     AND saved_at <= $5 AND NOT (namespace = $2 AND source = $3))";

#[async_trait]
impl Positions for PostgresStore {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource> {
        let (namespace, source) = (namespace.to_owned(), source.to_owned());
        let rows = self.rows(|| sqlx::query(SAVED).bind(namespace.clone()).bind(source.clone())).await?;
        Ok(to_saved_source(rows.into_iter().next()))
    }

    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool> {
        let SavedPage { at, gaps, has_new_posts, followed_at, .. } = *page;
        let column = |of: fn(&SourceGap) -> &String| gaps.iter().map(|gap| of(gap).clone()).collect::<Vec<_>>();
        let (from, to, reason) = (column(|gap| &gap.from), column(|gap| &gap.to), column(|gap| &gap.reason));
        let noted_at: Vec<Millis> = gaps.iter().map(|gap| gap.noted_at).collect();
        let (namespace, source, position) = (namespace.to_owned(), source.to_owned(), page.position.to_owned());
        let notes = page.notes.map(|notes| clean(notes).into_owned());
        let people = || self.account_pseudonyms(&namespace, [&*source]);
        let saved: Vec<(i64,)> = self
            .rows(|| {
                sqlx::query(SAVE)
                    .bind(namespace.clone())
                    .bind(source.clone())
                    .bind(position.clone())
                    .bind(at)
                    .bind(from.clone())
                    .bind(to.clone())
                    .bind(reason.clone())
                    .bind(noted_at.clone())
                    .bind(has_new_posts)
                    .bind(notes.clone())
                    .bind(people())
                    .bind(followed_at)
            })
            .await?;
        assert!(saved.iter().all(|(saved_at,)| *saved_at == at));
        Ok(!saved.is_empty())
    }

    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<()> {
        let (namespace, source, error) = (namespace.to_owned(), source.to_owned(), clean(&trouble.error));
        let people = || self.account_pseudonyms(&namespace, [&*source]);
        self.rows::<(i64,)>(|| {
            sqlx::query(SAVE_TROUBLE)
                .bind(namespace.clone())
                .bind(source.clone())
                .bind(trouble.since)
                .bind(i64::from(trouble.failures))
                .bind(error.clone().into_owned())
                .bind(trouble.at)
                .bind(people())
        })
        .await
        .map(drop)
    }

    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool> {
        let (namespaces, namespace, source) = (namespaces.to_vec(), namespace.to_owned(), source.to_owned());
        let (is_read,): (bool,) = self
            .row(|| {
                sqlx::query(WAS_ANOTHER_SOURCE_READ)
                    .bind(namespaces.clone())
                    .bind(namespace.clone())
                    .bind(source.clone())
                    .bind(since)
                    .bind(until)
            })
            .await?;
        Ok(is_read)
    }

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>> {
        let (namespace, source) = (namespace.to_owned(), source.to_owned());
        self.rows(|| sqlx::query(GAPS).bind(namespace.clone()).bind(source.clone())).await
    }

    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>> {
        let lines: Vec<SourceLine> = self.rows(|| sqlx::query(SOURCES).bind(i64::from(gaps))).await?;
        Ok(merge_lines(lines))
    }
}
