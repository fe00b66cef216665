//! The pace of slow queries, such as counts of large tables.

use std::time::Duration;

/// Pause after a query, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 10;

/// The pace of one query. Only a query that was slow twice in a row is repeated less often: a service may have paused once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    before: Option<Duration>,
}

impl Pace {
    /// Returns the pause after a query that took `took`, at least `least`.
    pub(super) fn pause_after(&mut self, took: Duration, least: Duration) -> Duration {
        let cost = self.before.replace(took).map_or(took, |before| before.min(took));
        least.max(cost * PAUSE_FACTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_slow_answer_changes_no_pace_and_two_do() {
        let mut pace = Pace::default();
        assert_eq!(pace.pause_after(SECOND / 100, SECOND), SECOND);
        assert_eq!(pace.pause_after(3 * SECOND, SECOND), SECOND, "the service stood still");
        assert_eq!(pace.pause_after(SECOND / 100, SECOND), SECOND);
        assert_eq!(pace.pause_after(3 * SECOND, SECOND), SECOND);
        assert_eq!(pace.pause_after(4 * SECOND, SECOND), 30 * SECOND, "it is slow");
        assert_eq!(Pace::default().pause_after(3 * SECOND, SECOND), 30 * SECOND, "the first count of a large table");
    }
}
