//! A scripted Twitter: what each tweet does, how the API is, and its quota windows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use twitter_updater::base::clock::Millis;
use twitter_updater::base::random;
use twitter_updater::model::post::{BadId, Metrics, Tweet, TweetId};
use twitter_updater::providers::lookup::UnsolicitedObjects;
use twitter_updater::providers::lookup::{Answer, Capabilities, Charge, LookupError, Outcome, Quota};

use super::watch::{Log, names};
use super::world::ORIGIN;
use crate::support::memory_queue::ServiceClock;

pub const ENDPOINT: &str = "statuses/lookup";
/// A quota window.
const WINDOW: Millis = 60_000;

/// What becomes of a tweet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    Lives,
    /// Withheld every other minute.
    Withheld,
    /// Comes broken every other minute.
    Broken,
    /// Gone from then on.
    GoneAt(Millis),
    /// There and gone by turns of so long.
    Flaps(Millis),
    /// A request that holds it is refused as a whole, until then.
    PoisonUntil(Millis),
    /// Whoever reads an answer about it dies.
    Kills,
}

/// A refusal of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// 429, and the headers say that calls are left.
    TooFast,
    /// 429 with `Retry-After: 0`.
    AtOnce,
    /// 429 with a window that has just ended.
    ResetPast,
    /// 429 without headers.
    NoHeaders,
    /// 503 with `Retry-After`, in seconds.
    Overloaded(u64),
    /// 403 without a reason.
    Forbidden,
}

impl Refusal {
    fn error(self, quota: Quota) -> LookupError {
        let throttled =
            |seconds, quota| LookupError::Throttled { status: 429, pause: Duration::from_secs(seconds), quota };
        match self {
            Self::TooFast => throttled(5, Some(quota)),
            Self::AtOnce => throttled(1, None),
            Self::ResetPast => throttled(1, Some(Quota { remaining: 0, reset_in: -5_000, ..quota })),
            Self::NoHeaders => throttled(60, None),
            Self::Overloaded(seconds) => {
                LookupError::Overloaded { why: "HTTP 503".to_owned(), pause: Duration::from_secs(seconds) }
            }
            Self::Forbidden => LookupError::Unready("HTTP 403".to_owned()),
        }
    }
}

/// How the API is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Works,
    OverCapacity,
    Silent,
    Rubbish,
    Throttles,
    /// It works, and we have no room for what it gives.
    Full,
    /// Every call is refused.
    Refuses(Refusal),
    /// The API refuses every second call.
    Alternates,
}

/// One call as it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub at: Millis,
    pub process: usize,
}

/// An answered call.
#[derive(Debug, Clone)]
pub struct Answered {
    pub at: Millis,
    pub credential: String,
    pub is_refused: bool,
}

#[derive(Debug)]
pub struct Provider {
    /// Its own clock, which nobody puts forward or back.
    clock: Arc<ServiceClock>,
    log: Arc<Log>,
    tweets: Mutex<BTreeMap<String, Nature>>,
    inner: Mutex<Inner>,
    calls_per_window: u32,
}

#[derive(Debug)]
struct Inner {
    mood: Mood,
    /// The share of posts that an answer leaves out, by lot.
    left_out: f64,
    killing: bool,
    /// Calls by credential and window.
    used: BTreeMap<(String, Millis), u32>,
    calls: Vec<Call>,
    answered: Vec<Answered>,
}

pub fn capabilities() -> Capabilities {
    Capabilities { batch_limit: 100, charge: Charge::PerCall, endpoint: ENDPOINT }
}

impl Provider {
    pub fn new(clock: Arc<ServiceClock>, log: Arc<Log>, calls_per_window: u32) -> Arc<Self> {
        let inner = Inner {
            mood: Mood::Works,
            left_out: 0.0,
            killing: true,
            used: BTreeMap::new(),
            calls: Vec::new(),
            answered: Vec::new(),
        };
        Arc::new(Self { clock, log, tweets: Mutex::default(), inner: Mutex::new(inner), calls_per_window })
    }

    pub fn created_at(id: &str) -> Result<Option<Millis>, BadId> {
        TweetId::date_of(id)
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub fn add(&self, id: &str, nature: Nature) {
        self.tweets.lock().unwrap().insert(id.to_owned(), nature);
    }

    pub fn nature(&self, id: &str) -> Option<Nature> {
        self.tweets.lock().unwrap().get(id).copied()
    }

    /// Whether requests that hold it are refused now.
    pub fn is_poison(&self, id: &str) -> bool {
        matches!(self.nature(id), Some(Nature::PoisonUntil(until)) if self.now() < until)
    }

    pub fn mood(&self) -> Mood {
        self.inner.lock().unwrap().mood
    }

    pub fn set(&self, mood: Mood) {
        self.inner.lock().unwrap().mood = mood;
    }

    /// From now on answers leave out that share of the posts, by lot.
    pub fn leave_out(&self, share: f64) {
        self.inner.lock().unwrap().left_out = share;
    }

    /// The bug that made some answers deadly is mended.
    pub fn kill_no_more(&self) {
        self.inner.lock().unwrap().killing = false;
    }

    pub fn kills(&self, ids: &[String]) -> bool {
        self.inner.lock().unwrap().killing && ids.iter().any(|id| self.nature(id) == Some(Nature::Kills))
    }

    pub fn note_call(&self, process: usize, ids: &[String]) {
        self.log.note(format_args!("process {process} looks up {}", names(ids.iter())));
        let call = Call { at: self.now(), process };
        self.inner.lock().unwrap().calls.push(call);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inner.lock().unwrap().calls.clone()
    }

    /// Calls that reached it, in their order.
    pub fn answered(&self) -> Vec<Answered> {
        self.inner.lock().unwrap().answered.clone()
    }

    pub async fn answer(&self, ids: &[String], credential: &str) -> Result<Answer, LookupError> {
        let answer = self.decide(ids, credential).await;
        let (at, credential, is_refused) = (self.now(), credential.to_owned(), answer.is_err());
        self.inner.lock().unwrap().answered.push(Answered { at, credential, is_refused });
        answer
    }

    async fn decide(&self, ids: &[String], credential: &str) -> Result<Answer, LookupError> {
        let mood = self.mood();
        if mood == Mood::Silent {
            std::future::pending::<()>().await;
        }
        let quota = self.count(credential);
        let throttled = |quota: Quota| LookupError::Throttled {
            status: 429,
            pause: Duration::from_millis(quota.reset_in as u64),
            quota: Some(Quota { remaining: 0, ..quota }),
        };
        match mood {
            Mood::OverCapacity => return Err(LookupError::Outage("HTTP 503".to_owned())),
            Mood::Rubbish => return Err(LookupError::BadAnswer("an HTML page".to_owned())),
            Mood::Throttles => return Err(throttled(quota.unwrap_or_else(|full| full))),
            Mood::Refuses(refusal) => return Err(refusal.error(quota.unwrap_or_else(|full| full))),
            Mood::Alternates => {
                let was_refused = self.answered().last().is_some_and(|call| call.is_refused);
                if !was_refused {
                    return Err(Refusal::AtOnce.error(quota.unwrap_or_else(|full| full)));
                }
            }
            Mood::Works | Mood::Silent | Mood::Full => {}
        }
        let quota = quota.map_err(throttled)?;
        if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() || ids.is_empty() {
            self.log.wrong(format_args!("the ids of a call are not distinct: {ids:?}"));
        }
        if ids.iter().any(|id| self.is_poison(id)) {
            return Err(LookupError::BadRequest("HTTP 400".to_owned()));
        }
        let left_out = self.inner.lock().unwrap().left_out;
        let is_left_out = || left_out > 0.0 && random::fraction() < left_out;
        let outcome = |id: &String| if is_left_out() { Outcome::Unavailable } else { self.outcome(id) };
        let outcomes = ids.iter().map(outcome).collect();
        Ok(Answer::new(outcomes, Some(quota), UnsolicitedObjects::default()))
    }

    /// Counts a call; `Err` when the window is used up.
    fn count(&self, credential: &str) -> Result<Quota, Quota> {
        let now = self.now();
        let window = now.div_euclid(WINDOW);
        let reset_at = (window + 1) * WINDOW;
        let mut inner = self.inner.lock().unwrap();
        let used = inner.used.entry((credential.to_owned(), window)).or_default();
        let full = *used >= self.calls_per_window;
        *used += u32::from(!full);
        let remaining = self.calls_per_window - *used;
        let quota = Quota { limit: self.calls_per_window, remaining, reset_at, reset_in: reset_at - now, length: None };
        if full { Err(quota) } else { Ok(quota) }
    }

    fn outcome(&self, id: &str) -> Outcome {
        let now = self.now();
        let odd_minute = now.div_euclid(60_000) % 2 == 1;
        match self.nature(id) {
            Some(Nature::Withheld) if odd_minute => {
                Outcome::Found(Tweet { text: None, withheld_in: Some("XY".to_owned()), ..self.tweet(id) })
            }
            Some(Nature::Broken) if odd_minute => Outcome::Broken("no id".to_owned()),
            Some(Nature::GoneAt(since)) if now >= since => Outcome::Unavailable,
            Some(Nature::Flaps(turn)) if now.div_euclid(turn) % 2 == 1 => Outcome::Unavailable,
            Some(_) => Outcome::Found(self.tweet(id)),
            None => Outcome::Unavailable,
        }
    }

    /// A tweet whose count says when it was read.
    fn tweet(&self, id: &str) -> Tweet {
        Tweet {
            id: id.to_owned(),
            created_at: Self::created_at(id).unwrap(),
            text: Some("text".to_owned()),
            author_id: None,
            author_name: None,
            metrics: Metrics {
                retweet_count: Some(self.now()),
                favorite_count: Some(likes(id, self.now())),
                ..Metrics::default()
            },
            raw: String::new(),
            ..Tweet::default()
        }
    }
}

/// Some posts are never liked, others up to 64 times a second.
fn likes(id: &str, now: Millis) -> i64 {
    let seconds = (now - ORIGIN) / 1_000;
    match id.bytes().map(u32::from).sum::<u32>() % 5 {
        0 => 0,
        busy => seconds.max(0) * (1 << (2 * (busy - 1))),
    }
}
