//! The age table: the time until the next update of an item, by its age. Pure.
//!
//! `18m: 3m`: an item younger than 18 minutes is updated every 3 minutes. Each bracket reaches from the bound before it
//! (included) to its own (excluded). Past the last one an item's life is over: the specification's `-1`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::lane::Lane;

/// Brackets by age, youngest first.
///
/// ```
/// # use lease_lanes::schedule::age::{AgeTable, BadAgeTable};
/// let ages: AgeTable = "18m: 3m, 60m: 10m".parse()?;
/// let (minute, now) = (60_000, 1_700_000_000_000);
/// let delay = |age| ages.update_delay(now - age * minute, now);
/// assert_eq!(delay(5), Some(3 * minute));
/// assert_eq!(delay(18), Some(10 * minute)); // a bracket ends before its bound
/// assert_eq!(delay(60), None); // its life is over
/// # Ok::<(), BadAgeTable>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgeTable {
    brackets: Vec<Bracket>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bracket {
    /// Age at which the bracket ends, ms, excluded.
    pub under: Millis,
    /// Named as the bound is written (`18m`); the patience is the update interval.
    pub lane: Lane,
}

impl AgeTable {
    #[must_use]
    pub fn brackets(&self) -> &[Bracket] {
        &self.brackets
    }

    #[must_use]
    pub fn lanes(&self) -> Vec<Lane> {
        self.brackets.iter().map(|bracket| bracket.lane.clone()).collect()
    }

    #[must_use]
    pub fn lifetime(&self) -> Millis {
        self.brackets.last().map_or(0, |bracket| bracket.under)
    }

    /// Returns this table, cut so that lives end at that age, ms, if they ended later. At least the first bracket remains.
    #[must_use]
    pub fn with_lifetime(&self, lifetime: Millis) -> Self {
        let mut brackets: Vec<Bracket> = Vec::new();
        for bracket in &self.brackets {
            if brackets.last().is_some_and(|last| last.under >= lifetime) {
                break;
            }
            brackets.push(Bracket { under: bracket.under.min(lifetime.max(1)), lane: bracket.lane.clone() });
        }
        Self { brackets }
    }

    #[must_use]
    pub fn with_max_interval(&self, interval: Millis) -> Self {
        self.with_intervals(|patience| patience.min(interval))
    }

    #[must_use]
    pub fn with_scaled_intervals(&self, factor: f64) -> Self {
        // A cast saturates.
        self.with_intervals(|patience| (patience as f64 * factor) as Millis)
    }

    fn with_intervals(&self, of: impl Fn(Millis) -> Millis) -> Self {
        let mut table = self.clone();
        for bracket in &mut table.brackets {
            bracket.lane.patience = of(bracket.lane.patience).max(1);
        }
        table
    }

    /// The bracket of an item created at `created_at`; both in ms since the epoch. `None` if its life is over, or if its date is more
    /// than a minute in the future. Up to a minute is clock skew and counts as age 0.
    #[must_use]
    pub fn bracket(&self, created_at: Millis, now: Millis) -> Option<&Bracket> {
        if clock::is_ahead(created_at, now) {
            return None;
        }
        let age = now.saturating_sub(created_at);
        self.brackets.iter().find(|bracket| age < bracket.under)
    }

    /// Lane of an item of that age; `None` if its life is over.
    #[must_use]
    pub fn lane(&self, created_at: Millis, now: Millis) -> Option<&Lane> {
        self.bracket(created_at, now).map(|bracket| &bracket.lane)
    }

    /// Delay until the next update of that item, ms; `None` is the specification's `-1`.
    #[must_use]
    pub fn update_delay(&self, created_at: Millis, now: Millis) -> Option<Millis> {
        self.lane(created_at, now).map(|lane| lane.patience)
    }
}

const DAY_MS: Millis = 86_400_000;
/// Updates that move before one midnight are spread over this time, ms; otherwise all would run at once.
const SPREAD_MS: Millis = 10 * 60_000;

/// Moves an update that is due shortly after a UTC midnight before it, if that saves a read. Some APIs charge an item once per
/// UTC day, for any number of reads. An update never moves later than the age table has it.
///
/// An interval below a day causes a read on every day anyway. An interval a little above a day skips every other day if its
/// updates come in pairs: one early in a day, one late in it. This makes the pairs.
///
/// ```
/// # use lease_lanes::schedule::age::SameDay;
/// let same_day = SameDay { share: 0.1, margin: 60_000 };
/// let (hour, midnight) = (3_600_000, 20_000 * 86_400_000);
/// // Read at 0:30, due at 1:30 of the next day: rather before midnight.
/// let delay = same_day.delay(midnight + hour / 2, 25 * hour);
/// assert!(delay > 23 * hour && delay < 24 * hour - hour / 2);
/// // Too early for the share; of no use.
/// assert_eq!(same_day.delay(midnight + 2 * hour, 25 * hour), 25 * hour);
/// assert_eq!(same_day.delay(midnight + hour / 2, 24 * hour), 24 * hour);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SameDay {
    /// Maximum earliness of an update as a share of its interval, 0 to 0.5; 0: never.
    pub share: f64,
    /// Reserve before midnight, ms: an update is moved only to due times at least this long before, so that it runs before midnight.
    pub margin: Millis,
}

impl SameDay {
    /// Delay from an update at `at`, ms since the epoch, to the next: at most `interval`, ms.
    #[must_use]
    pub fn delay(self, at: Millis, interval: Millis) -> Millis {
        let midnight = at.div_euclid(DAY_MS).saturating_add(1).saturating_mul(DAY_MS);
        let latest = midnight.saturating_sub(self.margin);
        let due = at.saturating_add(interval);
        let earliest = due.saturating_sub((interval as f64 * self.share) as Millis);
        // Spread by the time of day of the update, so items that were updated together stay together.
        let early = latest.saturating_sub(at.rem_euclid(SPREAD_MS)).max(earliest);
        // It saves a read only if the update after the next falls into the day after the next.
        let saves = early.saturating_add(interval) >= midnight.saturating_add(DAY_MS);
        let moves = self.share > 0.0 && due > latest && early > at && early <= latest && saves;
        if moves { early - at } else { interval }
    }
}

const LONGEST: Duration = Duration::from_secs(100 * 31_557_600);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAgeTable {
    #[error("it has no bracket; write it like \"18m: 3m, 60m: 10m\"")]
    Empty,
    #[error("{0:?} is not \"age: interval\", like \"18m: 3m\"")]
    NotAPair(String),
    #[error("{text:?} in {bracket:?} is not a duration ({why})")]
    NotADuration { text: String, bracket: String, why: String },
    #[error("{0:?} has a zero; ages and intervals are at least 1ms")]
    Zero(String),
    #[error("{0:?} is longer than 100 years; ages and intervals are shorter")]
    TooLong(String),
    #[error("the ages must rise: {0:?} does not lie above the one before")]
    NotRising(String),
}

impl FromStr for AgeTable {
    type Err = BadAgeTable;

    fn from_str(text: &str) -> Result<Self, BadAgeTable> {
        let mut brackets: Vec<Bracket> = Vec::new();
        for bracket in text.split(',').map(str::trim).filter(|bracket| !bracket.is_empty()) {
            let (under, every) = bracket.split_once(':').ok_or_else(|| BadAgeTable::NotAPair(bracket.to_owned()))?;
            let (name, every) = (under.trim(), every.trim());
            let under = duration(name, bracket)?;
            let every = duration(every, bracket)?;
            if under.as_millis() == 0 || every.as_millis() == 0 {
                return Err(BadAgeTable::Zero(bracket.to_owned()));
            }
            if under > LONGEST || every > LONGEST {
                return Err(BadAgeTable::TooLong(bracket.to_owned()));
            }
            let under = clock::millis(under);
            if brackets.last().is_some_and(|before| before.under >= under) {
                return Err(BadAgeTable::NotRising(bracket.to_owned()));
            }
            // White space is not allowed in a key: "1day 12h" names its lane "1day12h".
            let name: String = name.split_whitespace().collect();
            brackets.push(Bracket { under, lane: Lane::new(name, every) });
        }
        if brackets.is_empty() { Err(BadAgeTable::Empty) } else { Ok(Self { brackets }) }
    }
}

fn duration(text: &str, bracket: &str) -> Result<Duration, BadAgeTable> {
    humantime::parse_duration(text).map_err(|why| BadAgeTable::NotADuration {
        text: text.to_owned(),
        bracket: bracket.to_owned(),
        why: why.to_string(),
    })
}

impl fmt::Display for AgeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Bracket { lane, .. }) in self.brackets.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", lane.name, humantime::format_duration(clock::span(lane.patience)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Millis = 60_000;
    const HOUR: Millis = 60 * MINUTE;
    const DAY: Millis = 24 * HOUR;

    fn default_table() -> AgeTable {
        "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap()
    }

    /// The table in the specification's own steps and numbers.
    fn specified_delay(delta: Millis) -> Millis {
        if (0..1_080_000).contains(&delta) {
            return 3 * MINUTE; // 5. the value held by key '18m'
        }
        if (1_080_000..3_600_000).contains(&delta) {
            return 10 * MINUTE; // 6. '60m'
        }
        if (3_600_000..86_400_000).contains(&delta) {
            return HOUR; // 7. '1d'
        }
        if (86_400_000..604_800_000).contains(&delta) {
            return 6 * HOUR; // 8. '7d'
        }
        if (604_800_000..2_592_000_000).contains(&delta) {
            return DAY; // 9. '30d'
        }
        -1 // 10.
    }

    proptest! {
        #[test]
        fn the_default_table_is_the_specification(now in 1_300_000_000_000i64..4_000_000_000_000, delta in 0..40 * DAY) {
            prop_assert_eq!(default_table().update_delay(now - delta, now).unwrap_or(-1), specified_delay(delta));
        }

        #[test]
        fn any_table_is_lower_inclusive_and_upper_exclusive(
            steps in prop::collection::vec((1i64..10_000_000, 1i64..10_000_000), 1..9),
        ) {
            let mut under = 0;
            let mut text = Vec::new();
            let mut bounds = Vec::new();
            for (step, every) in steps {
                bounds.push((under, every));
                under += step;
                text.push(format!("{under}ms: {every}ms"));
            }
            let table: AgeTable = text.join(", ").parse().unwrap();
            let now = 1_700_000_000_000;
            for (lower, every) in bounds {
                prop_assert_eq!(table.update_delay(now - lower, now), Some(every));
            }
            prop_assert_eq!(table.update_delay(now - under, now), None);
            prop_assert_eq!(table.lifetime(), under);
        }

        #[test]
        fn what_is_written_is_read_back(text in "[0-9a-z:, ]{0,40}") {
            if let Ok(table) = text.parse::<AgeTable>() {
                prop_assert_eq!(table.to_string().parse::<AgeTable>().unwrap(), table);
            }
        }
    }

    #[test]
    fn every_bound_belongs_to_the_bracket_above() {
        let now = 1_700_000_000_000;
        for bound in [1_080_000, 3_600_000, 86_400_000, 604_800_000, 2_592_000_000] {
            for delta in [bound - 1, bound, bound + 1] {
                assert_eq!(
                    default_table().update_delay(now - delta, now).unwrap_or(-1),
                    specified_delay(delta),
                    "{delta}"
                );
            }
        }
    }

    #[test]
    fn a_minute_of_clock_skew_is_age_zero() {
        let now = 1_700_000_000_000;
        assert_eq!(default_table().update_delay(now + 60_000, now), Some(3 * MINUTE));
        assert_eq!(default_table().update_delay(now + 60_001, now), None);
        assert_eq!(default_table().update_delay(i64::MAX, now), None);
        assert_eq!(default_table().update_delay(i64::MIN, now), None);
    }

    proptest! {
        #[test]
        fn the_same_day_is_never_later_and_never_earlier_than_the_share(
            at in 1_300_000_000_000i64..4_000_000_000_000,
            interval in 1i64..5 * DAY,
            share in 0.0..0.5f64,
            margin in 0..HOUR,
        ) {
            let delay = SameDay { share, margin }.delay(at, interval);
            prop_assert!(delay > 0 && delay <= interval);
            prop_assert!(delay as f64 >= interval as f64 * (1.0 - share) - 1.0);
            if delay < interval {
                let midnight = at.div_euclid(DAY) * DAY + DAY;
                prop_assert!(at + delay <= midnight - margin, "on the day of the last read");
                prop_assert!(at + interval > midnight - margin, "the next day was due");
                prop_assert!(at + delay + interval >= midnight + DAY, "that day is skipped");
            }
            prop_assert_eq!(SameDay { share: 0.0, margin }.delay(at, interval), interval);
        }
    }

    #[test]
    fn bad_tables_say_where() {
        for (text, says) in [
            ("", "no bracket"),
            ("18m", "\"18m\" is not"),
            ("18m: 3m, soon: 1h", "\"soon\""),
            ("18m: 3m, 1h: often", "\"often\""),
            ("1h: 3m, 18m: 1h", "\"18m: 1h\""),
            ("1h: 3m, 60m: 1h", "\"60m: 1h\""),
            ("1h: 0s", "zero"),
        ] {
            let error = text.parse::<AgeTable>().unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
