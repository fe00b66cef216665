//! Everything an updater needs.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::heartbeat::Heartbeat;
use super::maintenance::Maintenance;
use super::provider::learn_lookup;
use super::tuning::Tuning;
use super::upkeep::rebuild_of;
use super::{InForce, Service, Unavailable, Watched, open_credentials, starter};
use crate::base::clock;
use crate::base::random;
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Lane, MEND_SLACK, Queue};
use crate::engine::worker::{Pipeline, Worker};
use crate::ingest::{Drain, DrainRound, Refresh};
use crate::model::provider::Provider;
use crate::pipelines::posts::{Suspicions, TweetUpdate, UNAVAILABLE_LANE, UnavailableSettings};
use crate::store::{Store, Way};

/// How long a worker whose time is up tries to give back what it holds, and then to leave the list.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
/// How often `incoming` is looked at when it was empty.
const DRAIN_EVERY: Duration = Duration::from_secs(1);

/// Where every process of a machine without containers is.
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

/// Everything an updater needs.
pub struct Updater {
    /// Its queue.
    pub queue: Arc<dyn Queue>,
    /// Its store.
    pub store: Arc<dyn Store>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    in_force: Reloadable<InForce>,
    tuning: Tuning,
    worker: Worker,
    drain: Drain,
    heartbeat: Heartbeat,
    /// Since before its services were open: a provider that does not answer is told of.
    beating: JoinHandle<()>,
    maintenance: Maintenance,
    stop: Stop,
}

impl Updater {
    /// Opens what else the settings name for the provider whose posts are in that queue; what it does from now on shows
    /// in `watched`. It works by what is in force. `None` when it was stopped first.
    ///
    /// # Errors
    /// A setting is missing, or a service is not there.
    pub async fn open(
        provider: &Provider,
        in_force: Reloadable<InForce>,
        service: &Service,
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        stop: Stop,
        watched: &Watched,
    ) -> Result<Option<Self>> {
        let settings = &in_force.load().settings;
        let namespace = provider.namespace();
        let credentials = open_credentials(settings, service, provider).await?;
        let Watched { metrics, health, .. } = watched.clone();
        let name = worker_name(settings);
        let heartbeat = Heartbeat {
            queue: queue.clone(),
            name: name.clone(),
            in_force: in_force.clone(),
            metrics: metrics.clone(),
            health: health.clone(),
        };
        let beating = AbortOnDropHandle::new(tokio::spawn(heartbeat.clone().run(stop.clone())));
        let Some(lookup) = learn_lookup(settings, provider, watched, &stop).await? else { return Ok(None) };
        health.works();
        let updater = &settings.updater;
        let tuning = Tuning::new(settings, lookup.capabilities(), credentials.budget());
        let wave = Reloadable::new(None);
        let handler = TweetUpdate {
            namespace,
            lookup,
            store: store.clone(),
            credentials: credentials.clone(),
            call_timeout: settings.lookup.timeout,
            ages: tuning.ages.clone(),
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
        let worker = Worker {
            name: name.clone(),
            pipelines: vec![Pipeline {
                queue: queue.clone(),
                handler: Arc::new(handler),
                claims: tuning.claims.clone(),
            }],
            credentials,
            concurrency: tuning.concurrency.clone(),
            metrics: metrics.clone(),
            health,
            stop: stop.clone(),
        };
        let starter = starter(provider, queue.clone(), Some(store.clone()), tuning.ages.clone());
        let drain = Drain::new(starter.by(Way::of("incoming")), name.clone());
        let rebuild = rebuild_of(settings, provider, queue.clone(), store.clone(), tuning.ages.clone());
        let slack = MEND_SLACK.max(2 * updater.lease);
        let maintenance = Maintenance { queue: queue.clone(), name, wave, refresh: Refresh { rebuild }, slack };
        let beating = beating.detach();
        Ok(Some(Self { queue, store, metrics, in_force, tuning, worker, drain, heartbeat, beating, maintenance, stop }))
    }

    /// Works until it is stopped.
    ///
    /// # Errors
    /// It can never work: the message says why.
    pub async fn run(self) -> Result<()> {
        let Self { queue, metrics, in_force, tuning, worker, drain, heartbeat, mut beating, maintenance, stop, .. } =
            self;
        let name = heartbeat.name.clone();
        let config_revision = in_force.load().revision.clone();
        let (namespace, concurrency) = (queue.namespace().to_owned(), *worker.concurrency.load());
        tracing::info!(worker = name, namespace, concurrency, config_revision, "updater runs");
        tokio::spawn({
            let (in_force, stop) = (in_force.clone(), stop.clone());
            async move {
                let mut changes = in_force.changes();
                while !stop.is_draining() {
                    tuning.set(&in_force.load().settings);
                    tokio::select! {
                        () = changes.next() => {}
                        () = stop.draining() => {}
                    }
                }
            }
        });
        let mut incoming = tokio::spawn({
            let (stop, metrics) = (stop.token(), metrics.clone());
            async move {
                let counted = |round: &DrainRound| {
                    metrics.counters.incoming_accepted.add(round.accepted as usize);
                    metrics.counters.incoming_refused.add(round.refused as usize);
                };
                drain.run(stop, DRAIN_EVERY, counted).await;
            }
        });
        let mut maintaining = tokio::spawn(maintenance.run(stop.clone()));
        let time_is_up = async {
            stop.abandoning().await;
            tokio::time::sleep(FAREWELL).await;
        };
        let worked = tokio::select! {
            worked = worker.run() => worked,
            () = time_is_up => {
                tracing::warn!("the queue does not answer: what is in flight is claimable when its lease has run out");
                Ok(())
            }
        };
        stop.drain(); // a worker that stopped by itself takes the others along
        // A drain or a beat that hangs at a service which is out is cut off when the time is up: whatever
        // it had begun is done again by the next one.
        tokio::select! {
            ended = async { (&mut incoming).await.and((&mut beating).await).and((&mut maintaining).await) } => {
                ended.context("draining `incoming`, the heartbeat or the maintenance ended badly")?;
            }
            () = stop.abandoning() => {
                incoming.abort();
                beating.abort();
                maintaining.abort();
            }
        }
        let left = tokio::time::timeout(FAREWELL, heartbeat.leave()).await;
        if let Err(error) = left.unwrap_or_else(|_| Err("the queue does not answer".to_owned())) {
            tracing::warn!(error, "cannot leave the list of workers: the name stays there for a minute");
        }
        tracing::info!(worker = name, namespace, "updater stopped");
        worked.map_err(|message| Unavailable(message).into())
    }
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
