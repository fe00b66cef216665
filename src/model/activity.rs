//! Signs of life.

use crate::base::clock::{FUTURE_TOLERANCE_MS, Millis};

/// Signs of life of an item, where its kind knows any.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// When it was last active, ms since the epoch.
    pub last: Option<Millis>,
    /// The hour (UTC, 0 to 23) at which its quietest hours of the day begin.
    pub quiet_from: Option<u8>,
    /// The rate at which its counts change; `None` if it is not known.
    pub pace: Option<Pace>,
}

/// The rate at which the counts of an item change.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// Changes a day, as estimated from all answers, the newest one included.
    pub per_day: f64,
    /// When the newest answer was given, ms since the epoch.
    pub at: Millis,
    /// When the one before was given, ms since the epoch; `None`: there is none, or it says nothing.
    pub since: Option<Millis>,
}

/// Returns true if an answer that was given at `at` may tell of that moment; both in ms since the epoch. What is ahead of it would
/// be the newest sign of life for ever.
#[must_use]
pub fn can_be(moment: Millis, at: Millis) -> bool {
    moment <= at.saturating_add(FUTURE_TOLERANCE_MS)
}
