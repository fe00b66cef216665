//! One durable SQLite file, shared by the processes of a machine.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::BackendError;
use crate::clock::Stopwatch;

/// Between two tries of turning a fresh file to WAL.
const WAL_RETRY: Duration = Duration::from_millis(20);

/// Opens the file, making it where it is missing.
///
/// # Errors
/// [`BackendError::Unavailable`] when it cannot be opened, made, or stays locked.
pub async fn open(path: &Path, busy_timeout: Duration, connections: u32) -> Result<SqlitePool, BackendError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full) // what is committed stays so through a power cut
        .busy_timeout(busy_timeout);
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        // A transaction that a full disk ends is rolled back by SQLite itself. sqlx takes it for open, and the
        // connection would begin no other.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
    let since = Stopwatch::start();
    loop {
        let error = match pool.clone().connect_with(options.clone()).await {
            Ok(pool) => return Ok(pool),
            Err(error) => error,
        };
        // A fresh file is turned to WAL under a lock for which SQLite does not wait itself, so processes
        // started together refuse each other; a file lock has no event to wait for.
        let busy = error.as_database_error().is_some_and(|error| matches!(error.code().as_deref(), Some("5" | "261")));
        if !busy || since.elapsed() >= busy_timeout {
            return Err(BackendError::Unavailable(format!("the file {} cannot be opened: {error}", path.display())));
        }
        tokio::time::sleep(WAL_RETRY).await;
    }
}

/// What a SQLite error means for the caller.
#[must_use]
#[allow(clippy::needless_pass_by_value)] // stands in `map_err`
pub fn decide(error: sqlx::Error) -> BackendError {
    let text = format!("the queue's file: {error}");
    match &error {
        sqlx::Error::Database(database) => {
            // Primary result codes (the low byte): 5 busy, 6 locked, 10 input/output, 13 full, 14 cannot open.
            let code = database.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or(0) & 0xff;
            match code {
                13 => BackendError::Full(text),
                5 | 6 | 10 | 14 => BackendError::Unavailable(text),
                _ => BackendError::Refused(text),
            }
        }
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            BackendError::Unavailable(text)
        }
        _ => BackendError::Refused(text),
    }
}

/// Gives a table a column that files of older versions lack. The texts are the caller's own.
///
/// # Errors
/// The file is out.
pub async fn add_column(
    file: &mut SqliteConnection,
    table: &str,
    column: &str,
    declared: &str,
) -> Result<(), BackendError> {
    let known: i64 = sqlx::query_scalar("SELECT count(*) FROM pragma_table_info(?) WHERE name = ?")
        .bind(table)
        .bind(column)
        .fetch_one(&mut *file)
        .await
        .map_err(decide)?;
    if known == 0 {
        let add = AssertSqlSafe(format!("ALTER TABLE {table} ADD COLUMN {column} {declared}"));
        sqlx::query(add).execute(file).await.map_err(decide)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_that_sqlite_ended_itself_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let pool = open(&folder.path().join("jobs.db"), Duration::from_secs(5), 1).await.unwrap();
        let mut ended = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        // As SQLite does where a write finds no room, and tells nobody.
        sqlx::raw_sql("ROLLBACK").execute(&mut *ended).await.unwrap();
        drop(ended);
        pool.begin_with("BEGIN IMMEDIATE").await.unwrap().commit().await.unwrap();
    }
}
