//! The pace of questions that take a service long, such as counts of large tables.

use std::time::Duration;

/// A question is put again after this multiple of the time that it took.
const SHARE_OF_THE_TIME: u32 = 10;

/// The pace of one question. A single slow answer may come from a service that stood still for a moment. Only a question that was slow
/// twice in a row is put more rarely.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    before: Option<Duration>,
}

impl Pace {
    /// Returns the time until the next question, at least `least`, after one that took `took`.
    pub(super) fn rest(&mut self, took: Duration, least: Duration) -> Duration {
        let cost = self.before.replace(took).map_or(took, |before| before.min(took));
        least.max(cost * SHARE_OF_THE_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_slow_answer_changes_no_pace_and_two_do() {
        let mut pace = Pace::default();
        assert_eq!(pace.rest(SECOND / 100, SECOND), SECOND);
        assert_eq!(pace.rest(3 * SECOND, SECOND), SECOND, "the service stood still");
        assert_eq!(pace.rest(SECOND / 100, SECOND), SECOND);
        assert_eq!(pace.rest(3 * SECOND, SECOND), SECOND);
        assert_eq!(pace.rest(4 * SECOND, SECOND), 30 * SECOND, "it is slow");
        assert_eq!(Pace::default().rest(3 * SECOND, SECOND), 30 * SECOND, "the first count of a large table");
    }
}
