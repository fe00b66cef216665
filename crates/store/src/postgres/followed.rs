use async_trait::async_trait;

use super::{PostgresStore, not_blocked};
use crate::followed::{self, FollowedAccount, Part, order_parts};
use crate::rows::clean;
use crate::{FollowList, Result};
use engine::base::clock::Millis;

/// In the order of the ids, so two calls wait for each other and cannot deadlock.
const FOLLOW: &str = concat!(
    "WITH given AS (SELECT account, part FROM UNNEST($3::text[], $4::bigint[]) AS given (account, part) WHERE ",
    not_blocked!("account", "$5"),
    "), \
     written AS (INSERT INTO visit (namespace, account, part, followed_at) SELECT DISTINCT ON (account COLLATE \"C\") \
         $1, account, part, $2 FROM given ORDER BY account COLLATE \"C\" ON CONFLICT (namespace, account) DO UPDATE SET \
         part = CASE WHEN visit.left_at IS NULL THEN visit.part ELSE EXCLUDED.part END, \
         followed_at = CASE WHEN visit.left_at IS NULL THEN visit.followed_at ELSE EXCLUDED.followed_at END, \
         left_at = NULL RETURNING account, part) SELECT account, part FROM written"
);

const FOLLOWED: &str = "SELECT account, part FROM visit WHERE namespace = $1 AND left_at IS NULL AND account = ANY($2)";

/// Ends the lives in the pipelines of their parts; part 0 has the plain name.
macro_rules! unfollow {
    ($known:expr, $which:literal) => {
        concat!(
            "WITH ",
            $known,
            "gone AS (UPDATE visit SET left_at = $2 WHERE namespace = $1 AND left_at IS NULL AND account = ANY(",
            $which,
            ") RETURNING account, part), \
             ended AS (UPDATE tweet SET state = 'ended', next_due = NULL FROM gone WHERE tweet.id = gone.account \
             AND tweet.namespace = $1 || CASE WHEN gone.part = 0 THEN '' ELSE ':p' || gone.part END \
             AND tweet.state IN ('live', 'unavailable')) \
             SELECT account, part FROM gone"
        )
    };
}

const UNFOLLOW: &str = unfollow!("", "$3");

/// The marks of accounts in all communities, locked, so they include changes of concurrent calls.
macro_rules! known {
    () => {
        "known AS MATERIALIZED (SELECT namespace, account, follows FROM community_account WHERE namespace = ANY($5) \
         AND account = ANY($3) ORDER BY account, namespace FOR UPDATE), "
    };
}

/// Writes the row in `visit` here, so that concurrent follows of the account wait: there may be no row to lock.
const FOLLOW_FOR_COMMUNITY: &str = concat!(
    "WITH ",
    known!(),
    "given AS (SELECT account, part FROM UNNEST($3::text[], $6::bigint[]) AS given (account, part) \
         WHERE account IN (SELECT account FROM known WHERE namespace = $4) \
         AND ",
    not_blocked!("account", "$7"),
    "), \
     taken AS (INSERT INTO visit (namespace, account, part, followed_at) SELECT DISTINCT ON (account COLLATE \"C\") \
         $1, account, part, $2 FROM given ORDER BY account COLLATE \"C\" ON CONFLICT (namespace, account) DO UPDATE SET \
         part = EXCLUDED.part, followed_at = EXCLUDED.followed_at, left_at = NULL WHERE visit.left_at IS NOT NULL \
         RETURNING account), \
     ours AS (SELECT account FROM known GROUP BY account HAVING bool_or(namespace = $4) \
         AND (bool_or(follows = 1) OR account IN (SELECT account FROM taken))), \
     marked AS (UPDATE community_account SET follows = 1 WHERE namespace = $4 AND account = ANY(ARRAY(\
         SELECT account FROM known JOIN ours USING (account) WHERE namespace = $4 AND follows <> 1))) \
     SELECT account FROM ours"
);

const UNFOLLOW_FOR_COMMUNITY: &str = unfollow!(
    known!(),
    "ARRAY(SELECT account FROM known WHERE follows = 1 GROUP BY account HAVING bool_and(namespace = $4))"
);

fn cleaned<'a>(accounts: impl Iterator<Item = &'a String>) -> Vec<String> {
    accounts.map(|account| clean(account).into_owned()).collect()
}

#[async_trait]
impl FollowList for PostgresStore {
    async fn follow(&self, namespace: &str, at: Millis, accounts: &[(String, Part)]) -> Result<Vec<Part>> {
        let ids: Vec<String> = accounts.iter().map(|(account, _)| account.clone()).collect();
        let parts: Vec<Part> = accounts.iter().map(|(_, part)| *part).collect();
        let statement = || {
            let statement = sqlx::query(FOLLOW).bind(namespace.to_owned()).bind(at);
            statement
                .bind(cleaned(ids.iter()))
                .bind(parts.clone())
                .bind(self.account_pseudonyms(namespace, ids.iter().map(String::as_str)))
        };
        let rows: Vec<(String, Part)> = self.rows(statement).await?;
        order_parts(&ids, rows).into_iter().map(|part| part.ok_or_else(followed::blocked_error)).collect()
    }

    async fn unfollow(&self, namespace: &str, at: Millis, accounts: &[String]) -> Result<Vec<(String, Part)>> {
        let ids = cleaned(accounts.iter());
        self.rows(|| sqlx::query(UNFOLLOW).bind(namespace.to_owned()).bind(at).bind(ids.clone())).await
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
            let statement = sqlx::query(FOLLOW_FOR_COMMUNITY).bind(namespace.to_owned()).bind(at).bind(ids.clone());
            let statement = statement.bind(community.to_owned()).bind(all.to_vec()).bind(parts.clone());
            statement.bind(self.account_pseudonyms(namespace, ids.iter().map(String::as_str)))
        };
        let rows: Vec<(String,)> = self.rows(statement).await?;
        Ok(rows.into_iter().map(|(account,)| account).collect())
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
        let statement = || {
            let statement = sqlx::query(UNFOLLOW_FOR_COMMUNITY).bind(namespace.to_owned()).bind(at).bind(ids.clone());
            statement.bind(community.to_owned()).bind(all.to_vec())
        };
        let _: Vec<()> = self.rows(statement).await?;
        Ok(())
    }

    async fn followed(&self, namespace: &str, accounts: &[String]) -> Result<Vec<Option<Part>>> {
        let ids = cleaned(accounts.iter());
        let rows = self.rows(|| sqlx::query(FOLLOWED).bind(namespace.to_owned()).bind(ids.clone())).await?;
        Ok(order_parts(accounts, rows))
    }

    async fn move_to_part(&self, namespace: &str, part: Part, accounts: &[String]) -> Result<()> {
        const MOVE: &str = "UPDATE visit SET part = $2 WHERE namespace = $1 AND left_at IS NULL AND account = ANY($3)";
        let ids = cleaned(accounts.iter());
        let statement = || sqlx::query(MOVE).bind(namespace.to_owned()).bind(part).bind(ids.clone());
        let _: Vec<()> = self.rows(statement).await?;
        Ok(())
    }

    async fn end_visits(&self, namespace: &str, part: Part, account: &str) -> Result<()> {
        let statement = || {
            let statement = sqlx::query(followed::END).bind(namespace.to_owned()).bind(part);
            statement.bind(clean(account).into_owned()).bind(followed::part_namespace(namespace, part))
        };
        let _: Vec<()> = self.rows(statement).await?;
        Ok(())
    }

    async fn page_followed(&self, namespace: &str, above: &str, limit: u32) -> Result<Vec<FollowedAccount>> {
        let (namespace, above) = (namespace.to_owned(), above.to_owned());
        let page = || sqlx::query(followed::PAGE).bind(namespace.clone()).bind(above.clone()).bind(i64::from(limit));
        self.rows(page).await
    }
}
