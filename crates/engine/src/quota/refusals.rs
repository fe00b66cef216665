//! Growing pauses of a credential after refusals, as pure functions. The pause doubles with each refusal. It starts over once the
//! API has answered calls for a while. `lua/refusals.lua` has the same rules for Redis; the contract suite compares the two.

use std::time::Duration;

use crate::base::clock::{self, Millis};

/// Shortest pause after a first refusal, ms. Each further refusal doubles it.
const FIRST_MS: Millis = 1_000;
/// Maximum number of doublings: the pause is 256 s at most, so a call goes out within 5 minutes of a recovery.
const DOUBLINGS: u32 = 8;
/// Longest time of answered calls that a recovery needs, ms. After a shorter pause, the length of that pause is enough.
const RECOVERY_MS: Millis = 60_000;
/// Time from the end of a pause to the removal of its record, ms.
pub(super) const DELETED_AFTER_MS: Millis = 86_400_000;

/// Shortest pause after this number of refusals in a row.
#[must_use]
pub fn shortest_pause(in_a_row: u32) -> Duration {
    clock::span(FIRST_MS << in_a_row.saturating_sub(1).min(DOUBLINGS))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Refusals {
    /// End of the pause, by the ledger's clock, ms since the epoch.
    pub until: Millis,
    /// Number of refusals that made the pause grow; 0 if the API answers calls.
    pub in_a_row: u32,
    /// Time of the last refusal, by the ledger's clock, ms since the epoch.
    pub last_at: Millis,
    pub why: String,
}

impl Refusals {
    /// Returns true during the pause. A clock that was put back ends it.
    pub fn is_parked(&self, now: Millis) -> bool {
        (self.last_at..self.until).contains(&now)
    }

    /// Time left of the pause, ms; 0 when it is over.
    pub fn parked_for(&self, now: Millis) -> Millis {
        if self.is_parked(now) { self.until - now } else { 0 }
    }

    /// Returns true while one call at a time shows whether the refusals are over.
    pub fn is_on_trial(&self) -> bool {
        self.in_a_row > 0
    }

    /// Records a refusal; `pause` is the pause that the response states, ms.
    pub fn record_refusal(&mut self, pause: Millis, why: &str, now: Millis) {
        let stated = now.saturating_add(pause);
        // Calls that were under way when the pause began are refused together: they count once.
        if self.is_parked(now) {
            if stated > self.until {
                (self.until, self.why) = (stated, why.to_owned());
            }
            return;
        }
        self.in_a_row = (self.in_a_row + 1).min(DOUBLINGS + 1);
        *self = Self { until: stated.max(now + self.current_pause()), last_at: now, why: why.to_owned(), ..*self };
    }

    /// Records an answered call. Returns true if it completes a recovery, so that the next refusal counts as the first. A recovery
    /// needs answers for the length of the pause, or for a minute: alternating answers and refusals are none.
    pub fn record_answer(&mut self, now: Millis) -> bool {
        if self.in_a_row == 0 || self.is_parked(now) {
            return false;
        }
        let recovered = self.current_pause() + self.current_pause().min(RECOVERY_MS);
        let is_over = now < self.last_at || now - self.last_at >= recovered;
        if is_over {
            *self = Self::default();
        }
        is_over
    }

    fn current_pause(&self) -> Millis {
        clock::millis(shortest_pause(self.in_a_row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    /// Times of the calls until `end`. Each call is made when the pause before it is over, and refused with `stated`.
    fn calls(refusals: &mut Refusals, stated: Millis, begin: Millis, end: Millis) -> Vec<Millis> {
        let (mut at, mut times) = (begin, Vec::new());
        while at < end {
            times.push(at);
            refusals.record_refusal(stated, "no", at);
            at = refusals.until;
        }
        times
    }

    #[test]
    fn ten_minutes_of_refusals_see_five_to_twelve_calls() {
        for stated in [0, 1, 999, 1_000, 5_000, 15_000, 25_000, 30_000, MINUTE, 2 * MINUTE] {
            let calls = calls(&mut Refusals::default(), stated, 7, 7 + 10 * MINUTE);
            assert!((5..=12).contains(&calls.len()), "{stated} ms: {calls:?}");
        }
        let mut refusals = Refusals::default();
        let hours = calls(&mut refusals, 0, 0, 300 * MINUTE);
        assert!(
            hours.windows(2).all(|pair| pair[1] - pair[0] <= 256_000),
            "a recovery is found within 5 minutes: {hours:?}"
        );
        // If the response states an hour, the pause is an hour.
        refusals.record_refusal(60 * MINUTE, "no", 500 * MINUTE);
        assert_eq!(refusals.until, 560 * MINUTE);
    }

    #[test]
    fn refusals_of_calls_under_way_count_once() {
        let mut refusals = Refusals::default();
        for ms in 0..100 {
            refusals.record_refusal(0, "no", ms);
        }
        assert_eq!((refusals.in_a_row, refusals.until), (1, 1_000));
        refusals.record_refusal(3_000, "later", 100);
        assert_eq!((refusals.in_a_row, refusals.until, &*refusals.why), (1, 3_100, "later"));
        assert!(!refusals.record_answer(200) && refusals.is_on_trial(), "of a call that was under way");
    }

    #[test]
    fn it_starts_over_after_answers_for_as_long_as_the_pause() {
        let mut refusals = Refusals::default();
        let before = calls(&mut refusals, 0, 0, 10 * MINUTE);
        let free = refusals.until;
        assert!(!refusals.record_answer(free) && !refusals.record_answer(free + 59_999));
        assert!(refusals.record_answer(free + MINUTE) && !refusals.is_on_trial());
        let after = calls(&mut refusals, 0, 0, 10 * MINUTE);
        assert_eq!(before, after);
    }

    #[test]
    fn answers_and_refusals_by_turns_are_no_recovery() {
        let (mut refusals, mut at, mut refused) = (Refusals::default(), 0, 0);
        while at < 10 * MINUTE {
            refusals.record_refusal(0, "no", at);
            refused += 1;
            at = refusals.until + 50;
            refusals.record_answer(at);
            at += 50;
        }
        assert!(refused <= 12, "{refused}");
    }

    #[test]
    fn a_window_that_ends_when_its_answer_says_does_not_grow() {
        let mut refusals = Refusals::default();
        for window in 0..100 {
            let end = (window + 1) * 5 * MINUTE;
            // The last 10 s of each window.
            refusals.record_refusal(10_000, "no", end - 10_000);
            assert_eq!((refusals.in_a_row, refusals.until), (1, end));
            assert!(refusals.record_answer(end + 100));
        }
    }

    #[test]
    fn a_clock_that_is_put_back_ends_the_pause() {
        let mut refusals = Refusals::default();
        refusals.record_refusal(1_000, "no", 1_000_000);
        assert!(refusals.is_parked(1_000_500) && !refusals.is_parked(1_001_000) && !refusals.is_parked(999_999));
        assert_eq!((refusals.parked_for(1_000_400), refusals.parked_for(999_999)), (600, 0));
        assert!(refusals.record_answer(999_999));
    }
}
