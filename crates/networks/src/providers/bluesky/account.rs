//! `app.bsky.actor.getProfiles`: up to 25 accounts per call, by DID or by handle.
//!
//! An id is the account's DID. Deleted, deactivated, suspended and unknown accounts are left out without a reason;
//! `app.bsky.actor.getProfile`, for one account, states it. A view leaves out fields that the owner has not set. No field states the
//! time of the last post; the number of posts shows that there was one.
//!
//! Sources: the lexicons app.bsky.actor.getProfiles and app.bsky.actor.defs, recorded views.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::uri::is_did;
use super::{Bluesky, errors, list_views, refusal_error};
use crate::model::account::{Absence, Account, AccountCounts, AccountState};
use crate::model::post::BadId;
use crate::providers::auth;
use crate::providers::handles::Handles;
use crate::providers::http::Reply;
use crate::providers::id_outcomes::{assign_objects, distinct_ids, fold_handles, read_by_handle, read_object};
use crate::providers::lookup::{
    Answer, Capabilities, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects, decode_lossy, parse_json,
    require_object,
};
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;
use engine::base::activity::Activity;
use engine::base::clock::Millis;
use engine::quota::{Credential, CredentialKind};

pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: 25, charge: Charge::PerCall, endpoint: "getProfiles" };

/// Handle of an account while its own handle does not lead back to it.
pub const NO_HANDLE: &str = "handle.invalid";

#[derive(Debug, Clone)]
pub struct Accounts(pub Bluesky);

#[async_trait]
impl Lookup<Account> for Accounts {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        self.request_accounts(ids, credential, read_account).await
    }

    fn explains_missing(&self) -> bool {
        true
    }

    async fn look_up_missing(&self, id: &str, credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let mut address = self.0.account.clone();
        address.query_pairs_mut().append_pair("actor", id);
        let ids = [id.to_owned()];
        let reply = auth::get(&self.0.http, address, credential).await?;
        let quota = errors::quota(&reply);
        if let Some(reason) = reason(&reply, &credential.kind) {
            return Ok(Answer::same_for_all(&Outcome::Absent(reason), &ids, quota));
        }
        let reply = reply.require_json(|reply| refusal_error(reply, &credential.kind))?;
        reply.parse_outcomes(quota, |body| assign_objects(&ids, vec![parse_json(&decode_lossy(body))?], read_account))
    }
}

/// Reason why the single requested account is missing; `None` if the answer states none.
fn reason(reply: &Reply, kind: &CredentialKind) -> Option<Absence> {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    // Without a session, these errors concern the account.
    let is_anonymous = matches!(kind, CredentialKind::Anonymous);
    match (reply.status, body["error"].as_str()?) {
        (400, "AccountDeactivated") if is_anonymous => Some(Absence::Deactivated),
        (400, "AccountTakedown" | "AccountSuspended") if is_anonymous => Some(Absence::Suspended),
        (400, "InvalidRequest") if body["message"].as_str()? == "Profile not found" => Some(Absence::Deleted),
        _ => None,
    }
}

#[async_trait]
impl Handles for Accounts {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn resolve(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        self.request_accounts(&fold_handles(handles), credential, read_by_handle(read_account)).await
    }
}

impl Accounts {
    /// Makes one call for accounts by DIDs or handles; `read` returns each account under the DID or handle.
    async fn request_accounts(
        &self,
        asked: &[String],
        credential: &Credential,
        read: impl Fn(&str) -> (Option<String>, Result<Account, UnreadableObject>),
    ) -> Result<Answer<Account>, LookupError> {
        let Some(batch) = distinct_ids(asked, CAPABILITIES.batch_limit)? else { return Ok(Answer::empty()) };
        let mut address = self.0.accounts.clone();
        address.query_pairs_mut().extend_pairs(batch.into_iter().map(|actor| ("actors", actor)));
        let reply = auth::get(&self.0.http, address, credential).await?;
        let reply = reply.require_json(|reply| refusal_error(reply, &credential.kind))?;
        reply.parse_outcomes(errors::quota(&reply), |body| read_as(body, asked, read))
    }
}

/// Checks the id and returns `None`: a DID does not contain its creation time.
pub fn date_of(id: &str) -> Result<Option<Millis>, BadId> {
    if is_did(id) {
        return Ok(None);
    }
    Err(BadId::Form("the id is not a DID (did:METHOD:ID); write the DID, since a handle may change"))
}

/// Reads an answer about `ids`: one outcome per id, in their order, and the objects that were not requested.
pub fn read(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError> {
    read_as(body, ids, read_account)
}

fn read_as(
    body: &[u8],
    asked: &[String],
    read: impl Fn(&str) -> (Option<String>, Result<Account, UnreadableObject>),
) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError> {
    let body = require_object(body)?;
    assign_objects(asked, list_views(&body, "profiles", |body| body.profiles)?, read)
}

/// Reads one profile view, also the author in a post view, which has no counts and no description.
pub fn parse_account(raw: &str) -> Result<Account, UnreadableObject> {
    read_account(raw.trim()).1
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(borrow)]
    did: Option<&'a RawValue>,
    #[serde(borrow)]
    handle: Option<&'a RawValue>,
    #[serde(borrow)]
    display_name: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    website: Option<&'a RawValue>,
    #[serde(borrow)]
    avatar: Option<&'a RawValue>,
    #[serde(borrow)]
    banner: Option<&'a RawValue>,
    #[serde(borrow)]
    followers_count: Option<&'a RawValue>,
    #[serde(borrow)]
    follows_count: Option<&'a RawValue>,
    #[serde(borrow)]
    posts_count: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    verification: Option<&'a RawValue>,
}

/// Verification of the account by a verifier, or by Bluesky as a verifier of others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verification<'a> {
    #[serde(borrow)]
    verified_status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    trusted_verifier_status: Option<Cow<'a, str>>,
}

/// Reads a profile view: its id, if readable, and the account or the reason why it is unreadable.
pub fn read_account(raw: &str) -> (Option<String>, Result<Account, UnreadableObject>) {
    let id =
        |profile: &Profile<'_>| present(profile.did).and_then(scalar::string).ok_or(UnreadableObject::Missing("did"));
    read_object(raw, "a profile view", id, |profile, id| profile.account(id, raw))
}

impl Profile<'_> {
    fn account(&self, id: String, raw: &str) -> Result<Account, UnreadableObject> {
        let handle = scalar::required_text(self.handle, "handle")?;
        // Only the detailed view has counts; the others also leave out fields that are set.
        let is_detailed = self.posts_count.is_some();
        let text = |field| scalar::text(field, is_detailed);
        let count = |field: Option<&RawValue>| field.and_then(scalar::count);
        Ok(Account {
            id,
            handle: Some(handle).filter(|handle| handle != NO_HANDLE),
            display_name: text(self.display_name),
            description: text(self.description),
            location: None,
            url: text(self.website),
            picture: text(self.avatar),
            banner: text(self.banner),
            protected: None,
            verified: self.verified(is_detailed),
            created_at: scalar::date_or_none(self.created_at, scalar::rfc3339_or_utc),
            counts: AccountCounts {
                followers: count(self.followers_count),
                following: count(self.follows_count),
                posts: count(self.posts_count),
                ..AccountCounts::default()
            },
            last_post_at: None,
            state: AccountState::Live,
            withheld_in: None,
            moved_to: None,
            raw: raw.to_owned(),
            activity: Activity::default(),
        })
    }

    /// The detailed view leaves the field out if no verifier has verified the account.
    fn verified(&self, is_detailed: bool) -> Option<bool> {
        if present(self.verification).is_none() {
            return is_detailed.then_some(false);
        }
        let verification: Verification<'_> = scalar::value(self.verification)?;
        let known = [verification.verified_status, verification.trusted_verifier_status];
        Some(known.iter().flatten().any(|status| status == "valid"))
    }
}
