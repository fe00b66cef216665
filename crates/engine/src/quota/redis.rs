//! The quota ledger in Redis, on the server's clock. Every key carries the API's hash tag.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `{api}:credential:<name>` | HASH | fingerprint (of the secret that was used last); day, calls_today |
//! | `{api}:refusals:<name>` | HASH | fingerprint and endpoint (none: everywhere) → end of the pause, refusals in a row, time of the last, why; expires |
//! | `{api}:window:<name>:<endpoint>` | HASH | limit, remaining (to be granted), reset_at, reset (the API's), next_at, lowest_remaining, opening_until, length |
//! | `{api}:credentials` | ZSET | name:endpoint → its last permit, ms since the epoch: for people |
//! | `{api}:permits:<name>:<endpoint>` | ZSET | permit → expiry, ms since the epoch |
//! | `{api}:reads` | HASH | UTC day (days since the epoch) → items read, or reserved: of the last 62 days |
//! | `{api}:charged:<day>` | HASH | id read on that day → the call that counted it and the part of the day; empty once a second call asked for it; expires |
//! | `{api}:period:<length>` | HASH | number, reads: of a period that is no whole number of days; expires |

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ::redis::Script;
use async_trait::async_trait;

use super::budget::{Budget, ChargedReads, CountedReads, Period};
use super::ledger::{CallRecord, CredentialStatus, Ledger, LedgerError, PermitRequest, StoredWindow};
use super::rate_window::Grant;
use crate::base::backend::redis::{ALLOW_OOM, Call, NO_WRITES, RedisPool, script};
use crate::base::clock::{self, Millis};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| refusals_script(ALLOW_OOM, include_str!("lua/acquire.lua")));
static RECORD_CALL: LazyLock<Script> = LazyLock::new(|| refusals_script(ALLOW_OOM, include_str!("lua/used.lua")));
static GIVE_BACK: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/give_back.lua")));
static FREE: LazyLock<Script> = LazyLock::new(|| refusals_script(ALLOW_OOM, include_str!("lua/free.lua")));
static STATUSES: LazyLock<Script> = LazyLock::new(|| refusals_script(NO_WRITES, include_str!("lua/statuses.lua")));
static RESERVE: LazyLock<Script> = LazyLock::new(|| reads_script(ALLOW_OOM, include_str!("lua/reserve.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| reads_script(ALLOW_OOM, include_str!("lua/charge_reads.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/forget_reads.lua")));
static COUNTED: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("lua/counted.lua")));

fn reads_script(flags: &str, own: &str) -> Script {
    script(flags, &format!("{}\n{own}", include_str!("lua/reads.lua")))
}

fn refusals_script(flags: &str, own: &str) -> Script {
    script(flags, &format!("{}\n{own}", include_str!("lua/refusals.lua")))
}

type CountedRow = (Millis, BTreeMap<i64, u64>, String, u64);

/// The return value of `statuses.lua` for each name.
type Row = (i64, i64, Millis, Millis, u32, Millis, String, bool, u64);

#[derive(Debug, Clone)]
pub struct RedisLedger {
    pool: RedisPool,
    prefix: String,
}

impl RedisLedger {
    #[must_use]
    pub fn new(pool: RedisPool, api: &str) -> Self {
        Self { pool, prefix: format!("{{{api}}}:") }
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn acquire(&self, request: &PermitRequest<'_>) -> Result<Grant, LedgerError> {
        let mut call = Call::new(&ACQUIRE, &self.prefix);
        call.arg(request.endpoint).arg(request.permit).arg(clock::millis(request.expiry)).arg(request.backlog);
        for (at, name) in request.names.iter().enumerate() {
            call.arg(name).arg(request.fingerprints.get(at).map_or("", String::as_str));
        }
        let (word, value): (String, String) = self.pool.invoke(&call).await?;
        match (&*word, value.parse()) {
            ("wait", Ok(wait)) => Ok(Grant::Wait(clock::span(wait))),
            ("granted", _) => Ok(Grant::Granted(value)),
            ("trial", _) => Ok(Grant::Trial(value)),
            _ => Err(LedgerError::Refused("Redis gave an answer of unknown format to an acquire".to_owned())),
        }
    }

    async fn record_call(
        &self,
        name: &str,
        endpoint: &str,
        permit: &str,
        record: &CallRecord,
    ) -> Result<(), LedgerError> {
        let mut call = Call::new(&RECORD_CALL, &self.prefix);
        call.arg(name).arg(endpoint).arg(permit);
        match &record.window {
            Some(window) => {
                call.arg(window.limit).arg(window.remaining).arg(window.reset_at).arg(window.reset_in);
            }
            None => {
                call.arg("").arg("").arg("").arg("");
            }
        }
        if let Some(park) = &record.park {
            call.arg(clock::millis(park.pause)).arg(&park.why).arg(if park.everywhere { "everywhere" } else { "" });
        } else {
            call.arg("").arg("").arg("");
        }
        call.arg(&record.fingerprint);
        match record.window.and_then(|window| window.length) {
            Some(length) => call.arg(length),
            None => call.arg(""),
        };
        self.pool.invoke(&call).await
    }

    async fn return_permit(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError> {
        let mut call = Call::new(&GIVE_BACK, &self.prefix);
        call.arg(name).arg(endpoint).arg(permit);
        self.pool.invoke(&call).await
    }

    async fn unpark(&self, name: &str, fingerprint: &str) -> Result<bool, LedgerError> {
        let mut call = Call::new(&FREE, &self.prefix);
        call.arg(name).arg(fingerprint);
        self.pool.invoke(&call).await
    }

    async fn statuses(
        &self,
        endpoint: &str,
        names: &[String],
        fingerprints: &[String],
    ) -> Result<Vec<CredentialStatus>, LedgerError> {
        let mut call = Call::new(&STATUSES, &self.prefix);
        call.arg(endpoint);
        for (at, name) in names.iter().enumerate() {
            match fingerprints.get(at) {
                Some(fingerprint) => call.arg(name).arg("fingerprint").arg(fingerprint),
                None => call.arg(name).arg("last").arg(""),
            };
        }
        let rows: Vec<Row> = self.pool.invoke(&call).await?;
        let account = |(name, row): (&String, Row)| {
            let (limit, remaining, reset_in, length, outstanding, parked_for_ms, why, everywhere, calls_today) = row;
            let parked_why = (!why.is_empty()).then_some(why);
            let parked_everywhere = everywhere;
            CredentialStatus {
                name: name.clone(),
                outstanding,
                parked_for_ms,
                parked_why,
                parked_everywhere,
                calls_today,
                ..CredentialStatus::default()
            }
            .with_window(StoredWindow { limit, remaining, reset_in, length })
        };
        Ok(names.iter().zip(rows).map(account).collect())
    }

    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError> {
        let mut reserve = Call::new(&RESERVE, &self.prefix);
        let (length, from_day) = budget.per.arguments();
        reserve.arg(call).arg(budget.reads).arg(length).arg(from_day).arg(budget.margin()).arg(ids);
        let granted: String = self.pool.invoke(&reserve).await?;
        Ok(granted.bytes().map(|granted| granted == b'1').collect())
    }

    async fn charge(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError> {
        let mut settle = Call::new(&SETTLE, &self.prefix);
        let (length, from_day) = budget.per.arguments();
        let ChargedReads { unread, edited } = charged;
        settle.arg(call).arg(length).arg(from_day).arg(budget.margin()).arg(unread.len()).arg(unread);
        for (asked, read) in edited {
            settle.arg(asked).arg(read);
        }
        self.pool.invoke(&settle).await
    }

    async fn counted_reads(&self, per: Period) -> Result<CountedReads, LedgerError> {
        let mut call = Call::new(&COUNTED, &self.prefix);
        call.arg(per.arguments().0);
        let (now, by_day, number, reads): CountedRow = self.pool.invoke(&call).await?;
        Ok(CountedReads { now, by_day, part: number.parse().ok().map(|number| (number, reads)) })
    }

    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError> {
        let mut call = Call::new(&FORGET, &self.prefix);
        call.arg(ids);
        self.pool.invoke(&call).await
    }
}
