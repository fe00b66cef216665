//! Answers about an item: the input of a schedule that learns from them. Pure.

use crate::base::clock::Millis;

/// One answer with counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// When it was given, ms since the epoch.
    pub at: Millis,
    /// Its weighted count ([`weighted`]), events.
    pub count: f64,
}

/// An item's date and its answers, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct History {
    /// When it was made, ms since the epoch. `None`: nothing is estimated, and the age table's last bracket has it.
    pub created_at: Option<Millis>,
    /// The last answer. `None`: it is taken for an average item.
    pub last: Option<Answer>,
    /// The answer before. `None`: the last one was the first; the item began with a count of 0.
    pub before: Option<Answer>,
    /// Recent events as stored with the answer before ([`Schedule::recent`](super::Schedule::recent)). `None`: guessed
    /// from the counts.
    pub recent: Option<f64>,
}

impl History {
    /// The answer before the last one. One that is not earlier says nothing.
    #[must_use]
    pub fn earlier(&self) -> Option<Answer> {
        self.before.filter(|before| self.last.is_some_and(|last| before.at < last.at))
    }
}

/// Larger counts are taken as this, so that sums stay finite.
const LARGEST: f64 = 1e15;

/// A number that may be reckoned with: finite, not negative, not absurd.
pub(super) fn sane(count: f64) -> f64 {
    if count.is_nan() { 0.0 } else { count.clamp(0.0, LARGEST) }
}

/// Sum of counts, each with its weight, events. A missing count adds nothing; `None` if all are missing. Of a count
/// that an answer leaves out, pass the stored one, or the sum would fall and rise again.
#[must_use]
pub fn weighted(counts: &[(Option<i64>, f64)]) -> Option<f64> {
    let known = counts.iter().filter_map(|(count, weight)| count.map(|count| sane(count as f64) * sane(*weight)));
    known.fold(None, |sum, count| Some(sum.unwrap_or(0.0) + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_by_their_weights() {
        assert_eq!(weighted(&[(None, 1.0), (None, 2.0)]), None);
        assert_eq!(weighted(&[(Some(3), 1.0), (None, 2.0), (Some(4), 0.5), (Some(-1), 1.0)]), Some(5.0));
    }
}
