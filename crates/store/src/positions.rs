use async_trait::async_trait;

use super::Result;
use engine::base::clock::Millis;

/// Posts of a source that its API no longer returned.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, sqlx_macros::FromRow)]
pub struct SourceGap {
    #[sqlx(rename = "from_id")]
    pub from: String,
    #[sqlx(rename = "to_id")]
    pub to: String,
    pub reason: String,
    pub noted_at: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceTrouble {
    /// Start of the time without a readable page.
    pub since: Millis,
    /// Failures in a row, while other sources answered.
    pub failures: u32,
    pub error: String,
    pub at: Millis,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedSource {
    pub position: Option<String>,
    /// Failure of its last poll; `None` if a page was saved since.
    pub trouble: Option<SourceTrouble>,
    pub notes: Option<String>,
    /// Start of its follow, if it is a followed account.
    pub followed_at: Option<Millis>,
}

/// A page of a source, to be saved after its posts are handed over.
#[derive(Debug, Clone, Copy)]
pub struct SavedPage<'a> {
    pub at: Millis,
    pub position: &'a str,
    /// True for the start of a first page: it is saved only where no position is.
    pub is_start: bool,
    /// Gaps before the page. A known gap keeps the time of its first record.
    pub gaps: &'a [SourceGap],
    /// True if it contained an unknown post.
    pub has_new_posts: bool,
    /// Notes that the poller stores with the position; `None` keeps the stored notes.
    pub notes: Option<&'a str>,
    /// [`SavedSource::followed_at`], read before the page.
    pub followed_at: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    pub namespace: String,
    pub source: String,
    pub position: Option<String>,
    pub saved_at: Option<Millis>,
    /// Time at which a page last contained an unknown post; before any, the time of the first attempt. `None` if an
    /// older version saved it.
    pub brought_at: Option<Millis>,
    pub trouble: Option<SourceTrouble>,
    /// Number of gaps ever recorded.
    pub gaps: u64,
    pub latest_gaps: Vec<SourceGap>,
}

/// The contract of positions, in the same database as [`Store`](super::Store). Times are ms since the epoch. `namespace` is a
/// pipeline; sources are unique within one. To the store a position is a text; only the poller interprets it.
#[async_trait]
pub trait Positions: Send + Sync + std::fmt::Debug {
    async fn saved_source(&self, namespace: &str, source: &str) -> Result<SavedSource>;

    /// Saves a position after the posts up to it, with the gaps before it, all or nothing. Ends the source's trouble.
    /// Returns false and saves nothing if the account is no longer followed, or was followed again after the page was
    /// requested: its posts may have been dropped meanwhile. Saves no [start](SavedPage::is_start) beside a position either;
    /// a start has no gaps.
    async fn save_page(&self, namespace: &str, source: &str, page: &SavedPage<'_>) -> Result<bool>;

    /// Replaces the stored failure of a source; its position stays.
    async fn save_trouble(&self, namespace: &str, source: &str, trouble: &SourceTrouble) -> Result<()>;

    /// Returns true if a page of another source in these namespaces was read after `since` and no later than `until`.
    async fn was_another_source_read(
        &self,
        namespaces: &[String],
        (namespace, source): (&str, &str),
        (since, until): (Millis, Millis),
    ) -> Result<bool>;

    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>>;

    /// Returns every polled source (namespaces that start with `source:`), sorted by namespace and name, each with up
    /// to `gaps` latest gaps. One query.
    async fn sources(&self, gaps: u32) -> Result<Vec<SourceRow>>;
}

pub(super) type TroubleColumns = (Option<Millis>, i64, Option<String>, Option<Millis>);

/// A stored source: position; four columns of trouble; notes; start of its follow.
pub(super) type SavedLine =
    (Option<String>, Option<Millis>, Option<i64>, Option<String>, Option<Millis>, Option<String>, Option<Millis>);

/// Columns: namespace, source, position, time of save, time of the last unknown post; trouble; number of gaps; then a
/// gap's from, to, reason, time.
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

fn trouble((since, failures, error, at): TroubleColumns) -> Option<SourceTrouble> {
    let failures = u32::try_from(failures).unwrap_or(u32::MAX);
    Some(SourceTrouble { since: since?, failures, error: error?, at: at? })
}

pub(super) fn to_saved_source(line: Option<SavedLine>) -> SavedSource {
    let Some((position, since, failures, error, at, notes, followed_at)) = line else { return SavedSource::default() };
    SavedSource { position, trouble: trouble((since, failures.unwrap_or(0), error, at)), notes, followed_at }
}

/// Merges lines; the lines of a source are adjacent.
pub(super) fn merge_lines(lines: Vec<SourceLine>) -> Vec<SourceRow> {
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
