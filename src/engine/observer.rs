//! Reports of task restarts to a pipeline's health and metrics.

use std::sync::Arc;

use super::error_log::{ErrorKind, ErrorPlace};
use super::health::Health;
use super::metrics::Metrics;
use crate::base::supervise::{Cause, Observer};

/// The parts of a pipeline that an observer of its tasks updates.
#[derive(Debug, Clone)]
pub struct PipelineObserver {
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
}

impl Observer for PipelineObserver {
    fn restarts(&self, task: &str, cause: Cause, why: &str) {
        self.metrics.restarted(task, cause.word());
        self.metrics.errors.record(ErrorKind::Restart, &format!("{task}: {why}"), ErrorPlace::default());
        self.health.fails(task, why);
    }

    fn is_steady(&self, task: &str) {
        self.health.is_steady(task);
    }
}
