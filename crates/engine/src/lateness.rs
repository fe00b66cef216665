//! The lateness of claims, as a histogram shared by metrics, queue and page. No I/O.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::clock::Millis;

/// Number of ids by lateness, with fixed upper bounds: the powers of two and the middles between them (1, 2, 3, 4, 6, 8, 12 … ms).
/// So the counts of many workers and minutes add up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Lateness(BTreeMap<Millis, u64>);

/// The least bound that holds this lateness. The first bound also holds ids that are early or on time.
fn upper_bound(late: Millis) -> Millis {
    let late = late.max(1);
    let power = 1 << late.ilog2();
    let middle = power + power / 2;
    match late {
        late if late == power => power,
        late if late <= middle => middle,
        _ => power.checked_mul(2).unwrap_or(Millis::MAX),
    }
}

impl Lateness {
    /// Adds `ids` ids that were `late` ms late. A bound may stand for all lateness up to it.
    pub fn add(&mut self, late: Millis, ids: u64) {
        if ids > 0 {
            let sum = self.0.entry(upper_bound(late)).or_default();
            *sum = sum.saturating_add(ids);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.bounds().for_each(|(upper, ids)| self.add(upper, ids));
    }

    /// Subtracts the counts of another; no count falls below 0.
    pub fn subtract(&mut self, other: &Self) {
        for (upper, ids) in other.bounds() {
            if let Some(sum) = self.0.get_mut(&upper) {
                *sum = sum.saturating_sub(ids);
            }
        }
        self.0.retain(|_, ids| *ids > 0);
    }

    /// Yields (upper bound of the lateness in ms, number of ids), ascending; bounds without ids are left out.
    pub fn bounds(&self) -> impl Iterator<Item = (Millis, u64)> {
        self.0.iter().map(|(upper, ids)| (*upper, *ids))
    }

    #[must_use]
    pub fn ids(&self) -> u64 {
        self.0.values().fold(0, |sum, ids| sum.saturating_add(*ids))
    }

    /// Upper bound of the lateness of that share (0 to 1) of the ids, ms, less than half above the truth. `None` without ids.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Millis> {
        let rank = (self.ids() as f64 * share).ceil().max(1.0);
        let mut below = 0.0;
        let reaches = |(_, ids): &(Millis, u64)| {
            below += *ids as f64;
            below >= rank
        };
        // Rounding may leave a rest: it counts as the last bound.
        self.bounds().find(reaches).or_else(|| self.bounds().last()).map(|(upper, _)| upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_half_apart_at_the_most_and_hold_everything() {
        let first: Vec<Millis> = (1..=24).map(upper_bound).collect();
        assert_eq!(first, [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 24, 24, 24, 24, 24, 24, 24, 24]);
        for late in [Millis::MIN, -1, 0, 1] {
            assert_eq!(upper_bound(late), 1);
        }
        for power in 1..63 {
            for late in [(1 << power) - 1, 1 << power, (1 << power) + 1, Millis::MAX] {
                let upper = upper_bound(late);
                assert!(late <= upper && upper as f64 <= late as f64 * 1.5, "{late} {upper}");
                assert_eq!(upper_bound(upper), upper, "a bound is its own");
            }
        }
    }

    #[test]
    fn a_quantile_is_the_bound_above_that_share() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.quantile(0.99), lateness.ids()), (None, 0));
        lateness.add(0, 0);
        assert_eq!(lateness.quantile(0.5), None);
        lateness.add(5, 99);
        lateness.add(86_400_000, 1);
        let quantiles = [0.0, 0.5, 0.99, 0.991, 1.0, 7.0].map(|share| lateness.quantile(share).unwrap());
        assert_eq!(quantiles, [6, 6, 6, 100_663_296, 100_663_296, 100_663_296]);
    }

    #[test]
    fn what_is_merged_can_be_taken_away_again() {
        let (mut one, mut two) = (Lateness::default(), Lateness::default());
        one.add(3, 2);
        two.add(3, 1);
        two.add(1_000, 4);
        let before = one.clone();
        one.merge(&two);
        assert_eq!((one.ids(), one.bounds().collect::<Vec<_>>()), (7, vec![(3, 3), (1_024, 4)]));
        one.subtract(&two);
        assert_eq!(one, before);
        one.subtract(&two);
        assert_eq!(one.bounds().collect::<Vec<_>>(), [(3, 1)], "never less than none");
    }
}
