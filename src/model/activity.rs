//! Signs of life.

use crate::base::clock::{self, Millis};

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

/// The newest sign of life that an answer given at `at` may tell of; all in ms since the epoch. What is ahead of it would be the
/// newest for ever.
#[must_use]
pub fn newest(signs: impl IntoIterator<Item = Option<Millis>>, at: Millis) -> Option<Millis> {
    signs.into_iter().flatten().filter(|sign| !clock::is_ahead(*sign, at)).max()
}
