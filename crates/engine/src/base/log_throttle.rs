//! Throttle for log lines that stand for many cases.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::Stopwatch;

const LOG_INTERVAL: Duration = Duration::from_secs(600);
/// Length limit of a foreign id in the log; longer ones are cut.
const ID_CHARS: usize = 100;

#[derive(Debug, Default)]
pub struct LogThrottle {
    /// Time since the last line, and the number of cases without a line since.
    last: Mutex<Option<(Stopwatch, usize)>>,
}

impl LogThrottle {
    /// Counts cases. Returns the number since the last line if a line is due.
    pub fn count_if_due(&self, cases: usize) -> Option<usize> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((since, left_out)) if since.elapsed() < LOG_INTERVAL => {
                *left_out += cases;
                None
            }
            _ => {
                let all = last.as_ref().map_or(0, |(_, left_out)| *left_out) + cases;
                *last = Some((Stopwatch::start(), 0));
                Some(all)
            }
        }
    }
}

pub fn escape_id(id: &str) -> String {
    id.chars().take(ID_CHARS).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_while_counts_the_others() {
        let rarely = LogThrottle::default();
        assert_eq!(rarely.count_if_due(2), Some(2));
        assert_eq!((rarely.count_if_due(1), rarely.count_if_due(3)), (None, None));
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!((rarely.count_if_due(1), rarely.count_if_due(1)), (Some(5), None));
    }

    #[test]
    fn an_id_is_shown_in_one_short_line() {
        assert_eq!(escape_id("20"), "20");
        assert_eq!(escape_id("a\nb"), "a\\nb");
        assert_eq!(escape_id(&"x".repeat(10_000)).len(), ID_CHARS);
    }
}
