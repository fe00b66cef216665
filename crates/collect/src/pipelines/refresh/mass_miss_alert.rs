//! Mass-miss alerts: far more posts missing than usual, over all workers. Pure.
//!
//! A worker sees only its own batches. So the counts go with the settles ([`FOUND`], [`MISSED`]) into the queue's minutes, and every
//! process computes the same result from them. During an alert the confirmation of a miss takes longer; no call is delayed.

use serde::Serialize;

use engine::base::clock::Millis;
use engine::queue::{MINUTE_MS, Minute};

pub const FOUND: &str = "posts_found";
/// Queue counter of missed posts. It counts only posts that an answer found before and that are not confirmed as missing.
pub const MISSED: &str = "posts_missed";

/// Minimum misses of an alert, over the latest minutes that hold them: a handful proves nothing.
const LEAST_MISSES: u64 = 20;
/// Minimum answers for a share of misses. The share covers the latest minutes that hold this number of answers.
const LEAST_ANSWERS: u64 = 50;
/// Minimum answers of the last seconds that can end an alert: with fewer, it would start and end by chance.
const MANY_ANSWERS: u64 = 200;
/// Minimum share of misses of an alert.
const LEAST_SHARE: f64 = 0.05;
/// Multiple of the usual share that starts an alert. It ends at half of that, so that a share near the bound makes one alert.
const TIMES_USUAL: f64 = 4.0;
/// Largest share that an alert needs, even if a third is usually missing.
const MOST_SHARE: f64 = 0.6;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MassMissAlert {
    /// Start of its first minute, by the queue's clock, ms since the epoch.
    pub since_ms: Millis,
    /// Start of the minute in which it ended; `None` while it lasts.
    pub until_ms: Option<Millis>,
    /// Misses among the latest answers.
    pub missed: u64,
    pub found: u64,
}

impl MassMissAlert {
    /// Returns true until the alert has an end.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.until_ms.is_none()
    }

    /// Ends the alert if the last seconds had many answers with few misses: the minutes show that only with the next one.
    #[must_use]
    pub fn end_if_over(self, (missed, found): (i64, i64), now: Millis) -> Self {
        let [missed, found] = [missed, found].map(|count| u64::try_from(count).unwrap_or(0));
        let is_over = missed + found >= MANY_ANSWERS && miss_share(missed, found) < LEAST_SHARE / 2.0;
        if self.lasts() && is_over { Self { until_ms: Some(now), ..self } } else { self }
    }

    #[must_use]
    pub fn share(&self) -> f64 {
        miss_share(self.missed, self.found)
    }
}

fn miss_share(missed: u64, found: u64) -> f64 {
    missed as f64 / (missed + found).max(1) as f64
}

#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    missed: u64,
    found: u64,
}

impl Answers {
    fn from_minute(minute: &Minute) -> Self {
        let count = |name| u64::try_from(minute.count(name)).unwrap_or(0);
        Self { missed: count(MISSED), found: count(FOUND) }
    }

    fn plus(self, other: Self) -> Self {
        Self { missed: self.missed + other.missed, found: self.found + other.found }
    }

    fn total(self) -> u64 {
        self.missed + self.found
    }

    fn share(self) -> f64 {
        miss_share(self.missed, self.found)
    }
}

/// Last alert in these minutes, the oldest minute first: the one that lasts, or the latest that is over.
#[must_use]
pub fn last_alert(minutes: &[Minute]) -> Option<MassMissAlert> {
    let answers: Vec<Answers> = minutes.iter().map(Answers::from_minute).collect();
    if answers.iter().map(|minute| minute.missed).sum::<u64>() < LEAST_MISSES {
        return None; // the usual case, and each updater asks every five seconds
    }
    // The usual share, from earlier minutes without an alert.
    let mut usual = Answers::default();
    let mut last: Option<MassMissAlert> = None;
    for (at, minute) in minutes.iter().enumerate() {
        let lately = latest_answers(&answers[..=at], 0);
        let bound = (usual.share() * TIMES_USUAL).clamp(LEAST_SHARE, MOST_SHARE);
        let lasts = last.as_ref().is_some_and(MassMissAlert::lasts);
        let is_alert = match lasts {
            // Without answers, the alert stays as it was.
            true => lately.total() == 0 || lately.share() >= bound / 2.0,
            // In a small system the same number of misses takes more minutes, and their share must be large over all of these.
            false => {
                lately.share() >= bound && {
                    let longer = latest_answers(&answers[..=at], LEAST_MISSES);
                    longer.missed >= LEAST_MISSES && longer.share() >= bound
                }
            }
        };
        match &mut last {
            Some(wave) if lasts => {
                wave.until_ms = (!is_alert).then_some(minute.at_ms);
                if is_alert {
                    (wave.missed, wave.found) = (lately.missed, lately.found);
                }
            }
            _ if is_alert => {
                let Answers { missed, found } = lately;
                last = Some(MassMissAlert { since_ms: minute.at_ms, until_ms: None, missed, found });
            }
            _ => {}
        }
        if !is_alert {
            usual = usual.plus(answers[at]);
        }
    }
    last
}

/// Sum of the latest minutes that hold enough answers and misses; of the current one alone if it does.
fn latest_answers(answers: &[Answers], misses: u64) -> Answers {
    let mut sum = Answers::default();
    for minute in answers.iter().rev() {
        sum = sum.plus(*minute);
        if sum.total() >= LEAST_ANSWERS && sum.missed >= misses {
            break;
        }
    }
    sum
}

/// Returns true while a past alert is considered: the queue keeps its minutes for that long.
#[must_use]
pub fn is_recent(wave: &MassMissAlert, now: Millis) -> bool {
    wave.until_ms.is_some_and(|until| now - until < 60 * MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn minutes(of: impl IntoIterator<Item = (i64, i64)>) -> Vec<Minute> {
        let minute = |(at, (missed, found)): (usize, (i64, i64))| Minute {
            at_ms: at as Millis * MINUTE_MS,
            counters: [(MISSED.to_owned(), missed), (FOUND.to_owned(), found)].into(),
            ..Minute::default()
        };
        of.into_iter().enumerate().map(minute).collect()
    }

    fn repeat(count: usize, of: (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
        std::iter::repeat_n(of, count)
    }

    #[test]
    fn all_missing_is_a_wave_within_the_minute_and_over_with_the_first_good_one() {
        let calm = || repeat(10, (5, 995));
        assert_eq!(last_alert(&minutes(calm())), None);
        assert_eq!(last_alert(&[]), None);
        let wave = last_alert(&minutes(calm().chain([(60, 0)]))).unwrap();
        assert_eq!((wave.since_ms, wave.lasts(), wave.share()), (10 * MINUTE_MS, true, 1.0));
        // 45 s were good, then nothing is found.
        assert!(last_alert(&minutes(calm().chain([(200, 750)]))).unwrap().lasts());
        let over = last_alert(&minutes(calm().chain([(1_000, 0), (1_000, 0), (5, 995)]))).unwrap();
        assert_eq!((over.since_ms, over.until_ms), (10 * MINUTE_MS, Some(12 * MINUTE_MS)));
        assert_eq!(over.missed, 1_000, "what it was, not what ended it");
    }

    #[test]
    fn a_third_deleted_is_a_wave_and_so_is_half_of_a_small_system() {
        assert!(last_alert(&minutes(repeat(30, (0, 300)).chain([(100, 200)]))).unwrap().lasts());
        // Ten posts a minute: five of ten missing, four minutes long.
        assert!(last_alert(&minutes(repeat(30, (0, 10)).chain(repeat(4, (5, 5))))).unwrap().lasts());
        assert_eq!(last_alert(&minutes(repeat(30, (0, 10)).chain(repeat(3, (5, 5))))), None, "fifteen are a handful");
        // At any pace: at 55 answers per minute the latest minute never holds twenty misses.
        for pace in 2..200 {
            let deleted = repeat(30, (0, 3 * pace)).chain(repeat(100, (pace, 2 * pace)));
            let wave = last_alert(&minutes(deleted)).unwrap_or_else(|| panic!("no wave at {pace} misses a minute"));
            assert_eq!(
                wave.since_ms / MINUTE_MS,
                30 + 19 / pace,
                "noticed with the twentieth miss, at {pace} a minute"
            );
        }
    }

    #[test]
    fn a_wave_that_is_over_does_not_begin_again_with_its_own_misses() {
        let over = last_alert(&minutes(repeat(30, (0, 40)).chain([(40, 0)]).chain(repeat(20, (0, 40))))).unwrap();
        assert_eq!((over.since_ms, over.until_ms), (30 * MINUTE_MS, Some(32 * MINUTE_MS)));
    }

    #[test]
    fn what_is_usual_is_no_wave_and_a_multiple_of_it_is() {
        assert_eq!(last_alert(&minutes(repeat(60, (49, 951)))), None);
        // One in twenty-five is usual.
        let usual = || repeat(60, (40, 960));
        assert_eq!(last_alert(&minutes(usual().chain([(150, 850)]))), None);
        assert!(last_alert(&minutes(usual().chain([(170, 830)]))).unwrap().lasts());
    }

    #[test]
    fn a_wave_lasts_while_nothing_is_heard_and_is_not_taken_for_usual() {
        let wave = last_alert(&minutes(repeat(5, (0, 500)).chain(repeat(110, (400, 100))))).unwrap();
        assert_eq!((wave.lasts(), wave.since_ms), (true, 5 * MINUTE_MS));
        // Also where the minutes hold nothing but the wave.
        assert!(last_alert(&minutes(repeat(120, (400, 100)))).unwrap().lasts());
        assert!(last_alert(&minutes(repeat(5, (400, 100)).chain(repeat(60, (0, 0))))).unwrap().lasts());
    }

    #[test]
    fn a_share_about_the_bound_is_one_wave() {
        let flickering = (0..100).map(|at| if at % 2 == 0 { (60, 940) } else { (40, 960) });
        let wave = last_alert(&minutes(repeat(10, (1, 999)).chain(flickering))).unwrap();
        assert_eq!((wave.since_ms, wave.lasts()), (10 * MINUTE_MS, true));
    }

    #[test]
    fn many_good_answers_of_the_last_seconds_end_it_before_the_next_minute() {
        let wave = last_alert(&minutes(repeat(10, (0, 990)).chain([(400, 600)]))).unwrap();
        let lasts = |missed, found| wave.end_if_over((missed, found), 7).lasts();
        assert!(lasts(0, 0) && lasts(0, 199) && lasts(10, 190), "few, or a twentieth is missing");
        assert!(!lasts(0, 200) && !lasts(4, 196));
        assert_eq!(wave.end_if_over((0, 200), 7).until_ms, Some(7));
    }

    proptest! {
        #[test]
        fn a_wave_that_lasts_has_misses_and_nothing_panics(of in prop::collection::vec((0i64..200, 0i64..2_000), 0..120)) {
            if let Some(wave) = last_alert(&minutes(of)) {
                prop_assert!(wave.missed >= 1 && wave.share() > 0.0);
                prop_assert!(wave.until_ms.is_none_or(|until| until > wave.since_ms));
            }
        }
    }
}
