//! What the queue tells of time: what comes due, and what was done minute by minute.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Millis;
use crate::lateness::Lateness;

/// Minutes of counters that a queue keeps, the current one included.
pub const MINUTES_KEPT: u32 = 120;

/// A minute, ms.
pub const MINUTE_MS: Millis = 60_000;

/// How many ids of a lane are due when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneDue {
    /// The lane.
    pub lane: String,
    /// Per moment that was asked for, how many are due by then: each holds the one before it.
    pub counts: Vec<u64>,
}

/// What was done in a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Minute {
    /// Its start, ms since the epoch.
    pub at_ms: Millis,
    /// What was counted in it: the queue's own counters, and those that workers told with their beats.
    pub counters: BTreeMap<String, i64>,
    /// How late the ids were whose claims workers told in it.
    pub lateness: Lateness,
}

impl Minute {
    /// One of these counters; 0 where nothing was counted.
    #[must_use]
    pub fn count(&self, counter: &str) -> i64 {
        self.counters.get(counter).copied().unwrap_or(0)
    }
}
