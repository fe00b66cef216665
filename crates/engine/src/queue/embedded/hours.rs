//! Sums of the minutes, per hour.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::minutes::MINUTES;
use super::super::{HOUR_MS, HOURS_KEPT, Hour, Lateness, MINUTE_MS, MINUTES_KEPT, Result};
use super::{EmbeddedQueue, errors};
use crate::base::clock::{self, Millis};

const MINUTES_OF_AN_HOUR: Millis = HOUR_MS / MINUTE_MS;

pub(super) async fn sum_minutes(queue: &EmbeddedQueue) -> Result<()> {
    let mut tx = queue.begin().await?;
    let this = clock::wall_ms() / MINUTE_MS;
    let last: Millis = sqlx::query_scalar("SELECT hours_until FROM queue_namespace WHERE namespace = ?")
        .bind(&queue.namespace)
        .fetch_one(&mut *tx)
        .await?;
    let kept = Millis::from(MINUTES_KEPT);
    // All minutes are added, or the clock stepped back and these minutes repeat.
    if (this - 1..=this + kept).contains(&last) {
        return Ok(());
    }
    // `last` far ahead: the clock was wrong.
    let first = (last.min(this - 1) + 1).max(this - kept + 1);
    let mut minutes: BTreeMap<Millis, i64> = BTreeMap::new();
    (first..this).for_each(|minute| *minutes.entry(minute / MINUTES_OF_AN_HOUR).or_default() += 1);
    sqlx::query(
        "INSERT INTO queue_hour (namespace, hour, name, value)
         SELECT ?1, value ->> 0, ?2, value ->> 1 FROM json_each(?3) WHERE true
         ON CONFLICT DO UPDATE SET value = value + excluded.value",
    )
    .bind(&queue.namespace)
    .bind(MINUTES)
    .bind(json!(minutes.into_iter().collect::<Vec<_>>()).to_string())
    .execute(&mut *tx)
    .await?;
    for add in [
        "INSERT INTO queue_hour (namespace, hour, name, value)
         SELECT namespace, minute / ?4, name, sum(value) FROM queue_counter
         WHERE namespace = ?1 AND minute BETWEEN ?2 AND ?3 GROUP BY minute / ?4, name
         ON CONFLICT DO UPDATE SET value = value + excluded.value",
        "INSERT INTO queue_hour_lateness (namespace, hour, upper, ids)
         SELECT namespace, minute / ?4, upper, sum(ids) FROM queue_lateness
         WHERE namespace = ?1 AND minute BETWEEN ?2 AND ?3 GROUP BY minute / ?4, upper
         ON CONFLICT DO UPDATE SET ids = ids + excluded.ids",
    ] {
        let add = sqlx::query(add).bind(&queue.namespace).bind(first).bind(this - 1).bind(MINUTES_OF_AN_HOUR);
        add.execute(&mut *tx).await?;
    }
    for forget in [
        "DELETE FROM queue_hour WHERE namespace = ? AND hour <= ?",
        "DELETE FROM queue_hour_lateness WHERE namespace = ? AND hour <= ?",
    ] {
        let before = this / MINUTES_OF_AN_HOUR - Millis::from(HOURS_KEPT);
        sqlx::query(forget).bind(&queue.namespace).bind(before).execute(&mut *tx).await?;
    }
    errors::delete_old(queue, &mut tx, clock::wall_ms()).await?;
    sqlx::query("UPDATE queue_namespace SET hours_until = ? WHERE namespace = ?")
        .bind(this - 1)
        .bind(&queue.namespace)
        .execute(&mut *tx)
        .await?;
    Ok(tx.commit_unflushed().await?)
}

pub(super) async fn read_hours(queue: &EmbeddedQueue, count: u32) -> Result<Vec<Hour>> {
    let first = clock::wall_ms() / HOUR_MS - Millis::from(count.min(HOURS_KEPT)) + 1;
    // One transaction, so both are of one moment.
    let mut tx = queue.file.readers().begin().await?;
    let counters: Vec<(Millis, String, i64)> =
        sqlx::query_as("SELECT hour, name, value FROM queue_hour WHERE namespace = ? AND hour >= ?")
            .bind(&queue.namespace)
            .bind(first)
            .fetch_all(&mut *tx)
            .await?;
    let lateness: Vec<(Millis, Millis, u64)> =
        sqlx::query_as("SELECT hour, upper, ids FROM queue_hour_lateness WHERE namespace = ? AND hour >= ?")
            .bind(&queue.namespace)
            .bind(first)
            .fetch_all(&mut *tx)
            .await?;
    let mut hours: BTreeMap<Millis, (BTreeMap<String, i64>, Lateness)> = BTreeMap::new();
    for (hour, name, value) in counters {
        hours.entry(hour).or_default().0.insert(name, value);
    }
    for (hour, upper, ids) in lateness {
        hours.entry(hour).or_default().1.add(upper, ids);
    }
    let kept = |(hour, (counters, lateness))| Hour::from_counters(hour * HOUR_MS, counters, lateness);
    Ok(hours.into_iter().map(kept).collect())
}
