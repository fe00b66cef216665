//! The seam to lists of followers and friends: one page of ids, the newest follow first.
//!
//! A list is read from its first page (no cursor) to the page without a [`next`](Members::next) cursor. Neighbouring pages may
//! overlap, so an id may come twice; a page may be empty and still have a next one. An API that goes round in circles gives
//! a cursor that it gave before, which only the caller can notice.
//!
//! What the answer says of the *list* is a [`Listing`]; what goes wrong with the *call* is a [`LookupError`], and says nothing
//! of the list or its owner, except [`LookupError::BadRequest`], which may.

use async_trait::async_trait;
use serde_json::Value;

use super::http::Reply;
use super::lookup::{Charge, LookupError, Quota};
use crate::base::clock::Millis;
use crate::model::account::{Absence, Account};
use crate::model::relation::{Partial, Side};
use crate::quota::Credential;

/// The capabilities of a provider for one of the two lists, and its charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListCapabilities {
    /// The maximum number of ids in a page.
    pub page_limit: u32,
    /// The unit of the quota. [`Charge::PerIdPerUtcDay`]: money counts the accounts on the page.
    pub charge: Charge,
    /// The endpoint's name in the quota ledger.
    pub endpoint: &'static str,
}

/// A request for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest<'a> {
    /// Which of the owner's lists.
    pub side: Side,
    /// The owner's id.
    pub owner: &'a str,
    /// The cursor that the page before gave; `None`: the first page.
    pub cursor: Option<&'a str>,
    /// The maximum number of ids, 1 to [`ListCapabilities::page_limit`]. A smaller page costs less where accounts are
    /// charged.
    pub limit: u32,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationPage {
    /// The page, or why there is none.
    pub listing: Listing,
    /// The quota that the answer stated, if any.
    pub quota: Option<Quota>,
}

/// What an answer says of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Listing {
    /// A page of it.
    Members(Members),
    /// The owner is not there, and the reason, where the answer states it. Without a reason, a wrong address of the API would
    /// be answered in the same way.
    OwnerAbsent(Option<Absence>),
    /// This credential may not see the list: the account is protected, or blocks the caller. Twitter says the same of suspended
    /// accounts.
    Refused,
    /// The cursor is no longer valid: read the list from its first page. What was read before stays true.
    StaleCursor,
}

impl RelationPage {
    /// A page with these members.
    #[must_use]
    pub fn of(members: Members, quota: Option<Quota>) -> Self {
        Self { listing: Listing::Members(members), quota }
    }
}

impl From<Absence> for Listing {
    /// The reason for which an answer does not return the owner.
    fn from(reason: Absence) -> Self {
        match reason {
            Absence::Protected => Self::Refused,
            Absence::NotFound | Absence::Deactivated | Absence::Deleted | Absence::Suspended => {
                Self::OwnerAbsent(Some(reason))
            }
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Members {
    /// The members in the order of the answer, the newest follow first.
    pub members: Vec<Member>,
    /// The accounts of the members, where the API returns them whole. A member whose account cannot be read has none.
    pub accounts: Vec<Account>,
    /// The cursor of the next page; `None`: this page is the last.
    pub next: Option<String>,
    /// Why the list may lack members, as far as this answer tells; see also [`Relations::why_partial`].
    pub partial: Option<Partial>,
    /// The members that are missing from the page because their ids could not be read. A list with any of them is not complete.
    pub unreadable: Unreadable,
}

/// A member of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its account's id.
    pub id: String,
    /// When the follow began, ms since the epoch, where the network states it (friends at Bluesky): by the follower's clock.
    pub followed_at: Option<Millis>,
}

/// Members whose ids could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Their number.
    pub count: usize,
    /// What was wrong with the first one.
    pub first: Option<String>,
}

impl Unreadable {
    /// Counts one more.
    pub fn add(&mut self, why: String) {
        self.count += 1;
        self.first.get_or_insert(why);
    }
}

impl Member {
    /// A member of whose follow no time is stated.
    #[must_use]
    pub fn of(id: String) -> Self {
        Self { id, followed_at: None }
    }
}

impl Members {
    /// Adds a member with its account: its id and what was read of it, as the readers of accounts answer them.
    pub fn add(&mut self, (id, account): (Option<String>, Result<Account, String>)) {
        match id {
            Some(id) => {
                self.members.push(Member::of(id));
                // An account that cannot be read is looked up later, by its id.
                self.accounts.extend(account.ok());
            }
            None => self.unreadable.add(account.err().unwrap_or_default()),
        }
    }
}

/// The way to read lists of followers and friends.
#[async_trait]
pub trait Relations: Send + Sync + std::fmt::Debug {
    /// Its capabilities for that list.
    fn capabilities(&self, side: Side) -> ListCapabilities;

    /// One call for a page. The owner's id is of this provider's form.
    ///
    /// # Errors
    /// The call gave no answer about the list; each variant says what to do next. [`LookupError::BadAnswer`] for an answer
    /// without the list's own field: it is never taken for an empty list. [`LookupError::BatchTooLarge`] for a limit that the
    /// API does not allow, without a call.
    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError>;

    /// The keys under which an account on a page is counted where reads are charged, as
    /// [`Lookup::reads`](super::lookup::Lookup::reads) has them.
    fn reads(&self, id: &str) -> Vec<String> {
        vec![id.to_owned()]
    }

    /// The reads to reserve before a call for a page of `limit` ids: which accounts come is known only afterwards. 0 where
    /// nothing is charged.
    fn cost(&self, side: Side, limit: u32) -> u64 {
        match self.capabilities(side).charge {
            Charge::Nothing | Charge::PerCall => 0,
            Charge::PerId | Charge::PerIdPerUtcDay => u64::from(limit) * self.reads("").len() as u64,
        }
    }

    /// Returns true if [`Relations::why_partial`] ever gives a reason.
    fn is_partial_by_handle(&self) -> bool {
        false
    }

    /// Why the lists of the account with this handle may lack members whatever the pages hold, as the handle tells it.
    fn why_partial(&self, _handle: &str) -> Option<Partial> {
        None
    }
}

/// The decision about the refusal of a list. Where no network's own words for an error are in its body, it is of whatever stands
/// in front of the API, which would answer the same to all lists.
pub(super) fn of_list(reply: &Reply, refusal: LookupError) -> LookupError {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let says_error = ["error", "errors", "title"].into_iter().any(|name| !body[name].is_null());
    match refusal {
        LookupError::BadRequest(said) | LookupError::BatchTooLarge(said) if !says_error => LookupError::Outage(said),
        refusal => refusal,
    }
}

/// Checks the limit of a request.
///
/// # Errors
/// [`LookupError::BatchTooLarge`] for 0 ids, and for more than a page has.
pub(crate) fn check_limit(request: &PageRequest<'_>, most: u32) -> Result<(), LookupError> {
    if (1..=most).contains(&request.limit) {
        return Ok(());
    }
    Err(LookupError::BatchTooLarge(format!("{} ids, and a page has 1 to {most}", request.limit)))
}
