use async_trait::async_trait;

use super::PostgresStore;
use crate::budget::{LEARN, LEARNT};
use crate::{BudgetCorrections, Budgets, Result};
use engine::base::clock::Millis;

#[async_trait]
impl Budgets for PostgresStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>> {
        Ok(self.rows(|| sqlx::query(LEARNT).bind(namespace.to_owned())).await?.pop())
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool> {
        let BudgetCorrections { at, price, level, calls, table_calls, events, average_events } = *learnt;
        let statement = || {
            let statement = sqlx::query(LEARN).bind(namespace.to_owned()).bind(at).bind(price).bind(level);
            statement.bind(calls).bind(table_calls).bind(events).bind(average_events).bind(before)
        };
        let written: Vec<(Millis,)> = self.rows(statement).await?;
        Ok(!written.is_empty())
    }
}
