//! Signs of life.

use crate::base::clock::Millis;

/// Signs of life of an item, where its kind knows any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// When it was last active, ms since the epoch.
    pub last: Option<Millis>,
    /// The hour (UTC, 0 to 23) at which its quietest hours of the day begin.
    pub quiet_from: Option<u8>,
}
