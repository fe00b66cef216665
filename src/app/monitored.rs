//! A pipeline of a process with its metrics and its health.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use reqwest::Url;

use super::apis::api_address;
use collect::config::Settings;
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::shutdown::Stop;
use engine::base::supervise::TaskObserver;
use engine::error_log::ErrorLog;
use engine::health::Health;
use engine::metrics::Metrics;
use engine::observer::PipelineObserver;
use engine::schedule::CorrectedSchedule;
use engine::schedule::adaptive::budget::Normaliser;
use engine::worker::LONGEST_PAUSE;

/// Slack of a healthy loop between two heartbeats: the machine may be busy.
pub(super) const LIVE_SLACK: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct MonitoredPipeline {
    /// Pipeline whose items it looks up, or finds.
    pub items: RegisteredPipeline,
    /// Schedule in force for these items, with the corrections of its budget.
    pub schedule: CorrectedSchedule,
    pub namespace: String,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
}

impl MonitoredPipeline {
    /// Creates a pipeline that starts now. Its batches are leased for `lease`.
    #[must_use]
    pub fn new(settings: &Settings, items: RegisteredPipeline, namespace: String, lease: Duration, stop: Stop) -> Self {
        // A loop waits for work, or finishes a batch within its lease.
        let patience = LONGEST_PAUSE.max(lease) + LIVE_SLACK;
        let health = Arc::new(Health::new(patience, stop.clone()));
        let api = api_address(settings, &items.id.provider);
        let host = api.as_ref().and_then(Url::host_str).unwrap_or_default();
        let metrics = Arc::new(Metrics::with_error_log(ErrorLog::new(&namespace, host)));
        let schedule =
            CorrectedSchedule { schedule: items.schedule(settings).into(), by: Normaliser::default().into() };
        Self { items, schedule, namespace, metrics, health, stop }
    }

    pub(super) fn observer(&self) -> Arc<dyn TaskObserver> {
        Arc::new(PipelineObserver { health: self.health.clone(), metrics: self.metrics.clone() })
    }

    /// Records the end of the pipeline. Logs an error at once if it is not `alone`, because the others continue.
    pub(super) fn record_end(&self, ended: Result<()>, alone: bool) -> Result<()> {
        if let (Err(error), false) = (&ended, alone) {
            let error = format!("{error:#}");
            self.health.record_end(&error);
            let (namespace, provider) = (&self.namespace, &self.items.id.provider);
            tracing::error!(namespace, %provider, error, "the pipeline stopped for good; the others continue");
        }
        ended
    }
}
