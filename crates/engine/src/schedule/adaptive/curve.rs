//! Decay curve: number of events that the average item has had by an age. Pure.

use serde::{Deserialize, Serialize};

/// Mean count by age, s. Between two knots it is linear in ln(1 + age ÷ `scale_s`). So the rate falls there as 1 ÷ age, which is
/// nearly how attention fades.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Age below which the rate of the first interval is flat, s.
    pub scale_s: f64,
    /// Ages of the knots, s: the first is 0, the others rise.
    pub age_s: Vec<f64>,
    /// Mean count at each knot, events: the first is 0, the others rise.
    pub count: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCurve {
    #[error("a decay curve needs at least two ages, and one count for each")]
    Shape,
    #[error("a decay curve starts at age 0 with count 0, and both rise from knot to knot")]
    NotRising,
}

impl Curve {
    pub fn check(&self) -> Result<(), BadCurve> {
        if self.age_s.len() < 2 || self.age_s.len() != self.count.len() {
            return Err(BadCurve::Shape);
        }
        let rises = |values: &[f64]| {
            values.first() == Some(&0.0) && values.windows(2).all(|pair| pair[0] < pair[1] && pair[1].is_finite())
        };
        let is_scale = self.scale_s.is_finite() && self.scale_s > 0.0;
        if is_scale && rises(&self.age_s) && rises(&self.count) { Ok(()) } else { Err(BadCurve::NotRising) }
    }

    /// The knot before an age, at most the last but one: the last segment continues beyond the last knot.
    pub(super) fn segment(&self, age_s: f64) -> usize {
        self.age_s.partition_point(|knot| *knot <= age_s).clamp(1, self.age_s.len() - 1) - 1
    }

    /// Events per unit of ln(1 + age ÷ scale) in a segment.
    fn slope(&self, at: usize) -> f64 {
        let width = ((self.age_s[at + 1] + self.scale_s) / (self.age_s[at] + self.scale_s)).ln();
        (self.count[at + 1] - self.count[at]) / width
    }

    #[must_use]
    pub fn count(&self, age_s: f64) -> f64 {
        let age_s = age_s.max(0.0);
        let at = self.segment(age_s);
        self.count[at] + self.slope(at) * ((age_s + self.scale_s) / (self.age_s[at] + self.scale_s)).ln()
    }

    /// Mean rate at an age, events per second.
    #[must_use]
    pub fn rate(&self, age_s: f64) -> f64 {
        let age_s = age_s.max(0.0);
        self.slope(self.segment(age_s)) / (age_s + self.scale_s)
    }

    #[must_use]
    pub fn events(&self, from_s: f64, to_s: f64) -> f64 {
        self.count(to_s) - self.count(from_s)
    }

    /// Recent events at an age in that segment, from those at its start. Each event weighs
    /// ((its age + scale) ÷ (`age_s` + scale))^`fade`, so that the last part of an item's life counts most, at any age.
    pub(super) fn recent_after(&self, segment: usize, recent: f64, age_s: f64, fade: f64) -> f64 {
        let fades = ((self.age_s[segment] + self.scale_s) / (age_s + self.scale_s)).powf(fade);
        recent * fades + self.slope(segment) / fade * (1.0 - fades)
    }

    /// ∫ (u − since) × rate(u) du from `since` to `to`, event seconds: the average item's loss by `to` after a refresh at `since`.
    #[must_use]
    pub fn expected_loss(&self, since_s: f64, to_s: f64) -> f64 {
        let (mut from, mut sum) = (since_s.max(0.0), 0.0);
        let last = self.age_s.len() - 2;
        for at in self.segment(from)..=last {
            let end = if at == last { to_s } else { to_s.min(self.age_s[at + 1]) };
            if end > from {
                sum += self.loss_in_segment(at, since_s.max(0.0), from, end);
                from = end;
            }
        }
        sum
    }

    fn loss_in_segment(&self, at: usize, since_s: f64, from: f64, to: f64) -> f64 {
        let ln = ((to - from) / (from + self.scale_s)).ln_1p();
        (self.slope(at) * ((to - from) - (since_s + self.scale_s) * ln)).max(0.0)
    }

    /// The age at which the [expected loss](Self::expected_loss) reaches `target` event seconds, at most `latest_s`. It includes the
    /// future decay, so an item with a falling rate waits longer than √(2 target ÷ rate).
    #[must_use]
    pub fn age_at_loss(&self, since_s: f64, target: f64, latest_s: f64) -> f64 {
        let since_s = since_s.max(0.0);
        if self.expected_loss(since_s, latest_s) <= target {
            return latest_s;
        }
        // √(2 target ÷ rate) is right for a flat rate and too early for a falling one. Newton's steps on a convex function would do, but
        // the rate may jump at a knot. Bisection between bounds always ends.
        let (mut low, mut high) = (since_s, latest_s);
        let mut guess = since_s + (2.0 * target / self.rate(since_s)).sqrt();
        for _ in 0..60 {
            let at = if guess > low && guess < high { guess } else { f64::midpoint(low, high) };
            let off = self.expected_loss(since_s, at) - target;
            if off.abs() <= 1e-6 * target || high - low < 1e-3 {
                return at;
            }
            if off > 0.0 {
                high = at
            } else {
                low = at
            }
            guess = at - off / ((at - since_s) * self.rate(at));
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve() -> Curve {
        let age_s = vec![0.0, 60.0, 600.0, 3_600.0, 86_400.0, 604_800.0];
        Curve { scale_s: 60.0, age_s, count: vec![0.0, 5.0, 30.0, 60.0, 95.0, 100.0] }
    }

    #[test]
    fn knots_are_met_and_the_last_segment_goes_on() {
        let curve = curve();
        for (age, count) in curve.age_s.iter().zip(&curve.count) {
            assert!((curve.count(*age) - count).abs() < 1e-9);
        }
        assert!(curve.count(2_000_000.0) > 100.0 && curve.rate(2_000_000.0) > 0.0);
        assert_eq!(curve.count(-5.0), 0.0);
    }

    #[test]
    fn broken_curves_are_refused() {
        let good = curve();
        assert_eq!(good.check(), Ok(()));
        let with = |age_s: &[f64], count: &[f64]| Curve { scale_s: 1.0, age_s: age_s.to_vec(), count: count.to_vec() };
        assert_eq!(with(&[0.0], &[0.0]).check(), Err(BadCurve::Shape));
        assert_eq!(with(&[0.0, 1.0], &[0.0]).check(), Err(BadCurve::Shape));
        assert_eq!(with(&[0.0, 1.0], &[0.0, f64::NAN]).check(), Err(BadCurve::NotRising));
        assert_eq!(with(&[1.0, 2.0], &[0.0, 1.0]).check(), Err(BadCurve::NotRising));
        assert_eq!(with(&[0.0, 1.0], &[0.0, 0.0]).check(), Err(BadCurve::NotRising));
        assert_eq!(Curve { scale_s: 0.0, ..good }.check(), Err(BadCurve::NotRising));
    }

    proptest! {
        #[test]
        fn missed_is_the_integral(since in 0.0..500_000.0f64, span in 1.0..500_000.0f64) {
            let curve = curve();
            let steps = 20_000;
            let step = span / f64::from(steps);
            let sum: f64 = (0..steps)
                .map(|at| (f64::from(at) + 0.5) * step)
                .map(|after| after * curve.rate(since + after) * step)
                .sum();
            let missed = curve.expected_loss(since, since + span);
            prop_assert!((missed - sum).abs() <= 1e-3 * sum + 1e-9, "{missed} {sum}");
        }

        #[test]
        fn reach_is_where_the_target_is_missed(since in 0.0..900_000.0f64, target in 1e-3..1e6f64) {
            let curve = curve();
            let at = curve.age_at_loss(since, target, since + 1e9);
            prop_assert!(at >= since && at <= since + 1e9);
            if at < since + 1e9 {
                let missed = curve.expected_loss(since, at);
                let slack = 1e-3 * target + 2e-3 * (at - since) * curve.rate(at);
                prop_assert!((missed - target).abs() <= slack, "{missed} {target}");
                // A falling rate waits longer than a flat one.
                prop_assert!(at - since >= (2.0 * target / curve.rate(since)).sqrt() * 0.7 - 1e-3);
            }
        }
    }
}
