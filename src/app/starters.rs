//! Starters put items into a queue: new ones, lost ones, and the dead.

use std::sync::Arc;

use anyhow::Result;

use super::{MonitoredPipeline, SharedServices};
use crate::data::dead::DeadItems;
use collect::config::Settings;
use collect::ingest::{Rebuild, Starter};
use collect::pipelines::kind::{Intake, ReceiverContext, RegisteredPipeline};
use collect::pipelines::refresh::FanOutTarget;
use engine::base::reload::Reloadable;
use engine::base::retry::RetryPolicy;
use engine::queue::Queue;
use engine::schedule::Schedules;
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
    let Intake { id_date, parse } = pipeline.kind.intake(&pipeline.id);
    let starter = Starter::new(queue, store, schedule, id_date, parse);
    starter.with_hidden_content_dropped(settings.bluesky.leave_out_hidden)
}

/// Returns the pipelines in `all` that this one fans out to. The queues are not checked yet, so one that is down stops nothing.
pub(super) async fn fan_out_targets(
    shared: &SharedServices,
    one: &RegisteredPipeline,
    all: &[MonitoredPipeline],
) -> Result<Vec<FanOutTarget>> {
    let settings = &shared.in_force.load().settings;
    let mut fan_out_targets = Vec::new();
    for MonitoredPipeline { items, schedule, namespace, .. } in
        all.iter().filter(|other| other.items.is_named_by(&one.id, settings))
    {
        let queue = shared.service.open_unchecked_queue(namespace).await?;
        let starter = starter(settings, items, queue, Some(shared.database.store.clone()), schedule.clone());
        let (database, in_force) = (shared.database.clone(), shared.live_settings());
        let receiving = ReceiverContext { schedule: schedule.clone().into(), database, in_force };
        let receiver = items.kind.receiver(&items.id, receiving);
        let way = Way { source: one.namespace(), ..Way::new("fan_out") };
        fan_out_targets.push(FanOutTarget::new(items.id.clone(), starter.with_way(way), receiver));
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
        lease: pipeline.kind.terms(settings).lease,
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
