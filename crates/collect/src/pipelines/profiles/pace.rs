//! Pace of an account's counts, estimated from its answers. Pure.
//!
//! A change is one follower, followed account, post, list or liked post more or fewer. The first answer gives the mean of the account's
//! life: counts ÷ age. Each later one gives the changes since; the older estimate fades, to 1/e in five days.

use engine::base::activity::Pace;
use engine::base::clock::Millis;
use engine::schedule::history::weighted;
use networks::model::account::AccountCounts;
use store::ScheduleInputs;

#[derive(Debug, Clone, Copy, Default)]
pub struct PreviousCounts {
    /// Time of its counts, ms since the epoch; `None`: unknown.
    pub at: Option<Millis>,
    pub counts: AccountCounts,
    /// [`Pace::per_day`] at that time.
    pub per_day: Option<f64>,
}

impl From<&ScheduleInputs> for PreviousCounts {
    fn from(signs: &ScheduleInputs) -> Self {
        // After a miss, the time of the counts is unknown.
        let at = signs.checked_at.filter(|_| signs.misses == 0);
        Self { at, counts: signs.counts, per_day: signs.recent }
    }
}

const DAY_MS: f64 = 86_400_000.0;
/// Days in which an estimate fades to 1/e: see `cargo bench -- accounts`.
const FADE_DAYS: f64 = 5.0;
/// Minimum age, days: the counts of a younger account describe its first day, not its life.
const YOUNGEST_DAYS: f64 = 1.0;

fn count_array(counts: &AccountCounts) -> [Option<i64>; 5] {
    let AccountCounts { followers, following, posts, listed, likes } = *counts;
    [followers, following, posts, listed, likes]
}

fn sum_counts(counts: [Option<i64>; 5]) -> Option<f64> {
    weighted(&counts.map(|count| (count, 1.0)))
}

/// Changes between two answers, of the counts that both state.
fn count_changes(before: &AccountCounts, after: &AccountCounts) -> Option<f64> {
    let (before, after) = (count_array(before), count_array(after));
    let change = |(before, after): (i64, i64)| i64::try_from(before.abs_diff(after)).unwrap_or(i64::MAX);
    sum_counts(std::array::from_fn(|at| before[at].zip(after[at]).map(change)))
}

/// Pace after an answer with these counts at `at`, ms since the epoch; `None` if neither the counts nor the creation date are known.
#[must_use]
pub fn estimate_pace(
    before: &PreviousCounts,
    counts: &AccountCounts,
    created_at: Option<Millis>,
    at: Millis,
) -> Option<Pace> {
    let days = |from: Millis| at.saturating_sub(from) as f64 / DAY_MS;
    let of_life = || Some(sum_counts(count_array(counts))? / days(created_at?).max(YOUNGEST_DAYS));
    let known = before.per_day.filter(|known| known.is_finite() && *known >= 0.0).or_else(of_life);
    match before
        .at
        .filter(|before| *before < at)
        .map(|since| (since, days(since), count_changes(&before.counts, counts)))
    {
        Some((since, elapsed, Some(changes))) => {
            let fades = (-elapsed / FADE_DAYS).exp();
            let seen = changes / elapsed;
            let per_day = known.map_or(seen, |known| known * fades + seen * (1.0 - fades));
            Some(Pace { per_day, at, since: Some(since) })
        }
        _ => known.map(|per_day| Pace { per_day, at, since: None }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Millis = 86_400_000;
    const T: Millis = 1_700_000_000_000;

    fn counts(followers: i64, posts: i64) -> AccountCounts {
        AccountCounts { followers: Some(followers), posts: Some(posts), ..AccountCounts::default() }
    }

    #[test]
    fn the_first_answer_tells_the_mean_of_a_life() {
        let first = |created_at| estimate_pace(&PreviousCounts::default(), &counts(900, 100), created_at, T);
        assert_eq!(first(Some(T - 100 * DAY)).unwrap().per_day, 10.0);
        assert_eq!(first(Some(T)).unwrap().per_day, 1_000.0, "a life of a day, at least");
        assert_eq!(first(None), None);
        assert_eq!(estimate_pace(&PreviousCounts::default(), &AccountCounts::default(), Some(T - DAY), T), None);
    }

    #[test]
    fn changes_up_and_down_are_changes() {
        let before = PreviousCounts { at: Some(T - 2 * DAY), counts: counts(10, 100), per_day: Some(3.0) };
        let learnt = estimate_pace(&before, &counts(4, 108), None, T).unwrap();
        assert_eq!((learnt.at, learnt.since), (T, Some(T - 2 * DAY)));
        assert!(learnt.per_day > 3.0 && learnt.per_day < 7.0, "{learnt:?}");
        let same = estimate_pace(&before, &before.counts, None, T).unwrap();
        assert!(same.per_day < 3.0, "{same:?}");
    }

    #[test]
    fn an_answer_that_is_not_later_or_states_no_count_teaches_nothing() {
        let before = PreviousCounts { at: Some(T), counts: counts(10, 100), per_day: Some(3.0) };
        let kept = |at| Some(Pace { per_day: 3.0, at, since: None });
        assert_eq!(estimate_pace(&before, &counts(90, 100), None, T), kept(T));
        assert_eq!(estimate_pace(&before, &AccountCounts::default(), None, T + DAY), kept(T + DAY));
    }

    proptest! {
        #[test]
        fn any_answers_give_a_number(
            known in proptest::option::of(any::<f64>()), (old, new) in any::<(i64, i64)>(),
            at in proptest::option::of(any::<i64>()), (created, now) in (proptest::option::of(any::<i64>()), any::<i64>()),
        ) {
            let before = PreviousCounts { at, counts: counts(old, 0), per_day: known };
            let learnt = estimate_pace(&before, &counts(new, 0), created, now);
            prop_assert!(learnt.is_none_or(|of| of.per_day.is_finite() && of.per_day >= 0.0), "{learnt:?}");
        }

        #[test]
        fn a_steady_pace_is_learnt(per_day in 0.01..1_000.0f64, begins in 0.0..1_000.0f64) {
            let mut known = begins;
            for day in 0..200 {
                let count = |day: i64| (per_day * day as f64).round() as i64;
                let at = |day: i64| T + day * DAY;
                let before = PreviousCounts { at: Some(at(day)), counts: counts(count(day), 0), per_day: Some(known) };
                known = estimate_pace(&before, &counts(count(day + 1), 0), None, at(day + 1)).unwrap().per_day;
            }
            prop_assert!((known - per_day).abs() < 0.06 * per_day.max(1.0) + 0.01 * (begins - per_day).abs(), "{known} of {per_day}");
        }
    }
}
