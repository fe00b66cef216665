//! Faults on demand: errors of an API, switched on for the next calls or until cleared.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::random::{mix, to_unit};

/// One fault. In JSON: `{"fault": "status", "status": 503, "code": 130}`.
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
    /// A literal response: for forms that no other fault has.
    Answer {
        /// The HTTP status, 200 to 599.
        status: u16,
        /// Without a `content-type` here, the response has none.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        body: String,
    },
    RateLimited {
        /// Time until the end of the used-up window, s. The response is 429 code 88.
        reset_s: u32,
    },
    /// 429 code 88 although the headers state that calls are left.
    TooFast,
    /// 420, the older form, without headers.
    Calm,
    /// The API accepts the call and never answers it.
    Timeout,
    /// The connection closes without a response.
    Close,
    /// The connection closes in the middle of the body.
    CutBody,
    /// A success with an HTML page.
    Html,
    /// A success that claims to be JSON and is not.
    NotJson,
    /// A success with the right length whose JSON ends in the middle.
    TruncatedJson,
    Oversized {
        /// Bytes of the body of a success.
        bytes: u64,
    },
    /// A success with JSON of another shape.
    WrongShape,
    /// A success that holds `{"errors": …}`.
    ErrorsInSuccess,
    /// The first post of the response has an id and no other readable field.
    BrokenTweet,
    AllMissing,
    SomeMissing {
        /// Share of the posts that are left out, 0 to 1: the same ones in every response.
        share: f64,
    },
    /// Every post comes twice (in the array form).
    Duplicates,
    /// The response contains an unrequested post.
    Unasked,
    Slow {
        /// Extra duration of the response, ms. Other faults may apply at the same time.
        ms: u64,
    },
    Drops {
        /// Number of posts after which a stream breaks off.
        after: u64,
    },
    Stalls {
        /// Number of posts after which a stream sends nothing more, not even blank lines.
        after: u64,
    },
    HalfLine {
        /// Number of posts after which a stream breaks off in the middle of the next post.
        after: u64,
    },
    /// A stream sends this line once, and goes on.
    Line {
        /// Number of posts before the line.
        after: u64,
        /// Without its line end.
        line: String,
    },
    /// The last page of each list of followers or friends is empty, unless it is the only one.
    EmptyLastPage,
    Poison {
        /// Every call with one of these ids fails as a whole, with a 400.
        ids: Vec<String>,
    },
}

impl Fault {
    /// Returns true if only a stream can have it.
    fn is_for_streams(&self) -> bool {
        matches!(self, Self::Drops { .. } | Self::Stalls { .. } | Self::HalfLine { .. } | Self::Line { .. })
    }

    /// Returns true if it spoils posts in a response, and not the whole response.
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
    #[default]
    Lookup,
    /// The lookup of one or many accounts, at every provider. Faults of single posts do not affect it.
    Accounts,
    /// A page of a list of followers or friends, at every provider. Faults of single posts do not affect it.
    Relations,
    /// A page of any timeline. Faults of single posts do not affect it.
    Timelines,
    /// `oauth2/token`. Faults of single posts do not affect it.
    Token,
    /// A stream's connection. Faults of single posts do not affect it.
    Stream,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    #[serde(flatten)]
    pub fault: Fault,
    #[serde(default)]
    pub at: Endpoint,
    /// Limits the fault to calls for one of these ids; for timelines, to these accounts, queries and lists. Empty: every call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Number of calls; `None`: until cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Share of the calls, 0 to 1.
    #[serde(default = "always")]
    pub probability: f64,
}

fn always() -> f64 {
    1.0
}

impl From<Fault> for Rule {
    /// Applies to every lookup until cleared.
    fn from(fault: Fault) -> Self {
        Self { fault, at: Endpoint::Lookup, asked: Vec::new(), times: None, probability: always() }
    }
}

/// The rules in force, in order. The first rule that applies to a call decides.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    draws: u64,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct FaultDraw {
    pub delay: Duration,
    pub fault: Option<Fault>,
}

impl Faults {
    pub fn add(&self, rule: impl Into<Rule>) {
        self.lock().rules.push(rule.into());
    }

    pub fn replace(&self, rules: Vec<Rule>) {
        self.lock().rules = rules;
    }

    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// The rules in force, with the remaining number of calls.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        self.lock().rules.clone()
    }

    pub(super) fn draw(&self, seed: u64, at: Endpoint, ids: &[&str]) -> FaultDraw {
        let mut state = self.lock();
        let State { rules, draws } = &mut *state;
        let mut drawn = FaultDraw::default();
        for rule in rules.iter_mut() {
            let asked = |some: &[String]| some.iter().any(|id| ids.contains(&id.as_str()));
            let concerns = match &rule.fault {
                Fault::Slow { .. } => true,
                _ if drawn.fault.is_some() => false,
                Fault::Poison { ids: poison } => asked(poison),
                Fault::EmptyLastPage => false,
                fault if fault.is_for_streams() => at == Endpoint::Stream,
                fault => at == Endpoint::Lookup || !fault.is_about_tweets(),
            };
            let concerns = concerns && rule.at == at && (rule.asked.is_empty() || asked(&rule.asked));
            if !concerns || rule.times == Some(0) {
                continue;
            }
            *draws += 1;
            if to_unit(mix(mix(seed) ^ *draws)) >= rule.probability {
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times = times.saturating_sub(1);
            }
            match &rule.fault {
                Fault::Slow { ms } => drawn.delay += Duration::from_millis(*ms),
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
