//! Hours and days, UTC. Pure.

use crate::base::clock::Millis;

pub const HOUR: Millis = 3_600_000;
pub const DAY: Millis = 24 * HOUR;

/// Hour of the day, 0 to 23, UTC.
#[must_use]
pub fn hour_of(at: Millis) -> usize {
    at.div_euclid(HOUR).rem_euclid(24) as usize
}

/// Days since the epoch, UTC.
#[must_use]
pub fn day_of(at: Millis) -> i64 {
    at.div_euclid(DAY)
}

/// Returns true for Saturday and Sunday. Day 0 of the epoch was a Thursday.
#[must_use]
pub fn is_weekend(day: i64) -> bool {
    day.saturating_add(3).rem_euclid(7) >= 5
}
