//! Stores the corrections of adaptive schedules' budgets in SQLite.

use async_trait::async_trait;

use super::SqliteStore;
use crate::base::clock::Millis;
use crate::store::budget::{LEARN, LEARNT};
use crate::store::{Budgets, Learnt, Result};

#[async_trait]
impl Budgets for SqliteStore {
    async fn learnt(&self, namespace: &str) -> Result<Option<Learnt>> {
        Ok(sqlx::query_as(LEARNT).bind(namespace).fetch_optional(self.readers()).await?)
    }

    async fn learn(&self, namespace: &str, before: Option<Millis>, learnt: &Learnt) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let Learnt { at, price, level, calls, table_calls, events, average_events } = *learnt;
        let mut statement = sqlx::query(LEARN).bind(namespace).bind(at);
        for value in [price, level, calls, table_calls, events, average_events] {
            statement = statement.bind(value);
        }
        let is_learnt = statement.bind(before).fetch_optional(&mut *transaction).await?.is_some();
        transaction.commit().await?;
        Ok(is_learnt)
    }
}
