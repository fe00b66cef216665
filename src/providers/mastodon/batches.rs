//! Calls for many objects at one endpoint, `?id[]=`: whether the instance has them.
//!
//! A version says what the software claims to be compatible with, and not what it has: `4.3.0 (compatible; …)` may answer a call
//! for many with 404, 405, or `[]`. So until one has returned an object, a call that returned none is followed by a call for one
//! of its ids. If that returns the object, the endpoint takes one id per call from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::providers::http::Reply;

/// The first version with batches.
const BATCHES_SINCE: (u32, u32) = (4, 3);

/// The number of statuses in a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calls {
    /// Up to 20, since 4.3.
    #[default]
    Batch,
    /// One.
    Single,
}

impl Calls {
    /// Of a server that says it runs this version: `4.3.8`, `4.4.0-alpha.1+glitch`. Other software tells the version
    /// of the API that it follows first: `2.7.2 (compatible; Pleroma 2.5.0)`.
    #[must_use]
    pub fn of_version(version: &str) -> Self {
        let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= BATCHES_SINCE => Self::Batch,
            _ => Self::Single,
        }
    }
}

/// The calls that an endpoint takes. Clones share what is learned.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    stated: Calls,
    learned: Arc<Learned>,
    /// The version states it, and not the settings.
    is_guess: bool,
}

#[derive(Debug, Default)]
struct Learned {
    /// A call for many returned an object.
    returned: AtomicBool,
    /// A call for many returned none where a call for one did.
    lacks: AtomicBool,
}

impl Batches {
    /// As the settings say.
    pub fn set(stated: Calls) -> Self {
        Self { stated, learned: Arc::default(), is_guess: false }
    }

    /// As the version states.
    pub fn guessed(stated: Calls) -> Self {
        Self { is_guess: true, ..Self::set(stated) }
    }

    /// The calls that it takes, as far as is known.
    pub fn calls(&self) -> Calls {
        if self.learned.lacks.load(Ordering::Relaxed) { Calls::Single } else { self.stated }
    }

    /// Notes that a call for many returned an object.
    pub fn has_returned(&self) {
        self.learned.returned.store(true, Ordering::Relaxed);
    }

    /// Notes that the endpoint takes one id per call.
    pub fn has_none(&self) {
        self.learned.lacks.store(true, Ordering::Relaxed);
    }

    /// Returns true if the answer to a call for many, which returned no object, may be that of an instance without such calls. Where
    /// the ids are too many, or the caller is refused or too fast, it has them.
    pub fn may_lack(&self, reply: &Reply) -> bool {
        let is_open = self.is_guess && !self.learned.returned.load(Ordering::Relaxed);
        is_open
            && self.calls() == Calls::Batch
            && !matches!(reply.status, 401 | 403 | 408 | 413 | 414 | 422 | 429 | 431)
    }
}
