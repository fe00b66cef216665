//! Confirmation of misses: the time until a missing item counts as unavailable, and until its life ends. Pure.
//!
//! A faulty API leaves items out just as a deletion does. So time confirms a miss: another request at once would meet the same fault.

use engine::base::clock::Millis;
use engine::queue::Lane;
use networks::model::account::Absence;

/// Factor by which the misses of an item must span longer during a mass-miss alert.
const ALERT_FACTOR: Millis = 6;
/// Shortest interval of an unavailable item, unless its lane is faster, ms.
const MIN_INTERVAL: Millis = 60_000;
/// Minimum distance of two counted misses, as a multiple of [`UnavailableSettings::confirmed_after`]: 2 h for the default of 10 min.
const APART_FACTOR: Millis = 12;
/// Span of unexplained misses before an item is forgotten, ms: that is final, a faulty API is silent, too, and networks allow a day.
const UNEXPLAINED_SPAN: Millis = 6 * 3_600_000;
/// Minimum counted misses before a life ends, whatever the settings say.
const LEAST_LIMIT: u32 = 2;

#[derive(Debug, Clone)]
pub struct UnavailableSettings {
    /// Slow lane of unavailable items; its patience is their interval.
    pub lane: Lane,
    /// Span of misses, ms, up to which an item stays live on its own interval.
    pub confirmed_after: Millis,
    /// Misses in a row after which a life ends; they count only if they lie hours apart.
    pub limit: u32,
    /// Minimum span of these misses, ms.
    pub after: Millis,
    /// Lane for the second lookup of an item that was found before: a separate call, after `confirmed_after`. Then `lane` sets its
    /// interval at once. `None`: it stays on its own interval, also at first after the confirmation.
    pub confirm: Option<Lane>,
    /// Forget the content of items whose deletion is confirmed, but not during a mass-miss alert.
    pub forget: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissState {
    /// Not confirmed: the item stays live on its own interval.
    Suspected,
    /// Confirmed: the item goes to the slow lane.
    Unavailable,
    /// Confirmed for long enough to end its life.
    Ended,
}

impl UnavailableSettings {
    /// Judges a miss at `at`, the last of `misses` in a row since `since` (ms since the epoch). During a mass-miss alert the
    /// confirmation takes longer, and no life ends.
    #[must_use]
    pub fn judge(&self, misses: i64, since: Millis, at: Millis, is_alert: bool) -> MissState {
        let span = at.saturating_sub(since);
        if span < self.confirmation_span(is_alert) {
            return MissState::Suspected;
        }
        let apart = self.confirmed_after.saturating_mul(APART_FACTOR).max(1);
        let counted = misses.min(span / apart + 1);
        let is_over = counted >= Millis::from(self.limit.max(LEAST_LIMIT)) && span >= self.after;
        if is_over && !is_alert { MissState::Ended } else { MissState::Unavailable }
    }

    /// Span after which an item's misses are confirmed, ms.
    #[must_use]
    pub fn confirmation_span(&self, is_alert: bool) -> Millis {
        self.confirmed_after.saturating_mul(if is_alert { ALERT_FACTOR } else { 1 })
    }

    /// Wait before a second lookup may confirm a miss, ms.
    #[must_use]
    pub fn confirmation_delay(&self) -> Millis {
        self.confirmation_span(false).max(MIN_INTERVAL)
    }

    /// Delay until the next lookup of a refused item, ms; at least `delay`, that of a miss. It doubles each time, up to the interval of
    /// the slow lane: servers count refusals, and block clients with many of them.
    #[must_use]
    pub fn refused_delay(&self, delay: Millis, since: Millis, at: Millis) -> Millis {
        delay.max(at.saturating_sub(since).min(self.lane.patience))
    }

    /// Returns true if an item is forgotten after confirmed misses of that span (ms). A hidden item never is: it is not deleted.
    #[must_use]
    pub fn must_forget(&self, reason: Option<Absence>, span: Millis) -> bool {
        let is_explained = match reason {
            Some(Absence::Protected) => return false,
            Some(Absence::NotFound | Absence::Deactivated | Absence::Deleted | Absence::Suspended) => true,
            // Most networks explain no post's absence.
            None => self.confirm.is_none(),
        };
        self.forget && (is_explained || span >= UNEXPLAINED_SPAN)
    }

    /// Delay until the next lookup of an unavailable item, ms; `interval` is that of its age. At first it is that of a live item, but
    /// not shorter than a confirmation needs. During a mass-miss alert it is an hour at most: found items end the alert.
    #[must_use]
    pub fn next_delay(&self, since: Millis, at: Millis, interval: Millis, is_alert: bool) -> Millis {
        let soonest = self.confirmation_delay();
        let span = at.saturating_sub(since);
        let is_new = span < self.lane.patience;
        self.lane.patience.min(match (is_alert, is_new) {
            (true, _) => interval.clamp(soonest, self.confirmation_span(true).max(soonest)),
            (false, true) if self.confirm.is_none() => interval.max(soonest),
            (false, _) if self.forget && span < UNEXPLAINED_SPAN => soonest.max(UNEXPLAINED_SPAN - span),
            (false, _) => self.lane.patience,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const MINUTE: Millis = 60_000;
    const HOUR: Millis = 60 * MINUTE;

    fn settings(limit: u32, after: Millis) -> UnavailableSettings {
        let lane = Lane::new("unavailable", Duration::from_secs(6 * 3_600));
        UnavailableSettings { forget: false, confirm: None, lane, confirmed_after: 10 * MINUTE, limit, after }
    }

    #[test]
    fn a_miss_is_confirmed_when_misses_span_ten_minutes_or_an_hour_during_a_wave() {
        let settings = settings(5, 7 * 24 * HOUR);
        let judge = |misses, span, is_alert| settings.judge(misses, 1_000, 1_000 + span, is_alert);
        assert_eq!(judge(1, 0, false), MissState::Suspected);
        assert_eq!(judge(1_000, 10 * MINUTE - 1, false), MissState::Suspected, "asking often proves nothing");
        assert_eq!(judge(2, 10 * MINUTE, false), MissState::Unavailable);
        assert_eq!(judge(20, HOUR - 1, true), MissState::Suspected);
        assert_eq!(judge(20, HOUR, true), MissState::Unavailable);
    }

    #[test]
    fn the_first_visits_come_as_those_of_a_living_post_and_those_during_a_wave_hourly_at_least() {
        let week = settings(5, 7 * 24 * HOUR);
        let delay = |span, interval, is_alert| week.next_delay(1_000, 1_000 + span, interval, is_alert);
        assert_eq!(delay(10 * MINUTE, 3 * MINUTE, false), 10 * MINUTE);
        assert_eq!(delay(6 * HOUR - 1, 2 * HOUR, false), 2 * HOUR);
        assert_eq!(delay(HOUR, 24 * HOUR, false), 6 * HOUR);
        assert_eq!(delay(6 * HOUR, 3 * MINUTE, false), 6 * HOUR);
        assert_eq!(delay(60 * HOUR, 24 * HOUR, true), HOUR);
        assert_eq!(delay(60 * HOUR, 3 * MINUTE, true), 10 * MINUTE);
        // A faster lane keeps its pace. No post is looked up all the time if a miss is confirmed at once.
        let at_once = |patience| UnavailableSettings {
            forget: false,
            lane: Lane::new("unavailable", Duration::from_secs(patience)),
            confirmed_after: 0,
            ..settings(5, 0)
        };
        assert_eq!((at_once(5).next_delay(0, 0, 1, true), at_once(3_600).next_delay(0, 0, 1, false)), (5_000, MINUTE));
    }

    #[test]
    fn a_refused_item_is_looked_up_after_delays_that_double() {
        let settings = settings(5, 0);
        let (mut at, mut delays) = (0, Vec::new());
        while delays.len() < 20 {
            let delay = settings.refused_delay(2_000, 0, at);
            at += delay;
            delays.push(delay / 1_000);
        }
        assert_eq!(delays[..5], [2, 2, 4, 8, 16]);
        assert_eq!(delays[18..], [6 * 3_600, 6 * 3_600]);
    }

    #[test]
    fn an_account_that_is_missing_without_a_reason_is_forgotten_after_six_hours() {
        let posts = UnavailableSettings { forget: true, ..settings(5, 0) };
        let lane = Lane::new("unavailable", Duration::from_secs(7 * 24 * 3_600));
        let confirm = Some(Lane::new("confirm", Duration::from_secs(600)));
        let accounts = UnavailableSettings { confirm, lane, ..posts.clone() };
        assert!(posts.must_forget(None, 10 * MINUTE), "most networks state no reason");
        assert!(posts.must_forget(Some(Absence::NotFound), 0) && posts.must_forget(Some(Absence::Suspended), 0));
        assert!(!posts.must_forget(Some(Absence::Protected), 9 * HOUR), "it is not deleted");
        assert!(!accounts.must_forget(None, 6 * HOUR - 1) && accounts.must_forget(None, 6 * HOUR));
        for reason in [Absence::NotFound, Absence::Deactivated, Absence::Deleted, Absence::Suspended] {
            assert!(accounts.must_forget(Some(reason), 10 * MINUTE));
        }
        assert!(!accounts.must_forget(Some(Absence::Protected), 9 * HOUR), "it is there");
        assert!(!UnavailableSettings { forget: false, ..accounts.clone() }.must_forget(None, 9 * HOUR));
        let delay = |span| accounts.next_delay(1_000, 1_000 + span, HOUR, false);
        assert_eq!(delay(10 * MINUTE), 6 * HOUR - 10 * MINUTE, "it is looked up once more by then");
        assert_eq!((delay(6 * HOUR - 1), delay(6 * HOUR)), (10 * MINUTE, 7 * 24 * HOUR));
    }

    #[test]
    fn a_life_ends_after_the_limit_and_the_time_and_only_by_misses_hours_apart() {
        let week = 7 * 24 * HOUR;
        assert_eq!(settings(5, week).judge(5, 0, week, false), MissState::Ended);
        assert_eq!(settings(5, week).judge(4, 0, week, false), MissState::Unavailable);
        assert_eq!(settings(5, week).judge(50, 0, week - 1, false), MissState::Unavailable);
        assert_eq!(settings(5, week).judge(50, 0, 2 * week, true), MissState::Unavailable, "none ends during a wave");
        // Whatever the settings say: a thousand misses in an hour are one.
        assert_eq!(settings(1, 0).judge(1_000, 0, 2 * HOUR - 1, false), MissState::Unavailable);
        assert_eq!(settings(1, 0).judge(2, 0, 2 * HOUR, false), MissState::Ended);
        assert_eq!(settings(5, 0).judge(1_000, 0, 8 * HOUR - 1, false), MissState::Unavailable);
        assert_eq!(settings(5, 0).judge(5, 0, 8 * HOUR, false), MissState::Ended);
    }

    proptest! {
        #[test]
        fn a_miss_state_only_advances_with_time(limit in 0u32..9, after in 0..30 * HOUR, misses in 1i64..99, span in 0..90 * HOUR, more in 0..90 * HOUR, is_alert: bool) {
            let settings = settings(limit, after);
            let rank = |span| match settings.judge(misses, 0, span, is_alert) {
                MissState::Suspected => 0,
                MissState::Unavailable => 1,
                MissState::Ended => 2,
            };
            prop_assert!(rank(span) <= rank(span + more));
            prop_assert!(rank(span) < 2 || (span >= 2 * HOUR && misses >= 2));
        }
    }
}
