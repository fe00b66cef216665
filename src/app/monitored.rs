//! A pipeline of a process with what is seen of it from outside: its metrics and its health.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use reqwest::Url;

use super::apis::api_address;
use crate::base::shutdown::Stop;
use crate::base::supervise::Observer;
use crate::config::Settings;
use crate::engine::error_log::ErrorLog;
use crate::engine::health::Health;
use crate::engine::metrics::Metrics;
use crate::engine::observer::Seen;
use crate::engine::schedule::Corrected;
use crate::engine::schedule::adaptive::budget::Normaliser;
use crate::engine::worker::LONGEST_PAUSE;
use crate::pipelines::kind::Registered;

/// More than a healthy loop needs between two beats: the machine may be busy.
pub(super) const LIVE_SLACK: Duration = Duration::from_secs(30);

/// One pipeline of a process, as it is seen from outside.
#[derive(Debug, Clone)]
pub struct Monitored {
    /// The pipeline whose items it looks up, or brings.
    pub items: Registered,
    /// When those are due, in force, with the corrections of its budget: for whoever decides it.
    pub schedule: Corrected,
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
    pub fn new(settings: &Settings, items: Registered, namespace: String, lease: Duration, stop: Stop) -> Self {
        // A loop waits for work, or is done with a batch within its lease.
        let patience = LONGEST_PAUSE.max(lease) + LIVE_SLACK;
        let health = Arc::new(Health::new(patience, stop.clone()));
        let api = api_address(settings, &items.id.provider);
        let host = api.as_ref().and_then(Url::host_str).unwrap_or_default();
        let metrics = Arc::new(Metrics::with(ErrorLog::new(&namespace, host)));
        let schedule = Corrected { schedule: items.schedule(settings).into(), by: Normaliser::default().into() };
        Self { items, schedule, namespace, metrics, health, stop }
    }

    /// What its health and its metrics hear of its tasks.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Seen { health: self.health.clone(), metrics: self.metrics.clone() })
    }

    /// Notes how the pipeline ended. Where it is not `alone`, the others go on, so an error is logged at once and not
    /// when all have ended.
    pub(super) fn ended(&self, ended: Result<()>, alone: bool) -> Result<()> {
        if let (Err(error), false) = (&ended, alone) {
            let error = format!("{error:#}");
            self.health.ended(&error);
            let (namespace, provider) = (&self.namespace, &self.items.id.provider);
            tracing::error!(namespace, %provider, error, "stopped for good; the others go on");
        }
        ended
    }
}
