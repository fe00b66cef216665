//! Keeps an updater on one processor core if its queue and store are files.
//!
//! In each of some 17 steps per batch, work moves from the runtime's thread to SQLite's and back. Threads of one core
//! alternate at little cost. A thread on another core sleeps by then, and waking it takes several times as long: a
//! seventh of an update's processor time (docs/performance.md).

use crate::config::{QueueBackend, Settings, StoreBackend};

/// Keeps this thread, and all threads it starts later, on its current core, if an updater writes only to files. If the
/// system does not allow it, they run on any core.
pub fn keep_to_one_core(settings: &Settings) {
    let works_on_files =
        settings.queue.backend == QueueBackend::Embedded && settings.store.backend == StoreBackend::Sqlite;
    if settings.updater.one_core && works_on_files {
        stay_here();
    }
}

#[cfg(target_os = "linux")]
fn stay_here() {
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

    let here = sched_getcpu();
    if here < CpuSet::MAX_CPU {
        let mut cores = CpuSet::new();
        cores.set(here);
        let _ = sched_setaffinity(None, &cores);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_here() {}
