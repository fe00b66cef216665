//! Bounds on the due times of any schedule. Pure.
//!
//! A *check* shows that an item still exists: an API answer, or a later sign by another source ([`ScheduledItem::checked_at`]).

use std::sync::Arc;

use super::adaptive::budget::{Normaliser, Spending};
use super::age::{AgeTable, SameDay};
use super::budgeted::QuotaUse;
use super::{Bound, Budgeted, IntervalExplanation, Next, Schedule, ScheduledItem, corrected};
use crate::base::clock::Millis;
use crate::lane::Lane;

/// Lane of items that are due because of the bound, if the schedule names its lanes by their intervals.
const CHECK: &str = "check";

#[derive(Debug, Clone)]
pub struct BoundedSchedule {
    pub schedule: Arc<dyn Schedule>,
    /// Maximum time since the last check, ms.
    pub longest: Option<Millis>,
    /// Prefers a time before midnight to one shortly after it.
    pub same_day: Option<SameDay>,
}

impl BoundedSchedule {
    fn bounded(&self, (lane, delay): Next, item: &ScheduledItem<'_>, now: Millis) -> Next {
        let Some(longest) = self.longest else { return (lane, delay) };
        let answered_at = item.history.last.map(|answer| answer.at);
        let checked_at = item.checked_at.max(answered_at).unwrap_or(now).min(now);
        let latest = checked_at.saturating_add(longest).saturating_sub(now).max(0);
        if delay <= latest { (lane, delay) } else { (self.lane(lane), latest) }
    }

    /// The lane with a patience of at most the bound, since the patience states the demand of its items.
    fn lane(&self, lane: Lane) -> Lane {
        match self.longest.filter(|longest| lane.patience > *longest) {
            None => lane,
            Some(patience) if lane.allows_early_claims() => Lane { name: CHECK.into(), patience, ..lane },
            Some(patience) => Lane { patience, ..lane },
        }
    }

    fn reaches_bound(&self, interval: Millis) -> bool {
        self.longest.is_some_and(|longest| interval >= longest)
    }
}

impl Schedule for BoundedSchedule {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        let (lane, delay) = self.schedule.next(item, now)?;
        let delay = self.same_day.map_or(delay, |same_day| same_day.delay(now, delay));
        Some(self.bounded((lane, delay), item, now))
    }

    /// An item that arrives counts as just checked.
    fn first(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        Some(self.bounded(self.schedule.first(item, now)?, item, now))
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        let lane = self.schedule.lane_for_interval(interval)?;
        Some(if self.reaches_bound(interval) { self.lane(lane) } else { lane })
    }

    fn longest_interval(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Millis> {
        let longest = self.schedule.longest_interval(item, now)?;
        Some(self.longest.map_or(longest, |bound| longest.min(bound)))
    }

    fn lanes(&self) -> Vec<Lane> {
        self.schedule.lanes().into_iter().map(|lane| self.lane(lane)).collect()
    }

    fn age_table(&self) -> Option<&AgeTable> {
        self.schedule.age_table()
    }

    fn budget(&self) -> Option<&dyn Budgeted> {
        self.schedule.budget().map(|_| self as &dyn Budgeted)
    }
}

impl Budgeted for BoundedSchedule {
    fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending> {
        self.schedule.spending(item, due)
    }

    fn with_correction(&self, by: Normaliser) -> Arc<dyn Schedule> {
        Arc::new(Self { schedule: corrected(&self.schedule, by), ..self.clone() })
    }

    fn quota_use(&self) -> QuotaUse {
        self.schedule.budget().map_or_else(QuotaUse::default, Budgeted::quota_use)
    }

    fn recent_events(&self, item: &ScheduledItem<'_>) -> Option<f64> {
        self.schedule.recent_events(item)
    }

    fn explain(&self, item: &ScheduledItem<'_>, interval: Millis, now: Millis) -> Option<IntervalExplanation> {
        let explained = self.schedule.budget()?.explain(item, interval, now)?;
        let bound = explained.bound.or(self.reaches_bound(interval).then_some(Bound::Unchecked));
        Some(IntervalExplanation { bound, ..explained })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::adaptive::model::Model;
    use crate::schedule::adaptive::{Adaptive, Options};
    use crate::schedule::history::{Answer, History};

    const HOUR: Millis = 3_600_000;
    const DAY: Millis = 24 * HOUR;
    const MADE: Millis = 1_700_000_000_000;

    fn adaptive(table: &str) -> Arc<dyn Schedule> {
        let (table, model) = (table.parse().unwrap(), Arc::new(Model::embedded().unwrap()));
        Arc::new(Adaptive::new(table, model, Options::default(), Normaliser { price: 4.0, level: 1.0 }))
    }

    fn checked(schedule: Arc<dyn Schedule>) -> BoundedSchedule {
        BoundedSchedule { schedule, longest: Some(DAY), same_day: None }
    }

    fn quiet() -> ScheduledItem<'static> {
        let answer = |days, count| Some(Answer { at: MADE + days * DAY, count });
        let history =
            History { created_at: Some(MADE), last: answer(10, 5.0), before: answer(5, 5.0), recent: Some(0.0) };
        ScheduledItem { history, ..ScheduledItem::new("1", None) }
    }

    #[test]
    fn a_quiet_item_is_due_a_day_after_its_last_check() {
        let (free, now) = (adaptive("7d: 6h, 30d: 1d"), MADE + 10 * DAY);
        let bounded = checked(free.clone());
        assert!(free.next(&quiet(), now).unwrap().1 > 2 * DAY, "without the bound it waits for days");
        let (lane, delay) = bounded.next(&quiet(), now).unwrap();
        assert_eq!((&*lane.name, lane.patience, delay), (CHECK, DAY, DAY));
        // An item that the queue lost returns to that lane.
        assert_eq!(bounded.lane_for_interval(DAY), Some(lane));
        assert_eq!(bounded.lane_for_interval(HOUR), free.lane_for_interval(HOUR));
        assert_eq!(bounded.longest_interval(&quiet(), now), Some(DAY));
        assert_eq!(bounded.explain(&quiet(), DAY, now).unwrap().bound, Some(Bound::Unchecked));
        let corrected = bounded.with_correction(Normaliser { price: 1e6, level: 1.0 });
        assert_eq!(corrected.next(&quiet(), now).unwrap().1, DAY, "no price is higher than the bound");
    }

    #[test]
    fn a_later_check_by_another_source_counts_and_an_earlier_one_does_not() {
        let (bounded, now) = (checked(adaptive("7d: 6h, 30d: 1d")), MADE + 10 * DAY + 20 * HOUR);
        let due = |checked_at| bounded.next(&ScheduledItem { checked_at, ..quiet() }, now).unwrap().1;
        assert_eq!(due(None), 4 * HOUR, "a day after the last answer");
        assert_eq!(due(Some(now - HOUR)), 23 * HOUR, "a day after the later check");
        assert_eq!(due(Some(MADE)), 4 * HOUR);
        assert_eq!(due(Some(now + DAY)), DAY, "a check in the future is one of now");
    }

    #[test]
    fn a_lane_that_is_not_named_by_an_interval_keeps_its_name() {
        let table: AgeTable = "30d: 10d, 90d: 20h".parse().unwrap();
        let bounded = checked(Arc::new(table));
        let next = |days: Millis| bounded.next(&ScheduledItem::new("1", Some(MADE)), MADE + days * DAY);
        let (lane, delay) = next(3).unwrap();
        assert_eq!((&*lane.name, lane.patience, delay), ("30d", DAY, DAY));
        let (lane, delay) = next(40).unwrap();
        assert_eq!((&*lane.name, lane.patience, delay), ("90d", 20 * HOUR, 20 * HOUR));
        assert_eq!(next(100), None, "the end of a life stays");
        assert_eq!(bounded.first(&ScheduledItem::new("1", Some(MADE)), MADE).unwrap().1, DAY);
    }

    proptest! {
        #[test]
        fn no_item_waits_longer_than_the_bound(
            age in 0..90 * DAY,
            counts in (0.0..1e6f64, 0.0..1e6f64),
            back in 0..9 * DAY,
            longest in HOUR..9 * DAY,
        ) {
            let bounded = BoundedSchedule { longest: Some(longest), ..checked(adaptive("1d: 1h, 7d: 6h, 90d: 5d")) };
            let answer = |at, count| Some(Answer { at: MADE + at, count });
            let history = History { created_at: Some(MADE), last: answer(age, counts.0), before: answer(age - back, counts.1), recent: None };
            if let Some((lane, delay)) = bounded.next(&ScheduledItem { history, ..ScheduledItem::new("1", None) }, MADE + age) {
                prop_assert!(delay <= longest && delay <= lane.patience, "{delay} {lane:?}");
            }
        }
    }
}
