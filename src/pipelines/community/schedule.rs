//! When accounts are judged: at once, and again as soon as there is more to judge them by. Pure.

use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::engine::lane::{Lane, Order};
use crate::engine::schedule::{Known, Next, Schedule};

/// The lane of accounts that were not judged yet.
const NEW: &str = "new";
/// The lane of those that were.
const JUDGED: &str = "judged";
/// Nobody is late: a judgement waits for evidence, not for a date.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The lane of accounts that were not judged yet.
#[must_use]
pub fn new() -> Lane {
    Lane::new(NEW, PATIENCE).ordered(Order::OldestFirst)
}

/// The lane of accounts that were judged.
#[must_use]
pub fn judged() -> Lane {
    Lane::new(JUDGED, PATIENCE).ordered(Order::OldestFirst)
}

/// New accounts at once, the others after a long while.
#[derive(Debug, Clone)]
pub struct ByEvidence {
    /// How long after a judgement an account is judged again, whatever has arrived.
    pub again: Duration,
}

impl Schedule for ByEvidence {
    fn next(&self, _: &Known<'_>, _: Millis) -> Option<Next> {
        Some((judged(), clock::millis(self.again)))
    }

    fn first(&self, _: &Known<'_>, _: Millis) -> Option<Next> {
        Some((new(), 0))
    }

    fn lane_of(&self, _: Millis) -> Option<Lane> {
        Some(judged())
    }
}
