use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::SqliteStore;
use super::forget::find_blocked;
use crate::followed::{self, FollowedAccount, Part, order_parts};
use crate::rows::clean;
use crate::{FollowList, Result};
use engine::base::clock::Millis;

const FOLLOW: &str = "INSERT INTO visit (namespace, account, part, followed_at) \
     SELECT ?1, value ->> 0, value ->> 1, ?2 FROM json_each(?3) WHERE TRUE ON CONFLICT (namespace, account) DO UPDATE SET \
     part = excluded.part, followed_at = excluded.followed_at, left_at = NULL WHERE left_at IS NOT NULL";

const FOLLOWED: &str = "SELECT account, part FROM visit WHERE namespace = ?1 AND left_at IS NULL \
     AND account IN (SELECT value FROM json_each(?2))";

const LEAVE: &str = "UPDATE visit SET left_at = ?2 WHERE namespace = ?1 AND left_at IS NULL \
     AND account IN (SELECT value FROM json_each(?3)) RETURNING account, part";

const END: &str = "UPDATE tweet SET state = 'ended', next_due = NULL WHERE namespace = ?1 \
     AND id IN (SELECT value FROM json_each(?2)) AND state IN ('live', 'unavailable')";

/// Marks accounts to follow for a community: see [`FollowList::follow_for_community`].
const MARK: &str = "UPDATE community_account SET follows = 1 WHERE namespace = ?2 \
     AND account IN (SELECT value FROM json_each(?3)) AND (NOT EXISTS (SELECT 1 FROM visit WHERE visit.namespace = ?1 \
     AND visit.account = community_account.account AND visit.left_at IS NULL) \
     OR EXISTS (SELECT 1 FROM community_account AS other WHERE other.namespace IN (SELECT value FROM json_each(?4)) \
     AND other.account = community_account.account AND other.follows = 1)) RETURNING account";

const MARKED_ALONE: &str = "SELECT account FROM community_account WHERE namespace IN (SELECT value FROM json_each(?3)) \
     AND account IN (SELECT value FROM json_each(?2)) AND follows = 1 GROUP BY account HAVING min(namespace = ?1)";

fn json<'a>(accounts: impl Iterator<Item = &'a String>) -> String {
    serde_json::json!(accounts.map(|account| clean(account)).collect::<Vec<_>>()).to_string()
}

/// Unfollows accounts and ends their lives; returns those that were followed.
async fn leave(
    connection: &mut SqliteConnection,
    namespace: &str,
    at: Millis,
    accounts: &[String],
) -> Result<Vec<(String, Part)>> {
    let leave = sqlx::query_as(LEAVE).bind(namespace).bind(at).bind(json(accounts.iter()));
    let left: Vec<(String, Part)> = leave.fetch_all(&mut *connection).await?;
    for part in left.iter().map(|(_, part)| *part).collect::<BTreeSet<_>>() {
        let of_part = left.iter().filter(|(_, of)| *of == part).map(|(account, _)| account);
        let end = sqlx::query(END).bind(followed::part_namespace(namespace, part)).bind(json(of_part));
        end.execute(&mut *connection).await?;
    }
    Ok(left)
}

#[async_trait]
impl FollowList for SqliteStore {
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>> {
        let ids: Vec<String> = accounts.iter().map(|(account, _)| account.clone()).collect();
        let mut transaction = self.begin().await?;
        let away = find_blocked(&mut transaction, &self.keys, namespace, ids.iter().map(String::as_str)).await?;
        let kept = accounts.iter().filter(|(account, _)| !away.contains(account.as_str()));
        let given: Vec<_> = kept.map(|(account, part)| (clean(account), *part)).collect();
        let statement = sqlx::query(FOLLOW).bind(namespace).bind(at).bind(serde_json::json!(given).to_string());
        statement.execute(&mut *transaction).await?;
        let rows = sqlx::query_as(FOLLOWED).bind(namespace).bind(json(ids.iter())).fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        order_parts(&ids, rows).into_iter().map(|part| part.ok_or_else(followed::blocked_error)).collect()
    }

    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>> {
        let mut transaction = self.begin().await?;
        let left = leave(&mut transaction, namespace, at, accounts).await?;
        transaction.commit().await?;
        Ok(left)
    }

    async fn follow_for_community(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[(String, Part)],
        community: &str,
        all: &[String],
    ) -> Result<Vec<String>> {
        let mut transaction = self.begin().await?;
        let ids = accounts.iter().map(|(account, _)| account.as_str());
        let away = find_blocked(&mut transaction, &self.keys, namespace, ids).await?;
        let kept = accounts.iter().filter(|(account, _)| !away.contains(account.as_str()));
        let mut given: Vec<_> = kept.map(|(account, part)| (clean(account), *part)).collect();
        let ids: Vec<_> = given.iter().map(|(account, _)| account).collect();
        let mark = sqlx::query_scalar(MARK).bind(namespace).bind(community).bind(serde_json::json!(ids).to_string());
        let ours: Vec<String> = mark.bind(json(all.iter())).fetch_all(&mut *transaction).await?;
        let marked: HashSet<&str> = ours.iter().map(String::as_str).collect();
        given.retain(|(account, _)| marked.contains(&**account));
        let statement = sqlx::query(FOLLOW).bind(namespace).bind(at).bind(serde_json::json!(given).to_string());
        statement.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(ours)
    }

    async fn unfollow_for_community(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<()> {
        let mut transaction = self.begin().await?;
        let alone = sqlx::query_scalar(MARKED_ALONE).bind(community).bind(json(accounts.iter())).bind(json(all.iter()));
        let alone: Vec<String> = alone.fetch_all(&mut *transaction).await?;
        leave(&mut transaction, namespace, at, &alone).await?;
        Ok(transaction.commit().await?)
    }

    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>> {
        let rows = sqlx::query_as(FOLLOWED).bind(namespace).bind(json(accounts.iter())).fetch_all(self.readers());
        Ok(order_parts(accounts, rows.await?))
    }

    async fn move_to_part(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()> {
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
        statement.bind(followed::part_namespace(namespace, part)).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>> {
        let page = sqlx::query_as(followed::PAGE).bind(namespace).bind(above).bind(limit);
        Ok(page.fetch_all(self.readers()).await?)
    }
}
