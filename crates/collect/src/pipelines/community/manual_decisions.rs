//! Decisions by people. They override the rule, and are stored with their author and reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::schedule::judged_lane;
use crate::ingest::{Starter, StarterError};
use engine::base::clock::Millis;
use engine::queue::{Due, NewJob};
use networks::model::community::Belonging;
use store::{Communities, HandDecision, Store};

#[derive(Debug, Clone)]
pub struct ManualDecisions {
    pub namespace: String,
    pub store: Arc<dyn Store>,
    pub communities: Arc<dyn Communities>,
    pub starter: Starter,
}

impl ManualDecisions {
    /// Stores a decision about accounts, and makes them due for judgement at `at` (now). The judgement adjusts their collection.
    /// Returns the accounts whose owners asked to be forgotten: nothing is stored for them. May be repeated after an error.
    pub async fn decide(
        &self,
        accounts: &[String],
        state: Belonging,
        author: &str,
        reason: &str,
        at: Millis,
    ) -> Result<Vec<String>, StarterError> {
        // Recorded first, so that a rebuild finds those in no queue.
        let ids: BTreeSet<&str> = accounts.iter().map(String::as_str).collect();
        let recorded = self.starter.record_ids(ids).await?;
        let decisions: Vec<_> =
            accounts.iter().map(|account| HandDecision { account: account.clone(), state }).collect();
        self.communities.save_hand_decisions(&self.namespace, at, author, reason, &decisions).await?;
        self.starter.hand_over(&recorded).await?;
        let known = self.communities.belonging(&self.namespace, accounts).await?;
        let known = accounts.iter().zip(known).map(|(account, state)| (account.clone(), state.is_some()));
        let (kept, forgotten): (Vec<_>, Vec<_>) = known.partition(|(_, is_known)| *is_known);
        let ids = |of: Vec<(String, bool)>| of.into_iter().map(|(account, _)| account).collect::<Vec<String>>();
        self.schedule_judgement_now(&ids(kept), at).await?;
        Ok(ids(forgotten))
    }

    pub async fn schedule_judgement_now(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let dates: Vec<_> = accounts.iter().map(|account| (account.clone(), at)).collect();
        self.store.promote(&self.namespace, &dates).await?;
        let job = |id: &String| NewJob { id: id.clone(), lane: judged_lane(), due: Due::At(at) };
        self.starter.move_jobs(&accounts.iter().map(job).collect::<Vec<_>>(), &[]).await
    }
}
