//! Bluesky, `app.bsky.feed.getPosts`: up to 25 posts a call.
//!
//! An id is a post's at-uri with its author's DID (a handle changes hands). The public AppView
//! (`https://public.api.bsky.app`) needs no login, and a personal data server takes a session's token. What is
//! deleted, blocked or unknown is left out in silence.
//!
//! Reading order: this file makes the call; `uri` reads an id, `post` an object, `errors` turns a refusal into a
//! decision; `account` is the same for accounts, `relations` for lists of followers and friends. Sources: the lexicon app.bsky.feed.getPosts, atproto.com/specs (at-uri-scheme, record-key, tid),
//! docs.bsky.app (rate limits), recorded posts.

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

pub use self::post::{indexed_at, moment, sort_time};
use super::asked::{batch, share};
use crate::base::clock::Millis;
use crate::model::account::Absence;
use crate::model::post::Tweet;
use crate::providers::auth::{self, asked_as_nobody};
use crate::providers::http::{HttpClient, HttpOptions, Reply, base, below};
use crate::providers::lookup::{
    Answer, Api, Capabilities, Charge, Lookup, LookupError, Outcome, Quota, Strangers, not_json, object,
};
use crate::quota::{Credential, CredentialKind};

/// Ids in one call: the lexicon's limit.
pub const BATCH_LIMIT: usize = 25;

/// The ids of a post and of an account that do not exist.
pub const UNUSED_IDS: [&str; 2] =
    ["at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/app.bsky.feed.post/2222222222222", "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"];

/// Its capabilities.
pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: BATCH_LIMIT, charge: Charge::PerCall, endpoint: "getPosts" };

/// The remedy for a server that refuses anonymous requests: there is no setting for a token.
const OTHER_SERVER: &str =
    "name a server in bluesky.api that answers without a login, like https://public.api.bsky.app";

const LOOKUP_PATH: &str = "xrpc/app.bsky.feed.getPosts";
const ACCOUNTS_PATH: &str = "xrpc/app.bsky.actor.getProfiles";
const ACCOUNT_PATH: &str = "xrpc/app.bsky.actor.getProfile";
const FOLLOWERS_PATH: &str = "xrpc/app.bsky.graph.getFollowers";
const FOLLOWS_PATH: &str = "xrpc/app.bsky.graph.getFollows";
const RECORDS_PATH: &str = "xrpc/com.atproto.repo.listRecords";
const SESSION_PATH: &str = "xrpc/com.atproto.server.getSession";
const HEALTH_PATH: &str = "xrpc/_health";

/// The address of the API, and the limits of a call.
#[derive(Debug, Clone)]
pub struct BlueskyOptions {
    /// `https://public.api.bsky.app`, or a personal data server's address; a path is kept in front of the
    /// endpoint's.
    pub base_url: String,
    /// The bounds of a call. A post is 2 to 10 KB.
    pub http: HttpOptions,
    /// Posts whose authors ask that only people who are logged in see them are absent.
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

/// The provider.
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
    /// Builds it without calling anybody; an error where the options make no sense, in words for the
    /// person who set them.
    pub fn new(options: BlueskyOptions) -> Result<Self, String> {
        let base = base(&options.base_url)?;
        let http = HttpClient::new(&options.http)?;
        let (endpoint, accounts) = (below(&base, LOOKUP_PATH)?, below(&base, ACCOUNTS_PATH)?);
        let account = below(&base, ACCOUNT_PATH)?;
        let (session, health) = (below(&base, SESSION_PATH)?, below(&base, HEALTH_PATH)?);
        let (followers, follows) = (below(&base, FOLLOWERS_PATH)?, below(&base, FOLLOWS_PATH)?);
        let records = below(&base, RECORDS_PATH)?;
        let leaves_out_hidden = options.leaves_out_hidden;
        Ok(Self { http, endpoint, accounts, account, followers, follows, records, session, health, leaves_out_hidden })
    }
}

#[async_trait]
impl Lookup for Bluesky {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, String> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let Some(batch) = batch(ids, BATCH_LIMIT)? else { return Ok(Answer::empty()) };
        let mut address = self.endpoint.clone();
        address.query_pairs_mut().extend_pairs(batch.into_iter().map(|uri| ("uris", uri)));
        let reply = auth::get(&self.http, address, credential).await?;
        let reply = reply.json(|reply| refused(reply, &credential.kind))?;
        let mut answer = reply.answer(errors::quota(&reply), |body| read_answer(body, ids))?;
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
    /// Asks for the account of the session; without one, checks that the server answers.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError> {
        let address = match credential.kind {
            CredentialKind::Anonymous => &self.health,
            _ => &self.session,
        };
        let reply = auth::get(&self.http, address.clone(), credential).await?;
        reply.json(|reply| refused(reply, &credential.kind))?;
        Ok(None)
    }
}

/// The meaning of a refusal for the caller.
pub fn refused(reply: &Reply, kind: &CredentialKind) -> LookupError {
    asked_as_nobody(errors::decide(reply), reply, kind, OTHER_SERVER)
}

/// Returns true if a cursor is stale: the server answers the call without the cursor, and then fails with it again. The reference
/// server answers a cursor that it cannot read with 500, as in an outage. The repeated call keeps a cursor valid after an outage of
/// moments.
pub(crate) async fn is_stale_cursor(
    http: &HttpClient,
    [with_cursor, without]: [Url; 2],
    credential: &Credential,
) -> Result<bool, LookupError> {
    let answers = async |address| Ok(auth::get(http, address, credential).await?.status == 200);
    Ok(answers(without).await? && !answers(with_cursor).await?)
}

/// When a post with this uri was made, in ms since the epoch, where its key says so.
///
/// # Errors
/// Not a post's uri; says why.
pub fn date_of(id: &str) -> Result<Option<Millis>, String> {
    uri::key(id).map(uri::time)
}

/// Reads one post view.
///
/// # Errors
/// Not a post; a few words name the error.
pub fn parse_post(raw: &str) -> Result<Tweet, String> {
    post::read(raw.trim()).1
}

/// Reads one post view. Answers its uri, where that can be read, and the post.
pub fn read_post(raw: &str) -> (Option<String>, Result<Tweet, String>) {
    post::read(raw.trim())
}

/// The body of a lookup: of posts, or of accounts.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    posts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    profiles: Option<Vec<&'a RawValue>>,
}

/// Reads a body. Answers the outcomes in the order of `ids`, and the number of unrequested posts.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, in words that do not repeat it.
pub fn read_answer(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome>, Strangers), LookupError> {
    let body = object(body)?;
    share(ids, views(&body, "posts", |body| body.posts)?, post::read)
}

/// The views in a body; `of` says of what, and `pick` takes them out.
fn views<'a>(
    body: &'a str,
    of: &str,
    pick: impl FnOnce(Body<'a>) -> Option<Vec<&'a RawValue>>,
) -> Result<Vec<&'a RawValue>, LookupError> {
    // Syntax first: what is JSON of another shape is told as that.
    let _: &RawValue = serde_json::from_str(body).map_err(|error| not_json(&error))?;
    let views = serde_json::from_str::<Body<'_>>(body).ok().and_then(pick);
    views.ok_or_else(|| LookupError::BadAnswer(format!("an object without a list of {of}")))
}
