//! Visits: when an item of which only its own events are known (a person, a source) is visited again. Five policies, one
//! [`Rhythm`] of each item for all of them. Pure: no input or output, no clock, no state in the process.
//!
//! Units: times in ms since the epoch, intervals in ms, rates in events per second, prices in event seconds per visit.

pub mod classes;
pub mod coefficients;
pub mod rhythm;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::coefficients::Coefficients;
use self::rhythm::{Kind, Rhythm};
use super::adaptive::Spend;
use super::adaptive::budget::{Normaliser, Spending};
use super::adaptive::grid::{Grid, WIDEST_STEP};
use super::{Known, Next, Schedule};
use crate::base::clock::Millis;
use crate::engine::lane::Lane;

/// The policies.
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

/// What the operator sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The policy.
    pub policy: Policy,
    /// The average interval between two visits of an item, ms: the budget is one visit of each item in it.
    pub every: Millis,
    /// The shortest interval, ms.
    pub shortest: Millis,
    /// The longest interval, ms.
    pub longest: Millis,
    /// Lanes for each doubling of the interval, 1 to 4.
    pub lanes_per_octave: u32,
    /// How priorities rise and fall, of the policy `classes`. [`Rhythm::see`] wants them at each visit.
    pub classes: classes::Rules,
    /// What decides on the number of visits.
    pub spend: Spend,
    /// With [`Spend::Quota`]: the share of its interval after which an item may be visited early, 0 to 1.
    pub earliest: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            every: 24 * 3_600_000,
            shortest: 5 * 60_000,
            longest: 14 * 24 * 3_600_000,
            lanes_per_octave: 1,
            classes: classes::Rules::default(),
            spend: Spend::Demand,
            earliest: 0.5,
        }
    }
}

/// Why an item is visited when it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// Nothing is known of it yet.
    Unknown,
    /// Each item has the same interval.
    Turn,
    /// Its class of priority, 1 (the most often visited) to 6.
    Class(u8),
    /// Its place in the period, 0 to 1.
    Slot(f64),
    /// So many events are expected by then.
    Events(f64),
    /// Its expected events' delay is worth a visit, event seconds.
    Delay(f64),
    /// The shortest interval.
    Shortest,
    /// The longest interval.
    Longest,
}

/// What a policy expects of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Its kind.
    pub kind: Kind,
    /// Estimated events per day around now.
    pub per_day: f64,
    /// Events expected from the last visit to the next one.
    pub events: f64,
    /// Why it is visited then.
    pub why: Why,
}

/// The schedule.
#[derive(Debug, Clone)]
pub struct Visits {
    options: Options,
    coefficients: Arc<Coefficients>,
    normaliser: Normaliser,
    grid: Grid,
}

impl Visits {
    /// A schedule of that policy. Options beyond their bounds are brought into them.
    #[must_use]
    pub fn new(options: Options, coefficients: Arc<Coefficients>) -> Self {
        let shortest = options.shortest.max(1);
        let longest = options.longest.max(shortest);
        let earliest = if options.earliest.is_finite() { options.earliest.clamp(0.0, 1.0) } else { 1.0 };
        let options = Options { shortest, longest, every: options.every.clamp(shortest, longest), earliest, ..options };
        let grid = Grid::new(shortest, longest, options.lanes_per_octave);
        Self { options, coefficients, normaliser: Normaliser::default(), grid }
    }

    /// The options, within their bounds.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// From the last visit to the next one, ms.
    fn interval(&self, _rhythm: &Rhythm, _now: Millis) -> Millis {
        self.options.every
    }

    /// What the policy expects of an item, and why it is visited after `interval`, ms, from its last visit.
    #[must_use]
    pub fn expected(&self, rhythm: &Rhythm, interval: Millis, now: Millis) -> Expected {
        let per_day = rhythm.per_day();
        let events = per_day * interval as f64 / rhythm::DAY as f64;
        Expected { kind: rhythm.kind(now), per_day, events, why: Why::Turn }
    }
}

impl Schedule for Visits {
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        let visited = item.rhythm.and_then(|rhythm| rhythm.visited).map_or(now, |visited| visited.min(now));
        let interval = item.rhythm.map_or(self.options.every, |rhythm| self.interval(rhythm, now));
        Some((self.grid.lane(interval), visited.saturating_add(interval).saturating_sub(now).max(0)))
    }

    fn first(&self, _item: &Known<'_>, _now: Millis) -> Option<Next> {
        Some((Lane::first(), 0))
    }

    fn corrected(&self, by: Normaliser) -> Option<Arc<dyn Schedule>> {
        Some(Arc::new(Self { normaliser: by, ..self.clone() }))
    }

    fn spending(&self, _item: &Known<'_>, _due: Millis) -> Option<Spending> {
        None
    }

    fn early(&self) -> f64 {
        if self.options.spend == Spend::Quota { (1.0 - self.options.earliest) / WIDEST_STEP } else { 0.0 }
    }

    fn lane_of(&self, interval: Millis) -> Option<Lane> {
        Some(self.grid.lane(interval))
    }

    fn longest(&self, _item: &Known<'_>, _now: Millis) -> Option<Millis> {
        Some(self.options.longest)
    }
}
