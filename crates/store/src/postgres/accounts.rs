use async_trait::async_trait;

use super::PostgresStore;
use crate::accounts::{self};
use crate::forget;
use crate::rows::{self, clean, number};
use crate::{
    AccountTotal, Accounts, Change, CountsAt, HandleBearer, Observation, Result, SaveCounts, ScheduleInputs, Sighting,
    StoredAccount, StoredHandle,
};
use engine::base::clock::Millis;
use engine::base::failpoint;
use networks::model::account::Account;

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
        let statement = || self.bind_rows(sql!("accounts/save.pg"), namespace, &lives).bind(&given).bind(&communities);
        let (written, repeated, changed): (i64, i64, i64) = self.read_one(statement).await?;
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
        self.write(|| statement!("accounts/record_sightings.pg", namespace, &given, people())).await
    }

    async fn schedule_inputs(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<ScheduleInputs>>> {
        self.select_by_ids(sql!("accounts/schedule_inputs.pg"), namespace, ids).await
    }

    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>> {
        self.read_column(|| statement!("accounts/post_times", namespace, clean(id), i64::from(limit))).await
    }

    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>> {
        self.read_column(|| statement!("accounts/newest_posts", namespace, clean(id), i64::from(limit))).await
    }

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>> {
        self.read_first(|| statement!("accounts/account.pg", namespace, clean(id))).await
    }

    async fn handle_bearers(&self, namespace: &str, handle: &str) -> Result<Vec<HandleBearer>> {
        self.read(|| statement!("accounts/handle_bearers", namespace, clean(handle))).await
    }

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        self.read(|| statement!("accounts/changes", namespace, clean(id))).await
    }

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>> {
        self.read(|| statement!("accounts/counts", namespace, clean(id))).await
    }

    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>> {
        self.read(|| statement!("accounts/states.pg", namespace)).await
    }

    async fn store_handles(&self, namespace: &str, handles: &[String], at: Millis, most: u32) -> Result<bool> {
        let given: Vec<String> = accounts::normalize_handles(handles).into_iter().collect();
        let waiting: i64 = self.read_value(|| statement!("accounts/waiting_handles", namespace)).await?;
        if accounts::exceeds_handle_limit(waiting, given.len(), 0, most) {
            // Nearly full, so the number of new handles decides.
            let known = || statement!("accounts/known_handles.pg", namespace, &given);
            let known: i64 = self.read_value(known).await?;
            if accounts::exceeds_handle_limit(waiting, given.len(), known, most) {
                return Ok(false);
            }
        }
        self.write(|| statement!("accounts/store_handles.pg", namespace, &given, at)).await?;
        Ok(true)
    }

    async fn claim_handles(&self, namespace: &str, now: Millis, until: Millis, limit: u32) -> Result<Vec<String>> {
        self.read_column(|| statement!("accounts/claim_handles.pg", namespace, now, until, i64::from(limit))).await
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
        self.write(|| statement!("accounts/refuse_handles.pg", namespace, &refused, &reasons, now)).await?;
        self.write(|| statement!("accounts/remove_handles.pg", namespace, resolved)).await?;
        self.write(|| statement!("accounts/forget_refused", namespace, accounts::refusal_time_limit(now))).await
    }

    async fn stored_handle(&self, namespace: &str, handle: &str) -> Result<Option<StoredHandle>> {
        let handle = clean(handle).to_ascii_lowercase();
        self.read_first(|| statement!("accounts/stored_handle", namespace, &handle)).await
    }
}
