//! The worker of an updater.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::Result;

use super::call_budget::{CallBudget, MeteredEndpoint};
use super::credentials::open_ledger_only;
use super::handles::WaitingHandles;
use super::heartbeat::{CountSource, Heartbeat};
use super::intervals::IntervalApplier;
use super::maintenance::{Maintenance, PeriodicRebuild, Retention};
use super::starters::fan_out_targets;
use super::tuning::LiveTuning;
use super::{
    ManagedWorker, MonitoredPipeline, Role, SharedServices, credentials, new_rebuild, open_credentials, starter,
};
use collect::config::{OnDeleted, Settings};
use collect::ingest::{Drain, DrainRound, Refresh, Starter};
use collect::pipelines::apis::open_handles;
use collect::pipelines::kind::{
    ItemContent, OpenContext, OpenPipeline, PipelineHandler, ReceiverContext, RegisteredPipeline,
};
use engine::base::random;
use engine::base::reload::Reloadable;
use engine::base::supervise::BackgroundTask;
use engine::queue::{DUE_SLACK, Queue};
use engine::quota::Credentials;
use engine::schedule::Schedules;
use engine::worker::{HandlerKind, Worker};
use networks::providers::registry::read_account_ref;
use store::Way;

/// Pause before the next read of an empty `incoming`.
const DRAIN_INTERVAL: Duration = Duration::from_secs(1);

/// Namespace of processes outside of containers.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Returns the worker's name: as set, or the host's name and the process id. In a container it has a random part, because
/// each container has a process 1, and several may share the host's name.
pub(super) fn worker_name(settings: &Settings) -> String {
    static RANDOM_PART: LazyLock<u64> = LazyLock::new(random::number);
    if !settings.updater.name.is_empty() {
        return settings.updater.name.clone();
    }
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .map_or_else(|_| "worker".to_owned(), |host| host.trim().to_owned());
    let pid = std::process::id();
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let is_in_container = pid == 1 || namespace.is_ok_and(|namespace| namespace != Path::new(FIRST_PID_NAMESPACE));
    default_name(&host, pid, is_in_container.then_some(*RANDOM_PART))
}

fn default_name(host: &str, pid: u32, random_part: Option<u64>) -> String {
    match random_part {
        // Eight letters are enough to distinguish workers.
        Some(random_part) => format!("{host}-{pid}-{:08x}", random_part & 0xffff_ffff),
        None => format!("{host}-{pid}"),
    }
}

/// Returns the configured updaters, one per pipeline, each with all of them. Connects to nothing.
pub fn updaters(role: &Role) -> Result<Vec<(MonitoredPipeline, Vec<MonitoredPipeline>)>> {
    let settings = &role.settings;
    settings.adaptive.model()?;
    let updater = |pipeline: RegisteredPipeline| {
        pipeline.kind.check(&pipeline.id, settings)?;
        if pipeline.is_metered() {
            credentials(settings, &pipeline.id.provider)?;
        }
        let (namespace, lease, stop) = (pipeline.namespace(), pipeline.kind.terms(settings).lease, role.stop.child());
        Ok(MonitoredPipeline::new(settings, pipeline, namespace, lease, stop))
    };
    let all =
        role.registry.pipelines(settings)?.into_iter().map(updater).collect::<Result<Vec<MonitoredPipeline>>>()?;
    Ok(all.iter().map(|one| (one.clone(), all.clone())).collect())
}

/// Builds the worker for the items in that queue. They may fan out to the others of `all`.
pub async fn open_updater(
    shared: &SharedServices,
    queue: Arc<dyn Queue>,
    pipeline: &MonitoredPipeline,
    all: Vec<MonitoredPipeline>,
) -> Result<ManagedWorker> {
    let SharedServices { in_force, service, database, .. } = shared;
    let store = &database.store;
    let settings = &in_force.load().settings;
    let MonitoredPipeline { items, schedule: corrected, namespace, metrics, health, stop } = pipeline.clone();
    let credentials = match items.is_metered() {
        true => open_credentials(settings, service, &items.id.provider).await?,
        false => open_ledger_only(settings, service, &items.id.provider).await?,
    };
    let name = worker_name(settings);
    // Before its services are open: people see that a provider does not respond.
    let heartbeat = Heartbeat::start(&name, shared, pipeline, queue.clone(), CountSource::Updates);
    let wave = Reloadable::new(None);
    let schedule: Arc<dyn Schedules> = corrected.clone().into();
    let opening = OpenContext {
        id: items.id.clone(),
        settings: (**settings).clone(),
        in_force: shared.live_settings(),
        queue: queue.clone(),
        worker: name.clone(),
        database: database.clone(),
        fan_out: fan_out_targets(shared, &items, &all).await?,
        credentials: credentials.clone(),
        schedule: schedule.clone(),
        unavailable: items.kind.terms(settings).unavailable,
        wave: wave.clone(),
        metrics: metrics.clone(),
        health: health.clone(),
        stop: stop.clone(),
    };
    let OpenPipeline { work, capabilities, beside: own_tasks } = items.kind.open(opening).await?;
    health.record_success();
    let (handling, endpoint) = match work {
        PipelineHandler::Metered(handler) => {
            (HandlerKind::Metered(handler.clone(), credentials.clone()), handler.endpoint())
        }
        PipelineHandler::Unmetered(handler) => (HandlerKind::Unmetered(handler), capabilities.endpoint),
    };
    credentials.warn_of_parked(endpoint).await;
    let batch_limit = capabilities.batch_limit;
    let budget = CallBudget {
        queue: queue.clone(),
        store: store.clone(),
        name: name.clone(),
        schedule: corrected,
        metered: MeteredEndpoint { credentials: credentials.clone(), endpoint, batch_limit },
        early: 0.0.into(),
    };
    let lease = items.kind.terms(settings).lease;
    let tuning = LiveTuning::new(settings, capabilities, lease, credentials.budget());
    let (concurrency, config_revision) = (*tuning.concurrency.load(), in_force.load().revision.clone());
    tracing::info!(worker = name, namespace, concurrency, config_revision, "updater runs");
    let worker = Worker {
        name: name.clone(),
        queue: queue.clone(),
        handling,
        claims: tuning.claims.clone(),
        early: budget.early.clone(),
        concurrency: tuning.concurrency.clone(),
        metrics: metrics.clone(),
        health,
        stop: stop.clone(),
    };
    let starter = starter(settings, &items, queue.clone(), Some(store.clone()), schedule.clone());
    let waiting = waiting_handles(shared, settings, &items, &queue, (&schedule, &starter), &credentials)?;
    let drain = Drain::new(starter.with_way(Way::new("incoming")), name.clone());
    let kept_for = Some(settings.store.retention).filter(|span| !span.is_zero());
    let deleted = settings.store.on_deleted == OnDeleted::Remove;
    // Without expired or deleted posts to remove, the store is not walked every day.
    let retention = (kept_for.is_some() || deleted).then(|| {
        let (queue, store, name) = (queue.clone(), store.clone(), name.clone());
        BackgroundTask::with_state(
            "retention",
            Retention { queue, store, name, kept_for, deleted },
            Retention::run,
            &stop,
        )
    });
    let rebuild = new_rebuild(settings, &items, queue.clone(), store.clone(), schedule);
    let every = settings.rebuild.every;
    let audit = (!every.is_zero()).then(|| {
        let (rebuild, name) = (rebuild.clone(), name.clone());
        BackgroundTask::with_state("audit", PeriodicRebuild { rebuild, name, every }, PeriodicRebuild::run, &stop)
    });
    let refresh = Refresh { rebuild };
    let slack = DUE_SLACK.max(2 * lease);
    let intervals = IntervalApplier { queue: queue.clone(), schedule: pipeline.schedule.schedule.clone(), slack };
    let maintenance = Maintenance { queue, name, wave, refresh, slack };
    let counted = move |round: &DrainRound| {
        metrics.counters.incoming_accepted.add(round.accepted as usize);
        metrics.counters.incoming_refused.add(round.refused as usize);
        metrics.counters.incoming_too_old.add(round.too_old as usize);
    };
    let (tuning, drain, token) =
        (Arc::new((tuning, in_force.clone(), stop.clone())), Arc::new((drain, counted)), stop.token());
    let mut beside = vec![
        BackgroundTask::new("tuning", move || {
            let of = tuning.clone();
            async move { of.0.follow(of.1.clone(), of.2.clone()).await }
        }),
        BackgroundTask::new("incoming", move || {
            let (of, token) = (drain.clone(), token.clone());
            async move { of.0.run(token, DRAIN_INTERVAL, &of.1).await }
        }),
        BackgroundTask::with_state("maintenance", maintenance, Maintenance::run, &stop),
        BackgroundTask::with_state("intervals", intervals, IntervalApplier::run, &stop),
        BackgroundTask::with_state("budget", budget, CallBudget::run, &stop),
    ];
    let waiting = waiting.map(|waiting| BackgroundTask::with_state("handles", waiting, WaitingHandles::run, &stop));
    beside.extend(retention.into_iter().chain(audit).chain(own_tasks).chain(waiting));
    Ok(ManagedWorker { role: "updater", worker, heartbeat, beside })
}

/// Returns the resolver of waiting handles; `None` if the items are not accounts.
fn waiting_handles(
    shared: &SharedServices,
    settings: &Settings,
    items: &RegisteredPipeline,
    queue: &Arc<dyn Queue>,
    (schedule, starter): (&Arc<dyn Schedules>, &Starter),
    credentials: &Arc<Credentials>,
) -> Result<Option<WaitingHandles>> {
    if items.kind.words().content != ItemContent::Accounts {
        return Ok(None);
    }
    let (namespace, provider, database) = (items.namespace(), &items.id.provider, shared.database.clone());
    let store = database.store.clone();
    let receiving = ReceiverContext { schedule: schedule.clone(), database, in_force: shared.live_settings() };
    let Some(receiver) = items.kind.receiver(&items.id, receiving) else { return Ok(None) };
    Ok(Some(WaitingHandles {
        namespace,
        queue: queue.clone(),
        store,
        receiver,
        starter: starter.clone().with_way(Way::new("http")),
        handles: open_handles(settings, provider)?,
        read: read_account_ref(provider),
        credentials: credentials.clone(),
        call_timeout: settings.lookup.timeout,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_one_host_have_names_of_their_own() {
        assert_eq!(default_name("host", 7, None), "host-7");
        let names = [1, 2, u64::MAX].map(|random_part| default_name("host", 1, Some(random_part)));
        assert_eq!(names, ["host-1-00000001", "host-1-00000002", "host-1-ffffffff"]);
        // Constant within one process.
        let settings = Settings::load_with(&[], None, &[]).unwrap();
        assert_eq!(worker_name(&settings), worker_name(&settings));
        let named = Settings::load_with(&[], None, &[("TWITTER_UPDATER__UPDATER__NAME", "mine")]).unwrap();
        assert_eq!(worker_name(&named), "mine");
    }
}
