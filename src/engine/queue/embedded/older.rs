//! Files of older versions.

use sqlx::SqliteConnection;

use super::Result;
use crate::base::backend::sqlite::add_column;

const COLUMNS: &str = "namespace, id, state, lane, due, fence, token, deliveries, failures, trial, reason, promoted_due, \
     promoted_lane";

/// Columns that the first version lacked.
const OF_JOBS: [(&str, &str); 4] = [
    ("failures", "INTEGER NOT NULL DEFAULT 0"),
    ("trial", "INTEGER"),
    ("promoted_due", "INTEGER"),
    ("promoted_lane", "TEXT"),
];
const OF_OTHERS: [(&str, &str, &str); 6] = [
    ("queue_namespace", "turns", "INTEGER NOT NULL DEFAULT 3"),
    ("queue_lane", "tier", "INTEGER NOT NULL DEFAULT 0"),
    ("queue_lane", "ordering", "TEXT NOT NULL DEFAULT 'lateness'"),
    ("queue_namespace", "hours_until", "INTEGER NOT NULL DEFAULT 0"),
    ("queue_namespace", "errors_bare", "INTEGER NOT NULL DEFAULT 0"),
    ("queue_incoming_refused", "at", "INTEGER NOT NULL DEFAULT 0"),
];

/// Creates missing tables, and adds missing columns to those of older versions. `schema` is the whole schema.
pub(super) async fn bring_up_to_date(file: &mut SqliteConnection, schema: &'static str) -> Result<()> {
    let by_id: bool = sqlx::query_scalar(
        "SELECT count(*) > 0 AND coalesce(sum(name = 'key'), 0) = 0 FROM pragma_table_info('queue_job')",
    )
    .fetch_one(&mut *file)
    .await?;
    if by_id {
        for (column, declared) in OF_JOBS {
            add_column(file, "queue_job", column, declared).await?;
        }
        sqlx::raw_sql(
            "DROP INDEX IF EXISTS queue_job_delayed; DROP INDEX IF EXISTS queue_job_leased;
             DROP INDEX IF EXISTS queue_job_dead;
             ALTER TABLE queue_job RENAME TO queue_job_by_id",
        )
        .execute(&mut *file)
        .await?;
    }
    sqlx::raw_sql(schema).execute(&mut *file).await?;
    if by_id {
        let copy = format!("INSERT INTO queue_job ({COLUMNS}) SELECT {COLUMNS} FROM queue_job_by_id ORDER BY due, id");
        sqlx::query(sqlx::AssertSqlSafe(copy)).execute(&mut *file).await?;
        sqlx::raw_sql("DROP TABLE queue_job_by_id").execute(&mut *file).await?;
    }
    for (table, column, declared) in OF_OTHERS {
        add_column(file, table, column, declared).await?;
    }
    Ok(())
}
