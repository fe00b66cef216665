//! Follows and unfollows accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::visits_pipeline;
use crate::ingest::{Queued, Starter, StarterError};
use engine::base::clock::Millis;
use engine::queue::Queue;
use networks::model::provider::Provider;
use store::{FollowList, Part, StoreError};

#[derive(Debug, Clone)]
pub struct PartQueue {
    pub queue: Arc<dyn Queue>,
    pub starter: Starter,
}

#[derive(Debug, Clone)]
pub struct Follower {
    pub provider: Provider,
    /// All parts, from 0 on.
    pub parts: Vec<PartQueue>,
    pub followed: Arc<dyn FollowList>,
}

impl Follower {
    /// Namespace without a part.
    #[must_use]
    pub fn namespace(&self) -> String {
        visits_pipeline(&self.provider, 0).to_string()
    }

    /// Part of an account that is not followed yet, by its hash.
    fn initial_part(&self, account: &str) -> Part {
        let mut hasher = DefaultHasher::new();
        account.hash(&mut hasher);
        let parts = self.parts.len().max(1) as u64;
        Part::try_from(hasher.finish() % parts).unwrap_or(0)
    }

    fn with_initial_parts(&self, accounts: &[String]) -> Vec<(String, Part)> {
        accounts.iter().map(|account| (account.clone(), self.initial_part(account))).collect()
    }

    /// Removes accounts from all queues, also those that an interrupted call already took from the list.
    async fn remove_from_queues(&self, accounts: &[String]) -> Result<(), StarterError> {
        for part in &self.parts {
            part.queue.forget(accounts).await?;
        }
        // A person may have followed one of them meanwhile, and expects it in its queue.
        let followed = self.parts_of_accounts(accounts).await?;
        self.enqueue(accounts, followed).await.map(drop)
    }

    /// Skips accounts without a part. Returns the number of accounts that are new in a queue.
    async fn enqueue(&self, accounts: &[String], parts: Vec<Option<Part>>) -> Result<u64, StarterError> {
        let mut by_part = BTreeMap::<Part, BTreeSet<&str>>::new();
        for (account, part) in accounts.iter().zip(parts) {
            if let Some(part) = part {
                by_part.entry(part).or_default().insert(account);
            }
        }
        let mut new = 0;
        for (part, ids) in by_part {
            new += self.enqueue_in_part(part, ids, &[]).await?;
        }
        Ok(new)
    }

    fn part_queue(&self, part: Part) -> Result<&PartQueue, StarterError> {
        let queue = usize::try_from(part).ok().and_then(|part| self.parts.get(part));
        let beyond =
            || format!("an account is in part {part}, and visits.parts is {}: run `accounts divide`", self.parts.len());
        queue.ok_or_else(|| StoreError::Refused(beyond()).into())
    }

    /// `None` for an account that is not followed.
    pub async fn parts_of_accounts(&self, accounts: &[String]) -> Result<Vec<Option<Part>>, StoreError> {
        self.followed.followed(&self.namespace(), accounts).await
    }

    /// Each account is visited as soon as the quota allows. Returns the number of accounts that are new in a queue. After an error, the
    /// same call does the rest.
    pub async fn follow(&self, at: Millis, accounts: &[String]) -> Result<u64, StarterError> {
        let parts = self.followed.follow(&self.namespace(), at, &self.with_initial_parts(accounts)).await?;
        self.enqueue(accounts, parts.into_iter().map(Some).collect()).await
    }

    /// Follows accounts that are not followed, or that one of the communities `all` follows. An account that a person follows stays
    /// that person's. After an error, the same call does the rest.
    pub async fn follow_for_community(
        &self,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<(), StarterError> {
        let given = self.with_initial_parts(accounts);
        let ours = self.followed.follow_for_community(&self.namespace(), at, &given, community, all).await?;
        self.follow(at, &ours).await.map(drop)
    }

    /// `come`: accounts from another part. Returns the number of accounts that were not in the part's queue.
    pub(super) async fn enqueue_in_part(
        &self,
        part: Part,
        accounts: BTreeSet<&str>,
        come: &[String],
    ) -> Result<u64, StarterError> {
        let starter = &self.part_queue(part)?.starter;
        let admitted = starter.record_ids(accounts).await?;
        if !come.is_empty() {
            // This part may have visited some of them before. Before the list names it, so that an interrupted call leaves no old delay
            // behind.
            starter.clear_delays(&admitted, come).await?;
            self.followed.move_to_part(&self.namespace(), part, come).await?;
        }
        let answers = starter.hand_over(&admitted).await?;
        Ok(answers.iter().filter(|answer| **answer == Queued::Scheduled).count() as u64)
    }

    /// Unfollows accounts; returns the number that were followed. Their data stays. A visit in progress is finished, and is the last one.
    pub async fn unfollow(&self, at: Millis, accounts: &[String]) -> Result<u64, StarterError> {
        let left = self.followed.unfollow(&self.namespace(), at, accounts).await?;
        self.remove_from_queues(accounts).await?;
        Ok(left.len() as u64)
    }

    /// Unfollows accounts that only this community follows, and removes them from the queues. After an error, the same call does the rest.
    pub async fn unfollow_for_community(
        &self,
        at: Millis,
        accounts: &[String],
        community: &str,
        all: &[String],
    ) -> Result<(), StarterError> {
        self.followed.unfollow_for_community(&self.namespace(), at, accounts, community, all).await?;
        // Accounts that a person or another community follows stay in their queue.
        let followed = self.parts_of_accounts(accounts).await?;
        let gone = accounts.iter().zip(followed).filter(|(_, part)| part.is_none());
        self.remove_from_queues(&gone.map(|(account, _)| account.clone()).collect::<Vec<_>>()).await
    }
}
