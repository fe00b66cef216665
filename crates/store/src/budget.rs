use async_trait::async_trait;

use super::Result;
use engine::base::clock::Millis;

/// Corrections of a budget, and the queue's counts from which the next day is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct BudgetCorrections {
    /// Time of the last correction, ms since the epoch.
    #[sqlx(rename = "corrected_at")]
    pub at: Millis,
    /// Factor on the price of a call.
    pub price: f64,
    /// Events of the average item, as a multiple of the model's.
    pub level: f64,
    /// The queue's count at that time: demanded calls.
    pub calls: f64,
    /// Calls that the age table would have made.
    pub table_calls: f64,
    pub events: f64,
    pub average_events: f64,
}

/// Stored corrections, for use after a restart. Errors are those of [`Lifecycle`](super::Lifecycle).
#[async_trait]
pub trait Budgets: Send + Sync + std::fmt::Debug {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>>;

    /// Replaces the corrections if they are still those made at `before` (`None`: none); returns true if it did. Of
    /// several processes that correct at once, one succeeds.
    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool>;
}
