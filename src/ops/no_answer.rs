use std::time::Duration;

use collect::ingest::StarterError;
use engine::queue::QueueError;
use store::StoreError;

/// Reason why the queue or the store gave no answer, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// It is not open yet.
    #[error("{0} has not answered yet")]
    NotYet(&'static str),
    #[error("{0}")]
    Late(String),
    /// It cannot be opened, or it answered with an error.
    #[error("{0}")]
    Failed(String),
}

impl NoAnswer {
    /// `event`: "the store did not answer".
    #[must_use]
    pub fn within_seconds(event: &str, limit: Duration) -> Self {
        Self::Late(format!("{event} within {} s", limit.as_secs()))
    }

    #[must_use]
    pub fn within_millis(event: &str, limit: Duration) -> Self {
        Self::Late(format!("{event} within {} ms", limit.as_millis()))
    }
}

impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<QueueError> for NoAnswer {
    fn from(error: QueueError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StarterError> for NoAnswer {
    fn from(error: StarterError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<anyhow::Error> for NoAnswer {
    /// The text has all causes.
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}
