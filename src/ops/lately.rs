//! Counts of the last seconds: the page must show a new fault at once, which two minutes of good calls would hide.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::base::clock::Stopwatch;
use crate::engine::queue::Minute;
use crate::pipelines::refresh::wave;

/// Minimum period of the counts: a worker reports its counts every 5 s.
const LEAST: Duration = Duration::from_secs(7);
/// Maximum period of the counts, after a time without a viewer.
const MOST: Duration = Duration::from_secs(30);
/// Minutes counted instead after a longer time without a viewer: the current one and the one before it.
const MINUTES: usize = 2;
const COUNTERS: [&str; 7] =
    ["requests", "requests_failed", "looked_up", "broken", "lookup_ms", wave::FOUND, wave::MISSED];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lately {
    counts: BTreeMap<&'static str, i64>,
}

impl Lately {
    /// Counts between two readings; `None` if a counter has shrunk: the queue was wiped in between.
    #[must_use]
    pub fn between(before: &BTreeMap<String, i64>, now: &BTreeMap<String, i64>) -> Option<Self> {
        let of = |counters: &BTreeMap<String, i64>, name| counters.get(name).copied().unwrap_or(0);
        let counts: BTreeMap<_, _> = COUNTERS.map(|name| (name, of(now, name) - of(before, name))).into();
        counts.values().all(|by| *by >= 0).then_some(Self { counts })
    }

    #[must_use]
    pub fn of_minutes(minutes: &[Minute]) -> Self {
        let last = &minutes[minutes.len().saturating_sub(MINUTES)..];
        Self { counts: COUNTERS.map(|name| (name, last.iter().map(|minute| minute.count(name)).sum())).into() }
    }

    #[must_use]
    pub fn count(&self, counter: &str) -> i64 {
        self.counts.get(counter).copied().unwrap_or(0)
    }
}

/// Readings of the queue's counters in the last seconds, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    read: VecDeque<(Stopwatch, BTreeMap<String, i64>)>,
}

impl History {
    /// Keeps this reading and returns the counts of the last seconds; `None` if no reading is old enough, or only too old ones.
    pub fn add(&mut self, counters: &BTreeMap<String, i64>) -> Option<Lately> {
        // Keeps the newest reading that is old enough as the first.
        while self.read.get(1).is_some_and(|(at, _)| at.elapsed() >= LEAST) {
            self.read.pop_front();
        }
        let before = self.read.front().filter(|(at, _)| (LEAST..=MOST).contains(&at.elapsed()));
        let lately = before.and_then(|(_, before)| Lately::between(before, counters));
        let own = counters.iter().filter(|(name, _)| COUNTERS.contains(&name.as_str()));
        self.read.push_back((Stopwatch::start(), own.map(|(name, count)| (name.clone(), *count)).collect()));
        lately
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(requests: i64, failed: i64) -> BTreeMap<String, i64> {
        [("requests".to_owned(), requests), ("requests_failed".to_owned(), failed), ("claims".to_owned(), 9)].into()
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_seconds_are_counted_and_not_the_good_ones_before() {
        let mut history = History::default();
        let mut lately = None;
        for second in 0..20 {
            // Ten calls per second, which fail from the tenth second on.
            lately = history.add(&counters(1_000 + second * 10, (second - 10).max(0) * 10));
            assert_eq!(lately.is_some(), second >= 7, "{second}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let lately = lately.unwrap();
        assert_eq!((lately.count("requests"), lately.count("requests_failed"), lately.count("claims")), (70, 70, 0));
        assert_eq!(history.read.len(), 8);
        assert_eq!(history.add(&counters(3, 0)), None, "the queue was wiped");
        tokio::time::advance(MOST * 2).await;
        assert_eq!(history.add(&counters(900, 0)), None, "no viewer meanwhile");
    }

    #[test]
    fn without_viewers_the_minutes_are_used() {
        let minute = |requests| Minute { counters: counters(requests, 1), ..Minute::default() };
        let lately = Lately::of_minutes(&[minute(400), minute(20), minute(3)]);
        assert_eq!((lately.count("requests"), lately.count("requests_failed")), (23, 2));
        assert_eq!(Lately::of_minutes(&[]).count("requests"), 0);
    }
}
