//! A pipeline of a process with what is seen of it from outside: its metrics and its health.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::base::shutdown::Stop;
use crate::engine::health::Health;
use crate::engine::metrics::Metrics;
use crate::engine::worker::LONGEST_PAUSE;
use crate::model::provider::Provider;

/// More than a healthy loop needs between two beats: the machine may be busy.
pub(super) const LIVE_SLACK: Duration = Duration::from_secs(30);

/// One pipeline of a process, as it is seen from outside.
#[derive(Debug, Clone)]
pub struct Monitored {
    /// The provider that it asks.
    pub provider: Provider,
    /// The name of the pipeline.
    pub namespace: String,
    /// Its counters and histograms.
    pub metrics: Arc<Metrics>,
    /// Its health.
    pub health: Arc<Health>,
    /// Stops this pipeline.
    pub stop: Stop,
}

impl Monitored {
    /// A pipeline that starts now. Its batches are leased for `lease`.
    #[must_use]
    pub fn new(provider: Provider, namespace: String, lease: Duration, stop: Stop) -> Self {
        // A loop waits for work, or is done with a batch within its lease.
        let patience = LONGEST_PAUSE.max(lease) + LIVE_SLACK;
        let health = Arc::new(Health::new(patience, stop.clone()));
        Self { provider, namespace, metrics: Arc::default(), health, stop }
    }

    /// Notes how the pipeline ended. Where it is not `alone`, the others go on, so an error is logged at once and not
    /// when all have ended.
    pub(super) fn ended(&self, ended: Result<()>, alone: bool) -> Result<()> {
        if let (Err(error), false) = (&ended, alone) {
            let error = format!("{error:#}");
            self.health.ended(&error);
            tracing::error!(provider = %self.provider, error, "stopped for good; the others go on");
        }
        ended
    }
}
