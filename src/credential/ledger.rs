//! The quota ledger: what is left of each credential's window, and the leave to make one call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Credential;
use crate::clock::{self, Millis};

/// A credential's window for one endpoint, as its answers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Calls per window.
    pub limit: u32,
    /// Calls left in this window.
    pub remaining: u32,
    /// When the window ends, ms since the epoch, by the provider's clock.
    pub reset_at: Millis,
}

/// Leave to make one call with one credential.
#[derive(Debug)]
pub struct Permit {
    /// Whose call it is.
    pub credential: Arc<Credential>,
    endpoint: &'static str,
}

/// What asking for a permit answers.
#[derive(Debug)]
pub enum Leave {
    /// Make one call.
    Granted(Permit),
    /// No credential has a call left: wait this long.
    Wait(Duration),
}

/// The quota as this process knows it: what each credential's answers said, per endpoint.
#[derive(Debug)]
pub struct Ledger {
    credentials: Vec<Arc<Credential>>,
    state: Mutex<HashMap<(String, &'static str), Account>>,
}

#[derive(Debug, Default)]
struct Account {
    window: Option<Window>,
    /// Permits out whose answers have not come.
    outstanding: u32,
    parked_until: Millis,
}

impl Account {
    /// Calls that may still be made at `now`; without a window nothing is known, and the API is asked.
    fn left(&self, now: Millis) -> u32 {
        match self.window {
            Some(window) if now < window.reset_at => window.remaining.saturating_sub(self.outstanding),
            _ => u32::MAX,
        }
    }
}

impl Ledger {
    /// A ledger over these credentials, which knows nothing yet.
    #[must_use]
    pub fn new(credentials: Vec<Credential>) -> Self {
        Self { credentials: credentials.into_iter().map(Arc::new).collect(), state: Mutex::default() }
    }

    /// Nothing in here panics half-way, so a poisoned lock holds sound figures.
    fn state(&self) -> MutexGuard<'_, HashMap<(String, &'static str), Account>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for leave to make one call to `endpoint`: of the credentials with calls left, the one
    /// whose window ends first, since its calls expire soonest.
    pub fn acquire(&self, endpoint: &'static str) -> Leave {
        let now = clock::wall_ms();
        let mut state = self.state();
        let mut best: Option<(Millis, &Arc<Credential>)> = None;
        let mut free_at = Millis::MAX;
        for credential in &self.credentials {
            let account = state.entry((credential.name.clone(), endpoint)).or_default();
            let reset_at = account.window.map_or(Millis::MAX, |window| window.reset_at);
            if now < account.parked_until {
                free_at = free_at.min(account.parked_until);
            } else if account.left(now) == 0 {
                free_at = free_at.min(reset_at);
            } else if best.is_none_or(|(soonest, _)| reset_at < soonest) {
                best = Some((reset_at, credential));
            }
        }
        match best {
            Some((_, credential)) => {
                if let Some(account) = state.get_mut(&(credential.name.clone(), endpoint)) {
                    account.outstanding += 1;
                }
                Leave::Granted(Permit { credential: credential.clone(), endpoint })
            }
            None => Leave::Wait(clock::span(free_at.saturating_sub(now).clamp(1, 60_000))),
        }
    }

    fn settle(&self, permit: &Permit, change: impl FnOnce(&mut Account)) {
        let mut state = self.state();
        let account = state.entry((permit.credential.name.clone(), permit.endpoint)).or_default();
        account.outstanding = account.outstanding.saturating_sub(1);
        change(account);
    }

    /// The call was not made.
    pub fn give_back(&self, permit: Permit) {
        self.settle(&permit, |_| {});
    }

    /// The call was made; `window` is what its answer said, if it did.
    pub fn spent(&self, permit: Permit, window: Option<Window>) {
        let now = clock::wall_ms();
        self.settle(&permit, |account| match (account.window, window) {
            // Answers overtake each other: inside one window the least figure is the newest.
            (Some(known), Some(told)) if known.reset_at == told.reset_at => {
                account.window = Some(Window { remaining: known.remaining.min(told.remaining), ..told });
            }
            (_, Some(told)) => account.window = Some(told),
            (Some(known), None) if now < known.reset_at => {
                account.window = Some(Window { remaining: known.remaining.saturating_sub(1), ..known });
            }
            _ => {}
        });
    }

    /// The credential is of no use for a while.
    pub fn park(&self, permit: Permit, pause: Duration, window: Option<Window>) {
        let until = clock::wall_ms().saturating_add(clock::millis(pause));
        self.settle(&permit, |account| {
            account.parked_until = account.parked_until.max(until);
            if window.is_some() {
                account.window = window;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::CredentialKind;
    use super::*;

    fn ledger(names: &[&str]) -> Ledger {
        Ledger::new(
            names.iter().map(|name| Credential { name: (*name).to_owned(), kind: CredentialKind::Anonymous }).collect(),
        )
    }

    fn granted(ledger: &Ledger) -> Permit {
        match ledger.acquire("e") {
            Leave::Granted(permit) => permit,
            Leave::Wait(wait) => panic!("wait {wait:?}"),
        }
    }

    fn window(remaining: u32, ends_in: Millis) -> Option<Window> {
        Some(Window { limit: 900, remaining, reset_at: clock::wall_ms() + ends_in })
    }

    #[test]
    fn no_call_is_granted_twice() {
        let ledger = ledger(&["a"]);
        let permit = granted(&ledger);
        ledger.spent(permit, window(2, 60_000));
        let (one, two) = (granted(&ledger), granted(&ledger));
        assert!(matches!(ledger.acquire("e"), Leave::Wait(wait) if wait <= Duration::from_secs(60)));
        ledger.give_back(one);
        let again = granted(&ledger);
        let same = Some(Window { remaining: 1, ..ledger.state()[&("a".to_owned(), "e")].window.unwrap() });
        ledger.spent(two, same);
        ledger.spent(again, None);
        assert!(matches!(ledger.acquire("e"), Leave::Wait(_)));
    }

    #[test]
    fn the_calls_that_expire_soonest_go_first() {
        let ledger = ledger(&["late", "soon"]);
        let (one, two) = (granted(&ledger), granted(&ledger));
        assert_eq!(one.credential.name, "late");
        ledger.park(two, Duration::ZERO, window(9, 60_000));
        let unknown = granted(&ledger);
        ledger.spent(unknown, None);
        ledger.spent(one, window(9, 90_000));
        let first = granted(&ledger);
        assert_eq!(ledger.state()[&(first.credential.name.clone(), "e")].window.unwrap().remaining, 9);
    }

    #[test]
    fn a_parked_credential_leaves_the_others_working() {
        let ledger = ledger(&["a", "b"]);
        let permit = granted(&ledger);
        let parked = permit.credential.name.clone();
        ledger.park(permit, Duration::from_secs(600), None);
        for _ in 0..3 {
            let permit = granted(&ledger);
            assert_ne!(permit.credential.name, parked);
            ledger.spent(permit, None);
        }
    }
}
