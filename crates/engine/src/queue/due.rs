//! Due times: a delay, or a moment.

use crate::base::clock::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// Delay in ms from the queue's clock. A negative delay counts as 0.
    In(Millis),
    /// Moment, ms since the epoch; negative counts as 0. It may be long past: the age of the data, 0 for none.
    At(Millis),
}

impl Due {
    /// The moment, ms since the epoch, if the time is `now`.
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
