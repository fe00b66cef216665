//! The credentials of a process. They give permits for calls, within the budget of reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budget::{Budget, ChargedReads, Reads};
use super::credential::Credential;
use super::ledger::{Ask, CredentialStatus, Ledger, LedgerError, Used};
use super::rate_window::Grant;
use crate::base::clock::{self, Stopwatch};
use crate::base::humanize;
use crate::base::random;
use crate::base::reload::Reloadable;

/// Longest wait of a worker before it checks the budget again: the operator may have raised it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A permit for one call with one credential. A response or a failed call uses it up. If it is dropped before
/// its call [begins](Permit::begin), it returns to the ledger automatically. If its process dies it counts as spent: the call may
/// have gone out.
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
    pub fn begin(&mut self) {
        self.from = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (Some(ledger), Ok(runtime)) = (self.from.take(), tokio::runtime::Handle::try_current()) else { return };
        let (credential, endpoint, id) = (self.credential.clone(), self.endpoint, std::mem::take(&mut self.id));
        runtime.spawn(async move { give_back(&*ledger, &credential.name, endpoint, &id).await });
    }
}

async fn give_back(ledger: &dyn Ledger, name: &str, endpoint: &str, id: &str) {
    if let Err(error) = ledger.give_back(name, endpoint, id).await {
        tracing::warn!(error = %error, credential = name, "a permit could not be given back: it counts as spent");
    }
}

#[derive(Debug)]
pub enum Acquired {
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
    /// Fingerprints of the credentials' secrets, in the same order.
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

    /// Requests a permit for one call to `endpoint`, where `backlog` calls are due. While the budget of reads is spent
    /// there is none, not even for ids that would be free.
    pub async fn acquire(&self, endpoint: &'static str, backlog: u64) -> Result<Acquired, LedgerError> {
        let backlog = match self.pacing {
            Pacing::Auto => backlog,
            Pacing::Paced => u64::from(u32::MAX),
            Pacing::Greedy => 0,
        };
        self.acquire_of(&self.names, &self.fingerprints, endpoint, backlog).await
    }

    /// Requests a permit for one call to `endpoint` with this credential only, without waiting.
    pub async fn acquire_for(&self, credential: &Credential, endpoint: &'static str) -> Result<Acquired, LedgerError> {
        let fingerprint = self.fingerprint(&credential.name).to_owned();
        let (names, fingerprints) = (std::slice::from_ref(&credential.name), std::slice::from_ref(&fingerprint));
        self.acquire_of(names, fingerprints, endpoint, 0).await
    }

    async fn acquire_of(
        &self,
        names: &[String],
        fingerprints: &[String],
        endpoint: &'static str,
        backlog: u64,
    ) -> Result<Acquired, LedgerError> {
        if let Some(wait) = self.out_of_budget().await? {
            return Ok(Acquired::Wait(wait));
        }
        let id = format!("{:016x}", random::number());
        let ask = Ask { names, fingerprints, endpoint, permit: &id, expiry: self.expiry, backlog };
        let grant = match self.ledger.acquire(&ask).await {
            // The reply is lost: request the same permit again.
            Err(LedgerError::Unavailable(_)) => self.ledger.acquire(&ask).await?,
            answer => answer?,
        };
        let (name, is_trial) = match grant {
            Grant::Wait(wait) => return Ok(Acquired::Wait(wait)),
            Grant::Granted(name) => (name, false),
            Grant::Trial(name) => (name, true),
        };
        // The ledger grants only requested names.
        let Some(credential) = self.credentials.iter().find(|credential| credential.name == name) else {
            return Err(LedgerError::Refused(format!("the ledger granted an unknown credential {name:?}")));
        };
        let from = Some(self.ledger.clone());
        Ok(Acquired::Granted(Permit { credential: credential.clone(), endpoint, id, is_trial, from }))
    }

    /// Records a call and its response. If the ledger is down no quota is lost: the permit expires and counts as spent.
    pub async fn used(&self, mut permit: Permit, used: Used) {
        permit.begin();
        let Permit { credential, endpoint, id, .. } = &permit;
        let used = Used { fingerprint: self.fingerprint(&credential.name).to_owned(), ..used };
        if let Err(error) = self.ledger.used(&credential.name, endpoint, id, &used).await {
            tracing::warn!(error = %error, credential = credential.name, "the ledger did not record an answer");
        }
    }

    /// Returns the permit of a call that is not made. The permit is back when this function ends.
    pub async fn give_back(&self, mut permit: Permit) {
        if let Some(ledger) = permit.from.take() {
            give_back(&*ledger, &permit.credential.name, permit.endpoint, &permit.id).await;
        }
    }

    /// Records the state of a credential at `endpoint`, as stated by a call elsewhere that took no permit.
    pub async fn learnt(&self, name: &str, endpoint: &str, used: Used) -> Result<(), LedgerError> {
        let used = Used { fingerprint: self.fingerprint(name).to_owned(), ..used };
        self.ledger.used(name, endpoint, "", &used).await
    }

    /// Ends the pause of a credential at every endpoint: the API accepts it. Returns true if it was parked.
    pub async fn free(&self, name: &str) -> Result<bool, LedgerError> {
        self.ledger.free(name, self.fingerprint(name)).await
    }

    pub async fn statuses(&self, endpoint: &str) -> Result<Vec<CredentialStatus>, LedgerError> {
        self.ledger.statuses(endpoint, &self.names, &self.fingerprints).await
    }

    /// Logs the credentials that are parked at that endpoint, with reason and end of the pause. Called at start, since the process does
    /// not use them. Ignores errors of the ledger: the first call reports them.
    pub async fn warn_of_parked(&self, endpoint: &str) {
        for account in self.statuses(endpoint).await.unwrap_or_default() {
            if account.parked_for_ms > 0 {
                let until = humanize::when(clock::wall_ms() + account.parked_for_ms);
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

    #[must_use]
    pub fn budget(&self) -> Option<Reloadable<Budget>> {
        self.budget_state.as_ref().map(|budget_state| budget_state.budget.clone())
    }

    pub async fn reads(&self) -> Result<Option<Reads>, LedgerError> {
        match &self.budget_state {
            Some(budget_state) => Ok(Some(reads(&*self.ledger, &budget_state.budget.load()).await?)),
            None => Ok(None),
        }
    }

    async fn out_of_budget(&self) -> Result<Option<Duration>, LedgerError> {
        let Some(budget_state) = &self.budget_state else { return Ok(None) };
        let reads = reads(&*self.ledger, &budget_state.budget.load()).await?;
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
            self.denied();
        }
        Ok(Some(granted))
    }

    /// The same for items with several ids each. A call may request an item if there is room for all of its ids. The ids of
    /// other items are not counted.
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
            self.denied();
        }
        Ok(Some(whole))
    }

    /// The same for all ids or none. Returns true if there was room for all.
    pub async fn reserve_all(&self, permit: &Permit, ids: &[String]) -> Result<bool, LedgerError> {
        let Some(granted) = self.reserve(permit, ids).await? else { return Ok(true) };
        if !granted.contains(&false) {
            return Ok(true);
        }
        self.charge(permit, &ChargedReads { unread: ids.to_vec(), edited: Vec::new() }).await;
        self.denied();
        Ok(false)
    }

    /// Notes that no id could be reserved. An immediate repeat would get the same result.
    fn denied(&self) {
        if let Some(budget_state) = &self.budget_state {
            *budget_state.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::start());
        }
    }

    /// Records the outcome of the ids that were reserved for a call. If the ledger is down no money is lost: reserved ids
    /// stay counted.
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
            tracing::warn!(error = %error, ids = charged.unread.len(), "ids that were not read stay counted as read");
        }
    }
}

async fn reads(ledger: &dyn Ledger, budget: &Budget) -> Result<Reads, LedgerError> {
    Ok(budget.reads(&ledger.counted(budget.per).await?))
}

impl BudgetState {
    /// Logs once when calls stop, and once when they go on.
    fn log_change(&self, reads: &Reads) {
        let Reads { reads, limit, spent, reset_in_ms, .. } = *reads;
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
