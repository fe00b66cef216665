//! Keeps an updater on one processor core if its queue and store are files.
//!
//! Some 17 times per batch, work moves from the runtime's thread to SQLite's and back. Threads of one core alternate at
//! little cost; waking a thread on another core costs a seventh of an update's processor time (docs/performance.md).

use collect::config::{QueueBackend, Settings, StoreBackend};

/// Keeps this thread, and all threads that it starts later, on its current core if queue and store are files. If the
/// system does not allow it, they run on any core.
pub fn pin_to_one_core(settings: &Settings) {
    let works_on_files =
        settings.queue.backend == QueueBackend::Embedded && settings.store.backend == StoreBackend::Sqlite;
    if settings.updater.one_core && works_on_files {
        pin_to_current_core();
    }
}

#[cfg(target_os = "linux")]
fn pin_to_current_core() {
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

    let here = sched_getcpu();
    if here < CpuSet::MAX_CPU {
        let mut cores = CpuSet::new();
        cores.set(here);
        let _ = sched_setaffinity(None, &cores);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin_to_current_core() {}
