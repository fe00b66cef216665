//! Mastodon, `GET /api/v1/statuses?id[]=`: up to 20 statuses a call from 4.3 on, and one
//! (`GET /api/v1/statuses/{id}`) before.
//!
//! Every instance is a provider of its own, with its ids, limits and tokens. An id is opaque: letters and digits,
//! whatever the software. Public statuses need no token. What is deleted, private or unknown is left out, or a 404.
//! The stored text is the API's: HTML, as it came.
//!
//! Reading order: this file makes the call; `status` reads an object, `errors` turns a refusal into a decision; `account` is
//! the same for accounts,
//! `relations` for lists of followers and friends.
//! Sources: docs.joinmastodon.org (methods/statuses, api/rate-limits), the server's own code for the limit of 20
//! (mastodon/mastodon#27871), recorded answers of two instances.

pub mod account;
pub mod errors;
pub mod media;
pub mod named;
pub mod people;
pub mod relations;
pub mod status;
pub mod timeline;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;

pub use self::status::id_of;
use super::asked::{batch, share};
use crate::base::clock::{Millis, Stopwatch};
use crate::model::post::Tweet;
use crate::providers::auth::{self, asked_as_nobody};
use crate::providers::http::{HttpClient, HttpOptions, Reply, base, below, cannot_build};
use crate::providers::lookup::{
    Answer, Api, Capabilities, Charge, Lookup, LookupError, Outcome, Quota, Strangers, list, text, whole,
};
use crate::quota::{Credential, CredentialKind};

/// Ids in one call: the server's limit.
pub const BATCH_LIMIT: usize = 20;

/// Its capabilities since 4.3.
pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: BATCH_LIMIT, charge: Charge::PerCall, endpoint: "statuses" };

const STATUSES_PATH: &str = "api/v1/statuses";
const ACCOUNTS_PATH: &str = "api/v1/accounts";
const HANDLES_PATH: &str = "api/v1/accounts/lookup";
const INSTANCE_PATH: &str = "api/v2/instance";
/// The first form of the same, which every version has; the second came with 4.0.
const INSTANCE_V1_PATH: &str = "api/v1/instance";
const WHO_PATH: &str = "api/v1/apps/verify_credentials";

/// The remedy for a server that refuses anonymous requests.
const ADD_TOKEN: &str = "add a token for this server in the settings (mastodon.instances.NAME.bearer_token_file)";
/// The same where it is asked what it can, which is asked without a token.
const NAME_CALLS: &str = "say in the settings what it can (mastodon.instances.NAME.calls)";

/// The first version with batches.
const BATCHES_SINCE: (u32, u32) = (4, 3);

/// The times that an id of Mastodon's may hold, ms since the epoch. From 2016-01-01, before the first Mastodon: ids hold the
/// time since 2.0, and those that would be older are sequential. Until 2050-01-01: other software that shifts the time by
/// more bits (Pixelfed, Takahē) is beyond that a year and a quarter after the zero of its own time. No clock is asked, so an id
/// means the same everywhere.
const TIMES: Range<Millis> = 1_451_606_400_000..2_524_608_000_000;

/// For so long after an object was found, a bare 404 is about the one that was asked for. By default it takes twice as long until a
/// miss is believed: where everything is a 404 from some moment on, that is an outage again before any is.
const FOUND_WITHIN: Duration = Duration::from_secs(300);

/// The number of statuses in a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calls {
    /// Up to 20, since 4.3.
    #[default]
    Batch,
    /// One.
    Single,
}

impl Calls {
    /// Of a server that says it runs this version: `4.3.8`, `4.4.0-alpha.1+glitch`. Other software tells the version
    /// of the API that it follows first: `2.7.2 (compatible; Pleroma 2.5.0)`.
    #[must_use]
    pub fn of_version(version: &str) -> Self {
        let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= BATCHES_SINCE => Self::Batch,
            _ => Self::Single,
        }
    }
}

/// The address of the instance, and the limits of a call.
#[derive(Debug, Clone)]
pub struct MastodonOptions {
    /// `https://mastodon.social`; a path is kept in front of the endpoint's.
    pub base_url: String,
    /// The number of statuses in a call; [`Mastodon::learn`] asks the instance.
    pub calls: Calls,
    /// The bounds of a call. A status is 3 to 10 KB.
    pub http: HttpOptions,
}

impl MastodonOptions {
    /// The options of an instance, which has no default.
    #[must_use]
    pub fn of(base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), calls: Calls::default(), http: HttpOptions::default() }
    }
}

/// The provider: one instance.
#[derive(Debug, Clone)]
pub struct Mastodon {
    http: HttpClient,
    statuses: Url,
    accounts: Url,
    handles: Url,
    instance: Url,
    instance_v1: Url,
    who: Url,
    calls: Calls,
    /// Since an object was last found.
    found: Arc<Mutex<Option<Stopwatch>>>,
}

impl Mastodon {
    /// Builds it without calling anybody; an error where the options make no sense, in words for the
    /// person who set them.
    pub fn new(options: MastodonOptions) -> Result<Self, String> {
        let base = base(&options.base_url)?;
        let http = HttpClient::new(&options.http)?;
        let (statuses, accounts) = (below(&base, STATUSES_PATH)?, below(&base, ACCOUNTS_PATH)?);
        let handles = below(&base, HANDLES_PATH)?;
        let (instance, instance_v1) = (below(&base, INSTANCE_PATH)?, below(&base, INSTANCE_V1_PATH)?);
        let who = below(&base, WHO_PATH)?;
        let (calls, found) = (options.calls, Arc::default());
        Ok(Self { http, statuses, accounts, handles, instance, instance_v1, who, calls, found })
    }

    /// Asks the instance what it runs, and goes by that.
    ///
    /// # Errors
    /// The instance does not state its version.
    pub async fn learn(mut self) -> Result<Self, LookupError> {
        #[derive(Deserialize)]
        struct Instance {
            version: String,
        }
        let mut reply = self.ask(&self.instance).await?;
        // An older version, or whatever stands in front of the instance: the first form tells them apart.
        if reply.status == 404 {
            reply = self.ask(&self.instance_v1).await?;
        }
        if reply.status != 200 {
            let error = asked_as_nobody(errors::decide(&reply), &reply, &CredentialKind::Anonymous, NAME_CALLS);
            // What the instance has not said itself is no reason to go by for as long as the process runs.
            return Err(match error {
                LookupError::Credential(why) | LookupError::BadRequest(why) if !errors::says_error(&reply) => {
                    LookupError::Outage(why)
                }
                error => error,
            });
        }
        let instance: Option<Instance> = serde_json::from_slice(&reply.body).ok();
        let told = instance
            .ok_or_else(|| LookupError::BadAnswer(format!("it tells no version of the instance: {}", reply.what())))?;
        self.calls = Calls::of_version(&told.version);
        Ok(self)
    }

    /// A call without a token.
    async fn ask(&self, address: &Url) -> Result<Reply, LookupError> {
        let request = self.http.client().get(address.clone()).build().map_err(cannot_build)?;
        self.http.send(request).await
    }

    /// Asks for this many statuses a call, whatever the options said.
    #[must_use]
    pub fn with_calls(mut self, calls: Calls) -> Self {
        self.calls = calls;
        self
    }

    /// The address of a lookup of these ids at that endpoint.
    fn lookup_address(&self, endpoint: &Url, ids: &[&str]) -> Url {
        let mut address = endpoint.clone();
        match (self.calls, ids) {
            (Calls::Single, [id]) => {
                // An address that was joined has segments.
                if let Ok(mut segments) = address.path_segments_mut() {
                    segments.push(id);
                }
            }
            _ => {
                address.query_pairs_mut().extend_pairs(ids.iter().map(|id| ("id[]", id)));
            }
        }
        address
    }

    /// Returns true if the answer to a call for one object says that it is not there. Not all software puts an error into that
    /// 404 (Pixelfed's is empty). So does what stands in front of an instance that is out, whatever is asked for: without an
    /// error it counts only while objects are found.
    fn is_gone(&self, reply: &Reply) -> bool {
        let finds = || {
            let found = *self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.is_some_and(|since| since.elapsed() < FOUND_WITHIN)
        };
        errors::means_not_there(reply) || reply.status == 404 && finds()
    }

    /// The answer; notes if it has an object.
    fn noted<T>(&self, answer: Answer<T>) -> Answer<T> {
        if answer.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Found(_))) {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::start());
        }
        answer
    }

    /// Those capabilities, as far as the instance has them.
    fn limited(&self, since_4_3: Capabilities) -> Capabilities {
        match self.calls {
            Calls::Batch => since_4_3,
            Calls::Single => Capabilities { batch_limit: 1, ..since_4_3 },
        }
    }
}

#[async_trait]
impl Lookup for Mastodon {
    fn capabilities(&self) -> Capabilities {
        self.limited(CAPABILITIES)
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, String> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let Some(batch) = batch(ids, self.capabilities().batch_limit)? else { return Ok(Answer::empty()) };
        let reply = auth::get(&self.http, self.lookup_address(&self.statuses, &batch), credential).await?;
        let quota = errors::quota(&reply);
        if self.calls == Calls::Single && self.is_gone(&reply) {
            return Ok(Answer::all(&Outcome::Unavailable, ids, quota));
        }
        let reply = reply.json(|reply| refused(reply, &credential.kind))?;
        let answer = reply.answer(quota, |body| read_answer(body, ids, self.calls))?;
        Ok(self.noted(answer))
    }
}

#[async_trait]
impl Api for Mastodon {
    /// Asks whose token it is, or without one, what the instance is. An instance has one window for all calls, so
    /// this is one of the lookup's, too, and tells of it.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError> {
        let address = match credential.kind {
            CredentialKind::Anonymous => &self.instance,
            _ => &self.who,
        };
        let reply = auth::get(&self.http, address.clone(), credential).await?;
        let reply = reply.json(|reply| refused(reply, &credential.kind))?;
        Ok(errors::quota(&reply))
    }
}

/// The meaning of a refusal for the caller.
#[must_use]
pub fn refused(reply: &Reply, kind: &CredentialKind) -> LookupError {
    asked_as_nobody(errors::decide(reply), reply, kind, ADD_TOKEN)
}

/// When a status with this id was made, in ms since the epoch, where the id says so.
///
/// # Errors
/// Not a status id; says why.
pub fn date_of(id: &str) -> Result<Option<Millis>, String> {
    check_id(id)?;
    // 48 bits of milliseconds and 16 of a sequence. Other software's ids are not to be taken apart.
    let ms = id.parse::<u64>().ok().and_then(|id| Millis::try_from(id >> 16).ok());
    Ok(ms.filter(|ms| TIMES.contains(ms)))
}

/// Checks the form of an id.
///
/// # Errors
/// No instance has such ids; says why.
pub fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > 64 || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        return Err("the id is not one of an instance: 1 to 64 letters, digits, - and _".to_owned());
    }
    Ok(())
}

/// Reads one status.
///
/// # Errors
/// Not a status; a few words name the error.
pub fn parse_status(raw: &str) -> Result<Tweet, String> {
    status::read(raw.trim()).1
}

/// Reads a body: a list of statuses, or a status. Answers the outcomes in the order of `ids`, and how many statuses
/// nobody asked for.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, in words that do not repeat it.
pub fn read_answer(body: &[u8], ids: &[String], calls: Calls) -> Result<(Vec<Outcome>, Strangers), LookupError> {
    answered(body, ids, calls, ["statuses", "a status"], status::read)
}

/// Reads a body of those objects: a list of them, or one.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, in words that do not repeat it.
pub fn answered<T: Clone>(
    body: &[u8],
    ids: &[String],
    calls: Calls,
    [many, one]: [&str; 2],
    read: impl Fn(&str) -> (Option<String>, Result<T, String>),
) -> Result<(Vec<Outcome<T>>, Strangers), LookupError> {
    let body = text(body);
    let objects = match calls {
        Calls::Batch => list(&body, many)?,
        Calls::Single => {
            let object = whole(&body)?;
            // An error in a success has no id.
            if read(object.get()).0.is_none() {
                return Err(LookupError::BadAnswer(format!("it is not {one}")));
            }
            vec![object]
        }
    };
    share(ids, objects, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bare_404_is_about_one_object_only_while_others_are_found() {
        let instance = Mastodon::new(MastodonOptions::of("https://social.example.org")).unwrap();
        let ids = ["7".to_owned()];
        let bare = Reply::of(404, &[], "");
        assert!(!instance.is_gone(&bare) && instance.is_gone(&Reply::of(404, &[], r#"{"error":"Record not found"}"#)));
        instance.noted(Answer::all(&Outcome::<Tweet>::Unavailable, &ids, None));
        assert!(!instance.is_gone(&bare));
        instance.noted(Answer::all(&Outcome::Found(Tweet::default()), &ids, None));
        assert!(instance.is_gone(&bare) && !instance.is_gone(&Reply::of(503, &[], "")));
        tokio::time::advance(FOUND_WITHIN).await;
        assert!(!instance.is_gone(&bare), "all of it is out since");
    }
}
