//! Lanes: a word the queue and the age table share. No I/O.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{self, Millis};

/// A class of jobs inside a namespace, with how long one of them can wait: the interval at which it
/// is refreshed. Under overload every lane is late by the same multiple of its patience.
///
/// A lane travels with the jobs put into it, so the queue always knows every lane that holds any,
/// also after a change of configuration or a wiped Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Its name in the keys: `18m`.
    pub name: Arc<str>,
    /// Its patience in milliseconds, at least 1.
    pub patience: Millis,
}

impl Lane {
    /// A lane. `patience` below 1 ms counts as 1 ms, since the queue divides by it.
    pub fn new(name: impl Into<Arc<str>>, patience: Duration) -> Self {
        Self { name: name.into(), patience: clock::millis(patience).max(1) }
    }
}
