//! Dates of visits to lists. Pure.
//!
//! *Tiers* (paper 000): lists of owners that posted since their last visit come first, the least recently visited first. Then come new
//! owners, the newest first: many accounts that post once do not delay those that post again. The others are visited after a long time.
//!
//! *Classes* (paper 004): a list has a priority of 1 to 100. A visit with a change raises it, one without lowers it. Three classes have
//! an interval each.
//!
//! Only a first read can be late: where calls are short, the figure is the age of the data.

use std::time::Duration;

use crate::config::{RelationSettings, VisitOrder};
use crate::pipelines::kind::{ListPages, ListTerms, ListTier, VisitIntervals};
use engine::base::clock::{self, Millis};
use engine::lane::{Lane, Order, REPEAT};
use engine::schedule::{Next, Schedule, ScheduledItem};
use store::CrawlRecord;

const NEW: &str = "new";
/// Patience of lanes in which no list is late.
const UNTIMED: Duration = Duration::from_secs(3_600);
const FIRST_PRIORITY: i32 = 60;
/// Added to the priority for a change, and subtracted for a visit without one.
const STEP: i32 = 20;
/// Lowest priority of the upper and of the middle class.
const CLASSES: (i32, i32) = (61, 21);
/// Ratio of the visit rates of a class and the next lower one.
const FACTOR: u32 = 4;

#[derive(Debug, Clone, Copy)]
pub struct VisitSchedule {
    pub order: VisitOrder,
    /// Interval of lists whose owners have not posted since (tiers), and of the middle class.
    pub revisit: Duration,
}

impl VisitSchedule {
    /// Lane of owners that have posted since their last visit. Its due times are the times of the last visits.
    #[must_use]
    pub fn repeat_lane() -> Lane {
        Lane::new(REPEAT, UNTIMED).with_order(Order::OldestFirst)
    }

    fn new_owner_lane() -> Lane {
        Lane::new(NEW, UNTIMED).with_order(Order::NewestFirst).with_tier(1)
    }

    fn visited_lane(self) -> Lane {
        Lane::new("visited", self.revisit).with_order(Order::OldestFirst).with_tier(2)
    }

    fn class_lane(self, priority: i32) -> Lane {
        let (name, interval) = match priority {
            of if of >= CLASSES.0 => ("often", self.revisit / FACTOR),
            of if of >= CLASSES.1 => ("usual", self.revisit),
            _ => ("seldom", self.revisit.saturating_mul(FACTOR)),
        };
        Lane::new(name, interval).with_order(Order::OldestFirst)
    }

    /// Lane of that name; for another name, that of visited lists.
    #[must_use]
    pub fn lane_named(self, name: &str) -> Lane {
        let classes = [100, FIRST_PRIORITY, 1].map(|priority| self.class_lane(priority));
        let all = [Self::repeat_lane(), Self::new_owner_lane(), Lane::first(), self.visited_lane()]
            .into_iter()
            .chain(classes);
        all.into_iter().find(|lane| *lane.name == *name).unwrap_or_else(|| self.next_visit(&[]).0)
    }

    #[must_use]
    pub fn terms(self, pages: ListPages, settings: &RelationSettings) -> ListTerms {
        let RelationSettings { complete_every, known_tail, .. } = settings;
        let every = |revisit: Millis| VisitIntervals::new(revisit, clock::millis(*complete_every), *known_tail);
        let tier = |lane: Lane, interval: Millis, up_to_ms: Millis, is_before_new: bool| ListTier {
            name: lane.name,
            every: every(interval),
            up_to_ms,
            is_before_new,
        };
        let revisit = clock::millis(self.revisit);
        let tiers = match self.order {
            VisitOrder::Tiers => {
                vec![
                    tier(Self::repeat_lane(), revisit, 0, true),
                    tier(self.visited_lane(), revisit, Millis::MAX, false),
                ]
            }
            VisitOrder::Classes => {
                let classes = [100, FIRST_PRIORITY, 1].map(|priority| self.class_lane(priority));
                // The nearest class, as in `lane_of`.
                let middle = |of: usize| classes[of].patience / 2 + classes[of + 1].patience / 2;
                let bounds = [middle(0), middle(1), Millis::MAX];
                let tiers = classes.clone().into_iter().zip(bounds);
                tiers.map(|(lane, up_to)| tier(lane.clone(), lane.patience, up_to, false)).collect()
            }
        };
        ListTerms { pages, new: every(revisit), tiers }
    }

    /// Lane of a visited list, and the time until its next visit, ms. `crawls` are the list's last crawls, newest first.
    #[must_use]
    pub fn next_visit(self, crawls: &[CrawlRecord]) -> Next {
        let lane = match self.order {
            VisitOrder::Tiers => self.visited_lane(),
            VisitOrder::Classes => self.class_lane(priority(crawls)),
        };
        let delay = lane.patience;
        (lane, delay)
    }
}

/// Priority of a list, 1 to 100, from its crawls, newest first. The oldest ended crawl does not count: for a new list it is the first
/// visit, to which all members are new.
fn priority(crawls: &[CrawlRecord]) -> i32 {
    let oldest_first = crawls.iter().rev().filter(|crawl| crawl.ended_at.is_some());
    let changed = |crawl: &CrawlRecord| crawl.appeared + crawl.vanished > 0;
    oldest_first.skip(1).fold(FIRST_PRIORITY, |priority, crawl| {
        let step = if changed(crawl) { STEP } else { -STEP };
        (priority + step).clamp(1, 100)
    })
}

impl Schedule for VisitSchedule {
    fn next(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some(self.next_visit(&[]))
    }

    fn first(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        let lane = match self.order {
            VisitOrder::Tiers => Self::new_owner_lane(),
            VisitOrder::Classes => Lane::first(),
        };
        Some((lane, 0))
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        Some(match self.order {
            // If the owner has posted since its last visit, the store has the time of that visit as the next due time.
            VisitOrder::Tiers if interval <= 0 => Self::repeat_lane(),
            VisitOrder::Tiers => self.visited_lane(),
            VisitOrder::Classes => {
                let apart = |lane: &Lane| (lane.patience - interval).abs();
                let classes = [100, FIRST_PRIORITY, 1].map(|priority| self.class_lane(priority));
                classes.into_iter().min_by_key(apart)?
            }
        })
    }

    fn longest_interval(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Millis> {
        Some(match self.order {
            VisitOrder::Tiers => clock::millis(self.revisit),
            VisitOrder::Classes => self.class_lane(1).patience,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::lane::is_pass_through;

    const DAY: Millis = 86_400_000;

    fn visits(order: VisitOrder) -> VisitSchedule {
        VisitSchedule { order, revisit: Duration::from_secs(8 * 86_400) }
    }

    fn crawl(changes: i64) -> CrawlRecord {
        CrawlRecord {
            number: 1,
            kind: "complete".to_owned(),
            started_at: 0,
            ended_at: Some(1),
            ended: Some("complete".to_owned()),
            pages: 1,
            found: 10,
            stated_total: None,
            appeared: changes,
            vanished: 0,
            withheld: 0,
        }
    }

    #[test]
    fn repeat_posters_go_before_new_owners_and_those_before_all_that_were_visited() {
        let tiers = visits(VisitOrder::Tiers);
        let (new, delay) = tiers.first(&ScheduledItem::new("1", None), 0).unwrap();
        let (visited, until) = tiers.next_visit(&[]);
        assert_eq!((delay, until), (0, 8 * DAY));
        assert!(VisitSchedule::repeat_lane().tier < new.tier && new.tier < visited.tier);
        assert_eq!((VisitSchedule::repeat_lane().order, new.order), (Order::OldestFirst, Order::NewestFirst));
        // As in the store.
        assert_eq!(tiers.lane_for_interval(0), Some(VisitSchedule::repeat_lane()));
        assert_eq!(tiers.lane_for_interval(8 * DAY), Some(visited));
        // An event made those due, not an interval.
        let passing = |lane: &Lane| is_pass_through(&lane.name, lane.order);
        assert!(passing(&VisitSchedule::repeat_lane()) && passing(&new) && passing(&Lane::first()));
        assert!(!passing(&tiers.next_visit(&[]).0));
    }

    #[test]
    fn a_stored_interval_has_the_tier_of_its_lane() {
        let mut settings = crate::config::Settings::load_with(&[], None, &[]).unwrap().relations;
        (settings.complete_every, settings.known_tail) = (Duration::from_secs(30 * 86_400), 100);
        for order in [VisitOrder::Tiers, VisitOrder::Classes] {
            let visits = visits(order);
            let terms = visits.terms(ListPages { page: 5_000, longest: 0 }, &settings);
            for interval in [-DAY, 0, 1, 2 * DAY, 5 * DAY, 5 * DAY + 1, 8 * DAY, 20 * DAY, 20 * DAY + 1, 99 * DAY] {
                let tier = terms.tiers.iter().find(|tier| interval <= tier.up_to_ms).unwrap();
                assert_eq!(tier.name, visits.lane_for_interval(interval).unwrap().name, "{interval} of {order:?}");
            }
            assert!(terms.tiers.iter().all(|tier| tier.is_before_new == (*tier.name == *REPEAT)));
        }
        // Complete on the first visit after 30 days: the fourth; and on each one without a known tail.
        let visited = |settings: &RelationSettings| {
            let terms = visits(VisitOrder::Tiers).terms(ListPages { page: 5_000, longest: 0 }, settings);
            terms.tiers[1].every.complete_within_ms() / DAY
        };
        assert_eq!(visited(&settings), 32);
        settings.known_tail = 0;
        assert_eq!(visited(&settings), 8);
    }

    #[test]
    fn a_list_rises_with_each_change_and_sinks_without_one() {
        let classes = visits(VisitOrder::Classes);
        let days = |changes: &[i64]| {
            let newest_first: Vec<CrawlRecord> = changes.iter().rev().map(|changes| crawl(*changes)).collect();
            classes.next_visit(&newest_first).1 / DAY
        };
        assert_eq!(days(&[]), 8);
        assert_eq!(days(&[500]), 8, "what the first visit finds is no change");
        assert_eq!(days(&[500, 3]), 2);
        assert_eq!(days(&[500, 0]), 8);
        assert_eq!(days(&[500, 0, 0]), 32);
        assert_eq!(days(&[500, 0, 0, 0, 0, 0, 1, 1]), 8, "it sinks no deeper than to the least priority");
        for days in [2, 8, 32] {
            assert_eq!(classes.lane_for_interval(days * DAY).map(|lane| lane.patience), Some(days * DAY));
        }
    }
}
