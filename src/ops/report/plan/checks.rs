//! The cost of `store.longest_unchecked`: a plan with this limit minus the plan without it. Pure.

use serde::Serialize;

use super::reads::{ReadCost, format_dollars};
use crate::table::Table;
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
    /// `None` if the network does not charge.
    pub reads: Option<ReadCost>,
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
            reads_per_month: reads.map(|(with, without)| more(with.reads_per_month, without.reads_per_month)),
            dollars_per_month: reads.map(|(with, without)| more(with.dollars_per_month, without.dollars_per_month)),
        }
    }

    pub(super) fn add_to(&self, lines: &mut Table) {
        let mut note =
            format!("store.longest_unchecked adds {} calls per 15 min", format_number(self.calls_per_15_min));
        if let Some((reads, dollars)) = self.reads_per_month.zip(self.dollars_per_month) {
            note += &format!(", {} reads and ${} per month", format_number(reads.round()), format_dollars(dollars));
        }
        lines.figure("longest unchecked", span(self.longest_unchecked_ms), note);
    }
}
