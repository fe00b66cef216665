//! The harness of every role: serves HTTP, opens the services, follows the settings, works, and stops.
//!
//! `updater` and `poll` run one worker per pipeline: [`Role::work`]. `starter` and `ops` answer requests:
//! [`Role::answer`]. A role itself defines only its checks, its parts and its routes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use futures::future::{join_all, try_join_all};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::config_follower::schedule_setter;
use super::files::wait_for_missing_file;
use super::heartbeat::Heartbeat;
use super::monitored::{LIVE_SLACK, MonitoredPipeline};
use super::{ConfigFollower, SharedServices, Unavailable, announce_apis};
use crate::ops::NoAnswer;
use crate::ops::{self, AllowedHosts, Server};
use collect::config::Settings;
use collect::pipelines::registry::Registry;
use engine::base::shutdown::Stop;
use engine::base::supervise::{BackgroundTask, LogOnly};
use engine::base::task;
use engine::health::{Health, ProcessHealth};
use engine::queue::Queue;
use engine::worker::Worker;

/// Pause between two checks of the services, in a role that answers requests.
const CONTACT_INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for the services in such a check.
const CONTACT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a worker to release its leases after its deadline, and the same again to deregister.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Role {
    pub settings: Settings,
    /// Address of its HTTP server; overrides `http.listen`.
    pub listen: Option<SocketAddr>,
    pub follower: ConfigFollower,
    pub stop: Stop,
    pub registry: Registry,
}

impl Role {
    /// Address of the command line, else of the settings.
    pub fn address(&self) -> Result<Option<SocketAddr>> {
        Ok(if self.listen.is_some() { self.listen } else { self.settings.listen()? })
    }

    /// Listens at that address, with the allowed hosts and limits of the settings.
    pub async fn bind(&self, addr: SocketAddr) -> Result<Server> {
        self.guard(Server::bind(addr).await?)
    }

    /// Listens at `http.metrics_listen`, with the allowed hosts and limits of the settings.
    pub async fn bind_metrics(&self) -> Result<MetricsPort> {
        let Some(addr) = self.settings.metrics_listen()? else { return Ok(MetricsPort(None)) };
        let server = Server::bind_as("serves metrics", addr).await;
        let server = server.map_err(|error| error.with_remedy("http.metrics_listen"))?;
        Ok(MetricsPort(Some(self.guard(server)?)))
    }

    fn guard(&self, server: Server) -> Result<Server> {
        let (http, proxies) = (&self.settings.http, self.settings.trusted_proxies()?);
        Ok(server.with_access_rules(AllowedHosts::new(&http.hosts), http.connections).with_trusted_proxies(proxies))
    }

    #[must_use]
    pub fn health(&self) -> Arc<Health> {
        Arc::new(Health::new(CONTACT_INTERVAL + CONTACT_TIMEOUT + LIVE_SLACK, self.stop.clone()))
    }

    /// Runs one worker per pipeline, built by `open`, until all have ended. A worker that can never work, or whose API
    /// is down, stops no other; its error is returned when all have ended.
    pub async fn work<T>(
        self,
        pipelines: Vec<(MonitoredPipeline, T)>,
        open: impl AsyncFn(&SharedServices, Arc<dyn Queue>, &MonitoredPipeline, T) -> Result<ManagedWorker>,
    ) -> Result<()> {
        let apis = announce_apis(&self.settings, pipelines.iter().map(|(one, _)| &one.items)).await;
        // Serves probes before the services are open, and until the last batch is settled.
        let _serving = self.serve_probes(pipelines.iter().map(|(one, _)| one)).await?;
        let Self { settings, follower, stop, .. } = self;
        let token = stop.token();
        let items = pipelines.iter().map(|(one, _)| &one.items);
        let Some(opened) = token.run_until_cancelled(SharedServices::open(&settings, items)).await else {
            return Ok(());
        };
        let (shared, queues) = opened?;
        let shared = SharedServices { apis, ..shared };
        let pipeline_metrics: Vec<_> = pipelines.iter().map(|(one, _)| one.metrics.clone()).collect();
        let in_force = shared.in_force.clone();
        let schedules: Vec<_> =
            pipelines.iter().map(|(one, _)| (one.items.clone(), one.schedule.schedule.clone())).collect();
        task::set_silent_after(settings.supervision.silent_after);
        let schedules = Arc::new(schedule_setter(schedules));
        let (follower, stop_follower) = (Arc::new(Mutex::new(follower)), stop.clone());
        let configuration = BackgroundTask::new("configuration", move || {
            let (follower, in_force, schedules) = (follower.clone(), in_force.clone(), schedules.clone());
            let (metrics, stop) = (pipeline_metrics.clone(), stop_follower.clone());
            async move { follower.lock().await.run(in_force, |settings| schedules(settings), metrics, stop).await }
        });
        let (service, functions_token) = (shared.service.clone(), stop.token());
        let functions =
            BackgroundTask::new("functions", move || service.clone().keep_functions_loaded(functions_token.clone()));
        for process_task in [configuration, functions] {
            tokio::spawn(process_task.run("process".to_owned(), Arc::new(LogOnly), stop.clone()));
        }
        let alone = pipelines.len() == 1;
        let working = pipelines.into_iter().zip(queues).map(async |((one, own), queue)| {
            let ended = match token.run_until_cancelled(open(&shared, queue, &one, own)).await {
                Some(Ok(worker)) => worker.run().await,
                Some(Err(error)) => Err(error),
                None => Ok(()), // stopped while a service did not respond yet
            };
            one.record_end(ended, alone)
        });
        let working = join_all(working);
        tokio::pin!(working);
        tokio::select! {
            ended = &mut working => ended.into_iter().collect(),
            missing = wait_for_missing_file(&settings) => {
                stop.abandon();
                // Each reports the same about its own file, or nothing.
                working.await;
                Err(missing.into())
            }
        }
    }

    /// Serves the probes and the metrics, if there is an address, until the returned handles are dropped.
    async fn serve_probes(
        &self,
        pipelines: impl Iterator<Item = &MonitoredPipeline> + Clone,
    ) -> Result<Vec<AbortOnDropHandle<()>>> {
        let server = match self.address()? {
            Some(addr) => Some(self.bind(addr).await?),
            None => None,
        };
        let metrics_port = self.bind_metrics().await?;
        let vitals = ProcessHealth::new(pipelines.clone().map(|one| (one.namespace.clone(), one.health.clone())));
        let metrics = ops::pipeline_registry(pipelines.map(|one| (one.namespace.clone(), one.metrics.clone())));
        let (router, beside) = metrics_port.serve(ops::probe_router(vitals), ops::metrics_router(metrics));
        Ok(server.map(|server| spawn_server(server, router)).into_iter().chain(beside).collect())
    }

    /// Answers requests until it is stopped. `contact` checks the services of the health with that index, and the log
    /// states `works` when they respond. At a stop, `/ready` reports it for a while and requests are still answered; then
    /// requests in progress are finished within the deadline. Fails if a SQLite file of queue or store is deleted or
    /// replaced.
    pub async fn answer(
        self,
        server: Server,
        router: Router,
        healths: &[Arc<Health>],
        contact: impl AsyncFn(usize) -> Result<(), NoAnswer>,
        works: &'static str,
        apply_settings: impl Fn(&Settings) + Send + 'static,
    ) -> Result<()> {
        let Self { settings, follower, stop, .. } = self;
        // Requests in progress after the notice have the same time again.
        let drain_notice = settings.http.drain_notice.min(settings.updater.drain_deadline / 2);
        follower.spawn(&settings, apply_settings, stop.clone());
        let close = {
            let stop = stop.clone();
            async move {
                stop.wait_for_drain().await;
                let _ = tokio::time::timeout(drain_notice, stop.wait_for_abandon()).await;
            }
        };
        let check_service = async |(at, health): (usize, &Arc<Health>)| {
            loop {
                health.record_turn();
                let answered = tokio::time::timeout(CONTACT_TIMEOUT, contact(at)).await;
                let silent = || Err(NoAnswer::within_seconds("no answer", CONTACT_TIMEOUT));
                match answered.unwrap_or_else(|_| silent()).map_err(|error| error.to_string()) {
                    Ok(()) if health.record_success() => tracing::info!("{works}"),
                    Ok(()) => {}
                    Err(error) if health.record_outage(&error) => tracing::warn!(error, "a service is unavailable"),
                    Err(_) => {}
                }
                tokio::time::sleep(CONTACT_INTERVAL).await;
            }
        };
        tokio::select! {
            () = server.run(router, close) => {}
            _ = join_all(healths.iter().enumerate().map(check_service)) => {} // it never ends
            () = stop.wait_for_abandon() => tracing::warn!("requests in progress are cut off: clients must repeat them"),
            missing = wait_for_missing_file(&settings) => return Err(missing.into()),
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Separate port for monitoring, if there is one.
pub struct MetricsPort(Option<Server>);

impl MetricsPort {
    /// Serves both there until the returned handle is dropped. Returns the routes of the main port: `shared`, and without a
    /// separate port the metrics, too.
    pub fn serve(self, shared: Router, metrics: Router) -> (Router, Option<AbortOnDropHandle<()>>) {
        match self.0 {
            Some(server) => (shared.clone(), Some(spawn_server(server, shared.merge(metrics)))),
            None => (shared.merge(metrics), None),
        }
    }
}

fn spawn_server(server: Server, router: Router) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(server.run(router, std::future::pending())))
}

pub struct ManagedWorker {
    /// Role in the log: `updater`.
    pub role: &'static str,
    pub worker: Worker,
    /// Heartbeat, started before the worker.
    pub heartbeat: Heartbeat,
    /// Tasks beside the worker. After a failure only the failed task is restarted.
    pub beside: Vec<BackgroundTask>,
}

impl ManagedWorker {
    /// Works until a stop, then takes the worker off the queue's list. Fails only if it can never work.
    pub async fn run(self) -> Result<()> {
        let Self { role, worker, heartbeat: Heartbeat { entry, beating }, beside } = self;
        let (stop, name) = (worker.stop.clone(), worker.name.clone());
        let MonitoredPipeline { namespace, stop: pipeline_stop, .. } = entry.pipeline.clone();
        let spawn = |task: BackgroundTask| {
            let supervised = task.run(namespace.clone(), entry.pipeline.observer(), pipeline_stop.clone());
            AbortOnDropHandle::new(tokio::spawn(supervised))
        };
        let beside: Vec<_> = beside.into_iter().map(spawn).chain([beating]).collect();
        let exit_timeout = async {
            stop.wait_for_abandon().await;
            tokio::time::sleep(EXIT_TIMEOUT).await;
        };
        let worked = tokio::select! {
            worked = worker.run() => worked,
            () = exit_timeout => {
                tracing::warn!("the queue does not answer: items in flight can be claimed when their leases expire");
                Ok(())
            }
        };
        stop.drain(); // if the worker stopped on its own, the tasks beside it stop, too
        // A task that hangs at a service that is down is aborted at the deadline: another worker repeats its work.
        tokio::select! {
            ended = try_join_all(beside) => drop(ended.context("a task beside the worker failed")?),
            () = stop.wait_for_abandon() => {}
        }
        let left = tokio::time::timeout(EXIT_TIMEOUT, entry.leave()).await;
        let silent = || NoAnswer::Late("the queue does not answer".to_owned());
        if let Err(error) = left.map_err(|_| silent()).and_then(|left| left.map_err(NoAnswer::from)) {
            tracing::warn!(
                error = error.to_string(),
                "the worker cannot leave the list of workers: its name stays there for a minute"
            );
        }
        tracing::info!(worker = name, namespace = entry.pipeline.namespace, "{role} stopped");
        worked.map_err(|failure| Unavailable(failure.0).into())
    }
}
