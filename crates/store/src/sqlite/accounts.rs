use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::forget::find_blocked;
use super::{SqliteStore, json};
use crate::accounts::{self, account, account_columns, account_states, communities, signs_columns, state_after};
use crate::forget::author_from_id;
use crate::rows::clean;
use crate::{
    AccountTotal, Accounts, Change, CountsAt, HandleBearer, Observation, Result, SaveCounts, ScheduleInputs, Sighting,
    StoredAccount, StoredHandle,
};
use engine::base::clock::Millis;
use engine::base::failpoint;
use networks::model::account::Account;

/// Answers that the previous save accepted: their rows in `tweet` have that time.
const SAVE: &str = concat!(
    "WITH given AS MATERIALIZED (SELECT value FROM json_each(?2)) INSERT INTO account_row AS account (tweet, ",
    account_columns!(),
    ") SELECT tweet.key, value ->> 'at', value ->> 'state', value ->> 'handle', value ->> 'display_name', \
     value ->> 'description', value ->> 'location', value ->> 'url', value ->> 'picture', value ->> 'banner', \
     value ->> 'protected', value ->> 'verified', value ->> 'withheld_in', value ->> 'moved_to', value ->> 'followers', \
     value ->> 'following', value ->> 'posts', value ->> 'listed', value ->> 'likes', value ->> 'last_post_at', \
     value ->> 'last_post_at', value ->> 'forgotten_at' \
     FROM given JOIN tweet ON tweet.namespace = ?1 AND tweet.id = value ->> 'id' \
     WHERE tweet.checked_at = value ->> 'at' AND tweet.state <> 'dead' \
     ON CONFLICT (tweet) DO UPDATE SET\n",
    state_after!("?1", "account_change_row AS changed WHERE changed.tweet = account.tweet"),
    include_str!("../sql/merge_account.sql")
);

/// Changes, except of states, of accounts whose content was just removed.
const FORGET_CHANGES: &str = "DELETE FROM account_change_row WHERE field <> 'state' AND tweet IN (\
     SELECT tweet.key FROM tweet JOIN account_row ON account_row.tweet = tweet.key \
     WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)) AND forgotten_at IS NOT NULL)";

const FORGET_EVIDENCE: &str = concat!(
    "UPDATE community_account SET evidence = NULL WHERE namespace IN (",
    communities!("?3"),
    ") AND account IN (SELECT tweet.id FROM tweet JOIN account_row ON account_row.tweet = tweet.key \
     WHERE tweet.namespace = ?1 AND tweet.id IN (SELECT value FROM json_each(?2)) AND forgotten_at IS NOT NULL)"
);

/// CROSS JOIN makes SQLite look up each given row instead of scanning all accounts.
const SEE: &str = "WITH given AS MATERIALIZED (\
     SELECT value ->> 0 AS id, value ->> 1 AS post, value ->> 2 AS at FROM json_each(?2)) \
     INSERT INTO account_post_row SELECT tweet.key, given.post, given.at FROM given \
     CROSS JOIN tweet WHERE tweet.namespace = ?1 AND tweet.id = given.id ON CONFLICT DO NOTHING";

const SIGN_OF_LIFE: &str = "WITH given AS MATERIALIZED (\
     SELECT tweet.key, MAX(given.at) AS at FROM (SELECT value ->> 0 AS id, MAX(value ->> 2) AS at FROM json_each(?2) \
     GROUP BY 1) AS given CROSS JOIN tweet WHERE tweet.namespace = ?1 AND tweet.id = given.id GROUP BY tweet.key) \
     UPDATE account_row SET active_at = given.at FROM given \
     WHERE account_row.tweet = given.key AND (active_at IS NULL OR active_at < given.at)";

const SIGNS: &str = concat!(
    "SELECT ",
    signs_columns!("account_change_row WHERE account_change_row.tweet = tweet.key"),
    " FROM tweet LEFT JOIN account_row AS account ON account.tweet = tweet.key \
     WHERE tweet.namespace = ?1 AND tweet.id IN (SELECT value FROM json_each(?2))"
);

const ACCOUNT: &str = account!("account_row AS account ON account.tweet = tweet.key");

const STATES: &str = account_states!("account_row AS account ON account.tweet = tweet.key");

async fn save(tx: &mut SqliteConnection, namespace: &str, answers: &[Observation<Account>]) -> Result<()> {
    let (rows, forgotten) = accounts::encode_answers(answers);
    sqlx::query(SAVE).bind(namespace).bind(rows).execute(&mut *tx).await?;
    if !forgotten.is_empty() {
        let forgotten = json(forgotten.iter().map(|id| id.as_str().into()));
        sqlx::query(FORGET_CHANGES).bind(namespace).bind(&forgotten).execute(&mut *tx).await?;
        let evidence = sqlx::query(FORGET_EVIDENCE).bind(namespace).bind(&forgotten);
        evidence.bind(accounts::community_prefix_of_profiles(namespace)).execute(&mut *tx).await?;
    }
    Ok(())
}

const STORE_HANDLES: &str = "INSERT INTO account_handle AS of (namespace, handle, at) \
     SELECT ?1, value, ?3 FROM json_each(?2) WHERE TRUE \
     ON CONFLICT (namespace, handle) DO UPDATE SET at = excluded.at, until = 0, reason = NULL WHERE of.reason IS NOT NULL";

/// Number of given handles that wait already. CROSS JOIN makes SQLite look up each of them instead of scanning all
/// waiting ones.
const WAITING_OF: &str = "SELECT count(*) FROM json_each(?2) AS given CROSS JOIN account_handle AS of \
     WHERE of.namespace = ?1 AND of.handle = given.value AND of.reason IS NULL";

const CLAIM_HANDLES: &str = "UPDATE account_handle SET until = ?3 WHERE namespace = ?1 AND handle IN ( \
     SELECT handle FROM account_handle WHERE namespace = ?1 AND reason IS NULL AND until <= ?2 ORDER BY at, handle LIMIT ?4) \
     RETURNING handle";

const REFUSE_HANDLES: &str = "UPDATE account_handle AS of SET reason = value ->> 1, at = ?3, until = 0 FROM json_each(?2) \
     WHERE of.namespace = ?1 AND of.handle = value ->> 0";

const RESOLVED_HANDLES: &str =
    "DELETE FROM account_handle WHERE namespace = ?1 AND handle IN (SELECT value FROM json_each(?2))";

#[async_trait]
impl Accounts for SqliteStore {
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<SaveCounts> {
        if answers.is_empty() {
            return Ok(SaveCounts::default());
        }
        let lives: Vec<Observation> = answers.iter().map(|answer| answer.to_object(accounts::account_object)).collect();
        let of_lives = super::Answers::new(&lives);
        let mut transaction = self.begin().await?;
        let saved = super::save(&mut transaction, &self.keys, namespace, of_lives).await?;
        save(&mut transaction, namespace, answers).await?;
        failpoint::point("before_commit");
        transaction.commit().await?;
        Ok(saved)
    }

    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<()> {
        if sightings.is_empty() {
            return Ok(());
        }
        let given = accounts::encode_sightings(sightings);
        let mut transaction = self.begin().await?;
        let authors: Vec<&str> = sightings.iter().filter_map(|seen| author_from_id(&seen.post)).collect();
        let away = find_blocked(&mut transaction, &self.keys, namespace, authors).await?;
        let is_kept = |seen: &&Sighting| author_from_id(&seen.post).is_none_or(|author| !away.contains(author));
        // An account that shows a post of a blocked person still counts as active.
        let stored = (!away.is_empty()).then(|| sightings.iter().filter(is_kept).cloned().collect::<Vec<_>>());
        let stored = stored.map(|stored| accounts::encode_sightings(&stored));
        for (statement, given) in [(SEE, stored.as_ref().unwrap_or(&given)), (SIGN_OF_LIFE, &given)] {
            sqlx::query(statement).bind(namespace).bind(given).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    async fn schedule_inputs(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<ScheduleInputs>>> {
        self.select_by_ids(SIGNS, namespace, ids).await
    }

    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>> {
        let times = sqlx::query_scalar(accounts::POST_TIMES).bind(namespace).bind(clean(id)).bind(limit);
        Ok(times.fetch_all(self.readers()).await?)
    }

    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>> {
        let posts = sqlx::query_scalar(accounts::NEWEST_POSTS).bind(namespace).bind(clean(id)).bind(limit);
        Ok(posts.fetch_all(self.readers()).await?)
    }

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>> {
        Ok(sqlx::query_as(ACCOUNT).bind(namespace).bind(clean(id)).fetch_optional(self.readers()).await?)
    }

    async fn handle_bearers(&self, namespace: &str, handle: &str) -> Result<Vec<HandleBearer>> {
        Ok(sqlx::query_as(accounts::HANDLE_BEARERS)
            .bind(namespace)
            .bind(clean(handle))
            .fetch_all(self.readers())
            .await?)
    }

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        Ok(sqlx::query_as(accounts::CHANGES).bind(namespace).bind(clean(id)).fetch_all(self.readers()).await?)
    }

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>> {
        Ok(sqlx::query_as(accounts::COUNTS).bind(namespace).bind(clean(id)).fetch_all(self.readers()).await?)
    }

    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>> {
        Ok(sqlx::query_as(STATES).bind(namespace).fetch_all(self.readers()).await?)
    }

    async fn store_handles(&self, namespace: &str, handles: &[String], at: Millis, most: u32) -> Result<bool> {
        let given = accounts::normalize_handles(handles);
        let mut transaction = self.begin().await?;
        let waiting: i64 =
            sqlx::query_scalar(accounts::WAITING_HANDLES).bind(namespace).fetch_one(&mut *transaction).await?;
        let count = given.len();
        let given = json(given.into_iter().map(Into::into));
        if accounts::exceeds_handle_limit(waiting, count, 0, most) {
            // Nearly full, so the number of new handles decides.
            let known = sqlx::query_scalar(WAITING_OF).bind(namespace).bind(&given);
            let known: i64 = known.fetch_one(&mut *transaction).await?;
            if accounts::exceeds_handle_limit(waiting, count, known, most) {
                return Ok(false);
            }
        }
        sqlx::query(STORE_HANDLES).bind(namespace).bind(given).bind(at).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn claim_handles(&self, namespace: &str, now: Millis, until: Millis, limit: u32) -> Result<Vec<String>> {
        let mut transaction = self.begin().await?;
        let claim = sqlx::query_scalar(CLAIM_HANDLES).bind(namespace).bind(now).bind(until).bind(limit);
        let claimed = claim.fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(claimed)
    }

    async fn settle_handles(
        &self,
        namespace: &str,
        now: Millis,
        resolved: &[String],
        refused: &[(String, String)],
    ) -> Result<()> {
        let refused: Vec<(&str, _)> = refused.iter().map(|(handle, reason)| (&**handle, clean(reason))).collect();
        let (refused, resolved) = (serde_json::json!(refused).to_string(), serde_json::json!(resolved).to_string());
        let mut transaction = self.begin().await?;
        sqlx::query(REFUSE_HANDLES).bind(namespace).bind(refused).bind(now).execute(&mut *transaction).await?;
        sqlx::query(RESOLVED_HANDLES).bind(namespace).bind(resolved).execute(&mut *transaction).await?;
        let old = sqlx::query(accounts::FORGET_REFUSED).bind(namespace).bind(accounts::refusal_time_limit(now));
        old.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    async fn stored_handle(&self, namespace: &str, handle: &str) -> Result<Option<StoredHandle>> {
        let kept = sqlx::query_as(accounts::STORED_HANDLE).bind(namespace).bind(clean(handle).to_ascii_lowercase());
        Ok(kept.fetch_optional(self.readers()).await?)
    }
}
