use async_trait::async_trait;

use super::PostgresStore;
use crate::{BudgetCorrections, Budgets, Result};
use engine::base::clock::Millis;

#[async_trait]
impl Budgets for PostgresStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>> {
        self.read_first(|| statement!("budget/corrections", namespace)).await
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool> {
        let BudgetCorrections { at, price, level, calls, table_calls, events, average_events } = *learnt;
        let replace = || {
            let replace = statement!("budget/replace_corrections", namespace, at, price, level, calls, table_calls);
            replace.bind(events).bind(average_events).bind(before)
        };
        Ok(self.read_first::<(Millis,)>(replace).await?.is_some())
    }
}
