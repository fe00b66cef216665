//! Credentials, and permits for calls.
//!
//! A worker takes a [`Permit`] before it claims, so no id waits inside a worker for quota.
//!
//! An API counts the calls of users and of applications apart. One pair of consumer keys can therefore be two
//! credentials: a user's ([`UserKeys`], which sign) and an application's ([`AppToken`], fetched).

mod app_token;
mod budget;
mod credential;
mod credentials;
mod embedded;
mod ledger;
mod oauth1;
mod rate_window;
mod redis;
mod refusals;

pub use self::app_token::AppToken;
pub use self::budget::{
    BadPeriod, Budget, BudgetPeriod, BudgetStatus, ChargedReads, CountedReads, DAY_MS, Period, Span,
};
pub use self::credential::{Caller, Credential, CredentialKind};
pub use self::credentials::{AcquireOutcome, Credentials, Pacing, Permit};
pub use self::embedded::EmbeddedLedger;
pub use self::ledger::{CallRecord, CredentialStatus, Ledger, LedgerError, Park, PermitRequest};
pub use self::oauth1::{Stamp, UserKeys, authorization};
pub use self::rate_window::{Grant, Window};
pub use self::redis::RedisLedger;
pub use self::refusals::shortest_pause;
