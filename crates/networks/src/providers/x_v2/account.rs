//! `GET /2/users`, by handle `/2/users/by`: up to 100 accounts per call, and 300 (app) or 900 (user) calls per 15 minutes at each.
//!
//! X charges $0.010 for each returned account, twice the price of a post, at most once per account and UTC day. Protected accounts are
//! returned. The others are in `errors` with a reason: not found (deleted, deactivated or never existing), or suspended.
//!
//! Sources: docs.x.com (x-api/users/lookup, x-api/getting-started/pricing), recorded answers of 2021, and for suspended accounts the
//! tests of gwu-libraries/sfm-twitter-harvester.

use std::borrow::Cow;
use std::collections::HashMap;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Subject, read_objects};
use super::post::withheld_in;
use super::{XV2, errors};
use crate::model::account::{Account, AccountCounts, AccountState};
use crate::model::post::{BadId, TweetId};
use crate::providers::handles::Handles;
use crate::providers::id_outcomes::{IdOutcomes, distinct_ids, fold_handles, read_by_handle, read_object};
use crate::providers::lookup::{Answer, Capabilities, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects};
use crate::providers::scalar::{self, present};
use crate::providers::unreadable::UnreadableObject;
use engine::base::activity::Activity;
use engine::base::clock::Millis;
use engine::quota::Credential;

pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: 100, charge: Charge::PerIdPerUtcDay, endpoint: "users" };

const BY_ID: Subject = Subject { parameter: "ids", resource: "user" };
const BY_HANDLE: Subject = Subject { parameter: "usernames", resource: "user" };

#[derive(Debug, Clone)]
pub struct Accounts(pub XV2);

#[async_trait]
impl Lookup<Account> for Accounts {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        // Exact to about a minute; `None` for ids from before 2016, which were assigned in sequence.
        TweetId::date_of(id)
    }

    fn read_keys(&self, id: &str) -> Vec<String> {
        read_keys(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        self.request_accounts(&self.0.accounts, BY_ID, ids, credential, |body| read(body, ids)).await
    }
}

#[async_trait]
impl Handles for Accounts {
    fn capabilities(&self) -> Capabilities {
        Capabilities { endpoint: "users/by", ..CAPABILITIES }
    }

    fn read_keys(&self, id: &str) -> Vec<String> {
        read_keys(id)
    }

    async fn resolve(&self, handles: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let handles = fold_handles(handles);
        let found = |asked: &mut IdOutcomes<'_, Account>, data: Vec<&RawValue>| {
            asked.assign(data, read_by_handle(|raw| read_account(raw, true)));
        };
        let read =
            |body: &[u8]| read_objects(body, BY_HANDLE, &handles, found, |problem| Outcome::Absent(problem.reason()));
        self.request_accounts(&self.0.handles, BY_HANDLE, &handles, credential, read).await
    }
}

impl Accounts {
    async fn request_accounts(
        &self,
        endpoint: &Url,
        subject: Subject,
        asked: &[String],
        credential: &Credential,
        read: impl FnOnce(&[u8]) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError>,
    ) -> Result<Answer<Account>, LookupError> {
        let Some(batch) = distinct_ids(asked, CAPABILITIES.batch_limit)? else { return Ok(Answer::empty()) };
        let mut address = endpoint.clone();
        let (name, fields) = self.0.fields.account_parameter();
        address.query_pairs_mut().append_pair(subject.parameter, &batch.join(",")).append_pair(name, &fields);
        let reply = self.0.get_json(&address, credential).await?;
        reply.parse_outcomes(errors::quota(&reply), read)
    }
}

/// Keys under which reads of an account are counted: it costs as much as two posts, and may have a post's id.
#[must_use]
pub fn read_keys(id: &str) -> Vec<String> {
    vec![format!("user:{id}"), format!("user:{id}:2")]
}

pub fn read(body: &[u8], ids: &[String]) -> Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError> {
    read_objects(body, BY_ID, ids, assign_accounts, |problem| Outcome::Absent(problem.reason()))
}

fn assign_accounts(asked: &mut IdOutcomes<'_, Account>, data: Vec<&RawValue>) {
    asked.assign(data, |raw| read_account(raw, true));
}

/// Reads one account, also one that came beside a post, with any fields.
pub fn parse_account(raw: &str) -> Result<Account, UnreadableObject> {
    read_account(raw.trim(), false).1
}

#[derive(Deserialize)]
struct User<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    username: Option<&'a RawValue>,
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
    profile_banner_url: Option<&'a RawValue>,
    #[serde(borrow)]
    protected: Option<&'a RawValue>,
    #[serde(borrow)]
    verified: Option<&'a RawValue>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow)]
    public_metrics: Option<&'a RawValue>,
    #[serde(borrow)]
    withheld: Option<&'a RawValue>,
    #[serde(borrow)]
    most_recent_tweet_id: Option<&'a RawValue>,
    #[serde(borrow)]
    most_recent_post_id: Option<&'a RawValue>,
}

/// Reads one account. `is_whole` is true if all fields were requested: X leaves out empty ones.
pub fn read_account(raw: &str, is_whole: bool) -> (Option<String>, Result<Account, UnreadableObject>) {
    let id = |user: &User<'_>| {
        let id = present(user.id).and_then(|id| scalar::id(id).ok());
        id.map(|id| id.to_string()).ok_or(UnreadableObject::Missing("id"))
    };
    read_object(raw, "an account", id, |user, id| user.account(id, raw, is_whole))
}

impl User<'_> {
    fn account(&self, id: String, raw: &str, is_whole: bool) -> Result<Account, UnreadableObject> {
        let handle = scalar::required_text(self.username, "username")?;
        let text = |field| scalar::text(field, is_whole);
        let counts: HashMap<Cow<'_, str>, &RawValue> = scalar::value(self.public_metrics).unwrap_or_default();
        let count = |name: &str| counts.get(name).and_then(|raw| scalar::count(raw));
        let newest = present(self.most_recent_tweet_id).or(present(self.most_recent_post_id));
        let protected = scalar::value(self.protected);
        Ok(Account {
            id,
            handle: Some(handle),
            display_name: text(self.name),
            description: text(self.description),
            location: text(self.location),
            url: scalar::profile_address(self.url, self.entities, is_whole),
            picture: text(self.profile_image_url),
            banner: text(self.profile_banner_url),
            protected,
            verified: scalar::value(self.verified),
            created_at: scalar::date_or_none(self.created_at, scalar::rfc3339),
            counts: AccountCounts {
                followers: count("followers_count"),
                following: count("following_count"),
                posts: count("tweet_count").or_else(|| count("post_count")),
                listed: count("listed_count"),
                likes: count("like_count"),
            },
            last_post_at: newest.and_then(|id| scalar::id(id).ok()?.created_at()),
            state: AccountState::from_protected(protected),
            withheld_in: match present(self.withheld) {
                None => is_whole.then(String::new),
                withheld => withheld_in(withheld),
            },
            moved_to: None,
            raw: raw.to_owned(),
            activity: Activity::default(),
        })
    }
}
