//! Store calls of handlers: calls with a time limit, and marking a job dead.

use std::sync::Arc;
use std::time::Duration;

use crate::config::UpdaterSettings;
use engine::base::clock::Millis;
use engine::queue::{Job, Verdict};
use engine::worker::Outlook;
use store::{Store, StoreError};

/// Store of a pipeline's items.
#[derive(Debug, Clone)]
pub struct PipelineStore {
    pub namespace: String,
    pub store: Arc<dyn Store>,
    pub save_timeout: Duration,
    /// Failures after which an item is dead, for example ended processes while it was alone in its batch.
    pub max_deliveries: u32,
}

impl PipelineStore {
    pub fn new(namespace: String, store: Arc<dyn Store>, settings: &UpdaterSettings) -> Self {
        let UpdaterSettings { save_timeout, max_deliveries, .. } = *settings;
        Self { namespace, store, save_timeout, max_deliveries }
    }

    pub async fn run_with_timeout<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        run_with_timeout(self.save_timeout, work).await
    }
}

/// Waits for the store's answer. If the store is down, or late by `save_timeout`, the error is the outlook of the process.
pub async fn run_with_timeout<T>(
    save_timeout: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, Outlook> {
    let answer = tokio::time::timeout(save_timeout, work).await;
    let late = || format!("the store did not answer within updater.save_timeout ({save_timeout:?})");
    answer.map_err(|_| Outlook::Outage(late()))?.map_err(|failure| match failure {
        StoreError::Gone(why) => Outlook::Stop(why),
        failure => Outlook::Outage(failure.to_string()),
    })
}

/// Marks a job dead, in the store before the queue. `at` is on the queue's clock, ms since the epoch.
pub async fn mark_dead(
    store: &dyn Store,
    namespace: &str,
    at: Millis,
    job: &Job,
    reason: String,
) -> Result<Verdict, StoreError> {
    store.mark_dead(namespace, at, &[(job.id.clone(), reason.clone())]).await?;
    tracing::error!(id = job.id, reason, "an item failed for good: it is dead now");
    Ok(Verdict::MarkDead { reason })
}

/// Reason to mark a job dead that failed each time it was alone.
#[must_use]
pub fn repeated_crash_reason(job: &Job) -> String {
    format!("it failed {} times while it was alone: its process ended, or the API refused it", job.failures)
}
