//! Coefficients: the result of training over all items. They are built in, or come from the operator's own data.
//! Pure.

use serde::{Deserialize, Serialize};

use super::rhythm::SPANS;

/// Inputs of the forecast: the rates of recent events, one per span of [`SPANS`], and the average rate of all items.
pub const INPUTS: usize = SPANS.len() + 1;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// Source of the events, for people.
    pub source: String,
    pub command: String,
    /// Events per item and second.
    pub rate_per_s: f64,
    /// Mean of √rate for the budget, s^-½: at a price μ an item is visited every √(2μ) ÷ this on average.
    pub root: f64,
    /// Number of events from which an item's own hours count as much as those of all items.
    pub pull: f64,
    /// Share of an hour's events that counts for each of the two hours beside it.
    pub smooth: f64,
    /// Activity of all items by the hour of the day (UTC), as a multiple of the day's mean.
    pub profile: [f64; 24],
    /// Times since the last visit from which the weights hold, s, rising from 0.
    pub lags_s: Vec<f64>,
    /// Weights of the inputs from those times on.
    pub weights: Vec<[f64; INPUTS]>,
    /// Events per day of the items, in even steps from the quietest to the busiest.
    pub ranks_per_day: Vec<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadCoefficients {
    #[error("not coefficients of visits: {0}")]
    Shape(#[from] toml::de::Error),
    #[error("coefficients of visits: {0}")]
    Number(&'static str),
}

impl Coefficients {
    /// The built-in coefficients, `models/visits.toml`. A test reads them, so this cannot fail.
    pub fn embedded() -> Result<Self, BadCoefficients> {
        Self::parse(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/visits.toml")))
    }

    pub fn parse(text: &str) -> Result<Self, BadCoefficients> {
        let read: Self = toml::from_str(text)?;
        read.check().map_or(Ok(read), |mistake| Err(BadCoefficients::Number(mistake)))
    }

    #[must_use]
    pub fn to_toml(&self) -> String {
        let head = "# Coefficients of the visiting policies (crates/engine/src/schedule/visits/coefficients.rs).";
        // Numbers, texts and lists of them can always be written as TOML.
        format!("{head}\n{}", toml::to_string(self).unwrap_or_default())
    }

    fn check(&self) -> Option<&'static str> {
        let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
        let is_weight = |value: &f64| value.is_finite() && *value >= 0.0;
        let rises = |values: &[f64]| values.windows(2).all(|pair| pair[0] < pair[1]);
        let of_everybody = |weights: &[f64; INPUTS]| weights[INPUTS - 1] > 0.0;
        if ![self.rate_per_s, self.root, self.pull].iter().all(is_positive) {
            Some("rate_per_s, root and pull must be above 0")
        } else if !(0.0..=0.5).contains(&self.smooth) {
            Some("smooth must be 0 to 0.5")
        } else if !self.profile.iter().all(is_positive) {
            Some("profile must have 24 numbers above 0")
        } else if self.lags_s.first() != Some(&0.0) || !rises(&self.lags_s) || self.lags_s.len() != self.weights.len() {
            Some("lags_s must rise from 0, with one row of weights for each")
        } else if !self.weights.iter().flatten().all(is_weight) || !self.weights.iter().all(of_everybody) {
            Some("weights must be finite and not negative, the last of a row above 0")
        } else if self.ranks_per_day.len() < 2
            || !self.ranks_per_day.iter().all(is_weight)
            || self.ranks_per_day.windows(2).any(|pair| pair[0] > pair[1])
        {
            Some("ranks_per_day must have two numbers at least, none negative, none below the one before")
        } else {
            None
        }
    }

    /// Share of the items that have fewer events per day, 0 to 1.
    #[must_use]
    pub fn rank(&self, per_day: f64) -> f64 {
        let ranks = &self.ranks_per_day;
        let last = ranks.len().saturating_sub(1).max(1) as f64;
        let at = ranks.partition_point(|rank| *rank <= per_day);
        let Some((low, high)) = at.checked_sub(1).and_then(|low| Some((ranks.get(low)?, ranks.get(at)?))) else {
            return if at == 0 { 0.0 } else { 1.0 };
        };
        ((at - 1) as f64 + (per_day - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, last) / last
    }

    /// The weights at that time since the last visit, s.
    pub(super) fn weights_after(&self, lag_s: f64) -> &[f64; INPUTS] {
        let at = self.lags_s.partition_point(|lag| *lag <= lag_s).saturating_sub(1);
        &self.weights[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_comes_with_the_program_is_sound() {
        let read = Coefficients::embedded().unwrap();
        assert_eq!(Coefficients::parse(&read.to_toml()).unwrap(), read);
    }

    #[test]
    fn broken_files_are_refused() {
        let good = Coefficients::embedded().unwrap();
        let refused = |broken: Coefficients| Coefficients::parse(&broken.to_toml()).unwrap_err().to_string();
        assert!(refused(Coefficients { root: 0.0, ..good.clone() }).contains("root"));
        assert!(refused(Coefficients { smooth: 0.7, ..good.clone() }).contains("smooth"));
        assert!(refused(Coefficients { profile: [0.0; 24], ..good.clone() }).contains("24 numbers"));
        assert!(refused(Coefficients { lags_s: vec![1.0], ..good.clone() }).contains("rise from 0"));
        assert!(
            refused(Coefficients { weights: vec![[-1.0; INPUTS]; good.lags_s.len()], ..good.clone() })
                .contains("weights")
        );
        assert!(refused(Coefficients { ranks_per_day: vec![2.0, 1.0], ..good.clone() }).contains("ranks_per_day"));
        assert!(Coefficients::parse("root = 1").unwrap_err().to_string().starts_with("not coefficients of visits"));
    }

    #[test]
    fn ranks_are_shares_of_the_items_that_are_quieter() {
        let ranks = Coefficients { ranks_per_day: vec![0.0, 0.0, 1.0, 4.0, 20.0], ..Coefficients::embedded().unwrap() };
        let of = [-1.0, 0.0, 0.5, 1.0, 2.5, 20.0, 1e9, f64::NAN].map(|per_day| ranks.rank(per_day));
        assert_eq!(of, [0.0, 0.25, 0.375, 0.5, 0.625, 1.0, 1.0, 0.0]);
    }
}
