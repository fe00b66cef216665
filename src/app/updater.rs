//! The worker of an updater.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::Result;
use futures::FutureExt;

use super::heartbeat::{Counted, Heartbeat};
use super::maintenance::Maintenance;
use super::provider::learn_lookup;
use super::tuning::Tuning;
use super::{ManagedWorker, Monitored, Role, Shared, credentials, open_credentials, open_lookup, rebuild_of, starter};
use crate::base::clock;
use crate::base::random;
use crate::base::reload::Reloadable;
use crate::config::Settings;
use crate::engine::queue::{Lane, MEND_SLACK, Queue};
use crate::engine::worker::{Handling, Pipeline, Worker};
use crate::ingest::{Drain, DrainRound, Refresh};
use crate::model::provider::Provider;
use crate::pipelines::posts::{Suspicions, TweetUpdate, UNAVAILABLE_LANE, UnavailableSettings};
use crate::store::Way;

/// Pause before `incoming` is read again when it was empty.
const DRAIN_EVERY: Duration = Duration::from_secs(1);

/// The namespace of all processes on a machine without containers.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// A worker's name: as set, or the host's name and the process id. In a container a random part is added, the same for as
/// long as the process lives: each container has a process 1, and several may share the host's name.
pub(super) fn worker_name(settings: &Settings) -> String {
    static LOT: LazyLock<u64> = LazyLock::new(random::number);
    if !settings.updater.name.is_empty() {
        return settings.updater.name.clone();
    }
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .map_or_else(|_| "worker".to_owned(), |host| host.trim().to_owned());
    let pid = std::process::id();
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let is_contained = pid == 1 || namespace.is_ok_and(|namespace| namespace != Path::new(FIRST_PID_NAMESPACE));
    default_name(&host, pid, is_contained.then_some(*LOT))
}

fn default_name(host: &str, pid: u32, lot: Option<u64>) -> String {
    match lot {
        // Eight letters are enough to tell workers apart.
        Some(lot) => format!("{host}-{pid}-{:08x}", lot & 0xffff_ffff),
        None => format!("{host}-{pid}"),
    }
}

/// The updaters that the settings name, one per provider. Nothing is connected yet.
///
/// # Errors
/// A setting is missing or invalid.
pub fn updaters(role: &Role) -> Result<Vec<(Monitored, ())>> {
    let settings = &role.settings;
    let updater = |provider: Provider| {
        open_lookup(settings, &provider)?;
        credentials(settings, &provider)?;
        let (namespace, stop) = (provider.namespace(), role.stop.child());
        Ok((Monitored::new(provider, namespace, settings.updater.lease, stop), ()))
    };
    settings.providers()?.into_iter().map(updater).collect()
}

/// Builds the worker for the posts in that queue.
///
/// # Errors
/// A setting is missing, or a service is down.
pub async fn open_updater(
    shared: &Shared,
    queue: Arc<dyn Queue>,
    pipeline: &Monitored,
    (): (),
) -> Result<ManagedWorker> {
    let Shared { in_force, service, store, ages, .. } = shared;
    let settings = &in_force.load().settings;
    let Monitored { provider, namespace, metrics, health, stop } = pipeline.clone();
    let credentials = open_credentials(settings, service, &provider).await?;
    let name = worker_name(settings);
    // Before its services are open: people see that a provider does not answer.
    let heartbeat = Heartbeat::start(&name, in_force, pipeline, vec![(queue.clone(), Counted::Updates)]);
    let lookup = learn_lookup(settings, &provider, &health).await?;
    health.works();
    let tuning = Tuning::new(settings, lookup.capabilities(), credentials.budget());
    let wave = Reloadable::new(None);
    let updater = &settings.updater;
    let handler = TweetUpdate {
        namespace: namespace.clone(),
        lookup,
        store: store.clone(),
        credentials: credentials.clone(),
        call_timeout: settings.lookup.timeout,
        ages: ages.clone(),
        same_day: tuning.same_day.clone(),
        unavailable: UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, updater.unavailable_every),
            believed_after: clock::millis(updater.unavailable_after),
            limit: updater.unavailable_limit,
            after: clock::millis(updater.unavailable_for),
        },
        wave: wave.clone(),
        max_deliveries: updater.max_deliveries,
        save_timeout: updater.save_timeout,
        metrics: metrics.clone(),
        suspicions: Suspicions::default(),
    };
    let (concurrency, config_revision) = (*tuning.concurrency.load(), in_force.load().revision.clone());
    tracing::info!(worker = name, namespace, concurrency, config_revision, "updater runs");
    let claims = tuning.claims.clone();
    let worker = Worker {
        name: name.clone(),
        pipelines: vec![Pipeline { queue: queue.clone(), handler: Handling::Metered(Arc::new(handler)), claims }],
        credentials,
        concurrency: tuning.concurrency.clone(),
        metrics: metrics.clone(),
        health,
        stop: stop.clone(),
    };
    let starter = starter(&provider, queue.clone(), Some(store.clone()), ages.clone());
    let drain = Drain::new(starter.by(Way::of("incoming")), name.clone());
    let refresh = Refresh { rebuild: rebuild_of(settings, &provider, queue.clone(), store.clone(), ages.clone()) };
    let maintenance = Maintenance { queue, name, wave, refresh, slack: MEND_SLACK.max(2 * updater.lease) };
    let counted = move |round: &DrainRound| {
        metrics.counters.incoming_accepted.add(round.accepted as usize);
        metrics.counters.incoming_refused.add(round.refused as usize);
    };
    let token = stop.token();
    let beside = vec![
        tuning.follow(in_force.clone(), stop.clone()).boxed(),
        async move { drain.run(token, DRAIN_EVERY, counted).await }.boxed(),
        maintenance.run(stop).boxed(),
    ];
    Ok(ManagedWorker { role: "updater", worker, heartbeat, beside })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_one_host_have_names_of_their_own() {
        assert_eq!(default_name("host", 7, None), "host-7");
        let names = [1, 2, u64::MAX].map(|lot| default_name("host", 1, Some(lot)));
        assert_eq!(names, ["host-1-00000001", "host-1-00000002", "host-1-ffffffff"]);
        // One process has one, however often it is asked for.
        let settings = Settings::load_with(&[], None, &[]).unwrap();
        assert_eq!(worker_name(&settings), worker_name(&settings));
        let named = Settings::load_with(&[], None, &[("TWITTER_UPDATER__UPDATER__NAME", "mine")]).unwrap();
        assert_eq!(worker_name(&named), "mine");
    }
}
