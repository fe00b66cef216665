//! The seam to a provider: a batch of ids in, one outcome per *asked* id out.
//!
//! A provider states what it can take ([`Capabilities`]) and turns everything that can go wrong into
//! a decision ([`LookupError`]). It knows no queue and no store.
//!
//! Reading order: [`twitter_v1`](super::twitter_v1) is the first provider. Shared code: [`http`](super::http) makes the
//! exchange and [`auth`](super::auth) puts a credential on it, `asked` gives each asked id its one outcome, `scalar`
//! reads single values, `limits` what is said of the quota; [`registry`](super::registry) has what is known of an id
//! without a call.
//!
//! ```
//! use twitter_updater::quota::{Credential, CredentialKind};
//! use twitter_updater::providers::twitter_v1::{TwitterV1, TwitterV1Options};
//! use twitter_updater::providers::lookup::{Lookup, Outcome};
//! use twitter_updater::simulator::{self, SimulatorOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await?;
//! let lookup = TwitterV1::new(TwitterV1Options { base_url: api.base_url(), ..TwitterV1Options::default() })?;
//! let nobody = Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
//!
//! let tomorrow = twitter_updater::base::clock::wall_ms() + 86_400_000;
//! let nowhere_yet = twitter_updater::model::post::TweetId::at(tomorrow, 1).to_string();
//! let answer = lookup.look_up(&[nowhere_yet], &nobody).await?;
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

use crate::base::clock::Millis;
use crate::engine::error_log::ErrorKind;
use crate::engine::last_call::CallError;
use crate::model::account::Absence;
use crate::model::post::Tweet;
pub use crate::quota::Window as Quota;
use crate::quota::{Credential, Park};

/// The capabilities of a provider, and its charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The maximum number of ids in a call.
    pub batch_limit: usize,
    /// The unit of the quota.
    pub charge: Charge,
    /// The endpoint's name in the quota ledger (Twitter's windows are per endpoint).
    pub endpoint: &'static str,
}

impl Capabilities {
    /// Returns true if its calls use a quota, and so need a credential.
    #[must_use]
    pub const fn is_metered(&self) -> bool {
        !matches!(self.charge, Charge::Nothing)
    }
}

/// The unit of a provider's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// A call costs the same however many ids it carries: fill it, also with ids due a little later.
    PerCall,
    /// Every id costs: never ask for one before it is due.
    PerId,
    /// The quota counts calls, and money the ids, each once in a UTC day however often it is asked for: fill a
    /// call with what is due and nothing else.
    PerIdPerUtcDay,
    /// Nothing: the pipeline has no quota, and needs no credential.
    Nothing,
}

/// The outcome of one requested id.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T = Tweet> {
    /// Returned, perhaps withheld somewhere. Its own id may be a newer one (edits); the outcome stays with the asked id.
    Found(T),
    /// Not returned: deleted, suspended, protected or unknown; the answer states no reason.
    Unavailable,
    /// Not returned, and the answer states the reason. [`Absence::Protected`] can also be an item that the API refuses to a working
    /// credential. Code that does not keep the reason treats it as [`Outcome::Unavailable`].
    Absent(Absence),
    /// Returned without its content, and with the reason: it is as absent as the others, and its name is known (Mastodon).
    Emptied(T, Absence),
    /// Returned in a shape we cannot read; says what was wrong.
    Broken(String),
}

/// Unrequested objects of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strangers {
    /// Their number.
    pub count: usize,
    /// The first one's id, where it has one.
    pub first: Option<String>,
}

impl Strangers {
    /// One more.
    pub fn add(&mut self, id: Option<String>) {
        self.count += 1;
        if self.first.is_none() {
            self.first = id;
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer<T = Tweet> {
    /// One per asked id, in the order asked.
    pub outcomes: Vec<Outcome<T>>,
    /// The quota that it stated, if any.
    pub quota: Option<Quota>,
    /// Unrequested objects in the answer: logged, never stored.
    pub unsolicited: usize,
    /// The id of one of them, where it has one.
    pub stranger: Option<String>,
}

impl<T> Answer<T> {
    /// To nothing asked.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(Vec::new(), None, Strangers::default())
    }

    /// The same outcome for each of these ids.
    #[must_use]
    pub fn all(outcome: &Outcome<T>, ids: &[String], quota: Option<Quota>) -> Self
    where
        T: Clone,
    {
        Self::new(vec![outcome.clone(); ids.len()], quota, Strangers::default())
    }

    /// With these outcomes.
    #[must_use]
    pub fn new(outcomes: Vec<Outcome<T>>, quota: Option<Quota>, strangers: Strangers) -> Self {
        Self { outcomes, quota, unsolicited: strangers.count, stranger: strangers.first }
    }
}

/// Why a call gave no outcomes. The variants are decisions; none of them is any id's fault except
/// [`LookupError::BadRequest`], which may be.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The provider is down, unreachable or too slow: give the ids back and back off.
    #[error("the API is not available: {0}")]
    Outage(String),
    /// Like an outage, and the answer states a time (`Retry-After`): park the credential until then, too.
    #[error("the API is not available: {why}; it asks to wait for at least {} s", pause.as_secs())]
    Overloaded {
        /// The API's answer.
        why: String,
        /// Minimum pause of the credential.
        pause: Duration,
    },
    /// This credential has no calls left: park it and go on with the next.
    #[error("rate limited (HTTP {status}), for at least {} s", pause.as_secs())]
    Throttled {
        /// The HTTP status.
        status: u16,
        /// Minimum pause of the credential.
        pause: Duration,
        /// The quota that the answer stated.
        quota: Option<Quota>,
    },
    /// This credential is refused: park it for long, loudly, and go on with the others.
    #[error("the API refuses the credential: {0}")]
    Credential(String),
    /// This credential is of no use just now (its token cannot be fetched, or it is forbidden without a
    /// reason): leave it alone for a moment and go on with the next. An outage of the API only where nobody
    /// else is answered.
    #[error("the credential cannot be used at the moment: {0}")]
    Unready(String),
    /// Our clock is off: correct it by this many milliseconds (theirs minus ours), then call again.
    #[error("the API says our clock is off by {0} ms")]
    Clock(Millis),
    /// The queue's clock is wrong: no answer is believed, and nobody is to blame. Give the ids back and back off.
    #[error("{0}")]
    QueueClock(String),
    /// Too many ids or too long a request: halve the batch.
    #[error("the API says the batch is too large: {0}")]
    BatchTooLarge(String),
    /// The request is refused as a whole; one of its ids may be why: bisect.
    #[error("the API refuses the request: {0}")]
    BadRequest(String),
    /// The answer cannot be read; says why. Nothing is saved; treated as an outage.
    #[error("the API's answer cannot be read: {0}")]
    BadAnswer(String),
    /// The API can never work as configured: stop the process with this message.
    #[error("{0}")]
    Stop(String),
}

/// A credential the API refuses is left alone for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(15 * 60);
/// First pause of a credential that cannot be used at the moment.
const UNREADY_PAUSE: Duration = Duration::from_secs(5);

impl LookupError {
    /// How the credential that made the call is to be left alone, if it is: everywhere when it is refused
    /// or of no use, at this endpoint when it is out of quota.
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

    /// Returns true if the API refused the credential. An API answers in the same way if a working credential may not see the requested
    /// item: other calls with the same credential show the cause ([`crate::pipelines::blame`]).
    #[must_use]
    pub fn is_about_credential(&self) -> bool {
        matches!(self, Self::Credential(_) | Self::Unready(_))
    }

    /// Returns true if the provider has said that it returned nothing, so that nothing is charged. An outage or an
    /// answer that cannot be read may have been charged.
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
            // A window without calls ends by itself.
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

/// The way to look up items of one kind: posts, unless it says otherwise.
#[async_trait]
pub trait Lookup<T = Tweet>: Send + Sync + std::fmt::Debug {
    /// Its capabilities.
    fn capabilities(&self) -> Capabilities;

    /// When the item with this id was made, ms since the epoch, where the id itself says so.
    ///
    /// # Errors
    /// The id is not of this provider's form; says why.
    fn created_at(&self, id: &str) -> Result<Option<Millis>, String>;

    /// One call for `ids`, which are of this provider's form. An id that comes twice is asked for once. Nothing
    /// asked is answered without a call.
    ///
    /// # Errors
    /// The call gave no outcomes; each variant says what to do next. More than `batch_limit` are refused
    /// ([`LookupError::BatchTooLarge`]), without a call.
    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<T>, LookupError>;

    /// Returns true if the API states why an item is missing only in a call for it alone ([`Lookup::look_up_missing`]).
    fn explains_missing(&self) -> bool {
        false
    }

    /// One call for an id that an answer has left out: the reason, or the item itself.
    ///
    /// # Errors
    /// As [`Lookup::look_up`].
    async fn look_up_missing(&self, id: &str, credential: &Credential) -> Result<Answer<T>, LookupError> {
        self.look_up(&[id.to_owned()], credential).await
    }

    /// The keys under which an id is counted where reads are charged: one for each read that it costs.
    fn reads(&self, id: &str) -> Vec<String> {
        vec![id.to_owned()]
    }

    /// Returns true if each version of an edited post has an id of its own, so that an old id answers an old version.
    fn versions_have_ids(&self) -> bool {
        false
    }
}

/// The API of a provider, whatever is looked up at it.
#[async_trait]
pub trait Api: Send + Sync + std::fmt::Debug {
    /// Tries the credential by the provider's cheapest call, which spends none of a lookup's quota and says nothing of whether a lookup
    /// is allowed. Answers what the provider says of the window of posts, if it does.
    ///
    /// # Errors
    /// About the call that was made: being throttled there says nothing of the lookup's quota.
    async fn check(&self, credential: &Credential) -> Result<Option<Quota>, LookupError>;

    /// The provider's own count of charged posts; `None` if it does not charge.
    ///
    /// # Errors
    /// As [`Api::check`].
    async fn usage(&self, _credential: &Credential) -> Result<Option<Usage>, LookupError> {
        Ok(None)
    }
}

/// A provider's own count of charged posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Posts, in its current month.
    pub posts: u64,
    /// Posts that its plan includes, or allows; `None` where it tells none.
    pub cap: Option<u64>,
    /// The day of the month on which its count restarts, if it states it.
    pub reset_day: Option<u32>,
}

/// A body's text. One bad byte must not cost the other ninety-nine objects: it becomes U+FFFD, in whatever text it
/// stood. Looking for it takes several times as long as seeing that there is none.
pub(crate) fn text(body: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed)
}

/// The text of a body that is an object.
pub(crate) fn object(body: &[u8]) -> Result<Cow<'_, str>, LookupError> {
    let body = text(body);
    if !body.trim_start().starts_with('{') {
        let what = if body.trim().is_empty() { "it is empty" } else { "it is not an object" };
        return Err(LookupError::BadAnswer(what.to_owned()));
    }
    Ok(body)
}

/// The elements of a body that is a list; `of` says of what.
pub(crate) fn list<'a>(body: &'a str, of: &str) -> Result<Vec<&'a RawValue>, LookupError> {
    serde_json::from_str(whole(body)?.get()).map_err(|_| LookupError::BadAnswer(format!("it is not a list of {of}")))
}

/// A body that is one JSON value.
pub(crate) fn whole(body: &str) -> Result<&RawValue, LookupError> {
    if body.trim().is_empty() {
        return Err(LookupError::BadAnswer("it is empty".to_owned()));
    }
    serde_json::from_str(body).map_err(|error| not_json(&error))
}

/// The text about a body that is not JSON.
pub(crate) fn not_json(error: &serde_json::Error) -> LookupError {
    // serde_json's own text may quote the body.
    let what = if error.is_eof() { "it ends in the middle" } else { "it is not JSON" };
    LookupError::BadAnswer(format!("{what} (line {}, column {})", error.line(), error.column()))
}
