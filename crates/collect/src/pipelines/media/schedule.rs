//! Due dates of media: at once, and after failures with growing delays. Pure.

use std::time::Duration;

use engine::base::clock::{self, Millis};
use engine::lane::{Lane, Order};
use engine::schedule::{Next, Schedule, ScheduledItem};

pub const FRESH: &str = "fresh";
pub const RETRY: &str = "retry";
/// Addresses stay valid for longer than that.
const PATIENCE: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone)]
pub struct FreshFirstSchedule {
    pub first_delay: Duration,
}

/// Waiting in this lane is intended, so no medium is late.
#[must_use]
pub fn fresh_lane() -> Lane {
    Lane::new(FRESH, PATIENCE).with_order(Order::OldestFirst)
}

#[must_use]
pub fn retry_lane() -> Lane {
    Lane::new(RETRY, PATIENCE).with_order(Order::OldestFirst)
}

impl Schedule for FreshFirstSchedule {
    fn next(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some((retry_lane(), clock::millis(self.first_delay)))
    }

    fn first(&self, _: &ScheduledItem<'_>, _: Millis) -> Option<Next> {
        Some((fresh_lane(), 0))
    }

    fn lane_for_interval(&self, _: Millis) -> Option<Lane> {
        Some(retry_lane())
    }
}
