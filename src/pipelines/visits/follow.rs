//! Follows accounts, and follows them no more, while they are visited.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::visits_of;
use crate::base::clock::Millis;
use crate::engine::queue::Queue;
use crate::ingest::{Queued, Starter, StarterError};
use crate::model::provider::Provider;
use crate::store::{FollowList, Part, StoreError};

/// A part of the work: its queue, and what puts accounts into it.
#[derive(Debug, Clone)]
pub struct PartQueue {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// Puts accounts in.
    pub starter: Starter,
}

/// Changes the list of a provider's followed accounts.
#[derive(Debug, Clone)]
pub struct Follower {
    /// The provider.
    pub provider: Provider,
    /// All parts, from 0 on.
    pub parts: Vec<PartQueue>,
    /// The list.
    pub followed: Arc<dyn FollowList>,
}

impl Follower {
    /// The pipeline without its part.
    #[must_use]
    pub fn namespace(&self) -> String {
        visits_of(&self.provider, 0).to_string()
    }

    /// The part of an account that nobody follows yet: evenly, and the same each time.
    fn part(&self, account: &str) -> Part {
        let mut hasher = DefaultHasher::new();
        account.hash(&mut hasher);
        let parts = self.parts.len().max(1) as u64;
        Part::try_from(hasher.finish() % parts).unwrap_or(0)
    }

    /// Each with the part of one that nobody follows yet.
    fn with_parts(&self, accounts: &[String]) -> Vec<(String, Part)> {
        accounts.iter().map(|account| (account.clone(), self.part(account))).collect()
    }

    /// Takes accounts out of all queues: also those that an interrupted call took from the list already.
    async fn forget(&self, accounts: &[String]) -> Result<(), StarterError> {
        for part in &self.parts {
            part.queue.forget(accounts).await?;
        }
        // Somebody may have followed one of them meanwhile, and was told that it is in its queue.
        let followed = self.parts(accounts).await?;
        self.put(accounts, followed).await.map(drop)
    }

    /// Puts each account into the queue of its part, if it has one. Answers how many were not there.
    async fn put(&self, accounts: &[String], parts: Vec<Option<Part>>) -> Result<u64, StarterError> {
        let mut by_part = BTreeMap::<Part, BTreeSet<&str>>::new();
        for (account, part) in accounts.iter().zip(parts) {
            if let Some(part) = part {
                by_part.entry(part).or_default().insert(account);
            }
        }
        let mut new = 0;
        for (part, ids) in by_part {
            new += self.put_into(part, ids, &[]).await?;
        }
        Ok(new)
    }

    fn queue(&self, part: Part) -> Result<&PartQueue, StarterError> {
        let queue = usize::try_from(part).ok().and_then(|part| self.parts.get(part));
        let beyond =
            || format!("an account is in part {part}, and visits.parts is {}: run `accounts divide`", self.parts.len());
        queue.ok_or_else(|| StoreError::Refused(beyond()).into())
    }

    /// The part of each account; `None` for one that nobody follows.
    ///
    /// # Errors
    /// The store is out.
    pub async fn parts(&self, accounts: &[String]) -> Result<Vec<Option<Part>>, StoreError> {
        self.followed.followed(&self.namespace(), accounts).await
    }

    /// Follows accounts; each is visited as soon as the quota allows. `at`: ms since the epoch. The list has them before their
    /// lives begin, and the queue last: whatever is interrupted, the same call again does the rest. Answers how many are new in a
    /// queue.
    ///
    /// # Errors
    /// A service is out.
    pub async fn follow(&self, at: Millis, accounts: &[String]) -> Result<u64, StarterError> {
        let parts = self.followed.follow(&self.namespace(), at, &self.with_parts(accounts)).await?;
        self.put(accounts, parts.into_iter().map(Some).collect()).await
    }

    /// Follows accounts for a community's sake: those that nobody follows, or that one of the communities `all` follows. What a
    /// person follows stays that person's.
    ///
    /// # Errors
    /// A service is out; the same call again does the rest.
    pub async fn follow_for(
        &self,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<(), StarterError> {
        let given = self.with_parts(accounts);
        let ours = self.followed.follow_for(&self.namespace(), at, &given, community, all).await?;
        self.follow(at, &ours).await.map(drop)
    }

    /// Puts accounts into a part: those that `come` from another part are in the list as its own from then on. Answers how many
    /// were not in its queue.
    pub(super) async fn put_into(
        &self,
        part: Part,
        accounts: BTreeSet<&str>,
        come: &[String],
    ) -> Result<u64, StarterError> {
        let starter = &self.queue(part)?.starter;
        let admitted = starter.record_ids(accounts).await?;
        if !come.is_empty() {
            // This part may have visited some of them before. Before the list names it, so that a call that is cut off here leaves
            // no old delay behind.
            starter.clear_delays(&admitted, come).await?;
            self.followed.move_to(&self.namespace(), part, come).await?;
        }
        let answers = starter.hand_over(&admitted).await?;
        Ok(answers.iter().filter(|answer| **answer == Queued::Scheduled).count() as u64)
    }

    /// Follows accounts no more; answers how many were followed. What was collected of them stays. A visit that is under way is
    /// finished, and is the last one.
    ///
    /// # Errors
    /// A service is out.
    pub async fn unfollow(&self, at: Millis, accounts: &[String]) -> Result<u64, StarterError> {
        let left = self.followed.unfollow(&self.namespace(), at, accounts).await?;
        self.forget(accounts).await?;
        Ok(left.len() as u64)
    }

    /// Follows accounts no more that are followed for this community's sake alone, as [`Self::unfollow`] does.
    ///
    /// # Errors
    /// A service is out; the same call again does the rest.
    pub async fn unfollow_for(
        &self,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<(), StarterError> {
        self.followed.unfollow_for(&self.namespace(), at, accounts, community, all).await?;
        // Whom a person, or another community, follows stays in its queue.
        let followed = self.parts(accounts).await?;
        let gone = accounts.iter().zip(followed).filter(|(_, part)| part.is_none());
        self.forget(&gone.map(|(account, _)| account.clone()).collect::<Vec<_>>()).await
    }
}
