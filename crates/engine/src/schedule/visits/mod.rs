//! Visits: the next visit of an item that is known only by its own events (a person, a source). There are five policies, and one
//! [`Rhythm`] per item for all of them. Pure: no I/O, no clock, no state in the process.
//!
//! Units: times in ms since the epoch, intervals in ms, rates in events per second, prices in event seconds per visit.

pub mod classes;
pub mod coefficients;
pub mod forecast;
pub mod hash;
pub mod hours;
pub mod poisson;
pub mod rhythm;
mod scheduled;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::coefficients::Coefficients;
use self::forecast::Forecast;
use self::rhythm::{Kind, Rhythm};
use super::adaptive::budget::Normaliser;
use super::adaptive::grid::Grid;
use super::budgeted::Spend;
use crate::base::clock::Millis;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Every item at the same interval.
    RoundRobin,
    /// Six classes of priority (004, section 3.3.4).
    Classes,
    /// Every item once in a period, in the organ-pipe order of the rates (002, section 4.1).
    Poisson,
    /// By the hours of the last days (002, section 4.2).
    Hash,
    /// By the expected delay of events, at a price for a visit.
    #[default]
    Adaptive,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub policy: Policy,
    /// Average interval between two visits of an item, ms: the budget is one visit of each item per interval.
    pub every: Millis,
    pub shortest: Millis,
    pub longest: Millis,
    /// Lanes per doubling of the interval, 1 to 4.
    pub lanes_per_octave: u32,
    /// Rules of the policy `classes`. [`Rhythm::record_visit`] needs them at each visit, under every policy.
    pub classes: classes::Rules,
    pub hash: hash::Rules,
    pub spend: Spend,
    /// With [`Spend::Quota`]: share of its interval after which an item may be visited early, 0 to 1.
    pub earliest: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            every: rhythm::DAY,
            shortest: 5 * 60_000,
            longest: 14 * rhythm::DAY,
            lanes_per_octave: 1,
            classes: classes::Rules::default(),
            hash: hash::Rules::default(),
            spend: Spend::Demand,
            earliest: 0.5,
        }
    }
}

/// Reason for the time of a visit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VisitReason {
    Unknown,
    Turn,
    /// Class of priority, 1 (the most often visited) to 6.
    Class(u8),
    /// Position in the period, 0 to 1.
    PeriodPosition(f64),
    /// Number of events expected by then.
    Events(f64),
    /// The delay of its expected events is worth a visit; the price in event seconds.
    Delay(f64),
    Shortest,
    Longest,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VisitForecast {
    pub kind: Kind,
    /// Estimated events per day, over the day after the last visit.
    pub per_day: f64,
    /// Events expected from the last visit to now.
    pub unseen: f64,
    /// Events expected from the last visit to the next one.
    pub events: f64,
    pub why: VisitReason,
}

#[derive(Debug, Clone)]
pub struct Visits {
    options: Options,
    coefficients: Arc<Coefficients>,
    normaliser: Normaliser,
    grid: Grid,
}

impl Visits {
    /// A schedule of that policy. Options out of bounds are moved to the nearest bound.
    #[must_use]
    pub fn new(options: Options, coefficients: Arc<Coefficients>) -> Self {
        let shortest = options.shortest.max(1);
        let longest = options.longest.max(shortest);
        let earliest = if options.earliest.is_finite() { options.earliest.clamp(0.0, 1.0) } else { 1.0 };
        let options = Options { shortest, longest, every: options.every.clamp(shortest, longest), earliest, ..options };
        let grid = Grid::new(shortest, longest, options.lanes_per_octave);
        Self { options, coefficients, normaliser: Normaliser::default(), grid }
    }

    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    #[must_use]
    pub fn with_normaliser(self, normaliser: Normaliser) -> Self {
        Self { normaliser, ..self }
    }

    /// Factor on the intervals that the budget was computed with.
    fn interval_factor(&self) -> f64 {
        (self.normaliser.price * self.normaliser.level).sqrt()
    }

    /// Current price of a visit, event seconds: at it, by the coefficients, an average item is visited once in [`Options::every`].
    #[must_use]
    pub fn price(&self) -> f64 {
        (self.options.every as f64 / 1e3 * self.coefficients.root * self.interval_factor()).powi(2) / 2.0
    }

    /// Number of expected events at which the policy `hash` visits an item.
    fn hash_events(&self) -> f64 {
        if self.options.hash.events > 0.0 {
            return self.options.hash.events;
        }
        self.coefficients.rate_per_s * self.options.every as f64 / 1e3 * self.interval_factor()
    }

    fn hash_latest(&self) -> Millis {
        self.options.hash.longest_interval(self.options.every).min(self.options.longest)
    }

    /// Time from the last visit to the next one, ms, within the bounds.
    #[must_use]
    pub fn interval(&self, rhythm: &Rhythm, id: &str) -> Millis {
        let Options { policy, every, shortest, longest, .. } = self.options;
        let interval = match policy {
            Policy::RoundRobin => every,
            Policy::Classes => {
                let times = self.options.classes.interval_factor(classes::class_of_priority(rhythm.priority));
                (every as f64 * times * self.interval_factor()) as Millis
            }
            Policy::Poisson => self.periodic_interval(rhythm, id),
            Policy::Hash if self.options.hash.by_kind && !is_steady(rhythm) => self.periodic_interval(rhythm, id),
            Policy::Hash => hash::interval(&self.options.hash, rhythm, self.hash_events(), self.hash_latest()),
            Policy::Adaptive => Forecast::new(&self.coefficients, rhythm).interval(self.price(), shortest, longest),
        };
        interval.clamp(shortest, longest)
    }

    fn periodic_interval(&self, rhythm: &Rhythm, id: &str) -> Millis {
        let visited = rhythm.visited.unwrap_or(rhythm.since);
        poisson::interval(self.period_position(rhythm, id), self.options.every, visited)
    }

    fn period_position(&self, rhythm: &Rhythm, id: &str) -> f64 {
        poisson::period_position(self.coefficients.rank(rhythm.per_day()), id)
    }

    /// The policy's expectation for an item, and the reason for a visit `interval`, ms, after its last one.
    #[must_use]
    pub fn forecast_visit(&self, rhythm: &Rhythm, id: &str, interval: Millis, now: Millis) -> VisitForecast {
        let forecast = Forecast::new(&self.coefficients, rhythm);
        let since = now.saturating_sub(rhythm.visited.unwrap_or(now)).max(0);
        let events = forecast.expected_events(interval);
        let by_its_kind = self.options.hash.by_kind && !is_steady(rhythm);
        let why = match self.options.policy {
            _ if rhythm.visited.is_none() => VisitReason::Unknown,
            Policy::RoundRobin => VisitReason::Turn,
            _ if interval <= self.options.shortest => VisitReason::Shortest,
            Policy::Hash if interval >= self.hash_latest() => VisitReason::Longest,
            _ if interval >= self.options.longest => VisitReason::Longest,
            Policy::Classes => VisitReason::Class(classes::class_of_priority(rhythm.priority)),
            Policy::Poisson => VisitReason::PeriodPosition(self.period_position(rhythm, id)),
            Policy::Hash if by_its_kind => VisitReason::PeriodPosition(self.period_position(rhythm, id)),
            Policy::Hash => VisitReason::Events(self.hash_events()),
            Policy::Adaptive => VisitReason::Delay(self.price()),
        };
        VisitForecast {
            kind: rhythm.kind(now),
            per_day: forecast.per_day(),
            unseen: forecast.expected_events(since),
            events,
            why,
        }
    }
}

/// Returns true for an item that the paper on visiting forecasts by its hours.
fn is_steady(rhythm: &Rhythm) -> bool {
    matches!(rhythm.kind(rhythm.visited.unwrap_or(rhythm.since)), Kind::Constant | Kind::Authority)
}
