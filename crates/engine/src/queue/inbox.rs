//! The `incoming` set: ids that a program in any language adds.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::base::clock::Millis;

/// Maximum number of rejected members of `incoming` that are kept with their reasons, the newest ones.
pub const REFUSED_KEPT: usize = 10_000;
pub const REFUSED_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    pub member: String,
    /// Date of the item, ms since the epoch; 0 to take it from the id.
    pub created_at: Millis,
}

#[async_trait]
pub trait Inbox: Send + Sync + std::fmt::Debug {
    /// Reads up to `limit` members of `incoming` for `drainer`; none while another drainer is active.
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>>;

    async fn accept_incoming(&self, members: &[String]) -> Result<()>;

    /// Moves members of `incoming` to the refused members, each with the reason for its refusal.
    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<()>;

    /// Adds ids to `incoming`, as another program would.
    async fn add_incoming(&self, members: &[Incoming]) -> Result<()>;
}
