//! The last API call of a pipeline. An idle pipeline whose last call failed stays unhealthy until a call succeeds.

use std::sync::{Mutex, PoisonError};

use crate::base::clock::{self, Millis};

#[derive(Debug, Default)]
pub struct LastCall(Mutex<CallOutcome>);

/// Times are by the queue's clock, ms since the epoch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// Reason of the failure; `None` if the call succeeded, or before the first call.
    pub failure: Option<String>,
    /// Time of the last failed call; 0 if none failed.
    pub failed_at: Millis,
    /// Time of the last successful call; 0 if none succeeded.
    pub answered_at: Millis,
}

impl LastCall {
    pub fn record_answer(&self) {
        self.update(|last, now| (last.failure, last.answered_at) = (None, now));
    }

    /// Records that the API did not respond, or that work with the response failed.
    pub fn record_failure(&self, why: &str) {
        self.update(|last, now| (last.failure, last.failed_at) = (Some(why.to_owned()), now));
    }

    #[must_use]
    pub fn outcome(&self) -> CallOutcome {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn update(&self, change: impl FnOnce(&mut CallOutcome, Millis)) {
        // Outside a batch the queue's clock is unknown, so this machine's clock serves.
        let now = clock::queue_ms().unwrap_or_else(clock::wall_ms);
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_lasts_until_an_answer() {
        let last = LastCall::default();
        assert_eq!(last.outcome(), CallOutcome::default());
        last.record_failure("HTTP 503");
        let failed = last.outcome();
        assert!(failed.failure.as_deref() == Some("HTTP 503") && failed.failed_at > 0 && failed.answered_at == 0);
        last.record_answer();
        let CallOutcome { failure, failed_at, answered_at } = last.outcome();
        assert!(failure.is_none() && failed_at == failed.failed_at && answered_at >= failed_at);
    }
}
