//! The streams that are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The streams that are open, and those that were.
#[derive(Debug, Default)]
pub struct Streams {
    state: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// By account: each connection, and what ends it.
    open: HashMap<String, Vec<(u64, CancellationToken)>>,
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
        StreamCounts { open: state.open.values().map(|of| of.len() as u64).sum(), ..state.counts }
    }

    /// One more connection; `None` where the account has one and keeps it.
    pub fn enter(self: &Arc<Self>, account: &str, keeps_the_older: bool) -> Option<Place> {
        let mut state = self.lock();
        let Open { open, counts } = &mut *state;
        let of_account = open.entry(account.to_owned()).or_default();
        if !of_account.is_empty() {
            counts.collisions += 1;
            if keeps_the_older {
                return None;
            }
            of_account.iter().for_each(|(_, ends)| ends.cancel());
        }
        counts.connects += 1;
        let (number, ended) = (counts.connects, CancellationToken::new());
        of_account.push((number, ended.clone()));
        Some(Place { streams: self.clone(), account: account.to_owned(), number, ended })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place among those that are open.
pub struct Place {
    streams: Arc<Streams>,
    account: String,
    number: u64,
    /// Cancelled when a newer connection of the account takes its place.
    pub ended: CancellationToken,
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
            of_account.retain(|(number, _)| *number != self.number);
        }
    }
}
