//! A pipeline of a process with its metrics and its health.

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
use crate::engine::observer::PipelineObserver;
use crate::engine::schedule::Corrected;
use crate::engine::schedule::adaptive::budget::Normaliser;
use crate::engine::worker::LONGEST_PAUSE;
use crate::pipelines::kind::Registered;

/// Slack of a healthy loop between two heartbeats: the machine may be busy.
pub(super) const LIVE_SLACK: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Monitored {
    /// Pipeline whose items it looks up, or finds.
    pub items: Registered,
    /// Schedule in force for these items, with the corrections of its budget.
    pub schedule: Corrected,
    pub namespace: String,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
}

impl Monitored {
    /// Creates a pipeline that starts now. Its batches are leased for `lease`.
    #[must_use]
    pub fn new(settings: &Settings, items: Registered, namespace: String, lease: Duration, stop: Stop) -> Self {
        // A loop waits for work, or finishes a batch within its lease.
        let patience = LONGEST_PAUSE.max(lease) + LIVE_SLACK;
        let health = Arc::new(Health::new(patience, stop.clone()));
        let api = api_address(settings, &items.id.provider);
        let host = api.as_ref().and_then(Url::host_str).unwrap_or_default();
        let metrics = Arc::new(Metrics::with(ErrorLog::new(&namespace, host)));
        let schedule = Corrected { schedule: items.schedule(settings).into(), by: Normaliser::default().into() };
        Self { items, schedule, namespace, metrics, health, stop }
    }

    /// Reports events of its tasks to health and metrics.
    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(PipelineObserver { health: self.health.clone(), metrics: self.metrics.clone() })
    }

    /// Records the end of the pipeline. If it is not `alone`, the others continue, so an error is logged at once.
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
