//! Due times: a delay, or a moment.

use crate::base::clock::Millis;

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// Milliseconds from the queue's now. A negative delay counts as 0.
    In(Millis),
    /// At this moment, ms since the epoch. It may be long past: the age of the data, 0 for none. A negative one counts as 0.
    At(Millis),
}

impl Due {
    /// The moment, ms since the epoch, where it is `now`.
    #[must_use]
    pub fn moment(self, now: Millis) -> Millis {
        match self {
            Self::In(delay) => now.saturating_add(delay.max(0)),
            Self::At(moment) => moment.max(0),
        }
    }
}

impl From<Millis> for Due {
    fn from(delay: Millis) -> Self {
        Self::In(delay)
    }
}
