//! The queue over time: the ids that come due, and the counts by minute and by hour.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::clock::Millis;
use crate::engine::lateness::Lateness;

/// Minutes of counters that a queue keeps, the current one included.
pub const MINUTES_KEPT: u32 = 120;

/// A minute, ms.
pub const MINUTE_MS: Millis = 60_000;

/// Hours of counters that a queue keeps, the current one included: 31 days.
pub const HOURS_KEPT: u32 = 31 * 24;

/// An hour, ms.
pub const HOUR_MS: Millis = 60 * MINUTE_MS;

/// The name under which backends keep [`Hour::minutes`] beside the counters of the hour.
pub(super) const MINUTES: &str = "minutes";

/// The number of due ids of a lane over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneDue {
    /// The lane.
    pub lane: String,
    /// Per moment that was asked for, how many are due by then: each holds the one before it.
    pub counts: Vec<u64>,
}

/// The counts of a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Minute {
    /// Its start, ms since the epoch.
    pub at_ms: Millis,
    /// Its counts: the queue's own counters, and those that workers reported with their heartbeats.
    pub counters: BTreeMap<String, i64>,
    /// The lateness of the claims that workers reported in it.
    pub lateness: Lateness,
}

impl Minute {
    /// One of these counters; 0 where nothing was counted.
    #[must_use]
    pub fn count(&self, counter: &str) -> i64 {
        self.counters.get(counter).copied().unwrap_or(0)
    }
}

/// The sums of the minutes of an hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Hour {
    /// Its start, ms since the epoch.
    pub at_ms: Millis,
    /// The minutes that were added: less than 60 in the current hour, in the first one of a queue, and where no updater ran
    /// for so long that the queue no longer had the minutes.
    pub minutes: u32,
    /// As of [`Minute`].
    pub counters: BTreeMap<String, i64>,
    /// As of [`Minute`].
    pub lateness: Lateness,
}

impl Hour {
    /// An hour as it is kept: the number of minutes is one of the counters.
    pub(super) fn kept(at_ms: Millis, mut counters: BTreeMap<String, i64>, lateness: Lateness) -> Self {
        let minutes = counters.remove(MINUTES).unwrap_or(0);
        Self { at_ms, minutes: u32::try_from(minutes).unwrap_or(0), counters, lateness }
    }
}

/// The last `count` minutes: those that are known, with the news of the current one and the one before it. `None` where
/// others are missing, or where the queue's clock went back.
#[must_use]
pub fn joined(known: &[Minute], news: Vec<Minute>, count: u32) -> Option<Vec<Minute>> {
    let (last, first) = (known.last()?.at_ms, news.first()?.at_ms);
    if last != first && last != first + MINUTE_MS {
        return None;
    }
    let closed = known.iter().filter(|minute| minute.at_ms < first).cloned();
    let mut minutes: Vec<Minute> = closed.chain(news).collect();
    let shown = Millis::from(count) * MINUTE_MS;
    let newest = minutes.last()?.at_ms;
    minutes.retain(|minute| minute.at_ms > newest - shown);
    Some(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(of: impl IntoIterator<Item = Millis>, requests: i64) -> Vec<Minute> {
        let minute = |minute| Minute {
            at_ms: minute * MINUTE_MS,
            counters: [("requests".to_owned(), requests)].into(),
            ..Minute::default()
        };
        of.into_iter().map(minute).collect()
    }

    #[test]
    fn minutes_that_are_over_are_kept_and_the_last_two_are_news() {
        let hour = minutes(1..=60, 1);
        let same = joined(&hour, minutes(59..=60, 2), 60).unwrap();
        assert_eq!(same, [minutes(1..=58, 1), minutes(59..=60, 2)].concat());
        let next = joined(&hour, minutes(60..=61, 2), 60).unwrap();
        assert_eq!(next, [minutes(2..=59, 1), minutes(60..=61, 2)].concat());
        // A minute was missed, the clock went back, or nothing is known.
        for news in [61..=62, 58..=59, 0..=1] {
            assert_eq!(joined(&hour, minutes(news, 2), 60), None);
        }
        assert_eq!(joined(&[], minutes(59..=60, 2), 60), None);
    }
}
