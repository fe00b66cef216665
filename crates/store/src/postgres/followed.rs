use async_trait::async_trait;

use super::PostgresStore;
use crate::followed::{self, FollowedAccount, Part, order_parts};
use crate::rows::clean;
use crate::{FollowList, Result};
use engine::base::clock::Millis;

fn cleaned<'a>(accounts: impl Iterator<Item = &'a String>) -> Vec<String> {
    accounts.map(|account| clean(account).into_owned()).collect()
}

#[async_trait]
impl FollowList for PostgresStore {
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>> {
        let ids: Vec<String> = accounts.iter().map(|(account, _)| account.clone()).collect();
        let parts: Vec<Part> = accounts.iter().map(|(_, part)| *part).collect();
        let people = || self.account_pseudonyms(namespace, ids.iter().map(String::as_str));
        let follow = || statement!("followed/follow.pg", namespace, at, cleaned(ids.iter()), &parts, people());
        let rows: Vec<(String, Part)> = self.read(follow).await?;
        order_parts(&ids, rows).into_iter().map(|part| part.ok_or_else(followed::blocked_error)).collect()
    }

    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>> {
        let ids = cleaned(accounts.iter());
        self.read(|| statement!("followed/unfollow.pg", namespace, at, &ids)).await
    }

    async fn follow_for_community(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[(String, Part)],
        community: &str,
        all: &[String],
    ) -> Result<Vec<String>> {
        let ids = cleaned(accounts.iter().map(|(account, _)| account));
        let parts: Vec<Part> = accounts.iter().map(|(_, part)| *part).collect();
        let statement = || {
            let statement = statement!("followed/follow_for_community.pg", namespace, at, &ids, community, all, &parts);
            statement.bind(self.account_pseudonyms(namespace, ids.iter().map(String::as_str)))
        };
        self.read_column(statement).await
    }

    async fn unfollow_for_community(
        &self,
        namespace: &str,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<()> {
        let ids = cleaned(accounts.iter());
        self.write(|| statement!("followed/unfollow_for_community.pg", namespace, at, &ids, community, all)).await
    }

    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>> {
        let ids = cleaned(accounts.iter());
        let rows = self.read(|| statement!("followed/followed.pg", namespace, &ids)).await?;
        Ok(order_parts(accounts, rows))
    }

    async fn move_to_part(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()> {
        let ids = cleaned(accounts.iter());
        self.write(|| statement!("followed/move_to_part.pg", namespace, part, &ids)).await
    }

    async fn end_visits(&self, namespace: &str, part: Part, account: &str) -> Result<()> {
        let part_namespace = followed::part_namespace(namespace, part);
        self.write(|| statement!("followed/end_visits", namespace, part, clean(account), &part_namespace)).await
    }

    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>> {
        self.read(|| statement!("followed/page", namespace, above, i64::from(limit))).await
    }
}
