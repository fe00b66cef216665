//! The heartbeat of a worker: what it says of itself to the queue, every few seconds, from before it works until it
//! leaves.

use std::sync::Arc;
use std::time::Duration;

use super::InForce;
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::engine::health::{Health, Trouble};
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Queue, WorkerStats};

/// How often a worker says that it is alive.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// How soon it says that its services went out or answer again. What is over by then is not worth a word.
const SAY_AFTER: Duration = Duration::from_secs(1);

/// What keeps a worker from working, as fields of its heartbeat; empty where nothing does: a field that is left out
/// would stay as it was.
pub(super) fn trouble_fields(health: &Health) -> [(&'static str, String); 2] {
    let (why, since) =
        health.trouble().map_or_else(Default::default, |Trouble { why, since_ms }| (why, since_ms.to_string()));
    [(WorkerStats::TROUBLE, why), (WorkerStats::TROUBLE_SINCE, since)]
}

/// The heartbeat of an updater.
#[derive(Debug, Clone)]
pub(super) struct Heartbeat {
    pub queue: Arc<dyn Queue>,
    /// The worker's name.
    pub name: String,
    pub in_force: Reloadable<InForce>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
}

impl Heartbeat {
    /// Beats until the process is to stop: at once when the configuration changes, and after a second when the services
    /// go out or answer again.
    pub async fn run(self, stop: Stop) {
        let mut changes = self.in_force.changes();
        while !stop.is_draining() {
            self.beat().await;
            tokio::select! {
                () = stop.sleep(BEAT_EVERY) => {}
                () = changes.next() => {}
                () = async { self.health.changed().await; stop.sleep(SAY_AFTER).await } => {}
            }
        }
    }

    async fn beat(&self) {
        let Self { queue, name, in_force, metrics, health } = self;
        let in_force = in_force.load();
        let mut fields = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("pid", std::process::id().to_string()),
            ("concurrency", in_force.settings.updater.concurrency.to_string()),
            ("requests", metrics.counters.requests.get().to_string()),
            ("late_p99_ms", metrics.lateness(99.0).to_string()),
            ("config_revision", in_force.revision.clone()),
            ("config_refused", in_force.refused.clone().unwrap_or_default()),
            ("config_needs_restart", in_force.needs_restart()),
        ];
        fields.extend(trouble_fields(health));
        let (untold, lateness) = (metrics.counters.untold(), metrics.untold_lateness());
        match queue.beat(name, &fields, &untold.counts(), &lateness).await {
            // A beat whose answer was lost is counted again: these figures are for people, not for money.
            Ok(()) => {
                untold.told();
                metrics.told_lateness(&lateness);
            }
            Err(error) => tracing::warn!(error = %error, "no heartbeat"),
        }
    }

    /// Tells what was counted since the last beat, then takes the worker off the list.
    pub async fn leave(&self) -> Result<(), String> {
        self.beat().await;
        self.queue.leave(&self.name).await.map_err(|error| error.to_string())
    }
}
