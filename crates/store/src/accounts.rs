//! Accounts: the data that answers state, beside the life that every item has.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Serialize;

use super::{Change, Finding, Object, Observation, Result, SaveCounts};
use crate::rows::clean;
use engine::base::clock::Millis;
use networks::model::account::{Absence, Account, AccountCounts, AccountState};
use networks::model::post::ItemState;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub account: String,
    pub post: String,
    /// Time at which the post was made, or else found.
    pub at: Millis,
}

/// The stored data of an account that the schedule needs for its next lookup.
#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx_macros::FromRow)]
pub struct ScheduleInputs {
    /// When its newest answer was given, ms since the epoch; `None` before the first.
    pub checked_at: Option<Millis>,
    pub next_due: Option<Millis>,
    pub state: ItemState,
    pub first_seen: Millis,
    /// Newest known sign of life: a post, or a higher number of posts.
    pub active_at: Option<Millis>,
    /// Time of the newest change of its state or a profile field.
    pub changed_at: Option<Millis>,
    #[sqlx(flatten)]
    pub counts: AccountCounts,
    /// [`Observation::recent`] of the newest answer that found it.
    pub recent: Option<f64>,
    /// Misses in a row. If there are any, the counts are older than the newest answer.
    pub misses: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, sqlx_macros::FromRow)]
pub struct StoredAccount {
    pub id: String,
    /// State in the network's words: `live`, `protected`, `suspended`, `deactivated`, `deleted` or `unknown`.
    pub state: String,
    pub handle: Option<String>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub location: Option<String>,
    pub url: Option<String>,
    pub picture: Option<String>,
    pub banner: Option<String>,
    pub protected: Option<bool>,
    pub verified: Option<bool>,
    pub withheld_in: Option<String>,
    pub moved_to: Option<String>,
    #[serde(flatten)]
    #[sqlx(flatten)]
    pub counts: AccountCounts,
    pub created_at: Option<Millis>,
    pub last_post_at: Option<Millis>,
    pub active_at: Option<Millis>,
    pub forgotten_at: Option<Millis>,
    pub collected: i64,
    pub first_seen: Millis,
    pub checked_at: Option<Millis>,
    pub next_due: Option<Millis>,
    pub lookups: i64,
    pub misses: i64,
    pub missing_since: Option<Millis>,
    pub raw: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct CountsAt {
    pub checked_at: Millis,
    #[sqlx(flatten)]
    pub counts: AccountCounts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, sqlx_macros::FromRow)]
pub struct HandleBearer {
    pub id: String,
    /// End of its time with the handle; `None` if it still has it.
    pub until: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct AccountTotal {
    pub state: String,
    pub accounts: i64,
    /// Time of the newest answer about the account with the oldest data, among those that are still looked up.
    pub oldest_answer_at: Option<Millis>,
}

/// The records of accounts. Errors are those of [`Lifecycle`](super::Lifecycle). Times are ms since the epoch.
#[async_trait]
pub trait Accounts: Send + Sync + std::fmt::Debug {
    /// Stores a batch of answers, all or nothing, as [`Posts::save`](super::Posts::save) does. Changed fields and
    /// counts become history.
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<SaveCounts>;

    /// Records posts of recorded accounts as signs of life. A known post stays as it is.
    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<()>;

    /// Returns the schedule inputs of each id, in the order of `ids`; `None` for an id never recorded.
    async fn schedule_inputs(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<ScheduleInputs>>>;

    /// Returns the times of an account's newest `limit` collected posts, newest first.
    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>>;

    /// Returns the ids of an account's newest `limit` collected posts, newest first.
    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>>;

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>>;

    /// Returns the accounts with that handle, in any case, then its former bearers.
    async fn handle_bearers(&self, namespace: &str, handle: &str) -> Result<Vec<HandleBearer>>;

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>>;

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>>;

    /// Counts accounts by state, in the network's words; accounts without an answer count as `unknown`.
    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>>;

    /// Keeps handles, each once, until the ids of their accounts are known. A refused handle waits again. Returns false
    /// and keeps none if any is new and more than `most` handles would wait.
    async fn store_handles(&self, namespace: &str, handles: &[String], at: Millis, most: u32) -> Result<bool>;

    /// Claims up to `limit` waiting handles, oldest first. No other worker gets them between `now` and `until`.
    async fn claim_handles(&self, namespace: &str, now: Millis, until: Millis, limit: u32) -> Result<Vec<String>>;

    /// Removes handles whose accounts are recorded. Keeps refused handles, each with its reason, for 30 days.
    async fn settle_handles(
        &self,
        namespace: &str,
        now: Millis,
        resolved: &[String],
        refused: &[(String, String)],
    ) -> Result<()>;

    /// Returns a waiting or refused handle; letter case does not matter.
    async fn stored_handle(&self, namespace: &str, handle: &str) -> Result<Option<StoredHandle>>;
}

#[derive(Debug, Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct StoredHandle {
    /// Time of its arrival or its refusal.
    pub at: Millis,
    /// Reason of the refusal; `None` while it waits.
    pub reason: Option<String>,
}

const REFUSED_FOR: Millis = 30 * 86_400_000;

pub(super) fn normalize_handles(handles: &[String]) -> BTreeSet<String> {
    handles.iter().map(|handle| clean(handle).to_ascii_lowercase()).collect()
}

pub(super) fn refusal_time_limit(now: Millis) -> Millis {
    now.saturating_sub(REFUSED_FOR)
}

/// Returns true if too many handles would wait; `known` of the `given` handles wait already.
pub(super) fn exceeds_handle_limit(waiting: i64, given: usize, known: i64, most: u32) -> bool {
    let new = given as i64 - known;
    new > 0 && waiting + new > i64::from(most)
}

/// The values written for an account. Texts are clean (no NUL).
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
    fn new(answer: &Observation<Account>) -> Option<Self> {
        let row = Self { id: clean(&answer.id).into_owned(), at: answer.answered_at, ..Self::default() };
        let forgotten_at = answer.forget.then_some(answer.answered_at);
        let text = |text: &Option<String>| text.as_deref().map(|text| clean(text).into_owned());
        match &answer.finding {
            Finding::Broken(_) => None,
            Finding::Missing { reason, since, handle, .. } => {
                let gone = absent_state(*reason, answer.answered_at.saturating_sub(*since)).as_str();
                let state = (answer.state != ItemState::Live).then_some(gone);
                let forgotten_at = forgotten_at.filter(|_| state.is_some());
                let handle = text(handle).filter(|_| forgotten_at.is_none());
                Some(Self { state, handle, forgotten_at, ..row })
            }
            Finding::Found(account) => Some(Self {
                state: Some(account.state.as_str()),
                // Found accounts always state it; the merge rule relies on this.
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

/// On Twitter and X an owner may come back for 30 days. Then the network deletes the account.
const DEACTIVATED_FOR: Millis = 30 * 24 * 3_600_000;

/// State of an account with a confirmed absence, `missing` ms after its first miss. `sql/accounts/save` corrects it if the
/// network stated something else meanwhile.
fn absent_state(reason: Option<Absence>, missing: Millis) -> AccountState {
    match reason {
        Some(Absence::Suspended) => AccountState::Suspended,
        Some(Absence::Protected) => AccountState::Protected,
        Some(Absence::Deactivated) => AccountState::Deactivated,
        Some(Absence::NotFound) if missing < DEACTIVATED_FOR => AccountState::Deactivated,
        Some(Absence::NotFound | Absence::Deleted) => AccountState::Deleted,
        None => AccountState::Unknown,
    }
}

pub(super) fn account_object(account: &Account) -> Object {
    Object { created_at: account.created_at, raw: account.raw.clone() }
}

/// Rows of a batch as JSON, sorted by id, and the ids whose content is removed. Of an id given twice, the newest answer
/// is used.
pub(super) fn encode_answers(answers: &[Observation<Account>]) -> (String, Vec<String>) {
    let mut rows: Vec<AccountRow> = answers.iter().filter_map(AccountRow::new).collect();
    rows.sort_by(|one, other| (&one.id, other.at).cmp(&(&other.id, one.at)));
    rows.dedup_by(|later, first| later.id == first.id);
    let forgotten = rows.iter().filter(|row| row.forgotten_at.is_some()).map(|row| row.id.clone()).collect();
    // Serialize derived for texts and numbers cannot fail.
    (serde_json::to_string(&rows).unwrap_or_default(), forgotten)
}

pub(super) fn encode_sightings(sightings: &[Sighting]) -> String {
    let mut rows: Vec<_> = sightings.iter().map(|seen| (clean(&seen.account), clean(&seen.post), seen.at)).collect();
    rows.sort();
    serde_json::json!(rows).to_string()
}

/// Name prefix of the communities beside a pipeline of profiles; their evidence quotes these profiles.
pub(super) fn community_prefix_of_profiles(profiles: &str) -> String {
    format!("{}:", profiles.replacen("profiles", "community", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_and_age_of_an_absence_give_the_account_state() {
        let after = |reason, days: Millis| absent_state(reason, days * 24 * 3_600_000);
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
            finding: Finding::Found(Account { display_name: Some(name.to_owned()), ..Account::default() }),
            state: ItemState::Live,
            next_due: None,
            follow: None,
            forget: false,
            recent: None,
        };
        let (rows, forgotten) = encode_answers(&[answer("b", 1, "old"), answer("a", 5, "x\0y"), answer("b", 2, "new")]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
        let id_and_name = |row: &serde_json::Value| (row["id"].clone(), row["display_name"].clone());
        let pairs: Vec<_> = rows.iter().map(id_and_name).collect();
        assert_eq!(pairs, [("a".into(), "x\u{fffd}y".into()), ("b".into(), "new".into())]);
        assert!(forgotten.is_empty());
    }
}
