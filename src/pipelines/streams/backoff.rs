//! When to connect again. Pure.
//!
//! The figures are X's (docs.x.com, "Handling disconnections"): network errors 250 ms more each time up to 16 s; HTTP errors
//! 5 s, doubled up to 320 s; 429 one minute, doubled. There is no lot in them: one process connects.

use std::time::Duration;

use crate::providers::stream::Broken;

/// Each network error waits so much longer than the one before, up to [`NETWORK_MOST`].
const NETWORK_STEP: Duration = Duration::from_millis(250);
const NETWORK_MOST: Duration = Duration::from_secs(16);

const HTTP_FIRST: Duration = Duration::from_secs(5);
const HTTP_MOST: Duration = Duration::from_secs(320);

const RATE_FIRST: Duration = Duration::from_secs(60);
/// No end is documented. A window is 15 minutes, so after 16 the answer says anew how things are.
const RATE_MOST: Duration = Duration::from_secs(16 * 60);

/// What a person has to mend (a token, a plan, a rule) is looked after at the slowest documented pace: then the
/// mending is all there is to do, and what is refused costs one call in five minutes.
const REFUSED: Duration = HTTP_MOST;

/// The number of failures of each kind since a connection has lasted.
#[derive(Debug, Default)]
pub struct Backoff {
    network: u32,
    http: u32,
    rate: u32,
}

impl Backoff {
    /// How long to wait before connecting again. X would have the first attempt after a connection made at
    /// once; it is made after the first step, so that an API that opens and closes is no busy loop.
    pub fn after(&mut self, broken: &Broken) -> Duration {
        match broken {
            Broken::Network(_) => {
                self.network = self.network.saturating_add(1);
                NETWORK_STEP.saturating_mul(self.network).min(NETWORK_MOST)
            }
            Broken::Http(_) => doubled(&mut self.http, HTTP_FIRST, HTTP_MOST),
            Broken::Overloaded { at_least, .. } => doubled(&mut self.http, HTTP_FIRST, HTTP_MOST).max(*at_least),
            Broken::RateLimited { at_least, .. } => doubled(&mut self.rate, RATE_FIRST, RATE_MOST).max(*at_least),
            Broken::Refused(_) => REFUSED,
        }
    }

    /// A connection has lasted: all is as at first. One that ends after its first post has not, however often it is made.
    pub fn has_lasted(&mut self) {
        *self = Self::default();
    }
}

fn doubled(times: &mut u32, first: Duration, most: Duration) -> Duration {
    let delay = first.saturating_mul(1u32.checked_shl(*times).unwrap_or(u32::MAX)).min(most);
    *times = times.saturating_add(1);
    delay
}
