//! Decisions of people: they win over the rule, and stay with who made them and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::schedule::judged;
use crate::base::clock::Millis;
use crate::engine::queue::{Due, NewJob};
use crate::ingest::{Starter, StarterError};
use crate::model::community::Belonging;
use crate::store::{Communities, HandDecision, Store};

/// Takes decisions of people for a community.
#[derive(Debug, Clone)]
pub struct ByHand {
    /// The community's pipeline in queue and store.
    pub namespace: String,
    /// The store,
    pub store: Arc<dyn Store>,
    /// and the communities in it.
    pub communities: Arc<dyn Communities>,
    /// Puts accounts into the pipeline.
    pub starter: Starter,
}

impl ByHand {
    /// Stores a decision about accounts, and has them judged at once: what follows from it is collected then. `at` is now, ms
    /// since the epoch. Accounts are recorded first: one that is in no queue is found by a rebuild. Answers those of which
    /// nothing is stored, since their persons asked to be forgotten.
    ///
    /// # Errors
    /// A service is out; the same may be repeated.
    pub async fn decide(
        &self,
        accounts: &[String],
        state: Belonging,
        who: &str,
        why: &str,
        at: Millis,
    ) -> Result<Vec<String>, StarterError> {
        let ids: BTreeSet<&str> = accounts.iter().map(String::as_str).collect();
        let recorded = self.starter.record_ids(ids).await?;
        let decisions: Vec<_> =
            accounts.iter().map(|account| HandDecision { account: account.clone(), state }).collect();
        self.communities.decide_by_hand(&self.namespace, at, who, why, &decisions).await?;
        self.starter.hand_over(&recorded).await?;
        let known = self.communities.belonging(&self.namespace, accounts).await?;
        let known = accounts.iter().zip(known).map(|(account, state)| (account.clone(), state.is_some()));
        let (kept, forgotten): (Vec<_>, Vec<_>) = known.partition(|(_, is_known)| *is_known);
        let ids = |of: Vec<(String, bool)>| of.into_iter().map(|(account, _)| account).collect::<Vec<String>>();
        self.judge_now(&ids(kept), at).await?;
        Ok(ids(forgotten))
    }

    /// Has accounts judged now.
    ///
    /// # Errors
    /// As [`ByHand::decide`].
    pub async fn judge_now(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let dates: Vec<_> = accounts.iter().map(|account| (account.clone(), at)).collect();
        self.store.promote(&self.namespace, &dates).await?;
        let job = |id: &String| NewJob { id: id.clone(), lane: judged(), due: Due::At(at) };
        self.starter.move_jobs(&accounts.iter().map(job).collect::<Vec<_>>(), &[]).await
    }
}
