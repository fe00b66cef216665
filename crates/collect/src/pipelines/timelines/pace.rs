//! Interval of a source's polls, by the fill of its pages. Pure.
//!
//! The ideal poll brings a [`Pace::fill`] of a page: a call costs the same for few posts, and the rest needs another call. Let
//! `fresh` be the new posts of a whole round, `elapsed` after the round before. Then the desired part of a page takes
//!
//! ```text
//!     ideal = elapsed × fill × page ÷ fresh
//! ```
//!
//! A page of fewer than [`MIN_PAGE_POSTS`] posts counts as one of that size: repeated posts would be a tenth of a small page.
//!
//! If a source gets faster, the interval follows at once (`ideal`). If it gets slower, the interval follows half the way, by at most half
//! of itself: after a burst, or a silent hour, the next polls find the true rate. At a steady rate this ends at the ideal interval.

use std::sync::Arc;
use std::time::Duration;

use engine::base::clock::{self, Millis};
use engine::lane::Lane;

/// Minimum size of a page in the calculation, posts.
pub const MIN_PAGE_POSTS: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Shortest interval, at least 1 ms.
    pub shortest: Duration,
    pub longest: Duration,
    /// Share of a page that a poll should bring, above 0, up to 1.
    pub fill: f64,
}

impl Pace {
    /// First interval of an unknown source: the shortest, to learn its rate.
    #[must_use]
    pub fn first(&self) -> Millis {
        clock::millis(self.shortest).max(1)
    }

    /// Next interval, ms, after a round with `fresh` new posts, pages of `page` posts, over `elapsed` ms.
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
            let ideal = elapsed.max(1) as f64 * self.fill * f64::from(page.max(MIN_PAGE_POSTS)) / fresh as f64;
            let ideal = ideal as Millis;
            if ideal <= interval { ideal } else { (interval + (ideal - interval) / 2).min(most) }
        };
        next.clamp(shortest, longest)
    }
}

/// Lane of an interval: one per power of two, in seconds, so that there are few. Its patience is the next power up.
#[must_use]
pub fn interval_lane(interval: Millis) -> Lane {
    let seconds = u64::try_from(interval.max(1)).unwrap_or(1).div_ceil(1_000).next_power_of_two();
    let name: Arc<str> = format!("{seconds}s").into();
    Lane::new(name, Duration::from_secs(seconds))
}
