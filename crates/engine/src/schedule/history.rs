//! API answers about an item: the input of a schedule that learns from them. Pure.

use crate::base::clock::Millis;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Time of the answer, ms since the epoch.
    pub at: Millis,
    /// Weighted count ([`weighted`]), events.
    pub count: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct History {
    /// Creation time, ms since the epoch. `None`: nothing is estimated, and the age table's last bracket applies.
    pub created_at: Option<Millis>,
    /// `None`: the item counts as average.
    pub last: Option<Answer>,
    /// `None`: the last answer was the first one, and the item began with a count of 0.
    pub before: Option<Answer>,
    /// Stored result of `recent_events` of the schedule at the answer before. `None`: estimated from the counts.
    pub recent: Option<f64>,
}

impl History {
    /// The answer before the last one, if it is earlier.
    #[must_use]
    pub fn earlier(&self) -> Option<Answer> {
        self.before.filter(|before| self.last.is_some_and(|last| before.at < last.at))
    }
}

/// Larger counts are cut to this, so that sums stay finite.
const LARGEST: f64 = 1e15;

/// The nearest count from 0 to `LARGEST`; 0 for NaN.
pub(super) fn sane(count: f64) -> f64 {
    if count.is_nan() { 0.0 } else { count.clamp(0.0, LARGEST) }
}

/// Weighted sum of counts, events; `None` if all are missing. If an answer leaves out a count, pass the stored one: otherwise the
/// sum would fall and rise again.
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
