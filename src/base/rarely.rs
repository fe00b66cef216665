//! Log lines that stand for many cases.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::Stopwatch;

/// Interval between two lines of a kind.
const EVERY: Duration = Duration::from_secs(600);
/// Length limit of a foreign id in the log; longer ones are cut.
const ID_CHARS: usize = 100;

#[derive(Debug, Default)]
pub struct Rarely {
    /// Time since the last line, and the number of cases without a line since.
    last: Mutex<Option<(Stopwatch, usize)>>,
}

impl Rarely {
    /// The number of cases since the last line, including these, if a line is due.
    pub fn is_due(&self, cases: usize) -> Option<usize> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((since, left_out)) if since.elapsed() < EVERY => {
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
        let rarely = Rarely::default();
        assert_eq!(rarely.is_due(2), Some(2));
        assert_eq!((rarely.is_due(1), rarely.is_due(3)), (None, None));
        tokio::time::advance(EVERY).await;
        assert_eq!((rarely.is_due(1), rarely.is_due(1)), (Some(5), None));
    }

    #[test]
    fn an_id_is_shown_in_one_short_line() {
        assert_eq!(escape_id("20"), "20");
        assert_eq!(escape_id("a\nb"), "a\\nb");
        assert_eq!(escape_id(&"x".repeat(10_000)).len(), ID_CHARS);
    }
}
