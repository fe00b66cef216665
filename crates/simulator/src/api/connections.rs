//! The open streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct Streams {
    state: Mutex<OpenStreams>,
}

#[derive(Debug, Default)]
struct OpenStreams {
    open: HashMap<String, u64>,
    counts: StreamCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamCounts {
    pub connects: u64,
    pub open: u64,
    /// Rejected connections: the account had one already.
    pub collisions: u64,
    pub posts: u64,
}

impl Streams {
    pub fn counts(&self) -> StreamCounts {
        let state = self.lock();
        StreamCounts { open: state.open.values().sum(), ..state.counts }
    }

    /// Opens a stream; `None` if the account has one already.
    pub fn connect(self: &Arc<Self>, account: &str) -> Option<OpenStream> {
        let mut state = self.lock();
        let OpenStreams { open, counts } = &mut *state;
        let of_account = open.entry(account.to_owned()).or_default();
        if *of_account > 0 {
            counts.collisions += 1;
            return None;
        }
        counts.connects += 1;
        *of_account += 1;
        Some(OpenStream { streams: self.clone(), account: account.to_owned() })
    }

    fn lock(&self) -> MutexGuard<'_, OpenStreams> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct OpenStream {
    streams: Arc<Streams>,
    account: String,
}

impl OpenStream {
    pub fn count_post(&self) {
        self.streams.lock().counts.posts += 1;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(of_account) = self.streams.lock().open.get_mut(&self.account) {
            *of_account -= 1;
        }
    }
}
