//! The calls and charged reads of the adaptive schedule. Pure.

use serde::Serialize;

use super::fill::{DAY_S, WINDOW_S};
use super::reads::{ReadCost, ReadTerms, format_dollars};
use crate::table::Table;
use engine::base::humanize::format_number;
use engine::schedule::adaptive::lives::MeanLife;

/// Updates and cost of the adaptive schedule with a corrected price, for posts like those of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdaptivePlan {
    pub updates_per_tweet: f64,
    pub updates_per_15_min: f64,
    /// UTC days in which a tweet is read. Each is charged once. `None` if the provider does not charge for reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_per_tweet: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_month: Option<f64>,
}

impl AdaptivePlan {
    #[must_use]
    pub fn new(lives: MeanLife, tweets_per_day: f64, terms: Option<&ReadTerms>) -> Self {
        let dollars = |terms| ReadCost::new(lives.days * tweets_per_day, terms).dollars_per_month;
        Self {
            updates_per_tweet: lives.calls,
            updates_per_15_min: lives.calls * tweets_per_day * WINDOW_S / DAY_S,
            reads_per_tweet: terms.map(|_| lives.days),
            dollars_per_month: terms.map(dollars),
        }
    }

    pub(super) fn add_to(&self, lines: &mut Table) {
        let [updates, demand] = [self.updates_per_tweet, self.updates_per_15_min].map(format_number);
        lines.figure("adaptive: updates", updates, "per tweet, of posts like those of the model");
        lines.figure("adaptive: per 15 min", demand, "updates of all tweets");
        if let Some((reads, dollars)) = self.reads_per_tweet.zip(self.dollars_per_month) {
            let note = "per tweet: UTC days with an update, without x.same_day";
            lines.figure("adaptive: reads", format_number(reads), note);
            lines.figure("adaptive: cost, $", format_dollars(dollars), "per month");
        }
    }
}
