use super::clock::{self, Millis};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// Time of the last activity, ms since the epoch.
    pub last: Option<Millis>,
    /// First of the quietest hours of the day (UTC, 0 to 23).
    pub quiet_from: Option<u8>,
    pub pace: Option<Pace>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// Changes per day, estimated from all responses, the newest one included.
    pub per_day: f64,
    /// Time of the newest response, ms since the epoch.
    pub at: Millis,
    /// Time of the previous response, ms since the epoch; `None`: there is none, or it is of no use.
    pub since: Option<Millis>,
}

/// Newest activity in a response of time `at`; all in ms since the epoch. Times ahead of `at` are ignored: such a time would stay
/// the newest for ever.
#[must_use]
pub fn newest_activity(signs: impl IntoIterator<Item = Option<Millis>>, at: Millis) -> Option<Millis> {
    signs.into_iter().flatten().filter(|sign| !clock::is_ahead(*sign, at)).max()
}
