//! The followed accounts: those whose timelines are visited again and again, and which part of the work each belongs to.
//!
//! An account that is visited is an item like any other, with a row in `tweet` that holds its life. What stands here decides
//! whether it may be visited at all: a job of an account that is not followed any more, or that another part visits, ends
//! without a call.

use async_trait::async_trait;

use super::{Result, StoreError};
use crate::base::clock::Millis;

/// A part of the followed accounts. Each part has a queue of its own.
pub type Part = i64;

/// A followed account with its latest notes, for whoever divides the work.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct FollowedAccount {
    /// Its id.
    pub account: String,
    /// Its part.
    pub part: Part,
    /// What was kept beside its position.
    pub notes: Option<String>,
}

/// The list of followed accounts. `namespace` is the pipeline without its part (`visits:twitter`). Errors are those of
/// [`Lifecycle`](super::Lifecycle); every call may be repeated.
#[async_trait]
pub trait FollowList: Send + Sync + std::fmt::Debug {
    /// Follows accounts, each in the part that is given; one that is followed already stays in its part. `at`: ms since the
    /// epoch. Answers the part of each, in the order asked; [`StoreError::Refused`] where one is kept away.
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>>;

    /// Follows accounts no more, and ends their lives as items: all or nothing. Answers those that were followed, with the
    /// part of each.
    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>>;

    /// Follows accounts for a community's sake, and marks them as such, in one step: of those that it knows, the ones that nobody
    /// follows, and the ones that a community of `all` is marked to follow. Answers them. What a person follows is left out.
    async fn follow_for(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[(String, Part)],
        community: &str,
        all: &[String],
    ) -> Result<Vec<String>>;

    /// Unfollows those accounts that are marked to be followed for this community's sake, and for that of no other one of `all`.
    /// Their marks stay.
    async fn unfollow_for(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<()>;

    /// The part of each account, in the order asked; `None` for one that is not followed.
    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>>;

    /// Moves followed accounts to another part. Their lives as items are not touched.
    async fn move_to(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()>;

    /// Ends the life of an item in the pipeline of a part, unless that part is to visit it: it is not due any more.
    async fn end_visits(&self, namespace: &str, part: Part, account: &str) -> Result<()>;

    /// Followed accounts of all parts with ids above `above`, by their ids, `limit` of them.
    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>>;
}

/// The page of [`FollowList::page_followed`]: the same text on PostgreSQL and SQLite.
pub(super) const PAGE: &str = "SELECT visit.account, visit.part, source_position.notes FROM visit LEFT JOIN source_position \
     ON source_position.namespace = visit.namespace AND source_position.source = visit.account \
     WHERE visit.namespace = $1 AND visit.account > $2 AND visit.left_at IS NULL ORDER BY visit.account LIMIT $3";

/// The end of [`FollowList::end_visits`]: `$1` the namespace, `$2` the part, `$3` the account, `$4` the pipeline of the part.
pub(super) const END: &str = "UPDATE tweet SET state = 'ended', next_due = NULL WHERE namespace = $4 AND id = $3 \
     AND state IN ('live', 'unavailable') AND NOT EXISTS (SELECT 1 FROM visit WHERE visit.namespace = $1 \
     AND visit.account = $3 AND visit.part = $2 AND visit.left_at IS NULL)";

/// Parts in the order asked.
pub(super) fn in_order(asked: &[String], rows: Vec<(String, Part)>) -> Vec<Option<Part>> {
    let parts: std::collections::HashMap<String, Part> = rows.into_iter().collect();
    asked.iter().map(|account| parts.get(&*super::rows::clean(account)).copied()).collect()
}

/// The error of an account that cannot be followed.
pub(super) fn kept_away() -> StoreError {
    StoreError::Refused("an account of these is kept away (forget account): leave it out".to_owned())
}

/// The pipeline of a part.
pub(super) fn pipeline(namespace: &str, part: Part) -> String {
    if part == 0 { namespace.to_owned() } else { format!("{namespace}:p{part}") }
}
