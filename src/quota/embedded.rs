//! The quota ledger in the embedded queue's file: several processes of a machine may share it.

mod reads;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Row, SqliteConnection};

use super::budget::day;
use super::budget::{Budget, ChargedReads, Counted, Period};
use super::ledger::{Ask, CredentialStatus, Kept, Ledger, LedgerError, Used};
use super::rate_window::{Grant, LONGEST_WAIT_MS, RateWindow, wait};
use crate::base::backend::sqlite::{self, SharedFile, Tx};
use crate::base::clock::{self, Millis};

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

    async fn entry(
        &self,
        file: &mut SqliteConnection,
        name: &str,
        endpoint: &str,
        now: Millis,
    ) -> Result<Entry, LedgerError> {
        let row = sqlx::query(
            "SELECT w.quota, w.remaining, w.reset_at, w.reset, w.next_at, w.parked_until, w.parked_why,
                    c.parked_until, c.parked_why, c.day, c.calls_today,
                    (SELECT count(*) FROM quota_permit AS p
                     WHERE p.api = ?1 AND p.name = ?2 AND p.endpoint = ?3 AND p.expiry > ?4),
                    w.told, w.opening_until, w.length
             FROM (SELECT 1) LEFT JOIN quota_window AS w ON w.api = ?1 AND w.name = ?2 AND w.endpoint = ?3
             LEFT JOIN quota_credential AS c ON c.api = ?1 AND c.name = ?2",
        )
        .bind(&self.api)
        .bind(name)
        .bind(endpoint)
        .bind(now)
        .fetch_one(file)
        .await?;
        let number = |at: usize| row.get::<Option<i64>, _>(at).unwrap_or(0);
        let (here, everywhere) = (number(5), number(7));
        let why: Option<String> = row.get(if everywhere >= here { 8 } else { 6 });
        Ok(Entry {
            book: RateWindow {
                limit: number(0),
                remaining: number(1),
                reset_at: number(2),
                reset: number(3),
                next_at: number(4),
                told: number(12),
                opening_until: number(13),
                length: number(14),
            },
            outstanding: number(11),
            parked_until: here.max(everywhere),
            parked_why: why,
            parked_everywhere: everywhere > now,
            calls_today: if number(9) == day(now) { number(10) } else { 0 },
        })
    }

    async fn write(&self, tx: &mut Tx, name: &str, endpoint: &str, book: &RateWindow) -> Result<(), LedgerError> {
        sqlx::query(
            "INSERT INTO quota_window (api, name, endpoint, quota, remaining, reset_at, reset, next_at, told, opening_until, length)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT DO UPDATE SET quota = ?4, remaining = ?5, reset_at = ?6, reset = ?7, next_at = ?8, told = ?9,
                                       opening_until = ?10, length = ?11",
        )
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
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    async fn count_call(&self, tx: &mut Tx, name: &str, by: i64, now: Millis) -> Result<(), LedgerError> {
        sqlx::query(
            "INSERT INTO quota_credential (api, name, day, calls_today) VALUES (?1, ?2, ?3, max(0, ?4))
             ON CONFLICT DO UPDATE SET calls_today = CASE WHEN day = ?3 THEN calls_today + ?4 ELSE max(0, ?4) END, day = ?3",
        )
        .bind(&self.api)
        .bind(name)
        .bind(day(now))
        .bind(by)
        .execute(&mut **tx)
        .await?;
        Ok(())
    }

    /// Takes the permit off; answers whether it was out.
    async fn remove(&self, tx: &mut Tx, name: &str, endpoint: &str, permit: &str) -> Result<bool, LedgerError> {
        let removed =
            sqlx::query("DELETE FROM quota_permit WHERE api = ? AND name = ? AND endpoint = ? AND permit = ?")
                .bind(&self.api)
                .bind(name)
                .bind(endpoint)
                .bind(permit)
                .execute(&mut **tx)
                .await?;
        Ok(removed.rows_affected() > 0)
    }
}

#[async_trait]
impl Ledger for EmbeddedLedger {
    async fn acquire(&self, ask: &Ask<'_>) -> Result<Grant, LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        // The same permit again: the first reply was lost.
        let repeated: Option<String> =
            sqlx::query_scalar("SELECT name FROM quota_permit WHERE api = ? AND endpoint = ? AND permit = ?")
                .bind(&self.api)
                .bind(ask.endpoint)
                .bind(ask.permit)
                .fetch_optional(&mut *tx)
                .await?;
        if let Some(name) = repeated {
            return Ok(Grant::Granted(name));
        }
        // Permits that ran out are spent: the call may have gone out.
        sqlx::query("DELETE FROM quota_permit WHERE api = ? AND expiry <= ?")
            .bind(&self.api)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        let mut entries = Vec::with_capacity(ask.names.len());
        for name in ask.names {
            entries.push((name, self.entry(&mut tx, name, ask.endpoint, now).await?));
        }
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
        self.write(&mut tx, name, ask.endpoint, &book).await?;
        sqlx::query("INSERT INTO quota_permit (api, name, endpoint, permit, expiry) VALUES (?, ?, ?, ?, ?)")
            .bind(&self.api)
            .bind(name)
            .bind(ask.endpoint)
            .bind(ask.permit)
            .bind(now + clock::millis(ask.expiry))
            .execute(&mut *tx)
            .await?;
        self.count_call(&mut tx, name, 1, now).await?;
        // Who starts a machine again asks the API what is left of the windows that were open.
        tx.commit_unflushed().await?;
        Ok(Grant::Granted(name.clone()))
    }

    async fn used(&self, name: &str, endpoint: &str, permit: &str, used: &Used) -> Result<(), LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let was_out = self.remove(&mut tx, name, endpoint, permit).await?;
        let mut entry = self.entry(&mut tx, name, endpoint, now).await?;
        // What was told without a permit opens a window, but says nothing of the call that is about to.
        if was_out || used.window.is_some() {
            entry.book.opening_until = 0;
        }
        if let Some(window) = &used.window {
            entry.book.told(window, entry.outstanding, now);
        }
        self.write(&mut tx, name, endpoint, &entry.book).await?;
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
        if self.remove(&mut tx, name, endpoint, permit).await? {
            let mut entry = self.entry(&mut tx, name, endpoint, now).await?;
            entry.book.returned(now);
            self.write(&mut tx, name, endpoint, &entry.book).await?;
            self.count_call(&mut tx, name, -1, now).await?;
        }
        Ok(tx.commit().await?)
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
        let mut tx = self.file.readers().begin().await?;
        let now = clock::wall_ms();
        let mut accounts = Vec::with_capacity(names.len());
        for name in names {
            let entry = self.entry(&mut tx, name, endpoint, now).await?;
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
}
