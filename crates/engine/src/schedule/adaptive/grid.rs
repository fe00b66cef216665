//! Grid of intervals: the lanes of an adaptive schedule. Pure.
//!
//! Each lane adds cost to each claim and each schedule. So the lanes form a geometric grid, and an item goes into the nearest
//! lane that is not shorter than its interval. The due time stays exact. The patience only decides the order when there are too
//! few calls, and is off by less than one step.

use crate::base::clock::{self, Millis};
use crate::lane::{EARLY_CLAIM_PREFIX, Lane};

#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Rising, ms.
    patiences: Vec<Millis>,
}

/// Maximum ratio of a lane's patience to an interval in it, with one lane per octave: two, plus rounding.
pub const MAX_STEP: f64 = 2.12;

/// Maximum number of lanes per octave. Two per octave are 1, 1.4, 2, 2.8 … times the first.
const MAX_LANES_PER_OCTAVE: u32 = 4;

impl Grid {
    /// Lanes from `shortest` to `longest`, both ms and at least 1 ms, with `per_octave` (1 to 4) lanes per doubling. The first lane is
    /// `shortest` itself; the last one is the first that is not shorter than `longest`.
    #[must_use]
    pub fn new(shortest: Millis, longest: Millis, per_octave: u32) -> Self {
        let shortest = shortest.max(1);
        let per_octave = per_octave.clamp(1, MAX_LANES_PER_OCTAVE);
        let mut patiences = vec![shortest];
        for step in 1..=64 * per_octave {
            let patience = round_interval(shortest as f64 * (f64::from(step) / f64::from(per_octave)).exp2());
            let last = patiences.last().copied().unwrap_or(shortest);
            if last >= longest {
                break;
            }
            if last < patience {
                patiences.push(patience);
            }
        }
        Self { patiences }
    }

    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.patiences.iter().map(|patience| interval_lane(*patience))
    }

    /// The shortest lane that is not shorter than the interval, ms. Intervals longer than the grid go into the last lane.
    #[must_use]
    pub fn lane(&self, interval: Millis) -> Lane {
        let at = self.patiences.partition_point(|patience| *patience < interval);
        interval_lane(self.patiences.get(at).or(self.patiences.last()).copied().unwrap_or(1))
    }
}

/// Whole seconds from ten seconds on, whole minutes from ten minutes on, and so on, so that names stay short.
fn round_interval(ms: f64) -> Millis {
    let unit = match ms {
        ms if ms < 10_000.0 => 1.0,
        ms if ms < 600_000.0 => 1_000.0,
        ms if ms < 36_000_000.0 => 60_000.0,
        _ => 600_000.0,
    };
    // Below 2^63: the grid ends at 100 years, and a cast saturates.
    ((ms / unit).round() * unit) as Millis
}

/// Updates of an item in that lane per patience. In a lane of the grid, intervals are between half the patience and all of it,
/// evenly in their logarithm. In other lanes they are all of it.
#[must_use]
pub fn updates_per_patience(lane: &str) -> f64 {
    if lane.starts_with(EARLY_CLAIM_PREFIX) { std::f64::consts::LOG2_E } else { 1.0 }
}

/// A lane named by its interval, `~5m` or `~1h24m`: "about every".
fn interval_lane(patience: Millis) -> Lane {
    let text = humantime::format_duration(clock::span(patience)).to_string();
    let name: String = text.split_whitespace().collect();
    Lane::new(format!("{EARLY_CLAIM_PREFIX}{name}"), clock::span(patience))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_read_as_intervals() {
        let grid = Grid::new(20_000, 86_400_000, 1);
        let names: Vec<String> = grid.lanes().map(|lane| lane.name.to_string()).collect();
        assert_eq!(names[..6], ["~20s", "~40s", "~1m20s", "~2m40s", "~5m20s", "~11m"]);
        assert_eq!(names.len(), 14, "{names:?}");
        assert!(grid.lanes().last().is_some_and(|lane| lane.patience >= 86_400_000), "{names:?}");
        assert_eq!(grid.lane(10 * 86_400_000), grid.lanes().last().unwrap());
        assert_eq!(Grid::new(60_000, 60_000, 2).lanes().count(), 1);
        assert_eq!(Grid::new(0, -5, 0).lanes().next().map(|lane| lane.patience), Some(1));
    }

    proptest! {
        #[test]
        fn intervals_in_a_lane_are_shorter_than_its_patience(shortest in 20_000i64..1_000_000) {
            let grid = Grid::new(shortest, 100 * 86_400_000, 1);
            let lane = grid.lanes().nth(3).unwrap();
            let (from, to) = ((lane.patience / 2) as f64, lane.patience as f64);
            let rates = (0..1_000).map(|at| lane.patience as f64 / (from * (to / from).powf((f64::from(at) + 0.5) / 1e3)));
            let mean = rates.sum::<f64>() / 1e3;
            prop_assert!((mean / updates_per_patience(&lane.name) - 1.0).abs() < 0.01, "{mean}");
        }

        #[test]
        fn a_lane_is_at_most_a_step_above_its_intervals(interval in 20_000i64..86_000_000, per_octave in 1u32..5) {
            let grid = Grid::new(20_000, 86_400_000, per_octave);
            let lane = grid.lane(interval);
            prop_assert!(lane.patience >= interval);
            let step = (1.0 / f64::from(per_octave)).exp2();
            prop_assert!(lane.patience as f64 <= interval as f64 * step * 1.06, "{interval} {lane:?}");
            prop_assert!(lane.patience as f64 <= interval as f64 * MAX_STEP, "{interval} {lane:?}");
            prop_assert!(grid.lanes().any(|other| other == lane));
        }
    }
}
