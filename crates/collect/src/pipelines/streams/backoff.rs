//! Delays before a reconnection. Pure.
//!
//! The figures are X's (docs.x.com, "Handling disconnections"): network errors 250 ms more each time up to 16 s; HTTP errors 5 s, doubled
//! up to 320 s; 429 one minute, doubled. They are not random: one process connects.

use std::time::Duration;

use networks::providers::stream::StreamError;

/// Step by which each network error waits longer than the one before, up to [`NETWORK_MAX`].
const NETWORK_STEP: Duration = Duration::from_millis(250);
const NETWORK_MAX: Duration = Duration::from_secs(16);

const HTTP_FIRST: Duration = Duration::from_secs(5);
const HTTP_MAX: Duration = Duration::from_secs(320);

const RATE_LIMIT_FIRST: Duration = Duration::from_secs(60);
/// X documents no limit. A window is 15 minutes, so after 16 the answer shows the new state.
const RATE_LIMIT_MAX: Duration = Duration::from_secs(16 * 60);

/// Delay for errors that a person must fix (a token, a plan, a rule): a refusal costs one call in five minutes, the fix no restart.
const REFUSED_DELAY: Duration = HTTP_MAX;

/// Number of failures of each kind since the last connection that lasted.
#[derive(Debug, Default)]
pub struct Backoff {
    network: u32,
    http: u32,
    rate: u32,
}

impl Backoff {
    /// Returns the delay before the next connection. X recommends none after a connection that worked. Here it is the first step, so that
    /// an API that opens and closes connections causes no busy loop.
    pub fn after(&mut self, broken: &StreamError) -> Duration {
        match broken {
            StreamError::Network(_) => {
                self.network = self.network.saturating_add(1);
                NETWORK_STEP.saturating_mul(self.network).min(NETWORK_MAX)
            }
            StreamError::Http(_) => double_delay(&mut self.http, HTTP_FIRST, HTTP_MAX),
            StreamError::Overloaded { at_least, .. } => {
                double_delay(&mut self.http, HTTP_FIRST, HTTP_MAX).max(*at_least)
            }
            StreamError::RateLimited { at_least, .. } => {
                double_delay(&mut self.rate, RATE_LIMIT_FIRST, RATE_LIMIT_MAX).max(*at_least)
            }
            StreamError::Refused(_) => REFUSED_DELAY,
        }
    }

    /// Starts over, after a connection that lasted. A connection that ends after its first post must not reset the delays.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

fn double_delay(times: &mut u32, first: Duration, most: Duration) -> Duration {
    let delay = first.saturating_mul(1u32.checked_shl(*times).unwrap_or(u32::MAX)).min(most);
    *times = times.saturating_add(1);
    delay
}
