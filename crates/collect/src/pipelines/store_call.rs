//! Store calls of handlers: calls with a time limit, and marking a job dead.

use std::sync::Arc;
use std::time::Duration;

use crate::config::UpdaterSettings;
use engine::base::clock::Millis;
use engine::queue::{Batch, Job, Verdict};
use engine::worker::Outlook;
use store::{Store, StoreError};

/// Store of a pipeline's items.
#[derive(Debug, Clone)]
pub struct PipelineStore {
    pub namespace: String,
    pub store: Arc<dyn Store>,
    pub save_timeout: Duration,
    /// Failures of an item alone (its process ends, the API refuses it) after which it is dead.
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

    /// Returns the job of a batch that failed too often while it was alone, and the reason to mark it dead.
    #[must_use]
    pub fn repeated_crash<'a>(&self, batch: &'a Batch) -> Option<(&'a Job, String)> {
        let [job] = &batch.jobs[..] else { return None };
        let failures = job.failures;
        (failures >= self.max_deliveries).then(|| {
            (job, format!("it failed {failures} times while it was alone: its process ended, or the API refused it"))
        })
    }

    /// Marks a job dead, in the store before the queue. `at` is on the queue's clock, ms since the epoch.
    pub async fn mark_dead(&self, at: Millis, job: &Job, reason: String) -> Result<Verdict, StoreError> {
        self.store.mark_dead(&self.namespace, at, &[(job.id.clone(), reason.clone())]).await?;
        tracing::error!(id = job.id, reason, "an item failed for good: it is dead now");
        Ok(Verdict::MarkDead { reason })
    }
}

/// Waits for the store's answer. Fails with [`Outlook::Outage`] if the store is down or does not answer within `save_timeout`, and with
/// [`Outlook::Stop`] if its file is gone.
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
