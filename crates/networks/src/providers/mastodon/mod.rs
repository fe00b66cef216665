//! Mastodon, `GET /api/v1/statuses?id[]=`: up to 20 statuses per call since 4.3, and one (`GET /api/v1/statuses/{id}`) before.
//!
//! Every instance is a separate provider with its own ids, limits and tokens. An id is opaque: letters and digits, whatever the
//! software. Public statuses need no token. Deleted, private and unknown statuses are left out, or a 404. The stored text is the
//! API's HTML, unchanged.
//!
//! Reading order: this file makes the call; `status` reads an object, `errors` turns a refusal into a decision; `account` is the
//! same for accounts, `relations` for lists of followers and friends. Sources: docs.joinmastodon.org (methods/statuses,
//! api/rate-limits), the server's own code for the limit of 20 (mastodon/mastodon#27871), recorded answers of two instances.

pub mod account;
mod batches;
mod description;
pub mod errors;
mod instance;
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
use tokio::sync::OnceCell;

use self::batches::BatchSupport;
pub use self::batches::Calls;
use self::description::InstanceAddress;
pub use self::status::read_id;
use super::id_outcomes::{assign_objects, distinct_ids};
use crate::model::post::{BadId, Tweet};
use crate::providers::auth::{self, explain_anonymous_refusal};
use crate::providers::http::{ClientError, HttpClient, HttpOptions, Reply, endpoint_url, parse_base_url};
use crate::providers::lookup::{
    Answer, Api, Capabilities, Charge, Lookup, LookupError, Outcome, Quota, UnsolicitedObjects, decode_lossy,
    parse_json, parse_list,
};
use crate::providers::unreadable::UnreadableObject;
use engine::base::clock::{Millis, Stopwatch};
use engine::base::random;
use engine::quota::{Credential, CredentialKind};

/// Ids per call: the server's limit.
pub const BATCH_LIMIT: usize = 20;

/// Capabilities since 4.3.
pub const CAPABILITIES: Capabilities =
    Capabilities { batch_limit: BATCH_LIMIT, charge: Charge::PerCall, endpoint: "statuses" };

const STATUSES_PATH: &str = "api/v1/statuses";
const ACCOUNTS_PATH: &str = "api/v1/accounts";
const HANDLES_PATH: &str = "api/v1/accounts/lookup";
const OWN_ACCOUNT_PATH: &str = "api/v1/apps/verify_credentials";

const ADD_TOKEN: &str = "add a token for this server in the settings (mastodon.instances.NAME.bearer_token_file)";
const NAME_CALLS: &str = "set its calls in the settings (mastodon.instances.NAME.calls)";

/// Times that an id of Mastodon's may hold, ms since the epoch: 2016-01-01, before the first Mastodon, to 2050-01-01. Older ids
/// are sequential, and other software (Pixelfed, Takahē) shifts the time by more bits. No clock is read: an id always means the same.
const TIMES: Range<Millis> = 1_451_606_400_000..2_524_608_000_000;

/// Time after a found object during which a bare 404 concerns the requested object. Confirming a miss takes longer, so an API
/// that answers every call with 404 becomes an outage before it confirms a miss.
const FOUND_WITHIN: Duration = Duration::from_secs(300);

#[derive(Debug, Clone)]
pub struct MastodonOptions {
    /// `https://mastodon.social`; a path stays in front of the endpoint's.
    pub base_url: String,
    /// Number of statuses per call; [`Mastodon::learn_calls`] asks the instance.
    pub calls: Calls,
    /// Limits of a call. A status is 3 to 10 KB.
    pub http: HttpOptions,
}

impl MastodonOptions {
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), calls: Calls::default(), http: HttpOptions::default() }
    }
}

#[derive(Debug, Clone)]
pub struct Mastodon {
    http: HttpClient,
    statuses: Url,
    accounts: Url,
    handles: Url,
    instance: InstanceAddress,
    own_account: Url,
    status_batches: BatchSupport,
    account_batches: BatchSupport,
    /// Name of the instance in handles; set on first use.
    domain: Arc<OnceCell<String>>,
    /// Time since an object was last found.
    last_found: Arc<Mutex<Option<Stopwatch>>>,
}

impl Mastodon {
    /// Builds the provider without a call. An error is in words for the person who set the options.
    pub fn new(options: MastodonOptions) -> Result<Self, ClientError> {
        let base = parse_base_url(&options.base_url)?;
        let http = HttpClient::new(&options.http)?;
        let (statuses, accounts) = (endpoint_url(&base, STATUSES_PATH)?, endpoint_url(&base, ACCOUNTS_PATH)?);
        let handles = endpoint_url(&base, HANDLES_PATH)?;
        let instance = InstanceAddress::new(&base)?;
        let own_account = endpoint_url(&base, OWN_ACCOUNT_PATH)?;
        let (status_batches, account_batches) =
            (BatchSupport::fixed(options.calls), BatchSupport::fixed(options.calls));
        let (domain, last_found) = (Arc::default(), Arc::default());
        Ok(Self {
            http,
            statuses,
            accounts,
            handles,
            instance,
            own_account,
            status_batches,
            account_batches,
            domain,
            last_found,
        })
    }

    /// Replaces the number of statuses per call of the options.
    #[must_use]
    pub fn with_calls(self, calls: Calls) -> Self {
        Self { status_batches: BatchSupport::fixed(calls), account_batches: BatchSupport::fixed(calls), ..self }
    }

    /// Uses the calls of the stated version, until an endpoint turns out to lack them.
    fn guess_calls(self, calls: Calls) -> Self {
        Self {
            status_batches: BatchSupport::from_version(calls),
            account_batches: BatchSupport::from_version(calls),
            ..self
        }
    }

    /// Makes one call for these ids at that endpoint. After an empty answer, a call for one id shows if the instance lacks batches.
    /// Both calls share the timeout of one.
    async fn call<T: Clone>(
        &self,
        (endpoint, batches, since_4_3): (&Url, &BatchSupport, Capabilities),
        ids: &[String],
        credential: &Credential,
        read: impl Fn(&Reply, &[String], Calls) -> Result<Answer<T>, LookupError>,
    ) -> Result<Answer<T>, LookupError> {
        let calls = batches.calls();
        let Some(batch) = distinct_ids(ids, capabilities_with(calls, since_4_3).batch_limit)? else {
            return Ok(Answer::empty());
        };
        let exchanges = async {
            let reply = auth::get(&self.http, lookup_address(endpoint, calls, &batch), credential).await?;
            let answer = read(&reply, ids, calls);
            if answer.as_ref().is_ok_and(returns_any) {
                batches.note_returned();
                return answer;
            }
            if calls == Calls::Single || !batches.may_lack(&reply) {
                return answer;
            }
            let id = batch[random::number() as usize % batch.len()];
            let one = auth::get(&self.http, lookup_address(endpoint, Calls::Single, &[id]), credential).await?;
            let single = match read(&one, &[id.to_owned()], Calls::Single) {
                Ok(single) if returns_any(&single) => single,
                _ => return answer,
            };
            batches.note_lacking();
            tracing::warn!(
                endpoint = endpoint.path(),
                status = reply.status,
                "the instance states Mastodon 4.3 or later but lacks calls for many ids: the updater requests one id per call from now on"
            );
            match &batch[..] {
                [_] => Ok(Answer { outcomes: vec![single.outcomes[0].clone(); ids.len()], ..single }),
                _ => Err(LookupError::BatchTooLarge(format!("{} ids, over the limit of 1 per call", batch.len()))),
            }
        };
        let answer = HttpClient::with_timeout(self.http.timeout(), exchanges).await?;
        Ok(self.note_found(answer))
    }
    /// Returns true if the requested object does not exist. Some software (Pixelfed) puts no error into that 404, and neither does a
    /// proxy in front of a failed instance. So a 404 without an error counts only while objects are found.
    fn is_gone(&self, reply: &Reply) -> bool {
        let finds = || {
            let last_found = *self.last_found.lock().unwrap_or_else(PoisonError::into_inner);
            last_found.is_some_and(|since| since.elapsed() < FOUND_WITHIN)
        };
        // 410 and 451 concern one object, too. But a closed instance answers every call with 410, so calls must have found
        // objects recently.
        errors::is_not_found(reply) || matches!(reply.status, 404 | 410 | 451) && finds()
    }

    fn note_found<T>(&self, answer: Answer<T>) -> Answer<T> {
        if returns_any(&answer) {
            *self.last_found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::start());
        }
        answer
    }
}

fn capabilities_with(calls: Calls, since_4_3: Capabilities) -> Capabilities {
    match calls {
        Calls::Batch => since_4_3,
        Calls::Single => Capabilities { batch_limit: 1, ..since_4_3 },
    }
}

fn lookup_address(endpoint: &Url, calls: Calls, ids: &[&str]) -> Url {
    let mut address = endpoint.clone();
    match (calls, ids) {
        (Calls::Single, [id]) => {
            // A joined address has segments.
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

fn returns_any<T>(answer: &Answer<T>) -> bool {
    answer.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Found(_)))
}

#[async_trait]
impl Lookup for Mastodon {
    fn capabilities(&self) -> Capabilities {
        capabilities_with(self.status_batches.calls(), CAPABILITIES)
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        date_of(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let read = |reply: &Reply, ids: &[String], calls| {
            let quota = errors::quota(reply);
            if calls == Calls::Single && self.is_gone(reply) {
                return Ok(Answer::same_for_all(&Outcome::Unavailable, ids, quota));
            }
            reply.check_json(|reply| refusal_error(reply, &credential.kind))?;
            reply.parse_outcomes(quota, |body| read_answer(body, ids, calls))
        };
        self.call((&self.statuses, &self.status_batches, CAPABILITIES), ids, credential, read).await
    }
}

#[async_trait]
impl Api for Mastodon {
    /// Requests the token's account. Without a token, or if the software cannot name the account, requests the instance's
    /// description. An instance has one quota window for all calls, so the answer's window is also the lookup's.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError> {
        let mut reply = match credential.kind {
            CredentialKind::Anonymous => self.instance.get(&self.http, credential).await?,
            _ => auth::get(&self.http, self.own_account.clone(), credential).await?,
        };
        if matches!(reply.status, 404 | 405 | 501) && !matches!(credential.kind, CredentialKind::Anonymous) {
            reply = self.instance.get(&self.http, credential).await?;
        }
        let reply = reply.require_json(|reply| refusal_error(reply, &credential.kind))?;
        Ok(errors::quota(&reply))
    }
}

#[must_use]
pub fn refusal_error(reply: &Reply, kind: &CredentialKind) -> LookupError {
    explain_anonymous_refusal(errors::decide(reply), reply, kind, ADD_TOKEN)
}

/// Creation time of a status, in ms since the epoch, if the id contains it. The error states why the id is invalid.
pub fn date_of(id: &str) -> Result<Option<Millis>, BadId> {
    check_id(id)?;
    // 48 bits of milliseconds and 16 of a sequence. Other software's ids have another layout.
    let ms = id.parse::<u64>().ok().and_then(|id| Millis::try_from(id >> 16).ok());
    Ok(ms.filter(|ms| TIMES.contains(ms)))
}

/// Checks the form of an id. The error states why no instance has such an id.
pub fn check_id(id: &str) -> Result<(), BadId> {
    if id.is_empty() || id.len() > 64 || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        return Err(BadId::Form("the id is not one of an instance: 1 to 64 letters, digits, - and _"));
    }
    Ok(())
}

pub fn parse_status(raw: &str) -> Result<Tweet, UnreadableObject> {
    status::read(raw.trim()).1
}

pub fn read_answer(
    body: &[u8],
    ids: &[String],
    calls: Calls,
) -> Result<(Vec<Outcome>, UnsolicitedObjects), LookupError> {
    read_objects(body, ids, calls, ["statuses", "a status"], status::read)
}

/// Reads a list of objects, or one object. [`LookupError::BadAnswer`] for a body of another shape does not repeat it.
pub fn read_objects<T: Clone>(
    body: &[u8],
    ids: &[String],
    calls: Calls,
    [many, one]: [&str; 2],
    read: impl Fn(&str) -> (Option<String>, Result<T, UnreadableObject>),
) -> Result<(Vec<Outcome<T>>, UnsolicitedObjects), LookupError> {
    let body = decode_lossy(body);
    let objects = match calls {
        Calls::Batch => parse_list(&body, many)?,
        Calls::Single => {
            let object = parse_json(&body)?;
            // An error in a success has no id.
            if read(object.get()).0.is_none() {
                return Err(LookupError::BadAnswer(format!("it is not {one}")));
            }
            vec![object]
        }
    };
    assign_objects(ids, objects, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bare_404_is_about_one_object_only_while_others_are_found() {
        let instance = Mastodon::new(MastodonOptions::new("https://social.example.org")).unwrap();
        let ids = ["7".to_owned()];
        let bare = Reply::for_test(404, &[], "");
        assert!(
            !instance.is_gone(&bare) && instance.is_gone(&Reply::for_test(404, &[], r#"{"error":"Record not found"}"#))
        );
        instance.note_found(Answer::same_for_all(&Outcome::<Tweet>::Unavailable, &ids, None));
        assert!(!instance.is_gone(&bare));
        instance.note_found(Answer::same_for_all(&Outcome::Found(Tweet::default()), &ids, None));
        assert!(instance.is_gone(&bare) && !instance.is_gone(&Reply::for_test(503, &[], "")));
        for status in [410, 451] {
            assert!(instance.is_gone(&Reply::for_test(status, &[], r#"{"error":"Gone"}"#)), "{status}");
        }
        tokio::time::advance(FOUND_WITHIN).await;
        assert!(!instance.is_gone(&bare), "all of it is out since");
    }
}
