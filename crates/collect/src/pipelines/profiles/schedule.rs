//! Due dates of profiles, by the time since an account was active. Pure.

use std::time::Duration;

use engine::base::clock::{self, Millis};
use engine::lane::Lane;
use engine::schedule::{Next, Schedule, ScheduledItem};

pub const QUIET_HOURS: u8 = 4;
/// Start of the quietest hours, UTC, if an account's posts do not show it.
pub const NIGHT_FROM: u8 = 3;
/// Minimum posts that show the hours of a day.
const LEAST_POSTS: usize = 24;

const HOUR_MS: Millis = 3_600_000;
const DAY_MS: Millis = 24 * HOUR_MS;
/// Tier of accounts that were looked up before: new ones go first.
pub(super) const LOOKED_UP_TIER: u8 = 1;

#[derive(Debug, Clone)]
pub struct SilenceSchedule {
    active: Lane,
    idle: Lane,
    frozen: Lane,
    confirm: Lane,
    /// Silence after which an account is idle, ms.
    idle_after: Millis,
    /// Silence after which an account is frozen, ms; 0: never.
    freeze_after: Millis,
}

#[derive(Debug, Clone, Copy)]
pub struct Intervals {
    pub active: Duration,
    pub idle: Duration,
    pub frozen: Duration,
    pub idle_after: Duration,
    /// Silence after which an account is frozen; zero: never.
    pub freeze_after: Duration,
}

impl SilenceSchedule {
    /// `confirm` is the lane of accounts that are missing for the first time.
    #[must_use]
    pub fn new(intervals: Intervals, confirm: Lane) -> Self {
        let lane = |name: &str, interval| Lane::new(name, interval).with_tier(LOOKED_UP_TIER);
        let Intervals { active, idle, frozen, idle_after, freeze_after } = intervals;
        Self {
            active: lane("active", active),
            idle: lane("idle", idle),
            frozen: lane("frozen", frozen),
            confirm,
            idle_after: clock::millis(idle_after),
            freeze_after: clock::millis(freeze_after),
        }
    }

    #[must_use]
    pub fn is_frozen(&self, last: Millis, now: Millis) -> bool {
        self.freeze_after > 0 && now.saturating_sub(last) >= self.freeze_after
    }

    /// Intervals of active and of idle accounts, ms.
    pub(super) fn intervals(&self) -> (Millis, Millis) {
        (self.active.patience, self.idle.patience)
    }

    /// Returns true for lanes whose interval does not depend on the counts.
    pub(super) fn is_frozen_or_missing(&self, lane: &Lane) -> bool {
        [&self.frozen, &self.confirm].contains(&lane)
    }

    pub(super) fn is_confirm_interval(&self, interval: Millis) -> bool {
        interval == self.confirm.patience
    }

    pub(super) fn lane(&self, item: &ScheduledItem<'_>, now: Millis) -> &Lane {
        match item.activity.last {
            Some(last) if self.is_frozen(last, now) => &self.frozen,
            Some(last) if now.saturating_sub(last) >= self.idle_after => &self.idle,
            _ => &self.active,
        }
    }
}

impl Schedule for SilenceSchedule {
    fn next(&self, item: &ScheduledItem<'_>, now: Millis) -> Option<Next> {
        let lane = self.lane(item, now).clone();
        let delay = match lane == self.frozen {
            true => delay_until_quiet_hours(item, now, lane.patience),
            false => lane.patience,
        };
        Some((lane, delay))
    }

    fn first(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some((Lane::first(), 0))
    }

    fn longest_interval(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Millis> {
        [&self.active, &self.idle, &self.frozen].into_iter().map(|lane| lane.patience).max()
    }

    fn lanes(&self) -> Vec<Lane> {
        [&self.active, &self.idle, &self.frozen, &self.confirm].map(Lane::clone).to_vec()
    }

    fn lane_for_interval(&self, interval: Millis) -> Option<Lane> {
        let lane = match interval {
            of if self.is_confirm_interval(of) => &self.confirm,
            of if of > self.idle.patience => &self.frozen,
            of if of > self.active.patience => &self.idle,
            _ => &self.active,
        };
        Some(lane.clone())
    }
}

/// Wait until the last quiet hours that start within `interval` of `now`, ms, spread by id; the whole interval if none do.
fn delay_until_quiet_hours(item: &ScheduledItem<'_>, now: Millis, interval: Millis) -> Millis {
    let from = Millis::from(item.activity.quiet_from.unwrap_or(NIGHT_FROM)) * HOUR_MS;
    let spread = item.id.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let within = Millis::try_from(spread % (u64::from(QUIET_HOURS) * HOUR_MS as u64)).unwrap_or(0);
    let latest = now.saturating_add(interval);
    let back = (latest - from - within).rem_euclid(DAY_MS);
    if back < interval { interval - back } else { interval }
}

/// UTC hour at which the quietest hours of a day start, from the dates of posts, ms since the epoch; `None` if there are too few.
#[must_use]
pub fn quiet_from(posts: &[Millis]) -> Option<u8> {
    if posts.len() < LEAST_POSTS {
        return None;
    }
    let mut hours = [0u32; 24];
    for at in posts {
        // 0 to 23.
        hours[at.div_euclid(HOUR_MS).rem_euclid(24) as usize] += 1;
    }
    let posts_from = |from: u8| (0..QUIET_HOURS).map(|more| hours[usize::from((from + more) % 24)]).sum::<u32>();
    // Among equal hours, the middle of the longest run would be the safest; the one nearest to the usual night will do.
    (0..24).min_by_key(|from| (posts_from(*from), hours_apart(*from, NIGHT_FROM)))
}

/// Hours between two hours of the day, the shorter way.
fn hours_apart(one: u8, other: u8) -> u8 {
    let apart = one.abs_diff(other);
    apart.min(24 - apart)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use engine::base::activity::Activity;

    const NOW: Millis = 1_700_000_000_000;

    pub(in crate::pipelines::profiles) fn schedule() -> SilenceSchedule {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let intervals =
            Intervals { active: days(1), idle: days(7), frozen: days(30), idle_after: days(7), freeze_after: days(31) };
        SilenceSchedule::new(intervals, Lane::new("confirm", Duration::from_secs(600)))
    }

    fn silent(days: Millis) -> ScheduledItem<'static> {
        ScheduledItem {
            activity: Activity { last: Some(NOW - days * DAY_MS), ..Activity::default() },
            ..ScheduledItem::new("12", None)
        }
    }

    #[test]
    fn an_account_is_looked_up_the_less_often_the_longer_it_is_silent() {
        let of =
            |days| schedule().next(&silent(days), NOW).map(|(lane, delay)| (lane.name.to_string(), delay / DAY_MS));
        let actual = [0, 6, 7, 30].map(|days| of(days).unwrap());
        let expected =
            [("active", 1), ("active", 1), ("idle", 7), ("idle", 7)].map(|(name, days)| (name.to_owned(), days));
        assert_eq!(actual, expected);
        assert_eq!(of(31).unwrap().0, "frozen");
        assert_eq!(schedule().next(&ScheduledItem::new("12", None), NOW).unwrap().0.name.as_ref(), "active");
        // A clock that is behind makes no account silent.
        assert_eq!(schedule().next(&silent(-3), NOW).unwrap().0.name.as_ref(), "active");
        let never = SilenceSchedule { freeze_after: 0, ..schedule() };
        assert_eq!(never.next(&silent(4_000), NOW).unwrap().0.name.as_ref(), "idle");
    }

    #[test]
    fn a_new_account_is_looked_up_before_all_that_were() {
        let (first, delay) = schedule().first(&ScheduledItem::new("12", None), NOW).unwrap();
        assert_eq!((delay, first.tier, &*first.name), (0, 0, "first"));
        for days in [0, 10, 100] {
            assert!(schedule().next(&silent(days), NOW).unwrap().0.tier > first.tier);
        }
    }

    #[test]
    fn a_lost_item_goes_back_to_the_lane_of_its_interval() {
        for days in [0, 10] {
            let (lane, delay) = schedule().next(&silent(days), NOW).unwrap();
            assert_eq!(schedule().lane_for_interval(delay), Some(lane));
        }
        assert_eq!(schedule().lane_for_interval(600_000).unwrap().name.as_ref(), "confirm");
        assert_eq!(schedule().lane_for_interval(29 * DAY_MS).unwrap().name.as_ref(), "frozen");
        assert_eq!(schedule().lane_for_interval(5).unwrap().name.as_ref(), "active");
    }

    #[test]
    fn the_quietest_hours_are_those_without_posts() {
        let at = |hours: &[Millis]| hours.iter().map(|hour| NOW / DAY_MS * DAY_MS + hour * HOUR_MS).collect::<Vec<_>>();
        // Three posts in each hour but for 20 to 23.
        let posts = at(&(0..72).map(|n| n % 24).filter(|hour| *hour < 20).collect::<Vec<_>>());
        assert_eq!(quiet_from(&posts), Some(20));
        // Over midnight.
        let posts = at(&(0..72).map(|n| n % 24).filter(|hour| (2..22).contains(hour)).collect::<Vec<_>>());
        assert_eq!(quiet_from(&posts), Some(22));
        assert_eq!(quiet_from(&posts[..LEAST_POSTS - 1]), None);
        assert_eq!(quiet_from(&at(&[12; 30])), Some(3), "where much is quiet, the night");
    }

    proptest! {
        #[test]
        fn a_frozen_account_is_due_in_its_quiet_hours_and_never_later_than_its_interval(
            now in 0i64..4_000_000_000_000, hour in 0u8..24, id in "[0-9]{1,19}", days in 1i64..60,
        ) {
            let known = ScheduledItem { activity: Activity { last: Some(0), quiet_from: Some(hour), pace: None }, ..ScheduledItem::new(&id, None) };
            let delay = delay_until_quiet_hours(&known, now, days * DAY_MS);
            prop_assert!(delay > (days - 1) * DAY_MS && delay <= days * DAY_MS, "{delay}");
            let into = (now + delay - Millis::from(hour) * HOUR_MS).rem_euclid(DAY_MS);
            prop_assert!(into < Millis::from(QUIET_HOURS) * HOUR_MS, "{into}");
            // An interval shorter than a day has no night.
            prop_assert!(delay_until_quiet_hours(&known, now, HOUR_MS) <= HOUR_MS);
        }

        #[test]
        fn no_hours_are_quieter(posts in proptest::collection::vec(0i64..4_000_000_000_000, 24..200)) {
            let from = quiet_from(&posts).unwrap();
            let within = |from: u8| posts.iter().filter(|at| {
                let hour = ((**at / HOUR_MS) % 24) as u8;
                (hour + 24 - from) % 24 < QUIET_HOURS
            }).count();
            prop_assert!((0..24).all(|other| within(from) <= within(other)));
        }
    }
}
