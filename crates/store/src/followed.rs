//! The followed accounts, whose timelines are visited again and again, and the part of the work of each.
//!
//! A visited account is an item like any other, with a row in `tweet` that holds its life. This list decides if a visit
//! is allowed. A job of an account that is no longer followed, or that another part visits, ends without a call.

use async_trait::async_trait;

use super::{Result, StoreError};
use engine::base::clock::Millis;

/// A part of the followed accounts, with its own queue.
pub type Part = i64;

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct FollowedAccount {
    pub account: String,
    pub part: Part,
    pub notes: Option<String>,
}

/// The list of followed accounts. `namespace` is the pipeline without its part (`visits:twitter`). Errors are those of
/// [`Lifecycle`](super::Lifecycle); every call may be repeated.
#[async_trait]
pub trait FollowList: Send + Sync + std::fmt::Debug {
    /// Follows accounts, each in the given part; a followed account stays in its part. Returns the part of each, in the
    /// order of `accounts`; [`StoreError::Refused`] if one is blocked.
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>>;

    /// Unfollows accounts and ends their lives as items, all or nothing. Returns those that were followed, with their parts.
    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>>;

    /// Follows and marks accounts for a community, in one step; returns them. Of the accounts that it knows, takes
    /// those that are not followed, and those that a community of `all` follows. Skips accounts that a person follows.
    async fn follow_for_community(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[(String, Part)],
        community: &str,
        all: &[String],
    ) -> Result<Vec<String>>;

    /// Unfollows those of `accounts` that are followed for this community and for no other one of `all`. Their marks stay.
    async fn unfollow_for_community(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<()>;

    /// Returns the part of each account, in the order of `accounts`; `None` if it is not followed.
    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>>;

    /// Moves followed accounts to another part. State and schedule of their items stay.
    async fn move_to_part(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()>;

    /// Ends the life of an item in a part's pipeline, unless that part still visits the account.
    async fn end_visits(&self, namespace: &str, part: Part, account: &str) -> Result<()>;

    /// Returns up to `limit` followed accounts of all parts with ids above `above`, sorted by id.
    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>>;
}

pub(super) fn order_parts(asked: &[String], rows: Vec<(String, Part)>) -> Vec<Option<Part>> {
    let parts: std::collections::HashMap<String, Part> = rows.into_iter().collect();
    asked.iter().map(|account| parts.get(&*super::rows::clean(account)).copied()).collect()
}

pub(super) fn blocked_error() -> StoreError {
    StoreError::Refused("one of these accounts is blocked (forget account): leave it out".to_owned())
}

pub(super) fn part_namespace(namespace: &str, part: Part) -> String {
    if part == 0 { namespace.to_owned() } else { format!("{namespace}:p{part}") }
}
