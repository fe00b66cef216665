//! The visits as a `Schedule`.

use std::sync::Arc;

use super::{Policy, Visits};
use crate::base::clock::Millis;
use crate::lane::Lane;
use crate::schedule::adaptive::budget::{Normaliser, Spending};
use crate::schedule::budgeted::QuotaUse;
use crate::schedule::{Bound, Budgeted, IntervalExplanation, Next, Schedule, ScheduledItem};

/// Tier of visited items: after items never visited, and after items with known news.
const VISITED_TIER: u8 = 1;

impl Visits {
    fn lane(&self, interval: Millis) -> Lane {
        self.grid.lane(interval).with_tier(VISITED_TIER)
    }
}

impl Schedule for Visits {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        let Some(rhythm) = item.rhythm else {
            return Some((self.lane(self.options.every), self.options.every));
        };
        let visited = rhythm.visited.map_or(now, |visited| visited.min(now));
        let interval = self.interval(rhythm, item.id);
        Some((self.lane(interval), visited.saturating_add(interval).saturating_sub(now).max(0)))
    }

    fn first(&self, _item: &ScheduledItem<'_>, _now: Millis) -> Option<Next> {
        Some((Lane::first(), 0))
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        Some(self.lane(interval))
    }

    fn longest_interval(&self, _item: &ScheduledItem<'_>, _now: Millis) -> Option<Millis> {
        Some(match self.options.policy {
            Policy::RoundRobin => self.options.every,
            Policy::Poisson => self.options.every.saturating_mul(2).min(self.options.longest),
            _ => self.options.longest,
        })
    }

    fn budget(&self) -> Option<&dyn Budgeted> {
        Some(self)
    }
}

impl Budgeted for Visits {
    /// Compares visits per planned interval with one visit per [`every`](super::Options::every). In round robin and in the Poisson
    /// order these are the same, and there is nothing to correct.
    fn spending(&self, item: &ScheduledItem<'_>, due: Millis) -> Option<Spending> {
        let is_fixed = self.options.policy == Policy::Hash && self.options.hash.events > 0.0;
        if is_fixed || matches!(self.options.policy, Policy::RoundRobin | Policy::Poisson) {
            return None;
        }
        let spent = item.rhythm.and_then(|rhythm| {
            let (visited, before) = (rhythm.visited?, rhythm.before?);
            let elapsed = visited.saturating_sub(before).max(0) as f64;
            let planned = due.saturating_sub(before);
            // A visit that was late (too little quota) or early (spare quota) counts as elapsed ÷ planned demanded visits.
            let calls = if planned > 0 && elapsed > 0.0 { elapsed / planned as f64 } else { 1.0 };
            Some(Spending { calls, table_calls: elapsed / self.options.every as f64, ..Spending::default() })
        });
        Some(spent.unwrap_or_default())
    }

    fn with_correction(&self, by: Normaliser) -> Arc<dyn Schedule> {
        Arc::new(self.clone().with_normaliser(by))
    }

    fn quota_use(&self) -> QuotaUse {
        let most = self.options.every as f64 / self.options.shortest as f64;
        QuotaUse::new(self.options.spend, most, self.options.earliest)
    }

    fn explain(&self, item: &ScheduledItem<'_>, interval: Millis, now: Millis) -> Option<IntervalExplanation> {
        let rhythm = item.rhythm?;
        let expected = self.forecast_visit(rhythm, item.id, interval, now);
        let bound = match expected.why {
            super::VisitReason::Shortest => Some(Bound::Shortest),
            super::VisitReason::Longest => Some(Bound::Longest),
            _ => None,
        };
        let rate_per_s = expected.per_day / 86_400.0;
        let multiplier = rate_per_s / self.coefficients.rate_per_s;
        Some(IntervalExplanation { multiplier, rate_per_s, unseen: expected.unseen, bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::budgeted::Spend;
    use crate::schedule::visits::coefficients::Coefficients;
    use crate::schedule::visits::rhythm::{DAY, HOUR, Rhythm, hour_of};
    use crate::schedule::visits::{Options, VisitReason, hash};

    const NOW: Millis = 1_700_006_400_000;
    const POLICIES: [Policy; 5] =
        [Policy::RoundRobin, Policy::Classes, Policy::Poisson, Policy::Hash, Policy::Adaptive];

    fn visits(policy: Policy) -> Visits {
        Visits::new(Options { policy, ..Options::default() }, Arc::new(Coefficients::embedded().unwrap()))
    }

    /// An event each `every` for ten days up to now.
    fn rhythm(every: Millis) -> Rhythm {
        let mut rhythm = Rhythm::new(NOW);
        let events: Vec<Millis> = (1..=10 * DAY / every).map(|at| NOW - at * every).collect();
        rhythm.record_visit(&events, NOW, &Options::default().classes);
        rhythm
    }

    fn item_with_rhythm(rhythm: &Rhythm) -> ScheduledItem<'_> {
        ScheduledItem { rhythm: Some(rhythm), ..ScheduledItem::new("7", None) }
    }

    #[test]
    fn the_first_visit_is_at_once_and_without_a_rhythm_it_goes_by_the_average_interval() {
        for policy in POLICIES {
            let visits = visits(policy);
            assert_eq!(visits.first(&ScheduledItem::new("7", None), NOW), Some((Lane::first(), 0)));
            assert_eq!(visits.next(&ScheduledItem::new("7", None), NOW).map(|next| next.1), Some(DAY));
            let busy = rhythm(HOUR);
            let (lane, delay) = visits.next(&item_with_rhythm(&busy), NOW).unwrap();
            assert!(
                delay <= lane.patience && delay <= visits.longest_interval(&item_with_rhythm(&busy), NOW).unwrap(),
                "{policy:?}"
            );
            assert_eq!(visits.lane_for_interval(delay), Some(lane), "{policy:?}");
            // One hour later it waits one hour less; in the end it is due.
            assert_eq!(
                visits.next(&item_with_rhythm(&busy), NOW + HOUR).unwrap().1,
                (delay - HOUR).max(0),
                "{policy:?}"
            );
            assert_eq!(visits.next(&item_with_rhythm(&busy), NOW + 40 * DAY).unwrap().1, 0);
        }
    }

    #[test]
    fn policies_that_learn_visit_busy_items_more_often() {
        let (busy, quiet) = (rhythm(HOUR), rhythm(2 * DAY));
        for policy in [Policy::Hash, Policy::Adaptive] {
            let [busy, quiet] =
                [&busy, &quiet].map(|rhythm| visits(policy).next(&item_with_rhythm(rhythm), NOW).unwrap().1);
            assert!(busy * 3 < quiet, "{policy:?}: {busy} {quiet}");
        }
        let mut dull = quiet.clone();
        (1..30).for_each(|days| dull.record_visit(&[], NOW + days * DAY, &Options::default().classes));
        let classes = visits(Policy::Classes);
        assert!(classes.interval(&busy, "7") * 3 <= classes.interval(&dull, "7") * 2);
        assert_eq!(visits(Policy::RoundRobin).interval(&busy, "7"), visits(Policy::RoundRobin).interval(&dull, "7"));
        // The bounds hold under every policy.
        let options = Options { shortest: 6 * HOUR, longest: 7 * HOUR, ..Options::default() };
        let narrow = Visits::new(options, Arc::new(Coefficients::embedded().unwrap()));
        assert!((6 * HOUR..=7 * HOUR).contains(&narrow.next(&item_with_rhythm(&dull), NOW + 29 * DAY).unwrap().1));
    }

    #[test]
    fn it_says_what_it_expects_and_why() {
        let busy = rhythm(HOUR);
        let why = |visits: Visits| {
            let interval = visits.interval(&busy, "7");
            visits.forecast_visit(&busy, "7", interval, NOW + 30 * 60_000)
        };
        assert_eq!(why(visits(Policy::RoundRobin)).why, VisitReason::Turn);
        assert_eq!(why(visits(Policy::Classes)).why, VisitReason::Class(3));
        assert!(
            matches!(why(visits(Policy::Poisson)).why, VisitReason::PeriodPosition(period_position) if (0.0..=1.0).contains(&period_position))
        );
        let hash = Options {
            hash: hash::Rules { events: 4.0, ..hash::Rules::default() },
            policy: Policy::Hash,
            ..Options::default()
        };
        let hash = why(Visits::new(hash, Arc::new(Coefficients::embedded().unwrap())));
        assert_eq!(hash.why, VisitReason::Events(4.0));
        let adaptive = visits(Policy::Adaptive);
        let expected = why(adaptive.clone());
        assert_eq!(expected.why, VisitReason::Delay(adaptive.price()));
        assert!(expected.unseen > 0.0 && expected.unseen < expected.events, "{expected:?}");
        assert!((12.0..40.0).contains(&expected.per_day), "{expected:?}");
        assert_eq!(adaptive.forecast_visit(&Rhythm::new(NOW), "7", DAY, NOW).why, VisitReason::Unknown);
        let item = item_with_rhythm(&busy);
        let explained = adaptive.explain(&item, adaptive.interval(&busy, "7"), NOW + HOUR).unwrap();
        assert!(explained.multiplier > 1.0 && explained.bound.is_none(), "{explained:?}");
        assert_eq!(adaptive.explain(&item, 14 * DAY, NOW).unwrap().bound, Some(Bound::Longest));
        assert_eq!(adaptive.explain(&ScheduledItem::new("7", None), DAY, NOW), None);
    }

    #[test]
    fn idle_quota_is_spent_only_if_it_shall_be() {
        let of = |spend| {
            let options = Options { spend, ..Options::default() };
            Visits::new(options, Arc::new(Coefficients::embedded().unwrap())).quota_use()
        };
        let (demand, quota) = (of(Spend::Demand), of(Spend::Quota));
        assert_eq!((demand.max_earliness, demand.call_share(Some(5.0))), (0.0, 1.0));
        assert!((0.2..0.25).contains(&quota.max_earliness) && (quota.call_share(Some(2.0)) - 1.94).abs() < 1e-9);
        assert_eq!([None, Some(f64::NAN), Some(0.1)].map(|of| quota.call_share(of)), [1.0; 3]);
    }

    /// Items of 0.1 to 60 events a day, by their own hours, unlike those of the coefficients' file. In simulated time the daily
    /// correction brings the visits to the budget.
    #[test]
    fn days_bring_the_visits_to_the_budget() {
        for policy in [Policy::Classes, Policy::Hash, Policy::Adaptive] {
            let mut visits = visits(policy);
            let every = |item: i64| (DAY as f64 / (0.1 * 600f64.powf(item as f64 / 39.0))) as Millis;
            let is_awake = |item: i64, at: Millis| hour_of(at + item * HOUR) < 15;
            let mut items: Vec<(Rhythm, Millis, Millis)> =
                (0..40).map(|item| (Rhythm::new(NOW), NOW, NOW + item * HOUR * 48 / 40)).collect();
            let (mut normaliser, mut made) = (Normaliser::default(), Vec::new());
            for day in 0..24 {
                let end = NOW + (day + 1) * DAY;
                let (mut spent, mut count) = (Spending::default(), 0.0);
                for (item, (rhythm, seen, due)) in items.iter_mut().enumerate() {
                    while *due < end {
                        let step = every(item as i64).max(1);
                        let first = seen.div_euclid(step) + 1;
                        let times = (first..=due.div_euclid(step)).map(|at| at * step);
                        let events: Vec<Millis> = times.filter(|at| is_awake(item as i64, *at)).collect();
                        rhythm.record_visit(&events, *due, &visits.options().classes);
                        let known = ScheduledItem { rhythm: Some(rhythm), ..ScheduledItem::new("7", None) };
                        spent = spent.plus(visits.spending(&known, *due).unwrap());
                        let delay = visits.next(&known, *due).unwrap().1;
                        (*seen, *due) = (*due, *due + delay);
                        count += 1.0;
                    }
                }
                made.push(count / 40.0);
                // Forty visits a day are too few for a correction, so they stand for a thousand items.
                let times = |value: f64| value * 25.0;
                let thousand = Spending { calls: times(spent.calls), table_calls: times(spent.table_calls), ..spent };
                normaliser = normaliser.after_day(&thousand, 1.0);
                visits = visits.with_normaliser(normaliser);
            }
            let last = made[16..].iter().sum::<f64>() / 8.0;
            assert!((last - 1.0).abs() < 0.08, "{policy:?}: {made:?}");
        }
        assert_eq!(visits(Policy::RoundRobin).spending(&item_with_rhythm(&rhythm(HOUR)), NOW), None);
    }
}
