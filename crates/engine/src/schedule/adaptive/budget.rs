//! Budget of an adaptive schedule: per item, as many calls in its life as the age table would make. Pure.
//!
//! Another population than that of the training spends up to a factor of two more or less. So each answer adds to the day's
//! [`Spending`], and once a day [`Normaliser::after_day`] corrects price and level by a part of the error. Faster controllers
//! oscillated: a price acts on calls only after an interval, and intervals are up to days long.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::clock::Millis;
use crate::schedule::age::AgeTable;

/// Calls that the age table would make for an item between two ages, ms. Beyond the last bracket there are none.
#[must_use]
pub fn table_calls(table: &AgeTable, from: Millis, to: Millis) -> f64 {
    let (mut lower, mut calls) = (0, 0.0);
    for bracket in table.brackets() {
        let span = to.min(bracket.under).saturating_sub(from.max(lower));
        calls += span.max(0) as f64 / bracket.lane.patience as f64;
        lower = bracket.under;
    }
    calls
}

/// Sum of a day's answers. Each item's time counts exactly once, from one answer to the next, so that items with frequent
/// refreshes do not count for more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Calls demanded: the calls made, if each were made when it is due.
    pub calls: f64,
    /// Calls of the budget: as many in a life as the age table makes, at the ages of the schedule's
    /// [`BudgetByAge`](super::reference::BudgetByAge).
    pub table_calls: f64,
    pub events: f64,
    /// Events that average items would have had.
    pub average_events: f64,
}

/// The queue's counters for [`Spending`], in thousandths, since a queue adds whole numbers.
const COUNTERS: [&str; 4] =
    ["adaptive_calls_milli", "adaptive_table_calls_milli", "adaptive_events_milli", "adaptive_average_events_milli"];
const MILLI: f64 = 1e3;

impl Spending {
    #[must_use]
    pub fn to_counters(&self) -> [(&'static str, i64); 4] {
        let Self { calls, table_calls, events, average_events } = *self;
        let values = [calls, table_calls, events, average_events];
        std::array::from_fn(|at| (COUNTERS[at], (values[at] * MILLI).round() as i64))
    }

    #[must_use]
    pub fn from_counters(counters: &BTreeMap<String, i64>) -> Self {
        let [calls, table_calls, events, average_events] =
            COUNTERS.map(|name| counters.get(name).copied().unwrap_or(0) as f64 / MILLI);
        Self { calls, table_calls, events, average_events }
    }

    /// Difference from `earlier`; `None` if a value is lower now, since the counters were lost in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Self> {
        let more = Self {
            calls: self.calls - earlier.calls,
            table_calls: self.table_calls - earlier.table_calls,
            events: self.events - earlier.events,
            average_events: self.average_events - earlier.average_events,
        };
        let Self { calls, table_calls, events, average_events } = more;
        [calls, table_calls, events, average_events].iter().all(|value| *value >= 0.0).then_some(more)
    }

    /// Calls demanded ÷ calls of the budget; `None` while the budget has none.
    #[must_use]
    pub fn demand_to_budget(&self) -> Option<f64> {
        (self.table_calls > 0.0).then(|| self.calls / self.table_calls)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            table_calls: self.table_calls + other.table_calls,
            events: self.events + other.events,
            average_events: self.average_events + other.average_events,
        }
    }
}

/// Corrections learned from the past days. The caller stores one per pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Normaliser {
    pub price: f64,
    /// Events of the average item here, as a multiple of the average item of the model's file.
    pub level: f64,
}

impl Default for Normaliser {
    fn default() -> Self {
        Self { price: 1.0, level: 1.0 }
    }
}

const DAMPING: f64 = 0.6;
/// Maximum factor by which a day corrects the price.
const MAX_DAILY_FACTOR: f64 = 4.0;
/// Both factors stay between 1 ÷ this and this.
const MAX_FACTOR: f64 = 1e6;
/// A day with fewer calls of the budget is too little evidence.
const MIN_CALLS: f64 = 50.0;
/// A level from fewer events would be noise.
const MIN_EVENTS: f64 = 20.0;

impl Normaliser {
    /// Returns true if a day has enough answers for a correction. Until then the day continues.
    #[must_use]
    pub fn has_enough_calls(day: &Spending, share: f64) -> bool {
        day.table_calls * share >= MIN_CALLS
    }

    /// The corrections after a day. `share` is the allowed spending as a multiple of the table's calls. Calls are proportional to
    /// price^-½, so their error is squared. A higher level raises all rates, and the price with them.
    #[must_use]
    pub fn after_day(self, day: &Spending, share: f64) -> Self {
        let wanted = day.table_calls * share;
        if !(Self::has_enough_calls(day, share) && wanted.is_finite() && day.calls >= 0.0) {
            return self;
        }
        let off = (day.calls / wanted).max(1e-3);
        let price = off.powf(2.0 * DAMPING).clamp(1.0 / MAX_DAILY_FACTOR, MAX_DAILY_FACTOR);
        let enough = day.average_events >= MIN_EVENTS && day.events >= MIN_EVENTS;
        let level = if enough { day.events / day.average_events } else { self.level };
        let level = (level / self.level).powf(DAMPING);
        let within =
            |factor: f64, old: f64| if factor.is_finite() { factor.clamp(1.0 / MAX_FACTOR, MAX_FACTOR) } else { old };
        Self { price: within(self.price * price, self.price), level: within(self.level * level, self.level) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Millis = 3_600_000;

    fn table() -> AgeTable {
        "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap()
    }

    #[test]
    fn the_tables_calls_are_its_intervals() {
        let table = table();
        assert!((table_calls(&table, 0, HOUR) - 10.2).abs() < 1e-9);
        assert!((table_calls(&table, 2 * HOUR, 5 * HOUR) - 3.0).abs() < 1e-9);
        assert_eq!(table_calls(&table, 5 * HOUR, 2 * HOUR), 0.0);
        assert_eq!(table_calls(&table, i64::MAX - 1, i64::MAX), 0.0);
        assert_eq!(table_calls(&table, i64::MIN, 0), 0.0);
    }

    #[test]
    fn counters_hold_what_was_spent() {
        let spent = Spending { calls: 1.5, table_calls: 2.25, events: 7.0, average_events: 0.125 };
        let counters = spent.to_counters().map(|(name, by)| (name.to_owned(), by)).into();
        assert_eq!(Spending::from_counters(&counters), spent);
        assert_eq!(Spending::from_counters(&BTreeMap::new()), Spending::default());
        assert_eq!(spent.plus(spent).since(spent), Some(spent));
        assert_eq!(Spending { events: 6.0, ..spent }.since(spent), None, "the counters were lost");
    }

    #[test]
    fn nothing_is_learnt_from_nothing() {
        let start = Normaliser::default();
        assert_eq!(start.after_day(&Spending::default(), 1.0), start);
        let broken = Spending { calls: f64::NAN, table_calls: f64::NAN, events: f64::NAN, average_events: f64::NAN };
        assert_eq!(start.after_day(&broken, 1.0), start);
        assert_eq!(start.after_day(&Spending { table_calls: 1e3, calls: 1e3, ..Spending::default() }, 0.0), start);
    }

    proptest! {
        #[test]
        fn days_bring_the_calls_to_the_budget(spends in 0.2..5.0f64, level in 0.01..100.0f64, share in 0.25..2.0f64) {
            // A population whose calls go as price^-1/2, with rates `level` times those of the file.
            let mut normaliser = Normaliser::default();
            let mut off = 0.0;
            for _ in 0..12 {
                off = spends / (normaliser.price * normaliser.level).sqrt() * level.sqrt();
                let day = Spending { calls: 1e3 * off, table_calls: 1e3, events: 1e4 * level, average_events: 1e4 };
                normaliser = normaliser.after_day(&day, share);
            }
            prop_assert!((off / share - 1.0).abs() < 0.02, "{off} {share}");
            prop_assert!((normaliser.level / level - 1.0).abs() < 0.02);
        }
    }
}
