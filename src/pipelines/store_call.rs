//! Store calls of handlers: an answer in time, and the burial of a job.

use std::time::Duration;

use crate::base::clock::Millis;
use crate::engine::queue::{Job, Verdict};
use crate::engine::worker::Outlook;
use crate::store::{Store, StoreError};

/// Waits for the store's answer. If the store is down, or late by `save_timeout`, the error is the outlook of the process.
pub async fn in_time<T>(
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

/// Buries a job, in the store before the queue. `at` is on the queue's clock, ms since the epoch.
pub async fn bury(
    store: &dyn Store,
    namespace: &str,
    at: Millis,
    job: &Job,
    reason: String,
) -> Result<Verdict, StoreError> {
    store.bury(namespace, at, &[(job.id.clone(), reason.clone())]).await?;
    tracing::error!(id = job.id, reason, "buried");
    Ok(Verdict::Bury { reason })
}

/// Reason to bury a job that ended its process each time it was alone in it.
#[must_use]
pub fn ended_its_process(job: &Job) -> String {
    format!("its process ended {} times while it was alone in it", job.failures)
}
