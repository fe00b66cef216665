//! Claims as most tests make them.

use std::time::Duration;

use twitter_updater::engine::queue::ClaimRequest;

/// Of what is due, without waiting for more and without looking ahead.
pub fn at_once(token: &str, limit: usize, lease: Duration) -> ClaimRequest<'_> {
    ClaimRequest { token, limit, linger: Duration::ZERO, lookahead: 0.0, early: 0.0, lease }
}
