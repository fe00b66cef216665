//! Model of an adaptive schedule: the result of training, stored in a file. Pure.
//!
//! The rate of an item at age u is λ̂(u) = level × g(u) × m, in events per second. g is the decay curve's rate, the same for all
//! items. The level is the activity of this population ([`Normaliser`](super::budget::Normaliser)). m is the item's own
//! multiplier:
//!
//! ```text
//! m  = exp(c0 + c1 ln m₁ + c2 ln s₁ + c3 ln s₂), held between `least` and `greatest`
//! m₁ = (N + 1) ÷ (N̄ + 1)                what its count says
//! s₁ = (ΔN + ½) ÷ (ΔN̄ m₁ + ½)           what its last increment says beyond that
//! s₂ = (R + ½) ÷ (R̄ m₁ + ½)             what its recent events say beyond that
//! ```
//!
//! N is the count, ΔN its last increment, R the recent events: each weighs (its age ÷ the age now)^`fade`. Bars are the average
//! item at the same ages, times level. The added 1 and ½ shrink evidence from few events. Coefficients belong to ages and are
//! interpolated in ln age.

use serde::{Deserialize, Serialize};

use super::curve::{BadCurve, Curve};
use crate::schedule::history::sane;

/// Inputs of the multiplier: a constant, the count, the last increment, the recent events.
pub const FEATURES: usize = 4;

/// Added to counts, events.
const COUNT_PRIOR: f64 = 1.0;
/// Added to increments, events.
const INCREMENT_PRIOR: f64 = 0.5;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Source of the cascades, for people.
    pub source: String,
    pub command: String,
    /// Exponent of the weight of recent events: the speed at which events become old news.
    pub fade: f64,
    /// Least multiplier: no item counts as quieter than this.
    pub least: f64,
    pub greatest: f64,
    /// Calls that the schedule made for the training items, as a multiple of those for average items.
    pub spend: f64,
    /// Events in the lives of the training items, quiet ones first, as multiples of the mean: one number per group, all groups of equal
    /// size. Empty: unknown.
    #[serde(default)]
    pub population: Vec<f64>,
    /// Ages of the coefficients, s, rising.
    pub age_s: Vec<f64>,
    /// Coefficients at those ages: c0 to c3.
    pub coefficients: Vec<[f64; FEATURES]>,
    pub curve: Curve,
    /// Recent events of the average item at the knots of the curve, computed [once](Self::with_derived_fields).
    #[serde(skip)]
    pub recent_at: Vec<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadModel {
    #[error("not a freshness model: {0}")]
    Shape(#[from] toml::de::Error),
    #[error("freshness model, [curve]: {0}")]
    Curve(#[from] BadCurve),
    #[error("freshness model: age_s must rise from above 0, with one row of finite coefficients for each")]
    Coefficients,
    #[error(
        "freshness model: fade, least, greatest and spend must be above 0, least <= 1 <= greatest, and the population 0 or more"
    )]
    Number,
}

/// Counts of an item at two ages, in seconds and weighted events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counts {
    /// Age at the answer before; 0 if there was none.
    pub before_s: f64,
    /// Count at that age; 0 if there was none.
    pub before: f64,
    pub last_s: f64,
    pub last: f64,
    /// Recent events as stored at the answer before; `None` if unknown.
    pub recent: Option<f64>,
}

impl Model {
    /// The built-in model, `models/freshness.toml`. A test reads it, so it cannot fail.
    pub fn embedded() -> Result<Self, BadModel> {
        Self::parse(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/freshness.toml")))
    }

    pub fn parse(text: &str) -> Result<Self, BadModel> {
        let model: Self = toml::from_str(text)?;
        model.check()?;
        Ok(model.with_derived_fields())
    }

    /// Fills in the fields that follow from the others.
    #[must_use]
    pub fn with_derived_fields(mut self) -> Self {
        let mut recent = vec![0.0];
        for (at, pair) in self.curve.age_s.windows(2).enumerate() {
            recent.push(self.curve.recent_after(at, recent[at], pair[1], self.fade));
        }
        self.recent_at = recent;
        self
    }

    #[must_use]
    pub fn average_recent(&self, age_s: f64) -> f64 {
        let at = self.curve.segment(age_s.max(0.0));
        self.recent_at.get(at).map_or(0.0, |recent| self.curve.recent_after(at, *recent, age_s.max(0.0), self.fade))
    }

    #[must_use]
    pub fn to_toml(&self) -> String {
        let head = "# Model of the adaptive schedule: decay curve and coefficients (crates/engine/src/schedule/adaptive/model.rs).";
        // Numbers, texts and lists of them can always be written as TOML.
        format!("{head}\n{}", toml::to_string(self).unwrap_or_default())
    }

    fn check(&self) -> Result<(), BadModel> {
        self.curve.check()?;
        let finite = self.coefficients.iter().flatten().all(|value| value.is_finite() && value.abs() < 50.0);
        let rises = self.age_s.windows(2).all(|pair| pair[0] < pair[1]);
        let positive = self.age_s.iter().all(|age| age.is_finite() && *age > 0.0);
        if self.age_s.is_empty() || self.age_s.len() != self.coefficients.len() || !finite || !rises || !positive {
            return Err(BadModel::Coefficients);
        }
        let is = |value: f64| value.is_finite() && value > 0.0;
        let population = self.population.iter().all(|events| events.is_finite() && *events >= 0.0);
        let numbers = is(self.fade) && is(self.spend) && is(self.least) && is(self.greatest) && population;
        if numbers && self.least <= 1.0 && self.greatest >= 1.0 { Ok(()) } else { Err(BadModel::Number) }
    }

    /// Positions of the two nearest ages, with weights that add up to 1.
    pub(super) fn weights(&self, age_s: f64) -> [(usize, f64); 2] {
        let at = self.age_s.partition_point(|knot| *knot <= age_s);
        if at == 0 || at == self.age_s.len() {
            return [(at.saturating_sub(1), 1.0), (at.saturating_sub(1), 0.0)];
        }
        let (low, high) = (self.age_s[at - 1], self.age_s[at]);
        let share = (age_s / low).ln() / (high / low).ln();
        [(at - 1, 1.0 - share), (at, share)]
    }

    /// Recent events at the last answer: the stored value fades, and the last increment is added. Without a stored value, events
    /// count as spread over time like the average item's.
    #[must_use]
    pub fn recent_events(&self, counts: &Counts) -> f64 {
        let (from, to) = (counts.before_s, counts.last_s);
        let (recent_from, recent_to) = (self.average_recent(from), self.average_recent(to));
        let typical = |count: f64, recent: f64, age_s: f64| {
            let all = self.curve.count(age_s);
            if all > 0.0 { sane(count) * recent / all } else { 0.0 }
        };
        if to <= from {
            return counts.recent.map_or_else(|| typical(counts.last, recent_to, to), sane);
        }
        // A count that fell: the events that were taken back are dropped.
        let before = counts.before.min(counts.last);
        let old = counts.recent.map_or_else(|| typical(before, recent_from, from), sane).min(sane(before));
        let scale = self.curve.scale_s;
        let fades = ((from + scale) / (to + scale)).powf(self.fade);
        let events = self.curve.events(from, to);
        // The share of their weight that events of this span have kept by its end.
        let kept = if events > 0.0 { ((recent_to - fades * recent_from) / events).clamp(0.0, 1.0) } else { 1.0 };
        old * fades + sane(counts.last - counts.before) * kept
    }

    /// Inputs of the multiplier, in a population of that level. `recent` comes from [`recent_events`](Self::recent_events).
    #[must_use]
    pub fn features(&self, counts: &Counts, recent: f64, level: f64) -> [f64; FEATURES] {
        let (from, to) = (counts.before_s, counts.last_s);
        let by_count = (sane(counts.last) + COUNT_PRIOR) / (level * self.curve.count(to) + COUNT_PRIOR);
        let beyond = |found: f64, average: f64| {
            ((sane(found) + INCREMENT_PRIOR) / (level * average.max(0.0) * by_count + INCREMENT_PRIOR)).ln()
        };
        let increment = beyond(counts.last - counts.before, self.curve.events(from, to));
        [1.0, by_count.ln(), increment, beyond(recent, self.average_recent(to))]
    }

    /// The item's rate as a multiple of the average item's at the same age.
    #[must_use]
    pub fn multiplier(&self, age_s: f64, features: &[f64; FEATURES]) -> f64 {
        let weighted = self.weights(age_s).into_iter().map(|(at, weight)| {
            let sum: f64 = self.coefficients[at].iter().zip(features).map(|(by, input)| by * input).sum();
            weight * sum
        });
        let multiplier = weighted.sum::<f64>().exp();
        if multiplier.is_nan() { 1.0 } else { multiplier.clamp(self.least, self.greatest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_comes_with_the_program_is_a_model() {
        let model = Model::embedded().unwrap();
        assert_eq!(Model::parse(&model.to_toml()).unwrap(), model);
    }

    #[test]
    fn broken_files_are_refused() {
        let good = Model::embedded().unwrap();
        let refused = |broken: Model| Model::parse(&broken.to_toml()).unwrap_err().to_string();
        assert!(refused(Model { fade: 0.0, ..good.clone() }).contains("fade"));
        assert!(refused(Model { least: 2.0, ..good.clone() }).contains("least"));
        assert!(refused(Model { population: vec![-1.0], ..good.clone() }).contains("population"));
        assert!(refused(Model { age_s: vec![], coefficients: vec![], ..good.clone() }).contains("age_s"));
        assert!(refused(Model { coefficients: vec![[f64::NAN; 4]], age_s: vec![1.0], ..good.clone() }).contains("row"));
        assert!(Model::parse("fade = 1").unwrap_err().to_string().starts_with("not a freshness model"));
    }

    #[test]
    fn recent_events_of_an_average_item_are_average() {
        let model = Model::embedded().unwrap();
        let (mut recent, mut before) = (None, (0.0, 0.0));
        for age in [50.0, 400.0, 1_000.0, 5_000.0, 40_000.0, 300_000.0] {
            let count = model.curve.count(age);
            let counts = Counts { before_s: before.0, before: before.1, last_s: age, last: count, recent };
            let now = model.recent_events(&counts);
            assert!((now / model.average_recent(age) - 1.0).abs() < 1e-6, "{age}");
            // Without a stored value the result is the same, since this item is average.
            assert!((model.recent_events(&Counts { recent: None, ..counts }) / now - 1.0).abs() < 1e-6);
            let features = model.features(&counts, now, 1.0);
            assert!(features[1..].iter().all(|input| input.abs() < 1e-6), "{features:?}");
            (recent, before) = (Some(now), (age, count));
        }
    }
}
