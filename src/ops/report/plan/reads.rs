//! The cost of reads at a provider that charges each post once per UTC day. Pure.
//!
//! The calculation follows a tweet's updates as in the plan. Each UTC day in which it is read is one charged read. The cost is the mean
//! over creation times that are spread evenly over the day. All tweets are assumed to be returned: a missing one costs nothing.

use serde::Serialize;

use crate::table::Table;
use engine::base::clock::Millis;
use engine::base::humanize::format_number;
use engine::schedule::age::{AgeTable, SameDay};

const DAY_MS: Millis = 86_400_000;
/// Number of creation times per day: one per 5 minutes, in the middle of each interval.
const CREATION_TIMES: i64 = 288;
/// Days in a month, on average (the Gregorian calendar's 365.2425 in twelve).
const MONTH_DAYS: f64 = 365.2425 / 12.0;
/// Charged reads per account.
pub const READS_PER_ACCOUNT: f64 = 2.0;
/// Maximum lifetime of a tweet: the calculation goes day by day.
const LONGEST_LIFE_MS: Millis = 36_525 * DAY_MS;

/// The age table tracks a tweet for more than a century.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cost of reads is not calculated, because tweet_age is longer than a century; shorten tweet_age")]
pub struct BadLifetime;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadTerms {
    /// Rule that moves reads before midnight.
    pub same_day: SameDay,
    /// US dollars per post.
    pub price_per_read: f64,
    /// Allowed reads per month; `None`: no limit.
    pub reads_per_month: Option<f64>,
}

/// Charged reads and their cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReadCost {
    pub reads_per_month: f64,
    pub price_per_read: f64,
    pub dollars_per_month: f64,
    /// Allowed reads per month; `None`: no limit.
    pub reads_allowed_per_month: Option<f64>,
    pub share_of_budget: Option<f64>,
}

impl ReadCost {
    #[must_use]
    pub fn new(reads_per_day: f64, terms: &ReadTerms) -> Self {
        let ReadTerms { price_per_read, reads_per_month: allowed, .. } = *terms;
        let reads_per_month = reads_per_day * MONTH_DAYS;
        Self {
            reads_per_month,
            price_per_read,
            dollars_per_month: reads_per_month * price_per_read,
            reads_allowed_per_month: allowed,
            share_of_budget: allowed.map(|allowed| reads_per_month / allowed),
        }
    }

    pub(super) fn price_text(&self) -> String {
        format!("at ${} per read (x.price_per_read)", self.price_per_read)
    }

    /// Adds the share of the budget, if it has a limit. `setting` is the budget's name.
    pub(super) fn add_share(&self, lines: &mut Table, setting: &str) {
        if let Some((allowed, share)) = self.reads_allowed_per_month.zip(self.share_of_budget) {
            let (allowed, enough) = (format_number(allowed.round()), enough(share <= 1.0));
            let note = format!("of {allowed} reads per month ({setting}): {enough}");
            lines.figure("share of the budget", format!("{:.1} %", share * 100.0), note);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadsPlan {
    /// Mean number of UTC days in which a tweet is read. Each is charged once.
    pub reads_per_tweet: f64,
    /// The mean without `x.same_day`.
    pub reads_per_tweet_without_same_day: f64,
    #[serde(flatten)]
    pub cost: ReadCost,
}

impl ReadsPlan {
    pub(super) fn new(ages: &AgeTable, tweets_per_day: f64, terms: &ReadTerms) -> Result<Self, BadLifetime> {
        let reads_per_tweet = self::reads_per_tweet(ages, terms.same_day)?;
        Ok(Self {
            reads_per_tweet,
            reads_per_tweet_without_same_day: self::reads_per_tweet(ages, SameDay::default())?,
            cost: ReadCost::new(reads_per_tweet * tweets_per_day, terms),
        })
    }

    pub(super) fn add_to(&self, lines: &mut Table) {
        let Self { reads_per_tweet, reads_per_tweet_without_same_day: without, cost } = self;
        let saved = if 1.0 - reads_per_tweet / without.max(1.0) > 0.0005 {
            format!("{} without x.same_day", format_number(*without))
        } else {
            "x.same_day saves nothing with this tweet_age".to_owned()
        };
        let note = format!("UTC days: each is charged once; {saved}");
        lines.figure("reads per tweet", format_number(*reads_per_tweet), note);
        let month = format_number(cost.reads_per_month.round());
        lines.figure("reads per month", month, "30.4 days, every tweet returned");
        lines.figure("cost per month, $", format_dollars(cost.dollars_per_month), cost.price_text());
        cost.add_share(lines, "x.reads");
        if cost.share_of_budget.is_none() {
            lines.figure("share of the budget", "-", "x.reads is 0: no limit");
        }
    }
}

/// Returns the reads per month of a budget of `reads` per period.
#[must_use]
pub fn monthly_reads(reads: u64, period_ms: Millis) -> f64 {
    reads as f64 * MONTH_DAYS * DAY_MS as f64 / period_ms.max(1) as f64
}

/// Returns the mean number of UTC days in which a tweet is read over its life. Fails if a tweet lives for longer than a century.
///
/// ```
/// # use twitter_updater::ops::report::plan::reads_per_tweet;
/// # use twitter_updater::engine::schedule::age::SameDay;
/// let hourly = "7d: 1h".parse().unwrap();
/// let reads = reads_per_tweet(&hourly, SameDay::default())?;
/// assert!(reads > 7.9 && reads < 8.1); // however often: seven days touch eight
/// # Ok::<(), twitter_updater::ops::report::plan::BadLifetime>(())
/// ```
pub fn reads_per_tweet(ages: &AgeTable, same_day: SameDay) -> Result<f64, BadLifetime> {
    if ages.lifetime() > LONGEST_LIFE_MS {
        return Err(BadLifetime);
    }
    // Any day gives the same result.
    let made_at = |time: i64| 20_000 * DAY_MS + (2 * time + 1) * DAY_MS / (2 * CREATION_TIMES);
    let sum: u64 = (0..CREATION_TIMES).map(|time| days_read(ages, same_day, made_at(time))).sum();
    Ok(sum as f64 / CREATION_TIMES as f64)
}

fn days_read(ages: &AgeTable, same_day: SameDay, made_at: Millis) -> u64 {
    let (mut at, mut days, mut last) = (made_at, 0, None);
    // Scheduling the first update reads nothing.
    let mut delay = ages.update_delay(made_at, made_at);
    while let Some(after) = delay {
        at = at.saturating_add(after);
        let day = at.div_euclid(DAY_MS);
        days += u64::from(last != Some(day));
        last = Some(day);
        let age = at - made_at;
        let bracket = ages.brackets().iter().find(|bracket| age < bracket.under);
        delay = bracket.map(|bracket| {
            let interval = bracket.lane.patience;
            // Skips the updates within the same day and bracket in one step: together they are one read.
            let skippable = (bracket.under - age).min((day + 1) * DAY_MS - same_day.margin - at) - 1;
            at += (skippable / interval).max(0) * interval;
            same_day.delay(at, interval)
        });
    }
    days
}

pub(super) fn enough(is_enough: bool) -> &'static str {
    if is_enough { "enough" } else { "NOT ENOUGH" }
}

/// Formats dollars and cents, with commas between the thousands.
#[must_use]
pub fn format_dollars(dollars: f64) -> String {
    let cents = (dollars * 100.0).round().max(0.0);
    let whole = (cents / 100.0).floor();
    format!("{}.{:02}", format_number(whole), (cents - whole * 100.0) as u8)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const MARGIN: Millis = 90_000;

    /// Calculates the charged days of a post update by update, as a check.
    fn plainly(ages: &AgeTable, same_day: SameDay, made_at: Millis) -> u64 {
        let (mut at, mut days) = (made_at, BTreeSet::new());
        let mut delay = ages.update_delay(made_at, made_at);
        while let Some(after) = delay {
            at += after;
            days.insert(at.div_euclid(DAY_MS));
            delay = ages.update_delay(made_at, at).map(|interval| same_day.delay(at, interval));
        }
        days.len() as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_walk_in_steps_is_the_walk(
            steps in prop::collection::vec((1i64..12 * DAY_MS, 20_000i64..3 * DAY_MS), 1..5),
            share in prop::sample::select(vec![0.0, 0.1, 0.25, 0.5]),
            made_at in 0..DAY_MS,
        ) {
            let mut under = 0;
            let brackets = steps.iter().map(|(step, every)| {
                under += step;
                format!("{under}ms: {every}ms")
            });
            let ages: AgeTable = brackets.collect::<Vec<_>>().join(", ").parse().unwrap();
            let same_day = SameDay { share, margin: MARGIN };
            prop_assert_eq!(days_read(&ages, same_day, made_at), plainly(&ages, same_day, made_at));
        }
    }

    #[test]
    fn money_has_cents() {
        for (dollars, text) in [(0.0, "0.00"), (0.004, "0.00"), (0.005, "0.01"), (1_234_567.891, "1,234,567.89")] {
            assert_eq!(format_dollars(dollars), text);
        }
    }
}
