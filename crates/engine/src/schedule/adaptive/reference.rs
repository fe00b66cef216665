//! Budget of calls by age: the age table's calls of a whole life, at the ages at which the schedule makes them. Pure.
//!
//! The daily correction compares the demand with this, not with the age table's calls at the same ages: after an import all items
//! are of one age, and there the schedule makes far more or fewer calls than the table, on purpose.

use crate::base::clock::Millis;

/// Calls of the budget for one item, up to each age.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetByAge {
    /// Rising from 0.
    age_s: Vec<f64>,
    calls: Vec<f64>,
}

impl BudgetByAge {
    /// Takes the calls of an average item in steps of its life, each with the age at its end, s. `total`: calls in a whole life.
    pub(super) fn new(steps: impl Iterator<Item = (f64, f64)>, total: f64) -> Self {
        let (mut age_s, mut calls, mut sum) = (vec![0.0], vec![0.0], 0.0);
        for (end_s, more) in steps {
            sum += more;
            age_s.push(end_s);
            calls.push(sum);
        }
        let factor = if sum > 0.0 { total / sum } else { 0.0 };
        calls.iter_mut().for_each(|calls| *calls *= factor);
        Self { age_s, calls }
    }

    /// Calls between two ages, ms. After the end of the life there are none.
    #[must_use]
    pub fn calls_between(&self, from: Millis, to: Millis) -> f64 {
        (self.calls_up_to(to) - self.calls_up_to(from)).max(0.0)
    }

    fn calls_up_to(&self, age: Millis) -> f64 {
        let age_s = age.max(0) as f64 / 1e3;
        let next = self.age_s.partition_point(|known| *known <= age_s);
        let Some(after_s) = self.age_s.get(next) else { return self.calls[self.calls.len() - 1] };
        let (before_s, before) = (self.age_s[next - 1], self.calls[next - 1]);
        before + (self.calls[next] - before) * (age_s - before_s) / (after_s - before_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_between_two_ages_add_up_to_those_of_a_life() {
        let reference = BudgetByAge::new([(10.0, 3.0), (20.0, 1.0)].into_iter(), 8.0);
        assert_eq!(
            [(0, 10_000), (10_000, 20_000), (0, 20_000)].map(|(from, to)| reference.calls_between(from, to)),
            [6.0, 2.0, 8.0]
        );
        assert_eq!(reference.calls_between(5_000, 15_000), 4.0);
        assert_eq!(reference.calls_between(15_000, i64::MAX), 1.0);
        assert_eq!(
            [(15_000, 5_000), (i64::MIN, 0), (30_000, 40_000)].map(|(from, to)| reference.calls_between(from, to)),
            [0.0; 3]
        );
    }
}
