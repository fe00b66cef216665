//! `GET /api/v1/accounts?id[]=`: up to 40 accounts per call since 4.3, and one (`GET /api/v1/accounts/{id}`) before. By handle,
//! one per call since 3.4, `GET /api/v1/accounts/lookup?acct=`: `user`, or `user@server` of an account that the instance knows.
//!
//! An id is the instance's own, also for accounts of other servers, of which the instance may know little. Deleted and unknown
//! accounts are left out, or a 404. Suspended ones are returned since 3.3, emptied; before, they are a 410. The stored
//! description is the API's HTML, unchanged.
//!
//! Sources: docs.joinmastodon.org (methods/accounts, entities/Account), the server's own code (account_serializer.rb;
//! mastodon/mastodon#27871 for the limit of 40), recorded answers of an instance.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::status::{required_id, text_or_number};
use super::{Calls, Mastodon, capabilities_with, check_id, errors, read_objects, refusal_error};
use crate::model::account::{Absence, Account, AccountCounts, AccountState};
use crate::model::post::BadId;
use crate::providers::auth;
use crate::providers::handles::Handles;
use crate::providers::http::Reply;
use crate::providers::id_outcomes::{distinct_ids, fold_handle, fold_handles, read_object};
use crate::providers::lookup::{Answer, Capabilities, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects};
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;
use engine::base::activity::Activity;
use engine::base::clock::Millis;
use engine::quota::Credential;

/// Capabilities since 4.3.
pub const CAPABILITIES: Capabilities = Capabilities { batch_limit: 40, charge: Charge::PerCall, endpoint: "accounts" };

/// File name of the placeholder for a missing picture or banner.
const NO_PICTURE: &str = "/missing.png";

#[derive(Debug, Clone)]
pub struct Accounts(pub Mastodon);

#[async_trait]
impl Lookup<Account> for Accounts {
    fn capabilities(&self) -> Capabilities {
        capabilities_with(self.0.account_batches.calls(), CAPABILITIES)
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let read = |reply: &Reply, ids: &[String], calls| {
            let quota = errors::quota(reply);
            let gone = || self.0.is_gone(reply).then_some(Outcome::Unavailable);
            if calls == Calls::Single
                && let Some(outcome) = absence_outcome(reply).or_else(gone)
            {
                return Ok(Answer::same_for_all(&outcome, ids, quota));
            }
            reply.check_json(|reply| refusal_error(reply, &credential.kind))?;
            reply.parse_outcomes(quota, |body| {
                let (outcomes, unsolicited) = read(body, ids, calls)?;
                Ok((outcomes.into_iter().map(mark_suspended_absent).collect(), unsolicited))
            })
        };
        self.0.call((&self.0.accounts, &self.0.account_batches, CAPABILITIES), ids, credential, read).await
    }
}

/// An instance still returns a suspended account, without its contents, and also an account that its owner has deleted.
fn mark_suspended_absent(outcome: Outcome<Account>) -> Outcome<Account> {
    match outcome {
        Outcome::Found(account) if account.state == AccountState::Suspended => {
            Outcome::Emptied(account, Absence::Suspended)
        }
        outcome => outcome,
    }
}

#[async_trait]
impl Handles for Accounts {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_limit: 1, ..CAPABILITIES }
    }

    async fn resolve(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let handles = fold_handles(handles);
        let Some(batch) = distinct_ids(&handles, 1)? else { return Ok(Answer::empty()) };
        let mut address = self.0.handles.clone();
        address.query_pairs_mut().extend_pairs(batch.iter().map(|handle| ("acct", handle)));
        let reply = auth::get(&self.0.http, address, credential).await?;
        let quota = errors::quota(&reply);
        if let Some(outcome) = absence_outcome(&reply) {
            return Ok(Answer::same_for_all(&outcome, &handles, quota));
        }
        if self.0.instance.is_object_missing(&self.0.http, &reply, credential).await {
            return Ok(Answer::same_for_all(&Outcome::Unavailable, &handles, quota));
        }
        let reply = reply.require_json(|reply| refusal_error(reply, &credential.kind))?;
        reply.parse_outcomes(quota, |body| {
            let by_asked = |raw: &str| {
                let (id, account) = read_account(raw);
                let handle = account.as_ref().ok().and_then(|account| account.handle.as_deref());
                let asked = handles.iter().find(|asked| handle.is_some_and(|handle| is_same_handle(asked, handle)));
                (asked.cloned().or(id), account)
            };
            read_objects(body, &handles, Calls::Single, ["accounts", "an account"], by_asked)
        })
    }
}

/// Outcome of a single requested account, if the answer says that it does not exist.
fn absence_outcome(reply: &Reply) -> Option<Outcome<Account>> {
    if errors::is_not_found(reply) {
        Some(Outcome::Unavailable)
    } else if errors::is_account_suspended(reply) {
        Some(Outcome::Absent(Absence::Suspended))
    } else {
        None
    }
}

/// Returns true if an instance may answer the requested handle with `handle`: it leaves out its own name, and may know another
/// server by a second one.
fn is_same_handle(asked: &str, handle: &str) -> bool {
    let (asked, handle) = (fold_handle(asked), fold_handle(handle));
    asked.split('@').next() == handle.split('@').next()
}

/// Checks the id and returns `None`: an id says when the instance first learned of the account, which may be years after its creation.
pub fn date_of(id: &str) -> Result<Option<Millis>, BadId> {
    check_id(id).map(|()| None)
}

pub fn read(
    body: &[u8],
    ids: &[String],
    calls: Calls,
) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError> {
    read_objects(body, ids, calls, ["accounts", "an account"], read_account)
}

/// Reads one account, also the author in a status.
pub fn parse_account(raw: &str) -> Result<Account, UnreadableObject> {
    read_account(raw.trim()).1
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    acct: Option<&'a RawValue>,
    #[serde(borrow)]
    display_name: Option<&'a RawValue>,
    #[serde(borrow)]
    note: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    avatar: Option<&'a RawValue>,
    #[serde(borrow)]
    header: Option<&'a RawValue>,
    #[serde(borrow)]
    locked: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    /// -1 if the owner or the instance hides the number.
    #[serde(borrow)]
    followers_count: Option<&'a RawValue>,
    #[serde(borrow)]
    following_count: Option<&'a RawValue>,
    #[serde(borrow)]
    statuses_count: Option<&'a RawValue>,
    #[serde(borrow)]
    last_status_at: Option<&'a RawValue>,
    /// The account that the owner moved to; missing without a move.
    #[serde(borrow)]
    moved: Option<&'a RawValue>,
    /// Missing unless the account is suspended.
    #[serde(borrow)]
    suspended: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Moved<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Reads an account: its id, if readable, and the account or the reason why it is unreadable.
pub fn read_account(raw: &str) -> (Option<String>, Result<Account, UnreadableObject>) {
    read_object(raw, "an account", |user: &User<'_>| required_id(user.id), |user, id| user.account(id, raw))
}

impl User<'_> {
    fn account(&self, id: String, raw: &str) -> Result<Account, UnreadableObject> {
        let handle = scalar::required_text(self.acct, "acct")?;
        let is_suspended = scalar::value(self.suspended) == Some(true);
        // The server empties these fields because of the suspension: the owner did not change them.
        let text = |field: Option<&RawValue>| present(field).and_then(scalar::string).filter(|_| !is_suspended);
        let picture = |field| text(field).map(|at| if at.ends_with(NO_PICTURE) { String::new() } else { at });
        let count = |field: Option<&RawValue>| field.and_then(scalar::count);
        let moved = match present(self.moved) {
            None => Some(String::new()),
            moved => scalar::value::<Moved<'_>>(moved).and_then(|to| text_or_number(present(to.id)?)),
        };
        Ok(Account {
            id,
            handle: Some(handle),
            display_name: text(self.display_name),
            description: text(self.note),
            location: None,
            url: present(self.url).and_then(scalar::string),
            picture: picture(self.avatar),
            banner: picture(self.header),
            protected: scalar::value(self.locked).filter(|_| !is_suspended),
            verified: None,
            created_at: scalar::date_or_none(self.created_at, scalar::rfc3339),
            counts: match is_suspended {
                // The server's zeroes are no counts.
                true => AccountCounts::default(),
                false => AccountCounts {
                    followers: count(self.followers_count),
                    following: count(self.following_count),
                    posts: count(self.statuses_count),
                    ..AccountCounts::default()
                },
            },
            last_post_at: scalar::date_or_none(self.last_status_at, scalar::day),
            // A locked account's public posts are public.
            state: if is_suspended { AccountState::Suspended } else { AccountState::Live },
            withheld_in: None,
            moved_to: moved.filter(|_| !is_suspended),
            raw: raw.to_owned(),
            activity: Activity::default(),
        })
    }
}
