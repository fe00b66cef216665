//! How far each polled source has been read.

use async_trait::async_trait;

use super::StoreError;
use crate::clock::Millis;

/// Posts of a source that its API did not give any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceGap {
    /// The least id that may be missing.
    pub from: String,
    /// The greatest.
    pub to: String,
    /// Why.
    pub reason: String,
    /// When it was noted first, ms since the epoch.
    pub noted_at: Millis,
}

/// A source as its position was saved last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// Its pipeline.
    pub namespace: String,
    /// Its name there.
    pub source: String,
    /// The position, as it was saved.
    pub position: String,
    /// When, ms since the epoch.
    pub saved_at: Millis,
    /// How many gaps were ever noted.
    pub gaps: u64,
    /// The latest of them, the last one first.
    pub latest_gaps: Vec<SourceGap>,
}

/// The contract, beside [`Store`](super::Store), in the same tables' place.
///
/// `namespace` is a pipeline; sources are unique inside one. What a position says is its poller's matter: to the
/// store it is a text.
#[async_trait]
pub trait Positions: Send + Sync + std::fmt::Debug {
    /// The position of a source as it was saved last; `None` where it never was.
    async fn position(&self, namespace: &str, source: &str) -> Result<Option<String>, StoreError>;

    /// Saves a position, once the posts that it counts as had are, and what is missing from before it: all or
    /// nothing. A gap that is noted already stays as it is, since when it was noted first. `at` is when, ms since the
    /// epoch.
    async fn save_position(
        &self,
        namespace: &str,
        source: &str,
        at: Millis,
        position: &str,
        gaps: &[SourceGap],
    ) -> Result<(), StoreError>;

    /// What is missing of a source, in the order in which it was noted.
    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError>;

    /// Every source of every namespace, by namespace and name, each with so many of its latest gaps. One query.
    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>, StoreError>;
}

/// Every source, and a line for each of its latest gaps: `$1` of them at the most. The same text on PostgreSQL and
/// SQLite.
pub(super) const SOURCES: &str = include_str!("sql/sources.sql");

/// A line of it: namespace, source, position, when saved, how many gaps; then a gap's from, to, reason, when noted.
pub(super) type SourceLine =
    (String, String, String, Millis, i64, Option<String>, Option<String>, Option<String>, Option<Millis>);

/// A source's lines stand together.
pub(super) fn gathered(lines: Vec<SourceLine>) -> Vec<SourceRow> {
    let mut rows: Vec<SourceRow> = Vec::new();
    for (namespace, source, position, saved_at, gaps, from, to, reason, noted_at) in lines {
        let gap = from.zip(to).zip(reason.zip(noted_at));
        let gap = gap.map(|((from, to), (reason, noted_at))| SourceGap { from, to, reason, noted_at });
        match rows.last_mut().filter(|last| last.namespace == namespace && last.source == source) {
            Some(last) => last.latest_gaps.extend(gap),
            None => rows.push(SourceRow {
                namespace,
                source,
                position,
                saved_at,
                gaps: u64::try_from(gaps).unwrap_or(0),
                latest_gaps: gap.into_iter().collect(),
            }),
        }
    }
    rows
}
