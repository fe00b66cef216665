//! The credentials of a process. They give permits for calls, within the budget of reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budget::{Budget, BudgetStatus, ChargedReads};
use super::credential::Credential;
use super::ledger::{CallRecord, CredentialStatus, Ledger, LedgerError, PermitRequest};
use super::rate_window::Grant;
use crate::base::clock::{self, Stopwatch};
use crate::base::humanize;
use crate::base::random;
use crate::base::reload::Reloadable;

/// Longest wait of a worker before it checks the budget again: the operator may have raised it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A permit for one call with one credential. If it is dropped before its call [starts](Permit::mark_started), it returns to the
/// ledger automatically. If its process dies it counts as spent: the call may have gone out.
#[derive(Debug)]
pub struct Permit {
    pub credential: Arc<Credential>,
    endpoint: &'static str,
    id: String,
    is_trial: bool,
    /// The ledger to which it returns; `None` once its call has started.
    from: Option<Arc<dyn Ledger>>,
}

impl Permit {
    fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if this is a trial: the one call after a pause, which shows whether the API still rejects the credential.
    #[must_use]
    pub fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// Marks the call as started. From here on it may reach the API, so the permit does not return to the ledger.
    pub fn mark_started(&mut self) {
        self.from = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (Some(ledger), Ok(runtime)) = (self.from.take(), tokio::runtime::Handle::try_current()) else { return };
        let (credential, endpoint, id) = (self.credential.clone(), self.endpoint, std::mem::take(&mut self.id));
        runtime.spawn(async move { return_permit(&*ledger, &credential.name, endpoint, &id).await });
    }
}

async fn return_permit(ledger: &dyn Ledger, name: &str, endpoint: &str, id: &str) {
    if let Err(error) = ledger.return_permit(name, endpoint, id).await {
        tracing::warn!(error = %error, credential = name, "returning a permit failed: it counts as a call");
    }
}

#[derive(Debug)]
pub enum AcquireOutcome {
    Granted(Permit),
    /// No credential may call now. The caller waits this long.
    Wait(Duration),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Spread if more calls are due than the window has left, else immediate.
    #[default]
    Auto,
    Paced,
    /// Always immediate. No call is possible once the window is used up.
    Greedy,
}

#[derive(Debug)]
pub struct Credentials {
    credentials: Vec<Arc<Credential>>,
    names: Vec<String>,
    fingerprints: Vec<String>,
    ledger: Arc<dyn Ledger>,
    pacing: Pacing,
    expiry: Duration,
    budget_state: Option<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    budget: Reloadable<Budget>,
    /// True if the last check found the budget spent. Each change is logged once.
    spent: AtomicBool,
    /// Time since a call for which no id could be reserved. An immediate repeat would get the same result.
    denied: Mutex<Option<Stopwatch>>,
}

impl Credentials {
    /// A permit without an outcome counts as spent after `expiry`.
    pub fn new(credentials: Vec<Credential>, ledger: Arc<dyn Ledger>, pacing: Pacing, expiry: Duration) -> Self {
        let names = credentials.iter().map(|credential| credential.name.clone()).collect();
        let fingerprints = credentials.iter().map(Credential::fingerprint).collect();
        let credentials = credentials.into_iter().map(Arc::new).collect();
        Self { credentials, names, fingerprints, ledger, pacing, expiry, budget_state: None }
    }

    pub fn all(&self) -> &[Arc<Credential>] {
        &self.credentials
    }

    #[must_use]
    pub fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Requests a permit for one call to `endpoint`, where `backlog` calls are due. There is none while the budget of reads is spent.
    pub async fn acquire(&self, endpoint: &'static str, backlog: u64) -> Result<AcquireOutcome, LedgerError> {
        let backlog = match self.pacing {
            Pacing::Auto => backlog,
            Pacing::Paced => u64::from(u32::MAX),
            Pacing::Greedy => 0,
        };
        self.acquire_any_of(&self.names, &self.fingerprints, endpoint, backlog).await
    }

    /// Requests a permit for one call to `endpoint` with this credential only, without waiting.
    pub async fn acquire_for(
        &self,
        credential: &Credential,
        endpoint: &'static str,
    ) -> Result<AcquireOutcome, LedgerError> {
        let fingerprint = self.fingerprint(&credential.name).to_owned();
        let (names, fingerprints) = (std::slice::from_ref(&credential.name), std::slice::from_ref(&fingerprint));
        self.acquire_any_of(names, fingerprints, endpoint, 0).await
    }

    async fn acquire_any_of(
        &self,
        names: &[String],
        fingerprints: &[String],
        endpoint: &'static str,
        backlog: u64,
    ) -> Result<AcquireOutcome, LedgerError> {
        if let Some(wait) = self.budget_wait().await? {
            return Ok(AcquireOutcome::Wait(wait));
        }
        let id = format!("{:016x}", random::number());
        let request = PermitRequest { names, fingerprints, endpoint, permit: &id, expiry: self.expiry, backlog };
        let grant = match self.ledger.acquire(&request).await {
            // The reply is lost: request the same permit again.
            Err(LedgerError::Unavailable(_)) => self.ledger.acquire(&request).await?,
            answer => answer?,
        };
        let (name, is_trial) = match grant {
            Grant::Wait(wait) => return Ok(AcquireOutcome::Wait(wait)),
            Grant::Granted(name) => (name, false),
            Grant::Trial(name) => (name, true),
        };
        // The ledger grants only requested names.
        let Some(credential) = self.credentials.iter().find(|credential| credential.name == name) else {
            return Err(LedgerError::Refused(format!("the ledger granted an unknown credential {name:?}")));
        };
        let from = Some(self.ledger.clone());
        Ok(AcquireOutcome::Granted(Permit { credential: credential.clone(), endpoint, id, is_trial, from }))
    }

    /// Records a call and its response. If the ledger is down no quota is lost: the permit expires and counts as spent.
    pub async fn record_call(&self, mut permit: Permit, record: CallRecord) {
        permit.mark_started();
        let Permit { credential, endpoint, id, .. } = &permit;
        let record = CallRecord { fingerprint: self.fingerprint(&credential.name).to_owned(), ..record };
        if let Err(error) = self.ledger.record_call(&credential.name, endpoint, id, &record).await {
            tracing::warn!(error = %error, credential = credential.name, "the ledger did not record an answer");
        }
    }

    /// Returns the permit of a call that is not made. The permit is back when this function ends.
    pub async fn return_permit(&self, mut permit: Permit) {
        if let Some(ledger) = permit.from.take() {
            return_permit(&*ledger, &permit.credential.name, permit.endpoint, &permit.id).await;
        }
    }

    /// Records the quota window or the pause of a credential at `endpoint` after a call that took no permit of the ledger.
    pub async fn record_call_elsewhere(
        &self,
        name: &str,
        endpoint: &str,
        record: CallRecord,
    ) -> Result<(), LedgerError> {
        let record = CallRecord { fingerprint: self.fingerprint(name).to_owned(), ..record };
        self.ledger.record_call(name, endpoint, "", &record).await
    }

    /// Ends the pause of a credential at every endpoint: the API accepts it. Returns true if it was parked.
    pub async fn unpark(&self, name: &str) -> Result<bool, LedgerError> {
        self.ledger.unpark(name, self.fingerprint(name)).await
    }

    pub async fn statuses(&self, endpoint: &str) -> Result<Vec<CredentialStatus>, LedgerError> {
        self.ledger.statuses(endpoint, &self.names, &self.fingerprints).await
    }

    /// Logs the credentials that are parked at that endpoint, with reason and end of the pause. Called at start. Ignores errors of
    /// the ledger: the first call reports them.
    pub async fn warn_of_parked(&self, endpoint: &str) {
        for account in self.statuses(endpoint).await.unwrap_or_default() {
            if account.parked_for_ms > 0 {
                let until = humanize::format_time(clock::wall_ms() + account.parked_for_ms);
                let (credential, why) = (account.name, account.parked_why.unwrap_or_default());
                tracing::warn!(
                    credential,
                    endpoint,
                    until,
                    why,
                    "a credential is parked after an earlier refusal; a new secret is tried at once"
                );
            }
        }
    }

    fn fingerprint(&self, name: &str) -> &str {
        let mut all = self.names.iter().zip(&self.fingerprints);
        all.find(|(known, _)| *known == name).map_or("", |(_, fingerprint)| fingerprint)
    }

    /// Adds the budget, for an API that charges for reads. No call goes beyond it.
    #[must_use]
    pub fn with_budget(mut self, budget: Reloadable<Budget>) -> Self {
        self.budget_state = Some(BudgetState { budget, spent: AtomicBool::new(false), denied: Mutex::default() });
        self
    }

    /// Budget of reads; `None` if reads are not charged.
    #[must_use]
    pub fn budget(&self) -> Option<Reloadable<Budget>> {
        self.budget_state.as_ref().map(|budget_state| budget_state.budget.clone())
    }

    /// State of the budget of reads; `None` if reads are not charged.
    pub async fn budget_status(&self) -> Result<Option<BudgetStatus>, LedgerError> {
        match &self.budget_state {
            Some(budget_state) => Ok(Some(budget_status(&*self.ledger, &budget_state.budget.load()).await?)),
            None => Ok(None),
        }
    }

    async fn budget_wait(&self) -> Result<Option<Duration>, LedgerError> {
        let Some(budget_state) = &self.budget_state else { return Ok(None) };
        let reads = budget_status(&*self.ledger, &budget_state.budget.load()).await?;
        budget_state.log_change(&reads);
        let denied = *budget_state.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = denied.map(|denied| ASK_AGAIN.saturating_sub(denied.elapsed())).filter(|wait| !wait.is_zero());
        let full = (!reads.has_room).then(|| clock::span(reads.reset_in_ms).min(ASK_AGAIN));
        Ok(full.or(denied))
    }

    /// Counts the `ids` for which the budget has room as read, before the call. Returns for each id whether the call may
    /// request it; `None` if reads are not counted.
    ///
    /// # Errors
    /// The ledger is down: the call may request no id.
    pub async fn reserve(&self, permit: &Permit, ids: &[String]) -> Result<Option<Vec<bool>>, LedgerError> {
        let Some(budget_state) = &self.budget_state else { return Ok(None) };
        let budget = budget_state.budget.load();
        let granted = match self.ledger.reserve(permit.id(), ids, &budget).await {
            // The reply is lost. Within the same call each id counts once.
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
            self.record_denial();
        }
        Ok(Some(granted))
    }

    /// Reserves reads for items with several ids. Returns true for each item whose ids all fit: a call may request it. Ids of the other
    /// items are not counted. `None`: there is no budget.
    pub async fn reserve_items(
        &self,
        permit: &Permit,
        items: &[Vec<String>],
    ) -> Result<Option<Vec<bool>>, LedgerError> {
        let Some(granted) = self.reserve(permit, &items.concat()).await? else { return Ok(None) };
        let (mut rest, mut whole, mut unread) = (&granted[..], Vec::with_capacity(items.len()), Vec::new());
        for ids in items {
            let (own, others) = rest.split_at(ids.len());
            rest = others;
            whole.push(!own.contains(&false));
            if own.contains(&false) {
                unread.extend(ids.iter().zip(own).filter(|(_, granted)| **granted).map(|(id, _)| id.clone()));
            }
        }
        self.charge(permit, &ChargedReads { unread, edited: Vec::new() }).await;
        if !whole.contains(&true) {
            self.record_denial();
        }
        Ok(Some(whole))
    }

    /// Reserves reads for all ids or for none. Returns true if the budget has room for all, or if there is no budget.
    pub async fn reserve_all(&self, permit: &Permit, ids: &[String]) -> Result<bool, LedgerError> {
        let Some(granted) = self.reserve(permit, ids).await? else { return Ok(true) };
        if !granted.contains(&false) {
            return Ok(true);
        }
        self.charge(permit, &ChargedReads { unread: ids.to_vec(), edited: Vec::new() }).await;
        self.record_denial();
        Ok(false)
    }

    fn record_denial(&self) {
        if let Some(budget_state) = &self.budget_state {
            *budget_state.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::start());
        }
    }

    /// Records the outcome of reserved ids. If the ledger is down, they stay counted.
    pub async fn charge(&self, permit: &Permit, charged: &ChargedReads) {
        let Some(budget_state) = &self.budget_state else { return };
        if *charged == ChargedReads::default() {
            return;
        }
        let budget = budget_state.budget.load();
        let result = match self.ledger.charge(permit.id(), charged, &budget).await {
            // Repeating it changes nothing.
            Err(LedgerError::Unavailable(_)) => self.ledger.charge(permit.id(), charged, &budget).await,
            answer => answer,
        };
        if let Err(error) = result {
            tracing::warn!(error = %error, ids = charged.unread.len(), "refunding reads failed: ids that were not read stay counted");
        }
    }
}

async fn budget_status(ledger: &dyn Ledger, budget: &Budget) -> Result<BudgetStatus, LedgerError> {
    Ok(budget.status(&ledger.counted_reads(budget.per).await?))
}

impl BudgetState {
    /// Logs once when calls stop, and once when they go on.
    fn log_change(&self, reads: &BudgetStatus) {
        let BudgetStatus { reads, limit, spent, reset_in_ms, .. } = *reads;
        if self.spent.swap(spent, Ordering::Relaxed) == spent {
            return;
        }
        let limit = limit.unwrap_or(0);
        if spent {
            tracing::warn!(reads, limit, reset_in_ms, "the budget of reads is spent: calls stop until its reset");
        } else {
            tracing::info!(reads, limit, "the budget of reads has room again");
        }
    }
}
