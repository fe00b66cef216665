//! When profiles are due that change at different paces: as many calls as by silence, spent where counts change.
//!
//! Between two answers the stored counts miss what changes: pace × interval² ÷ 2, in changes × days. To make the sum least for
//! a number of calls, each account is looked up when it has missed as much as any other: its interval is that of active
//! accounts × √(price ÷ pace). It is never longer than that of idle ones: who is quiet may begin to post. The price is
//! corrected once a day, as that of posts ([`budget`](crate::engine::schedule::adaptive::budget)). Frozen accounts keep their
//! interval and their quiet hours. `cargo bench -- accounts` has what it brings.

use std::sync::Arc;

use super::schedule::{BySilence, SEEN_TIER};
use crate::base::clock::Millis;
use crate::engine::lane::Lane;
use crate::engine::schedule::adaptive::Options;
use crate::engine::schedule::adaptive::budget::{Normaliser, Spending};
use crate::engine::schedule::adaptive::grid::Grid;
use crate::engine::schedule::{Known, Next, Schedule};

/// The price before the first correction, changes a day: an assumption.
const FIRST_PRICE: f64 = 10.0;
/// What each account is expected to change at least, as a share of the price: a pace is an estimate.
const LEAST: f64 = 0.2;

/// Intervals by pace.
#[derive(Debug, Clone)]
pub struct ByPace {
    /// Has the budget, and the frozen ones.
    silence: BySilence,
    grid: Grid,
    /// The interval at the price, ms.
    usual: Millis,
    /// The shortest and the longest interval, ms.
    bounds: (Millis, Millis),
    /// Changes a day.
    price: f64,
}

impl ByPace {
    /// The schedule with the budget of `silence`; of the options it has the shortest interval.
    #[must_use]
    pub fn new(silence: BySilence, options: Options) -> Self {
        let (active, idle) = silence.intervals();
        let bounds = (((active as f64 * options.shortest) as Millis).max(1), idle.max(active));
        let grid = Grid::new(bounds.0, bounds.1, options.lanes_per_octave);
        Self { silence, grid, usual: active, bounds, price: FIRST_PRICE }
    }

    fn is_frozen(&self, item: &Known<'_>, now: Millis) -> bool {
        item.activity.last.is_some_and(|last| self.silence.is_frozen(last, now))
    }

    fn lane(&self, interval: Millis) -> Lane {
        self.grid.lane(interval).in_tier(SEEN_TIER)
    }
}

impl Schedule for ByPace {
    fn next(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        if self.is_frozen(item, now) {
            return self.silence.next(item, now);
        }
        let pace = item.activity.pace.map_or(self.price, |pace| pace.per_day);
        let stretched = (self.price * (1.0 + LEAST) / (pace + self.price * LEAST)).sqrt();
        let interval = ((self.usual as f64 * stretched) as Millis).clamp(self.bounds.0, self.bounds.1);
        Some((self.lane(interval), interval))
    }

    fn first(&self, item: &Known<'_>, now: Millis) -> Option<Next> {
        self.silence.first(item, now)
    }

    fn recent(&self, item: &Known<'_>) -> Option<f64> {
        item.activity.pace.map(|pace| pace.per_day)
    }

    fn spending(&self, item: &Known<'_>, due: Millis) -> Option<Spending> {
        let times = item.activity.pace.and_then(|pace| Some((pace.since?, pace.at)));
        let spent = times.filter(|(since, at)| since < at && !self.is_frozen(item, *at)).map(|(since, at)| {
            let (elapsed, planned) = ((at - since) as f64, due.saturating_sub(since));
            // A late call counts for less than one, as in the budget of posts: what is demanded is held to the budget.
            let calls = if planned > 0 { elapsed / planned as f64 } else { 1.0 };
            let table_calls = elapsed / self.silence.lane(item, at).patience as f64;
            // Without events: a few famous accounts have most of them, and would move the price from day to day.
            Spending { calls, table_calls, ..Spending::default() }
        });
        Some(spent.unwrap_or_default())
    }

    fn corrected(&self, by: Normaliser) -> Option<Arc<dyn Schedule>> {
        Some(Arc::new(Self { price: FIRST_PRICE * by.price, ..self.clone() }))
    }

    fn lane_of(&self, interval: Millis) -> Option<Lane> {
        let by_silence = self.silence.lane_of(interval)?;
        Some(if self.silence.is_frozen_or_missing(&by_silence) { by_silence } else { self.lane(interval) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::model::activity::{Activity, Pace};
    use crate::pipelines::profiles::schedule::Intervals;

    const NOW: Millis = 1_700_000_000_000;
    const HOUR: Millis = 3_600_000;
    const DAY: Millis = 24 * HOUR;

    fn schedule() -> ByPace {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let intervals =
            Intervals { active: days(1), idle: days(7), frozen: days(30), idle_after: days(7), freeze_after: days(31) };
        ByPace::new(BySilence::new(intervals, Lane::new("confirm", Duration::from_secs(600))), Options::default())
    }

    fn changing(per_day: f64) -> Known<'static> {
        let pace = Some(Pace { per_day, at: NOW, since: Some(NOW - 2 * DAY) });
        Known { activity: Activity { last: Some(NOW - DAY), pace, ..Activity::default() }, ..Known::new("12", None) }
    }

    fn interval(schedule: &dyn Schedule, item: &Known<'_>) -> Millis {
        let (lane, delay) = schedule.next(item, NOW).unwrap();
        assert_eq!((lane.tier, schedule.lane_of(delay)), (SEEN_TIER, Some(lane.clone())), "a lost one is there again");
        assert!(lane.patience >= delay);
        delay
    }

    #[test]
    fn the_faster_its_counts_change_the_more_often_an_account_is_looked_up() {
        let schedule = schedule();
        let of = [0.0, 1.0, FIRST_PRICE, 40.0, 1e9].map(|per_day| interval(&schedule, &changing(per_day)));
        assert!(of.is_sorted_by(|slow, fast| slow > fast), "{of:?}");
        assert_eq!(
            (of[2], of[4]),
            (DAY, DAY / 9),
            "as an active one at the price, and not more than nine times as often"
        );
        let unknown = Known { activity: Activity::default(), ..Known::new("12", None) };
        assert_eq!(interval(&schedule, &unknown), DAY);
        let dear = schedule.corrected(Normaliser { price: 1e6, level: 1.0 }).unwrap();
        assert!((interval(&*dear, &changing(1.0)) as f64 / (DAY as f64 * 6f64.sqrt()) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_frozen_keep_their_nights_and_the_new_are_first() {
        let schedule = schedule();
        let silent = Activity { last: Some(NOW - 40 * DAY), ..changing(1e9).activity };
        let silent = Known { activity: silent, ..changing(1e9) };
        assert_eq!(schedule.next(&silent, NOW), schedule.silence.next(&silent, NOW));
        assert_eq!(&*schedule.lane_of(29 * DAY + HOUR).unwrap().name, "frozen");
        assert_eq!(&*schedule.lane_of(600_000).unwrap().name, "confirm");
        assert_eq!(schedule.first(&silent, NOW).unwrap().0.tier, 0);
        assert_eq!(schedule.spending(&silent, NOW), Some(Spending::default()));
    }

    #[test]
    fn what_is_spent_is_compared_with_what_silence_would_spend() {
        let schedule = schedule();
        let spent = schedule.spending(&changing(3.0), NOW).unwrap();
        assert_eq!((spent.calls, spent.table_calls, spent.events), (1.0, 2.0, 0.0));
        let late = schedule.spending(&changing(3.0), NOW - DAY).unwrap();
        assert_eq!(late.calls, 2.0, "it should have been two");
        assert_eq!(schedule.recent(&changing(3.0)), Some(3.0));
        assert_eq!(schedule.spending(&Known::new("12", None), NOW), Some(Spending::default()));
    }

    proptest! {
        #[test]
        fn any_pace_has_an_interval_within_the_bounds(per_day in any::<f64>(), price in 1e-6..1e6f64) {
            let schedule = schedule().corrected(Normaliser { price, level: 1.0 }).unwrap();
            let delay = schedule.next(&changing(per_day.abs()), NOW).unwrap().1;
            prop_assert!((DAY / 9..=7 * DAY).contains(&delay), "{delay}");
        }
    }
}
