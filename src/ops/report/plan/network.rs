//! The demand of items on a network, compared with the calls and reads that it grants. Pure.

use std::fmt;

use serde::Serialize;

use super::reads::{self, ReadCost, ReadTerms};
use crate::table::Table;
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, span};
use networks::model::provider::Provider;

/// Part of a number that is a rounding error.
pub(super) const ROUNDING: f64 = 1e-12;
/// Returns the empty lines of a plan.
pub(super) fn figures() -> Table {
    Table::figures(24, 14)
}

/// Calls per window of 15 minutes of one credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    pub user: u32,
    pub app: u32,
}

/// The limits of `statuses/lookup` (Twitter's page on rate limits, v1.1).
pub const TWITTER_CALLS: CallLimits = CallLimits { user: 900, app: 300 };
/// The limits of `GET /2/tweets` (X's page on rate limits, August 2026).
pub const X_CALLS: CallLimits = CallLimits { user: 5_000, app: 3_500 };
/// The limits of `users/lookup` of v1.1, and of `GET /2/users` (both pages on rate limits, August 2026).
pub const ACCOUNT_CALLS: CallLimits = CallLimits { user: 900, app: 300 };
/// The limits of a Mastodon instance: 300 calls per 5 minutes, shared with all other calls (its documentation of rate limits).
const MASTODON_CALLS: CallLimits = CallLimits { user: 900, app: 900 };
/// The limits of `followers/ids` and `friends/ids` of v1.1, each on its own (both pages on rate limits, August 2026).
pub const LIST_CALLS: CallLimits = CallLimits { user: 15, app: 15 };
/// The limits of `GET /2/users/:id/followers` and `/following`, each on its own (X's page on rate limits, August 2026).
pub const X_LIST_CALLS: CallLimits = CallLimits { user: 300, app: 300 };

impl CallLimits {
    /// Returns the numbers of user credentials and of app-only credentials, each without the other, that these calls need.
    #[must_use]
    pub fn credentials_for(self, calls_per_15_min: f64) -> [u64; 2] {
        let needed = |calls: u32| (calls_per_15_min / f64::from(calls) * (1.0 - ROUNDING)).ceil() as u64;
        [needed(self.user), needed(self.app)]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CredentialCounts {
    pub user: u32,
    pub app: u32,
}

impl CredentialCounts {
    /// Returns the calls per 15 minutes.
    #[must_use]
    pub fn calls(self, limits: CallLimits) -> f64 {
        f64::from(self.user) * f64::from(limits.user) + f64::from(self.app) * f64::from(limits.app)
    }
}

impl fmt::Display for CredentialCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} user and {} app-only credentials", self.user, self.app)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub name: String,
    /// `None`: not published.
    pub calls: Option<CallLimits>,
    /// `None`: reads are free.
    pub reads: Option<ReadTerms>,
}

impl Network {
    /// `twitter` and `x` are the limits of these two networks.
    #[must_use]
    pub fn new(provider: &Provider, twitter: CallLimits, x: CallLimits, terms: impl FnOnce() -> ReadTerms) -> Self {
        let calls = match provider {
            Provider::Twitter => Some(twitter),
            Provider::X => Some(x),
            Provider::Mastodon(_) => Some(MASTODON_CALLS),
            Provider::Bluesky => None,
        };
        Self { name: provider.to_string(), calls, reads: (*provider == Provider::X).then(terms) }
    }
}

/// Work that credentials can do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Capacity {
    #[serde(flatten)]
    pub credentials: CredentialCounts,
    pub calls_per_15_min: f64,
    #[serde(flatten)]
    pub amount: Amount,
    pub enough: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Seconds(f64),
    Days(f64),
    /// Maximum, rounded down.
    LargestTweetsPerDay(u64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match *self {
            Self::Seconds(seconds) => span((seconds * 1e3) as Millis / 1_000 * 1_000),
            Self::Days(days) => format_number(days),
            Self::LargestTweetsPerDay(tweets) => format_number(tweets as f64),
        })
    }
}

/// Needs of all items of a kind. A round looks up each item once.
pub(super) struct Demand {
    pub calls_per_round: f64,
    pub calls_per_day: f64,
    /// Calls if requests wait for permits, and fill up.
    pub min_calls_per_15_min: f64,
    /// The time of a round of this many calls at this many per 15 minutes.
    pub round_time: fn(f64, f64) -> Amount,
    pub reads_per_day: f64,
    pub reads_per_round: f64,
    /// Reads of a visit of all items that finds nothing new.
    pub reads_per_short_visit: Option<f64>,
}

/// The needs of all items on one network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkPlan {
    pub network: String,
    pub calls_per_round: f64,
    pub calls_per_day: f64,
    /// The time of one round for different credentials; empty if their calls are not published.
    pub rounds: Vec<Capacity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<RoundReads>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RoundReads {
    pub dollars_per_round: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_short_visit: Option<f64>,
    #[serde(flatten)]
    pub cost: ReadCost,
}

impl NetworkPlan {
    pub(super) fn new(demand: &Demand, network: &Network, credentials: &[CredentialCounts]) -> Self {
        let round = |limits, credentials: CredentialCounts| {
            let calls_per_15_min = credentials.calls(limits);
            let amount = (demand.round_time)(demand.calls_per_round, calls_per_15_min);
            let enough = demand.min_calls_per_15_min <= calls_per_15_min * (1.0 + ROUNDING);
            Capacity { credentials, calls_per_15_min, amount, enough }
        };
        let rounds = |limits| credentials.iter().map(|credentials| round(limits, *credentials)).collect();
        let reads = |terms: &ReadTerms| RoundReads {
            dollars_per_round: demand.reads_per_round * terms.price_per_read,
            dollars_per_short_visit: demand.reads_per_short_visit.map(|reads| reads * terms.price_per_read),
            cost: ReadCost::new(demand.reads_per_day, terms),
        };
        Self {
            network: network.name.clone(),
            calls_per_round: demand.calls_per_round,
            calls_per_day: demand.calls_per_day,
            rounds: network.calls.map(rounds).unwrap_or_default(),
            reads: network.reads.as_ref().map(reads),
        }
    }

    /// Adds a line per round; `name` is the name of its time, and `purpose` follows *enough*.
    pub(super) fn add_rounds(&self, lines: &mut Table, name: &str, purpose: &str) {
        if self.rounds.is_empty() {
            lines.figure("one round", "unknown", "the network does not publish its quota");
        }
        for Capacity { credentials, calls_per_15_min, amount, enough } in &self.rounds {
            let (calls, enough) = (format_number(*calls_per_15_min), reads::enough(*enough));
            lines.figure(name, amount, format!("{credentials}, {calls} calls per 15 min: {enough} {purpose}"));
        }
    }
}

/// One credential of each kind, and the given ones.
pub(super) fn credential_choices(given: Option<CredentialCounts>) -> Vec<CredentialCounts> {
    let each = [CredentialCounts { user: 1, app: 0 }, CredentialCounts { user: 0, app: 1 }];
    each.into_iter().chain(given).collect()
}
