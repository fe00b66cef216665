//! Dates of judgements: at once, and again when there is more evidence. Pure.

use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::engine::lane::{Lane, Order};
use crate::engine::schedule::{Known, Next, Schedule};

const NEW: &str = "new";
const JUDGED: &str = "judged";
/// No account is late: a judgement waits for evidence, not for a date.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Lane of accounts without a judgement.
#[must_use]
pub fn new() -> Lane {
    Lane::new(NEW, PATIENCE).ordered(Order::OldestFirst)
}

#[must_use]
pub fn judged() -> Lane {
    Lane::new(JUDGED, PATIENCE).ordered(Order::OldestFirst)
}

/// Judges new accounts at once, the others after a long time.
#[derive(Debug, Clone)]
pub struct ByEvidence {
    /// Time between two judgements of an account without new evidence.
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
