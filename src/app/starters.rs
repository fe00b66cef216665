//! What puts items into a queue: new ones, those that it has lost, and the dead.

use std::sync::Arc;

use crate::base::reload::Reloadable;
use crate::base::retry::RetryPolicy;
use crate::config::Settings;
use crate::engine::queue::Queue;
use crate::engine::schedule::Schedules;
use crate::ingest::{Rebuild, Starter};
use crate::ops::dead::Dead;
use crate::pipelines::kind::Registered;
use crate::store::Store;

/// A starter of that pipeline's items; the queue is that of its namespace.
#[must_use]
pub fn starter(
    pipeline: &Registered,
    queue: Arc<dyn Queue>,
    store: Option<Arc<dyn Store>>,
    schedule: impl Into<Arc<dyn Schedules>>,
) -> Starter {
    Starter::new(queue, store, schedule, pipeline.id_date(), pipeline.kind.parse(&pipeline.id))
}

/// What puts back into that queue what it has lost.
pub fn rebuild_of(
    settings: &Settings,
    pipeline: &Registered,
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
    schedule: impl Into<Arc<dyn Schedules>>,
) -> Rebuild {
    Rebuild {
        queue,
        store,
        lanes: pipeline.lanes(settings, schedule.into()),
        lease: settings.updater.lease,
        rate: settings.rebuild.rate,
        retry: RetryPolicy::default(),
    }
}

/// The dead of that queue.
pub fn dead_of(settings: &Settings, pipeline: &Registered, queue: Arc<dyn Queue>, store: Arc<dyn Store>) -> Dead {
    let schedule = Reloadable::new(pipeline.schedule(settings));
    Dead { queue, store, lanes: pipeline.lanes(settings, schedule.into()) }
}
