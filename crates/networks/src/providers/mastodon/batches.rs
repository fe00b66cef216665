//! Decides for each endpoint whether the instance has calls for many objects (`?id[]=`).
//!
//! A version states the compatibility that the software claims, not its calls: `4.3.0 (compatible; …)` may answer a call for many
//! ids with 404, 405, or `[]`. So until such a call has returned an object, an empty one is followed by a call for one of its
//! ids. If that returns the object, the updater requests one id per call at this endpoint from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::providers::http::Reply;

const BATCHES_SINCE: (u32, u32) = (4, 3);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calls {
    /// Up to 20, since 4.3.
    #[default]
    Batch,
    Single,
}

impl Calls {
    /// Calls of a server with this version: `4.3.8`, or the version of the API first: `2.7.2 (compatible; Pleroma 2.5.0)`.
    #[must_use]
    pub fn from_version(version: &str) -> Self {
        let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= BATCHES_SINCE => Self::Batch,
            _ => Self::Single,
        }
    }
}

/// Calls that an endpoint accepts. Clones share the learned state.
#[derive(Debug, Clone)]
pub(super) struct BatchSupport {
    stated: Calls,
    learned: Arc<BatchEvidence>,
    /// True if `stated` comes from the version, false if it comes from the settings.
    is_guess: bool,
}

#[derive(Debug, Default)]
struct BatchEvidence {
    /// A call for many returned an object.
    returned: AtomicBool,
    /// A call for many returned no object, and a call for one of its ids did.
    lacks: AtomicBool,
}

impl BatchSupport {
    pub fn fixed(stated: Calls) -> Self {
        Self { stated, learned: Arc::default(), is_guess: false }
    }

    /// Uses the calls of the instance's version, which may be wrong.
    pub fn from_version(stated: Calls) -> Self {
        Self { is_guess: true, ..Self::fixed(stated) }
    }

    pub fn calls(&self) -> Calls {
        if self.learned.lacks.load(Ordering::Relaxed) { Calls::Single } else { self.stated }
    }

    pub fn note_returned(&self) {
        self.learned.returned.store(true, Ordering::Relaxed);
    }

    pub fn note_lacking(&self) {
        self.learned.lacks.store(true, Ordering::Relaxed);
    }

    /// Returns true if the instance may lack calls for many ids, after such a call returned no object. Errors for too many ids or
    /// calls, or for a refused caller, show that it has them.
    pub fn may_lack(&self, reply: &Reply) -> bool {
        let is_open = self.is_guess && !self.learned.returned.load(Ordering::Relaxed);
        is_open
            && self.calls() == Calls::Batch
            && !matches!(reply.status, 401 | 403 | 408 | 413 | 414 | 422 | 429 | 431)
    }
}
