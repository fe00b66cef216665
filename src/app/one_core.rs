//! An updater whose queue and store are files stays on one processor core.
//!
//! Its work goes to and fro between the runtime's thread and SQLite's, some forty times a batch. Threads of one core take
//! turns at little cost. To wake one on another core, which sleeps by then, takes several times as long, of both: a seventh
//! of an update's processor time (docs/performance.md).

use crate::config::{QueueBackend, Settings, StoreBackend};

/// Returns true if all that an updater writes goes into files, and it may stay on one core.
pub fn stays_on_one_core(settings: &Settings) -> bool {
    settings.updater.one_core
        && settings.queue.backend == QueueBackend::Embedded
        && settings.store.backend == StoreBackend::Sqlite
}

/// Keeps this thread, and all that it will start, on the core on which it is. Where the system does not allow that, they run on
/// any, as they would.
#[cfg(target_os = "linux")]
pub fn stay_on_this_core() {
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
pub fn stay_on_this_core() {}
