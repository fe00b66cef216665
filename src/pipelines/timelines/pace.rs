//! The interval of a source's polls, by the fill of its pages. Pure.
//!
//! A poll that brings a [`Pace::fill`] of a page is just often enough: a call is a call however little it
//! brings, and what does not fit into a page costs another one. Be `fresh` what a whole round brought that was
//! not known, over the time `elapsed` since the round before; then the source would have brought the wished
//! for part of a page in
//!
//! ```text
//!     ideal = elapsed × fill × page ÷ fresh
//! ```
//!
//! A page of fewer than [`FEWEST`] counts as one of so many: what a poll asks again (what may still appear, and a known
//! post) would be a tenth of a small one.
//!
//! A source that got faster is followed at once (`ideal`). One that got slower is followed half the way, and by no
//! more than half of the interval at a time: after a burst, or an hour without a word, the next
//! polls find out what is so. At a steady rate this ends at the ideal interval, from wherever it starts.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::engine::lane::Lane;

/// Posts that a page is taken for, at the least.
pub const FEWEST: u32 = 100;

/// Bounds and aim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// No shorter interval, at least 1 ms.
    pub shortest: Duration,
    /// No longer one.
    pub longest: Duration,
    /// The share of a page that a poll should bring, above 0, up to 1.
    pub fill: f64,
}

impl Pace {
    /// The first interval of a source of which nothing is known: the shortest, since it has to be learnt.
    #[must_use]
    pub fn first(&self) -> Millis {
        clock::millis(self.shortest).max(1)
    }

    /// The next interval, in ms, after a whole round that brought `fresh` posts, with pages of `page`, over `elapsed` ms.
    #[must_use]
    pub fn next(&self, interval: Millis, fresh: u64, elapsed: Millis, page: u32) -> Millis {
        let shortest = self.first();
        let longest = clock::millis(self.longest).max(shortest);
        let interval = interval.clamp(shortest, longest);
        let most = interval.saturating_add(interval / 2);
        let next = if fresh == 0 {
            most
        } else {
            // Whole numbers up to 2^53 are exact, which 285 years in ms do not reach; the cast saturates.
            let ideal = elapsed.max(1) as f64 * self.fill * f64::from(page.max(FEWEST)) / fresh as f64;
            let ideal = ideal as Millis;
            if ideal <= interval { ideal } else { (interval + (ideal - interval) / 2).min(most) }
        };
        next.clamp(shortest, longest)
    }
}

/// The lane of an interval: one per power of two, in seconds, so that there are few. Its patience is that
/// power, the next one up.
#[must_use]
pub fn lane(interval: Millis) -> Lane {
    let seconds = u64::try_from(interval.max(1)).unwrap_or(1).div_ceil(1_000).next_power_of_two();
    let name: Arc<str> = format!("{seconds}s").into();
    Lane::new(name, Duration::from_secs(seconds))
}
