//! X API v2, `GET /2/tweets`: up to 100 posts per call.
//!
//! X counts calls per 15 minutes. It charges for each returned post once per UTC day, however often the post is requested
//! ([`Charge::PerIdPerUtcDay`]). Users cost extra, so authors are expanded only if the settings say so: a post has its author's id and
//! no handle.
//!
//! Since August 2026 X has two documents for it, in which the fields have two names (`retweet_count`, `repost_count`). Answers are read
//! with both; requests use the names of [`FieldNames`].
//!
//! Reading order: this file makes the call; `fields` has the requested fields; `answer` turns a body into outcomes, one `post` at a
//! time; `errors` turns a refusal into a decision; `account` is the same for accounts, `relations` for lists of followers and friends.
//! Sources: docs.x.com (x-api/posts/lookup, x-api/fundamentals), its OpenAPI documents 2.166 and 2.167, recorded answers of 2021.

pub mod account;
pub mod answer;
pub mod errors;
pub mod fields;
pub mod media;
pub mod people;
pub mod post;
pub mod relations;
pub mod stream;
pub mod timeline;

use async_trait::async_trait;
use reqwest::Url;

pub use self::answer::read as read_answer;
pub use self::fields::{FieldNames, Fields};
pub use self::post::read_id;
use super::id_outcomes::distinct_ids;
use crate::model::post::{BadId, Tweet, TweetId};
use crate::providers::auth::Auth;
use crate::providers::http::{ClientError, HttpClient, HttpOptions, Reply, endpoint_url, parse_base_url};
use crate::providers::lookup::{Answer, Api, Capabilities, Charge, Lookup, LookupError, Quota, Usage};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::Millis;
use engine::quota::{Credential, CredentialKind};

/// Ids per call: X's limit.
pub const BATCH_LIMIT: usize = 100;

pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: BATCH_LIMIT, charge: Charge::PerIdPerUtcDay, endpoint: "tweets" };

const LOOKUP_PATH: &str = "2/tweets";
const ACCOUNTS_PATH: &str = "2/users";
const HANDLES_PATH: &str = "2/users/by";
const USAGE_PATH: &str = "2/usage/tweets";
const ME_PATH: &str = "2/users/me";

#[derive(Debug, Clone)]
pub struct XV2Options {
    /// `https://api.x.com`, or an emulator's address; a path stays in front of the endpoint's.
    pub base_url: String,
    pub fields: Fields,
    /// Limits of a call. A post with all its fields has about 3 KB, a long one up to 30 KB.
    pub http: HttpOptions,
}

impl Default for XV2Options {
    fn default() -> Self {
        Self { base_url: "https://api.x.com".to_owned(), fields: Fields::default(), http: HttpOptions::default() }
    }
}

#[derive(Debug, Clone)]
pub struct XV2 {
    endpoint: Url,
    accounts: Url,
    handles: Url,
    usage: Url,
    me: Url,
    fields: Fields,
    auth: Auth,
}

impl XV2 {
    /// Builds the provider without a call. An error is in words for the person who set the options.
    pub fn new(options: XV2Options) -> Result<Self, ClientError> {
        let base = parse_base_url(&options.base_url)?;
        Ok(Self {
            endpoint: endpoint_url(&base, LOOKUP_PATH)?,
            accounts: endpoint_url(&base, ACCOUNTS_PATH)?,
            handles: endpoint_url(&base, HANDLES_PATH)?,
            usage: endpoint_url(&base, USAGE_PATH)?,
            me: endpoint_url(&base, ME_PATH)?,
            fields: options.fields,
            // Its 401 states no further reason.
            auth: Auth::new(HttpClient::new(&options.http)?, &base, |reply| reply.status == 401)?,
        })
    }

    async fn get_json(&self, address: &Url, credential: &Credential) -> Result<Reply, LookupError> {
        let reply = self.auth.get(address, credential).await?;
        reply.require_json(|reply| self.auth.record_refusal(errors::decide(reply), credential))
    }
}

pub fn parse_post(raw: &str) -> Result<Tweet, UnreadableObject> {
    let raw = raw.trim();
    post::Post::parse(raw)?.to_tweet(raw)
}

#[async_trait]
impl Lookup for XV2 {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        TweetId::date_of(id)
    }

    fn versions_have_ids(&self) -> bool {
        true
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let Some(batch) = distinct_ids(ids, BATCH_LIMIT)? else { return Ok(Answer::empty()) };
        let mut address = self.endpoint.clone();
        address.query_pairs_mut().append_pair("ids", &batch.join(",")).extend_pairs(self.fields.parameters());
        let reply = self.get_json(&address, credential).await?;
        reply.parse_outcomes(errors::quota(&reply), |body| answer::read(body, ids))
    }
}

#[async_trait]
impl Api for XV2 {
    /// Requests the user of the credential, or an application's usage of its plan: neither states the lookup's window.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError> {
        let address = match credential.kind {
            CredentialKind::User(_) => &self.me,
            CredentialKind::App(_) | CredentialKind::Bearer(_) | CredentialKind::Anonymous => &self.usage,
        };
        self.get_json(address, credential).await?;
        Ok(None)
    }

    async fn usage(&self, credential: &Credential) -> Result<Option<Usage>, LookupError> {
        self.get_json(&self.usage, credential).await?.read(answer::read_usage).map(Some)
    }
}
