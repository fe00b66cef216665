//! Handlers of batches, and their results.

use std::sync::Arc;

use async_trait::async_trait;

use crate::queue::{Batch, Job, Verdict};
use crate::quota::{Credentials, Permit};

/// Handles the batches of a pipeline with metered calls: each batch brings a permit.
#[async_trait]
pub trait Handler: Send + Sync {
    fn endpoint(&self) -> &'static str;

    /// Handles a batch. It must end well before the lease, even if services hang. It may be dropped at any await, and is then repeated.
    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome;

    /// The result for a dropped batch: by default its jobs are released, uncounted. A handler that may leave jobs half done counts
    /// a delivery instead.
    fn handle_abandoned(&self, batch: &Batch) -> BatchOutcome {
        BatchOutcome::released(batch, Outlook::Unchanged)
    }
}

/// Handles the batches of a pipeline without a quota: the worker acquires no permit.
#[async_trait]
pub trait UnmeteredHandler: Send + Sync {
    async fn handle(&self, batch: &Batch) -> BatchOutcome;
}

#[derive(Clone)]
pub enum HandlerKind {
    /// The worker acquires a permit of these credentials for the handler's endpoint before it claims.
    Metered(Arc<dyn Handler>, Arc<Credentials>),
    /// The worker claims without a permit, even while every quota is used up.
    Unmetered(Arc<dyn UnmeteredHandler>),
}

/// The result of a batch. Jobs in neither list stay leased until the lease ends.
#[derive(Debug, Default)]
pub struct BatchOutcome {
    pub verdicts: Vec<(Job, Verdict)>,
    /// Jobs to release at once, uncounted.
    pub release: Vec<Job>,
    /// Counters to add to the namespace's in the same step as the verdicts, if one of them is applied.
    pub tally: Vec<(&'static str, i64)>,
    pub outlook: Outlook,
}

/// State of the services after a batch; it decides whether the worker backs off.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Outlook {
    #[default]
    Fine,
    /// No fault of the services, and no sign that they work either, for example without quota.
    Unchanged,
    /// A service is down: back off.
    Outage(String),
    /// The pipeline can never work: stop the process with this message.
    Stop(String),
}

impl BatchOutcome {
    /// Releases the whole batch, uncounted.
    #[must_use]
    pub fn released(batch: &Batch, outlook: Outlook) -> Self {
        Self { release: batch.jobs.clone(), outlook, ..Self::default() }
    }
}

impl HandlerKind {
    pub(super) fn handle_abandoned(&self, batch: &Batch) -> BatchOutcome {
        match self {
            Self::Metered(handler, _) => handler.handle_abandoned(batch),
            Self::Unmetered(_) => BatchOutcome::released(batch, Outlook::Unchanged),
        }
    }
}

/// Message of a handler that can never work, or of a queue whose file is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PermanentFailure(pub String);
