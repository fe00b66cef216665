//! Reports of task restarts to a pipeline's health and metrics.

use std::sync::Arc;

use super::error_log::ErrorPlace;
use super::health::Health;
use super::metrics::Metrics;
use crate::base::call_error::ErrorKind;
use crate::base::supervise::{RestartCause, TaskObserver};

/// The parts of a pipeline that an observer of its tasks updates.
#[derive(Debug, Clone)]
pub struct PipelineObserver {
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
}

impl TaskObserver for PipelineObserver {
    fn on_restart(&self, task: &str, cause: RestartCause, why: &str) {
        self.metrics.count_restart(task, cause.word());
        self.metrics.errors.record(ErrorKind::Restart, &format!("{task}: {why}"), ErrorPlace::default());
        self.health.record_task_failure(task, why);
    }

    fn on_recovery(&self, task: &str) {
        self.health.clear_task_failure(task);
    }
}
