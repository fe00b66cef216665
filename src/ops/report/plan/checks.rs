//! The cost of `store.longest_unchecked`: a plan with the bound, minus the plan without it. Pure.

use std::fmt;

use serde::Serialize;

use super::money;
use crate::base::clock::Millis;
use crate::base::humanize::{figure, span};

/// Calls and money that only the bound causes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChecksPlan {
    pub longest_unchecked_ms: Millis,
    /// Additional requests per window of the rate limits.
    pub calls_per_15_min: f64,
    /// Additional charged reads per month, if the network charges for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_month: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_month: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    pub calls_per_15_min: f64,
    /// Reads per month and US dollars for them, if the network charges for them.
    pub reads: Option<(f64, f64)>,
}

impl ChecksPlan {
    #[must_use]
    pub fn new(longest_unchecked_ms: Millis, with: Costs, without: Costs) -> Self {
        // A shorter interval fills requests better, which can round to a saving: a saving is not shown.
        let more = |with: f64, without: f64| (with - without).max(0.0);
        let reads = with.reads.zip(without.reads);
        Self {
            longest_unchecked_ms,
            calls_per_15_min: more(with.calls_per_15_min, without.calls_per_15_min),
            reads_per_month: reads.map(|(with, without)| more(with.0, without.0)),
            dollars_per_month: reads.map(|(with, without)| more(with.1, without.1)),
        }
    }
}

impl fmt::Display for ChecksPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (every, calls) = (span(self.longest_unchecked_ms), figure(self.calls_per_15_min));
        write!(f, "{:<24}{every:>14}  store.longest_unchecked adds {calls} calls per 15 min", "longest unchecked")?;
        match self.reads_per_month.zip(self.dollars_per_month) {
            Some((reads, dollars)) => write!(f, ", {} reads and ${} per month", figure(reads.round()), money(dollars)),
            None => Ok(()),
        }
    }
}
