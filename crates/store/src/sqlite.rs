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
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteExecutor, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, FromRow, Sqlite, SqliteConnection, SqlitePool, Type};

use super::error::{AppliedMigration, check_origin, check_versions};
use super::export::{self, ExportFilter, ExportTables, RowStream, Table};
use super::pseudonyms::KeyFile;
use super::rows::{self, Row, WayRow, clean};
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

/// Merge of an answer into a row: with an unchanged state, and with a new one. The indexes of live items contain the
/// state, and SQLite rewrites an index for each column that is set, even to the same value. With an unchanged state the
/// keys are known, so the index of ids is not needed.
const MERGE: &str = sql!("posts/merge.lite");

static MERGE_STATE: LazyLock<String> =
    LazyLock::new(|| MERGE.replacen("(key) DO UPDATE SET", "(namespace, id) DO UPDATE SET state = excluded.state,", 1));

type Statement = Query<'static, Sqlite, SqliteArguments>;

async fn read<'e, T>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, SqliteRow>,
{
    let rows = statement.fetch_all(executor).await?;
    Ok(rows.iter().map(T::from_row).collect::<sqlx::Result<_>>()?)
}

async fn read_first<'e, T>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<Option<T>>
where
    T: for<'r> FromRow<'r, SqliteRow>,
{
    let row = statement.fetch_optional(executor).await?;
    Ok(row.as_ref().map(T::from_row).transpose()?)
}

async fn read_one<'e, T>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<T>
where
    T: for<'r> FromRow<'r, SqliteRow>,
{
    read_first(executor, statement).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
}

async fn read_column<'e, T>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<Vec<T>>
where
    (T,): for<'r> FromRow<'r, SqliteRow>,
{
    Ok(read(executor, statement).await?.into_iter().map(|(value,)| value).collect())
}

async fn read_first_value<'e, T>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<Option<T>>
where
    (T,): for<'r> FromRow<'r, SqliteRow>,
{
    Ok(read_first(executor, statement).await?.map(|(value,)| value))
}

async fn read_value<'e, T>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<T>
where
    (T,): for<'r> FromRow<'r, SqliteRow>,
{
    read_one(executor, statement).await.map(|(value,)| value)
}

/// Returns the number of written rows.
async fn write<'e>(executor: impl SqliteExecutor<'e>, statement: Statement) -> Result<u64> {
    Ok(statement.execute(executor).await?.rows_affected())
}

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
        read(self.readers(), statement!("database/migrations")).await
    }

    async fn begin(&self) -> Result<Tx> {
        self.file.begin().await
    }

    /// Runs one statement in a transaction of its own.
    async fn write(&self, statement: Statement) -> Result<()> {
        let mut tx = self.begin().await?;
        write(&mut *tx, statement).await?;
        Ok(tx.commit().await?)
    }

    fn readers(&self) -> &SqlitePool {
        self.file.readers()
    }

    async fn select_by_ids<T>(&self, select: &'static str, namespace: &str, ids: &[String]) -> Result<Vec<Option<T>>>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Clone + Send + Unpin,
    {
        let asked = json(ids.iter().map(|id| clean(id)));
        let rows = read(self.readers(), statement!(select, namespace, asked)).await?;
        Ok(rows::order_by_ids(ids, rows))
    }

    async fn write_rows(&self, namespace: &str, rows: Vec<Row<'_>>, clause: &'static str) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        let rows = forget::retain_unblocked(&mut tx, &self.keys, namespace, rows).await?;
        insert(&mut tx, namespace, &rows, |_| None, clause).await?;
        Ok(tx.commit().await?)
    }
}

/// Inserts rows; returns the number of written rows. `key_of` returns known keys, `clause` defines the effect on existing rows.
async fn insert(
    tx: &mut SqliteConnection,
    namespace: &str,
    rows: &[Row<'_>],
    key_of: impl Fn(&Row<'_>) -> Option<i64>,
    clause: &str,
) -> Result<u64> {
    /// With one row of parameters.
    const INSERT: &str = sql!("posts/insert.lite").trim_ascii_end();
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
        let row = &INSERT[INSERT.rfind('(').unwrap_or_default()..];
        let text = [INSERT, &[", ", row].concat().repeat(rows.len() - 1), "\n", clause].concat();
        let insert = sqlx::query_with(AssertSqlSafe(text), values.0);
        written += insert.execute(&mut *tx).await?.rows_affected();
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
}

/// Rows with only a known id, as JSON. Most new rows are of this kind, with a tenth of the values.
fn encode_bare_rows(rows: &[Row<'_>]) -> String {
    let values = rows.iter().filter(|row| row.is_bare());
    let values = values.map(|row| serde_json::json!([row.id, row.state.as_str(), row.created_at, row.next_due]));
    Value::from_iter(values).to_string()
}

async fn insert_bare(tx: &mut SqliteConnection, namespace: &str, at: Millis, bare: &str) -> Result<u64> {
    write(tx, statement!("posts/record_bare.lite", namespace, bare, at)).await
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
    let (fingerprint, stored): (Option<String>, String) =
        read_one(&mut *tx, statement!("posts/states_before_save.lite", namespace, ids)).await?;
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
    written += insert(&mut *tx, namespace, &other, |_| None, &MERGE_STATE).await?;
    let mut changed = write(&mut *tx, statement!("posts/continue_history.lite", keys)).await?;
    if let Some(new) = new {
        changed += write(&mut *tx, statement!("posts/begin_history.lite", namespace, new)).await?;
    }
    if !forgotten.ids.is_empty() {
        let ids = json(forgotten.ids.iter().map(|id| id.as_str().into()));
        write(&mut *tx, statement!("posts/forget_changes.lite", namespace, ids)).await?;
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
        let mut tx = self.readers().begin_with("BEGIN IMMEDIATE").await?;
        MIGRATIONS.run_direct(None, &mut *tx, false).await?;
        Ok(tx.commit().await?)
    }

    async fn check(&self) -> Result<()> {
        check_versions(&self.applied_migrations().await?, &MIGRATIONS)?;
        write(self.readers(), statement!("database/check.lite")).await.map(drop)
    }

    async fn old_reader(&self, older_than: Duration) -> Result<Option<OldReader>> {
        let kept = self.file.blocked_log().filter(|kept| kept.since >= older_than);
        Ok(kept.map(|kept| OldReader {
            age_ms: clock::millis(kept.since),
            what: format!("a reader of the SQLite file keeps {} MB in its write-ahead log", kept.bytes / 1_000_000),
        }))
    }

    async fn check_writes(&self) -> std::result::Result<(), String> {
        self.file.check_disk().await.map_err(|why| why.to_string())
    }

    async fn record(&self, namespace: &str, at: Millis, way: &Way, tweets: &[NewItem]) -> Result<RecordCounts> {
        if tweets.is_empty() {
            return Ok(RecordCounts::default());
        }
        // Before the transaction, since others use the file meanwhile.
        let given = rows::rows_to_record(at, tweets);
        let (n_given, bare_given, counted) = (given.len(), encode_bare_rows(&given), rows::encode_counts(tweets));
        let mut tx = self.begin().await?;
        if way.pipeline == "visit"
            && let Some(PersonSource { network, .. }) = PersonSource::for_namespace(namespace)
            && !forget::find_blocked_in_network(&mut tx, &self.keys, &network, [way.source.as_str()]).await?.is_empty()
        {
            // A visit to a blocked account brings nothing.
            return Ok(RecordCounts { known: tweets.len() as u64, ..RecordCounts::default() });
        }
        let mut rows = forget::retain_unblocked(&mut tx, &self.keys, namespace, given).await?;
        let bare = if rows.len() == n_given { bare_given } else { encode_bare_rows(&rows) };
        // Only one transaction writes at a time, and a new row has the next key: rows after this one are new.
        let last: i64 = read_value(&mut *tx, statement!("posts/last_key.lite")).await?;
        let mut written = insert_bare(&mut tx, namespace, at, &bare).await?;
        rows.sort_by_key(Row::is_bare);
        let full = &rows[..rows.partition_point(|row| !row.is_bare())];
        written += insert(&mut tx, namespace, full, |_| None, sql!("posts/revive.lite")).await?;
        let went = |text| {
            let statement = statement!(text, clean(&way.pipeline), clean(&way.source));
            statement.bind(way.query.as_deref().map(clean)).bind(at)
        };
        let new = went(sql!("posts/add_way_of_new.lite")).bind(last).execute(&mut *tx).await?.rows_affected();
        if new < rows.len() as u64 {
            went(sql!("posts/add_way_of_existing.lite"))
                .bind(namespace)
                .bind(encode_row_ids(&rows))
                .execute(&mut *tx)
                .await?;
        }
        if let Some(counted) = counted {
            write(&mut *tx, statement!("posts/write_counts.lite", namespace, counted)).await?;
            write(&mut *tx, statement!("posts/begin_history.lite", namespace, encode_row_ids(&rows))).await?;
        }
        tx.commit().await?;
        Ok(RecordCounts { new, revived: written - new, known: tweets.len() as u64 - written })
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>> {
        self.select_by_ids(sql!("posts/standing.lite"), namespace, ids).await
    }

    async fn last_answers(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<LastAnswer>>> {
        self.select_by_ids(sql!("posts/last_answers.lite"), namespace, ids).await
    }

    async fn mark_dead(&self, namespace: &str, at: Millis, ids_and_reasons: &[(String, String)]) -> Result<()> {
        self.write_rows(namespace, rows::dead_rows(at, ids_and_reasons), sql!("posts/mark_dead.lite")).await
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<()> {
        self.write_rows(namespace, rows::rows_to_resolve(at, tweets), sql!("posts/resolve_dead.lite")).await
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let given: Vec<(Cow<'_, str>, Millis)> = ids.iter().map(|(id, due)| (clean(id), *due)).collect();
        self.write(statement!("posts/promote.lite", namespace, serde_json::json!(given).to_string())).await
    }

    async fn page(&self, namespace: &str, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<ListedItem>> {
        read(self.readers(), statement!(rows::page_statement(of), namespace, rows::upper_id(below), limit)).await
    }

    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64> {
        let asked = json(ids.iter().map(|id| clean(id)));
        let expired = || statement!("posts/expired.lite", namespace, &asked, rows::expiry_time(which));
        let found: Vec<String> = read_column(self.readers(), expired()).await?;
        if found.is_empty() {
            return Ok(0); // the common case, without the write lock
        }
        let mut tx = self.begin().await?;
        let ids = read_column(&mut *tx, expired()).await?;
        let items = ItemSet { namespace: namespace.to_owned(), ids };
        let removed = forget::remove(&mut tx, &items).await?;
        tx.commit().await?;
        Ok(removed.items())
    }

    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>> {
        let rows: Vec<WayRow> = read(self.readers(), statement!("posts/ways", namespace, clean(id))).await?;
        Ok(rows.into_iter().map(|WayRow { first_at, way }| (first_at, way)).collect())
    }

    async fn counts(&self, namespace: &str) -> Result<StateCounts> {
        let rows = read(self.readers(), statement!("posts/count_by_state", namespace)).await?;
        Ok(rows::state_counts(rows))
    }

    async fn dead(&self, namespace: &str) -> Result<u64> {
        let dead: i64 = read_value(self.readers(), statement!("posts/count_dead", namespace)).await?;
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
        let mut tx = self.begin().await?;
        let saved = save(&mut tx, &self.keys, namespace, answers).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
        Ok(saved)
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>> {
        read_first(self.readers(), statement!("posts/tweet", namespace, clean(id))).await
    }

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>> {
        read(self.readers(), statement!("posts/history", namespace, clean(id))).await
    }

    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        read(self.readers(), statement!("posts/changes", namespace, clean(id))).await
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

#[cfg(test)]
mod tests {
    /// White space and comments aside.
    fn words(text: &str) -> String {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("--"));
        lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    }

    fn from(start: &str, statement: &str) -> String {
        let text = words(statement);
        text[text.find(start).unwrap()..].to_owned()
    }

    #[test]
    fn a_rule_is_the_same_in_each_statement() {
        let merge = words(sql!("posts/merge.lite")).replacen("ON CONFLICT (key) DO UPDATE SET", "", 1);
        let revive = words(sql!("posts/revive.lite"));
        // Before it, the databases find the changes of an account by other keys.
        let account = from("AND changed.field = 'state'", sql!("accounts/save.lite"));
        for (rule, statement) in [
            (&*merge, sql!("posts/save.pg")),
            (&merge, sql!("accounts/save.pg")),
            (&account, sql!("accounts/save.pg")),
            (&revive, sql!("posts/record.pg")),
            (&revive, sql!("posts/record_bare.lite")),
            (&words(sql!("posts/mark_dead.lite")), sql!("posts/mark_dead.pg")),
            (&words(sql!("posts/resolve_dead.lite")), sql!("posts/resolve_dead.pg")),
        ] {
            assert!(words(statement).contains(rule), "{rule}\n{statement}");
        }
    }
}
