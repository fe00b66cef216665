//! Pauses, and repairs of due times.

use std::time::Duration;

use async_trait::async_trait;

use super::Result;
use crate::engine::lane::Lane;

/// Maximum number of ids per lane in an [`Inspection::sample`](super::Inspection::sample), and of ids that
/// [`Administration::repair_due_times`] changes per call. A larger sample makes Redis copy the set; a larger repair blocks its only thread.
pub const PAGE_LIMIT: usize = 1_000;

/// Slack beyond a lane's patience before a due time is out of bounds. A failed call is repeated after 60 s, even in a lane with
/// less patience, so no correct due time is beyond it. It is twice the default lease; longer leases need a longer slack in
/// [`Administration::repair_due_times`].
pub const DUE_SLACK: Duration = Duration::from_secs(120);

/// Calls for the people and processes that run a queue.
#[async_trait]
pub trait Administration: Send + Sync + std::fmt::Debug {
    /// Pauses claiming for a reason; `None` resumes it.
    async fn pause(&self, reason: Option<&str>) -> Result<()>;

    /// Corrects due times that are out of bounds, as a clock that was ahead leaves them. In each lane by lateness, ids due later
    /// than now + the lane's patience + `slack` are spread evenly over the lane's next patience. Changes up to `limit` ids over all
    /// lanes (at most [`PAGE_LIMIT`]) and returns their number. Due times within bounds never change.
    ///
    /// `slack` must be longer than any lease. Changes nothing while the last fence is more than `slack` ahead of the queue's clock.
    /// Then the clock stepped back: due times that look wrong may be right, and a lookup would return data older than the stored data.
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64>;

    /// Applies the patience, tier and order of `lane` to the queue's lane of that name, if there is one, and to its waiting jobs. In a
    /// lane by lateness, ids due later than now + its patience are spread evenly over its patience. Changes up to `limit` ids (at
    /// most [`PAGE_LIMIT`]), in the order of their due times, and returns their number. Call it again while it returns `limit`.
    /// Like [`repair_due_times`](Self::repair_due_times), it changes no due time while the clock is behind.
    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64>;

    /// Adds completed minutes to their hours, each minute once, for any number of calls and processes. Call it about once a minute,
    /// before the queue drops the minutes ([`MINUTES_KEPT`](super::MINUTES_KEPT)). If the clock stepped back by up to two hours,
    /// repeated minutes are left out.
    async fn sum_hours(&self) -> Result<()>;
}
