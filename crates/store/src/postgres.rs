//! The store in PostgreSQL.
//!
//! Each call is one statement over the whole batch, with its rows as arrays (`UNNEST`). So it is one round trip and its
//! own transaction. Rows are written and locked in the order of their ids, which is the order of the arrays (`UNNEST`
//! reads them from first to last). So overlapping batches wait for each other and cannot deadlock.

mod accounts;
mod budget;
mod communities;
mod edges;
mod followed;
mod forget;
mod media;
mod pooler;
mod positions;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgArguments, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, FromRow, PgConnection, PgPool, Postgres};

use super::error::{AppliedMigration, check_origin, check_versions, is_conflict, is_read_only, wants_key};
use super::export::{self, ExportFilter, ExportTables, RowStream, Table};
use super::pseudonyms::KeyFile;
use super::rows::{self, Row, WayRow, clean, number};
use super::{
    Change, DeadResolution, Expiry, ItemSet, LastAnswer, Lifecycle, ListedItem, Listing, MetricsAt, NewItem,
    Observation, OldReader, PersonSource, Posts, RecordCounts, Result, SaveCounts, Standing, StateCounts, StoreError,
    StoredTweet, Way,
};
use crate::postgres_address;
use engine::base::clock::Millis;
use engine::base::failpoint;

pub const DEFAULT_KEY_FILE: &str = "twitter-updater.forget-key";

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Retries of a statement after a conflict with another writer. Our own statements never conflict (see above), but an
/// operator's UPDATE in another order may.
const CONFLICT_RETRIES: u32 = 3;

/// A connection that only reads does not notice that its server became a standby, nor that it lags behind.
const MAX_LIFETIME: Duration = Duration::from_secs(300);

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx_macros::migrate!("src/migrations/postgres");
    migrator.dangerous_set_table_name("store_migrations");
    migrator
});

type Statement = Query<'static, Postgres, PgArguments>;

#[derive(Debug)]
pub struct PostgresStore {
    pool: PgPool,
    keys: KeyFile,
    call_timeout: Duration,
}

impl PostgresStore {
    /// Connects, and checks that the server accepts the login.
    ///
    /// `url` has libpq's form: `postgres://user:password@host:5432/database?sslmode=verify-full`, or
    /// `postgres:///database?host=/run/postgresql&user=me` for a socket. The server cancels a statement after
    /// `statement_timeout` (zero: never).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not accept the login within 5 s. [`StoreError::Refused`] if the
    /// URL is invalid, asks for [no verification](crate::postgres_address), or names a pooler that shares connections between
    /// transactions, or if the database's encoding is not UTF-8. Neither error repeats the URL.
    pub async fn connect(url: &SecretString, max_connections: u32, statement_timeout: Duration) -> Result<Self> {
        // sqlx accepts any scheme, and would read `me:password@host/database` as `me://localhost`.
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.expose_secret().starts_with(scheme)) {
            return Err(StoreError::Refused("the database's address does not start with postgres://".into()));
        }
        let options = postgres_address::parse_address(url.expose_secret())?
            .application_name("twitter-updater")
            // Values are binary, so this setting has no effect for us. A pooler rejects startup parameters that it does
            // not know.
            .extra_float_digits(None)
            .disable_statement_logging();
        // Not the pool's first connection: the pool would retry for 5 s and hide the cause.
        let mut first = match tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect()).await {
            Ok(Err(error)) if postgres_address::is_unverified(&options, &error) => {
                return Err(unverified_server(&error));
            }
            Ok(connected) => connected?,
            Err(_) => return Err(timeout_error(ACQUIRE_TIMEOUT)),
        };
        match tokio::time::timeout(ACQUIRE_TIMEOUT, pooler::is_shared(&mut first, &options)).await {
            Ok(Ok(true)) => return Err(StoreError::Refused(pooler::SHARED.to_owned())),
            Ok(Ok(false)) => {}
            // The error of a second connection is reported when one is needed.
            unknown => tracing::debug!(?unknown, "cannot check whether a pooler shares connections"),
        }
        let stores_all_text = tokio::time::timeout(ACQUIRE_TIMEOUT, check_encoding(&mut first)).await;
        stores_all_text.unwrap_or_else(|_| Err(timeout_error(ACQUIRE_TIMEOUT)))?;
        first.close().await?;
        let timeout_ms = statement_timeout.as_millis().to_string();
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .max_lifetime(MAX_LIFETIME)
            // Not a startup parameter: connection poolers reject unknown ones.
            .after_connect(move |connection, _| {
                let timeout_ms = timeout_ms.clone();
                let settings = statement!("database/settings.pg", timeout_ms);
                Box::pin(async move { settings.execute(connection).await.map(drop) })
            })
            .connect_lazy_with(options);
        // A server that vanished silently enforces no timeout, so the process has its own, later one.
        let call_timeout =
            if statement_timeout.is_zero() { Duration::MAX } else { statement_timeout + ACQUIRE_TIMEOUT };
        Ok(Self { pool, keys: KeyFile::new(DEFAULT_KEY_FILE.into()), call_timeout })
    }

    /// Stores the key of forgotten people in this file, instead of `twitter-updater.forget-key` in the working folder.
    #[must_use]
    pub fn with_key_file(self, path: &Path) -> Self {
        Self { keys: KeyFile::new(path.to_owned()), ..self }
    }

    /// Pseudonyms of the accounts of a statement, as JSON. `None`: no person was forgotten so far, so the key was not
    /// read. If one is forgotten by now, the statement fails and runs again with the key.
    fn pseudonyms<'a>(&self, network: Option<&str>, accounts: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let Some(network) = network else { return Some("{}".to_owned()) };
        let key = self.keys.loaded_key()?;
        let pseudonym = |account: &str| (clean(account).into_owned(), key.pseudonym(network, account).into());
        Some(Value::Object(accounts.into_iter().map(pseudonym).collect()).to_string())
    }

    fn account_pseudonyms<'a>(&self, namespace: &str, accounts: impl IntoIterator<Item = &'a str>) -> Option<String> {
        self.pseudonyms(PersonSource::for_namespace(namespace).map(|person| person.network).as_deref(), accounts)
    }

    fn row_pseudonyms(&self, namespace: &str, rows: &[Row<'_>], others: &[&str]) -> Option<String> {
        let Some(PersonSource { network, by_id }) = PersonSource::for_namespace(namespace) else {
            return self.pseudonyms(None, []);
        };
        let person = |row: &'_ Row<'_>| match by_id {
            true => Some(row.id.to_string()),
            false => row.author_id.as_deref().or_else(|| super::forget::author_from_id(&row.id)).map(str::to_owned),
        };
        let people: Vec<String> = rows.iter().filter_map(person).collect();
        self.pseudonyms(Some(&network), people.iter().map(String::as_str).chain(others.iter().copied()))
    }

    fn bind_rows(&self, sql: &'static str, namespace: &str, rows: &[Row<'_>]) -> Statement {
        bind_rows(sql, namespace, rows, self.row_pseudonyms(namespace, rows, &[]))
    }

    async fn load_key(&self) -> Result<()> {
        let wanted = sqlx::query_scalar(sql!("forget/wanted_fingerprint.pg")).fetch_optional(&self.pool);
        let wanted =
            tokio::time::timeout(self.call_timeout, wanted).await.map_err(|_| timeout_error(self.call_timeout))?;
        let fingerprint: Option<String> = wanted?;
        fingerprint.map_or(Ok(()), |fingerprint| self.keys.load(&fingerprint).map(drop))
    }

    async fn select_by_ids<T>(&self, select: &'static str, namespace: &str, ids: &[String]) -> Result<Vec<Option<T>>>
    where
        T: for<'r> FromRow<'r, PgRow> + Clone,
    {
        let asked: Vec<_> = ids.iter().map(|id| clean(id)).collect();
        Ok(rows::order_by_ids(
            ids,
            self.read(|| statement!(select, namespace, asked.iter().map(AsRef::as_ref).collect::<Vec<&str>>())).await?,
        ))
    }

    /// Runs one statement and reads its rows. Repeats it up to `CONFLICT_RETRIES` times after a conflict.
    async fn read<T>(&self, statement: impl Fn() -> Statement + Send + Sync) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let mut retries = CONFLICT_RETRIES;
        loop {
            let mut connection = self.pool.acquire().await?;
            let Ok(answer) = tokio::time::timeout(self.call_timeout, statement().fetch_all(&mut *connection)).await
            else {
                // In the pool, it would occupy its slot until the network reports the loss: a quarter of an hour with
                // TCP's usual settings.
                drop(connection.detach());
                return Err(timeout_error(self.call_timeout));
            };
            let error = match answer {
                Ok(rows) => return rows.iter().map(T::from_row).collect::<Result<_, _>>().map_err(StoreError::from),
                Err(error) => error,
            };
            if wants_key(&error) && self.keys.loaded_key().is_none() {
                drop(connection);
                self.load_key().await?;
                continue;
            }
            let is_read_only = is_read_only(&error);
            if is_read_only {
                // The primary became a standby, and the address may lead to another server by now.
                drop(connection.detach());
            }
            if retries == 0 || !(is_read_only || is_conflict(&error)) {
                return Err(error.into());
            }
            retries -= 1;
        }
    }

    /// Makes the server gather statistics of tables without any, as after a first crawl. Callers that read whole tables call
    /// this first. Otherwise the planner assumes that such tables are short, and reads one of them for each row of another.
    async fn gather_statistics(&self) {
        let gathered: Result<()> = async {
            let new: Option<String> = self.read_value(|| statement!("database/unanalyzed_tables.pg")).await?;
            let Some(new) = new else { return Ok(()) };
            self.write(|| statement!(AssertSqlSafe(format!("ANALYZE {new}")))).await
        }
        .await;
        if let Err(error) = gathered {
            // Reading works without statistics, only more slowly.
            tracing::warn!(%error, "PostgreSQL has no statistics of new tables: reading them may take long");
        }
    }

    async fn read_one<T>(&self, statement: impl Fn() -> Statement + Send + Sync) -> Result<T>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        let row = self.read_first(statement).await?;
        row.ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    async fn read_first<T>(&self, statement: impl Fn() -> Statement + Send + Sync) -> Result<Option<T>>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        Ok(self.read(statement).await?.into_iter().next())
    }

    async fn read_column<T>(&self, statement: impl Fn() -> Statement + Send + Sync) -> Result<Vec<T>>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        Ok(self.read(statement).await?.into_iter().map(|(value,)| value).collect())
    }

    async fn read_value<T>(&self, statement: impl Fn() -> Statement + Send + Sync) -> Result<T>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        self.read_one(statement).await.map(|(value,)| value)
    }

    async fn write(&self, statement: impl Fn() -> Statement + Send + Sync) -> Result<()> {
        self.read::<()>(statement).await.map(drop)
    }

    async fn applied_migrations(&self) -> Result<Vec<AppliedMigration>> {
        self.read(|| statement!("database/migrations")).await
    }

    async fn write_rows(&self, namespace: &str, rows: &[Row<'_>], sql: &'static str) -> Result<()> {
        if !rows.is_empty() {
            self.write(|| self.bind_rows(sql, namespace, rows)).await?;
        }
        Ok(())
    }
}

/// Checks that the database stores the characters of all languages. In another encoding, the first emoji of a batch
/// would stop all saves.
async fn check_encoding(connection: &mut PgConnection) -> Result<()> {
    let encoding = sqlx::query_as(sql!("database/encoding.pg")).fetch_one(connection);
    let (encoding, database): (String, String) = encoding.await?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "the database \"{database}\" has the encoding {encoding}, which cannot store the characters of all posts: create another with \
         CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0, and name it in store.postgres.url"
    )))
}

fn unverified_server(error: &sqlx::Error) -> StoreError {
    StoreError::Unavailable(format!(
        "the server gets no password, since it is not verified: {error}. Name its private authority with sslrootcert=FILE in \
         store.postgres.url, or write sslmode=disable to send the password in clear text"
    ))
}

fn timeout_error(waited: Duration) -> StoreError {
    StoreError::Unavailable(format!("no answer from the server within {} ms", waited.as_millis()))
}

fn bind_rows(sql: &'static str, namespace: &str, rows: &[Row<'_>], people: Option<String>) -> Statement {
    fn column<'r, T>(rows: &'r [Row<'r>], of: impl Fn(&'r Row<'r>) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    let by_id = PersonSource::for_namespace(namespace).is_some_and(|person| person.by_id);
    statement!(
        sql,
        namespace,
        column(rows, |row| row.id.as_ref()),
        column(rows, |row| row.state.as_str()),
        column(rows, |row| row.created_at),
        column(rows, |row| row.current_id.as_deref()),
        column(rows, |row| row.text.as_deref()),
        column(rows, |row| row.author_id.as_deref()),
        column(rows, |row| row.author_name.as_deref()),
        column(rows, |row| row.metrics.retweet_count),
        column(rows, |row| row.metrics.favorite_count),
        column(rows, |row| row.metrics.reply_count),
        column(rows, |row| row.metrics.quote_count),
        column(rows, |row| row.metrics.bookmark_count),
        column(rows, |row| row.metrics.impression_count),
        column(rows, |row| row.withheld_in.as_deref()),
        column(rows, |row| row.raw.as_deref()),
        column(rows, |row| row.first_seen),
        column(rows, |row| row.checked_at),
        column(rows, |row| row.changed_at),
        column(rows, |row| row.next_due),
        column(rows, |row| row.lookups),
        column(rows, |row| row.misses),
        column(rows, |row| row.missing_since),
        column(rows, |row| row.reason.as_deref()),
        column(rows, |row| row.details.lang.as_deref()),
        column(rows, |row| row.details.reply_to.as_deref()),
        column(rows, |row| row.details.retweet_of.as_deref()),
        column(rows, |row| row.details.quote_of.as_deref()),
        column(rows, |row| row.details.conversation_id.as_deref()),
        column(rows, |row| row.details.reply_settings.as_deref()),
        column(rows, |row| row.details.truncated),
        column(rows, |row| row.unreadable.as_deref()),
        column(rows, |row| row.recent),
        column(rows, |row| row.missing_reason),
        column(rows, |row| row.details.reply_to_author.as_deref()),
        column(rows, |row| row.details.labels.as_deref()),
        people,
        by_id
    )
}

#[async_trait]
impl Lifecycle for PostgresStore {
    async fn migrate(&self) -> Result<()> {
        if let Ok(applied) = self.applied_migrations().await {
            check_origin(&applied, &MIGRATIONS)?;
        }
        // A separate connection without a statement timeout, since an index over millions of rows takes long. The migrator's
        // advisory lock lets one process migrate while the others wait. The lock ends with the connection in any case.
        let mut connection = self.pool.connect_options().connect().await?;
        // Users do not need its notice that a table already exists.
        sqlx::query("SET client_min_messages = warning").execute(&mut connection).await?;
        let mut retries = CONFLICT_RETRIES;
        let migrated = loop {
            match MIGRATIONS.run_direct(None, &mut connection, false).await {
                // Processes of the previous version write meanwhile, and one of them may conflict with the migration.
                Err(MigrateError::ExecuteMigration(error, _)) if retries > 0 && is_conflict(&error) => retries -= 1,
                migrated => break migrated.map_err(StoreError::from),
            }
        };
        // The connection closes in any case.
        drop(connection.close().await);
        migrated
    }

    async fn check(&self) -> Result<()> {
        check_versions(&self.applied_migrations().await?, &MIGRATIONS)?;
        self.write(|| statement!("database/check.pg")).await
    }

    async fn old_reader(&self, older_than: Duration) -> Result<Option<OldReader>> {
        let given = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let old: Vec<(i64, String)> = self.read(|| statement!("database/old_reader.pg", given)).await?;
        Ok(old.into_iter().next().map(|(age_ms, what)| OldReader { age_ms, what }))
    }

    async fn record(&self, namespace: &str, at: Millis, way: &Way, tweets: &[NewItem]) -> Result<RecordCounts> {
        if tweets.is_empty() {
            return Ok(RecordCounts::default());
        }
        let rows = rows::rows_to_record(at, tweets);
        let visited = (way.pipeline == "visit").then_some(&*way.source);
        let written = self.read_one(|| {
            bind_rows(
                sql!("posts/record.pg"),
                namespace,
                &rows,
                self.row_pseudonyms(namespace, &rows, visited.as_slice()),
            )
            .bind(clean(&way.pipeline))
            .bind(clean(&way.source))
            .bind(way.query.as_deref().map(clean))
            .bind(at)
        });
        let (new, revived): (i64, i64) = written.await?;
        // Not one transaction: after a failure the caller repeats the same call.
        if let Some(counted) = rows::encode_counts(tweets) {
            self.write(|| statement!("posts/write_counts.pg", namespace, &counted)).await?;
        }
        let (new, revived) = (number(new), number(revived));
        Ok(RecordCounts { new, revived, known: tweets.len() as u64 - new - revived })
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>> {
        self.select_by_ids(sql!("posts/standing.pg"), namespace, ids).await
    }

    async fn last_answers(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<LastAnswer>>> {
        self.select_by_ids(sql!("posts/last_answers.pg"), namespace, ids).await
    }

    async fn mark_dead(&self, namespace: &str, at: Millis, ids_and_reasons: &[(String, String)]) -> Result<()> {
        self.write_rows(namespace, &rows::dead_rows(at, ids_and_reasons), sql!("posts/mark_dead.pg")).await
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<()> {
        self.write_rows(namespace, &rows::rows_to_resolve(at, tweets), sql!("posts/resolve_dead.pg")).await
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write(|| {
            statement!(
                "posts/promote.pg",
                namespace,
                ids.iter().map(|(id, _)| clean(id).into_owned()).collect::<Vec<String>>(),
                ids.iter().map(|(_, due)| *due).collect::<Vec<Millis>>()
            )
        })
        .await
    }

    async fn page(&self, namespace: &str, of: Listing, below: Option<&str>, limit: u32) -> Result<Vec<ListedItem>> {
        self.read(|| statement!(rows::page_statement(of), namespace, rows::upper_id(below), i64::from(limit))).await
    }

    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64> {
        let items =
            ItemSet { namespace: namespace.to_owned(), ids: ids.iter().map(|id| clean(id).into_owned()).collect() };
        Ok(self.remove_selected(&items, Some(which)).await?.items())
    }

    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>> {
        let rows: Vec<WayRow> = self.read(|| statement!("posts/ways", namespace, clean(id))).await?;
        Ok(rows.into_iter().map(|WayRow { first_at, way }| (first_at, way)).collect())
    }

    async fn counts(&self, namespace: &str) -> Result<StateCounts> {
        Ok(rows::state_counts(self.read(|| statement!("posts/count_by_state", namespace)).await?))
    }

    async fn dead(&self, namespace: &str) -> Result<u64> {
        let dead: i64 = self.read_value(|| statement!("posts/count_dead", namespace)).await?;
        Ok(number(dead))
    }
}

#[async_trait]
impl Posts for PostgresStore {
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts> {
        if observations.is_empty() {
            return Ok(SaveCounts::default());
        }
        let rows = rows::rows_to_save(observations);
        // Done first, since the rows are found by their authors. After an interruption the next answer completes it.
        self.remove_post_references(namespace, &rows).await?;
        failpoint::point("before_commit"); // the statement is its own transaction
        let (written, repeated, changed): (i64, i64, i64) =
            self.read_one(|| self.bind_rows(sql!("posts/save.pg"), namespace, &rows)).await?;
        let saved = number(written) + number(repeated);
        if saved < observations.len() as u64 {
            self.remove_blocked_posts(namespace, &rows).await?;
        }
        Ok(SaveCounts { saved, older: observations.len() as u64 - saved, changed: number(changed) })
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>> {
        self.read_first(|| statement!("posts/tweet", namespace, clean(id))).await
    }

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>> {
        self.read(|| statement!("posts/history", namespace, clean(id))).await
    }

    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        self.read(|| statement!("posts/changes", namespace, clean(id))).await
    }
}

#[async_trait]
impl ExportTables for PostgresStore {
    fn rows<'a>(&'a self, table: &'a Table, wanted: &ExportFilter) -> RowStream<'a> {
        let read = export::stream_rows(&self.pool, table, wanted);
        self.gather_statistics().map(move |()| read).flatten_stream().boxed()
    }

    async fn count(&self, table: &Table, wanted: &ExportFilter) -> Result<u64> {
        export::count(&self.pool, table, wanted).await
    }
}
