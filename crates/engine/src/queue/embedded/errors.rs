//! Errors that workers recorded.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use serde_json::json;

use super::super::errors::lowercase_names;
use super::super::{ERRORS_KEPT, ERRORS_KEPT_FOR, ErrorRecords, NO_EXAMPLES_FOR, RecordedError, Result};
use super::{EmbeddedQueue, Tx};
use crate::base::clock::{self, Millis};

#[async_trait]
impl ErrorRecords for EmbeddedQueue {
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<()> {
        if errors.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let no_examples_until: Millis =
            sqlx::query_scalar("SELECT errors_bare FROM queue_namespace WHERE namespace = ?")
                .bind(&self.namespace)
                .fetch_one(&mut *tx)
                .await?;
        let mut known = read_entries(self, &mut tx).await?;
        let mut changed = BTreeMap::new();
        for error in errors.iter().filter_map(|error| error.prepare_for_storage(now, no_examples_until)) {
            let key = error.key();
            match known.get_mut(&key) {
                Some(known) => known.merge(&error),
                None => drop(known.insert(key.clone(), error)),
            }
            changed.extend(known.get(&key).map(|error| (key, error.clone())));
        }
        write_entries(self, &mut tx, &changed).await?;
        delete_old(self, &mut tx, now).await?;
        Ok(tx.commit_unflushed().await?)
    }

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>> {
        let texts: Vec<String> = sqlx::query_scalar(
            "SELECT error FROM queue_error WHERE namespace = ? AND last > ? ORDER BY last DESC, place DESC LIMIT ?",
        )
        .bind(&self.namespace)
        .bind(clock::wall_ms() - clock::millis(ERRORS_KEPT_FOR))
        .bind(most as i64)
        .fetch_all(self.file.readers())
        .await?;
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    async fn forget_errors(&self, names: &[String]) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE queue_namespace SET errors_bare = ? WHERE namespace = ?")
            .bind(clock::wall_ms() + clock::millis(NO_EXAMPLES_FOR))
            .bind(&self.namespace)
            .execute(&mut *tx)
            .await?;
        remove_names(self, &mut tx, names).await?;
        Ok(tx.commit().await?)
    }
}

pub(super) async fn remove_names(queue: &EmbeddedQueue, tx: &mut Tx, names: &[String]) -> Result<()> {
    let mut known = read_entries(queue, tx).await?;
    if known.is_empty() {
        return Ok(());
    }
    let names: HashSet<String> = lowercase_names(names);
    known.retain(|_, error| error.forget(&names));
    write_entries(queue, tx, &known).await
}

/// Removes the oldest entries above the limit, and those that are too old at `now`, ms since the epoch.
pub(super) async fn delete_old(queue: &EmbeddedQueue, tx: &mut Tx, now: Millis) -> Result<()> {
    sqlx::query(
        "DELETE FROM queue_error WHERE namespace = ?1 AND (last <= ?2 OR place IN (
             SELECT place FROM queue_error WHERE namespace = ?1 ORDER BY last DESC, place DESC LIMIT -1 OFFSET ?3))",
    )
    .bind(&queue.namespace)
    .bind(now - clock::millis(ERRORS_KEPT_FOR))
    .bind(ERRORS_KEPT as i64)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Entries by key, without those that a newer version wrote in another form.
async fn read_entries(queue: &EmbeddedQueue, tx: &mut Tx) -> Result<BTreeMap<String, RecordedError>> {
    let rows: Vec<(String, String)> = sqlx::query_as("SELECT place, error FROM queue_error WHERE namespace = ?")
        .bind(&queue.namespace)
        .fetch_all(&mut **tx)
        .await?;
    Ok(rows.into_iter().filter_map(|(key, text)| Some((key, serde_json::from_str(&text).ok()?))).collect())
}

async fn write_entries(queue: &EmbeddedQueue, tx: &mut Tx, entries: &BTreeMap<String, RecordedError>) -> Result<()> {
    let row = |(key, error): (&String, &RecordedError)| json!([key, error.last_ms, json!(error).to_string()]);
    sqlx::query(
        "INSERT INTO queue_error (namespace, place, last, error)
         SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2) WHERE true
         ON CONFLICT DO UPDATE SET last = excluded.last, error = excluded.error",
    )
    .bind(&queue.namespace)
    .bind(serde_json::Value::from_iter(entries.iter().map(row)).to_string())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
