//! Pauses, and repairs of due times.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::engine::lane::Lane;

/// Ids per lane that [`Inspection::sample`](super::Inspection::sample) returns and ids per call that [`Administration::mend`] changes, at the most. A larger
/// sample makes Redis copy the set; a larger repair holds up its only thread.
pub const PAGE_LIMIT: usize = 1_000;

/// The slack beyond a lane's patience before a due time is out of bounds. A call that failed is repeated after 60 s, also
/// in a lane with less patience, so no correct due time is beyond it. It is twice the default lease; with longer leases
/// [`Administration::mend`] needs a longer slack.
pub const MEND_SLACK: Duration = Duration::from_secs(120);

/// Calls for the people and processes that run a queue.
#[async_trait]
pub trait Administration: Send + Sync + std::fmt::Debug {
    /// Pauses (a reason) or resumes (`None`) claiming.
    async fn pause(&self, reason: Option<&str>) -> Result<()>;

    /// Corrects due times that are out of bounds, as a clock that was ahead leaves them. In each lane by lateness, ids due later
    /// than now + the lane's patience + `slack` get a new due, spread evenly over the lane's next patience. Changes up
    /// to `limit` ids per call over all lanes, [`PAGE_LIMIT`] at the most, and returns how many; due times within
    /// bounds never change.
    ///
    /// `slack` must be longer than any lease. Changes nothing while the last fence is more than `slack` ahead of the
    /// queue's clock: the clock stepped back, due times that look wrong may be right, and an answer would be older than
    /// the stored one.
    async fn mend(&self, slack: Duration, limit: usize) -> Result<u64>;

    /// Applies the patience, tier and order of `lane` to the queue's lane of that name, if there is one, and to its waiting jobs.
    /// In a lane by lateness, ids due later than now + its patience get new due times, spread evenly over its patience. Changes up to
    /// `limit` ids per call (at most [`PAGE_LIMIT`]), in the order of their due times, and returns their number: call it again while
    /// it returns `limit`. Like [`mend`](Self::mend), changes no due time while the clock is behind.
    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64>;

    /// Adds the minutes that are over to their hours. Each minute is added once, however often and by however many
    /// processes this is called: call it about once a minute, and before the queue no longer has the minutes
    /// ([`MINUTES_KEPT`](super::MINUTES_KEPT)). Where the clock stepped back by up to two hours, the minutes that come a second
    /// time are left out.
    async fn sum_hours(&self) -> Result<()>;
}
