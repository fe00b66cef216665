//! Starters put items into a queue: new ones, lost ones, and the dead.

use std::sync::Arc;

use anyhow::Result;

use super::{Monitored, Shared};
use crate::base::reload::Reloadable;
use crate::base::retry::RetryPolicy;
use crate::config::Settings;
use crate::engine::queue::Queue;
use crate::engine::schedule::Schedules;
use crate::ingest::{Rebuild, Starter};
use crate::model::pipeline_id::PipelineId;
use crate::ops::dead::Dead;
use crate::pipelines::kind::{Receiving, Registered};
use crate::pipelines::refresh::Target;
use crate::store::{Store, Way};

/// Creates a starter of that pipeline's items; `queue` has its namespace.
#[must_use]
pub fn starter(
    settings: &Settings,
    pipeline: &Registered,
    queue: Arc<dyn Queue>,
    store: Option<Arc<dyn Store>>,
    schedule: impl Into<Arc<dyn Schedules>>,
) -> Starter {
    let starter = Starter::new(queue, store, schedule, pipeline.id_date(), pipeline.kind.parse(&pipeline.id));
    starter.leaving_out_hidden(settings.bluesky.leave_out_hidden)
}

/// Returns the pipelines in `all` that this one fans out to. A missing one is not an error: a kind may be turned off, or
/// its provider may not have it. This pipeline's own items are still looked up. The queues are not checked yet, so one
/// that is down stops nothing.
pub(super) async fn targets(shared: &Shared, one: &Registered, all: &[Monitored]) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for kind in one.kind.fans_out_to(&shared.in_force.load().settings) {
        let id = PipelineId::named(&one.id.provider, kind);
        let is_meant = |other: &&Monitored| PipelineId { partition: None, ..other.items.id.clone() } == id;
        if !all.iter().any(|other| is_meant(&other)) {
            tracing::info!(namespace = %one.id, target = %id, "no such pipeline in the settings: nothing is fanned out to it");
        }
        for Monitored { items, schedule, namespace, .. } in all.iter().filter(is_meant) {
            let queue = shared.service.unchecked_queue(namespace).await?;
            let settings = &shared.in_force.load().settings;
            let starter = starter(settings, items, queue, Some(shared.database.store.clone()), schedule.clone());
            let (database, in_force) = (shared.database.clone(), shared.live());
            let receiving = Receiving { schedule: schedule.clone().into(), database, in_force };
            let receiver = items.kind.receives(&items.id, receiving);
            let way = Way { source: one.namespace(), ..Way::of("fan_out") };
            targets.push(Target::new(items.id.clone(), starter.by(way), receiver));
        }
    }
    Ok(targets)
}

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
        lease: pipeline.kind.lease(settings),
        rate: settings.rebuild.rate,
        retry: RetryPolicy::default(),
    }
}

pub fn dead_of(settings: &Settings, pipeline: &Registered, queue: Arc<dyn Queue>, store: Arc<dyn Store>) -> Dead {
    let schedule = Reloadable::new(pipeline.schedule(settings));
    Dead { queue, store, lanes: pipeline.lanes(settings, schedule.into()) }
}
