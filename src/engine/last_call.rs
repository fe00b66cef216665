//! The last call of a pipeline to its API: an idle pipeline whose last call failed is not well until a call is answered.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::base::clock::{self, Millis};
use crate::engine::error_log::ErrorKind;

/// An error of a call.
pub trait CallError: Display {
    /// Returns true if the API gave no usable answer. A refusal is an answer.
    fn is_outage(&self) -> bool;

    /// The kind under which the error of any call is recorded; `None` for one that is expected, or whose cause only the caller
    /// finds: an item, or the credential.
    fn kind(&self) -> Option<ErrorKind>;
}

/// The outcome of the last call, shared by the tasks of a pipeline.
#[derive(Debug, Default)]
pub struct LastCall(Mutex<CallOutcome>);

/// The outcome of the last call. Times are by the queue's clock, ms since the epoch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// Why it failed; `None` if it was answered, or there was none.
    pub failure: Option<String>,
    /// When a call failed last; 0 if none did.
    pub failed_at: Millis,
    /// When a call was answered last; 0 if none was.
    pub answered_at: Millis,
}

impl LastCall {
    /// The API answered.
    pub fn answered(&self) {
        self.change(|last, now| (last.failure, last.answered_at) = (None, now));
    }

    /// The API did not answer, or what depends on the answer failed.
    pub fn failed(&self, why: &str) {
        self.change(|last, now| (last.failure, last.failed_at) = (Some(why.to_owned()), now));
    }

    /// Its outcome.
    #[must_use]
    pub fn outcome(&self) -> CallOutcome {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut CallOutcome, Millis)) {
        // Outside a batch only this machine's clock is known.
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
        last.failed("HTTP 503");
        let failed = last.outcome();
        assert!(failed.failure.as_deref() == Some("HTTP 503") && failed.failed_at > 0 && failed.answered_at == 0);
        last.answered();
        let CallOutcome { failure, failed_at, answered_at } = last.outcome();
        assert!(failure.is_none() && failed_at == failed.failed_at && answered_at >= failed_at);
    }
}
