//! Detects a connection that shares its server process. Behind a pooler it may.

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection, Row};

/// Why a shared one is refused, and what to do.
pub(super) const SHARED: &str = "a connection pooler gives each transaction another connection to the server \
     (pool_mode = transaction or statement of PgBouncer). Prepared statements and settings of a connection would meet those of \
     others: set pool_mode = session for this database or user, or name the server itself in store.postgres.url";

/// How PgBouncer, in statement mode, answers `BEGIN`: protocol_violation.
const NO_TRANSACTIONS: &str = "08P01";

/// Whether a pooler gives this connection's server process to others in between. Two connections that work at the same
/// time have a process each and keep it; shared ones get the same, or another one next time.
///
/// # Errors
/// Unknown: there is no second connection, or the server went away.
pub(super) async fn is_shared(first: &mut PgConnection, options: &PgConnectOptions) -> Result<bool, sqlx::Error> {
    let mut second = options.connect().await?;
    for _ in 0..2 {
        let before = process(first).await?;
        match sqlx::raw_sql("BEGIN").execute(&mut second).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NO_TRANSACTIONS) => return Ok(true),
            begun => begun?,
        };
        // The second holds its process now: the first gets another one, unless its own is its own.
        let others = process(&mut second).await?;
        if others == before || process(first).await? != before {
            return Ok(true);
        }
        sqlx::raw_sql("COMMIT").execute(&mut second).await?;
        // An odd number of questions, for poolers that hand out connections in turn.
        if process(&mut second).await? != others {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The process at the other end, by the simple protocol: nothing is prepared.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}
