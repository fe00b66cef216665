//! The credentials of a process: permits to make calls, and what its budget of reads allows.

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

/// The maximum wait of a worker before it checks again whether the budget has room, since it may be raised.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Acquired to make one call with one credential. It is used up by an answer or a failed call. Dropped before its call
/// [begins](Permit::begin), it goes back by itself; when its process dies it counts as spent, since the call may have
/// gone out.
#[derive(Debug)]
pub struct Permit {
    /// The credential of the call.
    pub credential: Arc<Credential>,
    endpoint: &'static str,
    id: String,
    is_trial: bool,
    /// The ledger to which it returns; `None` once its call has begun.
    from: Option<Arc<dyn Ledger>>,
}

impl Permit {
    /// Its name: no other has it.
    fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if this is a trial: the one call after a pause, which shows whether the API still refuses the credential.
    #[must_use]
    pub fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// The call is made: from here on it may reach the API, whatever becomes of us.
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

/// The answer to a request for a permit.
#[derive(Debug)]
pub enum Acquired {
    /// Make one call.
    Granted(Permit),
    /// No credential may call now: wait this long.
    Wait(Duration),
}

/// The spreading of calls over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Spread when more is due than the window has calls for, else sent at once.
    #[default]
    Auto,
    /// Always spread.
    Paced,
    /// Always sent at once, and blind when the window is used up.
    Greedy,
}

/// The credentials of a process and the ledger they share with all others.
#[derive(Debug)]
pub struct Credentials {
    credentials: Vec<Arc<Credential>>,
    names: Vec<String>,
    /// Fingerprints of the credentials' secrets, in the same order.
    fingerprints: Vec<String>,
    ledger: Arc<dyn Ledger>,
    pacing: Pacing,
    expiry: Duration,
    /// The budget, for an API that charges for reads.
    budget_state: Option<BudgetState>,
}

/// A process's knowledge of its budget.
#[derive(Debug)]
struct BudgetState {
    budget: Reloadable<Budget>,
    /// The last answer was that it is spent: said once, and once when it goes on.
    spent: AtomicBool,
    /// When a call had no id that could be reserved: whoever asks at once would get the same.
    denied: Mutex<Option<Stopwatch>>,
}

impl Credentials {
    /// These credentials, accounted for in that ledger. A permit nobody answered for counts as spent
    /// after `expiry`.
    pub fn new(credentials: Vec<Credential>, ledger: Arc<dyn Ledger>, pacing: Pacing, expiry: Duration) -> Self {
        let names = credentials.iter().map(|credential| credential.name.clone()).collect();
        let fingerprints = credentials.iter().map(Credential::fingerprint).collect();
        let credentials = credentials.into_iter().map(Arc::new).collect();
        Self { credentials, names, fingerprints, ledger, pacing, expiry, budget_state: None }
    }

    /// The credentials.
    pub fn all(&self) -> &[Arc<Credential>] {
        &self.credentials
    }

    /// The spreading of calls.
    #[must_use]
    pub fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Asks for leave to make one call to `endpoint`, where `backlog` calls are due. There is none while the budget
    /// of reads is spent, for ids that would be free either.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn acquire(&self, endpoint: &'static str, backlog: u64) -> Result<Acquired, LedgerError> {
        let backlog = match self.pacing {
            Pacing::Auto => backlog,
            Pacing::Paced => u64::from(u32::MAX),
            Pacing::Greedy => 0,
        };
        self.acquire_of(&self.names, &self.fingerprints, endpoint, backlog).await
    }

    /// Asks for a permit for one call to `endpoint` with this credential only, without waiting.
    ///
    /// # Errors
    /// The ledger is out.
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
            // The reply is lost: the same permit again.
            Err(LedgerError::Unavailable(_)) => self.ledger.acquire(&ask).await?,
            answer => answer?,
        };
        let (name, is_trial) = match grant {
            Grant::Wait(wait) => return Ok(Acquired::Wait(wait)),
            Grant::Granted(name) => (name, false),
            Grant::Trial(name) => (name, true),
        };
        // Only names that were asked for are granted.
        let Some(credential) = self.credentials.iter().find(|credential| credential.name == name) else {
            return Err(LedgerError::Refused(format!("the ledger granted an unknown credential {name:?}")));
        };
        let from = Some(self.ledger.clone());
        Ok(Acquired::Granted(Permit { credential: credential.clone(), endpoint, id, is_trial, from }))
    }

    /// The call was made: what its answer said of the window, and whether the credential is to be left
    /// alone. A ledger that is out loses no quota by it: the permit expires, and counts as spent.
    pub async fn used(&self, mut permit: Permit, used: Used) {
        permit.begin();
        let Permit { credential, endpoint, id, .. } = &permit;
        let used = Used { fingerprint: self.fingerprint(&credential.name).to_owned(), ..used };
        if let Err(error) = self.ledger.used(&credential.name, endpoint, id, &used).await {
            tracing::warn!(error = %error, credential = credential.name, "the ledger did not record an answer");
        }
    }

    /// The call is not made: the permit is back when this returns.
    pub async fn give_back(&self, mut permit: Permit) {
        if let Some(ledger) = permit.from.take() {
            give_back(&*ledger, &permit.credential.name, permit.endpoint, &permit.id).await;
        }
    }

    /// A call elsewhere, without a permit, told this of the credential at `endpoint`.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn learnt(&self, name: &str, endpoint: &str, told: Used) -> Result<(), LedgerError> {
        let told = Used { fingerprint: self.fingerprint(name).to_owned(), ..told };
        self.ledger.used(name, endpoint, "", &told).await
    }

    /// The API takes the credential: if it was parked for every endpoint, it is free again. Answers
    /// whether it was.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn free(&self, name: &str) -> Result<bool, LedgerError> {
        self.ledger.free(name, self.fingerprint(name)).await
    }

    /// The ledger's state of each credential at that endpoint.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn statuses(&self, endpoint: &str) -> Result<Vec<CredentialStatus>, LedgerError> {
        self.ledger.statuses(endpoint, &self.names, &self.fingerprints).await
    }

    /// Logs the credentials that are parked at that endpoint, with the end of the pause and its reason. Called at a start, since the
    /// process does not use them. Ignores errors of the ledger: the first call reports them.
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

    /// The fingerprint of the secret of the credential with this name.
    fn fingerprint(&self, name: &str) -> &str {
        let mut all = self.names.iter().zip(&self.fingerprints);
        all.find(|(known, _)| *known == name).map_or("", |(_, fingerprint)| fingerprint)
    }

    /// The same for an API that charges for reads: no call is made beyond that budget.
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

    /// The state of the budget; `None` without a budget.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn reads(&self) -> Result<Option<Reads>, LedgerError> {
        match &self.budget_state {
            Some(budget_state) => Ok(Some(reads(&*self.ledger, &budget_state.budget.load()).await?)),
            None => Ok(None),
        }
    }

    /// The wait while the budget has no room.
    async fn out_of_budget(&self) -> Result<Option<Duration>, LedgerError> {
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

    /// The same for items that count under several ids each: one may be asked for if there is room for all of its ids, and
    /// those of the others are not counted.
    ///
    /// # Errors
    /// As [`Credentials::reserve`].
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

    /// The same for all of them or none; answers whether there was room for all.
    ///
    /// # Errors
    /// The ledger is out: nothing may be asked for.
    pub async fn reserve_all(&self, permit: &Permit, ids: &[String]) -> Result<bool, LedgerError> {
        let Some(granted) = self.reserve(permit, ids).await? else { return Ok(true) };
        if !granted.contains(&false) {
            return Ok(true);
        }
        self.charge(permit, &ChargedReads { unread: ids.to_vec(), edited: Vec::new() }).await;
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
    pub async fn charge(&self, permit: &Permit, charged: &ChargedReads) {
        let Some(budget_state) = &self.budget_state else { return };
        if *charged == ChargedReads::default() {
            return;
        }
        let budget = budget_state.budget.load();
        let told = match self.ledger.charge(permit.id(), charged, &budget).await {
            // Said again, it changes nothing.
            Err(LedgerError::Unavailable(_)) => self.ledger.charge(permit.id(), charged, &budget).await,
            answer => answer,
        };
        if let Err(error) = told {
            tracing::warn!(error = %error, ids = charged.unread.len(), "ids that were not read stay counted as read");
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
            tracing::warn!(reads, limit, reset_in_ms, "the budget of reads is spent: calls stop until its reset");
        } else {
            tracing::info!(reads, limit, "the budget of reads has room again");
        }
    }
}
