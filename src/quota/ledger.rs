//! The quota ledger: what is left of each credential's window, and the leave to make one call.
//!
//! The quota is the scarcest thing in the system, so it is shared by all workers, beside the queue:
//! [`RedisLedger`] or [`EmbeddedLedger`], one contract suite (`tests/it/ledger.rs`).
//!
//! What a provider counts is known from its answers alone. `remaining` in the ledger is what may still
//! be *granted*: it falls with each permit, not with each answer, so two workers never spend the same
//! call. A window nobody has heard of — a new credential, one that has ended, a wiped ledger — is
//! opened by a single call, whose answer tells the rest.
//!
//! [`RedisLedger`]: super::RedisLedger
//! [`EmbeddedLedger`]: super::EmbeddedLedger

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Credential;
use super::budget::{Budget, ChargedReads, Counted, Period};
pub use crate::base::backend::BackendError as LedgerError;
use crate::base::clock::{self, Millis};
use crate::base::random;
use crate::quota::reservation::BudgetState;

/// A credential's window for one endpoint, as an answer told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Calls per window.
    pub limit: u32,
    /// Calls left in this window.
    pub remaining: u32,
    /// When the window ends, ms since the epoch, by the provider's clock: it also names the window.
    pub reset_at: Millis,
    /// How far off that was when the answer was given, in ms, by whatever clock the provider used.
    pub reset_in: Millis,
}

impl Window {
    /// The window of a provider that answers and tells no limit: for a minute, nothing is held back.
    #[must_use]
    pub fn unmetered() -> Self {
        const MINUTE_MS: Millis = 60_000;
        let reset_at = clock::wall_ms() + MINUTE_MS;
        Self { limit: UNMETERED, remaining: UNMETERED, reset_at, reset_in: MINUTE_MS }
    }

    /// Whether it holds anybody back.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        self.limit < UNMETERED
    }
}

/// The limit of a window that has none.
const UNMETERED: u32 = u32::MAX;

/// Acquired to make one call with one credential. It is used up by an answer or a failed call, and goes
/// back by [`Credentials::give_back`] alone: when its worker dies it counts as spent, since the call
/// may have gone out.
#[derive(Debug)]
pub struct Permit {
    /// Whose call it is.
    pub credential: Arc<Credential>,
    endpoint: &'static str,
    id: String,
}

impl Permit {
    /// Its name: no other has it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// What asking for a permit answers.
#[derive(Debug)]
pub enum Acquired {
    /// Make one call.
    Granted(Permit),
    /// No credential may call now: wait this long.
    Wait(Duration),
}

/// Whether calls are spread over the window.
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

/// What is asked of a ledger.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The credentials that may make the call.
    pub names: &'a [String],
    /// The endpoint it goes to.
    pub endpoint: &'a str,
    /// Names the permit. The same again answers the same permit: the first reply may have been lost.
    pub permit: &'a str,
    /// How long until a permit nobody answered for counts as spent.
    pub expiry: Duration,
    /// Calls that are due: when they are more than what is left, calls are spread.
    pub backlog: u64,
}

/// What a ledger grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// A call with this credential.
    Granted(String),
    /// Nobody may call now; when it may be worth asking again.
    Wait(Duration),
}

/// How a permit was used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// What the answer said of the window, if it did.
    pub window: Option<Window>,
    /// The credential is of no use for a while.
    pub park: Option<Park>,
}

/// A credential is left alone for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Park {
    /// For how long.
    pub pause: Duration,
    /// Why, for people.
    pub why: String,
    /// For every endpoint (the credential itself is refused), or for this one alone (its quota).
    pub everywhere: bool,
}

/// A credential as the ledger knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CredentialStatus {
    /// The credential's name.
    pub name: String,
    /// Calls per window, as an answer told last; `None` where none has, or where there is no limit.
    pub limit: Option<u32>,
    /// Whether the provider answers and tells no limit.
    pub unmetered: bool,
    /// How long a window is, ms: the longest that any answer said there is left of one. A window starts
    /// with its first call, so the answer to that one tells it whole.
    pub window_ms: Option<Millis>,
    /// Calls that may still be granted; `None` while no window is known to be open.
    pub remaining: Option<u32>,
    /// How long until the window ends, ms; `None` while no window is known to be open.
    pub reset_in_ms: Option<Millis>,
    /// Permits out.
    pub outstanding: u32,
    /// For how long it is parked, ms; 0 when it is not.
    pub parked_for_ms: Millis,
    /// Why it is parked.
    pub parked_why: Option<String>,
    /// Whether it is parked for every endpoint (it is refused), and not just out of quota at this one.
    pub parked_everywhere: bool,
    /// Calls granted since midnight UTC, over all endpoints.
    pub calls_today: u64,
}

/// A window's figures as a ledger keeps them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// Calls per window; 0 where nothing is known.
    pub limit: i64,
    pub remaining: i64,
    /// 0 where it is over.
    pub reset_in: Millis,
    pub length: Millis,
}

impl CredentialStatus {
    pub(super) fn with_window(self, kept: Kept) -> Self {
        let told = u32::try_from(kept.limit).ok().filter(|limit| *limit > 0);
        let limit = told.filter(|limit| *limit < UNMETERED);
        let open = limit.filter(|_| kept.reset_in > 0);
        Self {
            limit,
            unmetered: told.is_some() && limit.is_none(),
            window_ms: limit.map(|_| kept.length).filter(|length| *length > 0),
            remaining: open.map(|_| u32::try_from(kept.remaining).unwrap_or(0)),
            reset_in_ms: open.map(|_| kept.reset_in),
            ..self
        }
    }
}

/// The contract. Every call may be repeated when its reply was lost.
///
/// # Errors
/// Every call's: [`LedgerError::Unavailable`] when it is not known whether it was done, [`LedgerError::Refused`] when
/// it never will be.
#[async_trait]
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Grants one call: of the credentials with calls left, to the one whose calls expire soonest.
    async fn acquire(&self, ask: &Ask<'_>) -> Result<Grant, LedgerError>;

    /// The call was made, or may have been. `permit` is empty where the call took none, since it went to
    /// another endpoint and told of this one.
    async fn used(&self, name: &str, endpoint: &str, permit: &str, used: &Used) -> Result<(), LedgerError>;

    /// The call was not made.
    async fn give_back(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError>;

    /// A credential that was parked for every endpoint may call again; its quota stays parked where it
    /// is. Answers whether it was.
    async fn free(&self, name: &str) -> Result<bool, LedgerError>;

    /// What is known of each credential at that endpoint, in the order asked.
    async fn statuses(&self, endpoint: &str, names: &[String]) -> Result<Vec<CredentialStatus>, LedgerError>;

    /// Counts `ids` as read by that call, as far as the budget has room, in one step and by the ledger's clock; one
    /// that was counted for the same UTC day is free. Answers for each whether it may be asked for: the first that
    /// fit. The same call again counts none of them twice.
    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError>;

    /// Takes back what that call alone has counted and not read, once. What came as another id counts as that one,
    /// whatever room there is: it has been charged.
    async fn settle(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError>;

    /// What has been read, in the current day and in periods of that kind.
    async fn counted(&self, per: Period) -> Result<Counted, LedgerError>;
}

/// The credentials of a process and the ledger they share with all others.
#[derive(Debug)]
pub struct Credentials {
    credentials: Vec<Arc<Credential>>,
    names: Vec<String>,
    pub(super) ledger: Arc<dyn Ledger>,
    pacing: Pacing,
    expiry: Duration,
    /// Of a provider that charges for reads.
    pub(super) budget_state: Option<BudgetState>,
}

impl Credentials {
    /// These credentials, accounted for in that ledger. A permit nobody answered for counts as spent
    /// after `expiry`.
    pub fn new(credentials: Vec<Credential>, ledger: Arc<dyn Ledger>, pacing: Pacing, expiry: Duration) -> Self {
        let names = credentials.iter().map(|credential| credential.name.clone()).collect();
        let credentials = credentials.into_iter().map(Arc::new).collect();
        Self { credentials, names, ledger, pacing, expiry, budget_state: None }
    }

    /// The credentials.
    pub fn all(&self) -> &[Arc<Credential>] {
        &self.credentials
    }

    /// How calls are spread.
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
        if let Some(wait) = self.out_of_budget().await? {
            return Ok(Acquired::Wait(wait));
        }
        let backlog = match self.pacing {
            Pacing::Auto => backlog,
            Pacing::Paced => u64::from(u32::MAX),
            Pacing::Greedy => 0,
        };
        let id = format!("{:016x}", random::number());
        let ask = Ask { names: &self.names, endpoint, permit: &id, expiry: self.expiry, backlog };
        let grant = match self.ledger.acquire(&ask).await {
            // The reply is lost: the same permit again.
            Err(LedgerError::Unavailable(_)) => self.ledger.acquire(&ask).await?,
            answer => answer?,
        };
        Ok(match grant {
            Grant::Wait(wait) => Acquired::Wait(wait),
            Grant::Granted(name) => match self.credentials.iter().find(|credential| credential.name == name) {
                Some(credential) => Acquired::Granted(Permit { credential: credential.clone(), endpoint, id }),
                // Only names that were asked for are granted.
                None => return Err(LedgerError::Refused(format!("the ledger granted an unknown credential {name:?}"))),
            },
        })
    }

    /// The call was made: what its answer said of the window, and whether the credential is to be left
    /// alone. A ledger that is out loses no quota by it: the permit expires, and counts as spent.
    pub async fn used(&self, permit: Permit, used: Used) {
        let Permit { credential, endpoint, id } = permit;
        if let Err(error) = self.ledger.used(&credential.name, endpoint, &id, &used).await {
            tracing::warn!(error = %error, credential = credential.name, "the ledger did not hear of an answer");
        }
    }

    /// The call was not made.
    pub async fn give_back(&self, permit: Permit) {
        let Permit { credential, endpoint, id } = permit;
        if let Err(error) = self.ledger.give_back(&credential.name, endpoint, &id).await {
            tracing::warn!(error = %error, credential = credential.name, "a permit could not be given back: it counts as spent");
        }
    }

    /// A call elsewhere, without a permit, told this of the credential at `endpoint`.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn learnt(&self, name: &str, endpoint: &str, told: Used) -> Result<(), LedgerError> {
        self.ledger.used(name, endpoint, "", &told).await
    }

    /// The provider takes the credential: if it was parked for every endpoint, it is free again. Answers
    /// whether it was.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn free(&self, name: &str) -> Result<bool, LedgerError> {
        self.ledger.free(name).await
    }

    /// What the ledger knows of each credential at that endpoint.
    ///
    /// # Errors
    /// The ledger is out.
    pub async fn statuses(&self, endpoint: &str) -> Result<Vec<CredentialStatus>, LedgerError> {
        self.ledger.statuses(endpoint, &self.names).await
    }
}
