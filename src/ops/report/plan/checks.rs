//! The cost of `store.longest_unchecked`: a plan with this limit minus the plan without it. Pure.

use std::fmt;

use serde::Serialize;

use super::format_dollars;
use engine::base::clock::Millis;
use engine::base::humanize::{format_number, span};

/// Additional calls and money because of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChecksPlan {
    pub longest_unchecked_ms: Millis,
    pub calls_per_15_min: f64,
    /// Charged reads; `None` if the network does not charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_month: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_month: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    pub calls_per_15_min: f64,
    /// Charged reads per month and their US dollars; `None` if the network does not charge.
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
        let (every, calls) = (span(self.longest_unchecked_ms), format_number(self.calls_per_15_min));
        write!(f, "{:<24}{every:>14}  store.longest_unchecked adds {calls} calls per 15 min", "longest unchecked")?;
        match self.reads_per_month.zip(self.dollars_per_month) {
            Some((reads, dollars)) => {
                write!(f, ", {} reads and ${} per month", format_number(reads.round()), format_dollars(dollars))
            }
            None => Ok(()),
        }
    }
}
