//! Bluesky, `app.bsky.feed.getPosts`: up to 25 posts per call.
//!
//! An id is a post's at-uri with its author's DID: a handle can change owners. The public AppView (`https://public.api.bsky.app`) needs
//! no login; a personal data server takes a session's token. Deleted, blocked and unknown posts are left out without a reason.
//!
//! Reading order: this file makes the call; `uri` reads an id, `post` an object, `errors` turns a refusal into a decision; `account` is
//! the same for accounts, `relations` for lists of followers and friends. Sources: the lexicon app.bsky.feed.getPosts,
//! atproto.com/specs (at-uri-scheme, record-key, tid), docs.bsky.app (rate limits), recorded posts.

pub mod account;
pub mod errors;
pub mod media;
pub mod named;
pub mod people;
pub mod post;
pub mod relations;
pub mod timeline;
pub mod uri;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::post::{indexed_at, parse_date, sort_time};
use super::id_outcomes::{assign_objects, distinct_ids};
use crate::model::account::Absence;
use crate::model::post::{BadId, Tweet};
use crate::providers::auth::{self, explain_anonymous_refusal};
use crate::providers::http::{ClientError, HttpClient, HttpOptions, Reply, endpoint_url, parse_base_url};
use crate::providers::lookup::{
    Answer, Api, Capabilities, Charge, Lookup, LookupError, Outcome, Quota, UnsolicitedObjects, json_error,
    require_object,
};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;
use engine::quota::{Credential, CredentialKind};

/// Ids per call: the lexicon's limit.
pub const BATCH_LIMIT: usize = 25;

pub const UNUSED_IDS: [&str; 2] =
    ["at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/app.bsky.feed.post/2222222222222", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"];

pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: BATCH_LIMIT, charge: Charge::PerCall, endpoint: "getPosts" };

/// Remedy for a server that refuses anonymous requests: the settings have no token.
const OTHER_SERVER: &str = "set bluesky.api to a server that answers without a login, like https://public.api.bsky.app";

const LOOKUP_PATH: &str = "xrpc/app.bsky.feed.getPosts";
const ACCOUNTS_PATH: &str = "xrpc/app.bsky.actor.getProfiles";
const ACCOUNT_PATH: &str = "xrpc/app.bsky.actor.getProfile";
const FOLLOWERS_PATH: &str = "xrpc/app.bsky.graph.getFollowers";
const FOLLOWS_PATH: &str = "xrpc/app.bsky.graph.getFollows";
const RECORDS_PATH: &str = "xrpc/com.atproto.repo.listRecords";
const SESSION_PATH: &str = "xrpc/com.atproto.server.getSession";
const HEALTH_PATH: &str = "xrpc/_health";

#[derive(Debug, Clone)]
pub struct BlueskyOptions {
    /// `https://public.api.bsky.app`, or a personal data server's address; a path stays in front of the endpoint's.
    pub base_url: String,
    /// Limits of a call. A post is 2 to 10 KB.
    pub http: HttpOptions,
    /// True if posts whose authors show them only to logged-in people count as absent.
    pub leaves_out_hidden: bool,
}

impl Default for BlueskyOptions {
    fn default() -> Self {
        Self {
            base_url: "https://public.api.bsky.app".to_owned(),
            http: HttpOptions::default(),
            leaves_out_hidden: false,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Bluesky {
    http: HttpClient,
    endpoint: Url,
    accounts: Url,
    account: Url,
    followers: Url,
    follows: Url,
    records: Url,
    session: Url,
    health: Url,
    leaves_out_hidden: bool,
}

impl Bluesky {
    /// Builds the provider without a call. An error is in words for the person who set the options.
    pub fn new(options: BlueskyOptions) -> Result<Self, ClientError> {
        let base = parse_base_url(&options.base_url)?;
        let http = HttpClient::new(&options.http)?;
        let (endpoint, accounts) = (endpoint_url(&base, LOOKUP_PATH)?, endpoint_url(&base, ACCOUNTS_PATH)?);
        let account = endpoint_url(&base, ACCOUNT_PATH)?;
        let (session, health) = (endpoint_url(&base, SESSION_PATH)?, endpoint_url(&base, HEALTH_PATH)?);
        let (followers, follows) = (endpoint_url(&base, FOLLOWERS_PATH)?, endpoint_url(&base, FOLLOWS_PATH)?);
        let records = endpoint_url(&base, RECORDS_PATH)?;
        let leaves_out_hidden = options.leaves_out_hidden;
        Ok(Self { http, endpoint, accounts, account, followers, follows, records, session, health, leaves_out_hidden })
    }
}

#[async_trait]
impl Lookup for Bluesky {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let Some(batch) = distinct_ids(ids, BATCH_LIMIT)? else { return Ok(Answer::empty()) };
        let mut address = self.endpoint.clone();
        address.query_pairs_mut().extend_pairs(batch.into_iter().map(|uri| ("uris", uri)));
        let reply = auth::get(&self.http, address, credential).await?;
        let reply = reply.require_json(|reply| refusal_error(reply, &credential.kind))?;
        let mut answer = reply.parse_outcomes(errors::quota(&reply), |body| read_answer(body, ids))?;
        for outcome in answer.outcomes.iter_mut().filter(|_| self.leaves_out_hidden) {
            if matches!(outcome, Outcome::Found(post) if post.details.is_for_members_only()) {
                *outcome = Outcome::Absent(Absence::Protected);
            }
        }
        Ok(answer)
    }
}

#[async_trait]
impl Api for Bluesky {
    /// Requests the session's account; without a session, checks that the server answers.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError> {
        let address = match credential.kind {
            CredentialKind::Anonymous => &self.health,
            _ => &self.session,
        };
        let reply = auth::get(&self.http, address.clone(), credential).await?;
        reply.require_json(|reply| refusal_error(reply, &credential.kind))?;
        Ok(None)
    }
}

pub fn refusal_error(reply: &Reply, kind: &CredentialKind) -> LookupError {
    explain_anonymous_refusal(errors::decide(reply), reply, kind, OTHER_SERVER)
}

/// Returns true if a cursor is stale: the server answers the call without the cursor, and then fails with it again. The reference server
/// answers an unreadable cursor with 500, as in an outage; after a short outage the second call with the cursor succeeds.
pub(crate) async fn is_stale_cursor(
    http: &HttpClient,
    [with_cursor, without]: [Url; 2],
    credential: &Credential,
) -> Result<bool, LookupError> {
    let answers = async |address| Ok(auth::get(http, address, credential).await?.status == 200);
    Ok(answers(without).await? && !answers(with_cursor).await?)
}

/// Creation time of a post, in ms since the epoch, if its key contains it. The error states why the uri is invalid.
pub fn date_of(id: &str) -> Result<Option<Millis>, BadId> {
    uri::record_key(id).map(uri::tid_time)
}

pub fn parse_post(raw: &str) -> Result<Tweet, UnreadableObject> {
    post::read(raw.trim()).1
}

/// Reads a post view: its uri, if readable, and the post or the reason why it is unreadable.
pub fn read_post(raw: &str) -> (Option<String>, Result<Tweet, UnreadableObject>) {
    post::read(raw.trim())
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    posts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    profiles: Option<Vec<&'a RawValue>>,
}

/// Reads an answer about `ids`: one outcome per id, in their order, and the objects that were not requested.
pub fn read_answer(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome>, UnsolicitedObjects), LookupError> {
    let body = require_object(body)?;
    assign_objects(ids, list_views(&body, "posts", |body| body.posts)?, post::read)
}

/// Views in a body, taken out by `pick`; `of` names them in the error.
fn list_views<'a>(
    body: &'a str,
    of: &str,
    pick: impl FnOnce(Body<'a>) -> Option<Vec<&'a RawValue>>,
) -> Result<Vec<&'a RawValue>, LookupError> {
    // Syntax first: JSON of another shape gets its own error.
    let _: &RawValue = serde_json::from_str(body).map_err(|error| json_error(&error))?;
    let views = serde_json::from_str::<Body<'_>>(body).ok().and_then(pick);
    views.ok_or_else(|| LookupError::BadAnswer(format!("an object without a list of {of}")))
}
