//! The quota ledger: the rest of each credential's window, and the permits for calls.
//!
//! All workers share the quota. The ledger is stored beside the queue ([`RedisLedger`] or [`EmbeddedLedger`]); one contract suite
//! tests both (`tests/it/ledger.rs`).
//!
//! Only API responses state the API's count. `remaining` in the ledger counts calls that may still be *granted*. It falls
//! with each permit, not with each response, so two workers never spend the same call. A single call opens an unknown
//! window (new credential, ended window, wiped ledger); its response states the rest.
//!
//! [`RedisLedger`]: super::RedisLedger
//! [`EmbeddedLedger`]: super::EmbeddedLedger

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::budget::{Budget, ChargedReads, CountedReads, Period};
use super::rate_window::{Grant, UNMETERED, Window};
pub use crate::base::backend::BackendError as LedgerError;
use crate::base::clock::Millis;

#[derive(Debug, Clone, Copy)]
pub struct PermitRequest<'a> {
    pub names: &'a [String],
    /// Fingerprints of the credentials' secrets, in the same order; a credential without one is identified by its name.
    pub fingerprints: &'a [String],
    pub endpoint: &'a str,
    /// Id of the permit. A repeated request with the same id gets the same permit: the first reply may have been lost.
    pub permit: &'a str,
    /// The time after which a permit without an outcome counts as spent.
    pub expiry: Duration,
    /// Calls that are due. If more are due than the windows have left, calls are spread.
    pub backlog: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallRecord {
    pub window: Option<Window>,
    /// Pause of the credential after a refusal. `None` with a window means that the API answered the call.
    pub park: Option<Park>,
    pub fingerprint: String,
}

/// Pause of a credential's secret after a refusal; it grows with each refusal. Another secret of that name is not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Park {
    pub pause: Duration,
    pub why: String,
    /// True: for every endpoint (the API rejects the credential). False: for this endpoint (its quota is used up).
    pub everywhere: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CredentialStatus {
    pub name: String,
    /// Calls per window, from the last response that stated it; `None` before any, and if there is no limit.
    pub limit: Option<u32>,
    /// True if the API answers without stating a limit.
    pub unmetered: bool,
    /// Length of a window, ms: as the API states it, else the longest remaining time in any response. A window starts with its first
    /// call, so the response to that call has the full length.
    pub window_ms: Option<Millis>,
    /// Calls that may still be granted; `None` if no window is known to be open.
    pub remaining: Option<u32>,
    /// Time until the window ends, ms; `None` if no window is known to be open.
    pub reset_in_ms: Option<Millis>,
    pub outstanding: u32,
    /// Time left of the pause, ms; 0 if it is not parked.
    pub parked_for_ms: Millis,
    pub parked_why: Option<String>,
    /// True if it is parked for every endpoint; false if only its quota at this endpoint is used up.
    pub parked_everywhere: bool,
    /// Calls granted since midnight UTC, over all endpoints.
    pub calls_today: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StoredWindow {
    /// Calls per window; 0: unknown.
    pub limit: i64,
    pub remaining: i64,
    /// 0 if the window is over.
    pub reset_in: Millis,
    pub length: Millis,
}

impl CredentialStatus {
    /// Calls per second; `None` before the first response that states them, and if there is no limit.
    #[must_use]
    pub fn calls_per_s(&self) -> Option<f64> {
        Some(f64::from(self.limit?) * 1e3 / self.window_ms? as f64)
    }

    pub(super) fn with_window(self, kept: StoredWindow) -> Self {
        let stated_limit = u32::try_from(kept.limit).ok().filter(|limit| *limit > 0);
        let limit = stated_limit.filter(|limit| *limit < UNMETERED);
        let open = limit.filter(|_| kept.reset_in > 0);
        Self {
            limit,
            unmetered: stated_limit.is_some() && limit.is_none(),
            window_ms: limit.map(|_| kept.length).filter(|length| *length > 0),
            remaining: open.map(|_| u32::try_from(kept.remaining).unwrap_or(0)),
            reset_in_ms: open.map(|_| kept.reset_in),
            ..self
        }
    }
}

/// The contract of a ledger. Every call may be repeated if its reply was lost.
///
/// # Errors
/// [`LedgerError::Unavailable`] if the outcome is unknown, [`LedgerError::Refused`] if the call can never succeed.
#[async_trait]
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Grants one call to the credential whose calls expire soonest, among those with calls left.
    async fn acquire(&self, request: &PermitRequest<'_>) -> Result<Grant, LedgerError>;

    /// Records a call that was made, or may have been. `permit` is empty for a call elsewhere that took no permit.
    async fn record_call(
        &self,
        name: &str,
        endpoint: &str,
        permit: &str,
        record: &CallRecord,
    ) -> Result<(), LedgerError>;

    async fn return_permit(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError>;

    /// Ends the pause of a credential at every endpoint; pauses at single endpoints stay. `fingerprint`: that of its current secret.
    /// Returns true if it was parked.
    async fn unpark(&self, name: &str, fingerprint: &str) -> Result<bool, LedgerError>;

    /// State of each credential at that endpoint, in the order of `names`, for the secrets with these fingerprints, or for the last
    /// known secret.
    async fn statuses(
        &self,
        endpoint: &str,
        names: &[String],
        fingerprints: &[String],
    ) -> Result<Vec<CredentialStatus>, LedgerError>;

    /// Counts `ids` as read by that call, while the budget has room, in one step and by the ledger's clock. An id that was counted
    /// for the same UTC day is free. Returns true for each id that the call may request: the first ones that fit. A repeat by the
    /// same call counts nothing twice.
    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError>;

    /// Takes back the ids that only this call has counted and did not read, once. An item that came under another id counts
    /// under that id even without room: it has been charged.
    async fn charge(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError>;

    /// The reads of the kept days, and of the current period if it has this length.
    async fn counted_reads(&self, per: Period) -> Result<CountedReads, LedgerError>;

    /// Removes these ids from the counted ones; the counts stay. Returns the number of removed entries.
    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError>;
}
