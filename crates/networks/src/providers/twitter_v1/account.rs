//! `users/lookup` of API v1.1: up to 100 accounts per call, by id or by handle, 300 (app) or 900 (user) calls per 15 minutes.
//!
//! Protected accounts are returned. Deleted, suspended and unknown ones are left out without a reason; if none is left, the answer is a
//! 404 with code 17 (tweepy/tweepy#1616). Each account contains its newest post (`status`).
//!
//! Sources: developer.twitter.com/en/docs/twitter-api/v1/accounts-and-users/follow-search-get-users, recorded answers of 2022.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::exact_id;
use super::{TwitterV1, errors, limits};
use crate::model::account::{Account, AccountCounts, AccountState};
use crate::model::post::{BadId, TweetId};
use crate::providers::handles::Handles;
use crate::providers::id_outcomes::{assign_objects, distinct_ids, fold_handles, read_by_handle, read_object};
use crate::providers::lookup::{
    Answer, Capabilities, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects, decode_lossy, parse_list,
};
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;
use engine::base::activity::Activity;
use engine::base::clock::Millis;
use engine::quota::Credential;

pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: 100, charge: Charge::PerCall, endpoint: "users/lookup" };

#[derive(Debug, Clone)]
pub struct Accounts(pub TwitterV1);

#[async_trait]
impl Lookup<Account> for Accounts {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        // Exact to about a minute; `None` for ids from before 2016, which were assigned in sequence.
        TweetId::date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        self.request_accounts("user_id", ids, credential, |body| read(body, ids)).await
    }
}

#[async_trait]
impl Handles for Accounts {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn resolve(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let handles = fold_handles(handles);
        let read = |body: &[u8]| {
            assign_objects(&handles, parse_list(&decode_lossy(body), "accounts")?, read_by_handle(read_account))
        };
        self.request_accounts("screen_name", &handles, credential, read).await
    }
}

impl Accounts {
    async fn request_accounts(
        &self,
        by: &str,
        asked: &[String],
        credential: &Credential,
        read: impl FnOnce(&[u8]) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError>,
    ) -> Result<Answer<Account>, LookupError> {
        let Some(batch) = distinct_ids(asked, CAPABILITIES.batch_limit)? else { return Ok(Answer::empty()) };
        let joined = batch.join(",");
        let parameters = [(by, joined.as_str()), ("tweet_mode", "extended")];
        let reply = self.0.auth.call(&|| self.0.request(&self.0.accounts, &parameters), credential).await?;
        let quota = limits::quota(&reply);
        if errors::is_none_found(&reply) {
            return Ok(Answer::same_for_all(&Outcome::Unavailable, asked, quota));
        }
        // A refusal concerns this account only if it was requested alone.
        if let (Some(reason), [_]) = (errors::absence(&reply), &batch[..]) {
            return Ok(Answer::same_for_all(&Outcome::Absent(reason), asked, quota));
        }
        let reply = reply.require_json(|reply| self.0.refusal_error(reply, CAPABILITIES.endpoint, credential))?;
        reply.parse_outcomes(quota, read)
    }
}

/// Reads a list of accounts in any order, without the missing ones.
pub fn read(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError> {
    assign_objects(ids, parse_list(&decode_lossy(body), "accounts")?, read_account)
}

/// Reads one account, also an author in a post.
pub fn parse_account(raw: &str) -> Result<Account, UnreadableObject> {
    read_account(raw.trim()).1
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    id_str: Option<&'a RawValue>,
    #[serde(borrow)]
    screen_name: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    location: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    entities: Option<&'a RawValue>,
    #[serde(borrow)]
    profile_image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    profile_image_url_https: Option<&'a RawValue>,
    #[serde(borrow)]
    profile_banner_url: Option<&'a RawValue>,
    #[serde(borrow)]
    protected: Option<&'a RawValue>,
    #[serde(borrow)]
    verified: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    followers_count: Option<&'a RawValue>,
    #[serde(borrow)]
    friends_count: Option<&'a RawValue>,
    #[serde(borrow)]
    statuses_count: Option<&'a RawValue>,
    #[serde(borrow)]
    listed_count: Option<&'a RawValue>,
    #[serde(borrow)]
    favourites_count: Option<&'a RawValue>,
    #[serde(borrow)]
    withheld_in_countries: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Newest<'a> {
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
}

/// Reads a user object: its id, if readable, and the account or the reason why it is unreadable.
pub fn read_account(raw: &str) -> (Option<String>, Result<Account, UnreadableObject>) {
    let id = |user: &User<'_>| exact_id(user.id_str, user.id).map(|id| id.to_string());
    read_object(raw, "an account", id, |user, id| user.account(id, raw))
}

impl User<'_> {
    fn account(&self, id: String, raw: &str) -> Result<Account, UnreadableObject> {
        let handle = scalar::required_text(self.screen_name, "screen_name")?;
        // A whole object has null for an unset address, and leaves out a missing banner. Mentions are partial objects.
        let is_whole = self.followers_count.is_some();
        let text = |field| scalar::text(field, is_whole);
        let count = |field: Option<&RawValue>| field.and_then(scalar::count);
        let newest: Option<Newest<'_>> = scalar::value(self.status);
        let countries: Option<Vec<String>> = scalar::value(self.withheld_in_countries);
        let protected = scalar::value(self.protected);
        Ok(Account {
            id,
            handle: Some(handle),
            display_name: text(self.name),
            description: text(self.description),
            location: text(self.location),
            url: scalar::profile_address(self.url, self.entities, is_whole),
            picture: text(present(self.profile_image_url_https).or(self.profile_image_url)),
            banner: text(self.profile_banner_url),
            protected,
            verified: scalar::value(self.verified),
            created_at: scalar::date_or_none(self.created_at, scalar::twitter_date),
            counts: AccountCounts {
                followers: count(self.followers_count),
                following: count(self.friends_count),
                posts: count(self.statuses_count),
                listed: count(self.listed_count),
                likes: count(self.favourites_count),
            },
            last_post_at: newest.and_then(|post| scalar::date_or_none(post.created_at, scalar::twitter_date)),
            state: AccountState::from_protected(protected),
            // Objects from before 2019 lack the field.
            withheld_in: countries.map(|countries| countries.join(",")),
            moved_to: None,
            raw: raw.to_owned(),
            activity: Activity::default(),
        })
    }
}
