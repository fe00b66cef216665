//! Detects a connection that shares its server process, as some poolers do.

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection, Row};

pub(super) const SHARED: &str = "a connection pooler gives each transaction another connection to the server \
     (pool_mode = transaction or statement of PgBouncer). Prepared statements and settings of a connection would meet those of \
     others: set pool_mode = session for this database or user, or name the server itself in store.postgres.url";

/// PgBouncer's error for `BEGIN` in statement mode: protocol_violation.
const NO_TRANSACTIONS: &str = "08P01";

/// Returns true if a pooler gives this connection's server process to others in between. Two connections that work at
/// the same time have and keep one process each. Shared ones get the same one, or another one next time. An error means
/// unknown: no second connection, or the server is gone.
pub(super) async fn is_shared(first: &mut PgConnection, options: &PgConnectOptions) -> Result<bool, sqlx::Error> {
    let mut second = options.connect().await?;
    for _ in 0..2 {
        let before = process(first).await?;
        match sqlx::raw_sql("BEGIN").execute(&mut second).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NO_TRANSACTIONS) => return Ok(true),
            result => result?,
        };
        // The second connection holds its process now. The first gets another one, unless it has its own.
        let others = process(&mut second).await?;
        if others == before || process(first).await? != before {
            return Ok(true);
        }
        sqlx::raw_sql("COMMIT").execute(&mut second).await?;
        // An odd number of queries, for poolers that hand out connections in turn.
        if process(&mut second).await? != others {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The server process of a connection, by the simple protocol, which prepares nothing.
async fn process(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql(sql!("database/process.pg")).fetch_one(connection).await?.try_get(0)
}
