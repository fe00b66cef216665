//! Pauses, and repairs of due times.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::lane::Lane;

/// Maximum number of ids per lane in an [`Inspection::sample`](super::Inspection::sample), and of ids that
/// [`Administration::repair_due_times`] changes per call. A larger sample makes Redis copy the set; a larger repair blocks its only thread.
pub const PAGE_LIMIT: usize = 1_000;

/// Slack beyond a lane's patience before a due time is out of bounds: failed calls are repeated after 60 s in every lane. It is
/// twice the default lease; longer leases need a longer slack in [`Administration::repair_due_times`].
pub const DUE_SLACK: Duration = Duration::from_secs(120);

/// Calls for the people and processes that run a queue.
#[async_trait]
pub trait Administration: Send + Sync + std::fmt::Debug {
    /// Pauses claiming for a reason; `None` resumes it.
    async fn pause(&self, reason: Option<&str>) -> Result<()>;

    /// Corrects due times that a clock ahead has left out of bounds. In each lane by lateness, ids due later than now + patience +
    /// `slack` are spread evenly over the next patience. Changes up to `limit` ids (at most [`PAGE_LIMIT`]) and returns their number.
    ///
    /// `slack` must be longer than any lease. Changes nothing while the last fence is more than `slack` ahead of the queue's clock.
    /// Then the clock stepped back: due times that look wrong may be right, and a lookup would return data older than the stored data.
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64>;

    /// Applies the patience, tier and order of `lane` to the queue's lane of that name, and to its waiting jobs. In a lane by
    /// lateness, ids that are due later than one patience from now get due times spread evenly over the next patience. Changes up to
    /// `limit` ids (at most [`PAGE_LIMIT`]), the earliest first, and returns their number: call it again while it returns `limit`.
    /// Changes no due time while the last fence is more than `slack` ahead of the queue's clock.
    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64>;

    /// Adds completed minutes to their hours, each minute once, for any number of processes. Call it about once a minute, before
    /// the queue drops the minutes ([`MINUTES_KEPT`](super::MINUTES_KEPT)).
    async fn sum_hours(&self) -> Result<()>;
}
