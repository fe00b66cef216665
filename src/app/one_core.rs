//! An updater whose queue and store are files stays on one processor core.
//!
//! At each of some 17 steps a batch, its work goes from the runtime's thread to SQLite's and back. Threads of one core take turns
//! at little cost. One on another core sleeps by then, and to wake it takes several times as long: a seventh of an update's
//! processor time (docs/performance.md).

use crate::config::{QueueBackend, Settings, StoreBackend};

/// Keeps this thread, and all that it will start, on the core on which it is, if all that an updater writes goes into files. Where
/// the system does not allow that, they run on any core, as without it.
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

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
fn stay_here() {}
