//! The calls and charged reads of the adaptive schedule. Pure.

use std::fmt;

use serde::Serialize;

use super::{DAY_S, MONTH_DAYS, ReadTerms, WINDOW_S, format_dollars};
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
        let dollars = |terms: &ReadTerms| lives.days * tweets_per_day * MONTH_DAYS * terms.price_per_read;
        Self {
            updates_per_tweet: lives.calls,
            updates_per_15_min: lives.calls * tweets_per_day * WINDOW_S / DAY_S,
            reads_per_tweet: terms.map(|_| lives.days),
            dollars_per_month: terms.map(dollars),
        }
    }
}

impl fmt::Display for AdaptivePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: String, note: &str| writeln!(f, "{name:<24}{value:>14}  {note}");
        line(
            "adaptive: updates",
            format_number(self.updates_per_tweet),
            "per tweet, of posts like those of the model",
        )?;
        line("adaptive: per 15 min", format_number(self.updates_per_15_min), "updates of all tweets")?;
        if let Some((reads, dollars)) = self.reads_per_tweet.zip(self.dollars_per_month) {
            line("adaptive: reads", format_number(reads), "per tweet: UTC days with an update, without x.same_day")?;
            line("adaptive: cost, $", format_dollars(dollars), "per month")?;
        }
        Ok(())
    }
}
