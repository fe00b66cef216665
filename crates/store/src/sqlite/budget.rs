use async_trait::async_trait;

use super::{SqliteStore, read_first};
use crate::{BudgetCorrections, Budgets, Result};
use engine::base::clock::Millis;

#[async_trait]
impl Budgets for SqliteStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>> {
        read_first(self.readers(), statement!("budget/corrections", namespace)).await
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool> {
        let mut tx = self.begin().await?;
        let BudgetCorrections { at, price, level, calls, table_calls, events, average_events } = *learnt;
        let mut statement = statement!("budget/replace_corrections", namespace, at);
        for value in [price, level, calls, table_calls, events, average_events] {
            statement = statement.bind(value);
        }
        let is_learnt = statement.bind(before).fetch_optional(&mut *tx).await?.is_some();
        tx.commit().await?;
        Ok(is_learnt)
    }
}
