//! The credentials and the storage that a number of tweets per day needs. Pure. Tweets are assumed to arrive evenly, for longer than a
//! tweet lives.
//!
//! **Updates per tweet.** The first update is at age `interval(0)`, each next one at `age + interval(age)`; the age selects the bracket.
//! From age `a`, a bracket is left after `ceil((under − a) ÷ interval)` updates. The last update comes up to one interval after the
//! lifetime: until then the id is in the queue.
//!
//! **Ids in the queue.** An id is in a bracket's lane for `updates × interval`, so the lane holds tweets per day × that time in days
//! (Little's law).
//!
//! **Lookups.** Requests are full from about 20 updates per second without lookahead, and from about 1 with the default. Below that,
//! `updater.buffer_ttl` and `updater.lookahead` decide how many ids they carry: [`RequestFill`] has the formula. It is an estimate, within
//! 15 % of the workers' real figures, and within 20 % with a lookahead of 0.3 (`tests/it/plan/fill.rs`).
//!
//! Two effects are left out. Waits for requests to fill lengthen intervals, and lookahead shortens them. A tweet that the API does not
//! return is looked up every `updater.unavailable_every` until it ends early; here it counts as returned.

use std::fmt;

use serde::Serialize;

use super::adaptive::AdaptivePlan;
use super::checks::{ChecksPlan, Costs};
use super::fill::{DAY_S, Flow, RequestFill, WINDOW_S};
use super::network::{Amount, CallLimits, Capacity, CredentialCounts, Network, ROUNDING, TWITTER_CALLS, figures};
use super::reads::{self, BadLifetime, ReadsPlan};
use crate::table::Table;
use engine::base::clock::{self, Millis};
use engine::base::humanize::format_number;
use engine::schedule::age::{AgeTable, Bracket};

/// Redis memory per scheduled 19-digit id, in bytes, as `tests/it/load/memory.rs` measures it. Leases and claim records are negligible:
/// they exist only for ids in flight, at most `updater.concurrency` × 100 per process.
pub const REDIS_BYTES_PER_ID: u32 = 126;
/// Maximum input. Up to here all figures are exact to many places.
const MAX_TWEETS: f64 = 1e12;
const DAY_MS: f64 = DAY_S * 1e3;

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("--tweets-per-day ({0}) must be above 0 and at most 1,000,000,000,000")]
pub struct BadTweetsPerDay(pub f64);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BracketPlan {
    /// Name, such as `18m`.
    pub bracket: String,
    pub interval_ms: Millis,
    /// Updates of one tweet while it is in the bracket's lane.
    pub updates_per_tweet: u64,
    pub updates_per_15_min: f64,
    pub ids_scheduled: f64,
}

/// The steady demand of this many tweets per day.
///
/// ```
/// # use std::time::Duration;
/// # use twitter_updater::ops::report::plan::{Plan, RequestFill};
/// let ages = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap();
/// let fill = RequestFill { limit: 100, buffer_ttl: Duration::from_secs(5), lookahead: 0.1, is_metered: true };
/// let plan = Plan::new(&ages, 100_000.0, fill)?;
/// assert_eq!((plan.updates_per_tweet, plan.lookups_per_15_min), (81, 843.75));
/// assert_eq!((plan.user_credentials, plan.app_credentials), (1, 3)); // either suffices
/// # Ok::<(), twitter_updater::ops::report::plan::BadTweetsPerDay>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub tweets_per_day: f64,
    /// Days from a tweet's date to the end of the last bracket.
    pub lifetime_days: f64,
    pub brackets: Vec<BracketPlan>,
    pub updates_per_tweet: u64,
    pub updates_per_second: f64,
    pub updates_per_15_min: f64,
    /// Bound on the updates if each is as early as `updater.lookahead` allows: `1 ÷ (1 − lookahead)` of the demand, or the capacity of
    /// the requests, if that is less.
    pub updates_per_15_min_at_most: f64,
    pub ids_per_lookup: f64,
    pub lookups_per_second: f64,
    pub lookups_per_15_min: f64,
    /// Number of user credentials needed without app-only ones.
    pub user_credentials: u64,
    pub app_credentials: u64,
    pub tweets_alive: f64,
    /// Ids in the queue, until their last update.
    pub ids_scheduled: f64,
    pub redis_bytes: f64,
    /// New rows of `tweet`: one per tweet, which stays.
    pub tweet_rows_per_day: f64,
    /// New rows of `tweet_metrics` if every update finds a count changed.
    pub history_rows_per_day_at_most: f64,
    pub given: Option<Capacity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadsPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptivePlan>,
    #[serde(skip)]
    pub calls: CallLimits,
    #[serde(skip)]
    pub fill: RequestFill,
}

/// Returns the updates of one tweet in each bracket. The last update comes at an age of the sum of updates × interval.
fn updates_by_bracket(ages: &AgeTable) -> Vec<u64> {
    let mut age: i128 = 0; // neither factor exceeds 2^63, nor their product 2^64: it ends within an interval of `under`
    let updates_in = |bracket: &Bracket| {
        let (left, interval) = (i128::from(bracket.under) - age, i128::from(bracket.lane.patience));
        let updates = if left > 0 { (left + interval - 1) / interval } else { 0 };
        age += updates * interval;
        u64::try_from(updates).unwrap_or(u64::MAX) // at most `under`, which is an i64
    };
    ages.brackets().iter().map(updates_in).collect()
}

#[must_use]
pub fn updates_per_tweet(ages: &AgeTable) -> u64 {
    updates_by_bracket(ages).iter().fold(0, |sum, updates| sum.saturating_add(*updates))
}

fn flows(ages: &AgeTable, tweets_per_day: f64) -> Vec<Flow> {
    let flow = |(bracket, updates): (&Bracket, u64)| {
        Flow::new(tweets_per_day * updates as f64 / DAY_S, bracket.lane.patience, updates as f64)
    };
    ages.brackets().iter().zip(updates_by_bracket(ages)).map(flow).collect()
}

/// Returns the maximum of tweets per day with this number of calls per 15 minutes. More tweets never need fewer requests.
/// So if requests are not full at the rate of full requests, bisection finds the maximum.
#[must_use]
pub fn largest_tweets_per_day(ages: &AgeTable, fill: RequestFill, calls_per_15_min: f64) -> f64 {
    let calls = calls_per_15_min / WINDOW_S;
    let requests = |tweets_per_day: f64| fill.requests_per_second(&flows(ages, tweets_per_day));
    let full = calls * fill.limit as f64 * DAY_S / updates_per_tweet(ages) as f64;
    if requests(full) <= calls * (1.0 + ROUNDING) {
        return full;
    }
    let (mut low, mut high) = (0.0, full);
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return low;
        }
        if requests(middle) <= calls { low = middle } else { high = middle }
    }
}

impl Plan {
    /// Fails if `tweets_per_day` is not above 0, or is above 10^12.
    pub fn new(ages: &AgeTable, tweets_per_day: f64, fill: RequestFill) -> Result<Self, BadTweetsPerDay> {
        if !(tweets_per_day > 0.0 && tweets_per_day <= MAX_TWEETS) {
            return Err(BadTweetsPerDay(tweets_per_day)); // also NaN
        }
        let windows_per_day = DAY_S / WINDOW_S;
        let brackets: Vec<_> = ages
            .brackets()
            .iter()
            .zip(updates_by_bracket(ages))
            .map(|(bracket, updates)| {
                let (each, interval) = (updates as f64, bracket.lane.patience as f64);
                BracketPlan {
                    bracket: bracket.lane.name.to_string(),
                    interval_ms: bracket.lane.patience,
                    updates_per_tweet: updates,
                    updates_per_15_min: tweets_per_day * each / windows_per_day,
                    ids_scheduled: tweets_per_day * each * interval / DAY_MS,
                }
            })
            .collect();
        let updates_per_tweet = updates_per_tweet(ages);
        let updates_per_day = tweets_per_day * updates_per_tweet as f64;
        let updates_per_second = updates_per_day / DAY_S;
        let ids_per_lookup = fill.ids_per_request(&flows(ages, tweets_per_day));
        let lookups_per_second = updates_per_second / ids_per_lookup;
        let lookups_per_15_min = lookups_per_second * WINDOW_S;
        let ids_scheduled = brackets.iter().map(|bracket| bracket.ids_scheduled).sum();
        let [user_credentials, app_credentials] = TWITTER_CALLS.credentials_for(lookups_per_15_min);
        let lifetime_days = ages.lifetime() as f64 / DAY_MS;
        Ok(Self {
            tweets_per_day,
            lifetime_days,
            brackets,
            updates_per_tweet,
            updates_per_second,
            updates_per_15_min: updates_per_second * WINDOW_S,
            updates_per_15_min_at_most: (updates_per_second * WINDOW_S / (1.0 - fill.lookahead))
                .min(lookups_per_15_min * fill.limit as f64)
                .max(updates_per_second * WINDOW_S),
            ids_per_lookup,
            lookups_per_second,
            lookups_per_15_min,
            user_credentials,
            app_credentials,
            tweets_alive: tweets_per_day * lifetime_days,
            ids_scheduled,
            redis_bytes: ids_scheduled * f64::from(REDIS_BYTES_PER_ID),
            tweet_rows_per_day: tweets_per_day,
            history_rows_per_day_at_most: updates_per_day,
            given: None,
            reads: None,
            checks: None,
            adaptive: None,
            calls: TWITTER_CALLS,
            fill,
        })
    }

    /// Takes the limits and the price of this network instead of Twitter's; `ages` as for [`Plan::new`]. Fails if reads
    /// are charged and a tweet lives for longer than a century.
    pub fn with_network(mut self, ages: &AgeTable, network: &Network) -> Result<Self, BadLifetime> {
        if let Some(calls) = network.calls {
            self.calls = calls;
            [self.user_credentials, self.app_credentials] = calls.credentials_for(self.lookups_per_15_min);
        }
        let reads = network.reads.as_ref().map(|terms| ReadsPlan::new(ages, self.tweets_per_day, terms));
        self.reads = reads.transpose()?;
        Ok(self)
    }

    #[must_use]
    pub fn costs(&self) -> Costs {
        Costs { calls_per_15_min: self.lookups_per_15_min, reads: self.reads.as_ref().map(|reads| reads.cost) }
    }

    /// Adds the capacity of these credentials; `ages` as for [`Plan::new`].
    #[must_use]
    pub fn with_credentials(mut self, ages: &AgeTable, credentials: CredentialCounts) -> Self {
        let calls_per_15_min = credentials.calls(self.calls);
        // A rounding error must not push the result below a whole number.
        let largest = largest_tweets_per_day(ages, self.fill, calls_per_15_min) * (1.0 + ROUNDING);
        let amount = Amount::LargestTweetsPerDay(largest as u64);
        let enough = self.tweets_per_day <= largest;
        self.given = Some(Capacity { credentials, calls_per_15_min, amount, enough });
        self
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["bracket", "every", "updates per tweet", "updates per 15 min", "ids scheduled"];
        let mut brackets = Table::new("<14>10>20>20>18", &header);
        let mut row = |name: &str, every: String, updates: u64, demand, ids| {
            let [updates, demand, ids] = [updates as f64, demand, ids].map(format_number);
            brackets.row(&[&name, &every, &updates, &demand, &ids]);
        };
        for of in &self.brackets {
            let every = humantime::format_duration(clock::span(of.interval_ms)).to_string();
            row(&of.bracket, every, of.updates_per_tweet, of.updates_per_15_min, of.ids_scheduled);
        }
        row("all", String::new(), self.updates_per_tweet, self.updates_per_15_min, self.ids_scheduled);

        let mut lines = figures();
        let mut line = |name: &str, value: f64, note: &str| lines.figure(name, format_number(value), note);
        line("tweets per day", self.tweets_per_day, "");
        let lifetime = format!("younger than {} days", format_number(self.lifetime_days));
        line("tweets alive", self.tweets_alive, &lifetime);
        line("updates per second", self.updates_per_second, "");
        let at_most = format_number(self.updates_per_15_min_at_most);
        let has_more = at_most != format_number(self.updates_per_15_min);
        let at_most = if has_more { format!("{at_most} at most, with lookahead") } else { String::new() };
        line("updates per 15 min", self.updates_per_15_min, &at_most);
        let each = format!("of {} ids each", format_number(self.ids_per_lookup));
        line("lookups per second", self.lookups_per_second, &each);
        line("lookups per 15 min", self.lookups_per_15_min, "");
        let [of_user, of_app] = [self.calls.user, self.calls.app].map(|calls| format_number(calls.into()));
        line("user credentials", self.user_credentials as f64, &format!("of {of_user} calls per 15 min, or"));
        line("app-only credentials", self.app_credentials as f64, &format!("of {of_app} calls per 15 min"));
        line("Redis memory, MB", self.redis_bytes / 1e6, &format!("{REDIS_BYTES_PER_ID} bytes per id"));
        line("tweet rows per day", self.tweet_rows_per_day, "they stay");
        let note = "at most: a row only when a count changed";
        line("history rows per day", self.history_rows_per_day_at_most, note);
        if let Some(reads) = &self.reads {
            lines.line("");
            reads.add_to(&mut lines);
        }
        if let Some(adaptive) = &self.adaptive {
            lines.line("");
            adaptive.add_to(&mut lines);
        }
        if let Some(checks) = &self.checks {
            checks.add_to(&mut lines);
        }
        if let Some(Capacity { credentials, calls_per_15_min, amount, enough }) = &self.given {
            let (calls, enough) = (format_number(*calls_per_15_min), reads::enough(*enough));
            lines.line("");
            let most = format!("for up to {amount} tweets per day: {enough}");
            lines.line(format!("{credentials}: {calls} calls per 15 min, {most}"));
        }
        writeln!(f, "{brackets}\n\n{lines}")
    }
}
