//! The `incoming` set: ids that an ingest in any language puts there.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::base::clock::Millis;

/// Refused members of `incoming` that are kept, with their reasons: the newest ...
pub const REFUSED_KEPT: usize = 10_000;
/// ... and for this long. Who has not looked by then does not look.
pub const REFUSED_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

/// A member of `incoming`: an id some ingest put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The unchecked member.
    pub member: String,
    /// The item's date, ms since the epoch; 0 to take it from the id.
    pub created_at: Millis,
}

/// Unchecked ids from other programs.
#[async_trait]
pub trait Inbox: Send + Sync + std::fmt::Debug {
    /// Up to `limit` members of `incoming` for `drainer`, while no other drainer is at it: several
    /// may drain at once without harm, it only would be the same work twice.
    async fn incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>>;

    /// Removes members from `incoming` that are scheduled now.
    async fn accept_incoming(&self, members: &[String]) -> Result<()>;

    /// Moves members of `incoming` aside, each with the reason.
    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<()>;

    /// Puts ids into `incoming`, as an ingest in another language would.
    async fn put_incoming(&self, members: &[Incoming]) -> Result<()>;
}
