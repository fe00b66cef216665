//! Counts of the last seconds. Two minutes of good calls would hide a new fault, which the page must show at once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use collect::pipelines::refresh::mass_miss_alert;
use engine::base::clock::Stopwatch;
use engine::queue::Minute;

/// Minimum period of the counts: a worker reports its counts every 5 s.
const MIN_PERIOD: Duration = Duration::from_secs(7);
/// Maximum period of the counts, after a time without a viewer.
const MAX_PERIOD: Duration = Duration::from_secs(30);
/// Minutes counted instead after a longer time without a viewer: the current one and the one before it.
const MINUTES: usize = 2;
const COUNTERS: [&str; 7] = [
    "requests",
    "requests_failed",
    "looked_up",
    "broken",
    "lookup_ms",
    mass_miss_alert::FOUND,
    mass_miss_alert::MISSED,
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentCounts {
    counts: BTreeMap<&'static str, i64>,
}

impl RecentCounts {
    /// Returns the counts between two readings. `None`: a counter has shrunk, because the queue was wiped.
    #[must_use]
    pub fn difference(before: &BTreeMap<String, i64>, now: &BTreeMap<String, i64>) -> Option<Self> {
        let of = |counters: &BTreeMap<String, i64>, name| counters.get(name).copied().unwrap_or(0);
        let counts: BTreeMap<_, _> = COUNTERS.map(|name| (name, of(now, name) - of(before, name))).into();
        counts.values().all(|by| *by >= 0).then_some(Self { counts })
    }

    #[must_use]
    pub fn from_minutes(minutes: &[Minute]) -> Self {
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
pub(super) struct CounterHistory {
    read: VecDeque<(Stopwatch, BTreeMap<String, i64>)>,
}

impl CounterHistory {
    /// Stores this reading and returns the counts of the last seconds. `None`: no earlier reading has a suitable age.
    pub fn add(&mut self, counters: &BTreeMap<String, i64>) -> Option<RecentCounts> {
        // Keeps the newest reading that is old enough as the first.
        while self.read.get(1).is_some_and(|(at, _)| at.elapsed() >= MIN_PERIOD) {
            self.read.pop_front();
        }
        let before = self.read.front().filter(|(at, _)| (MIN_PERIOD..=MAX_PERIOD).contains(&at.elapsed()));
        let lately = before.and_then(|(_, before)| RecentCounts::difference(before, counters));
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
        let mut history = CounterHistory::default();
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
        tokio::time::advance(MAX_PERIOD * 2).await;
        assert_eq!(history.add(&counters(900, 0)), None, "no viewer meanwhile");
    }

    #[test]
    fn without_viewers_the_minutes_are_used() {
        let minute = |requests| Minute { counters: counters(requests, 1), ..Minute::default() };
        let lately = RecentCounts::from_minutes(&[minute(400), minute(20), minute(3)]);
        assert_eq!((lately.count("requests"), lately.count("requests_failed")), (23, 2));
        assert_eq!(RecentCounts::from_minutes(&[]).count("requests"), 0);
    }
}
