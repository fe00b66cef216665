//! The quota ledger in the embedded queue's file: several processes of a machine may share it.

mod reads;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::budget::day;
use super::budget::{Budget, ChargedReads, Counted, Period};
use super::ledger::{Ask, CredentialStatus, Kept, Ledger, LedgerError, Used};
use super::rate_window::{Grant, LONGEST_WAIT_MS, RateWindow, wait};
use crate::base::backend::sqlite::{self, SharedFile, Statements, Tx};
use crate::base::clock::{self, Millis};

/// The windows of some credentials, in the order asked, with the permits that are out: of an API ?1 and an endpoint ?2 the
/// credentials ?4 (JSON), at ?5. Each row also says whose the permit ?3 is, and how many rows the statement before removed.
macro_rules! entries {
    () => {
        "SELECT w.quota, w.remaining, w.reset_at, w.reset, w.next_at, w.told, w.opening_until, w.length,
                w.parked_until AS parked_here, w.parked_why AS why_here,
                c.parked_until AS parked_everywhere, c.parked_why AS why_everywhere, c.day, c.calls_today,
                (SELECT count(*) FROM quota_permit AS p
                 WHERE p.api = ?1 AND p.name = given.value AND p.endpoint = ?2 AND p.expiry > ?5) AS outstanding,
                (SELECT name FROM quota_permit WHERE api = ?1 AND endpoint = ?2 AND permit = ?3) AS whose,
                changes() AS removed
         FROM json_each(?4) AS given
         LEFT JOIN quota_window AS w ON w.api = ?1 AND w.name = given.value AND w.endpoint = ?2
         LEFT JOIN quota_credential AS c ON c.api = ?1 AND c.name = given.value
         ORDER BY given.key"
    };
}

/// Writes a window down.
macro_rules! window {
    () => {
        "INSERT INTO quota_window
             (api, name, endpoint, quota, remaining, reset_at, reset, next_at, told, opening_until, length)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET quota = excluded.quota, remaining = excluded.remaining,
             reset_at = excluded.reset_at, reset = excluded.reset, next_at = excluded.next_at, told = excluded.told,
             opening_until = excluded.opening_until, length = excluded.length"
    };
}

/// The ledger of one API in a SQLite file.
#[derive(Debug, Clone)]
pub struct EmbeddedLedger {
    file: SharedFile,
    api: String,
}

/// A credential's window with what surrounds it.
#[derive(Debug, Default)]
struct Entry {
    book: RateWindow,
    outstanding: i64,
    parked_until: Millis,
    parked_why: Option<String>,
    parked_everywhere: bool,
    calls_today: i64,
}

impl EmbeddedLedger {
    /// Opens the file, making it and its tables where they are missing.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when it cannot be opened or made.
    pub async fn open(path: &Path, api: &str, busy_timeout: Duration) -> Result<Self, LedgerError> {
        let file = sqlite::open(path, busy_timeout).await?;
        let ledger = Self { file, api: api.to_owned() };
        let mut tx = ledger.begin().await?;
        sqlx::raw_sql(include_str!("schema.sql")).execute(&mut *tx).await?;
        for table in ["credential", "window", "permit", "reads", "charged", "period"] {
            sqlite::name_first_column(&mut tx, &format!("quota_{table}"), "api").await?;
        }
        sqlite::add_column(&mut tx, "quota_window", "length", "INTEGER NOT NULL DEFAULT 0").await?;
        tx.commit().await?;
        Ok(ledger)
    }

    async fn begin(&self) -> Result<Tx, LedgerError> {
        self.file.begin().await
    }

    /// Binds what [`entries!`] asks for.
    fn about<'q>(
        &'q self,
        text: &'static str,
        endpoint: &'q str,
        permit: &'q str,
        names: &[String],
        now: Millis,
    ) -> Statements<'q> {
        sqlx::query(text).bind(&self.api).bind(endpoint).bind(permit).bind(json!(names).to_string()).bind(now)
    }

    /// Binds what [`window!`] asks for.
    fn write<'q>(&'q self, text: &'static str, name: &'q str, endpoint: &'q str, book: &RateWindow) -> Statements<'q> {
        sqlx::query(text)
            .bind(&self.api)
            .bind(name)
            .bind(endpoint)
            .bind(book.limit)
            .bind(book.remaining)
            .bind(book.reset_at)
            .bind(book.reset)
            .bind(book.next_at)
            .bind(book.told)
            .bind(book.opening_until)
            .bind(book.length)
    }

    /// Takes the permit off; answers whether it was out, and the window without it.
    async fn remove(
        &self,
        tx: &mut Tx,
        name: &str,
        endpoint: &str,
        permit: &str,
        now: Millis,
    ) -> Result<(bool, Entry), LedgerError> {
        const REMOVE: &str = concat!(
            "DELETE FROM quota_permit
             WHERE api = ?1 AND endpoint = ?2 AND permit = ?3 AND name IN (SELECT value FROM json_each(?4));",
            entries!()
        );
        let names = [name.to_owned()];
        let row = self.about(REMOVE, endpoint, permit, &names, now).fetch_one(&mut **tx).await?;
        Ok((row.get::<i64, _>("removed") > 0, entry(&row, now)))
    }
}

fn entry(row: &SqliteRow, now: Millis) -> Entry {
    let number = |column: &str| row.get::<Option<i64>, _>(column).unwrap_or(0);
    let (here, everywhere) = (number("parked_here"), number("parked_everywhere"));
    Entry {
        book: RateWindow {
            limit: number("quota"),
            remaining: number("remaining"),
            reset_at: number("reset_at"),
            reset: number("reset"),
            next_at: number("next_at"),
            told: number("told"),
            opening_until: number("opening_until"),
            length: number("length"),
        },
        outstanding: number("outstanding"),
        parked_until: here.max(everywhere),
        parked_why: row.get(if everywhere >= here { "why_everywhere" } else { "why_here" }),
        parked_everywhere: everywhere > now,
        calls_today: if number("day") == day(now) { number("calls_today") } else { 0 },
    }
}

#[async_trait]
impl Ledger for EmbeddedLedger {
    async fn acquire(&self, ask: &Ask<'_>) -> Result<Grant, LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        // Permits that ran out are spent: the call may have gone out. But for this one, which was granted if it is there: the
        // first reply was lost.
        const ASK: &str = concat!(
            "DELETE FROM quota_permit WHERE api = ?1 AND expiry <= ?5
             AND NOT (endpoint = ?2 AND permit = ?3 AND name IN (SELECT value FROM json_each(?4)));",
            entries!()
        );
        let rows = self.about(ASK, ask.endpoint, ask.permit, ask.names, now).fetch_all(&mut *tx).await?;
        if let Some(name) = rows.first().and_then(|row| row.get::<Option<String>, _>("whose")) {
            return Ok(Grant::Granted(name));
        }
        let entries: Vec<_> = ask.names.iter().zip(rows.iter().map(|row| entry(row, now))).collect();
        let usable = |entry: &Entry| entry.book.is_open(now) && entry.parked_until <= now;
        let left: i64 =
            entries.iter().filter(|(_, entry)| usable(entry)).map(|(_, entry)| entry.book.remaining.max(0)).sum();
        let paced = i64::try_from(ask.backlog).unwrap_or(i64::MAX) > left;
        let mut wake = now + LONGEST_WAIT_MS;
        let mut best: Option<(Millis, &String, RateWindow)> = None;
        for (name, entry) in &entries {
            let free_at = if entry.parked_until > now { entry.parked_until } else { entry.book.free_at(now, paced) };
            if free_at > now {
                wake = wake.min(free_at);
                continue;
            }
            // Whose calls expire soonest; one whose window is not open yet opens it first.
            let expires = if entry.book.is_open(now) { entry.book.reset_at } else { 0 };
            if best.as_ref().is_none_or(|(soonest, ..)| expires < *soonest) {
                best = Some((expires, name, entry.book));
            }
        }
        let Some((_, name, mut book)) = best else {
            tx.commit_unflushed().await?;
            return Ok(wait(wake, now));
        };
        book.grant(now);
        const GRANT: &str = concat!(
            window!(),
            "; INSERT INTO quota_permit (api, name, endpoint, permit, expiry) VALUES (?, ?, ?, ?, ?);
             INSERT INTO quota_credential (api, name, day, calls_today) VALUES (?, ?, ?, 1)
             ON CONFLICT DO UPDATE SET day = excluded.day, calls_today = excluded.calls_today
                 + CASE WHEN day = excluded.day THEN calls_today ELSE 0 END"
        );
        let grant = self
            .write(GRANT, name, ask.endpoint, &book)
            .bind(&self.api)
            .bind(name)
            .bind(ask.endpoint)
            .bind(ask.permit)
            .bind(now + clock::millis(ask.expiry))
            .bind(&self.api)
            .bind(name)
            .bind(day(now));
        sqlite::run(&mut tx, grant).await?;
        // Who starts a machine again asks the API what is left of the windows that were open.
        tx.commit_unflushed().await?;
        Ok(Grant::Granted(name.clone()))
    }

    async fn used(&self, name: &str, endpoint: &str, permit: &str, used: &Used) -> Result<(), LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let (was_out, mut entry) = self.remove(&mut tx, name, endpoint, permit, now).await?;
        // What was told without a permit opens a window, but says nothing of the call that is about to.
        if was_out || used.window.is_some() {
            entry.book.opening_until = 0;
        }
        if let Some(window) = &used.window {
            entry.book.told(window, entry.outstanding, now);
        }
        self.write(window!(), name, endpoint, &entry.book).execute(&mut *tx).await?;
        if let Some(park) = &used.park {
            let sql = if park.everywhere {
                "INSERT INTO quota_credential (api, name, parked_until, parked_why) VALUES (?1, ?2, ?4, ?5)
                 ON CONFLICT DO UPDATE SET parked_until = ?4, parked_why = ?5 WHERE parked_until < ?4"
            } else {
                "INSERT INTO quota_window (api, name, endpoint, parked_until, parked_why) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET parked_until = ?4, parked_why = ?5 WHERE parked_until < ?4"
            };
            sqlx::query(sql)
                .bind(&self.api)
                .bind(name)
                .bind(endpoint)
                .bind(now.saturating_add(clock::millis(park.pause)))
                .bind(&park.why)
                .execute(&mut *tx)
                .await?;
        }
        Ok(tx.commit_unflushed().await?)
    }

    async fn give_back(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        if let (true, mut entry) = self.remove(&mut tx, name, endpoint, permit, now).await? {
            const GIVE_BACK: &str = concat!(
                window!(),
                "; UPDATE quota_credential SET calls_today = calls_today - 1 WHERE api = ? AND name = ? AND day = ? AND calls_today > 0"
            );
            entry.book.returned(now);
            let write = self.write(GIVE_BACK, name, endpoint, &entry.book).bind(&self.api).bind(name).bind(day(now));
            sqlite::run(&mut tx, write).await?;
        }
        // Its permit is as good as one that expires.
        Ok(tx.commit_unflushed().await?)
    }

    async fn free(&self, name: &str) -> Result<bool, LedgerError> {
        let mut tx = self.begin().await?;
        let freed = sqlx::query(
            "UPDATE quota_credential SET parked_until = 0, parked_why = NULL
             WHERE api = ? AND name = ? AND parked_until > ?",
        )
        .bind(&self.api)
        .bind(name)
        .bind(clock::wall_ms())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(freed.rows_affected() > 0)
    }

    async fn statuses(&self, endpoint: &str, names: &[String]) -> Result<Vec<CredentialStatus>, LedgerError> {
        let now = clock::wall_ms();
        let mut accounts = Vec::with_capacity(names.len());
        let rows = self.about(entries!(), endpoint, "", names, now).fetch_all(self.file.readers()).await?;
        for (name, row) in names.iter().zip(&rows) {
            let entry = entry(row, now);
            let book = entry.book;
            let account = CredentialStatus {
                name: name.clone(),
                outstanding: u32::try_from(entry.outstanding).unwrap_or(0),
                parked_for_ms: (entry.parked_until - now).max(0),
                parked_why: entry.parked_why.filter(|_| entry.parked_until > now),
                parked_everywhere: entry.parked_everywhere,
                calls_today: u64::try_from(entry.calls_today).unwrap_or(0),
                ..CredentialStatus::default()
            };
            let reset_in = (book.reset_at - now).max(0);
            let kept = Kept { limit: book.limit, remaining: book.remaining, reset_in, length: book.length };
            accounts.push(account.with_window(kept));
        }
        Ok(accounts)
    }

    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError> {
        self.reserve_at(clock::wall_ms(), call, ids, budget).await
    }

    async fn charge(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError> {
        self.charge_at(clock::wall_ms(), call, charged, budget).await
    }

    async fn counted(&self, per: Period) -> Result<Counted, LedgerError> {
        self.counted_at(clock::wall_ms(), per).await
    }

    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError> {
        self.forget_reads(ids).await
    }
}
