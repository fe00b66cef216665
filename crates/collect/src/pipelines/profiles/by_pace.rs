//! Intervals of profiles by the pace of their counts: as many calls as by silence, spent where counts change.
//!
//! Between two answers the stored counts miss changes: pace × interval² ÷ 2, in changes × days. For a given number of calls, the sum is
//! least if each account has missed the same at its lookup. So its interval is that of active accounts × √(price ÷ pace), at most that
//! of idle accounts. A daily correction adjusts the price ([`budget`](engine::schedule::adaptive::budget)). Frozen accounts keep
//! their interval and their quiet hours. `cargo bench -- accounts` measures the gain.

use std::sync::Arc;

use super::schedule::{LOOKED_UP_TIER, SilenceSchedule};
use engine::base::clock::Millis;
use engine::lane::Lane;
use engine::schedule::adaptive::Options;
use engine::schedule::adaptive::budget::{Normaliser, Spending};
use engine::schedule::adaptive::grid::Grid;
use engine::schedule::{Budgeted, Next, Schedule, ScheduledItem};

/// Price before the first correction, changes per day: an assumption.
const FIRST_PRICE: f64 = 10.0;
/// Minimum expected changes per day and account: a pace is an estimate, and posts come in bursts.
const MIN_CHANGES_PER_DAY: f64 = 0.5;
/// Factor by which a lookup may exceed its interval and still show the demand of the schedule.
const LATE_FACTOR: f64 = 1.5;

#[derive(Debug, Clone)]
pub struct PaceSchedule {
    /// Has the budget, and the rules for frozen accounts.
    silence: SilenceSchedule,
    grid: Grid,
    /// Interval at the price, ms.
    base_interval: Millis,
    /// Shortest and longest interval, ms.
    bounds: (Millis, Millis),
    /// Changes per day, see the module.
    price: f64,
}

impl PaceSchedule {
    /// Uses the budget of `silence`; `options` give the shortest interval and the lanes.
    #[must_use]
    pub fn new(silence: SilenceSchedule, options: Options) -> Self {
        let (active, idle) = silence.intervals();
        let shortest = ((active as f64 * options.shortest) as Millis).max(1);
        // The interval restores the lane of an account that the queue has lost: none may equal that of missing accounts.
        let shortest = if silence.is_confirm_interval(shortest) { shortest + 1 } else { shortest };
        let bounds = (shortest, idle.max(active));
        let grid = Grid::new(bounds.0, bounds.1, options.lanes_per_octave);
        Self { silence, grid, base_interval: active, bounds, price: FIRST_PRICE }
    }

    fn is_frozen(&self, item: &ScheduledItem<'_>, now: Millis) -> bool {
        item.activity.last.is_some_and(|last| self.silence.is_frozen(last, now))
    }

    fn lane(&self, interval: Millis) -> Lane {
        self.grid.lane(interval).with_tier(LOOKED_UP_TIER)
    }
}

impl Schedule for PaceSchedule {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        if self.is_frozen(item, now) {
            return self.silence.next(item, now);
        }
        let by_pace = |per_day: f64| {
            (self.base_interval as f64 * (self.price / per_day.max(MIN_CHANGES_PER_DAY)).sqrt()) as Millis
        };
        // Without a pace, by its silence.
        let by_silence = || self.silence.lane(item, now).patience;
        let interval = item.activity.pace.map_or_else(by_silence, |pace| by_pace(pace.per_day));
        let interval = interval.clamp(self.bounds.0, self.bounds.1);
        Some((self.lane(interval), interval))
    }

    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        self.silence.first(item, now)
    }

    fn lanes(&self) -> Vec<Lane> {
        self.silence.lanes()
    }

    fn longest_interval(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Millis> {
        self.silence.longest_interval(item, now)
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        let by_silence = self.silence.lane_for_interval(interval)?;
        Some(if self.silence.is_frozen_or_missing(&by_silence) { by_silence } else { self.lane(interval) })
    }
    fn budget(&self) -> Option<&dyn Budgeted> {
        Some(self)
    }
}

impl Budgeted for PaceSchedule {
    fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending> {
        let times = item.activity.pace.and_then(|pace| Some((pace.since?, pace.at)));
        let spent = times.filter(|(since, at)| since < at && !self.is_frozen(item, *at)).and_then(|(since, at)| {
            let (elapsed, planned) = ((at - since) as f64, due.saturating_sub(since).max(self.bounds.0) as f64);
            // Longer than any interval: it was frozen before, or there are far too few calls.
            if elapsed > self.bounds.1 as f64 * LATE_FACTOR {
                return None;
            }
            // A late call counts for all that were demanded meanwhile, as in the budget of posts.
            let (calls, table_calls) = (elapsed / planned, elapsed / self.silence.lane(item, at).patience as f64);
            // Without events: a few famous accounts have most of them, and would move the price from day to day.
            Some(Spending { calls, table_calls, ..Spending::default() })
        });
        Some(spent.unwrap_or_default())
    }

    fn with_correction(&self, by: Normaliser) -> Arc<dyn Schedule> {
        Arc::new(Self { price: FIRST_PRICE * by.price, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipelines::profiles::schedule::tests::schedule as by_silence;
    use engine::base::activity::{Activity, Pace};

    const NOW: Millis = 1_700_000_000_000;
    const HOUR: Millis = 3_600_000;
    const DAY: Millis = 24 * HOUR;

    fn schedule() -> PaceSchedule {
        PaceSchedule::new(by_silence(), Options::default())
    }

    fn changing(per_day: f64) -> ScheduledItem<'static> {
        let pace = Some(Pace { per_day, at: NOW, since: Some(NOW - 2 * DAY) });
        ScheduledItem {
            activity: Activity { last: Some(NOW - DAY), pace, ..Activity::default() },
            ..ScheduledItem::new("12", None)
        }
    }

    fn interval(schedule: &dyn Schedule, item: &ScheduledItem<'_>) -> Millis {
        let (lane, delay) = schedule.next(item, NOW).unwrap();
        assert_eq!(
            (lane.tier, schedule.lane_for_interval(delay)),
            (LOOKED_UP_TIER, Some(lane.clone())),
            "a lost one is there again"
        );
        assert!(lane.patience >= delay);
        delay
    }

    #[test]
    fn the_faster_its_counts_change_the_more_often_an_account_is_looked_up() {
        let schedule = schedule();
        let of =
            [MIN_CHANGES_PER_DAY, 1.0, FIRST_PRICE, 40.0, 1e9].map(|per_day| interval(&schedule, &changing(per_day)));
        assert!(of.is_sorted_by(|slow, fast| slow > fast), "{of:?}");
        assert_eq!(
            (of[2], of[4]),
            (DAY, DAY / 9),
            "as an active one at the price, and not more than nine times as often"
        );
        let dear = schedule.with_correction(Normaliser { price: 1e6, level: 1.0 });
        assert_eq!(interval(&*dear, &changing(1.0)), 7 * DAY, "and not less often than an idle one");
        // Without a pace, by its silence.
        for (silent, days) in [(1, 1), (8, 7)] {
            let activity = Activity { last: Some(NOW - silent * DAY), ..Activity::default() };
            assert_eq!(interval(&schedule, &ScheduledItem { activity, ..ScheduledItem::new("12", None) }), days * DAY);
        }
    }

    #[test]
    fn the_frozen_keep_their_nights_and_the_new_are_first() {
        let schedule = schedule();
        let silent = Activity { last: Some(NOW - 40 * DAY), ..changing(1e9).activity };
        let silent = ScheduledItem { activity: silent, ..changing(1e9) };
        assert_eq!(schedule.next(&silent, NOW), schedule.silence.next(&silent, NOW));
        assert_eq!(&*schedule.lane_for_interval(29 * DAY + HOUR).unwrap().name, "frozen");
        assert_eq!(&*schedule.lane_for_interval(600_000).unwrap().name, "confirm");
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
        let brought_forward = schedule.spending(&changing(3.0), NOW - 2 * DAY + 1).unwrap();
        assert!(brought_forward.calls <= 18.1, "not more than the shortest interval allows: {brought_forward:?}");
        let pace = Some(Pace { per_day: 3.0, at: NOW, since: Some(NOW - 20 * DAY) });
        let woken = ScheduledItem { activity: Activity { pace, ..changing(3.0).activity }, ..changing(3.0) };
        assert_eq!(schedule.spending(&woken, NOW), Some(Spending::default()), "it was frozen");
        assert_eq!((&schedule as &dyn Schedule).recent_events(&changing(3.0)), Some(3.0));
        assert_eq!(schedule.spending(&ScheduledItem::new("12", None), NOW), Some(Spending::default()));
    }

    #[test]
    fn days_bring_the_calls_to_those_of_silence_in_a_mostly_silent_population_too() {
        // A fifth is active and changes fast.
        let population: Vec<ScheduledItem<'_>> = (0..1_000)
            .map(|n| {
                let (silent, per_day) = if n % 5 == 0 { (1, 20.0) } else { (10, 0.2) };
                let pace = Some(Pace { per_day, at: NOW, since: None });
                let activity = Activity { last: Some(NOW - silent * DAY), pace, ..Activity::default() };
                ScheduledItem { activity, ..ScheduledItem::new("12", None) }
            })
            .collect();
        let of_a_day = |schedule: &dyn Schedule| -> f64 {
            population.iter().map(|item| DAY as f64 / schedule.next(item, NOW).unwrap().1 as f64).sum()
        };
        let (base, mut by, mut off) = (schedule(), Normaliser::default(), 0.0);
        let table_calls = of_a_day(&base.silence);
        for _ in 0..20 {
            let calls = of_a_day(&*base.with_correction(by));
            by = by.after_day(&Spending { calls, table_calls, ..Spending::default() }, 1.0);
            off = calls / table_calls;
        }
        assert!((off - 1.0).abs() < 0.02, "{off}");
    }

    proptest! {
        #[test]
        fn any_pace_has_an_interval_within_the_bounds(per_day in any::<f64>(), price in 1e-6..1e6f64) {
            let schedule = schedule().with_correction(Normaliser { price, level: 1.0 });
            let delay = schedule.next(&changing(per_day.abs()), NOW).unwrap().1;
            prop_assert!((DAY / 9..=7 * DAY).contains(&delay), "{delay}");
        }
    }
}
