//! Calls, and days with calls, in the lives of items like those of the training. Pure: lives follow the schedule's own rules.

use super::Adaptive;
use super::budget::{Normaliser, table_calls};
use crate::base::clock::Millis;
use crate::schedule::history::{Answer, History};

const DAY_MS: Millis = 86_400_000;
const MIDNIGHT: Millis = 20_000 * DAY_MS;
/// Times of the day at which simulated lives start.
const START_TIMES: i64 = 12;
/// Lives with more calls take too long to simulate.
const MAX_CALLS: f64 = 2_000.0;

/// Means per life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLife {
    pub calls: f64,
    /// UTC days with a call.
    pub days: f64,
}

impl Adaptive {
    /// Simulates the model's population at the price that meets the budget, with no interval above `longest`, ms. `None` if the model
    /// has no population, or if the lives have too many calls.
    #[must_use]
    pub fn simulate_lives(&self, longest: Option<Millis>) -> Option<MeanLife> {
        let lifetime = self.table.lifetime();
        let wanted = table_calls(&self.table, 0, lifetime) * self.options.share;
        let checks = longest.map_or(0.0, |longest| lifetime as f64 / longest.max(1) as f64);
        if self.model.population.is_empty() || wanted.max(checks) > MAX_CALLS {
            return None;
        }
        // Calls fall with the price: halve the range of its logarithm. The bounds of intervals may prevent an exact match.
        let (mut low, mut high) = (-7.0f64, 7.0f64);
        for _ in 0..12 {
            let middle = f64::midpoint(low, high);
            let priced = self.clone().with_normaliser(Normaliser { price: middle.exp(), level: 1.0 });
            if priced.simulate_population(1, None).calls > wanted { low = middle } else { high = middle }
        }
        let priced = self.clone().with_normaliser(Normaliser { price: high.exp(), level: 1.0 });
        Some(priced.simulate_population(START_TIMES, longest))
    }

    /// Mean over the population's lives, each started at `times` evenly spaced times of the day.
    fn simulate_population(&self, times: i64, longest: Option<Millis>) -> MeanLife {
        let begins = |time: i64| MIDNIGHT + (2 * time + 1) * DAY_MS / (2 * times);
        let population = &self.model.population;
        let lives = population
            .iter()
            .flat_map(|busy| (0..times).map(move |time| self.simulate_life(*busy, begins(time), longest)));
        let (calls, days) = lives.fold((0, 0), |(calls, days), life| (calls + life.0, days + life.1));
        let count = (population.len() as i64 * times) as f64;
        MeanLife { calls: calls as f64 / count, days: days as f64 / count }
    }

    /// Calls, and days with calls, of an item whose counts are `busy` times the average item's.
    fn simulate_life(&self, busy: f64, created_at: Millis, longest: Option<Millis>) -> (u64, u64) {
        let mut history = History { created_at: Some(created_at), ..History::default() };
        let (mut now, mut calls, mut days, mut last) = (created_at, 0, 0, None);
        while let Some(decision) = self.next(&history, now) {
            now += decision.delay.min(longest.unwrap_or(Millis::MAX)).max(1);
            let count = busy * self.model.curve.count((now - created_at) as f64 / 1e3);
            let (before, recent) = (history.last, decision.recent);
            history = History { before, last: Some(Answer { at: now, count }), recent, ..history };
            let day = now.div_euclid(DAY_MS);
            calls += 1;
            days += u64::from(last != Some(day));
            last = Some(day);
        }
        (calls, days)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::schedule::adaptive::Options;
    use crate::schedule::adaptive::model::Model;

    fn simulate_lives(table: &str, share: f64, longest: Option<Millis>) -> Option<MeanLife> {
        let options = Options { share, ..Options::default() };
        let model = Arc::new(Model::embedded().unwrap());
        Adaptive::new(table.parse().unwrap(), model, options, Normaliser::default()).simulate_lives(longest)
    }

    #[test]
    fn lives_have_the_calls_of_the_budget_on_fewer_days() {
        let table = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d";
        let [whole, half] = [1.0, 0.5].map(|share| simulate_lives(table, share, None).unwrap());
        assert!(
            (whole.calls / 81.0 - 1.0).abs() < 0.03 && (half.calls / 40.5 - 1.0).abs() < 0.03,
            "{whole:?} {half:?}"
        );
        assert!(whole.days < 29.0 && half.days < 0.8 * whole.days, "{whole:?} {half:?}");
        let checked = simulate_lives(table, 1.0, Some(DAY_MS)).unwrap();
        assert!(checked.days > 30.0 && checked.calls > whole.calls, "{checked:?}");
    }

    #[test]
    fn lives_of_too_many_calls_are_not_walked() {
        assert_eq!(simulate_lives("30d: 1s", 1.0, None), None);
        assert_eq!(simulate_lives("30d: 1d", 1.0, Some(1)), None);
    }
}
