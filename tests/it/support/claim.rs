//! Claims as most tests make them.

use std::time::Duration;

use twitter_updater::base::clock::{Millis, QueueTime};
use twitter_updater::engine::queue::{Batch, ClaimRequest, Fence, Job, Order};

/// Of what is due, without waiting for more and without looking ahead.
pub fn at_once(token: &str, limit: usize, lease: Duration) -> ClaimRequest<'_> {
    ClaimRequest { token, limit, linger: Duration::ZERO, lookahead: 0.0, early: 0.0, lease }
}

/// A batch of one medium's job, claimed when it came due, for a minute.
pub fn claimed(id: &str, lane: &str, at: Millis) -> Batch {
    let job =
        Job { id: id.to_owned(), lane: lane.into(), due: at, deliveries: 0, failures: 0, order: Order::OldestFirst };
    let fence = Fence { deadline: at + 60_000, token: "t".to_owned() };
    Batch { fence, now: QueueTime::starting_at(at), claimed_at: at, jobs: vec![job] }
}
