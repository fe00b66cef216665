//! The quota ledger in the embedded queue's file. Several processes of one machine may share it.

mod reads;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::budget::day;
use super::budget::{Budget, ChargedReads, CountedReads, Period};
use super::ledger::{CallRecord, CredentialStatus, Ledger, LedgerError, PermitRequest, StoredWindow};
use super::rate_window::{Grant, LONGEST_WAIT_MS, RateWindow, wait_until};
use super::refusals::{DELETED_AFTER_MS, Refusals};
use crate::base::backend::sqlite::{self, SharedFile, Statements, Tx};
use crate::base::clock::{self, Millis};

/// Selects a row per credential, in the order of ?4: its quota window, its open permits, and the refusals of its secret.
/// Parameters: ?1 API, ?2 endpoint, ?3 permit, ?4 credentials (JSON: name and fingerprint, or null for the last known secret), ?5 now.
/// Each row also has the owner of the permit ?3 and the number of rows that the previous statement removed.
macro_rules! entries {
    () => {
        "SELECT w.quota, w.remaining, w.reset_at, w.reset, w.next_at, w.lowest_remaining, w.opening_until, w.length,
                here.parked_until AS here_until, here.in_a_row AS here_in_a_row, here.last_at AS here_last_at,
                here.why AS here_why, everywhere.parked_until AS everywhere_until,
                everywhere.in_a_row AS everywhere_in_a_row, everywhere.last_at AS everywhere_last_at,
                everywhere.why AS everywhere_why, c.day, c.calls_today,
                (SELECT count(*) FROM quota_permit AS p
                 WHERE p.api = ?1 AND p.name = given.name AND p.endpoint = ?2 AND p.expiry > ?5) AS outstanding,
                (SELECT name FROM quota_permit WHERE api = ?1 AND endpoint = ?2 AND permit = ?3) AS whose,
                changes() AS removed
         FROM (SELECT key, value ->> 0 AS name, value ->> 1 AS fingerprint FROM json_each(?4)) AS given
         LEFT JOIN quota_window AS w ON w.api = ?1 AND w.name = given.name AND w.endpoint = ?2
         LEFT JOIN quota_credential AS c ON c.api = ?1 AND c.name = given.name
         LEFT JOIN quota_refusals AS here ON here.api = ?1 AND here.name = given.name
             AND here.fingerprint = coalesce(given.fingerprint, c.fingerprint, '') AND here.endpoint = ?2
         LEFT JOIN quota_refusals AS everywhere ON everywhere.api = ?1 AND everywhere.name = given.name
             AND everywhere.fingerprint = coalesce(given.fingerprint, c.fingerprint, '') AND everywhere.endpoint = ''
         ORDER BY given.key"
    };
}

macro_rules! window {
    () => {
        "INSERT INTO quota_window
             (api, name, endpoint, quota, remaining, reset_at, reset, next_at, lowest_remaining, opening_until, length)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET quota = excluded.quota, remaining = excluded.remaining,
             reset_at = excluded.reset_at, reset = excluded.reset, next_at = excluded.next_at, lowest_remaining = excluded.lowest_remaining,
             opening_until = excluded.opening_until, length = excluded.length"
    };
}

#[derive(Debug, Clone)]
pub struct EmbeddedLedger {
    file: SharedFile,
    api: String,
}

#[derive(Debug, Default)]
struct Entry {
    rate_window: RateWindow,
    outstanding: i64,
    here: Refusals,
    everywhere: Refusals,
    calls_today: i64,
}

impl Entry {
    /// End of its pause, ms since the epoch; `now` if it is not parked.
    fn parked_until(&self, now: Millis) -> Millis {
        now + self.here.parked_for(now).max(self.everywhere.parked_for(now))
    }

    fn is_on_trial(&self) -> bool {
        self.here.is_on_trial() || self.everywhere.is_on_trial()
    }
}

impl EmbeddedLedger {
    pub async fn open(path: &Path, api: &str, busy_timeout: Duration) -> Result<Self, LedgerError> {
        let file = sqlite::open(path, busy_timeout).await?;
        let ledger = Self { file, api: api.to_owned() };
        let mut tx = ledger.begin().await?;
        sqlite::create_tables(&mut tx, include_str!("schema.sql")).await?;
        tx.commit().await?;
        Ok(ledger)
    }

    async fn begin(&self) -> Result<Tx, LedgerError> {
        self.file.begin().await
    }

    fn bind_entries<'q>(
        &'q self,
        text: &'static str,
        endpoint: &'q str,
        permit: &'q str,
        (names, fingerprints): (&[String], &[String]),
        now: Millis,
    ) -> Statements<'q> {
        let given = names.iter().enumerate().map(|(at, name)| (name, fingerprints.get(at))).collect::<Vec<_>>();
        sqlx::query(text).bind(&self.api).bind(endpoint).bind(permit).bind(json!(given).to_string()).bind(now)
    }

    fn bind_window<'q>(
        &'q self,
        text: &'static str,
        name: &'q str,
        endpoint: &'q str,
        rate_window: &RateWindow,
    ) -> Statements<'q> {
        sqlx::query(text)
            .bind(&self.api)
            .bind(name)
            .bind(endpoint)
            .bind(rate_window.limit)
            .bind(rate_window.remaining)
            .bind(rate_window.reset_at)
            .bind(rate_window.reset)
            .bind(rate_window.next_at)
            .bind(rate_window.lowest_remaining)
            .bind(rate_window.opening_until)
            .bind(rate_window.length)
    }

    /// Removes the permit. Returns true if it was there, and the window without it.
    async fn remove_permit(
        &self,
        tx: &mut Tx,
        (name, fingerprint): (&str, &str),
        endpoint: &str,
        permit: &str,
        now: Millis,
    ) -> Result<(bool, Entry), LedgerError> {
        const REMOVE: &str = concat!(
            "DELETE FROM quota_permit
             WHERE api = ?1 AND endpoint = ?2 AND permit = ?3 AND name IN (SELECT value ->> 0 FROM json_each(?4));",
            entries!()
        );
        let given = ([name.to_owned()], [fingerprint.to_owned()]);
        let row = self.bind_entries(REMOVE, endpoint, permit, (&given.0, &given.1), now).fetch_one(&mut **tx).await?;
        Ok((row.get::<i64, _>("removed") > 0, parse_entry(&row, now)))
    }

    /// Saves the refusals of a secret at `endpoint` (empty: at every endpoint).
    async fn save_refusals(
        &self,
        tx: &mut Tx,
        (name, fingerprint): (&str, &str),
        endpoint: &str,
        refusals: &Refusals,
        now: Millis,
    ) -> Result<(), LedgerError> {
        const FORGET: &str =
            "DELETE FROM quota_refusals WHERE api = ? AND name = ? AND (parked_until < ? OR last_at > ?)";
        const SAVE: &str =
            "INSERT INTO quota_refusals (api, name, fingerprint, endpoint, parked_until, in_a_row, last_at, why)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET parked_until = ?5, in_a_row = ?6, last_at = ?7, why = ?8;
             INSERT INTO quota_credential (api, name, fingerprint) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET fingerprint = ?3";
        let forget = sqlx::query(FORGET).bind(&self.api).bind(name).bind(now - DELETED_AFTER_MS).bind(now);
        forget.execute(&mut **tx).await?;
        let save = sqlx::query(SAVE)
            .bind(&self.api)
            .bind(name)
            .bind(fingerprint)
            .bind(endpoint)
            .bind(refusals.until)
            .bind(refusals.in_a_row)
            .bind(refusals.last_at)
            .bind(&refusals.why);
        sqlite::run(tx, save).await?;
        Ok(())
    }
}

fn parse_entry(row: &SqliteRow, now: Millis) -> Entry {
    let number = |column: &str| row.get::<Option<i64>, _>(column).unwrap_or(0);
    let refusals = |whose: &str| Refusals {
        until: number(&format!("{whose}_until")),
        in_a_row: u32::try_from(number(&format!("{whose}_in_a_row"))).unwrap_or(0),
        last_at: number(&format!("{whose}_last_at")),
        why: row.get::<Option<String>, _>(&*format!("{whose}_why")).unwrap_or_default(),
    };
    Entry {
        rate_window: RateWindow {
            limit: number("quota"),
            remaining: number("remaining"),
            reset_at: number("reset_at"),
            reset: number("reset"),
            next_at: number("next_at"),
            lowest_remaining: number("lowest_remaining"),
            opening_until: number("opening_until"),
            length: number("length"),
        },
        outstanding: number("outstanding"),
        here: refusals("here"),
        everywhere: refusals("everywhere"),
        calls_today: if number("day") == day(now) { number("calls_today") } else { 0 },
    }
}

#[async_trait]
impl Ledger for EmbeddedLedger {
    async fn acquire(&self, request: &PermitRequest<'_>) -> Result<Grant, LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        // Expired permits are spent: the call may have gone out. An exception is this permit: if it is there, it was granted and
        // the first reply was lost.
        const ASK: &str = concat!(
            "DELETE FROM quota_permit WHERE api = ?1 AND expiry <= ?5
             AND NOT (endpoint = ?2 AND permit = ?3 AND name IN (SELECT value ->> 0 FROM json_each(?4)));",
            entries!()
        );
        let given = (request.names, request.fingerprints);
        let rows = self.bind_entries(ASK, request.endpoint, request.permit, given, now).fetch_all(&mut *tx).await?;
        let entries: Vec<_> = request.names.iter().zip(rows.iter().map(|row| parse_entry(row, now))).collect();
        if let Some(name) = rows.first().and_then(|row| row.get::<Option<String>, _>("whose")) {
            let is_trial = entries.iter().any(|(known, entry)| **known == name && entry.is_on_trial());
            return Ok(if is_trial { Grant::Trial(name) } else { Grant::Granted(name) });
        }
        let usable = |entry: &Entry| entry.rate_window.is_open(now) && entry.parked_until(now) <= now;
        let left: i64 = entries
            .iter()
            .filter(|(_, entry)| usable(entry))
            .map(|(_, entry)| entry.rate_window.remaining.max(0))
            .sum();
        let paced = i64::try_from(request.backlog).unwrap_or(i64::MAX) > left;
        let mut wake = now + LONGEST_WAIT_MS;
        let mut best: Option<(Millis, usize)> = None;
        for (at, (_, entry)) in entries.iter().enumerate() {
            let free_at = entry.parked_until(now).max(entry.rate_window.next_grant_at(now, paced, entry.is_on_trial()));
            if free_at > now {
                wake = wake.min(free_at);
                continue;
            }
            // The credential whose calls expire soonest; a window that is not open yet is opened first.
            let expires = if entry.rate_window.is_open(now) { entry.rate_window.reset_at } else { 0 };
            if best.is_none_or(|(soonest, _)| expires < soonest) {
                best = Some((expires, at));
            }
        }
        let Some((_, at)) = best else {
            tx.commit_unflushed().await?;
            return Ok(wait_until(wake, now));
        };
        let (name, entry) = &entries[at];
        let mut rate_window = entry.rate_window;
        rate_window.grant(now, entry.is_on_trial());
        const GRANT: &str = concat!(
            window!(),
            "; INSERT INTO quota_permit (api, name, endpoint, permit, expiry) VALUES (?, ?, ?, ?, ?);
             INSERT INTO quota_credential (api, name, fingerprint, day, calls_today) VALUES (?, ?, ?, ?, 1)
             ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, day = excluded.day, calls_today = excluded.calls_today
                 + CASE WHEN day = excluded.day THEN calls_today ELSE 0 END"
        );
        let grant = self
            .bind_window(GRANT, name, request.endpoint, &rate_window)
            .bind(&self.api)
            .bind(name)
            .bind(request.endpoint)
            .bind(request.permit)
            .bind(now + clock::millis(request.expiry))
            .bind(&self.api)
            .bind(name)
            .bind(request.fingerprints.get(at).map_or("", String::as_str))
            .bind(day(now));
        sqlite::run(&mut tx, grant).await?;
        // Unflushed: after a crash of the machine, the API states the rest of the open windows again.
        tx.commit_unflushed().await?;
        let grant = if entry.is_on_trial() { Grant::Trial } else { Grant::Granted };
        Ok(grant((*name).clone()))
    }

    async fn record_call(
        &self,
        name: &str,
        endpoint: &str,
        permit: &str,
        record: &CallRecord,
    ) -> Result<(), LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let whose = (name, &*record.fingerprint);
        let (was_out, mut entry) = self.remove_permit(&mut tx, whose, endpoint, permit, now).await?;
        // A window that was stated without a permit opens, but says nothing of the call that is about to open it.
        if was_out || record.window.is_some() {
            entry.rate_window.opening_until = 0;
        }
        if let Some(window) = &record.window {
            entry.rate_window.apply(window, entry.outstanding, now);
        }
        self.bind_window(window!(), name, endpoint, &entry.rate_window).execute(&mut *tx).await?;
        for (endpoint, refusals, everywhere) in [(endpoint, &mut entry.here, false), ("", &mut entry.everywhere, true)]
        {
            let is_changed = match &record.park {
                Some(park) if park.everywhere == everywhere => {
                    refusals.record_refusal(clock::millis(park.pause), &park.why, now);
                    true
                }
                None if record.window.is_some() => refusals.record_answer(now),
                _ => false,
            };
            if is_changed {
                self.save_refusals(&mut tx, whose, endpoint, refusals, now).await?;
            }
        }
        Ok(tx.commit_unflushed().await?)
    }

    async fn return_permit(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        if let (true, mut entry) = self.remove_permit(&mut tx, (name, ""), endpoint, permit, now).await? {
            const GIVE_BACK: &str = concat!(
                window!(),
                "; UPDATE quota_credential SET calls_today = calls_today - 1 WHERE api = ? AND name = ? AND day = ? AND calls_today > 0"
            );
            entry.rate_window.return_call(now);
            let write = self
                .bind_window(GIVE_BACK, name, endpoint, &entry.rate_window)
                .bind(&self.api)
                .bind(name)
                .bind(day(now));
            sqlite::run(&mut tx, write).await?;
        }
        // Unflushed: losing this leaves a permit that expires.
        Ok(tx.commit_unflushed().await?)
    }

    async fn unpark(&self, name: &str, fingerprint: &str) -> Result<bool, LedgerError> {
        let mut tx = self.begin().await?;
        let now = clock::wall_ms();
        let freed: Option<(Millis, Millis)> = sqlx::query_as(
            "DELETE FROM quota_refusals WHERE api = ? AND name = ? AND fingerprint = ? AND endpoint = ''
             RETURNING parked_until, last_at",
        )
        .bind(&self.api)
        .bind(name)
        .bind(fingerprint)
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(freed.is_some_and(|(until, last_at)| Refusals { until, last_at, ..Refusals::default() }.is_parked(now)))
    }

    async fn statuses(
        &self,
        endpoint: &str,
        names: &[String],
        fingerprints: &[String],
    ) -> Result<Vec<CredentialStatus>, LedgerError> {
        let now = clock::wall_ms();
        let mut accounts = Vec::with_capacity(names.len());
        let given = (names, fingerprints);
        let rows = self.bind_entries(entries!(), endpoint, "", given, now).fetch_all(self.file.readers()).await?;
        for (name, row) in names.iter().zip(&rows) {
            let entry = parse_entry(row, now);
            let rate_window = entry.rate_window;
            let (here, everywhere) = (entry.here.parked_for(now), entry.everywhere.parked_for(now));
            let last = if everywhere >= here { entry.everywhere } else { entry.here };
            let account = CredentialStatus {
                name: name.clone(),
                outstanding: u32::try_from(entry.outstanding).unwrap_or(0),
                parked_for_ms: here.max(everywhere),
                parked_why: last.is_parked(now).then_some(last.why),
                parked_everywhere: everywhere > 0,
                calls_today: u64::try_from(entry.calls_today).unwrap_or(0),
                ..CredentialStatus::default()
            };
            let reset_in = (rate_window.reset_at - now).max(0);
            let kept = StoredWindow {
                limit: rate_window.limit,
                remaining: rate_window.remaining,
                reset_in,
                length: rate_window.length,
            };
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

    async fn counted_reads(&self, per: Period) -> Result<CountedReads, LedgerError> {
        self.counted_at(clock::wall_ms(), per).await
    }

    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError> {
        self.forget_reads(ids).await
    }
}
