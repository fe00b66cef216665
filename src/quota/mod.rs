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
pub use self::budget::{BadPeriod, Budget, ChargedReads, Counted, DAY_MS, Period, Reads, ReadsPer, Span};
pub use self::credential::{Caller, Credential, CredentialKind};
pub use self::credentials::{Acquired, Credentials, Pacing, Permit};
pub use self::embedded::EmbeddedLedger;
pub use self::ledger::{Ask, CredentialStatus, Ledger, LedgerError, Park, Used};
#[cfg(test)]
pub(crate) use self::oauth1::vectors;
pub use self::oauth1::{Stamp, UserKeys, authorization};
pub use self::rate_window::{Grant, Window};
pub use self::redis::RedisLedger;
pub use self::refusals::shortest_pause;
