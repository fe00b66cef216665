//! Due dates of media: at once, and after failures with growing delays. Pure.

use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::engine::lane::{Lane, Order};
use crate::engine::schedule::{Known, Next, Schedule};

pub const FRESH: &str = "fresh";
pub const RETRY: &str = "retry";
/// Patience of new media if more arrive than can be fetched: addresses stay valid for longer than that.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// New media at once, in the order of their arrival; failed ones after a delay.
#[derive(Debug, Clone)]
pub struct FreshFirst {
    pub first_delay: Duration,
}

/// Lane of new media. Waiting there is intended, so none is late.
#[must_use]
pub fn fresh() -> Lane {
    Lane::new(FRESH, PATIENCE).ordered(Order::OldestFirst)
}

#[must_use]
pub fn retry() -> Lane {
    Lane::new(RETRY, PATIENCE).ordered(Order::OldestFirst)
}

impl Schedule for FreshFirst {
    fn next(&self, _: &Known<'_>, _: Millis) -> Option<Next> {
        Some((retry(), clock::millis(self.first_delay)))
    }

    fn first(&self, _: &Known<'_>, _: Millis) -> Option<Next> {
        Some((fresh(), 0))
    }

    fn lane_of(&self, _: Millis) -> Option<Lane> {
        Some(retry())
    }
}
