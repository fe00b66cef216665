use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::forget::find_blocked;
use super::{SqliteStore, json, read, read_column, read_first, read_value, write};
use crate::accounts::{self};
use crate::forget::author_from_id;
use crate::rows::clean;
use crate::{
    AccountTotal, Accounts, Change, CountsAt, HandleBearer, Observation, Result, SaveCounts, ScheduleInputs, Sighting,
    StoredAccount, StoredHandle,
};
use engine::base::clock::Millis;
use engine::base::failpoint;
use networks::model::account::Account;

async fn save(tx: &mut SqliteConnection, namespace: &str, answers: &[Observation<Account>]) -> Result<()> {
    let (rows, forgotten) = accounts::encode_answers(answers);
    write(&mut *tx, statement!("accounts/save.lite", namespace, rows)).await?;
    if !forgotten.is_empty() {
        let forgotten = json(forgotten.iter().map(|id| id.as_str().into()));
        write(&mut *tx, statement!("accounts/forget_changes.lite", namespace, &forgotten)).await?;
        let communities = accounts::community_prefix_of_profiles(namespace);
        let statement = statement!("accounts/forget_evidence.lite", namespace, &forgotten, communities);
        write(&mut *tx, statement).await?;
    }
    Ok(())
}

#[async_trait]
impl Accounts for SqliteStore {
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<SaveCounts> {
        if answers.is_empty() {
            return Ok(SaveCounts::default());
        }
        let lives: Vec<Observation> = answers.iter().map(|answer| answer.to_object(accounts::account_object)).collect();
        let of_lives = super::Answers::new(&lives);
        let mut tx = self.begin().await?;
        let saved = super::save(&mut tx, &self.keys, namespace, of_lives).await?;
        save(&mut tx, namespace, answers).await?;
        failpoint::point("before_commit");
        tx.commit().await?;
        Ok(saved)
    }

    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<()> {
        if sightings.is_empty() {
            return Ok(());
        }
        let given = accounts::encode_sightings(sightings);
        let mut tx = self.begin().await?;
        let authors: Vec<&str> = sightings.iter().filter_map(|seen| author_from_id(&seen.post)).collect();
        let away = find_blocked(&mut tx, &self.keys, namespace, authors).await?;
        let is_kept = |seen: &&Sighting| author_from_id(&seen.post).is_none_or(|author| !away.contains(author));
        // An account that shows a post of a blocked person still counts as active.
        let stored = (!away.is_empty()).then(|| sightings.iter().filter(is_kept).cloned().collect::<Vec<_>>());
        let stored = stored.map(|stored| accounts::encode_sightings(&stored));
        for (statement, given) in [
            (sql!("accounts/record_sightings.lite"), stored.as_ref().unwrap_or(&given)),
            (sql!("accounts/record_activity.lite"), &given),
        ] {
            write(&mut *tx, statement!(statement, namespace, given)).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn schedule_inputs(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<ScheduleInputs>>> {
        self.select_by_ids(sql!("accounts/schedule_inputs.lite"), namespace, ids).await
    }

    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>> {
        read_column(self.readers(), statement!("accounts/post_times", namespace, clean(id), limit)).await
    }

    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>> {
        read_column(self.readers(), statement!("accounts/newest_posts", namespace, clean(id), limit)).await
    }

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>> {
        read_first(self.readers(), statement!("accounts/account.lite", namespace, clean(id))).await
    }

    async fn handle_bearers(&self, namespace: &str, handle: &str) -> Result<Vec<HandleBearer>> {
        read(self.readers(), statement!("accounts/handle_bearers", namespace, clean(handle))).await
    }

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>> {
        read(self.readers(), statement!("accounts/changes", namespace, clean(id))).await
    }

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>> {
        read(self.readers(), statement!("accounts/counts", namespace, clean(id))).await
    }

    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>> {
        read(self.readers(), statement!("accounts/states.lite", namespace)).await
    }

    async fn store_handles(&self, namespace: &str, handles: &[String], at: Millis, most: u32) -> Result<bool> {
        let given = accounts::normalize_handles(handles);
        let mut tx = self.begin().await?;
        let waiting: i64 = read_value(&mut *tx, statement!("accounts/waiting_handles", namespace)).await?;
        let count = given.len();
        let given = json(given.into_iter().map(Into::into));
        if accounts::exceeds_handle_limit(waiting, count, 0, most) {
            // Nearly full, so the number of new handles decides.
            let known: i64 = read_value(&mut *tx, statement!("accounts/known_handles.lite", namespace, &given)).await?;
            if accounts::exceeds_handle_limit(waiting, count, known, most) {
                return Ok(false);
            }
        }
        write(&mut *tx, statement!("accounts/store_handles.lite", namespace, given, at)).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn claim_handles(&self, namespace: &str, now: Millis, until: Millis, limit: u32) -> Result<Vec<String>> {
        let mut tx = self.begin().await?;
        let claimed =
            read_column(&mut *tx, statement!("accounts/claim_handles.lite", namespace, now, until, limit)).await?;
        tx.commit().await?;
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
        let mut tx = self.begin().await?;
        write(&mut *tx, statement!("accounts/refuse_handles.lite", namespace, refused, now)).await?;
        write(&mut *tx, statement!("accounts/remove_handles.lite", namespace, resolved)).await?;
        write(&mut *tx, statement!("accounts/forget_refused", namespace, accounts::refusal_time_limit(now))).await?;
        Ok(tx.commit().await?)
    }

    async fn stored_handle(&self, namespace: &str, handle: &str) -> Result<Option<StoredHandle>> {
        read_first(self.readers(), statement!("accounts/stored_handle", namespace, clean(handle).to_ascii_lowercase()))
            .await
    }
}
