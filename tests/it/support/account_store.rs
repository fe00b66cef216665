//! Accounts in the stores of tests: in memory, as a model of the contract, and handed on by stores that wrap others.

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::account::{Absence, Account, AccountCounts, AccountState};
use twitter_updater::model::post::ItemState;
use twitter_updater::store::{
    AccountTotal, Accounts, Change, CountsAt, Finding, HandleBearer, Lifecycle, Object, Observation, Posts, SaveCounts,
    ScheduleInputs, Sighting, StoreError, StoredAccount, StoredHandle,
};

use super::memory_store::{Known, MemoryStore};

/// Hands the calls about accounts on to a field; saves, if so said, in a way of the store's own.
macro_rules! hand_on_accounts {
    ($store:ty, $field:ident) => {
        crate::support::account_store::hand_on_accounts!($store, $field, |store, namespace, answers| store
            .$field
            .save_accounts(namespace, answers));
    };
    ($store:ty, $field:ident, |$self:ident, $namespace:ident, $answers:ident| $save:expr) => {
        #[async_trait::async_trait]
        impl twitter_updater::store::Accounts for $store {
            async fn save_accounts(
                &self,
                namespace: &str,
                answers: &[twitter_updater::store::Observation<twitter_updater::model::account::Account>],
            ) -> Result<twitter_updater::store::SaveCounts, twitter_updater::store::StoreError> {
                let ($self, $namespace, $answers) = (self, namespace, answers);
                $save.await
            }

            async fn record_sightings(
                &self,
                namespace: &str,
                sightings: &[twitter_updater::store::Sighting],
            ) -> Result<(), twitter_updater::store::StoreError> {
                self.$field.record_sightings(namespace, sightings).await
            }

            async fn schedule_inputs(
                &self,
                namespace: &str,
                ids: &[String],
            ) -> Result<Vec<Option<twitter_updater::store::ScheduleInputs>>, twitter_updater::store::StoreError> {
                self.$field.schedule_inputs(namespace, ids).await
            }

            async fn post_times(
                &self,
                namespace: &str,
                id: &str,
                limit: u32,
            ) -> Result<Vec<twitter_updater::base::clock::Millis>, twitter_updater::store::StoreError> {
                self.$field.post_times(namespace, id, limit).await
            }

            async fn newest_posts(
                &self,
                namespace: &str,
                id: &str,
                limit: u32,
            ) -> Result<Vec<String>, twitter_updater::store::StoreError> {
                self.$field.newest_posts(namespace, id, limit).await
            }

            async fn account(
                &self,
                namespace: &str,
                id: &str,
            ) -> Result<Option<twitter_updater::store::StoredAccount>, twitter_updater::store::StoreError> {
                self.$field.account(namespace, id).await
            }

            async fn handle_bearers(
                &self,
                namespace: &str,
                handle: &str,
            ) -> Result<Vec<twitter_updater::store::HandleBearer>, twitter_updater::store::StoreError> {
                self.$field.handle_bearers(namespace, handle).await
            }

            async fn account_changes(
                &self,
                namespace: &str,
                id: &str,
            ) -> Result<Vec<twitter_updater::store::Change>, twitter_updater::store::StoreError> {
                self.$field.account_changes(namespace, id).await
            }

            async fn account_counts(
                &self,
                namespace: &str,
                id: &str,
            ) -> Result<Vec<twitter_updater::store::CountsAt>, twitter_updater::store::StoreError> {
                self.$field.account_counts(namespace, id).await
            }

            async fn account_states(
                &self,
                namespace: &str,
            ) -> Result<Vec<twitter_updater::store::AccountTotal>, twitter_updater::store::StoreError> {
                self.$field.account_states(namespace).await
            }

            async fn store_handles(
                &self,
                namespace: &str,
                handles: &[String],
                at: twitter_updater::base::clock::Millis,
                most: u32,
            ) -> Result<bool, twitter_updater::store::StoreError> {
                self.$field.store_handles(namespace, handles, at, most).await
            }

            async fn claim_handles(
                &self,
                namespace: &str,
                now: twitter_updater::base::clock::Millis,
                until: twitter_updater::base::clock::Millis,
                limit: u32,
            ) -> Result<Vec<String>, twitter_updater::store::StoreError> {
                self.$field.claim_handles(namespace, now, until, limit).await
            }

            async fn settle_handles(
                &self,
                namespace: &str,
                now: twitter_updater::base::clock::Millis,
                resolved: &[String],
                refused: &[(String, String)],
            ) -> Result<(), twitter_updater::store::StoreError> {
                self.$field.settle_handles(namespace, now, resolved, refused).await
            }

            async fn stored_handle(
                &self,
                namespace: &str,
                handle: &str,
            ) -> Result<Option<twitter_updater::store::StoredHandle>, twitter_updater::store::StoreError> {
                self.$field.stored_handle(namespace, handle).await
            }
        }
    };
}

pub(crate) use hand_on_accounts;

/// One account in memory: what its newest answers state, and its history.
#[derive(Debug, Default, Clone)]
pub struct AccountInMemory {
    /// The newest answer, with the older fields where it states none.
    account: Account,
    /// When it was given.
    checked_at: Millis,
    /// `None`: no answer has told it.
    state: Option<AccountState>,
    active_at: Option<Millis>,
    changes: Vec<Change>,
    counts: Vec<CountsAt>,
    forgotten_at: Option<Millis>,
}

/// The newer value, or else the older one.
fn or<T: Clone>(newer: &Option<T>, older: &Option<T>) -> Option<T> {
    newer.clone().or_else(|| older.clone())
}

impl AccountInMemory {
    fn found(&mut self, at: Millis, new: &Account) {
        let old = self.account.clone();
        let changes = new.changes(&old).into_iter();
        let changes = changes.map(|of| Change { at, field: of.field.to_owned(), old: Some(of.old), new: Some(of.new) });
        self.changes.extend(changes);
        self.told(at, Some(new.state));
        let counts = AccountCounts {
            followers: new.counts.followers.or(old.counts.followers),
            following: new.counts.following.or(old.counts.following),
            posts: new.counts.posts.or(old.counts.posts),
            listed: new.counts.listed.or(old.counts.listed),
            likes: new.counts.likes.or(old.counts.likes),
        };
        if counts != self.account.counts {
            self.counts.push(CountsAt { checked_at: at, counts });
        }
        let posted = new.counts.posts.zip(self.account.counts.posts).is_some_and(|(new, old)| new > old);
        self.active_at = match new.last_post_at {
            None if posted => Some(at),
            last => last.max(self.active_at),
        };
        self.account = Account {
            id: new.id.clone(),
            handle: or(&new.handle, &old.handle),
            display_name: or(&new.display_name, &old.display_name),
            description: or(&new.description, &old.description),
            location: or(&new.location, &old.location),
            url: or(&new.url, &old.url),
            picture: or(&new.picture, &old.picture),
            banner: or(&new.banner, &old.banner),
            protected: new.protected.or(old.protected),
            verified: new.verified.or(old.verified),
            withheld_in: or(&new.withheld_in, &old.withheld_in),
            moved_to: or(&new.moved_to, &old.moved_to),
            counts,
            last_post_at: new.last_post_at.or(old.last_post_at),
            ..new.clone()
        };
        self.forgotten_at = None;
    }

    fn told(&mut self, at: Millis, state: Option<AccountState>) {
        if let (Some(old), Some(new)) = (self.state, state)
            && old != new
        {
            let (old, new) = (Some(old.to_string()), Some(new.to_string()));
            self.changes.push(Change { at, field: "state".to_owned(), old, new });
        }
        self.changes.sort_by(|one, other| (one.at, &one.field).cmp(&(other.at, &other.field)));
        self.state = state.or(self.state);
    }

    /// Returns true if the network gave another reason for its absence until after that moment.
    fn said_otherwise(&self, until: Millis) -> bool {
        use AccountState::{Deactivated, Protected, Suspended, Unknown};
        let others = [Suspended, Protected, Unknown];
        let words = others.map(|state| state.to_string());
        let is_other = |word: &Option<String>| word.as_ref().is_some_and(|word| words.contains(word));
        self.state.is_some_and(|state| others.contains(&state))
            || self.changes.iter().any(|of| {
                let is_last = of.field == "state" && of.new.as_ref() == Some(&Deactivated.to_string());
                is_last && is_other(&of.old) && of.at > until
            })
    }

    fn gone(
        &mut self,
        answer: &Observation<Account>,
        (reason, since): (Option<Absence>, Millis),
        handle: Option<&String>,
    ) {
        const MONTH: Millis = 30 * 24 * 3_600_000;
        let state = match reason {
            Some(Absence::Suspended) => AccountState::Suspended,
            Some(Absence::Protected) => AccountState::Protected,
            Some(Absence::NotFound)
                if answer.answered_at - since < MONTH || self.said_otherwise(answer.answered_at - MONTH) =>
            {
                AccountState::Deactivated
            }
            Some(Absence::Deactivated) => AccountState::Deactivated,
            Some(Absence::NotFound | Absence::Deleted) => AccountState::Deleted,
            None => AccountState::Unknown,
        };
        self.told(answer.answered_at, (answer.state != ItemState::Live).then_some(state));
        if answer.forget && answer.state != ItemState::Live {
            let Account { protected, verified, counts, last_post_at, .. } = self.account;
            let (withheld_in, moved_to) = (self.account.withheld_in.take(), self.account.moved_to.take());
            self.account =
                Account { protected, verified, counts, last_post_at, withheld_in, moved_to, ..Account::default() };
            self.changes.retain(|change| change.field == "state");
            self.forgotten_at = self.forgotten_at.or(Some(answer.answered_at));
        } else if let Some(handle) = handle {
            self.account.handle = Some(handle.clone());
        }
    }
}

#[async_trait]
impl Accounts for MemoryStore {
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<SaveCounts, StoreError> {
        let object = |account: &Account| Object { created_at: account.created_at, raw: account.raw.clone() };
        let lives: Vec<Observation> = answers.iter().map(|answer| answer.to_object(object)).collect();
        let saved = self.save(namespace, &lives).await?;
        for answer in answers {
            let standing = self.standing(namespace, std::slice::from_ref(&answer.id)).await?.pop().flatten();
            let taken = |known: &Option<_>| {
                let known: &Option<twitter_updater::store::Standing> = known;
                known
                    .as_ref()
                    .is_some_and(|known| known.state != ItemState::Dead && known.checked_at == Some(answer.answered_at))
            };
            if !taken(&standing) || matches!(answer.finding, Finding::Broken(_)) {
                continue;
            }
            self.with_account(namespace, &answer.id, |account| {
                if account.checked_at >= answer.answered_at {
                    return;
                }
                match &answer.finding {
                    Finding::Found(new) => account.found(answer.answered_at, new),
                    Finding::Missing { reason, since, handle, .. } => {
                        account.gone(answer, (*reason, *since), handle.as_ref())
                    }
                    Finding::Broken(_) => {}
                }
                account.checked_at = answer.answered_at;
            })?;
        }
        Ok(saved)
    }

    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<(), StoreError> {
        for seen in sightings {
            self.sighted(namespace, seen, |account| account.active_at = account.active_at.max(Some(seen.at)))?;
        }
        Ok(())
    }

    async fn schedule_inputs(
        &self,
        namespace: &str,
        ids: &[String],
    ) -> Result<Vec<Option<ScheduleInputs>>, StoreError> {
        let known = ids.iter().map(|id| self.known(namespace, id)).collect::<Result<Vec<_>, _>>()?;
        let signs = |Known { row, account, .. }: Known| ScheduleInputs {
            checked_at: row.checked_at,
            next_due: row.next_due,
            state: row.state,
            first_seen: row.first_seen,
            active_at: account.as_ref().and_then(|of| of.active_at),
            changed_at: account.as_ref().and_then(|of| of.changes.last()).map(|change| change.at),
            counts: account.as_ref().map(|of| of.account.counts).unwrap_or_default(),
            recent: row.recent,
            misses: row.misses,
        };
        Ok(known.into_iter().map(|known| known.map(signs)).collect())
    }

    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>, StoreError> {
        let known = self.known(namespace, id)?;
        let mut times: Vec<Millis> = known.map(|known| known.posts.values().copied().collect()).unwrap_or_default();
        times.sort_by_key(|at| -at);
        times.truncate(limit as usize);
        Ok(times)
    }

    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let posts = self.known(namespace, id)?.map(|known| known.posts).unwrap_or_default();
        let mut posts: Vec<(Millis, String)> = posts.into_iter().map(|(post, at)| (at, post)).collect();
        posts.sort();
        Ok(posts.into_iter().rev().take(limit as usize).map(|(_, post)| post).collect())
    }

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>, StoreError> {
        let stored = |Known { row, account, posts }: Known| {
            let of = account.unwrap_or_default();
            StoredAccount {
                id: row.id,
                state: of.state.unwrap_or_default().to_string(),
                handle: of.account.handle,
                display_name: of.account.display_name,
                description: of.account.description,
                location: of.account.location,
                url: of.account.url,
                picture: of.account.picture,
                banner: of.account.banner,
                protected: of.account.protected,
                verified: of.account.verified,
                withheld_in: of.account.withheld_in,
                moved_to: of.account.moved_to,
                counts: of.account.counts,
                created_at: row.created_at,
                last_post_at: of.account.last_post_at,
                active_at: of.active_at,
                forgotten_at: of.forgotten_at,
                collected: posts.len() as i64,
                first_seen: row.first_seen,
                checked_at: row.checked_at,
                next_due: row.next_due,
                lookups: row.lookups,
                misses: row.misses,
                missing_since: row.missing_since,
                raw: row.raw,
            }
        };
        Ok(self.known(namespace, id)?.map(stored))
    }

    async fn handle_bearers(&self, _: &str, _: &str) -> Result<Vec<HandleBearer>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>, StoreError> {
        let known = self.known(namespace, id)?.and_then(|known| known.account);
        Ok(known.map(|account| account.changes).unwrap_or_default())
    }

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>, StoreError> {
        let known = self.known(namespace, id)?.and_then(|known| known.account);
        Ok(known.map(|account| account.counts).unwrap_or_default())
    }

    async fn account_states(&self, _: &str) -> Result<Vec<AccountTotal>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn store_handles(&self, _: &str, _: &[String], _: Millis, _: u32) -> Result<bool, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn claim_handles(&self, _: &str, _: Millis, _: Millis, _: u32) -> Result<Vec<String>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn settle_handles(&self, _: &str, _: Millis, _: &[String], _: &[(String, String)]) -> Result<(), StoreError> {
        unimplemented!("no test asks the memory for it")
    }

    async fn stored_handle(&self, _: &str, _: &str) -> Result<Option<StoredHandle>, StoreError> {
        unimplemented!("no test asks the memory for it")
    }
}
