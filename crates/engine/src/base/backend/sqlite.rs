//! One durable SQLite file, shared by the processes of a machine.

mod backlog;
mod rewrite;
mod shared;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::ready;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use rustix::fs::{Access, Mode, OFlags};
use serde::de::DeserializeOwned;
use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteQueryResult, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{Connection, Either, Executor, Sqlite, SqliteConnection};

pub use self::backlog::BlockedLog;
pub use self::shared::{SharedFile, Tx};
use super::{BackendError, RefusedWrites};
use crate::base::clock::Stopwatch;
use crate::base::private_file::{parent_folder, with_suffix};

const WAL_RETRY: Duration = Duration::from_millis(5);

// Primary result codes: <https://www.sqlite.org/rescode.html>.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const INPUT_OUTPUT: u32 = 10;
const FULL: u32 = 13;
const CANNOT_OPEN: u32 = 14;
const NO_DATABASE: u32 = 26;

/// Device and inode of an open file. SQLite does not notice that its file was deleted or replaced: later writes would be lost.
#[derive(Debug, Clone)]
pub struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Reason why a file is not written any more.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    #[error(
        "the SQLite file was deleted or replaced while it was open ({0} was {1}). New writes would be lost, so \
         the process stops: put the file back, or keep the new one, and start again. Back up with VACUUM INTO, not with \
         cp or mv"
    )]
    Gone(PathBuf, &'static str),
    /// A flush failed. Another process that reads the file again sees what is left of it.
    #[error(
        "the disk did not accept writes to the SQLite file {0} and may have lost some, so the process stops: \
         the log has the reason; fix it and start again"
    )]
    Lost(PathBuf),
    #[error("the process does not open the SQLite file {0}: {1}")]
    Planted(PathBuf, String),
    #[error(
        "the SQLite file {0} belongs to another program (it has the table {1:?}) and was not changed: name another file \
         (store.sqlite.path, queue.embedded.path)"
    )]
    Foreign(PathBuf, String),
    #[error("the SQLite file {0} cannot be checked: {1}")]
    Unknown(PathBuf, String),
}

impl FileFault {
    /// Converts it to `E`. An unknown state becomes `unavailable`, everything else `gone`.
    pub fn into_error<E>(self, gone: fn(String) -> E, unavailable: fn(String) -> E) -> E {
        match self {
            Self::Gone(..) | Self::Lost(_) | Self::Planted(..) | Self::Foreign(..) => gone(self.to_string()),
            Self::Unknown(..) => unavailable(self.to_string()),
        }
    }
}

impl From<FileFault> for BackendError {
    fn from(fault: FileFault) -> Self {
        fault.into_error(Self::Gone, Self::Unavailable)
    }
}

impl FileIdentity {
    pub fn current(path: &Path) -> Result<Self, FileFault> {
        match std::fs::metadata(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), device: file.dev(), inode: file.ino() }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(FileFault::Gone(path.to_owned(), "deleted")),
            Err(error) => Err(FileFault::Unknown(path.to_owned(), error.to_string())),
        }
    }

    /// Checks that the path still names the same file. Every write transaction calls it; it costs microseconds.
    pub fn check_unchanged(&self) -> Result<(), FileFault> {
        let now = Self::current(&self.path)?;
        if (now.device, now.inode) == (self.device, self.inode) {
            Ok(())
        } else {
            Err(FileFault::Gone(self.path.clone(), "replaced"))
        }
    }
}

/// Bytes per page, for new files. Rows have 5 KB, and on SQLite's default pages of 4 KB each would need a second page.
const PAGE_BYTES: u32 = 16 * 1024;

const PROBE_BYTES: usize = 4 * PAGE_BYTES as usize;

/// Checks that the disk has room for more of that file, with an unnamed file in its folder. SQLite would report it only at a commit.
///
/// # Errors
/// The disk is full, over its quota, read-only, or broken. Missing rights are no error: another user may have them.
pub async fn check_disk(path: &Path) -> Result<(), RefusedWrites> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let probe = move || {
        let unnamed =
            rustix::fs::open(&folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        File::from(unnamed).write_all(&[1; PROBE_BYTES])
    };
    let Ok(Err(error)) = tokio::task::spawn_blocking(probe).await else { return Ok(()) };
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space",
        ErrorKind::ReadOnlyFilesystem => "mount it to be written",
        _ if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => "replace the disk",
        _ => return Ok(()),
    };
    Err(RefusedWrites::Disk { path: path.to_owned(), error, remedy })
}

/// Creates a missing file with access for its owner only, since it holds personal data; SQLite gives its `-wal` and `-shm` the same
/// mode. If nothing can be created, SQLite reports the reason.
fn create_private(path: &Path) {
    /// Closing a file ends SQLite's locks on it in this process. So no connection may open it before that.
    static MAKING: Mutex<()> = Mutex::new(());
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = File::options().write(true).create_new(true).mode(0o600).open(path);
}

fn options(path: &Path, busy_timeout: Duration) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("secure_delete", "ON") // forgotten people leave no data on free pages
        .synchronous(SqliteSynchronous::Full) // in WAL mode NORMAL may lose the last commits in a power loss
        .busy_timeout(busy_timeout)
}

/// Options to read a file that this process may not write; `None` if it may. A file without a `-wal` is read as an unchanging
/// copy, because SQLite would have to create the `-wal`.
fn read_only_options(path: &Path, busy_timeout: Duration) -> Option<SqliteConnectOptions> {
    let path = std::fs::canonicalize(path).ok()?;
    let is_writable = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    if is_writable(&path) && is_writable(parent_folder(&path)) {
        return None;
    }
    let is_copy = !with_suffix(&path, "-wal").exists();
    if is_copy {
        tracing::debug!(path = %path.display(), "the SQLite file is read as a copy, without later writes");
    }
    Some(SqliteConnectOptions::new().filename(path).read_only(true).immutable(is_copy).busy_timeout(busy_timeout))
}

/// Checks that a file does not belong to another program: it is empty, or has a table of a store, a queue or a ledger.
async fn check_not_foreign(path: &Path) -> Result<(), FileFault> {
    const FOREIGN_TABLE: &str = "SELECT name FROM sqlite_master WHERE type = 'table' AND NOT EXISTS (SELECT 1 FROM sqlite_master \
         WHERE type = 'table' AND name IN ('store_migrations', 'queue_job', 'quota_credential')) LIMIT 1";
    let Ok(path) = std::fs::canonicalize(path) else { return Ok(()) };
    if !std::fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let is_at_rest = !with_suffix(&path, "-wal").exists();
    let options = SqliteConnectOptions::new().filename(&path).read_only(true).immutable(is_at_rest);
    // Opening the file reports any other problem.
    let Ok(mut file) = SqliteConnection::connect_with(&options).await else { return Ok(()) };
    let table: Result<Option<String>, _> = sqlx::query_scalar(FOREIGN_TABLE).fetch_optional(&mut file).await;
    let _ = file.close().await;
    match table {
        Ok(Some(table)) => Err(FileFault::Foreign(path, table)),
        _ => Ok(()),
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        // If a full disk ends a transaction, SQLite rolls it back. sqlx still counts it as open, and the connection could
        // start no other.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
}

/// Connects to a file. Waits up to `patience` for other processes that are creating it.
async fn connect(options: &SqliteConnectOptions, patience: Duration) -> Result<SqliteConnection, sqlx::Error> {
    let since = Stopwatch::start();
    loop {
        match SqliteConnection::connect_with(options).await {
            // Turning a new file to WAL needs a lock for which SQLite does not wait, so processes that start together fail each
            // other. Only once: the mode stays. A file lock has no event to wait for.
            Err(error) if code(&error) == BUSY && since.elapsed() < patience => tokio::time::sleep(WAL_RETRY).await,
            connected => return connected,
        }
    }
}

/// Opens the queue's file; creates it if it is missing.
///
/// # Errors
/// [`BackendError::Unavailable`] if it cannot be opened or created, or stays locked.
pub async fn open(path: &Path, patience: Duration) -> Result<SharedFile, BackendError> {
    SharedFile::open(path, patience).await.map_err(|error: OpenError| match error {
        OpenError::Open(error) => BackendError::Unavailable(open_error_text(path, &error)),
        OpenError::Find(fault) => fault.into(),
    })
}

fn open_error_text(path: &Path, error: &sqlx::Error) -> String {
    let shown = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match code(error) {
        CANNOT_OPEN if folder.is_dir() => {
            let what = if path.exists() { format!("{shown} or its folder") } else { format!("the folder of {shown}") };
            format!(
                "{what} cannot be written: change its rights, or set queue.embedded.path and store.sqlite.path ({error})"
            )
        }
        NO_DATABASE => format!(
            "{shown} is not a SQLite database: name another file (queue.embedded.path), or restore a backup ({error})"
        ),
        READ_ONLY => format!("{shown} is read-only: change its rights and those of its folder ({error})"),
        _ => format!("the file {shown} cannot be opened: {error}"),
    }
}

#[derive(Debug)]
enum OpenError {
    Open(sqlx::Error),
    Find(FileFault),
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        Self::Open(error)
    }
}

impl From<FileFault> for OpenError {
    fn from(fault: FileFault) -> Self {
        Self::Find(fault)
    }
}

/// The primary result code of a SQLite error, the low byte; 0 if it has none.
fn code(error: &sqlx::Error) -> u32 {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.and_then(|code| code.parse::<u32>().ok()).unwrap_or(0) & 0xff
}

impl From<sqlx::Error> for BackendError {
    fn from(error: sqlx::Error) -> Self {
        let text = match code(&error) {
            FULL => format!("the disk of the queue's file is full: free some space ({error})"),
            READ_ONLY => format!("the queue's file is read-only: change its rights and those of its folder ({error})"),
            _ => format!("the queue's file: {error}"),
        };
        match (&error, code(&error)) {
            (_, FULL) => Self::Full(text),
            (_, BUSY | LOCKED | INPUT_OUTPUT | CANNOT_OPEN)
            | (
                sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed,
                _,
            ) => Self::Unavailable(text),
            _ => Self::Refused(text),
        }
    }
}

/// Parses rows that a statement returns as one JSON text (`json_group_array`): separate rows would wake two threads each time.
pub fn parse_rows<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, sqlx::Error> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// A text of several statements, separated by `;`, with their values.
pub type Statements<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Runs the statements of one text. Returns the number of rows that each changed. One text costs one wake-up of SQLite's thread.
///
/// Values are bound in the order of their `?`. With numbered `?`, each statement must use all numbers up to its highest: sqlx takes
/// a number that is left out for a `?` without a number. Only sqlx's SQLite supports such texts. If it drops them, this function
/// must split them.
///
/// # Errors
/// The error of the first statement that fails; later statements did not run.
pub async fn run(file: &mut SqliteConnection, statements: Statements<'_>) -> Result<Vec<u64>, sqlx::Error> {
    let changed = |step: Either<SqliteQueryResult, SqliteRow>| ready(Ok(step.left().map(|ran| ran.rows_affected())));
    file.fetch_many(statements).try_filter_map(changed).try_collect().await
}

/// Creates the tables of `schema` that the file lacks. `schema` must be trusted: it becomes SQL.
///
/// # Errors
/// A table of the file has other columns than `schema`: another version made it.
pub async fn create_tables(file: &mut SqliteConnection, schema: &'static str) -> Result<(), BackendError> {
    let mut fresh = SqliteConnection::connect("sqlite::memory:").await?;
    sqlx::raw_sql(schema).execute(&mut fresh).await?;
    let found = columns_of_tables(&mut *file).await?;
    for (table, columns) in columns_of_tables(&mut fresh).await? {
        if found.get(&table).is_some_and(|found| *found != columns) {
            return Err(BackendError::Refused(format!(
                "the table {table} of the SQLite file is that of another version of twitter-updater: name a new file \
                 (queue.embedded.path) and run `twitter-updater rebuild`"
            )));
        }
    }
    sqlx::raw_sql(schema).execute(file).await?;
    Ok(())
}

/// Sorted names of the columns of each table.
async fn columns_of_tables(file: &mut SqliteConnection) -> Result<BTreeMap<String, Vec<String>>, sqlx::Error> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT known.name, of.name FROM sqlite_schema AS known JOIN pragma_table_info(known.name) AS of \
         WHERE known.type = 'table' ORDER BY 1, 2",
    )
    .fetch_all(file)
    .await?;
    let mut tables = BTreeMap::<String, Vec<String>>::new();
    for (table, column) in rows {
        tables.entry(table).or_default().push(column);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_file_that_lost_its_name_is_written_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let file = open(&path, Duration::from_secs(5)).await.unwrap();
        file.begin::<BackendError>().await.unwrap().commit().await.unwrap();
        let (aside, copy) = (folder.path().join("aside.db"), folder.path().join("copy.db"));
        std::fs::copy(&path, &copy).unwrap();
        std::fs::rename(&path, &aside).unwrap();
        let gone = async || match file.begin().await {
            Err(BackendError::Gone(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(gone().await.contains("jobs.db was deleted"));
        std::fs::rename(&copy, &path).unwrap();
        assert!(gone().await.contains("jobs.db was replaced"));
        std::fs::rename(&aside, &path).unwrap();
        file.begin::<BackendError>().await.unwrap().commit().await.unwrap();
    }

    #[tokio::test]
    async fn a_new_file_is_its_owners_alone_and_another_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().mode() & 0o777;
        std::fs::write(folder.path().join("old.db"), "").unwrap();
        std::fs::set_permissions(folder.path().join("old.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
        for (name, expected) in [("new.db", 0o600), ("old.db", 0o644)] {
            let file = open(&folder.path().join(name), Duration::from_secs(5)).await.unwrap();
            file.begin::<BackendError>().await.unwrap().commit().await.unwrap();
            for of in [name.to_owned(), format!("{name}-wal"), format!("{name}-shm")] {
                assert_eq!(mode(&of), expected, "{of}");
            }
        }
    }

    #[tokio::test]
    async fn the_error_of_an_unopened_file_states_the_remedy() {
        let error_of = async |path: &Path| open(path, Duration::from_secs(5)).await.unwrap_err().to_string();
        // No user may create a file there, not even root.
        let why = error_of(Path::new("/proc/jobs.db")).await;
        assert!(
            why.contains("the folder of /proc/jobs.db cannot be written: change its rights, or set queue."),
            "{why}"
        );
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes.txt");
        std::fs::write(&notes, "no database, though long enough for a header".repeat(9)).unwrap();
        assert!(error_of(&notes).await.contains("notes.txt is not a SQLite database: name another file"));
        let why = error_of(&folder.path().join("none").join("jobs.db")).await;
        assert!(why.contains("cannot be opened"), "{why}");
    }

    #[tokio::test]
    async fn a_file_of_another_program_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("history.db", "DELETE"), ("wal.db", "WAL")] {
            let path = folder.path().join(name);
            let options =
                SqliteConnectOptions::new().filename(&path).create_if_missing(true).pragma("journal_mode", mode);
            let mut other = SqliteConnection::connect_with(&options).await.unwrap();
            sqlx::raw_sql("CREATE TABLE visits (url TEXT); INSERT INTO visits VALUES ('a')")
                .execute(&mut other)
                .await
                .unwrap();
            if mode == "DELETE" {
                other.close().await.unwrap();
            }
            let before = std::fs::read(&path).unwrap();
            let why = open(&path, Duration::from_secs(5)).await.unwrap_err().to_string();
            assert!(why.contains(name) && why.contains("another program") && why.contains("visits"), "{why}");
            assert!(std::fs::read(&path).unwrap() == before, "{name}");
        }
        assert!(!folder.path().join("history.db-wal").exists() && !folder.path().join("history.db-shm").exists());
        let empty = folder.path().join("empty.db");
        std::fs::write(&empty, "").unwrap();
        assert!(open(&empty, Duration::from_secs(5)).await.is_ok());
    }

    #[tokio::test]
    async fn a_full_disk_and_a_read_only_file_come_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("jobs.db"), Duration::from_secs(5)).await.unwrap();
        for (as_if, remedy) in [
            ("PRAGMA max_page_count = 1", "the disk of the queue's file is full: free some space"),
            ("PRAGMA query_only = ON", "the queue's file is read-only: change its rights"),
        ] {
            let mut tx = file.begin::<BackendError>().await.unwrap();
            sqlx::raw_sql(as_if).execute(&mut *tx).await.unwrap();
            let failed = sqlx::raw_sql("CREATE TABLE more (key INTEGER)").execute(&mut *tx).await.unwrap_err();
            let why = BackendError::from(failed).to_string();
            assert!(why.contains(remedy), "{why}");
        }
    }

    #[tokio::test]
    async fn statements_of_one_text_have_their_own_values_and_answers() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("rows.db"), Duration::from_secs(5)).await.unwrap();
        let mut tx = file.begin::<BackendError>().await.unwrap();
        sqlx::raw_sql("CREATE TABLE pair (key INTEGER PRIMARY KEY, text TEXT)").execute(&mut *tx).await.unwrap();
        let text = "INSERT INTO pair VALUES (?, ?), (?, ?); UPDATE pair SET text = ? WHERE key >= ?; SELECT 1;
                    DELETE FROM pair WHERE key = ?";
        let statements = sqlx::query(text).bind(1).bind("a").bind(2).bind("b").bind("c").bind(2).bind(7);
        assert_eq!(run(&mut tx, statements).await.unwrap(), [2, 1, 1, 0], "a SELECT repeats the figure before it");
        let stops = sqlx::query("DELETE FROM pair WHERE key = ?; INSERT INTO pair VALUES (?, 'd'); DELETE FROM pair")
            .bind(1)
            .bind(2);
        assert!(run(&mut tx, stops).await.is_err());
        let left: Vec<(i64, String)> = sqlx::query_as("SELECT * FROM pair").fetch_all(&mut *tx).await.unwrap();
        assert_eq!(left, [(2, "c".to_owned())], "the first one ran, the last one did not");
    }
}
