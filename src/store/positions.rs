//! The position of each polled source.

use async_trait::async_trait;

use super::Result;
use crate::base::clock::Millis;

/// Posts of a source that its API did not give any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx_macros::FromRow)]
pub struct SourceGap {
    /// The least id that may be missing.
    #[sqlx(rename = "from_id")]
    pub from: String,
    /// The greatest.
    #[sqlx(rename = "to_id")]
    pub to: String,
    /// Why.
    pub reason: String,
    /// When it was noted first, ms since the epoch.
    pub noted_at: Millis,
}

/// The current failure of a source, as its poller last recorded it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceTrouble {
    /// Since when no page of it could be read, ms since the epoch.
    pub since: Millis,
    /// The number of failures in a row, while other sources were answered.
    pub failures: u32,
    /// The last error.
    pub error: String,
    /// When that was, ms since the epoch.
    pub at: Millis,
}

/// The state of a source between two polls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedSource {
    /// The position as it was saved last; `None` where it never was.
    pub position: Option<String>,
    /// What kept its last poll from reading it; `None` where a page was saved since.
    pub trouble: Option<SourceTrouble>,
    /// What was kept beside the position ([`SavedPage::notes`]).
    pub notes: Option<String>,
    /// Since when it is followed, ms since the epoch, if it is an account that is.
    pub followed_at: Option<Millis>,
}

/// A page of a source, to be saved once its posts are handed over.
#[derive(Debug, Clone, Copy)]
pub struct SavedPage<'a> {
    /// When it was read, ms since the epoch.
    pub at: Millis,
    /// The position of the source with it.
    pub position: &'a str,
    /// The gaps before it. A gap that is already recorded keeps the time of its first record.
    pub gaps: &'a [SourceGap],
    /// True if it brought a post that was not known.
    pub brought: bool,
    /// What its poller wants back with the position; `None`: what is kept stays.
    pub notes: Option<&'a str>,
    /// [`SavedSource::followed_at`], read before the page was.
    pub followed_at: Option<Millis>,
}

/// A source as it was saved last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// Its pipeline.
    pub namespace: String,
    /// Its name there.
    pub source: String,
    /// The position, as it was saved; `None` where no page was ever read.
    pub position: Option<String>,
    /// When, ms since the epoch.
    pub saved_at: Option<Millis>,
    /// When a page of it last brought a post that was not known; for one that never did, when it was tried first. Ms since
    /// the epoch; `None` where an older version saved it.
    pub brought_at: Option<Millis>,
    /// Its current failure.
    pub trouble: Option<SourceTrouble>,
    /// The number of gaps ever recorded.
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
    /// What is kept of a source.
    async fn saved(&self, namespace: &str, source: &str) -> Result<SavedSource>;

    /// Saves a position, once the posts that it counts as had are, and what is missing from before it: all or
    /// nothing. Ends the source's trouble. False: nothing is saved, since the account is followed no more, or was followed anew
    /// after the page was asked for. Its posts may have been dropped meanwhile.
    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool>;

    /// Saves what kept a source from being read, in place of what did before; its position stays.
    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<()>;

    /// Whether a page of any other source in these namespaces was read after `since` and no later than `until`, ms since the epoch.
    async fn is_another_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool>;

    /// What is missing of a source, in the order in which it was noted.
    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>>;

    /// Every source that is polled (their namespaces begin with `source:`), by namespace and name, each with so many of its latest gaps. One query.
    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>>;
}

/// The gaps of a source, in the order in which they were noted.
pub(super) const GAPS: &str = "SELECT from_id, to_id, reason, noted_at FROM source_gap WHERE namespace = $1 AND source = $2 \
     ORDER BY noted_at, from_id";

/// Every source, and a line for each of its latest gaps: `$1` of them at the most. The same text on PostgreSQL and
/// SQLite.
pub(super) const SOURCES: &str = include_str!("sql/sources.sql");
pub(super) const SAVED: &str = include_str!("sql/saved_source.sql");
macro_rules! save_trouble {
    ($unless:expr) => {
        concat!(
            "INSERT INTO source_position (namespace, source, brought_at, failing_since, failures, error, failed_at) \
             SELECT $1, $2, $3, $3, $4, $5, $6 WHERE ",
            $unless,
            "\n",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/sql/save_trouble.sql"))
        )
    };
}
pub(super) use save_trouble;

/// A trouble: since when, how often, why, when.
pub(super) type TroubleColumns = (Option<Millis>, i64, Option<String>, Option<Millis>);

/// A line of what is kept of a source: its position; its trouble, in four columns; its notes; and since when it is followed.
pub(super) type SavedLine =
    (Option<String>, Option<Millis>, Option<i64>, Option<String>, Option<Millis>, Option<String>, Option<Millis>);

/// A line of it: namespace, source, position, when saved, when it brought a post; the trouble; how many gaps; then a
/// gap's from, to, reason, when noted.
#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct SourceLine {
    namespace: String,
    source: String,
    position: Option<String>,
    saved_at: Option<Millis>,
    brought_at: Option<Millis>,
    failing_since: Option<Millis>,
    failures: i64,
    error: Option<String>,
    failed_at: Option<Millis>,
    gaps: i64,
    from_id: Option<String>,
    to_id: Option<String>,
    reason: Option<String>,
    noted_at: Option<Millis>,
}

/// A trouble, where there is one.
fn trouble((since, failures, error, at): TroubleColumns) -> Option<SourceTrouble> {
    let failures = u32::try_from(failures).unwrap_or(u32::MAX);
    Some(SourceTrouble { since: since?, failures, error: error?, at: at? })
}

/// What is kept of a source.
pub(super) fn saved(line: Option<SavedLine>) -> SavedSource {
    let Some((position, since, failures, error, at, notes, followed_at)) = line else { return SavedSource::default() };
    SavedSource { position, trouble: trouble((since, failures.unwrap_or(0), error, at)), notes, followed_at }
}

/// A source's lines stand together.
pub(super) fn gathered(lines: Vec<SourceLine>) -> Vec<SourceRow> {
    let mut rows: Vec<SourceRow> = Vec::new();
    for line in lines {
        let gap = line.from_id.zip(line.to_id).zip(line.reason.zip(line.noted_at));
        let gap = gap.map(|((from, to), (reason, noted_at))| SourceGap { from, to, reason, noted_at });
        match rows.last_mut().filter(|last| last.namespace == line.namespace && last.source == line.source) {
            Some(last) => last.latest_gaps.extend(gap),
            None => rows.push(SourceRow {
                namespace: line.namespace,
                source: line.source,
                position: line.position,
                saved_at: line.saved_at,
                brought_at: line.brought_at,
                trouble: trouble((line.failing_since, line.failures, line.error, line.failed_at)),
                gaps: u64::try_from(line.gaps).unwrap_or(0),
                latest_gaps: gap.into_iter().collect(),
            }),
        }
    }
    rows
}
