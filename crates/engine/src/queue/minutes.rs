//! The queue over time: the ids that come due, and the counts by minute and by hour.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::clock::Millis;
use crate::lateness::Lateness;

/// Number of minutes that a queue keeps counters of, including the current one.
pub const MINUTES_KEPT: u32 = 120;

pub const MINUTE_MS: Millis = 60_000;

/// Number of hours that a queue keeps counters of, including the current one: 31 days.
pub const HOURS_KEPT: u32 = 31 * 24;

pub const HOUR_MS: Millis = 60 * MINUTE_MS;

/// Name under which backends store [`Hour::minutes`], beside the counters of the hour.
pub(super) const MINUTES: &str = "minutes";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneDue {
    pub lane: String,
    /// Number of ids due by each requested moment; each count includes the one before it.
    pub counts: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Minute {
    /// Start of the minute, ms since the epoch.
    pub at_ms: Millis,
    /// The queue's own counters, and those that workers reported with their heartbeats.
    pub counters: BTreeMap<String, i64>,
    /// Lateness of the claims that workers reported in this minute.
    pub lateness: Lateness,
}

impl Minute {
    /// The value of a counter; 0 if nothing was counted.
    #[must_use]
    pub fn count(&self, counter: &str) -> i64 {
        self.counters.get(counter).copied().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Hour {
    /// Start of the hour, ms since the epoch.
    pub at_ms: Millis,
    /// Number of minutes added. It is below 60 in the current hour, in the first hour of a queue, and if no updater ran for more than
    /// `MINUTES_KEPT` minutes.
    pub minutes: u32,
    pub counters: BTreeMap<String, i64>,
    pub lateness: Lateness,
}

impl Hour {
    /// An hour as it is stored: the number of minutes is one of the counters.
    pub(super) fn from_counters(at_ms: Millis, mut counters: BTreeMap<String, i64>, lateness: Lateness) -> Self {
        let minutes = counters.remove(MINUTES).unwrap_or(0);
        Self { at_ms, minutes: u32::try_from(minutes).unwrap_or(0), counters, lateness }
    }
}

/// The last `count` minutes: the known ones, updated with the current one and the one before it. `None` if minutes between them
/// are missing, or if the queue's clock stepped back.
#[must_use]
pub fn append_minutes(known: &[Minute], news: Vec<Minute>, count: u32) -> Option<Vec<Minute>> {
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
        let same = append_minutes(&hour, minutes(59..=60, 2), 60).unwrap();
        assert_eq!(same, [minutes(1..=58, 1), minutes(59..=60, 2)].concat());
        let next = append_minutes(&hour, minutes(60..=61, 2), 60).unwrap();
        assert_eq!(next, [minutes(2..=59, 1), minutes(60..=61, 2)].concat());
        // A minute was missed, the clock stepped back, or nothing is known.
        for news in [61..=62, 58..=59, 0..=1] {
            assert_eq!(append_minutes(&hour, minutes(news, 2), 60), None);
        }
        assert_eq!(append_minutes(&[], minutes(59..=60, 2), 60), None);
    }
}
