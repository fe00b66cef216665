//! When media are due: at once, and after a failure again and again, later each time. Pure.

use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::engine::lane::{Lane, Order};
use crate::engine::schedule::{Known, Next, Schedule};

/// The lane of media that were not tried yet.
pub const FRESH: &str = "fresh";
/// The lane of media whose fetch failed.
pub const RETRY: &str = "retry";
/// The patience of new media, if there are more than can be fetched: addresses stay valid for longer than that.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// New media at once, in the order in which they came; those that failed after a while.
#[derive(Debug, Clone)]
pub struct FreshFirst {
    /// The first delay after a failure.
    pub first_delay: Duration,
}

/// The lane of new media: what waits there is meant to, so none is late.
#[must_use]
pub fn fresh() -> Lane {
    Lane::new(FRESH, PATIENCE).ordered(Order::OldestFirst)
}

/// The lane of media that failed.
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
