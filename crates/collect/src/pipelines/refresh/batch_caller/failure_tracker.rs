//! Failures of ids at the provider, in this process's memory only: a lost one costs a repeated call.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use crate::pipelines::blame::Evidence;
use engine::base::log_throttle::LogThrottle;
use engine::queue::Job;

/// Maximum remembered suspects, far above need: some never come again.
const MAX_SUSPECTS: usize = 100_000;

/// Failures of ids at the provider, in this process's memory only: a lost one costs a repeated call.
#[derive(Debug, Default)]
pub struct FailureTracker {
    /// Failed calls by id, until it is answered.
    failed: Mutex<HashMap<String, u32>>,
    /// True if a call was answered since the last blame of a separate job: the API does not refuse all.
    pub(super) others_answered: AtomicBool,
    pub(super) evidence: Evidence,
    /// Rate limits of log lines: unrequested objects, answers under another id, and ids that the API refuses alone.
    pub(super) unrequested_log: LogThrottle,
    pub(super) other_id_log: LogThrottle,
    pub(super) hidden_log: LogThrottle,
}

impl FailureTracker {
    pub(super) fn record_failure(&self, jobs: &[Job]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() > MAX_SUSPECTS {
            failed.clear();
        }
        for job in jobs {
            *failed.entry(job.id.clone()).or_default() += 1;
        }
    }

    pub(super) fn failure_counts(&self, jobs: &[Job]) -> Vec<u32> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().map(|job| failed.get(&job.id).copied().unwrap_or(0)).collect()
    }

    /// Returns true if at least two calls failed for each of them: one failure may be temporary.
    pub(super) fn are_suspects(&self, jobs: &[Job]) -> bool {
        self.failure_counts(jobs).iter().all(|times| *times > 1)
    }

    pub(super) fn clear_failures(&self, jobs: &[Job]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if !failed.is_empty() {
            for job in jobs {
                failed.remove(&job.id);
            }
        }
    }
}
