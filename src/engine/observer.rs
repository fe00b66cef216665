//! What a pipeline's health and metrics hear of its tasks.

use std::sync::Arc;

use super::health::Health;
use super::metrics::Metrics;
use crate::base::supervise::{Cause, Observer};

/// A pipeline, as seen from outside.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its health: a task that failed is trouble until it runs well again.
    pub health: Arc<Health>,
    /// Its metrics: they count restarts.
    pub metrics: Arc<Metrics>,
}

impl Observer for Seen {
    fn restarts(&self, task: &str, cause: Cause, why: &str) {
        self.metrics.restarted(task, cause.word());
        self.health.fails(task, why);
    }

    fn is_steady(&self, task: &str) {
        self.health.is_steady(task);
    }
}
