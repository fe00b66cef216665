//! What a pipeline's health and metrics hear of its tasks.

use std::sync::Arc;

use super::error_log::{ErrorKind, ErrorPlace};
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
        self.metrics.errors.record(ErrorKind::Restart, &format!("{task}: {why}"), ErrorPlace::default());
        self.health.fails(task, why);
    }

    fn is_steady(&self, task: &str) {
        self.health.is_steady(task);
    }
}
