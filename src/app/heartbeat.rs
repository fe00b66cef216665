//! Heartbeat of a worker: the state that it reports to its queue every few seconds, from before its start until it
//! leaves.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::{ActiveConfig, MonitoredPipeline, SharedServices};
use collect::pipelines::timelines::source::SourcePoll;
use engine::base::reload::Reloadable;
use engine::base::supervise::BackgroundTask;
use engine::base::task;
use engine::health::Trouble;
use engine::last_call::CallOutcome;
use engine::lateness::Lateness;
use engine::metrics::CounterSet;
use engine::queue::{Queue, QueueError, WorkerStats};

pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Delay of the heartbeat that reports an outage or its end. Shorter outages are not reported.
const OUTAGE_REPORT_DELAY: Duration = Duration::from_secs(1);

/// Heartbeat of a worker. It ends when it is dropped or the worker stops.
pub struct Heartbeat {
    pub(super) entry: Arc<WorkerEntry>,
    pub(super) beating: AbortOnDropHandle<()>,
}

impl Heartbeat {
    pub(super) fn start(
        name: &str,
        shared: &SharedServices,
        pipeline: &MonitoredPipeline,
        queue: Arc<dyn Queue>,
        counted: CountSource,
    ) -> Self {
        let (name, in_force, pipeline) = (name.to_owned(), shared.in_force.clone(), pipeline.clone());
        let api = shared.api_text(&pipeline.items);
        let entry = Arc::new(WorkerEntry { name, in_force, pipeline, queue, counted, api });
        let beat = {
            let entry = entry.clone();
            BackgroundTask::new("heartbeat", move || entry.clone().beat_until_stopped())
        };
        let MonitoredPipeline { namespace, stop, .. } = entry.pipeline.clone();
        let beating = beat.run(namespace, entry.pipeline.observer(), stop);
        Self { beating: AbortOnDropHandle::new(tokio::spawn(beating)), entry }
    }
}

pub(super) struct WorkerEntry {
    name: String,
    in_force: Reloadable<ActiveConfig>,
    pub pipeline: MonitoredPipeline,
    queue: Arc<dyn Queue>,
    counted: CountSource,
    api: String,
}

pub(super) enum CountSource {
    /// Counts of an updater, with the lateness of its posts.
    Updates,
    /// Counts of polled sources; only /metrics shows their lateness. Their errors go into the queue of their posts, which
    /// has a page.
    Polls(Arc<SourcePoll>),
}

impl WorkerEntry {
    /// Sends heartbeats until the worker stops; also after a configuration change, and one second after an outage starts
    /// or ends.
    async fn beat_until_stopped(self: Arc<Self>) {
        let (mut changes, stop) = (self.in_force.changes(), &self.pipeline.stop);
        while !stop.is_draining() {
            task::step("beats");
            self.beat().await;
            tokio::select! {
                () = stop.sleep(HEARTBEAT_INTERVAL) => {}
                () = changes.next() => {}
                () = async { self.pipeline.health.wait_for_change().await; stop.sleep(OUTAGE_REPORT_DELAY).await } => {}
            }
        }
    }

    async fn beat(&self) {
        if let Err(error) = self.send().await {
            tracing::warn!(error = %error, namespace = self.queue.namespace(), "the heartbeat failed: the next one tries again");
        }
        if let Err(error) = self.record_errors().await {
            tracing::warn!(
                error = %error,
                namespace = self.queue.namespace(),
                "cannot record errors in the queue: the next heartbeat retries"
            );
        }
    }

    /// Sends the errors since the last heartbeat to the queue. If it does not respond, they are sent later.
    async fn record_errors(&self) -> Result<(), QueueError> {
        let log = &self.pipeline.metrics.errors;
        let queue = match &self.counted {
            CountSource::Updates => &self.queue,
            CountSource::Polls(poll) => poll.reader.starter.queue(),
        };
        let pending = log.pending();
        if !pending.is_empty() {
            queue.record_errors(&pending).await?;
            log.subtract_stored(&pending);
        }
        Ok(())
    }

    async fn send(&self) -> Result<(), QueueError> {
        let queue = &*self.queue;
        let MonitoredPipeline { metrics, health, .. } = &self.pipeline;
        // Always sent: an omitted field would keep its old value.
        let (why, since) =
            health.trouble().map_or_else(Default::default, |Trouble { why, since_ms }| (why, since_ms.to_string()));
        let CallOutcome { failure, failed_at, answered_at } = metrics.last_call.outcome();
        let mut fields = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("pid", std::process::id().to_string()),
            (WorkerStats::TROUBLE, why),
            (WorkerStats::TROUBLE_SINCE, since),
            (WorkerStats::FAILING, health.longest_failing_task().map_or_else(String::new, |of| of.why)),
            (WorkerStats::API, self.api.clone()),
            (WorkerStats::CALL_FAILED, failure.unwrap_or_default()),
            (WorkerStats::CALL_FAILED_AT, failed_at.to_string()),
            (WorkerStats::CALL_ANSWERED_AT, answered_at.to_string()),
        ];
        let (unreported, lateness) = match &self.counted {
            CountSource::Updates => {
                let in_force = self.in_force.load();
                fields.extend([
                    ("concurrency", in_force.settings.updater.concurrency.to_string()),
                    ("requests", metrics.counters.requests.get().to_string()),
                    ("late_p99_ms", metrics.lateness_percentile(99.0).to_string()),
                    ("config_revision", in_force.revision.clone()),
                    ("config_refused", in_force.refused.clone().unwrap_or_default()),
                    ("config_needs_restart", in_force.needs_restart()),
                ]);
                (metrics.counters.unreported(), metrics.unreported_lateness())
            }
            CountSource::Polls(poll) => (poll.reader.polls.unreported(), Lateness::default()),
        };
        // A heartbeat with a lost reply is counted twice: these figures are for people, not for money.
        queue.heartbeat(&self.name, &fields, &unreported.counts(), &lateness).await?;
        unreported.mark_reported();
        metrics.mark_lateness_reported(&lateness);
        match &self.counted {
            CountSource::Updates => Ok(()),
            // Another poller whose settings lack a source removes it from the queue.
            CountSource::Polls(poll) => poll.schedule(queue).await,
        }
    }

    /// Reports the counts since the last heartbeat, then takes the worker off the list.
    pub async fn leave(&self) -> Result<(), QueueError> {
        self.beat().await;
        self.queue.deregister(&self.name).await
    }
}
