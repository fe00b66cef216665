//! Counted reads in the embedded file: the tables `quota_reads`, `quota_charged` and `quota_period`.

use std::collections::{BTreeMap, HashMap};

use sqlx::SqliteConnection;

use super::{EmbeddedLedger, Tx};
use crate::base::clock::Millis;
use crate::quota::budget::day;
use crate::quota::budget::{Budget, ChargedReads, CountedReads, DAYS_KEPT, Period, Span};
use crate::quota::ledger::LedgerError;

/// Names each day; otherwise SQLite would scan all charges of these days for each id.
const DELETE_CHARGED: &str = "DELETE FROM quota_charged WHERE api = ? AND id = ? AND call = ? AND day IN (?, ?, ?)
     RETURNING day, length, number";

/// Names the existing days; otherwise SQLite would scan all charges.
const FORGET: &str = "DELETE FROM quota_charged WHERE api = ?1 AND day IN (SELECT day FROM quota_reads WHERE api = ?1)
     AND id IN (SELECT value FROM json_each(?2))";

impl EmbeddedLedger {
    /// [`Ledger::reserve`](crate::quota::Ledger::reserve) at `now` by the file's clock, ms since the epoch.
    pub async fn reserve_at(
        &self,
        now: Millis,
        call: &str,
        ids: &[String],
        budget: &Budget,
    ) -> Result<Vec<bool>, LedgerError> {
        let mut tx = self.begin().await?;
        let counted = self.counted_in(&mut tx, now, budget.per).await?;
        let days = budget.days(now);
        let mut charged: HashMap<(i64, String), String> = HashMap::new();
        for (day, _) in &days {
            charged.extend(self.read_charged(&mut tx, *day, ids).await?.into_iter().map(|(id, by)| ((*day, id), by)));
        }
        let mut reads: Vec<(Span, u64)> = Vec::new();
        for (_, span) in &days {
            if !reads.iter().any(|(of, _)| of == span) {
                reads.push((*span, counted.reads_in(*span)));
            }
        }
        let mut granted = Vec::with_capacity(ids.len());
        let (mut new, mut shared) = (vec![Vec::new(); days.len()], vec![Vec::new(); days.len()]);
        for id in ids {
            let by: Vec<Option<&String>> = days.iter().map(|(day, _)| charged.get(&(*day, id.clone()))).collect();
            let is_fresh = |at: &usize| by[*at].is_none();
            let is_of_another = |at: &usize| by[*at].is_some_and(|by| !by.is_empty() && by != call);
            let fresh: Vec<usize> = (0..days.len()).filter(is_fresh).collect();
            let of_another: Vec<usize> = (0..days.len()).filter(is_of_another).collect();
            let costs = |span: Span| fresh.iter().filter(|at| days[**at].1 == span).count() as u64;
            let has_room = |(span, of): &(Span, u64)| costs(*span) == 0 || of + costs(*span) <= budget.reads;
            let fits = budget.reads == 0 || reads.iter().all(has_room);
            granted.push(fits);
            if fits {
                for (span, of) in &mut reads {
                    *of += costs(*span);
                }
                for at in fresh {
                    new[at].push(id.clone());
                    charged.insert((days[at].0, id.clone()), call.to_owned());
                }
                for at in of_another {
                    shared[at].push(id.clone());
                }
            }
        }
        for (at, (day, span)) in days.iter().enumerate() {
            self.mark_shared(&mut tx, *day, &shared[at]).await?;
            self.charge(&mut tx, *day, *span, &new[at], call).await?;
        }
        self.delete_old_reads(&mut tx, now).await?;
        tx.commit().await?;
        Ok(granted)
    }

    /// [`Ledger::charge`](crate::quota::Ledger::charge) at `now` by the file's clock, ms since the epoch.
    pub async fn charge_at(
        &self,
        now: Millis,
        call: &str,
        charged: &ChargedReads,
        budget: &Budget,
    ) -> Result<(), LedgerError> {
        let mut tx = self.begin().await?;
        for id in &charged.unread {
            self.uncharge(&mut tx, now, call, id, None).await?;
        }
        for (asked, read) in &charged.edited {
            self.uncharge(&mut tx, now, call, asked, Some(read)).await?;
            // Also for a day on which another call had requested the id.
            for (day, span) in budget.days(now) {
                let read = std::slice::from_ref(read);
                if self.read_charged(&mut tx, day, read).await?.is_empty() {
                    self.charge(&mut tx, day, span, read, "").await?;
                }
            }
        }
        Ok(tx.commit().await?)
    }

    /// [`Ledger::counted_reads`](crate::quota::Ledger::counted_reads) at `now` by the file's clock, ms since the epoch.
    pub async fn counted_at(&self, now: Millis, per: Period) -> Result<CountedReads, LedgerError> {
        let mut tx = self.file.readers().begin().await?;
        self.counted_in(&mut tx, now, per).await
    }

    pub(super) async fn forget_reads(&self, ids: &[String]) -> Result<u64, LedgerError> {
        let mut tx = self.begin().await?;
        let gone = sqlx::query(FORGET).bind(&self.api).bind(serde_json::Value::from(ids).to_string());
        let gone = gone.execute(&mut *tx).await?.rows_affected();
        tx.commit().await?;
        Ok(gone)
    }

    async fn counted_in(
        &self,
        file: &mut SqliteConnection,
        now: Millis,
        per: Period,
    ) -> Result<CountedReads, LedgerError> {
        let days: Vec<(i64, i64)> = sqlx::query_as("SELECT day, reads FROM quota_reads WHERE api = ?")
            .bind(&self.api)
            .fetch_all(&mut *file)
            .await?;
        let part: Option<(i64, i64)> =
            sqlx::query_as("SELECT number, reads FROM quota_period WHERE api = ? AND length = ?")
                .bind(&self.api)
                .bind(per.arguments().0)
                .fetch_optional(&mut *file)
                .await?;
        let whole = |reads: i64| u64::try_from(reads).unwrap_or(0);
        let by_day: BTreeMap<i64, u64> = days.into_iter().map(|(day, reads)| (day, whole(reads))).collect();
        Ok(CountedReads { now, by_day, part: part.map(|(number, reads)| (number, whole(reads))) })
    }

    /// The ids that were counted for that day, with the calls that counted them.
    async fn read_charged(
        &self,
        tx: &mut Tx,
        day: i64,
        ids: &[String],
    ) -> Result<HashMap<String, String>, LedgerError> {
        let ids = serde_json::Value::from(ids).to_string();
        let rows: Vec<(String, String)> = sqlx::query_as(
            "WITH asked AS MATERIALIZED (SELECT DISTINCT value AS id FROM json_each(?3))
             SELECT c.id, c.call FROM asked CROSS JOIN quota_charged AS c
             ON c.api = ?1 AND c.day = ?2 AND c.id = asked.id",
        )
        .bind(&self.api)
        .bind(day)
        .bind(ids)
        .fetch_all(&mut **tx)
        .await?;
        Ok(rows.into_iter().collect())
    }

    /// Takes back the ids that only this call has counted, once. If the API returned another id, that id replaces the counted one.
    async fn uncharge(
        &self,
        tx: &mut Tx,
        now: Millis,
        call: &str,
        id: &str,
        read: Option<&String>,
    ) -> Result<(), LedgerError> {
        let ours: Vec<(i64, Millis, i64)> = sqlx::query_as(DELETE_CHARGED)
            .bind(&self.api)
            .bind(id)
            .bind(call)
            .bind(day(now) - 1)
            .bind(day(now))
            .bind(day(now) + 1)
            .fetch_all(&mut **tx)
            .await?;
        for (day, length, number) in &ours {
            let placed = sqlx::query(
                "INSERT INTO quota_charged (api, day, id, call, length, number) SELECT ?1, ?2, ?3, '', ?4, ?5
                 WHERE ?3 IS NOT NULL ON CONFLICT DO NOTHING",
            )
            .bind(&self.api)
            .bind(day)
            .bind(read)
            .bind(length)
            .bind(number)
            .execute(&mut **tx)
            .await?;
            if placed.rows_affected() == 0 {
                let part = Some((*length, *number)).filter(|(length, _)| *length > 0);
                self.add_reads(tx, *day, part, -1).await?;
            }
        }
        Ok(())
    }

    /// Clears the calls of ids that a second call requests. Neither call can take them back, since one may have been charged.
    async fn mark_shared(&self, tx: &mut Tx, day: i64, ids: &[String]) -> Result<(), LedgerError> {
        if ids.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "UPDATE quota_charged SET call = '' WHERE api = ? AND day = ? AND id IN (SELECT value FROM json_each(?))",
        )
        .bind(&self.api)
        .bind(day)
        .bind(serde_json::Value::from(ids).to_string())
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn charge(&self, tx: &mut Tx, day: i64, span: Span, ids: &[String], call: &str) -> Result<(), LedgerError> {
        if ids.is_empty() {
            return Ok(());
        }
        let part = match span {
            Span::Days(..) => None,
            Span::Part(length, number) => Some((length, number)),
        };
        let (length, number) = part.unwrap_or_default();
        sqlx::query(
            "INSERT INTO quota_charged (api, day, id, call, length, number)
             SELECT ?1, ?2, value, ?4, ?5, ?6 FROM json_each(?3)",
        )
        .bind(&self.api)
        .bind(day)
        .bind(serde_json::Value::from(ids).to_string())
        .bind(call)
        .bind(length)
        .bind(number)
        .execute(&mut **tx)
        .await?;
        self.add_reads(tx, day, part, i64::try_from(ids.len()).unwrap_or(i64::MAX)).await
    }

    /// Counts reads of a day and of a period within it. A negative count changes only the current period.
    async fn add_reads(&self, tx: &mut Tx, day: i64, part: Option<(Millis, i64)>, by: i64) -> Result<(), LedgerError> {
        sqlx::query(
            "INSERT INTO quota_reads (api, day, reads) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET reads = reads + ?3",
        )
        .bind(&self.api)
        .bind(day)
        .bind(by)
        .execute(&mut **tx)
        .await?;
        let Some((length, number)) = part else { return Ok(()) };
        let sql = if by > 0 {
            "INSERT INTO quota_period (api, length, number, reads) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET reads = CASE WHEN number = ?3 THEN reads + ?4 ELSE ?4 END, number = ?3"
        } else {
            "UPDATE quota_period SET reads = reads + ?4 WHERE api = ?1 AND length = ?2 AND number = ?3"
        };
        sqlx::query(sql).bind(&self.api).bind(length).bind(number).bind(by).execute(&mut **tx).await?;
        Ok(())
    }

    async fn delete_old_reads(&self, tx: &mut Tx, now: Millis) -> Result<(), LedgerError> {
        for (sql, kept) in [
            ("DELETE FROM quota_charged WHERE api = ? AND day < ?", 1),
            ("DELETE FROM quota_reads WHERE api = ? AND day < ?", DAYS_KEPT),
        ] {
            sqlx::query(sql).bind(&self.api).bind(day(now) - kept).execute(&mut **tx).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection};

    use super::*;

    #[tokio::test]
    async fn what_is_taken_back_is_found_by_its_id() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::raw_sql(include_str!("../schema.sql")).execute(&mut connection).await.unwrap();
        let plan = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {DELETE_CHARGED}"));
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(plan).fetch_all(&mut connection).await.unwrap();
        assert!(plan.iter().any(|(.., step)| step.contains("(api=? AND day=? AND id=?)")), "{plan:?}");
    }
}
