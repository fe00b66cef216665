//! Accounts: what answers say of them, beside the life that every item has.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Serialize;

use super::{Change, Object, Observation, Result, Saved, Seen};
use crate::base::clock::Millis;
use crate::model::account::{Absence, Account, AccountCounts, AccountState};
use crate::model::post::TweetState;
use crate::store::rows::clean;

/// A post that was found, and the account that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The id of the account.
    pub account: String,
    /// The id of the post.
    pub post: String,
    /// When the post was made, or else found, ms since the epoch.
    pub at: Millis,
}

/// The stored data of an account by which its next lookup is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct Signs {
    /// When its newest answer was given, ms since the epoch; `None` before the first.
    pub checked_at: Option<Millis>,
    /// When it is due again, ms since the epoch.
    pub next_due: Option<Millis>,
    /// The state of its life in the pipeline.
    pub state: TweetState,
    /// When it was recorded, ms since the epoch.
    pub first_seen: Millis,
    /// Newest known sign of life: a post, or a greater number of posts, ms since the epoch.
    pub active_at: Option<Millis>,
    /// When a field of its profile, or its state, last changed, ms since the epoch.
    pub changed_at: Option<Millis>,
    /// Its counts, as its answers state them.
    #[sqlx(flatten)]
    pub counts: AccountCounts,
    /// [`Observation::recent`] of the newest answer that found it.
    pub recent: Option<f64>,
    /// Misses in a row: the counts are older than the newest answer, where there are any.
    pub misses: i64,
}

/// A stored account, whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, sqlx_macros::FromRow)]
pub struct StoredAccount {
    /// Its id.
    pub id: String,
    /// Its state, as the network tells it: `live`, `protected`, `suspended`, `deactivated`, `deleted` or `unknown`.
    pub state: String,
    /// The handle, without `@`.
    pub handle: Option<String>,
    /// The name that is shown.
    pub display_name: Option<String>,
    /// The owner's description.
    pub description: Option<String>,
    /// Where the owner says to be.
    pub location: Option<String>,
    /// The address in the profile.
    pub url: Option<String>,
    /// The address of the picture.
    pub picture: Option<String>,
    /// The address of the banner.
    pub banner: Option<String>,
    /// True if the owner approves followers.
    pub protected: Option<bool>,
    /// True if the network vouches for it.
    pub verified: Option<bool>,
    /// Countries in which it is withheld, comma separated.
    pub withheld_in: Option<String>,
    /// The id of the account that its owner moved to.
    pub moved_to: Option<String>,
    /// Its counts.
    #[serde(flatten)]
    #[sqlx(flatten)]
    pub counts: AccountCounts,
    /// When it was made, ms since the epoch.
    pub created_at: Option<Millis>,
    /// When it last posted, as the newest answer says, ms since the epoch.
    pub last_post_at: Option<Millis>,
    /// Newest known sign of life, ms since the epoch.
    pub active_at: Option<Millis>,
    /// When its content was removed, ms since the epoch.
    pub forgotten_at: Option<Millis>,
    /// Posts of it that were collected.
    pub collected: i64,
    /// When it was recorded, ms since the epoch.
    pub first_seen: Millis,
    /// When the newest answer about it was given, ms since the epoch.
    pub checked_at: Option<Millis>,
    /// When it is due again, ms since the epoch.
    pub next_due: Option<Millis>,
    /// Answers stored about it.
    pub lookups: i64,
    /// Misses in a row.
    pub misses: i64,
    /// Since when it is not returned, ms since the epoch.
    pub missing_since: Option<Millis>,
    /// The newest object as the network sent it.
    pub raw: Option<String>,
}

/// The counts of an account from `checked_at` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct CountsAt {
    /// When the answer was given, ms since the epoch.
    pub checked_at: Millis,
    /// The counts then.
    #[sqlx(flatten)]
    pub counts: AccountCounts,
}

/// An account that has a handle, or had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct Bearer {
    /// Its id.
    pub id: String,
    /// Until when it had the handle, ms since the epoch; `None`: it has it.
    pub until: Option<Millis>,
}

/// The accounts in a state.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct AccountTotal {
    /// The state.
    pub state: String,
    /// The number of accounts.
    pub accounts: i64,
    /// When the newest answer about the account whose data is oldest was given, ms since the epoch; of those that are still
    /// looked up.
    pub oldest_answer_at: Option<Millis>,
}

/// The records of accounts. Errors are those of [`Lifecycle`](super::Lifecycle).
#[async_trait]
pub trait Accounts: Send + Sync + std::fmt::Debug {
    /// Stores a batch of answers, all or nothing, as [`Posts::save`](super::Posts::save) does; changes of fields and counts
    /// become history.
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<Saved>;

    /// Records posts of accounts that are recorded; a post that is known stays as it is. A post is a sign of life.
    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<()>;

    /// The data of each id by which its next lookup is chosen, in the order asked; `None` for one never recorded.
    async fn signs(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Signs>>>;

    /// When the newest collected posts of an account were made, ms since the epoch, newest first; `limit` of them.
    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>>;

    /// Ids of the newest collected posts of an account, newest first; `limit` of them.
    async fn posts_of(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>>;

    /// One account, whole.
    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>>;

    /// The accounts that have that handle, in any case, or had it; those that have it first.
    async fn bearers(&self, namespace: &str, handle: &str) -> Result<Vec<Bearer>>;

    /// An account's changes, oldest first: the newest 1,000, and the first 1,000 characters of each value.
    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>>;

    /// An account's counts over time, oldest first.
    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>>;

    /// Accounts by state, in the network's words; those without an answer count as `unknown`.
    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>>;

    /// Keeps handles until the ids of their accounts are known, each once; one that was refused waits again. `at` is now, ms
    /// since the epoch. Returns false, and keeps none, where one of them does not wait yet and more than `most` would wait.
    async fn keep_handles(&self, namespace: &str, handles: &[String], at: Millis, most: u32) -> Result<bool>;

    /// Takes up to `limit` handles that wait, those that came first. Nobody else gets them from `now` `until` then, both in
    /// ms since the epoch.
    async fn claim_handles(&self, namespace: &str, now: Millis, until: Millis, limit: u32) -> Result<Vec<String>>;

    /// Forgets handles whose accounts are recorded. Those that were refused, each with one clause, are kept for 30 days, by
    /// `now`, ms since the epoch.
    async fn settle_handles(
        &self,
        namespace: &str,
        now: Millis,
        resolved: &[String],
        refused: &[(String, String)],
    ) -> Result<()>;

    /// A handle that waits, or was refused, in any case.
    async fn kept_handle(&self, namespace: &str, handle: &str) -> Result<Option<KeptHandle>>;
}

/// A handle whose account is not known.
#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct KeptHandle {
    /// When it came, or was refused, ms since the epoch.
    pub at: Millis,
    /// Why it was refused; `None`: it waits.
    pub reason: Option<String>,
}

/// How long a refused handle is kept, ms.
const REFUSED_FOR: Millis = 30 * 86_400_000;

/// Handles as they are kept, each once.
pub(super) fn given_handles(handles: &[String]) -> BTreeSet<String> {
    handles.iter().map(|handle| clean(handle).to_ascii_lowercase()).collect()
}

/// The moment before which refused handles are forgotten.
pub(super) fn refused_before(now: Millis) -> Millis {
    now.saturating_sub(REFUSED_FOR)
}

/// The statement of [`Accounts::kept_handle`].
pub(super) const KEPT_HANDLE: &str = "SELECT at, reason FROM account_handle WHERE namespace = $1 AND handle = $2";
/// How many handles wait.
pub(super) const WAITING_HANDLES: &str = "SELECT count(*) FROM account_handle WHERE namespace = $1 AND reason IS NULL";
/// Returns true if handles are too many to be kept: `known` of the `given` wait already and take no room.
pub(super) fn are_too_many(waiting: i64, given: usize, known: i64, most: u32) -> bool {
    let new = given as i64 - known;
    new > 0 && waiting + new > i64::from(most)
}

/// Forgets refused handles.
pub(super) const FORGET_REFUSED: &str =
    "DELETE FROM account_handle WHERE namespace = $1 AND reason IS NOT NULL AND at < $2";

/// The values written for an account. Texts are clean.
#[derive(Debug, Default, Serialize)]
pub(super) struct AccountRow {
    id: String,
    at: Millis,
    state: Option<&'static str>,
    handle: Option<String>,
    display_name: Option<String>,
    description: Option<String>,
    location: Option<String>,
    url: Option<String>,
    picture: Option<String>,
    banner: Option<String>,
    protected: Option<bool>,
    verified: Option<bool>,
    withheld_in: Option<String>,
    moved_to: Option<String>,
    #[serde(flatten)]
    counts: AccountCounts,
    last_post_at: Option<Millis>,
    forgotten_at: Option<Millis>,
}

impl AccountRow {
    /// The values of an answer; `None` where it says nothing of the account.
    fn new(answer: &Observation<Account>) -> Option<Self> {
        let row = Self { id: clean(&answer.id).into_owned(), at: answer.answered_at, ..Self::default() };
        let forgotten_at = answer.forget.then_some(answer.answered_at);
        let text = |text: &Option<String>| text.as_deref().map(|text| clean(text).into_owned());
        match &answer.seen {
            Seen::Broken(_) => None,
            Seen::Missing { reason, since, handle, .. } => {
                let gone = gone(*reason, answer.answered_at.saturating_sub(*since)).as_str();
                let state = (answer.state != TweetState::Live).then_some(gone);
                let forgotten_at = forgotten_at.filter(|_| state.is_some());
                let handle = text(handle).filter(|_| forgotten_at.is_none());
                Some(Self { state, handle, forgotten_at, ..row })
            }
            Seen::Found(account) => Some(Self {
                state: Some(account.state.as_str()),
                // Found accounts state it; the rule for what is stored relies on it.
                handle: Some(text(&account.handle).unwrap_or_default()),
                display_name: text(&account.display_name),
                description: text(&account.description),
                location: text(&account.location),
                url: text(&account.url),
                picture: text(&account.picture),
                banner: text(&account.banner),
                protected: account.protected,
                verified: account.verified,
                withheld_in: text(&account.withheld_in),
                moved_to: text(&account.moved_to),
                counts: account.counts,
                last_post_at: account.last_post_at,
                ..row
            }),
        }
    }
}

/// On Twitter and X an owner may come back for 30 days; then the account is deleted.
const DEACTIVATED_FOR: Millis = 30 * 24 * 3_600_000;

/// The state of an account whose absence is believed, `missing` ms after its first miss. `state_after!` corrects it where the
/// network said something else meanwhile.
fn gone(reason: Option<Absence>, missing: Millis) -> AccountState {
    match reason {
        Some(Absence::Suspended) => AccountState::Suspended,
        Some(Absence::Protected) => AccountState::Protected,
        Some(Absence::Deactivated) => AccountState::Deactivated,
        Some(Absence::NotFound) if missing < DEACTIVATED_FOR => AccountState::Deactivated,
        Some(Absence::NotFound | Absence::Deleted) => AccountState::Deleted,
        None => AccountState::Unknown,
    }
}

/// The part of an account that its row in `tweet` keeps.
pub(super) fn object(account: &Account) -> Object {
    Object { created_at: account.created_at, raw: account.raw.clone() }
}

/// The rows of a batch as JSON, in the order of their ids, and the ids of those whose content is forgotten. Of an id given
/// twice, the newest answer.
pub(super) fn given(answers: &[Observation<Account>]) -> (String, Vec<String>) {
    let mut rows: Vec<AccountRow> = answers.iter().filter_map(AccountRow::new).collect();
    rows.sort_by(|one, other| (&one.id, other.at).cmp(&(&other.id, one.at)));
    rows.dedup_by(|later, first| later.id == first.id);
    let forgotten = rows.iter().filter(|row| row.forgotten_at.is_some()).map(|row| row.id.clone()).collect();
    // What derives Serialize out of texts and numbers cannot fail.
    (serde_json::to_string(&rows).unwrap_or_default(), forgotten)
}

/// Sightings as JSON: account, post, at.
pub(super) fn given_sightings(sightings: &[Sighting]) -> String {
    let mut rows: Vec<_> = sightings.iter().map(|seen| (clean(&seen.account), clean(&seen.post), seen.at)).collect();
    rows.sort();
    serde_json::json!(rows).to_string()
}

/// Columns of `account` in the order of an insert, beside its key.
macro_rules! account_columns {
    () => {
        "checked_at, state, handle, display_name, description, location, url, picture, banner, protected, verified, \
         withheld_in, moved_to, followers, following, posts, listed, likes, last_post_at, active_at, forgotten_at"
    };
}

/// The statement of [`Accounts::account`], by how `account` is joined to `tweet`; `$1` is the namespace, `$2` the id.
macro_rules! account {
    ($join:literal) => {
        concat!(
            "SELECT tweet.id, COALESCE(account.state, 'unknown') AS state, handle, display_name, description, location, url, \
             picture, banner, protected, verified, account.withheld_in, moved_to, followers, following, posts, listed, \
             likes, tweet.created_at, last_post_at, active_at, forgotten_at, (SELECT count(*) FROM account_post \
             WHERE account_post.namespace = $1 AND account_post.id = $2) AS collected, tweet.first_seen, \
             tweet.checked_at, tweet.next_due, tweet.lookups, tweet.misses, tweet.missing_since, tweet.raw \
             FROM tweet LEFT JOIN ",
            $join,
            " WHERE tweet.namespace = $1 AND tweet.id = $2"
        )
    };
}

/// The statement of [`Accounts::account_states`], by how `account` is joined to `tweet`; `$1` is the namespace.
macro_rules! account_states {
    ($join:literal) => {
        concat!(
            "SELECT COALESCE(account.state, 'unknown') AS state, count(*) AS accounts, \
             MIN(tweet.checked_at) FILTER (WHERE tweet.state IN ('live', 'unavailable')) AS oldest_answer_at \
             FROM tweet LEFT JOIN ",
            $join,
            " WHERE tweet.namespace = $1 GROUP BY 1 ORDER BY 1"
        )
    };
}

/// The state of an account after an answer, by the condition of the changes that belong to it: what `sql/merge_account.sql` begins
/// with. The 30 days (2,592,000,000 ms) of one that is not there begin when the network says so first: one that was suspended
/// before, or missing for another reason, is deactivated, however long ago its first miss is. Bluesky states a deactivation by itself.
macro_rules! state_after {
    ($namespace:literal, $changes:literal) => {
        concat!(
            "state = CASE WHEN excluded.state = 'deleted' AND ",
            $namespace,
            " <> 'profiles:bluesky' AND (account.state IN ('suspended', 'protected', 'unknown') OR EXISTS (SELECT 1 FROM ",
            $changes,
            " AND changed.field = 'state' AND changed.new_value = 'deactivated' \
             AND changed.old_value IN ('suspended', 'protected', 'unknown') \
             AND changed.at > excluded.checked_at - 2592000000)) THEN 'deactivated' \
             ELSE COALESCE(excluded.state, account.state) END,\n"
        )
    };
}

/// Columns of [`Signs`], by the condition of the changes that belong to a row of `tweet`.
macro_rules! signs_columns {
    ($changes:literal) => {
        concat!(
            "tweet.id, tweet.checked_at, tweet.next_due, tweet.state, tweet.first_seen, account.active_at, \
             (SELECT MAX(at) FROM ",
            $changes,
            ") AS changed_at, account.followers, account.following, account.posts, account.listed, account.likes, tweet.recent, \
             tweet.misses"
        )
    };
}

/// The communities of a network, by the parameter with [`before_communities`]: found by leaps over the key.
macro_rules! communities {
    ($before:literal) => {
        concat!(
            "WITH RECURSIVE known (namespace) AS (SELECT MIN(namespace) FROM community_account WHERE namespace >= ",
            $before,
            " UNION ALL SELECT (SELECT MIN(namespace) FROM community_account WHERE namespace > known.namespace) FROM known \
             WHERE substr(known.namespace, 1, length(",
            $before,
            ")) = ",
            $before,
            ") SELECT namespace FROM known WHERE substr(namespace, 1, length(",
            $before,
            ")) = ",
            $before
        )
    };
}

pub(super) use {account, account_columns, account_states, communities, signs_columns, state_after};

/// What stands before the names of the communities beside a pipeline of profiles: their evidence quotes these.
pub(super) fn before_communities(profiles: &str) -> String {
    format!("{}:", profiles.replacen("profiles", "community", 1))
}

/// The statement of [`Accounts::account_changes`].
pub(super) const CHANGES: &str = "SELECT at, field, SUBSTR(old_value, 1, 1000) AS old_value, \
     SUBSTR(new_value, 1, 1000) AS new_value FROM (SELECT at, field, old_value, new_value FROM account_change \
     WHERE namespace = $1 AND id = $2 ORDER BY at DESC, field DESC LIMIT 1000) AS newest ORDER BY at, field";

/// The statement of [`Accounts::account_counts`].
pub(super) const COUNTS: &str = "SELECT checked_at, followers, following, posts, listed, likes FROM account_count \
     WHERE namespace = $1 AND id = $2 ORDER BY checked_at";

/// The statement of [`Accounts::post_times`].
pub(super) const POST_TIMES: &str =
    "SELECT at FROM account_post WHERE namespace = $1 AND id = $2 ORDER BY at DESC LIMIT $3";

/// The statement of [`Accounts::posts_of`].
pub(super) const POSTS_OF: &str =
    "SELECT post FROM account_post WHERE namespace = $1 AND id = $2 ORDER BY at DESC, post DESC LIMIT $3";

/// The statement of [`Accounts::bearers`]. Each part has an index; one who has the handle again is among the first alone.
pub(super) const BEARERS: &str = "SELECT id, CAST(NULL AS BIGINT) AS until, 0 AS place FROM account \
     WHERE namespace = $1 AND handle IS NOT NULL AND lower(handle) = lower($2) \
     UNION ALL SELECT changed.id, MAX(changed.at), 1 FROM account_change AS changed \
     WHERE changed.namespace = $1 AND changed.field = 'handle' AND lower(changed.old_value) = lower($2) \
     AND NOT EXISTS (SELECT 1 FROM account WHERE account.namespace = changed.namespace AND account.id = changed.id \
     AND lower(account.handle) = lower($2)) GROUP BY changed.id ORDER BY place, until DESC, id LIMIT 100";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_is_told_as_far_as_the_network_says_it() {
        let after = |reason, days: Millis| gone(reason, days * 24 * 3_600_000);
        assert_eq!(after(Some(Absence::Suspended), 400), AccountState::Suspended);
        assert_eq!(after(Some(Absence::Protected), 0), AccountState::Protected);
        assert_eq!(after(Some(Absence::NotFound), 29), AccountState::Deactivated);
        assert_eq!(after(Some(Absence::NotFound), 30), AccountState::Deleted);
        assert_eq!(after(None, 400), AccountState::Unknown);
    }

    #[test]
    fn of_an_id_given_twice_the_newest_answer_is_taken_and_no_text_holds_a_nul() {
        let answer = |id: &str, at, name: &str| Observation {
            id: id.to_owned(),
            answered_at: at,
            seen: Seen::Found(Account { display_name: Some(name.to_owned()), ..Account::default() }),
            state: TweetState::Live,
            next_due: None,
            follow: None,
            forget: false,
            recent: None,
        };
        let (rows, forgotten) = given(&[answer("b", 1, "old"), answer("a", 5, "x\0y"), answer("b", 2, "new")]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        let told = |row: &serde_json::Value| (row["id"].clone(), row["display_name"].clone());
        let told: Vec<_> = rows.iter().map(told).collect();
        assert_eq!(told, [("a".into(), "x\u{fffd}y".into()), ("b".into(), "new".into())]);
        assert!(forgotten.is_empty());
    }
}
