//! The store in one SQLite file, shared by several processes.
//!
//! Every write is a call to the process's own writer (`base/backend/sqlite`), which takes the file's write lock at the start of
//! a transaction. A transaction that locked only after its reads would fail, not wait, if another one wrote in between.

mod accounts;
mod budget;
mod communities;
mod edges;
mod followed;
mod forget;
mod media;
mod positions;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, FromRow, Sqlite, SqliteConnection, SqlitePool, Type};

use super::error::{APPLIED_MIGRATIONS, AppliedMigration, check_origin, check_versions};
use super::export::{self, ExportFilter, ExportTables, RowStream, Table};
use super::pseudonyms::KeyFile;
use super::rows::{self, Row, WayRow, accepts_counts, clean, columns, expired, last_answer_columns, standing_columns};
use super::{
    Change, DeadResolution, Expiry, ItemSet, LastAnswer, Lifecycle, ListedItem, Listing, MetricsAt, NewItem,
    Observation, OldReader, PersonSource, Posts, RecordCounts, Result, SaveCounts, Standing, StateCounts, StoreError,
    StoredTweet, Way,
};
use engine::base::backend::sqlite::{SharedFile, Tx, parse_rows};
use engine::base::clock::{self, Millis};
use engine::base::failpoint;

/// Rows per INSERT: 800 × 37 values are below SQLite's limit of 32,766 parameters.
const ROWS_PER_INSERT: usize = 800;

pub(super) static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx_macros::migrate!("src/migrations/sqlite");
    migrator.dangerous_set_table_name("store_migrations");
    migrator
});

/// Rows with a changed count in their newest answer that the history lacks. It depends on the rows, not on the answers,
/// so it can run again: existing rows stay.
macro_rules! continue_history {
    ($of:literal) => {
        concat!(
            "INSERT INTO tweet_metrics_row SELECT key, checked_at, retweet_count, favorite_count, reply_count, quote_count, \
             bookmark_count, impression_count FROM tweet WHERE ",
            $of,
            " AND changed_at = checked_at ON CONFLICT DO NOTHING"
        )
    };
}
/// Finds the rows by their keys, which is fast. The next statement finds them by namespace and id.
const CONTINUE_HISTORY: &str = continue_history!("key IN (SELECT value FROM json_each(?1))");
const BEGIN_HISTORY: &str = continue_history!("namespace = ?1 AND id IN (SELECT value FROM json_each(?2))");

const FORGET_CHANGES: &str = "DELETE FROM tweet_change_row WHERE field = 'text' AND tweet IN (\
     SELECT key FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND raw IS NULL)";

/// Merge of an answer into a row: with an unchanged state, and with a new one. The indexes of live items contain the
/// state, and SQLite rewrites an index for each column that is set, even to the same value. With an unchanged state the
/// keys are known, so the index of ids is not needed.
const MERGE: &str = concat!("ON CONFLICT (key) DO UPDATE SET\n", include_str!("sql/merge.sql"));
const MERGE_STATE: &str =
    concat!("ON CONFLICT (namespace, id) DO UPDATE SET state = excluded.state,\n", include_str!("sql/merge.sql"));

macro_rules! way {
    ($of:literal) => {
        concat!(
            "INSERT INTO tweet_way_row SELECT key, ?1, ?2, ?3, ?4 FROM tweet WHERE ",
            $of,
            " ON CONFLICT DO NOTHING"
        )
    };
}
const NEW_WAY: &str = way!("key > ?5");
const ANOTHER_WAY: &str = way!("namespace = ?5 AND id IN (SELECT value FROM json_each(?6))");

/// Brings lookups forward. `MATERIALIZED` and the `+` stop SQLite from scanning the namespace and reading the JSON
/// again for each row.
const PROMOTE: &str = "WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS due FROM json_each(?2)) \
     UPDATE tweet SET next_due = given.due FROM given \
     WHERE tweet.namespace = ?1 AND tweet.id = given.id AND +state IN ('live', 'unavailable') \
     AND (next_due IS NULL OR next_due > given.due)";

/// Writes counts that came with posts into their rows. `MATERIALIZED` as in [`PROMOTE`].
const COUNT: &str = concat!(
    "WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS at, value ->> 2 AS retweet_count, \
     value ->> 3 AS favorite_count, value ->> 4 AS reply_count, value ->> 5 AS quote_count, value ->> 6 AS bookmark_count, \
     value ->> 7 AS impression_count FROM json_each(?2)) UPDATE tweet SET\n",
    include_str!("sql/counted.sql"),
    "FROM given WHERE tweet.namespace = ?1 AND tweet.id = given.id AND ",
    accepts_counts!()
);

#[derive(Debug)]
pub struct SqliteStore {
    file: SharedFile,
    keys: KeyFile,
}

impl SqliteStore {
    /// Opens the file, or creates it in an existing folder.
    ///
    /// A call waits up to `busy_timeout` for writes of other processes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be opened or stays locked,
    /// [`StoreError::Refused`] when it is not a database.
    pub async fn open(path: &Path, busy_timeout: Duration) -> Result<Self> {
        Ok(Self::new(SharedFile::open::<StoreError>(path, busy_timeout).await?, path))
    }

    /// Opens a file for reading, also a copy that this process may not write.
    pub async fn open_to_read(path: &Path, busy_timeout: Duration) -> Result<Self> {
        Ok(Self::new(SharedFile::open_to_read::<StoreError>(path, busy_timeout).await?, path))
    }

    fn new(file: SharedFile, path: &Path) -> Self {
        let mut key = path.as_os_str().to_owned();
        key.push(".forget-key");
        Self { file, keys: KeyFile::new(key.into()) }
    }

    /// Stores the key of forgotten people in this file. The default is a file beside the database with the suffix
    /// `.forget-key`.
    #[must_use]
    pub fn with_key_file(self, path: &Path) -> Self {
        Self { keys: KeyFile::new(path.to_owned()), ..self }
    }

    async fn applied_migrations(&self) -> Result<Vec<AppliedMigration>> {
        Ok(sqlx::query_as(APPLIED_MIGRATIONS).fetch_all(self.readers()).await?)
    }

    async fn begin(&self) -> Result<Tx> {
        self.file.begin().await
    }

    fn readers(&self) -> &SqlitePool {
        self.file.readers()
    }

    async fn select_by_ids<T>(&self, select: &'static str, namespace: &str, ids: &[String]) -> Result<Vec<Option<T>>>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Clone + Send + Unpin,
    {
        let asked = json(ids.iter().map(|id| clean(id)));
        let rows = sqlx::query_as(select).bind(namespace).bind(asked).fetch_all(self.readers()).await?;
        Ok(rows::order_by_ids(ids, rows))
    }

    async fn write_rows(&self, namespace: &str, rows: Vec<Row<'_>>, clause: &'static str) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        let rows = forget::retain_unblocked(&mut transaction, &self.keys, namespace, rows).await?;
        insert(&mut transaction, namespace, &rows, |_| None, clause).await?;
        Ok(transaction.commit().await?)
    }
}

/// Inserts rows; returns the number of written rows. `key_of` returns known keys, `clause` defines the effect on existing rows.
async fn insert(
    transaction: &mut SqliteConnection,
    namespace: &str,
    rows: &[Row<'_>],
    key_of: impl Fn(&Row<'_>) -> Option<i64>,
    clause: &'static str,
) -> Result<u64> {
    let mut written = 0;
    for rows in rows.chunks(ROWS_PER_INSERT) {
        let mut values = Values::default();
        for row in rows {
            values
                .put(key_of(row))
                .put(namespace)
                .put(row.id.as_ref())
                .put(row.state.as_str())
                .put(row.created_at)
                .put(row.current_id.as_deref())
                .put(row.text.as_deref())
                .put(row.author_id.as_deref())
                .put(row.author_name.as_deref())
                .put(row.metrics.retweet_count)
                .put(row.metrics.favorite_count)
                .put(row.metrics.reply_count)
                .put(row.metrics.quote_count)
                .put(row.metrics.bookmark_count)
                .put(row.metrics.impression_count)
                .put(row.withheld_in.as_deref())
                .put(row.raw.as_deref())
                .put(row.first_seen)
                .put(row.checked_at)
                .put(row.changed_at)
                .put(row.next_due)
                .put(row.lookups)
                .put(row.misses)
                .put(row.missing_since)
                .put(row.reason.as_deref())
                .put(row.details.lang.as_deref())
                .put(row.details.reply_to.as_deref())
                .put(row.details.retweet_of.as_deref())
                .put(row.details.quote_of.as_deref())
                .put(row.details.conversation_id.as_deref())
                .put(row.details.reply_settings.as_deref())
                .put(row.details.truncated)
                .put(row.unreadable.as_deref())
                .put(row.recent)
                .put(row.missing_reason)
                .put(row.details.reply_to_author.as_deref())
                .put(row.details.labels.as_deref());
        }
        let texts =
            [concat!("INSERT INTO tweet (key, ", columns!(), ") VALUES "), &values.placeholders(rows.len()), clause];
        let insert = sqlx::query_with(AssertSqlSafe(texts.concat()), values.0);
        written += insert.execute(&mut *transaction).await?.rows_affected();
    }
    Ok(written)
}

#[derive(Default)]
struct Values(SqliteArguments);

impl Values {
    #[allow(clippy::expect_used, reason = "texts and numbers can always be bound")]
    fn put<'v>(&mut self, value: impl Encode<'v, Sqlite> + Type<Sqlite>) -> &mut Self {
        self.0.add(value).expect("a value of a row");
        self
    }

    fn placeholders(&self, rows: usize) -> String {
        let row = format!("({})", vec!["?"; self.0.len() / rows].join(","));
        vec![row; rows].join(",") + "\n"
    }
}

/// Rows with only a known id, as JSON. Most new rows are of this kind, with a tenth of the values.
fn encode_bare_rows(rows: &[Row<'_>]) -> String {
    let values = rows.iter().filter(|row| row.is_bare());
    let values = values.map(|row| serde_json::json!([row.id, row.state.as_str(), row.created_at, row.next_due]));
    Value::from_iter(values).to_string()
}

async fn insert_bare(transaction: &mut SqliteConnection, namespace: &str, at: Millis, bare: &str) -> Result<u64> {
    let insert = concat!(
        "INSERT INTO tweet (namespace, id, state, created_at, first_seen, next_due, lookups, misses) \
         SELECT ?1, value ->> 0, value ->> 1, value ->> 2, ?3, value ->> 3, 0, 0 FROM json_each(?2) WHERE TRUE\n",
        include_str!("sql/revive.sql")
    );
    let insert = sqlx::query(insert).bind(namespace).bind(bare).bind(at);
    Ok(insert.execute(transaction).await?.rows_affected())
}

/// State of a row, time of its newest answer, and its key, before an answer is stored.
type Before<'a> = (Cow<'a, str>, Option<Millis>, i64);

/// Answers ready to be stored. Prepared before the transaction, since others use the file meanwhile.
struct Answers<'a> {
    rows: Vec<Row<'a>>,
    ids: String,
    given: u64,
}

impl<'a> Answers<'a> {
    fn new(observations: &'a [Observation]) -> Self {
        let rows = rows::rows_to_save(observations);
        Self { ids: encode_row_ids(&rows), rows, given: observations.len() as u64 }
    }
}

async fn save(
    tx: &mut SqliteConnection,
    keys: &KeyFile,
    namespace: &str,
    Answers { rows, ids, given }: Answers<'_>,
) -> Result<SaveCounts> {
    const STORED: &str = concat!(
        "SELECT (",
        forget::fingerprint!(),
        "), (SELECT json_group_array(json_array(id, json_array(state, checked_at, key))) FROM tweet \
         WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state <> 'dead')"
    );
    let asked = sqlx::query_as(STORED).bind(namespace).bind(ids);
    let (fingerprint, stored): (Option<String>, String) = asked.fetch_one(&mut *tx).await?;
    let rows = forget::retain_unblocked_with_key(&mut *tx, keys, fingerprint.as_deref(), namespace, rows).await?;
    let stored: HashMap<Cow<'_, str>, Before<'_>> = parse_rows(&stored)?.into_iter().collect();
    let keys = Value::from_iter(stored.values().map(|(.., key)| *key)).to_string();
    let new = rows.iter().filter(|row| !stored.contains_key(&row.id)).map(|row| row.id.as_ref().into());
    let new: Vec<Cow<'_, str>> = new.collect();
    let new = (!new.is_empty()).then(|| json(new.into_iter()));
    let is_repeated = |row: &Row<'_>| stored.get(&row.id).is_some_and(|(_, at, _)| *at == Some(row.first_seen));
    let repeated = rows.iter().filter(|row| is_repeated(row)).count();
    let keeps_state = |row: &Row<'_>| stored.get(&row.id).is_some_and(|(state, ..)| *state == row.state.as_str());
    let is_newest =
        |row: &Row<'_>| stored.get(&row.id).is_none_or(|(_, at, _)| at.is_none_or(|at| at <= row.first_seen));
    let ids_of_forgotten = rows.iter().filter(|row| row.is_forgotten() && is_newest(row)).map(|row| row.id.to_string());
    let ids_of_forgotten = ids_of_forgotten.collect();
    let forgotten = ItemSet { namespace: namespace.to_owned(), ids: ids_of_forgotten };
    if !forgotten.ids.is_empty() {
        forget::remove_post_references(&mut *tx, &forgotten).await?;
    }
    let (same, other): (Vec<_>, Vec<_>) = rows.into_iter().partition(keeps_state);
    let key_of = |row: &Row<'_>| stored.get(&row.id).map(|(.., key)| *key);
    let mut written = insert(&mut *tx, namespace, &same, key_of, MERGE).await?;
    written += insert(&mut *tx, namespace, &other, |_| None, MERGE_STATE).await?;
    let mut changed = sqlx::query(CONTINUE_HISTORY).bind(keys).execute(&mut *tx).await?.rows_affected();
    if let Some(new) = new {
        changed += sqlx::query(BEGIN_HISTORY).bind(namespace).bind(new).execute(&mut *tx).await?.rows_affected();
    }
    if !forgotten.ids.is_empty() {
        let ids = json(forgotten.ids.iter().map(|id| id.as_str().into()));
        sqlx::query(FORGET_CHANGES).bind(namespace).bind(ids).execute(&mut *tx).await?;
    }
    let saved = written + repeated as u64;
    Ok(SaveCounts { saved, older: given - saved, changed })
}

fn json<'a>(ids: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    Value::from_iter(ids).to_string()
}

fn encode_row_ids(rows: &[Row<'_>]) -> String {
    json(rows.iter().map(|row| row.id.as_ref().into()))
}

#[async_trait]
impl Lifecycle for SqliteStore {
    async fn migrate(&self) -> Result<()> {
        // The common case at every start: nothing to do, detected without the write lock.
        if self.check().await.is_ok() {
            return Ok(());
        }
        if let Ok(applied) = self.applied_migrations().await {
            check_origin(&applied, &MIGRATIONS)?;
        }
        // The migrator takes no lock in SQLite, so the transaction around it takes one. It must be sqlx's own
        // transaction: inside the process's own, the migrator would start another one.
        let mut transaction = self.readers().begin_with("BEGIN IMMEDIATE").await?;
        MIGRATIONS.run_direct(None, &mut *transaction, false).await?;
        Ok(transaction.commit().await?)
    }

    async fn check(&self) -> Result<()> {
        check_versions(&self.applied_migrations().await?, &MIGRATIONS)?;
        sqlx::query("SELECT 1 FROM tweet, tweet_metrics, tweet_change, tweet_way, account, account_change, account_count, account_post, \
             source_position, source_gap, schedule_budget, edge, crawl, visit, community_account LIMIT 0")
            .execute(self.readers())
            .await
            .map(drop)
            .map_err(StoreError::from)
    }

    async fn old_reader(&self, older_than: Duration) -> Result<Option<OldReader>> {
        let kept = self.file.blocked_log().filter(|kept| kept.since >= older_than);
        Ok(kept.map(|kept| OldReader {
            age_ms: clock::millis(kept.since),
            what: format!("a reader of the SQLite file keeps {} MB in its write-ahead log", kept.bytes / 1_000_000),
        }))
    }

    async fn check_writes(&self) -> std::result::Result<(), String> {
        self.file.check_disk().await
    }

    async fn record(&self, namespace: &str, at: Millis, way: &Way, tweets: &[NewItem]) -> Result<RecordCounts> {
        if tweets.is_empty() {
            return Ok(RecordCounts::default());
        }
        // Before the transaction, since others use the file meanwhile.
        let given = rows::rows_to_record(at, tweets);
        let (n_given, bare_given, counted) = (given.len(), encode_bare_rows(&given), rows::encode_counts(tweets));
        let mut transaction = self.begin().await?;
        if way.pipeline == "visit"
            && let Some(PersonSource { network, .. }) = PersonSource::for_namespace(namespace)
            && !forget::find_blocked_in_network(&mut transaction, &self.keys, &network, [way.source.as_str()])
                .await?
                .is_empty()
        {
            // A visit to a blocked account brings nothing.
            return Ok(RecordCounts { known: tweets.len() as u64, ..RecordCounts::default() });
        }
        let mut rows = forget::retain_unblocked(&mut transaction, &self.keys, namespace, given).await?;
        let bare = if rows.len() == n_given { bare_given } else { encode_bare_rows(&rows) };
        // Only one transaction writes at a time, and a new row has the next key: rows after this one are new.
        let last: i64 =
            sqlx::query_scalar("SELECT coalesce(max(key), 0) FROM tweet").fetch_one(&mut *transaction).await?;
        let mut written = insert_bare(&mut transaction, namespace, at, &bare).await?;
        rows.sort_by_key(Row::is_bare);
        let full = &rows[..rows.partition_point(|row| !row.is_bare())];
        written += insert(&mut transaction, namespace, full, |_| None, include_str!("sql/revive.sql")).await?;
        let went = |text| {
            let statement = sqlx::query(text).bind(clean(&way.pipeline)).bind(clean(&way.source));
            statement.bind(way.query.as_deref().map(clean)).bind(at)
        };
        let new = went(NEW_WAY).bind(last).execute(&mut *transaction).await?.rows_affected();
        if new < rows.len() as u64 {
            went(ANOTHER_WAY).bind(namespace).bind(encode_row_ids(&rows)).execute(&mut *transaction).await?;
        }
        if let Some(counted) = counted {
            sqlx::query(COUNT).bind(namespace).bind(counted).execute(&mut *transaction).await?;
            sqlx::query(BEGIN_HISTORY).bind(namespace).bind(encode_row_ids(&rows)).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(RecordCounts { new, revived: written - new, known: tweets.len() as u64 - written })
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>> {
        const STANDING: &str = concat!(
            "SELECT ",
            standing_columns!(),
            " FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))"
        );
        self.select_by_ids(STANDING, namespace, ids).await
    }

    async fn last_answers(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<LastAnswer>>> {
        const LAST_ANSWERS: &str = concat!(
            "SELECT ",
            last_answer_columns!(),
            " FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))"
        );
        self.select_by_ids(LAST_ANSWERS, namespace, ids).await
    }

    async fn mark_dead(&self, namespace: &str, at: Millis, ids_and_reasons: &[(String, String)]) -> Result<()> {
        self.write_rows(namespace, rows::dead_rows(at, ids_and_reasons), include_str!("sql/mark_dead.sql")).await
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<()> {
        self.write_rows(namespace, rows::rows_to_resolve(at, tweets), include_str!("sql/resolve_dead.sql")).await
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let given: Vec<(Cow<'_, str>, Millis)> = ids.iter().map(|(id, due)| (clean(id), *due)).collect();
        let mut transaction = self.begin().await?;
        sqlx::query(PROMOTE)
            .bind(namespace)
            .bind(serde_json::json!(given).to_string())
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn page(&self, namespace: &str, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<ListedItem>> {
        let page = sqlx::query_as(rows::page_statement(of)).bind(namespace).bind(rows::upper_id(below)).bind(limit);
        Ok(page.fetch_all(self.readers()).await?)
    }

    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64> {
        const OUTLIVED: &str = concat!(
            "SELECT id FROM tweet WHERE namespace = $1 AND id IN (SELECT value FROM json_each($2)) AND ",
            expired!()
        );
        let asked = json(ids.iter().map(|id| clean(id)));
        let expired = || sqlx::query_scalar(OUTLIVED).bind(namespace).bind(&asked).bind(rows::expiry_time(which));
        let found: Vec<String> = expired().fetch_all(self.readers()).await?;
        if found.is_empty() {
            return Ok(0); // the common case, without the write lock
        }
        let mut transaction = self.begin().await?;
        let ids = expired().fetch_all(&mut *transaction).await?;
        let items = ItemSet { namespace: namespace.to_owned(), ids };
        let removed = forget::remove(&mut transaction, &items).await?;
        transaction.commit().await?;
        Ok(removed.items())
    }

    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>> {
        let rows: Vec<WayRow> =
            sqlx::query_as(rows::WAYS).bind(namespace).bind(clean(id)).fetch_all(self.readers()).await?;
        Ok(rows.into_iter().map(|WayRow { first_at, way }| (first_at, way)).collect())
    }

    async fn counts(&self, namespace: &str) -> Result<StateCounts> {
        let rows = sqlx::query_as(rows::COUNTS).bind(namespace).fetch_all(self.readers()).await?;
        Ok(rows::state_counts(rows))
    }

    async fn dead(&self, namespace: &str) -> Result<u64> {
        let dead: i64 = sqlx::query_scalar(rows::DEAD).bind(namespace).fetch_one(self.readers()).await?;
        Ok(rows::number(dead))
    }
}

#[async_trait]
impl Posts for SqliteStore {
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts> {
        if observations.is_empty() {
            return Ok(SaveCounts::default());
        }
        let answers = Answers::new(observations);
        let mut transaction = self.begin().await?;
        let saved = save(&mut transaction, &self.keys, namespace, answers).await?;
        failpoint::point("before_commit");
        transaction.commit().await?;
        Ok(saved)
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>> {
        Ok(sqlx::query_as(rows::TWEET).bind(namespace).bind(clean(id)).fetch_optional(self.readers()).await?)
    }

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>> {
        Ok(sqlx::query_as(rows::HISTORY).bind(namespace).bind(clean(id)).fetch_all(self.readers()).await?)
    }

    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        Ok(sqlx::query_as(rows::CHANGES).bind(namespace).bind(clean(id)).fetch_all(self.readers()).await?)
    }
}

#[async_trait]
impl ExportTables for SqliteStore {
    fn rows<'a>(&'a self, table: &'a Table, wanted: &ExportFilter) -> RowStream<'a> {
        export::stream_rows(self.readers(), table, wanted)
    }

    async fn count(&self, table: &Table, wanted: &ExportFilter) -> Result<u64> {
        export::count(self.readers(), table, wanted).await
    }
}
