//! The followed accounts in the file.

use async_trait::async_trait;

use super::SqliteStore;
use super::forget::away_from;
use crate::base::clock::Millis;
use crate::store::followed::{self, FollowedAccount, Part, in_order};
use crate::store::rows::clean;
use crate::store::{FollowList, Result};

const FOLLOW: &str = "INSERT INTO visit (namespace, account, part, followed_at) \
     SELECT ?1, value ->> 0, value ->> 1, ?2 FROM json_each(?3) WHERE TRUE ON CONFLICT (namespace, account) DO UPDATE SET \
     part = excluded.part, followed_at = excluded.followed_at, left_at = NULL WHERE left_at IS NOT NULL";

const FOLLOWED: &str = "SELECT account, part FROM visit WHERE namespace = ?1 AND left_at IS NULL \
     AND account IN (SELECT value FROM json_each(?2))";

const LEAVE: &str = "UPDATE visit SET left_at = ?2 WHERE namespace = ?1 AND left_at IS NULL \
     AND account IN (SELECT value FROM json_each(?3)) RETURNING account, part";

const END: &str = "UPDATE tweet SET state = 'ended', next_due = NULL WHERE namespace = ?1 \
     AND id IN (SELECT value FROM json_each(?2)) AND state IN ('live', 'unavailable')";

fn json<'a>(accounts: impl Iterator<Item = &'a String>) -> String {
    serde_json::json!(accounts.map(|account| clean(account)).collect::<Vec<_>>()).to_string()
}

#[async_trait]
impl FollowList for SqliteStore {
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>> {
        let ids: Vec<String> = accounts.iter().map(|(account, _)| account.clone()).collect();
        let mut transaction = self.begin().await?;
        let away = away_from(&mut transaction, namespace, ids.iter().map(String::as_str)).await?;
        let kept = accounts.iter().filter(|(account, _)| !away.contains(account.as_str()));
        let given: Vec<_> = kept.map(|(account, part)| (clean(account), *part)).collect();
        let statement = sqlx::query(FOLLOW).bind(namespace).bind(at).bind(serde_json::json!(given).to_string());
        statement.execute(&mut *transaction).await?;
        let rows = sqlx::query_as(FOLLOWED).bind(namespace).bind(json(ids.iter())).fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        in_order(&ids, rows).into_iter().map(|part| part.ok_or_else(followed::kept_away)).collect()
    }

    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>> {
        let mut transaction = self.begin().await?;
        let leave = sqlx::query_as(LEAVE).bind(namespace).bind(at).bind(json(accounts.iter()));
        let left: Vec<(String, Part)> = leave.fetch_all(&mut *transaction).await?;
        for part in left.iter().map(|(_, part)| *part).collect::<std::collections::BTreeSet<_>>() {
            let of_part = left.iter().filter(|(_, of)| *of == part).map(|(account, _)| account);
            let end = sqlx::query(END).bind(followed::pipeline(namespace, part)).bind(json(of_part));
            end.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(left)
    }

    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>> {
        let rows = sqlx::query_as(FOLLOWED).bind(namespace).bind(json(accounts.iter())).fetch_all(self.readers());
        Ok(in_order(accounts, rows.await?))
    }

    async fn move_to(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()> {
        const MOVE: &str = "UPDATE visit SET part = ?2 WHERE namespace = ?1 AND left_at IS NULL \
             AND account IN (SELECT value FROM json_each(?3))";
        let mut transaction = self.begin().await?;
        let statement = sqlx::query(MOVE).bind(namespace).bind(part).bind(json(accounts.iter()));
        statement.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn end_visits(&self, namespace: &str, part: Part, account: &str) -> Result<()> {
        let mut transaction = self.begin().await?;
        let statement = sqlx::query(followed::END).bind(namespace).bind(part).bind(clean(account));
        statement.bind(followed::pipeline(namespace, part)).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>> {
        let page = sqlx::query_as(followed::PAGE).bind(namespace).bind(above).bind(limit);
        Ok(page.fetch_all(self.readers()).await?)
    }
}
