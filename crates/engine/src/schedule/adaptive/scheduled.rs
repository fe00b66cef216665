//! The adaptive schedule as a `Schedule`.

use std::sync::Arc;

use super::Adaptive;
use super::budget::{Normaliser, Spending};
use crate::base::clock::Millis;
use crate::lane::Lane;
use crate::schedule::age::AgeTable;
use crate::schedule::budgeted::QuotaUse;
use crate::schedule::history::History;
use crate::schedule::{Budgeted, IntervalExplanation, Next, Schedule, ScheduledItem};

/// The item's history. A date in the future counts as now, as in the age table.
fn with_past_date(item: &ScheduledItem<'_>, now: Millis) -> History {
    History { created_at: item.history.created_at.map(|created_at| created_at.min(now)), ..item.history }
}

impl Schedule for Adaptive {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        let decision = self.next(&with_past_date(item, now), now)?;
        Some((decision.lane, decision.delay))
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        Some(self.grid.lane(interval))
    }

    fn longest_interval(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Millis> {
        let bracket = match item.history.created_at {
            Some(created_at) => self.table.bracket(created_at.min(now), now),
            None => self.table.brackets().last(),
        }?;
        Some(self.interval_bounds(bracket).1)
    }

    fn age_table(&self) -> Option<&AgeTable> {
        Some(&self.table)
    }

    fn budget(&self) -> Option<&dyn Budgeted> {
        Some(self)
    }
}

impl Budgeted for Adaptive {
    fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending> {
        Some(self.spending(&item.history, Some(due)))
    }

    fn with_correction(&self, by: Normaliser) -> Arc<dyn Schedule> {
        Arc::new(self.clone().with_normaliser(by))
    }

    fn quota_use(&self) -> QuotaUse {
        // Beyond this the bounds of the intervals would limit the calls, and the price would run away.
        const REACH: f64 = 0.9;
        QuotaUse::new(self.options.spend, self.options.shortest.powf(-REACH), self.options.earliest)
    }

    fn recent_events(&self, item: &ScheduledItem<'_>) -> Option<f64> {
        let last = item.history.last?;
        let counts = Self::counts(item.history.created_at?.min(last.at), &item.history)?;
        Some(self.model.recent_events(&counts))
    }

    fn explain(&self, item: &ScheduledItem<'_>, interval: Millis, now: Millis) -> Option<IntervalExplanation> {
        self.explain(&with_past_date(item, now), interval, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::adaptive::Options;
    use crate::schedule::adaptive::model::Model;
    use crate::schedule::history::Answer;
    use crate::schedule::{Bound, corrected};

    const HOUR: Millis = 3_600_000;
    const MADE: Millis = 1_700_000_000_000;

    fn schedule() -> Adaptive {
        let table = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d".parse().unwrap();
        Adaptive::new(table, Arc::new(Model::embedded().unwrap()), Options::default(), Normaliser::default())
    }

    fn item_with_counts(counts: [f64; 2]) -> ScheduledItem<'static> {
        let [before, last] = counts;
        let answer = |hours, count| Some(Answer { at: MADE + hours * HOUR, count });
        let history =
            History { created_at: Some(MADE), last: answer(6, last), before: answer(5, before), recent: Some(3.0) };
        ScheduledItem { history, ..ScheduledItem::new("1", None) }
    }

    #[test]
    fn it_decides_as_the_estimator_and_stores_what_that_wants_back() {
        let (schedule, item) = (schedule(), item_with_counts([40.0, 90.0]));
        let now = MADE + 6 * HOUR;
        let decision = schedule.next(&item.history, now).unwrap();
        assert_eq!(Schedule::next(&schedule, &item, now), Some((decision.lane.clone(), decision.interval)));
        assert_eq!(schedule.recent_events(&item), decision.recent);
        assert!(schedule.recent_events(&item_with_counts([40.0, 40.0])) < decision.recent);
        assert_eq!(schedule.recent_events(&ScheduledItem::new("1", Some(MADE))), None);
        // An item that returns to the queue by its stored times is in its old lane.
        assert_eq!(schedule.lane_for_interval(decision.interval), Some(decision.lane));
    }

    #[test]
    fn an_interval_tells_how_busy_the_item_was_taken_to_be() {
        let schedule = schedule();
        let now = MADE + 6 * HOUR;
        for counts in [[400.0, 405.0], [4.0, 4.0], [40.0, 90.0]] {
            let item = item_with_counts(counts);
            let decision = schedule.next(&item.history, now).unwrap();
            let explained = Budgeted::explain(&schedule, &item, decision.interval, now + HOUR / 2).unwrap();
            assert!((explained.multiplier / decision.multiplier - 1.0).abs() < 0.01, "{explained:?} {decision:?}");
            assert_eq!(explained.bound, None);
            let rate = explained.unseen / 1_800.0;
            assert!(rate > explained.rate_per_s && rate < decision.rate_per_s.unwrap(), "{explained:?} {decision:?}");
        }
        let bound =
            |interval| Budgeted::explain(&schedule, &item_with_counts([1.0, 1.0]), interval, now).unwrap().bound;
        assert_eq!([HOUR / 9, 8 * HOUR].map(bound), [Some(Bound::Shortest), Some(Bound::Longest)]);
        assert_eq!(Budgeted::explain(&schedule, &ScheduledItem::new("1", Some(MADE)), HOUR, now), None);
    }

    #[test]
    fn a_higher_price_means_longer_intervals_until_it_falls_again() {
        let (schedule, item, now) = (schedule(), item_with_counts([40.0, 90.0]), MADE + 6 * HOUR);
        let delay = |schedule: &dyn Schedule| schedule.next(&item, now).unwrap().1;
        let dear = schedule.with_correction(Normaliser { price: 4.0, level: 1.0 });
        assert!(delay(&*dear) > delay(&schedule));
        assert_eq!(delay(&*corrected(&dear, Normaliser::default())), delay(&schedule));
        let spent = Budgeted::spending(&schedule, &item, now).unwrap();
        assert_eq!((spent.calls, spent.events), (1.0, 50.0));
    }

    #[test]
    fn a_date_in_the_future_is_no_end_of_a_life_and_none_is_the_last_bracket() {
        let schedule = schedule();
        let now = MADE - HOUR;
        assert!(Schedule::next(&schedule, &ScheduledItem::new("1", Some(MADE)), now).is_some());
        assert!(Schedule::next(&schedule, &item_with_counts([40.0, 90.0]), now).is_some());
        assert_eq!(schedule.longest_interval(&ScheduledItem::new("1", None), now), Some(8 * 24 * HOUR));
        assert_eq!(schedule.longest_interval(&ScheduledItem::new("1", Some(MADE)), MADE + HOUR), Some(8 * HOUR));
        assert_eq!(schedule.longest_interval(&ScheduledItem::new("1", Some(MADE)), MADE + 30 * 24 * HOUR), None);
    }
}
