//! Everything an updater needs, and its beat.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::provider::learn_lookup;
use super::tuning::Tuning;
use super::{InForce, Service, Unavailable, Watched, open_credentials, starter};
use crate::clock;
use crate::config::Settings;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::provider::Provider;
use crate::queue::{Lane, Queue};
use crate::shutdown::Stop;
use crate::starter::{Drain, DrainRound};
use crate::store::Store;
use crate::updater::{Doubts, TweetUpdate, UNAVAILABLE_LANE, UnavailableSettings};
use crate::worker::{Pipeline, Worker};

/// How often a worker says that it is alive.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(5);
/// How long a worker whose time is up tries to give back what it holds, and then to leave the list.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
/// How often `incoming` is looked at when it was empty.
const DRAIN_EVERY: Duration = Duration::from_secs(1);

/// A worker's name: as set, or the host's name and the process id.
pub(super) fn worker_name(settings: &Settings) -> String {
    if !settings.updater.name.is_empty() {
        return settings.updater.name.clone();
    }
    let host = std::env::var("HOSTNAME")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .map_or_else(|_| "worker".to_owned(), |host| host.trim().to_owned());
    format!("{host}-{}", std::process::id())
}

/// Everything an updater needs.
pub struct Updater {
    /// Its queue.
    pub queue: Arc<dyn Queue>,
    /// Its store.
    pub store: Arc<dyn Store>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    in_force: Live<InForce>,
    tuning: Tuning,
    name: String,
    worker: Worker,
    drain: Drain,
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
        in_force: Live<InForce>,
        service: &Service,
        queue: Arc<dyn Queue>,
        store: Arc<dyn Store>,
        stop: Stop,
        watched: &Watched,
    ) -> Result<Option<Self>> {
        let settings = &in_force.load().settings;
        let namespace = provider.namespace();
        let credentials = open_credentials(settings, service, provider).await?;
        let Some(lookup) = learn_lookup(settings, provider, watched, &stop).await? else { return Ok(None) };
        let Watched { metrics, health, .. } = watched.clone();
        health.works();
        let updater = &settings.updater;
        let tuning = Tuning::new(settings, lookup.capabilities(), credentials.budget());
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
                limit: updater.unavailable_limit,
                after: clock::millis(updater.unavailable_for),
            },
            max_deliveries: updater.max_deliveries,
            save_timeout: updater.save_timeout,
            metrics: metrics.clone(),
            doubts: Doubts::default(),
        };
        let name = worker_name(settings);
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
        let drain = Drain::new(starter, name.clone());
        Ok(Some(Self { queue, store, metrics, in_force, tuning, name, worker, drain, stop }))
    }

    /// Works until it is stopped.
    ///
    /// # Errors
    /// It can never work: the message says why.
    pub async fn run(self) -> Result<()> {
        let Self { queue, metrics, in_force, tuning, name, worker, drain, stop, .. } = self;
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
        let mut beating = tokio::spawn({
            let (queue, metrics, stop, name) = (queue.clone(), metrics.clone(), stop.clone(), name.clone());
            let in_force = in_force.clone();
            async move {
                let mut changes = in_force.changes();
                while !stop.is_draining() {
                    beat(&*queue, &name, &in_force.load(), &metrics).await;
                    tokio::select! {
                        () = stop.sleep(BEAT_EVERY) => {}
                        () = changes.next() => {} // told at once
                    }
                }
            }
        });
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
            ended = async { (&mut incoming).await.and((&mut beating).await) } => {
                ended.context("draining `incoming` or the beat ended badly")?;
            }
            () = stop.abandoning() => {
                incoming.abort();
                beating.abort();
            }
        }
        // What was counted since the last beat, then off the list.
        let farewell = async {
            beat(&*queue, &name, &in_force.load(), &metrics).await;
            queue.leave(&name).await.map_err(|error| error.to_string())
        };
        let left = tokio::time::timeout(FAREWELL, farewell).await;
        if let Err(error) = left.unwrap_or_else(|_| Err("the queue does not answer".to_owned())) {
            tracing::warn!(error, "cannot leave the list of workers: the name stays there for a minute");
        }
        tracing::info!(worker = name, namespace, "updater stopped");
        worked.map_err(|message| Unavailable(message).into())
    }
}

async fn beat(queue: &dyn Queue, name: &str, in_force: &InForce, metrics: &Metrics) {
    let fields = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("pid", std::process::id().to_string()),
        ("concurrency", in_force.settings.updater.concurrency.to_string()),
        ("requests", metrics.counters.requests.get().to_string()),
        ("late_p99_ms", metrics.lateness(99.0).to_string()),
        ("config_revision", in_force.revision.clone()),
        // Empty where there is nothing to say: a field that is left out would stay as it was.
        ("config_refused", in_force.refused.clone().unwrap_or_default()),
        ("config_needs_restart", in_force.needs_restart()),
    ];
    let (untold, lateness) = (metrics.counters.untold(), metrics.untold_lateness());
    match queue.beat(name, &fields, &untold.counts(), &lateness).await {
        // A beat whose answer was lost is counted again: these figures are for people, not for money.
        Ok(()) => {
            untold.told();
            metrics.told_lateness(&lateness);
        }
        Err(error) => tracing::warn!(error = %error, "no beat"),
    }
}
