use std::fmt::Display;

use sqlx::error::DatabaseError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgDatabaseError;

use super::StoreError;
use crate::postgres_address::BadAddress;
use engine::base::backend::sqlite::FileFault;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let text = error.to_string();
        match error {
            sqlx::Error::Database(error) => judge_database(error.as_ref()),
            sqlx::Error::Migrate(error) => Self::from(*error),
            // The connection broke or could not be made, or the reply to a commit was lost. The effect is unknown, so
            // the caller repeats the call.
            sqlx::Error::Io(error) => Self::Unavailable(format!("the database cannot be reached: {error}")),
            sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Self::Unavailable(text),
            sqlx::Error::PoolTimedOut => Self::Unavailable(
                "no connection was free in time: the database cannot be reached, is locked, or all connections are in use"
                    .into(),
            ),
            sqlx::Error::ColumnNotFound(_) => schema_behind(text),
            // sqlx's own text for a bad URL repeats parts of it, and the password is one of them.
            sqlx::Error::Configuration(_) => Self::Refused("the database's address cannot be read".into()),
            _ => Self::Refused(text),
        }
    }
}

impl From<BadAddress> for StoreError {
    fn from(error: BadAddress) -> Self {
        match error {
            BadAddress::Unreadable(error) => Self::from(error),
            BadAddress::Unverified(_) => Self::Refused(error.to_string()),
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => Self::from(error),
            MigrateError::VersionMissing(version) => schema_ahead(&[version]),
            other => schema_behind(other),
        }
    }
}

fn judge_database(error: &dyn DatabaseError) -> StoreError {
    let (code, message) = (error.code().unwrap_or_default(), error.message());
    let (decision, words) = if error.as_error().is::<PgDatabaseError>() {
        (decide_postgres(&code), explain_postgres(&code))
    } else {
        let code = code.parse().unwrap_or(0);
        (decide_sqlite(code, message), explain_sqlite(code, message))
    };
    let message = if is_login(&code) { without_names(message) } else { message.to_owned() };
    let text = words.map_or_else(|| message.clone(), |words| format!("{words} ({message})"));
    match decision {
        Decision::Again => StoreError::Unavailable(text),
        Decision::Migrate => schema_behind(text),
        Decision::Never => StoreError::Refused(text),
    }
}

fn is_login(code: &str) -> bool {
    code.len() == 5 && (code.starts_with("28") || matches!(code, "08P01" | "3D000"))
}

/// Message of a rejected connection without the names of user and database and the client's address. Each name is
/// quoted, except PgBouncer's, which come last.
fn without_names(message: &str) -> String {
    let quotes = ['"', '\u{ab}', '\u{bb}', '\u{201c}', '\u{201d}', '\u{201e}'];
    let hidden = message.split(quotes).enumerate().map(|(at, part)| if at % 2 == 1 { "\"***\"" } else { part });
    let text: String = hidden.collect();
    match text.split_once(": ") {
        Some((words, _)) if words.starts_with("no such") => format!("{words}: ***"),
        _ => text,
    }
}

/// Cause and remedy for the operator, if there is one. Codes as in [`decide_postgres`].
fn explain_postgres(code: &str) -> Option<&'static str> {
    Some(match code {
        "28P01" | "28000" => "PostgreSQL rejects the user or the password: check store.postgres.url",
        "3D000" => "there is no such database: create it, or check store.postgres.url",
        "42501" => "the database user lacks a right: grant it",
        "25006" => "this PostgreSQL is read-only, perhaps a standby: use the primary",
        "53100" => "the disk of PostgreSQL is full: free some space",
        "53300" => "PostgreSQL has no connection left: raise its max_connections or lower store.postgres.connections",
        "55P03" => "another statement locks the table, perhaps a dump: try again when it has ended",
        "57014" => "a statement took longer than store.postgres.statement_timeout",
        "57P01" | "57P02" | "57P03" => "PostgreSQL is starting or stopping",
        _ => return None,
    })
}

/// Cause and remedy for the operator, if there is one. Codes as in [`decide_sqlite`].
fn explain_sqlite(code: i32, message: &str) -> Option<&'static str> {
    Some(match code & 0xff {
        // A failed group of writes has the same code and states so in its own message.
        5 if message == "database is locked" => "another process keeps the file locked for longer than busy_timeout",
        8 => "the file is read-only: check its rights and those of its folder",
        10 => "the disk reports an error",
        11 | 26 => "the file is damaged or no SQLite database: restore a backup",
        13 => "the disk is full: free some space",
        14 => "the file cannot be opened: check its folder and rights",
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Again,
    Migrate,
    Never,
}

/// SQLSTATEs: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn decide_postgres(code: &str) -> Decision {
    match code {
        // undefined_table, undefined_column, invalid_schema_name, and no index for ON CONFLICT.
        "42P01" | "42703" | "3F000" | "42P10" => Decision::Migrate,
        // read_only_sql_transaction: a standby, until it is promoted. invalid_catalog_name, insufficient_privilege,
        // lock_not_available: an operator fixes them, and no post is the cause.
        "25006" | "3D000" | "42501" | "55P03" => Decision::Again,
        KEY_WANTED => Decision::Again,
        _ => match code.get(..2) {
            // Connection, authorization (a password being changed), rollback (serialization, deadlock), resources (disk full,
            // too many connections), operator (shutdown, statement timeout), system (I/O).
            Some("08" | "28" | "40" | "53" | "57" | "58") => Decision::Again,
            _ => Decision::Never,
        },
    }
}

/// Result codes: <https://www.sqlite.org/rescode.html>. The low byte is the primary code.
fn decide_sqlite(code: i32, message: &str) -> Decision {
    match code & 0xff {
        // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL (locking).
        5 | 6 | 7 | 8 | 9 | 10 | 13 | 14 | 15 => Decision::Again,
        // ERROR gives the cause only in its message; SCHEMA: changed while the statement ran.
        1 if ["no such table", "no such column", "has no column"].iter().any(|words| message.contains(words)) => {
            Decision::Migrate
        }
        17 => Decision::Migrate,
        _ => Decision::Never,
    }
}

pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::code).as_deref() == Some("25006") // read_only_sql_transaction
}

/// Returns true if two writers were in conflict, so that the caller may run the same statement again.
pub(super) fn is_conflict(error: &sqlx::Error) -> bool {
    // serialization_failure, deadlock_detected
    matches!(error.as_database_error().and_then(DatabaseError::code).as_deref(), Some("40001" | "40P01"))
}

/// Raised by `forgotten_among`.
const KEY_WANTED: &str = "TU001";

/// Returns true if a person is forgotten and the statement came without pseudonyms: it may run again with the key.
pub(super) fn wants_key(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::code).as_deref() == Some(KEY_WANTED)
}

impl From<FileFault> for StoreError {
    fn from(missing: FileFault) -> Self {
        missing.into_error(Self::Gone, Self::Unavailable)
    }
}

fn schema_behind(why: impl Display) -> StoreError {
    StoreError::Schema(format!("the store's tables do not match this version: {why}; run `twitter-updater migrate`"))
}

/// No migration of this version fixes these tables.
fn schema_ahead(migrations: &[i64]) -> StoreError {
    StoreError::Schema(format!(
        "the store was written by a newer version of twitter-updater (migrations {migrations:?}). Install that version, or \
         restore the backup from before the upgrade (docs/operations.md#upgrade-and-downgrade)"
    ))
}

/// Version of a migration that was applied, and checksum of its text.
pub(super) type AppliedMigration = (i64, Vec<u8>);

/// Checks that a release made the tables. Unreleased versions had another first migration.
pub(super) fn check_origin(applied: &[AppliedMigration], known: &Migrator) -> Result<(), StoreError> {
    let is_other = |(version, checksum): &AppliedMigration| {
        known.iter().any(|migration| migration.version == *version && *migration.checksum != **checksum)
    };
    match applied.iter().any(is_other) {
        true => Err(StoreError::Schema(
            "the store's tables are those of an unreleased version of twitter-updater: export its data with that version, and name an \
             empty database (store.postgres.url, store.sqlite.path)"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

pub(super) fn check_versions(applied: &[AppliedMigration], known: &Migrator) -> Result<(), StoreError> {
    check_origin(applied, known)?;
    let applied: Vec<i64> = applied.iter().map(|(version, _)| *version).collect();
    let behind: Vec<_> = known.iter().map(|migration| migration.version).filter(|v| !applied.contains(v)).collect();
    let ahead: Vec<_> = applied.iter().copied().filter(|version| !known.version_exists(*version)).collect();
    if !ahead.is_empty() {
        return Err(schema_ahead(&ahead));
    }
    if !behind.is_empty() {
        return Err(schema_behind(format_args!("migrations {behind:?} are not applied")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{Connection, SqliteConnection};

    use super::*;

    #[test]
    fn sqlite_codes_are_read_by_their_primary_part() {
        // SQLITE_BUSY, SQLITE_BUSY_SNAPSHOT, SQLITE_IOERR_FSYNC, SQLITE_FULL, SQLITE_READONLY_DIRECTORY
        for code in [5, 517, 1034, 13, 1544] {
            assert_eq!(decide_sqlite(code, ""), Decision::Again, "{code}");
        }
        assert_eq!(decide_sqlite(1, "no such table: tweet"), Decision::Migrate);
        assert_eq!(decide_sqlite(1, "table tweet has no column named raw"), Decision::Migrate);
        assert_eq!(decide_sqlite(1, "near \"SELEC\": syntax error"), Decision::Never);
        // SQLITE_CONSTRAINT_CHECK, SQLITE_CORRUPT, SQLITE_NOTADB
        for code in [275, 11, 26] {
            assert_eq!(decide_sqlite(code, ""), Decision::Never, "{code}");
        }
    }

    #[tokio::test]
    async fn an_operator_reads_the_cause_and_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "no database, though long enough for a header".repeat(9))
            .unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("notes.txt"));
        let read = async {
            let mut connection = SqliteConnection::connect_with(&options).await?;
            sqlx::query("SELECT * FROM tweet").execute(&mut connection).await
        };
        let refused = read.await.unwrap_err();
        let said = StoreError::from(refused).to_string();
        assert!(said.contains("no SQLite database: restore a backup (file is not a database)"), "{said}");
        assert_eq!(explain_sqlite(5, "a failure of another call ended the transaction of both"), None);
    }

    #[test]
    fn a_bad_address_is_not_repeated() {
        let error = StoreError::from(sqlx::Error::Configuration("postgres://me:hunter2@".into()));
        assert!(!error.to_string().contains("hunter2"));
    }
}
