use async_trait::async_trait;

use super::SqliteStore;
use crate::budget::{LEARN, LEARNT};
use crate::{BudgetCorrections, Budgets, Result};
use engine::base::clock::Millis;

#[async_trait]
impl Budgets for SqliteStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>> {
        Ok(sqlx::query_as(LEARNT).bind(namespace).fetch_optional(self.readers()).await?)
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let BudgetCorrections { at, price, level, calls, table_calls, events, average_events } = *learnt;
        let mut statement = sqlx::query(LEARN).bind(namespace).bind(at);
        for value in [price, level, calls, table_calls, events, average_events] {
            statement = statement.bind(value);
        }
        let is_learnt = statement.bind(before).fetch_optional(&mut *transaction).await?.is_some();
        transaction.commit().await?;
        Ok(is_learnt)
    }
}
