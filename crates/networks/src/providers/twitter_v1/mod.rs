//! Twitter API v1.1, `statuses/lookup`: up to 100 tweets per call, 300 (app) or 900 (user) calls per 15 minutes.
//!
//! Reading order: this file makes the call; `answer` turns a body into outcomes, one `object` at a time; `limits` reads the quota;
//! `errors` turns a refusal into a decision. `account` is the same for accounts, `relations` for lists of followers and friends.

pub mod account;
pub mod answer;
pub mod errors;
pub mod limits;
pub mod media;
pub mod named;
pub mod object;
pub mod people;
pub mod relations;
pub mod timeline;

use async_trait::async_trait;
use reqwest::{Method, Request, Url};

pub use self::answer::read as read_answer;
pub use self::object::{parse_ingested, parse_tweet};
use super::id_outcomes::distinct_ids;
use crate::model::post::{BadId, TweetId};
use crate::providers::auth::Auth;
use crate::providers::http::{
    ClientError, HttpClient, HttpOptions, Reply, endpoint_url, parse_base_url, request_build_error,
};
use crate::providers::lookup::{Answer, Api, Capabilities, Charge, Lookup, LookupError, Outcome, Quota};
use engine::base::clock::Millis;
use engine::quota::Credential;

/// Ids per call: Twitter's limit.
pub const BATCH_LIMIT: usize = 100;

pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: BATCH_LIMIT, charge: Charge::PerCall, endpoint: "statuses/lookup" };

const LOOKUP_PATH: &str = "1.1/statuses/lookup.json";
const ACCOUNTS_PATH: &str = "1.1/users/lookup.json";
const FOLLOWERS_PATH: &str = "1.1/followers/ids.json";
const FRIENDS_PATH: &str = "1.1/friends/ids.json";
const LIMITS_PATH: &str = "1.1/application/rate_limit_status.json";

/// Place of the parameters; Twitter accepts both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LookupMethod {
    /// In the address, as documented. A full batch has 2.2 KB; servers refuse addresses from about 8 KB on.
    #[default]
    Get,
    /// In a form: for proxies that log or limit addresses.
    Post,
}

#[derive(Debug, Clone)]
pub struct TwitterV1Options {
    /// `https://api.twitter.com`, or an emulator's address; a path stays in front of the endpoint's.
    pub base_url: String,
    /// Limits of a call. A tweet is 2 to 6 KB, so a full batch is under 1 MB.
    pub http: HttpOptions,
    pub method: LookupMethod,
}

impl Default for TwitterV1Options {
    fn default() -> Self {
        Self {
            base_url: "https://api.twitter.com".to_owned(),
            http: HttpOptions::default(),
            method: LookupMethod::default(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct TwitterV1 {
    http: HttpClient,
    endpoint: Url,
    accounts: Url,
    followers: Url,
    friends: Url,
    limits_endpoint: Url,
    method: Method,
    auth: Auth,
}

impl TwitterV1 {
    /// Builds the provider without a call. An error is in words for the person who set the options.
    pub fn new(options: TwitterV1Options) -> Result<Self, ClientError> {
        let base = parse_base_url(&options.base_url)?;
        let (endpoint, accounts, limits_endpoint) =
            (endpoint_url(&base, LOOKUP_PATH)?, endpoint_url(&base, ACCOUNTS_PATH)?, endpoint_url(&base, LIMITS_PATH)?);
        let (followers, friends) = (endpoint_url(&base, FOLLOWERS_PATH)?, endpoint_url(&base, FRIENDS_PATH)?);
        let http = HttpClient::new(&options.http)?;
        let method = match options.method {
            LookupMethod::Get => Method::GET,
            LookupMethod::Post => Method::POST,
        };
        let auth = Auth::new(http.clone(), &base, errors::means_bad_token)?;
        Ok(Self { http, endpoint, accounts, followers, friends, limits_endpoint, method, auth })
    }

    fn request(&self, address: &Url, parameters: &[(&str, &str)]) -> Result<Request, LookupError> {
        let client = self.http.client();
        let mut address = address.clone();
        let request = if self.method == Method::POST {
            client.post(address).form(parameters)
        } else {
            address.query_pairs_mut().extend_pairs(parameters);
            client.get(address)
        };
        request.build().map_err(request_build_error)
    }

    fn refusal_error(&self, reply: &Reply, endpoint: &str, credential: &Credential) -> LookupError {
        self.auth.record_refusal(errors::decide(reply, endpoint), credential)
    }
}

#[async_trait]
impl Lookup for TwitterV1 {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        TweetId::date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let Some(batch) = distinct_ids(ids, BATCH_LIMIT)? else { return Ok(Answer::empty()) };
        let joined = batch.join(",");
        let parameters = [("id", joined.as_str()), ("map", "true"), ("tweet_mode", "extended"), ("trim_user", "false")];
        let reply = self.auth.call(&|| self.request(&self.endpoint, &parameters), credential).await?;
        let quota = limits::quota(&reply);
        if errors::is_none_found(&reply) {
            return Ok(Answer::same_for_all(&Outcome::Unavailable, ids, quota));
        }
        let reply = reply.require_json(|reply| self.refusal_error(reply, CAPABILITIES.endpoint, credential))?;
        reply.parse_outcomes(quota, |body| answer::read(body, ids))
    }
}

#[async_trait]
impl Api for TwitterV1 {
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError> {
        let mut address = self.limits_endpoint.clone();
        address.query_pairs_mut().append_pair("resources", "statuses");
        let reply = self.auth.get(&address, credential).await?;
        limits::status_quota(&reply.require_json(|reply| self.refusal_error(reply, CAPABILITIES.endpoint, credential))?)
    }

    fn states_window_of(&self, endpoint: &str) -> bool {
        endpoint == CAPABILITIES.endpoint
    }
}
