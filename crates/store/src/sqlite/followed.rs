use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::forget::find_blocked;
use super::{SqliteStore, read, read_column, write};
use crate::followed::{self, FollowedAccount, Part, order_parts};
use crate::rows::clean;
use crate::{FollowList, Result};
use engine::base::clock::Millis;

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
    let left: Vec<(String, Part)> =
        read(&mut *connection, statement!("followed/unfollow.lite", namespace, at, json(accounts.iter()))).await?;
    for part in left.iter().map(|(_, part)| *part).collect::<BTreeSet<_>>() {
        let of_part = left.iter().filter(|(_, of)| *of == part).map(|(account, _)| account);
        let statement = statement!("followed/end_lives.lite", followed::part_namespace(namespace, part), json(of_part));
        write(&mut *connection, statement).await?;
    }
    Ok(left)
}

#[async_trait]
impl FollowList for SqliteStore {
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>> {
        let ids: Vec<String> = accounts.iter().map(|(account, _)| account.clone()).collect();
        let mut tx = self.begin().await?;
        let away = find_blocked(&mut tx, &self.keys, namespace, ids.iter().map(String::as_str)).await?;
        let kept = accounts.iter().filter(|(account, _)| !away.contains(account.as_str()));
        let given: Vec<_> = kept.map(|(account, part)| (clean(account), *part)).collect();
        let statement = statement!("followed/follow.lite", namespace, at, serde_json::json!(given).to_string());
        statement.execute(&mut *tx).await?;
        let rows = read(&mut *tx, statement!("followed/followed.lite", namespace, json(ids.iter()))).await?;
        tx.commit().await?;
        order_parts(&ids, rows).into_iter().map(|part| part.ok_or_else(followed::blocked_error)).collect()
    }

    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>> {
        let mut tx = self.begin().await?;
        let left = leave(&mut tx, namespace, at, accounts).await?;
        tx.commit().await?;
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
        let mut tx = self.begin().await?;
        let ids = accounts.iter().map(|(account, _)| account.as_str());
        let away = find_blocked(&mut tx, &self.keys, namespace, ids).await?;
        let kept = accounts.iter().filter(|(account, _)| !away.contains(account.as_str()));
        let mut given: Vec<_> = kept.map(|(account, part)| (clean(account), *part)).collect();
        let ids = serde_json::json!(given.iter().map(|(account, _)| account).collect::<Vec<_>>()).to_string();
        let statement = statement!("followed/mark_for_community.lite", namespace, community, ids, json(all.iter()));
        let ours: Vec<String> = read_column(&mut *tx, statement).await?;
        let marked: HashSet<&str> = ours.iter().map(String::as_str).collect();
        given.retain(|(account, _)| marked.contains(&**account));
        write(&mut *tx, statement!("followed/follow.lite", namespace, at, serde_json::json!(given).to_string()))
            .await?;
        tx.commit().await?;
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
        let mut tx = self.begin().await?;
        let statement =
            statement!("followed/marked_only_by_community.lite", community, json(accounts.iter()), json(all.iter()));
        let alone: Vec<String> = read_column(&mut *tx, statement).await?;
        leave(&mut tx, namespace, at, &alone).await?;
        Ok(tx.commit().await?)
    }

    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>> {
        let rows = read(self.readers(), statement!("followed/followed.lite", namespace, json(accounts.iter())));
        Ok(order_parts(accounts, rows.await?))
    }

    async fn move_to_part(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()> {
        self.write(statement!("followed/move_to_part.lite", namespace, part, json(accounts.iter()))).await
    }

    async fn end_visits(&self, namespace: &str, part: Part, account: &str) -> Result<()> {
        self.write(statement!(
            "followed/end_visits",
            namespace,
            part,
            clean(account),
            followed::part_namespace(namespace, part)
        ))
        .await
    }

    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>> {
        read(self.readers(), statement!("followed/page", namespace, above, limit)).await
    }
}
