//! Heartbeat of a worker: the state that it reports to its queue every few seconds, from before its start until it
//! leaves.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::{InForce, Monitored, Shared};
use crate::base::reload::Reloadable;
use crate::base::supervise::Beside;
use crate::base::task;
use crate::engine::health::Trouble;
use crate::engine::last_call::CallOutcome;
use crate::engine::lateness::Lateness;
use crate::engine::metrics::CounterSet;
use crate::engine::queue::{Queue, QueueError, WorkerStats};
use crate::pipelines::timelines::source::SourcePoll;

pub(super) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Delay of the heartbeat that reports an outage or its end. Shorter outages are not reported.
const SAY_AFTER: Duration = Duration::from_secs(1);

/// Heartbeat of a worker, until it is dropped or the worker stops.
pub struct Heartbeat {
    pub(super) listed: Arc<Listed>,
    pub(super) beating: AbortOnDropHandle<()>,
}

impl Heartbeat {
    pub(super) fn start(
        name: &str,
        shared: &Shared,
        pipeline: &Monitored,
        queue: Arc<dyn Queue>,
        counted: Counted,
    ) -> Self {
        let (name, in_force, pipeline) = (name.to_owned(), shared.in_force.clone(), pipeline.clone());
        let api = shared.api_of(&pipeline.items);
        let listed = Arc::new(Listed { name, in_force, pipeline, queue, counted, api });
        let beat = {
            let listed = listed.clone();
            Beside::new("heartbeat", move || listed.clone().beat_on())
        };
        let Monitored { namespace, stop, .. } = listed.pipeline.clone();
        let beating = beat.run(namespace, listed.pipeline.observer(), stop);
        Self { beating: AbortOnDropHandle::new(tokio::spawn(beating)), listed }
    }
}

pub(super) struct Listed {
    name: String,
    in_force: Reloadable<InForce>,
    pub pipeline: Monitored,
    queue: Arc<dyn Queue>,
    counted: Counted,
    api: String,
}

pub(super) enum Counted {
    /// Counts of an updater, with the lateness of its posts.
    Updates,
    /// Counts of polled sources; only /metrics shows their lateness. Their errors go into the queue of their posts,
    /// because it has a page.
    Polls(Arc<SourcePoll>),
}

impl Listed {
    /// Sends heartbeats until the worker stops: also immediately after a configuration change, and one second after an
    /// outage starts or ends.
    async fn beat_on(self: Arc<Self>) {
        let (mut changes, stop) = (self.in_force.changes(), &self.pipeline.stop);
        while !stop.is_draining() {
            task::step("beats");
            self.beat().await;
            tokio::select! {
                () = stop.sleep(BEAT_EVERY) => {}
                () = changes.next() => {}
                () = async { self.pipeline.health.changed().await; stop.sleep(SAY_AFTER).await } => {}
            }
        }
    }

    async fn beat(&self) {
        if let Err(error) = self.tell().await {
            tracing::warn!(error = %error, namespace = self.queue.namespace(), "no heartbeat");
        }
        if let Err(error) = self.record_errors().await {
            tracing::warn!(error = %error, namespace = self.queue.namespace(), "cannot record errors in the queue: the next heartbeat retries");
        }
    }

    /// Sends the errors since the last heartbeat to the queue. If it does not respond, they are sent later.
    async fn record_errors(&self) -> Result<(), QueueError> {
        let log = &self.pipeline.metrics.errors;
        let queue = match &self.counted {
            Counted::Updates => &self.queue,
            Counted::Polls(poll) => poll.reader.starter.queue(),
        };
        let pending = log.pending();
        if !pending.is_empty() {
            queue.record_errors(&pending).await?;
            log.merged(&pending);
        }
        Ok(())
    }

    async fn tell(&self) -> Result<(), QueueError> {
        let queue = &*self.queue;
        let Monitored { metrics, health, .. } = &self.pipeline;
        // Always sent: an omitted field would keep its old value.
        let (why, since) =
            health.trouble().map_or_else(Default::default, |Trouble { why, since_ms }| (why, since_ms.to_string()));
        let CallOutcome { failure, failed_at, answered_at } = metrics.last_call.outcome();
        let mut fields = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("pid", std::process::id().to_string()),
            (WorkerStats::TROUBLE, why),
            (WorkerStats::TROUBLE_SINCE, since),
            (WorkerStats::FAILING, health.failing().map_or_else(String::new, |of| of.why)),
            (WorkerStats::API, self.api.clone()),
            (WorkerStats::CALL_FAILED, failure.unwrap_or_default()),
            (WorkerStats::CALL_FAILED_AT, failed_at.to_string()),
            (WorkerStats::CALL_ANSWERED_AT, answered_at.to_string()),
        ];
        let (unreported, lateness) = match &self.counted {
            Counted::Updates => {
                let in_force = self.in_force.load();
                fields.extend([
                    ("concurrency", in_force.settings.updater.concurrency.to_string()),
                    ("requests", metrics.counters.requests.get().to_string()),
                    ("late_p99_ms", metrics.lateness(99.0).to_string()),
                    ("config_revision", in_force.revision.clone()),
                    ("config_refused", in_force.refused.clone().unwrap_or_default()),
                    ("config_needs_restart", in_force.needs_restart()),
                ]);
                (metrics.counters.unreported(), metrics.unreported_lateness())
            }
            Counted::Polls(poll) => (poll.reader.polls.unreported(), Lateness::default()),
        };
        // A heartbeat with a lost reply is counted twice: these figures are for people, not for money.
        queue.heartbeat(&self.name, &fields, &unreported.counts(), &lateness).await?;
        unreported.mark_reported();
        metrics.mark_lateness_reported(&lateness);
        match &self.counted {
            Counted::Updates => Ok(()),
            // Another poller whose settings lack a source removes it from the queue.
            Counted::Polls(poll) => poll.schedule(queue).await,
        }
    }

    /// Reports the counts since the last heartbeat, then takes the worker off the list.
    pub async fn leave(&self) -> Result<(), String> {
        self.beat().await;
        self.queue.deregister(&self.name).await.map_err(|error| error.to_string())
    }
}
