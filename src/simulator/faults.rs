//! Faults on demand: what can go wrong with an API, switched on for the next calls or until cleared.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::dice::{mix, unit};

/// One thing that goes wrong. In JSON: `{"fault": "status", "status": 503, "code": 130}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// An error status: with a code as `{"errors": [{"code", "message"}]}`, without one as a front
    /// server's HTML page.
    Status {
        /// The HTTP status, 300 to 599.
        status: u16,
        /// Twitter's error code.
        #[serde(default)]
        code: Option<u32>,
    },
    /// An answer in these words: for forms that no other fault has.
    Answer {
        /// The HTTP status, 200 to 599.
        status: u16,
        /// Its headers. Without a `content-type` it has none.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// Its body.
        #[serde(default)]
        body: String,
    },
    /// 429 code 88 with a window that is used up.
    RateLimited {
        /// Until the window's end, in seconds.
        reset_s: u32,
    },
    /// 429 code 88 while the headers say that calls are left.
    TooFast,
    /// 420, the older form, without headers.
    Calm,
    /// The call is taken and never answered.
    Timeout,
    /// The connection closes without an answer.
    Close,
    /// The connection closes in the middle of the body.
    CutBody,
    /// A success with an HTML page.
    Html,
    /// A success that calls itself JSON and is none.
    NotJson,
    /// A success with the right length whose JSON ends in the middle.
    TruncatedJson,
    /// A success with a body of this many bytes.
    Oversized {
        /// Bytes of the body.
        bytes: u64,
    },
    /// A success with JSON of another shape.
    WrongShape,
    /// A success that holds `{"errors": …}`.
    ErrorsInSuccess,
    /// The first tweet of the answer has an id and nothing else that can be read.
    BrokenTweet,
    /// No tweet is there.
    AllMissing,
    /// So large a part of the tweets is left out, the same ones in every answer.
    SomeMissing {
        /// The share, 0 to 1.
        share: f64,
    },
    /// Every tweet comes twice (in the array form).
    Duplicates,
    /// The answer contains an unrequested tweet.
    Unasked,
    /// The answer takes longer; what it is, other faults decide.
    Slow {
        /// Extra milliseconds.
        ms: u64,
    },
    /// A stream breaks off after this many posts.
    Drops {
        /// Posts before it.
        after: u64,
    },
    /// A stream says nothing more after so many posts, not even that it lives.
    Stalls {
        /// Posts before it.
        after: u64,
    },
    /// A stream breaks off in the middle of the post after so many.
    HalfLine {
        /// Posts before it.
        after: u64,
    },
    /// After so many posts a stream says this, once, and goes on.
    Line {
        /// Posts before it.
        after: u64,
        /// The line, without its end.
        line: String,
    },
    /// The last page of each list of followers or friends is empty, unless it is the only one.
    EmptyLastPage,
    /// Every call that asks for one of these ids fails whole, with a 400.
    Poison {
        /// The ids.
        ids: Vec<String>,
    },
}

impl Fault {
    /// Returns true if it is something that a stream alone does.
    fn is_of_streams(&self) -> bool {
        matches!(self, Self::Drops { .. } | Self::Stalls { .. } | Self::HalfLine { .. } | Self::Line { .. })
    }

    /// Returns true if it spoils the tweets of an answer, and not the answer.
    fn is_about_tweets(&self) -> bool {
        matches!(
            self,
            Self::BrokenTweet
                | Self::AllMissing
                | Self::SomeMissing { .. }
                | Self::Duplicates
                | Self::Unasked
                | Self::Poison { .. }
        )
    }
}

/// The calls that a fault affects. In JSON: `"lookup"`, `"accounts"`, `"relations"`, `"token"`, `"stream"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// The lookup, whosever it is.
    #[default]
    Lookup,
    /// The lookup of accounts, whosever it is, of one or many. What is about tweets does not concern it.
    Accounts,
    /// A page of a list of followers or friends, whosever it is. What is about tweets does not concern it.
    Relations,
    /// A page of any timeline. Faults of single tweets do not affect it.
    Timelines,
    /// `oauth2/token`. What is about tweets does not concern it.
    Token,
    /// A stream's connection. Faults of single tweets do not affect it.
    Stream,
}

/// A fault and when it applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
    /// Where.
    #[serde(default)]
    pub at: Endpoint,
    /// Limits the fault to calls for one of these ids; for timelines, to these accounts, queries and lists. Empty: every call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// For so many calls; until cleared where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The share of calls it applies to, 0 to 1.
    #[serde(default = "always")]
    pub probability: f64,
}

fn always() -> f64 {
    1.0
}

impl From<Fault> for Rule {
    /// On every call until cleared.
    fn from(fault: Fault) -> Self {
        Self { fault, at: Endpoint::Lookup, asked: Vec::new(), times: None, probability: always() }
    }
}

/// The rules in force, in order; the first that applies to a call is what happens to it.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    throws: u64,
}

/// The effect on one call.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Drawn {
    pub slower: Duration,
    pub fault: Option<Fault>,
}

impl Faults {
    /// Adds a rule behind those in force.
    pub fn add(&self, rule: impl Into<Rule>) {
        self.lock().rules.push(rule.into());
    }

    /// Makes these the rules in force.
    pub fn replace(&self, rules: Vec<Rule>) {
        self.lock().rules = rules;
    }

    /// Ends every fault.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// The rules in force, with the times that are left.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        self.lock().rules.clone()
    }

    /// Decides what happens to a call for these ids, and counts it.
    pub(super) fn draw(&self, seed: u64, at: Endpoint, ids: &[&str]) -> Drawn {
        let mut state = self.lock();
        let State { rules, throws } = &mut *state;
        let mut drawn = Drawn::default();
        for rule in rules.iter_mut() {
            let asked = |some: &[String]| some.iter().any(|id| ids.contains(&id.as_str()));
            let concerns = match &rule.fault {
                Fault::Slow { .. } => true,
                _ if drawn.fault.is_some() => false,
                Fault::Poison { ids: poison } => asked(poison),
                Fault::EmptyLastPage => false,
                fault if fault.is_of_streams() => at == Endpoint::Stream,
                fault => at == Endpoint::Lookup || !fault.is_about_tweets(),
            };
            let concerns = concerns && rule.at == at && (rule.asked.is_empty() || asked(&rule.asked));
            if !concerns || rule.times == Some(0) {
                continue;
            }
            *throws += 1;
            if unit(mix(mix(seed) ^ *throws)) >= rule.probability {
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times = times.saturating_sub(1);
            }
            match &rule.fault {
                Fault::Slow { ms } => drawn.slower += Duration::from_millis(*ms),
                fault => drawn.fault = Some(fault.clone()),
            }
        }
        rules.retain(|rule| rule.times != Some(0));
        drawn
    }

    /// Returns true while a rule has [`Fault::EmptyLastPage`]. It changes lists, not single calls.
    pub(super) fn empties_last_pages(&self) -> bool {
        self.lock().rules.iter().any(|rule| rule.fault == Fault::EmptyLastPage)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
