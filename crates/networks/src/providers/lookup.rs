//! The seam to a provider: a batch of ids in, one outcome per *asked* id out.
//!
//! A provider states its limits ([`Capabilities`]) and turns every failure into a decision ([`LookupError`]). It knows no queue
//! and no store.
//!
//! Reading order: [`twitter_v1`](super::twitter_v1) is the first provider. [`http`](super::http) makes the exchange,
//! [`auth`](super::auth) adds the credential, and `id_outcomes` gives each requested id its one outcome.
//!
//! ```
//! use engine::quota::{Credential, CredentialKind};
//! use twitter_updater_networks::providers::twitter_v1::{TwitterV1, TwitterV1Options};
//! use twitter_updater_networks::providers::lookup::{Lookup, Outcome};
//! use simulator::{self, SimulatorOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await?;
//! let lookup = TwitterV1::new(TwitterV1Options { base_url: api.base_url(), ..TwitterV1Options::default() })?;
//! let anonymous = Credential { name: "anonymous".to_owned(), kind: CredentialKind::Anonymous };
//!
//! let tomorrow = engine::base::clock::wall_ms() + 86_400_000;
//! let nowhere_yet = twitter_updater_networks::model::post::TweetId::at(tomorrow, 1).to_string();
//! let answer = lookup.look_up(&[nowhere_yet], &anonymous).await?;
//! assert_eq!(answer.outcomes, [Outcome::Unavailable]); // one per asked id, in their order
//! assert!(answer.quota.is_some_and(|quota| quota.is_metered()));
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::account::Absence;
use crate::model::post::{BadId, Tweet};
use crate::providers::unreadable::UnreadableObject;
use engine::base::call_error::{CallError, ErrorKind};
use engine::base::clock::Millis;
pub use engine::quota::Window as Quota;
use engine::quota::{Credential, Park};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub batch_limit: usize,
    pub charge: Charge,
    /// Endpoint's name in the quota ledger; Twitter's windows are per endpoint.
    pub endpoint: &'static str,
}

impl Capabilities {
    /// Returns true if calls use a quota, and so need a credential.
    #[must_use]
    pub const fn is_metered(&self) -> bool {
        !matches!(self.charge, Charge::Nothing)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// A call costs the same for any number of ids: fill it, also with ids due a little later.
    PerCall,
    /// Every id costs: never request one before it is due.
    PerId,
    /// Calls use the quota, and ids cost money, each once per UTC day. Fill a call only with ids that are due.
    PerIdPerUtcDay,
    /// No quota: the pipeline needs no credential.
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T = Tweet> {
    /// Returned, perhaps withheld in some countries. Its own id may be newer (edits); the outcome belongs to the requested id.
    Found(T),
    /// Not returned, without a reason: deleted, suspended, protected or unknown.
    Unavailable,
    /// Not returned, with a reason. [`Absence::Protected`] can also be an item that a working credential may not see. Code that
    /// does not keep the reason treats it as [`Outcome::Unavailable`].
    Absent(Absence),
    /// Returned without its content, with a reason (Mastodon). It is as absent as the others, but its name is known.
    Emptied(T, Absence),
    /// Returned in an unreadable shape; holds the cause.
    Broken(String),
}

impl<T> From<Result<T, UnreadableObject>> for Outcome<T> {
    fn from(object: Result<T, UnreadableObject>) -> Self {
        object.map_or_else(|why| Self::Broken(why.to_string()), Self::Found)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsolicitedObjects {
    pub count: usize,
    pub first: Option<String>,
}

impl UnsolicitedObjects {
    pub fn add(&mut self, id: Option<String>) {
        self.count += 1;
        if self.first.is_none() {
            self.first = id;
        }
    }
}

#[derive(Debug, Clone)]
pub struct Answer<T = Tweet> {
    /// One per requested id, in the order asked.
    pub outcomes: Vec<Outcome<T>>,
    pub quota: Option<Quota>,
    /// Number of unrequested objects: logged, never stored.
    pub unsolicited: usize,
    pub first_unsolicited: Option<String>,
}

impl<T> Answer<T> {
    #[must_use]
    pub fn empty() -> Self {
        Self::new(Vec::new(), None, UnsolicitedObjects::default())
    }

    #[must_use]
    pub fn same_for_all(outcome: &Outcome<T>, ids: &[String], quota: Option<Quota>) -> Self
    where
        T: Clone,
    {
        Self::new(vec![outcome.clone(); ids.len()], quota, UnsolicitedObjects::default())
    }

    #[must_use]
    pub fn new(outcomes: Vec<Outcome<T>>, quota: Option<Quota>, unsolicited: UnsolicitedObjects) -> Self {
        Self { outcomes, quota, unsolicited: unsolicited.count, first_unsolicited: unsolicited.first }
    }
}

/// Reasons for a call without outcomes. Each variant is a decision. Only [`LookupError::BadRequest`] may be the fault of an id.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The provider is down, unreachable or too slow: release the ids and back off.
    #[error("the API is not available: {0}")]
    Outage(String),
    /// An outage with a stated time (`Retry-After`): also park the credential until then.
    #[error("the API is not available: {why}; it asks to wait for at least {} s", pause.as_secs())]
    Overloaded {
        why: String,
        /// Minimum pause of the credential.
        pause: Duration,
    },
    /// This credential has no calls left: park it and continue with the next.
    #[error("rate limited (HTTP {status}), for at least {} s", pause.as_secs())]
    Throttled {
        status: u16,
        /// Minimum pause of the credential.
        pause: Duration,
        quota: Option<Quota>,
    },
    /// The API refuses this credential: park it for long, report it loudly, and continue with the others.
    #[error("the API refuses the credential: {0}")]
    Credential(String),
    /// This credential is unusable now (its token cannot be fetched, or it is forbidden without a reason): park it briefly and
    /// continue with the next. It is an outage of the API only if no other credential gets an answer.
    #[error("the credential cannot be used at the moment: {0}")]
    Unready(String),
    /// Our clock is off by this number of milliseconds (theirs minus ours): correct it, then call again.
    #[error("the API says our clock is off by {0} ms")]
    Clock(Millis),
    /// The queue's clock is wrong: trust no answer, blame no id, release the ids and back off.
    #[error("{0}")]
    QueueClock(String),
    /// Too many ids or too long a request: halve the batch.
    #[error("the API says the batch is too large: {0}")]
    BatchTooLarge(String),
    /// The API refuses the whole request; one of its ids may be the cause: bisect.
    #[error("the API refuses the request: {0}")]
    BadRequest(String),
    /// The answer is unreadable, for the stated reason: save nothing, and treat it as an outage.
    #[error("the API's answer cannot be read: {0}")]
    BadAnswer(String),
    /// The API can never work as configured: stop the process with this message.
    #[error("{0}")]
    Stop(String),
}

/// Pause of a credential that the API refuses.
const REFUSED_PAUSE: Duration = Duration::from_secs(15 * 60);
/// First pause of a credential that is unusable now.
const UNREADY_PAUSE: Duration = Duration::from_secs(5);

impl LookupError {
    /// Pause of the credential that made the call: everywhere if it is refused or unusable, at this endpoint if out of quota.
    #[must_use]
    pub fn park(&self) -> Option<Park> {
        match self {
            Self::Throttled { pause, .. } | Self::Overloaded { pause, .. } => {
                Some(Park { pause: *pause, why: self.to_string(), everywhere: false })
            }
            Self::Credential(why) => Some(Park { pause: REFUSED_PAUSE, why: why.clone(), everywhere: true }),
            Self::Unready(_) => Some(Park { pause: UNREADY_PAUSE, why: self.to_string(), everywhere: true }),
            _ => None,
        }
    }

    /// Returns true if the API refused the credential. An API may answer the same if a working credential may not see the item:
    /// other calls with this credential show the cause (`pipelines::blame`).
    #[must_use]
    pub fn is_about_credential(&self) -> bool {
        matches!(self, Self::Credential(_) | Self::Unready(_))
    }

    /// Returns true if the call certainly returned no items, so that nothing is charged. Otherwise the answer may have been lost.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Throttled { .. }
            | Self::Credential(_)
            | Self::Clock(_)
            | Self::BatchTooLarge(_)
            | Self::BadRequest(_)
            | Self::Stop(_) => true,
            Self::Outage(_) | Self::Overloaded { .. } | Self::Unready(_) | Self::BadAnswer(_) | Self::QueueClock(_) => {
                false
            }
        }
    }
}

impl CallError for LookupError {
    fn is_outage(&self) -> bool {
        matches!(self, Self::Outage(_) | Self::Overloaded { .. } | Self::BadAnswer(_) | Self::QueueClock(_))
    }

    fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Outage(_) | Self::Overloaded { .. } => Some(ErrorKind::NoAnswer),
            Self::BadAnswer(_) => Some(ErrorKind::BadAnswer),
            Self::QueueClock(_) => Some(ErrorKind::Clock),
            Self::Stop(_) => Some(ErrorKind::Stopped),
            // A used-up window ends on its own.
            Self::Throttled { quota, .. } => {
                let is_used_up = quota.is_some_and(|quota| quota.remaining == 0);
                (!is_used_up).then_some(ErrorKind::RateLimit)
            }
            Self::Credential(_) | Self::Unready(_) | Self::Clock(_) | Self::BatchTooLarge(_) | Self::BadRequest(_) => {
                None
            }
        }
    }
}

/// Looks up items of one kind: posts by default.
#[async_trait]
pub trait Lookup<T = Tweet>: Send + Sync + std::fmt::Debug {
    fn capabilities(&self) -> Capabilities;

    /// Creation time of an item, ms since the epoch, if the id contains it. An id that is not of this provider's form is an error.
    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId>;

    /// Makes one call for `ids`, which have this provider's form. A repeated id is requested once. An empty list needs no call.
    ///
    /// # Errors
    /// Each variant states the next step. More than `batch_limit` ids fail without a call ([`LookupError::BatchTooLarge`]).
    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<T>, LookupError>;

    /// Returns true if the API states why an item is missing only in a call for it alone ([`Lookup::look_up_missing`]).
    fn explains_missing(&self) -> bool {
        false
    }

    /// Requests the reason for one missing id; the answer may be the item itself.
    async fn look_up_missing(&self, id: &str, credential: &Credential) -> Result<Answer<T>, LookupError> {
        self.look_up(&[id.to_owned()], credential).await
    }

    /// Keys under which an id is counted if reads are charged: one per read that it costs.
    fn read_keys(&self, id: &str) -> Vec<String> {
        vec![id.to_owned()]
    }

    /// Returns true if each version of an edited post has its own id, so an old id returns an old version.
    fn versions_have_ids(&self) -> bool {
        false
    }
}

/// Calls of a provider's API that serve all kinds of items.
#[async_trait]
pub trait Api: Send + Sync + std::fmt::Debug {
    /// Tests the credential with the provider's cheapest call. It uses none of a lookup's quota, and does not show that a lookup
    /// is allowed. Returns the quota window of posts if the provider states it.
    ///
    /// # Errors
    /// They concern this call only: its throttling says nothing about the lookup's quota.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError>;

    /// Returns true if the window that a check states is that of this endpoint.
    fn states_window_of(&self, _endpoint: &str) -> bool {
        true
    }

    /// Provider's own count of charged posts; `None` if the provider does not charge.
    async fn usage(&self, _credential: &Credential) -> Result<Option<Usage>, LookupError> {
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Posts in the provider's current month.
    pub posts: u64,
    /// Posts that the plan allows per month; `None` if the provider states no cap.
    pub cap: Option<u64>,
    /// Day of the month on which the count restarts, if stated.
    pub reset_day: Option<u32>,
}

/// Text of a body. A bad byte becomes U+FFFD: it must not cost the other objects. Valid bodies, the usual case, are not copied.
pub(crate) fn decode_lossy(body: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed)
}

pub(crate) fn require_object(body: &[u8]) -> Result<Cow<'_, str>, LookupError> {
    let body = decode_lossy(body);
    if !body.trim_start().starts_with('{') {
        let what = if body.trim().is_empty() { "it is empty" } else { "it is not an object" };
        return Err(LookupError::BadAnswer(what.to_owned()));
    }
    Ok(body)
}

/// Elements of a body that must be a list; `of` names them in the error.
pub(crate) fn parse_list<'a>(body: &'a str, of: &str) -> Result<Vec<&'a RawValue>, LookupError> {
    serde_json::from_str(parse_json(body)?.get())
        .map_err(|_| LookupError::BadAnswer(format!("it is not a list of {of}")))
}

pub(crate) fn parse_json(body: &str) -> Result<&RawValue, LookupError> {
    if body.trim().is_empty() {
        return Err(LookupError::BadAnswer("it is empty".to_owned()));
    }
    serde_json::from_str(body).map_err(|error| json_error(&error))
}

pub(crate) fn json_error(error: &serde_json::Error) -> LookupError {
    // serde_json's own text may quote the body.
    let what = if error.is_eof() { "it ends in the middle" } else { "it is not JSON" };
    LookupError::BadAnswer(format!("{what} (line {}, column {})", error.line(), error.column()))
}
