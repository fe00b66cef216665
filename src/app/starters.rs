//! Starters put items into a queue: new ones, lost ones, and the dead.

use std::sync::Arc;

use anyhow::Result;

use super::{MonitoredPipeline, SharedServices};
use crate::data::dead::DeadItems;
use collect::config::Settings;
use collect::ingest::{Rebuild, Starter};
use collect::pipelines::kind::{ReceiverContext, RegisteredPipeline};
use collect::pipelines::refresh::FanOutTarget;
use engine::base::reload::Reloadable;
use engine::base::retry::RetryPolicy;
use engine::queue::Queue;
use engine::schedule::Schedules;
use networks::model::pipeline_id::PipelineId;
use store::{Store, Way};

/// Creates a starter of that pipeline's items; `queue` has its namespace.
#[must_use]
pub fn starter(
    settings: &Settings,
    pipeline: &RegisteredPipeline,
    queue: Arc<dyn Queue>,
    store: Option<Arc<dyn Store>>,
    schedule: impl Into<Arc<dyn Schedules>>,
) -> Starter {
    let starter = Starter::new(queue, store, schedule, pipeline.id_date(), pipeline.kind.parse(&pipeline.id));
    starter.with_hidden_content_dropped(settings.bluesky.leave_out_hidden)
}

/// Returns the pipelines in `all` that this one fans out to. A missing one is not an error: a kind may be turned off, or
/// its provider may not have it. The queues are not checked yet, so one that is down stops nothing.
pub(super) async fn fan_out_targets(
    shared: &SharedServices,
    one: &RegisteredPipeline,
    all: &[MonitoredPipeline],
) -> Result<Vec<FanOutTarget>> {
    let mut fan_out_targets = Vec::new();
    for kind in one.kind.fan_out_kinds(&shared.in_force.load().settings) {
        let id = PipelineId::named(&one.id.provider, kind);
        let is_meant = |other: &&MonitoredPipeline| PipelineId { partition: None, ..other.items.id.clone() } == id;
        if !all.iter().any(|other| is_meant(&other)) {
            tracing::info!(
                namespace = %one.id,
                target = %id,
                "the settings have no such pipeline: nothing is fanned out to it"
            );
        }
        for MonitoredPipeline { items, schedule, namespace, .. } in all.iter().filter(is_meant) {
            let queue = shared.service.open_unchecked_queue(namespace).await?;
            let settings = &shared.in_force.load().settings;
            let starter = starter(settings, items, queue, Some(shared.database.store.clone()), schedule.clone());
            let (database, in_force) = (shared.database.clone(), shared.live_settings());
            let receiving = ReceiverContext { schedule: schedule.clone().into(), database, in_force };
            let receiver = items.kind.build_receiver(&items.id, receiving);
            let way = Way { source: one.namespace(), ..Way::new("fan_out") };
            fan_out_targets.push(FanOutTarget::new(items.id.clone(), starter.with_way(way), receiver));
        }
    }
    Ok(fan_out_targets)
}

pub fn new_rebuild(
    settings: &Settings,
    pipeline: &RegisteredPipeline,
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

pub fn new_dead_posts(
    settings: &Settings,
    pipeline: &RegisteredPipeline,
    queue: Arc<dyn Queue>,
    store: Arc<dyn Store>,
) -> DeadItems {
    let schedule = Reloadable::new(pipeline.schedule(settings));
    DeadItems { queue, store, lanes: pipeline.lanes(settings, schedule.into()) }
}
