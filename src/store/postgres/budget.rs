//! Stores the corrections of adaptive schedules' budgets in PostgreSQL.

use async_trait::async_trait;

use super::PostgresStore;
use crate::base::clock::Millis;
use crate::store::budget::{LEARN, LEARNT};
use crate::store::{Budgets, Learnt, Result};

#[async_trait]
impl Budgets for PostgresStore {
    async fn learnt(&self, namespace: &str) -> Result<Option<Learnt>> {
        Ok(self.rows(|| sqlx::query(LEARNT).bind(namespace.to_owned())).await?.pop())
    }

    async fn learn(&self, namespace: &str, before: Option<Millis>, learnt: &Learnt) -> Result<bool> {
        let Learnt { at, price, level, calls, table_calls, events, average_events } = *learnt;
        let statement = || {
            let statement = sqlx::query(LEARN).bind(namespace.to_owned()).bind(at).bind(price).bind(level);
            statement.bind(calls).bind(table_calls).bind(events).bind(average_events).bind(before)
        };
        let written: Vec<(Millis,)> = self.rows(statement).await?;
        Ok(!written.is_empty())
    }
}
