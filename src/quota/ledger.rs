//! The quota ledger: what is left of each credential's window, and the leave to make one call.
//!
//! The quota is the scarcest thing in the system, so it is shared by all workers, beside the queue:
//! [`RedisLedger`] or [`EmbeddedLedger`], one contract suite (`tests/it/ledger.rs`).
//!
//! An API's count is known only from its answers. `remaining` in the ledger is what may still be *granted*: it falls
//! with each permit, not with each answer, so two workers never spend the same call. An unknown window — a new
//! credential, one that has ended, a wiped ledger — is opened by a single call, whose answer states the rest.
//!
//! [`RedisLedger`]: super::RedisLedger
//! [`EmbeddedLedger`]: super::EmbeddedLedger

use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::budget::{Budget, ChargedReads, Counted, Period};
use super::rate_window::{Grant, UNMETERED, Window};
pub use crate::base::backend::BackendError as LedgerError;
use crate::base::clock::Millis;

/// The operations of a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The credentials that may make the call.
    pub names: &'a [String],
    /// Fingerprints of the credentials' secrets, in the same order; a credential without one is identified by its name.
    pub fingerprints: &'a [String],
    /// The endpoint it goes to.
    pub endpoint: &'a str,
    /// Names the permit. The same again answers the same permit: the first reply may have been lost.
    pub permit: &'a str,
    /// The time after which a permit without an answer counts as spent.
    pub expiry: Duration,
    /// Calls that are due: when they are more than what is left, calls are spread.
    pub backlog: u64,
}

/// The use of a permit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// The window that the answer stated, if any.
    pub window: Option<Window>,
    /// Pause of the credential after a refusal. `None` with a window means that the API answered the call.
    pub park: Option<Park>,
    /// The fingerprint of the secret that made the call.
    pub fingerprint: String,
}

/// Pause of a credential's secret after a refusal. It grows from one refusal to the next. Another secret under the same name is not
/// affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Park {
    /// Minimum length.
    pub pause: Duration,
    /// Why, for people.
    pub why: String,
    /// For every endpoint (the credential itself is refused), or for this one alone (its quota).
    pub everywhere: bool,
}

/// A credential as the ledger knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CredentialStatus {
    /// The credential's name.
    pub name: String,
    /// Calls per window, as an answer told last; `None` where none has, or where there is no limit.
    pub limit: Option<u32>,
    /// True if the API answers without stating a limit.
    pub unmetered: bool,
    /// The length of a window, ms: as the API states it, else the longest remaining time in any answer. A window starts with its first
    /// call, so the answer to that one tells it whole.
    pub window_ms: Option<Millis>,
    /// Calls that may still be granted; `None` while no window is known to be open.
    pub remaining: Option<u32>,
    /// The time until the window ends, ms; `None` while no window is known to be open.
    pub reset_in_ms: Option<Millis>,
    /// Permits out.
    pub outstanding: u32,
    /// For how long it is parked, ms; 0 when it is not.
    pub parked_for_ms: Millis,
    /// Why it is parked.
    pub parked_why: Option<String>,
    /// True if it is refused and parked for every endpoint, and not just out of quota at this one.
    pub parked_everywhere: bool,
    /// Calls granted since midnight UTC, over all endpoints.
    pub calls_today: u64,
}

/// A window's figures as a ledger keeps them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// Calls per window; 0 where nothing is known.
    pub limit: i64,
    pub remaining: i64,
    /// 0 where it is over.
    pub reset_in: Millis,
    pub length: Millis,
}

impl CredentialStatus {
    /// Calls a second that it has; `None` where no answer has told yet, or there is no limit.
    #[must_use]
    pub fn calls_per_s(&self) -> Option<f64> {
        Some(f64::from(self.limit?) * 1e3 / self.window_ms? as f64)
    }

    pub(super) fn with_window(self, kept: Kept) -> Self {
        let told = u32::try_from(kept.limit).ok().filter(|limit| *limit > 0);
        let limit = told.filter(|limit| *limit < UNMETERED);
        let open = limit.filter(|_| kept.reset_in > 0);
        Self {
            limit,
            unmetered: told.is_some() && limit.is_none(),
            window_ms: limit.map(|_| kept.length).filter(|length| *length > 0),
            remaining: open.map(|_| u32::try_from(kept.remaining).unwrap_or(0)),
            reset_in_ms: open.map(|_| kept.reset_in),
            ..self
        }
    }
}

/// The contract. Every call may be repeated when its reply was lost.
///
/// # Errors
/// Every call's: [`LedgerError::Unavailable`] when it is not known whether it was done, [`LedgerError::Refused`] when
/// it never will be.
#[async_trait]
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Grants one call: of the credentials with calls left, to the one whose calls expire soonest.
    async fn acquire(&self, ask: &Ask<'_>) -> Result<Grant, LedgerError>;

    /// The call was made, or may have been. `permit` is empty where the call took none, since it went to
    /// another endpoint and told of this one.
    async fn used(&self, name: &str, endpoint: &str, permit: &str, used: &Used) -> Result<(), LedgerError>;

    /// The call was not made.
    async fn give_back(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError>;

    /// Ends the pause of a credential at every endpoint, for the secret with that fingerprint. Pauses at single endpoints stay. Returns
    /// true if it was parked.
    async fn free(&self, name: &str, fingerprint: &str) -> Result<bool, LedgerError>;

    /// Returns the state of each credential at that endpoint, in the order of `names`, for the secrets with these fingerprints. A
    /// credential without a fingerprint gets the state of its last known secret.
    async fn statuses(
        &self,
        endpoint: &str,
        names: &[String],
        fingerprints: &[String],
    ) -> Result<Vec<CredentialStatus>, LedgerError>;

    /// Counts `ids` as read by that call, as far as the budget has room, in one step and by the ledger's clock; one
    /// that was counted for the same UTC day is free. Answers for each whether it may be asked for: the first that
    /// fit. The same call again counts none of them twice.
    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError>;

    /// Takes back what that call alone has counted and not read, once. What came as another id counts as that one,
    /// whatever room there is: it has been charged.
    async fn charge(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError>;

    /// The reads of the current day and of periods of that kind.
    async fn counted(&self, per: Period) -> Result<Counted, LedgerError>;

    /// Removes these ids from those that were counted; the counts stay. Returns the number of removed entries.
    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError>;
}
