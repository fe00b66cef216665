//! The streams that are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The streams that are open, and those that were.
#[derive(Debug, Default)]
pub struct Streams {
    state: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The connections by account.
    open: HashMap<String, u64>,
    counts: StreamCounts,
}

/// The outcomes of streams so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Connections made.
    pub connects: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections that met an older one of the same account.
    pub collisions: u64,
    /// Posts sent.
    pub posts: u64,
}

impl Streams {
    pub fn counts(&self) -> StreamCounts {
        let state = self.lock();
        StreamCounts { open: state.open.values().sum(), ..state.counts }
    }

    /// Opens a connection; `None` if the account has one already.
    pub fn enter(self: &Arc<Self>, account: &str) -> Option<Place> {
        let mut state = self.lock();
        let Open { open, counts } = &mut *state;
        let of_account = open.entry(account.to_owned()).or_default();
        if *of_account > 0 {
            counts.collisions += 1;
            return None;
        }
        counts.connects += 1;
        *of_account += 1;
        Some(Place { streams: self.clone(), account: account.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place among those that are open.
pub struct Place {
    streams: Arc<Streams>,
    account: String,
}

impl Place {
    /// Counts a post that was sent.
    pub fn count_post(&self) {
        self.streams.lock().counts.posts += 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(of_account) = self.streams.lock().open.get_mut(&self.account) {
            *of_account -= 1;
        }
    }
}
