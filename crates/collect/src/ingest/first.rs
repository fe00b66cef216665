use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::base::clock::Millis;
use engine::lane::Lane;
use engine::schedule::Next;
use networks::model::post::Ingested;

#[derive(Debug, Clone, Default)]
pub enum FirstLookup {
    /// After the interval of its age: the rule of the specification.
    #[default]
    Interval,
    /// At once for bare ids; an item with content waits for its interval.
    Bare(LookupPace),
    Now(LookupPace),
    /// At once, at any age, and never again.
    Once(LookupPace),
}

impl FirstLookup {
    /// Returns true if items are looked up only once. The store records this as their way
    /// ([`ONCE`](store::ONCE)).
    #[must_use]
    pub fn is_once(&self) -> bool {
        matches!(self, Self::Once(_))
    }

    /// Returns lane and delay of an item. `regular` is the schedule's choice; `None` if the item is too old.
    pub(super) fn choose(&self, item: &Ingested, regular: Option<Next>, now: Millis) -> Option<Next> {
        match self {
            Self::Once(pace) => Some((Lane::once(), pace.next(now))),
            Self::Now(pace) => regular.map(|_| (Lane::first(), pace.next(now))),
            Self::Bare(pace) if item.content.is_none() => regular.map(|_| (Lane::first(), pace.next(now))),
            Self::Interval | Self::Bare(_) => regular,
        }
    }
}

#[derive(Debug, Clone)]
pub struct LookupPace {
    /// Nanoseconds between two lookups.
    apart: u64,
    /// Time of the first lookup, ms since the epoch.
    from: Millis,
    given: Arc<AtomicU64>,
}

impl LookupPace {
    /// Starts at `from`, ms since the epoch. `None` means no known limit: all at once.
    #[must_use]
    pub fn new(from: Millis, ids_per_second: Option<f64>) -> Self {
        // A rate of 0 means one id per hour.
        let apart = ids_per_second.map_or(0.0, |rate| 1e9 / rate.max(1.0 / 3_600.0));
        Self { apart: apart as u64, from, given: Arc::default() }
    }

    fn next(&self, now: Millis) -> Millis {
        let before = self.given.fetch_add(1, Ordering::Relaxed);
        let after = Millis::try_from(u128::from(before) * u128::from(self.apart) / 1_000_000).unwrap_or(Millis::MAX);
        self.from.saturating_add(after).saturating_sub(now).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_each_other_as_fast_as_the_quota_goes() {
        let pace = LookupPace::new(1_000, Some(4.0));
        assert_eq!([1_000, 1_000, 1_100].map(|now| pace.next(now)), [0, 250, 400]);
        assert_eq!(pace.next(9_000), 0, "what should have been looked up by now is due");
        let no_limit = LookupPace::new(1_000, None);
        assert_eq!([1_000, 1_000].map(|now| no_limit.next(now)), [0, 0]);
        let nothing = LookupPace::new(0, Some(0.0));
        assert_eq!([0, 0].map(|now| nothing.next(now)), [0, 3_600_000]);
    }

    #[test]
    fn what_comes_whole_waits_for_its_interval_and_what_is_too_old_comes_once_only() {
        let regular = || Some((Lane::new("1h", std::time::Duration::from_secs(60)), 60_000));
        let bare = Ingested::bare("1");
        let whole = Ingested { content: Some(Default::default()), ..bare.clone() };
        let name = |next: Option<Next>| next.map(|(lane, delay)| (lane.name.to_string(), delay));
        let of = |first: &FirstLookup, item: &Ingested| name(first.choose(item, regular(), 0));
        let pace = || LookupPace::new(0, None);
        assert_eq!(of(&FirstLookup::Bare(pace()), &bare), Some(("first".into(), 0)));
        assert_eq!(of(&FirstLookup::Bare(pace()), &whole), Some(("1h".into(), 60_000)));
        assert_eq!(of(&FirstLookup::Now(pace()), &whole), Some(("first".into(), 0)));
        assert_eq!(of(&FirstLookup::Interval, &bare), Some(("1h".into(), 60_000)));
        assert_eq!(name(FirstLookup::Now(pace()).choose(&bare, None, 0)), None);
        assert_eq!(name(FirstLookup::Once(pace()).choose(&bare, None, 0)), Some(("once".into(), 0)));
    }
}
