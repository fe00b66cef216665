//! What a process does by its budget of reads: nothing is asked for that was not reserved.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::budget::{Budget, ChargedReads, Reads};
use super::ledger::{Credentials, Ledger, LedgerError, Permit};
use crate::base::clock::{self, Stopwatch};
use crate::base::reload::Reloadable;

/// How long a worker waits, at the most, before it asks again whether the budget has room: somebody may raise it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a process knows of its budget.
#[derive(Debug)]
pub(super) struct BudgetState {
    budget: Reloadable<Budget>,
    /// The last answer was that it is spent: said once, and once when it goes on.
    spent: AtomicBool,
    /// When a call had no id that could be reserved: whoever asks at once would get the same.
    denied: Mutex<Option<Stopwatch>>,
}

impl Credentials {
    /// The same for a provider that charges for reads: no call is made beyond that budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Reloadable<Budget>) -> Self {
        self.budget_state = Some(BudgetState { budget, spent: AtomicBool::new(false), denied: Mutex::default() });
        self
    }

    /// The budget, where there is one.
    #[must_use]
    pub fn budget(&self) -> Option<Reloadable<Budget>> {
        self.budget_state.as_ref().map(|budget_state| budget_state.budget.clone())
    }

    /// How the budget is spent; `None` where there is none.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn reads(&self) -> Result<Option<Reads>, LedgerError> {
        match &self.budget_state {
            Some(budget_state) => Ok(Some(reads(&*self.ledger, &budget_state.budget.load()).await?)),
            None => Ok(None),
        }
    }

    /// How long to wait where the budget has no room.
    pub(super) async fn out_of_budget(&self) -> Result<Option<Duration>, LedgerError> {
        let Some(budget_state) = &self.budget_state else { return Ok(None) };
        let reads = reads(&*self.ledger, &budget_state.budget.load()).await?;
        budget_state.say(&reads);
        let denied = *budget_state.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = denied.map(|denied| ASK_AGAIN.saturating_sub(denied.elapsed())).filter(|wait| !wait.is_zero());
        let full = (!reads.has_room).then(|| clock::span(reads.reset_in_ms).min(ASK_AGAIN));
        Ok(full.or(denied))
    }

    /// Counts those of `ids` as read for which the budget has room, before the call is made. Answers for each id
    /// whether it may be asked for; `None` where reads are not counted.
    ///
    /// # Errors
    /// The ledger is out: nothing may be asked for.
    pub async fn reserve(&self, permit: &Permit, ids: &[String]) -> Result<Option<Vec<bool>>, LedgerError> {
        let Some(budget_state) = &self.budget_state else { return Ok(None) };
        let budget = budget_state.budget.load();
        let granted = match self.ledger.reserve(permit.id(), ids, &budget).await {
            // The reply is lost: the same call's ids count once.
            Err(LedgerError::Unavailable(_)) => self.ledger.reserve(permit.id(), ids, &budget).await?,
            answer => answer?,
        };
        if granted.len() != ids.len() {
            return Err(LedgerError::Refused(format!(
                "the ledger answered for {} of {} ids",
                granted.len(),
                ids.len()
            )));
        }
        if !granted.contains(&true) {
            self.denied();
        }
        Ok(Some(granted))
    }

    /// The same for all of them or none; answers whether there was room for all.
    ///
    /// # Errors
    /// The ledger is out: nothing may be asked for.
    pub async fn reserve_all(&self, permit: &Permit, ids: &[String]) -> Result<bool, LedgerError> {
        let Some(granted) = self.reserve(permit, ids).await? else { return Ok(true) };
        if !granted.contains(&false) {
            return Ok(true);
        }
        self.settle(permit, &ChargedReads { unread: ids.to_vec(), edited: Vec::new() }).await;
        self.denied();
        Ok(false)
    }

    /// Whoever asks again at once would get the same.
    fn denied(&self) {
        if let Some(budget_state) = &self.budget_state {
            *budget_state.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::start());
        }
    }

    /// What came of the ids that were reserved for that call. A ledger that is out loses no money by it: what was
    /// reserved stays counted.
    pub async fn settle(&self, permit: &Permit, charged: &ChargedReads) {
        let Some(budget_state) = &self.budget_state else { return };
        if *charged == ChargedReads::default() {
            return;
        }
        let budget = budget_state.budget.load();
        let told = match self.ledger.settle(permit.id(), charged, &budget).await {
            // Said again, it changes nothing.
            Err(LedgerError::Unavailable(_)) => self.ledger.settle(permit.id(), charged, &budget).await,
            answer => answer,
        };
        if let Err(error) = told {
            tracing::warn!(error = %error, ids = charged.unread.len(), "what was not read stays counted as read");
        }
    }
}

async fn reads(ledger: &dyn Ledger, budget: &Budget) -> Result<Reads, LedgerError> {
    Ok(budget.reads(&ledger.counted(budget.per).await?))
}

impl BudgetState {
    /// Once when it stops, and once when it goes on.
    fn say(&self, reads: &Reads) {
        let Reads { reads, limit, spent, reset_in_ms, .. } = *reads;
        if self.spent.swap(spent, Ordering::Relaxed) == spent {
            return;
        }
        let limit = limit.unwrap_or(0);
        if spent {
            tracing::warn!(
                reads,
                limit,
                reset_in_ms,
                "the budget of reads is spent: nothing is asked for until its reset"
            );
        } else {
            tracing::info!(reads, limit, "the budget of reads has room again");
        }
    }
}
