//! The seam to lists of followers and friends: one page of ids, the newest follow first.
//!
//! A caller reads a list from its first page (no cursor) to the page without a [`next`](Members::next) cursor. Neighbouring pages
//! may overlap, so an id may come twice. A page may be empty and still have a next one. An API in a loop returns an earlier
//! cursor; only the caller can notice that.
//!
//! A [`Listing`] states the answer about the *list*. A [`LookupError`] is a failure of the *call*, and says nothing about the
//! list or its owner; only [`LookupError::BadRequest`] may.

use async_trait::async_trait;
use serde_json::Value;

use super::http::Reply;
use super::lookup::{Charge, LookupError, Quota};
use crate::model::account::{Absence, Account};
use crate::model::relation::{ListKind, PartialReason};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;
use engine::quota::Credential;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListCapabilities {
    pub page_limit: u32,
    /// Unit of the quota. With [`Charge::PerIdPerUtcDay`], the accounts on the page cost money.
    pub charge: Charge,
    pub endpoint: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest<'a> {
    pub side: ListKind,
    pub owner: &'a str,
    pub cursor: Option<&'a str>,
    /// Maximum number of ids, 1 to [`ListCapabilities::page_limit`]. A smaller page costs less if accounts are charged.
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RelationPage {
    pub listing: Listing,
    pub quota: Option<Quota>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Listing {
    Members(Members),
    /// The owner is missing; holds the reason if the answer states it. Without a reason, a wrong API address would give the same answer.
    OwnerAbsent(Option<Absence>),
    /// This credential may not see the list: the account is protected, or blocks the caller. Twitter answers the same for
    /// suspended accounts.
    Refused,
    /// The cursor has expired: read the list from its first page. Pages read before stay valid.
    StaleCursor,
}

impl RelationPage {
    #[must_use]
    pub fn new(members: Members, quota: Option<Quota>) -> Self {
        Self { listing: Listing::Members(members), quota }
    }
}

impl From<Absence> for Listing {
    fn from(reason: Absence) -> Self {
        match reason {
            Absence::Protected => Self::Refused,
            Absence::NotFound | Absence::Deactivated | Absence::Deleted | Absence::Suspended => {
                Self::OwnerAbsent(Some(reason))
            }
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Members {
    /// Members in the order of the answer, the newest follow first.
    pub members: Vec<Member>,
    /// Accounts of the members, if the API returns them whole. A member with an unreadable account has none.
    pub accounts: Vec<Account>,
    /// Cursor of the next page; `None` on the last.
    pub next: Option<String>,
    /// Reason why the list may lack members, if this answer shows one; see also [`Relations::partial_reason`].
    pub partial: Option<PartialReason>,
    /// Members missing from the page because their ids are unreadable. A list with any of them is incomplete.
    pub unreadable: Unreadable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: String,
    /// Start of the follow by the follower's clock, ms since the epoch. Only Bluesky states it, for friends.
    pub followed_at: Option<Millis>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreadable {
    pub count: usize,
    pub first: Option<String>,
}

impl Unreadable {
    pub fn add(&mut self, why: String) {
        self.count += 1;
        self.first.get_or_insert(why);
    }
}

impl Member {
    #[must_use]
    pub fn new(id: String) -> Self {
        Self { id, followed_at: None }
    }
}

impl Members {
    /// Adds a member from its id and account, as the readers of accounts return them.
    pub fn add(&mut self, (id, account): (Option<String>, Result<Account, UnreadableObject>)) {
        match id {
            Some(id) => {
                self.members.push(Member::new(id));
                // An unreadable account is looked up later, by its id.
                self.accounts.extend(account.ok());
            }
            None => self.unreadable.add(account.err().map(|why| why.to_string()).unwrap_or_default()),
        }
    }
}

#[async_trait]
pub trait Relations: Send + Sync + std::fmt::Debug {
    fn capabilities(&self, side: ListKind) -> ListCapabilities;

    /// Makes one call for a page. The owner's id has this provider's form.
    ///
    /// # Errors
    /// Each variant states the next step. [`LookupError::BadAnswer`] for an answer without the list's own field: it is never an
    /// empty list. [`LookupError::BatchTooLarge`] without a call, for a limit that the API does not allow.
    async fn page(&self, request: PageRequest<'_>, credential: &Credential) -> Result<RelationPage, LookupError>;

    /// Keys under which reads of an account are counted, as in [`Lookup::read_keys`](super::lookup::Lookup::read_keys).
    fn read_keys(&self, id: &str) -> Vec<String> {
        vec![id.to_owned()]
    }

    /// Reads to reserve before a call for `limit` ids, since the accounts are unknown until then; 0 if nothing is charged.
    fn cost(&self, side: ListKind, limit: u32) -> u64 {
        match self.capabilities(side).charge {
            Charge::Nothing | Charge::PerCall => 0,
            Charge::PerId | Charge::PerIdPerUtcDay => u64::from(limit) * self.read_keys("").len() as u64,
        }
    }

    /// Returns true if [`Relations::partial_reason`] ever returns a reason.
    fn is_partial_by_handle(&self) -> bool {
        false
    }

    /// Reason, from the account's handle, why its lists may lack members on any page.
    fn partial_reason(&self, _handle: &str) -> Option<PartialReason> {
        None
    }
}

/// Error for a refused list. A body without a network's error field comes from a proxy in front of the API: an outage.
pub(super) fn list_error(reply: &Reply, refusal: LookupError) -> LookupError {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let says_error = ["error", "errors", "title"].into_iter().any(|name| !body[name].is_null());
    match refusal {
        LookupError::BadRequest(said) | LookupError::BatchTooLarge(said) if !says_error => LookupError::Outage(said),
        refusal => refusal,
    }
}

/// Accepts limits from 1 to `most` ids; others are a [`LookupError::BatchTooLarge`].
pub fn check_limit(request: &PageRequest<'_>, most: u32) -> Result<(), LookupError> {
    if (1..=most).contains(&request.limit) {
        return Ok(());
    }
    Err(LookupError::BatchTooLarge(format!("{} ids, but a page has 1 to {most}", request.limit)))
}
