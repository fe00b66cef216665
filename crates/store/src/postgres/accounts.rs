use async_trait::async_trait;

use super::{PostgresStore, author_from_id, not_blocked, save_statement};
use crate::accounts::{self, account, account_columns, account_states, communities, signs_columns, state_after};
use crate::forget;
use crate::rows::{self, clean, number};
use crate::{
    AccountTotal, Accounts, Change, CountsAt, HandleBearer, Observation, Result, SaveCounts, ScheduleInputs, Sighting,
    StoredAccount, StoredHandle,
};
use engine::base::clock::Millis;
use engine::base::failpoint;
use networks::model::account::Account;

/// Saves posts, and the accounts whose rows in `tweet` it wrote. `$39` are the accounts' values, `$40` the name prefix
/// of the communities whose evidence quotes them. A repeated answer changes nothing, since the earlier save was one
/// statement, too. But another answer of the same time may lack the account, which is then inserted.
const SAVE: &str = save_statement!(
    ", accounts AS (INSERT INTO account (namespace, id, ",
    account_columns!(),
    ") SELECT $1, given.id, at, state, handle, display_name, description, location, url, picture, banner, protected, \
     verified, withheld_in, moved_to, followers, following, posts, listed, likes, last_post_at, last_post_at, forgotten_at \
     FROM json_to_recordset($39::json) AS given (id text, at bigint, state text, handle text, display_name text, \
     description text, location text, url text, picture text, banner text, protected boolean, verified boolean, \
     withheld_in text, moved_to text, followers bigint, following bigint, posts bigint, listed bigint, likes bigint, \
     last_post_at bigint, forgotten_at bigint) \
     WHERE given.id COLLATE \"C\" IN (SELECT id FROM written) OR given.at = (SELECT of.checked_at FROM tweet AS of \
     WHERE of.namespace = $1 AND of.id = given.id COLLATE \"C\" AND of.state <> 'dead') ORDER BY given.id COLLATE \"C\" \
     ON CONFLICT (namespace, id) DO UPDATE SET\n",
    state_after!(
        "$1",
        "account_change AS changed WHERE changed.namespace = account.namespace AND changed.id = account.id"
    ),
    include_str!("../sql/merge_account.sql"),
    "), former AS (DELETE FROM account_change WHERE namespace = $1 AND field <> 'state' AND id IN \
     (SELECT written.id FROM written JOIN UNNEST($2::text[], $16::text[]) AS given (id, raw) \
     ON given.id = written.id WHERE given.raw = '')), \
     evidence AS (UPDATE community_account SET evidence = NULL WHERE namespace = ANY(ARRAY(",
    communities!("$40"),
    ")) AND account = ANY(ARRAY(SELECT written.id FROM written JOIN UNNEST($2::text[], $16::text[]) AS given (id, raw) \
     ON given.id = written.id WHERE given.raw = '')))"
);

/// Each account is named once, in the order of the ids, so overlapping batches wait for each other and cannot deadlock.
/// An account that shows a post of a blocked person still counts as active.
const SEE: &str = concat!(
    "WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS post, \
     (value ->> 2)::bigint AS at FROM json_array_elements($2::json) AS given (value)), \
     seen AS (INSERT INTO account_post SELECT $1, given.id, post, at FROM given \
     JOIN tweet ON tweet.namespace = $1 AND tweet.id = given.id \
     WHERE ",
    not_blocked!(author_from_id!("post"), "$3"),
    " ORDER BY given.id COLLATE \"C\", post COLLATE \"C\" \
     ON CONFLICT DO NOTHING), \
     locked AS MATERIALIZED (SELECT account.id, newest.at FROM (SELECT id, MAX(at) AS at FROM given GROUP BY id) AS newest \
     JOIN account ON account.namespace = $1 AND account.id = newest.id \
     WHERE active_at IS NULL OR active_at < newest.at ORDER BY account.id FOR UPDATE OF account) \
     UPDATE account SET active_at = GREATEST(account.active_at, locked.at) FROM locked \
     WHERE account.namespace = $1 AND account.id = locked.id"
);

const SIGNS: &str = concat!(
    "SELECT ",
    signs_columns!("account_change AS changed WHERE changed.namespace = $1 AND changed.id = tweet.id"),
    " FROM tweet LEFT JOIN account ON account.namespace = tweet.namespace AND account.id = tweet.id \
     WHERE tweet.namespace = $1 AND tweet.id = ANY($2)"
);

const ACCOUNT: &str = account!("account ON account.namespace = tweet.namespace AND account.id = tweet.id");

const STATES: &str = account_states!("account ON account.namespace = tweet.namespace AND account.id = tweet.id");

/// In the order of the handles, so two calls with the same handles wait for each other.
const STORE_HANDLES: &str = "INSERT INTO account_handle AS of (namespace, handle, at) \
     SELECT $1, handle, $3 FROM UNNEST($2::text[]) AS given (handle) ORDER BY handle COLLATE \"C\" \
     ON CONFLICT (namespace, handle) DO UPDATE SET at = excluded.at, until = 0, reason = NULL WHERE of.reason IS NOT NULL";

const WAITING_OF: &str =
    "SELECT count(*) FROM account_handle WHERE namespace = $1 AND handle = ANY($2) AND reason IS NULL";

const CLAIM_HANDLES: &str = "UPDATE account_handle SET until = $3 WHERE namespace = $1 AND handle IN ( \
     SELECT handle FROM account_handle WHERE namespace = $1 AND reason IS NULL AND until <= $2 ORDER BY at, handle LIMIT $4 \
     FOR UPDATE SKIP LOCKED) RETURNING handle";

const REFUSE_HANDLES: &str = "UPDATE account_handle AS of SET reason = given.reason, at = $4, until = 0 \
     FROM UNNEST($2::text[], $3::text[]) AS given (handle, reason) WHERE of.namespace = $1 AND of.handle = given.handle COLLATE \"C\"";

const RESOLVED_HANDLES: &str = "DELETE FROM account_handle WHERE namespace = $1 AND handle = ANY($2)";

#[async_trait]
impl Accounts for PostgresStore {
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<SaveCounts> {
        if answers.is_empty() {
            return Ok(SaveCounts::default());
        }
        let lives: Vec<Observation> = answers.iter().map(|answer| answer.to_object(accounts::account_object)).collect();
        let (lives, (given, _)) = (rows::rows_to_save(&lives), accounts::encode_answers(answers));
        let communities = accounts::community_prefix_of_profiles(namespace);
        failpoint::point("before_commit"); // the statement is its own transaction
        let statement = || self.bind_rows(SAVE, namespace, &lives).bind(given.clone()).bind(communities.clone());
        let (written, repeated, changed): (i64, i64, i64) = self.row(statement).await?;
        let saved = number(written) + number(repeated);
        Ok(SaveCounts { saved, older: answers.len() as u64 - saved, changed: number(changed) })
    }

    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<()> {
        if sightings.is_empty() {
            return Ok(());
        }
        let given = accounts::encode_sightings(sightings);
        let people = || {
            self.account_pseudonyms(namespace, sightings.iter().filter_map(|seen| forget::author_from_id(&seen.post)))
        };
        let see = || sqlx::query(SEE).bind(namespace.to_owned()).bind(given.clone()).bind(people());
        let _: Vec<()> = self.rows(see).await?;
        Ok(())
    }

    async fn schedule_inputs(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<ScheduleInputs>>> {
        self.select_by_ids(SIGNS, namespace, ids).await
    }

    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>> {
        let statement = || sqlx::query(accounts::POST_TIMES).bind(namespace.to_owned()).bind(clean(id).into_owned());
        let times: Vec<(Millis,)> = self.rows(|| statement().bind(i64::from(limit))).await?;
        Ok(times.into_iter().map(|(at,)| at).collect())
    }

    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>> {
        let statement = || sqlx::query(accounts::NEWEST_POSTS).bind(namespace.to_owned()).bind(clean(id).into_owned());
        let posts: Vec<(String,)> = self.rows(|| statement().bind(i64::from(limit))).await?;
        Ok(posts.into_iter().map(|(post,)| post).collect())
    }

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>> {
        let statement = || sqlx::query(ACCOUNT).bind(namespace.to_owned()).bind(clean(id).into_owned());
        Ok(self.rows(statement).await?.pop())
    }

    async fn handle_bearers(&self, namespace: &str, handle: &str) -> Result<Vec<HandleBearer>> {
        self.rows(|| sqlx::query(accounts::HANDLE_BEARERS).bind(namespace.to_owned()).bind(clean(handle).into_owned()))
            .await
    }

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        self.rows(|| sqlx::query(accounts::CHANGES).bind(namespace.to_owned()).bind(clean(id).into_owned())).await
    }

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>> {
        self.rows(|| sqlx::query(accounts::COUNTS).bind(namespace.to_owned()).bind(clean(id).into_owned())).await
    }

    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>> {
        self.rows(|| sqlx::query(STATES).bind(namespace.to_owned())).await
    }

    async fn store_handles(&self, namespace: &str, handles: &[String], at: Millis, most: u32) -> Result<bool> {
        let given: Vec<String> = accounts::normalize_handles(handles).into_iter().collect();
        let (waiting,): (i64,) = self.row(|| sqlx::query(accounts::WAITING_HANDLES).bind(namespace.to_owned())).await?;
        if accounts::exceeds_handle_limit(waiting, given.len(), 0, most) {
            // Nearly full, so the number of new handles decides.
            let known = || sqlx::query(WAITING_OF).bind(namespace.to_owned()).bind(given.clone());
            let (known,): (i64,) = self.row(known).await?;
            if accounts::exceeds_handle_limit(waiting, given.len(), known, most) {
                return Ok(false);
            }
        }
        let keep = || sqlx::query(STORE_HANDLES).bind(namespace.to_owned()).bind(given.clone()).bind(at);
        let _: Vec<()> = self.rows(keep).await?;
        Ok(true)
    }

    async fn claim_handles(&self, namespace: &str, now: Millis, until: Millis, limit: u32) -> Result<Vec<String>> {
        let claim = || sqlx::query(CLAIM_HANDLES).bind(namespace.to_owned()).bind(now).bind(until);
        let rows: Vec<(String,)> = self.rows(|| claim().bind(i64::from(limit))).await?;
        Ok(rows.into_iter().map(|(handle,)| handle).collect())
    }

    async fn settle_handles(
        &self,
        namespace: &str,
        now: Millis,
        resolved: &[String],
        refused: &[(String, String)],
    ) -> Result<()> {
        let (refused, reasons): (Vec<String>, Vec<String>) =
            refused.iter().map(|(handle, reason)| (handle.clone(), clean(reason).into_owned())).unzip();
        let refuse =
            || sqlx::query(REFUSE_HANDLES).bind(namespace.to_owned()).bind(refused.clone()).bind(reasons.clone());
        let _: Vec<()> = self.rows(|| refuse().bind(now)).await?;
        let resolve = || sqlx::query(RESOLVED_HANDLES).bind(namespace.to_owned()).bind(resolved.to_vec());
        let _: Vec<()> = self.rows(resolve).await?;
        let old = || sqlx::query(accounts::FORGET_REFUSED).bind(namespace.to_owned());
        let _: Vec<()> = self.rows(|| old().bind(accounts::refusal_time_limit(now))).await?;
        Ok(())
    }

    async fn stored_handle(&self, namespace: &str, handle: &str) -> Result<Option<StoredHandle>> {
        let handle = clean(handle).to_ascii_lowercase();
        let kept = || sqlx::query(accounts::STORED_HANDLE).bind(namespace.to_owned()).bind(handle.clone());
        Ok(self.rows(kept).await?.pop())
    }
}
