//! Dates of judgements: at once, and again when there is more evidence. Pure.

use std::time::Duration;

use engine::base::clock::{self, Millis};
use engine::lane::{Lane, Order};
use engine::schedule::{Next, Schedule, ScheduledItem};

const NEW: &str = "new";
const JUDGED: &str = "judged";
/// No account is late: a judgement waits for evidence, not for a date.
const PATIENCE: Duration = Duration::from_secs(3_600);

#[must_use]
pub fn unjudged_lane() -> Lane {
    Lane::new(NEW, PATIENCE).with_order(Order::OldestFirst)
}

#[must_use]
pub fn judged_lane() -> Lane {
    Lane::new(JUDGED, PATIENCE).with_order(Order::OldestFirst)
}

#[derive(Debug, Clone)]
pub struct JudgementSchedule {
    /// Time between two judgements of an account without new evidence.
    pub interval: Duration,
}

impl Schedule for JudgementSchedule {
    fn next(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some((judged_lane(), clock::millis(self.interval)))
    }

    fn first(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some((unjudged_lane(), 0))
    }

    fn lane_for_interval(&self, _: Millis) -> Option<Lane> {
        Some(judged_lane())
    }
}
