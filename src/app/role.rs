//! The harness of every role: serves HTTP, opens the services, follows the settings, works, and stops.
//!
//! `updater` and `poll` run one worker per provider: [`Role::work`]. `starter` and `ops` answer requests:
//! [`Role::answer`]. A role itself defines only its checks, its parts and its routes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use futures::future::{join_all, try_join_all};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::files::file_is_missing;
use super::follow::schedules_in_force;
use super::heartbeat::Heartbeat;
use super::monitored::{LIVE_SLACK, Monitored};
use super::{Follower, Shared, Unavailable, announce_apis};
use crate::base::shutdown::Stop;
use crate::base::supervise::{Beside, LogAlone};
use crate::base::task;
use crate::config::Settings;
use crate::engine::health::{Health, Vitals};
use crate::engine::queue::Queue;
use crate::engine::worker::Worker;
use crate::ops::{self, Door, Server};
use crate::pipelines::registry::Registry;

/// Pause between two checks of the services, in a role that answers requests.
const CONTACT_EVERY: Duration = Duration::from_secs(2);
/// Longest wait for the services in such a check.
const CONTACT_PATIENCE: Duration = Duration::from_secs(5);
/// Time for a worker to release its leases after its deadline, and the same again to deregister.
const FAREWELL: Duration = Duration::from_secs(2);

pub struct Role {
    pub settings: Settings,
    /// Address of its HTTP server; overrides `http.listen`.
    pub listen: Option<SocketAddr>,
    pub follower: Follower,
    pub stop: Stop,
    pub registry: Registry,
}

impl Role {
    /// Returns the address of the command line, else that of the settings.
    pub fn address(&self) -> Result<Option<SocketAddr>> {
        Ok(if self.listen.is_some() { self.listen } else { self.settings.listen()? })
    }

    /// Listens at that address, with the guards of the settings.
    pub async fn bind(&self, addr: SocketAddr) -> Result<Server> {
        self.guard(Server::bind(addr).await?)
    }

    /// Listens at `http.metrics_listen`, with the same guards.
    pub async fn bind_metrics(&self) -> Result<MetricsPort> {
        let Some(addr) = self.settings.metrics_listen()? else { return Ok(MetricsPort(None)) };
        let server = Server::bind_as("serves metrics", addr).await;
        let server = server.map_err(|error| error.remedied_by("http.metrics_listen"))?;
        Ok(MetricsPort(Some(self.guard(server)?)))
    }

    fn guard(&self, server: Server) -> Result<Server> {
        let (http, proxies) = (&self.settings.http, self.settings.trusted_proxies()?);
        Ok(server.guarded(Door::new(&http.hosts), http.connections).behind(proxies))
    }

    #[must_use]
    pub fn health(&self) -> Arc<Health> {
        Arc::new(Health::new(CONTACT_EVERY + CONTACT_PATIENCE + LIVE_SLACK, self.stop.clone()))
    }

    /// Runs one worker per pipeline, built by `open`, until all have ended. A worker that can never work, or whose API
    /// is down, stops no other; its error is returned when all have ended.
    pub async fn work<T>(
        self,
        pipelines: Vec<(Monitored, T)>,
        open: impl AsyncFn(&Shared, Arc<dyn Queue>, &Monitored, T) -> Result<ManagedWorker>,
    ) -> Result<()> {
        let apis = announce_apis(&self.settings, pipelines.iter().map(|(one, _)| &one.items)).await;
        // Serves probes before the services are open, and until the last batch is settled.
        let _serving = self.serve_probes(pipelines.iter().map(|(one, _)| one)).await?;
        let Self { settings, follower, stop, .. } = self;
        let token = stop.token();
        let items = pipelines.iter().map(|(one, _)| &one.items);
        let Some(opened) = token.run_until_cancelled(Shared::open(&settings, items)).await else { return Ok(()) };
        let (shared, queues) = opened?;
        let shared = Shared { apis, ..shared };
        let metrics_of: Vec<_> = pipelines.iter().map(|(one, _)| one.metrics.clone()).collect();
        let in_force = shared.in_force.clone();
        let schedules: Vec<_> =
            pipelines.iter().map(|(one, _)| (one.items.clone(), one.schedule.schedule.clone())).collect();
        task::set_silent_after(settings.supervision.silent_after);
        let schedules = Arc::new(schedules_in_force(schedules));
        let (follower, stop_follower) = (Arc::new(Mutex::new(follower)), stop.clone());
        let configuration = Beside::new("configuration", move || {
            let (follower, in_force, schedules) = (follower.clone(), in_force.clone(), schedules.clone());
            let (metrics, stop) = (metrics_of.clone(), stop_follower.clone());
            async move { follower.lock().await.run(in_force, |settings| schedules(settings), metrics, stop).await }
        });
        let (service, token_of_picture) = (shared.service.clone(), stop.token());
        let picture = Beside::new("picture", move || service.clone().keep_functions_loaded(token_of_picture.clone()));
        for of_process in [configuration, picture] {
            tokio::spawn(of_process.run("process".to_owned(), Arc::new(LogAlone), stop.clone()));
        }
        let alone = pipelines.len() == 1;
        let working = pipelines.into_iter().zip(queues).map(async |((one, own), queue)| {
            let ended = match token.run_until_cancelled(open(&shared, queue, &one, own)).await {
                Some(Ok(worker)) => worker.run().await,
                Some(Err(error)) => Err(error),
                None => Ok(()), // stopped while a service did not respond yet
            };
            one.ended(ended, alone)
        });
        let working = join_all(working);
        tokio::pin!(working);
        tokio::select! {
            ended = &mut working => ended.into_iter().collect(),
            missing = file_is_missing(&settings) => {
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
        pipelines: impl Iterator<Item = &Monitored> + Clone,
    ) -> Result<Vec<AbortOnDropHandle<()>>> {
        let server = match self.address()? {
            Some(addr) => Some(self.bind(addr).await?),
            None => None,
        };
        let metrics_port = self.bind_metrics().await?;
        let vitals = Vitals::new(pipelines.clone().map(|one| (one.namespace.clone(), one.health.clone())));
        let metrics = ops::of_process(pipelines.map(|one| (one.namespace.clone(), one.metrics.clone())));
        let (router, beside) = metrics_port.serve(ops::probes(vitals), ops::metrics(metrics));
        Ok(server.map(|server| serve_on(server, router)).into_iter().chain(beside).collect())
    }

    /// Answers requests until it is stopped. `contact` checks the services of the health with that index, and the log
    /// states `works` when they respond. `take_over` applies changed settings. When the role stops, `/ready` reports it
    /// for a while and requests are still answered. Then it accepts no more, and finishes those in progress within the
    /// deadline. Fails if a SQLite file of queue or store is deleted or replaced.
    pub async fn answer(
        self,
        server: Server,
        router: Router,
        healths: &[Arc<Health>],
        contact: impl AsyncFn(usize) -> Result<(), String>,
        works: &'static str,
        take_over: impl Fn(&Settings) + Send + 'static,
    ) -> Result<()> {
        let Self { settings, follower, stop, .. } = self;
        // Requests in progress after the notice have the same time again.
        let drain_notice = settings.http.drain_notice.min(settings.updater.drain_deadline / 2);
        follower.spawn(&settings, take_over, stop.clone());
        let close = {
            let stop = stop.clone();
            async move {
                stop.draining().await;
                let _ = tokio::time::timeout(drain_notice, stop.abandoning()).await;
            }
        };
        let turn = async |(at, health): (usize, &Arc<Health>)| {
            loop {
                health.beat();
                let answered = tokio::time::timeout(CONTACT_PATIENCE, contact(at)).await;
                let silent = || Err(format!("no answer within {} s", CONTACT_PATIENCE.as_secs()));
                match answered.unwrap_or_else(|_| silent()) {
                    Ok(()) if health.works() => tracing::info!("{works}"),
                    Ok(()) => {}
                    Err(error) if health.is_out(&error) => tracing::warn!(error, "a service is out"),
                    Err(_) => {}
                }
                tokio::time::sleep(CONTACT_EVERY).await;
            }
        };
        tokio::select! {
            () = server.run(router, close) => {}
            _ = join_all(healths.iter().enumerate().map(turn)) => {} // it never ends
            () = stop.abandoning() => tracing::warn!("requests in progress are cut off: clients must repeat them"),
            missing = file_is_missing(&settings) => return Err(missing.into()),
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Separate port for monitoring, if there is one.
pub struct MetricsPort(Option<Server>);

impl MetricsPort {
    /// Serves both there, until the returned handle is dropped. Returns the routes for the role's main port: `shared`,
    /// and without a separate port the metrics as well.
    pub fn serve(self, shared: Router, metrics: Router) -> (Router, Option<AbortOnDropHandle<()>>) {
        match self.0 {
            Some(server) => (shared.clone(), Some(serve_on(server, shared.merge(metrics)))),
            None => (shared.merge(metrics), None),
        }
    }
}

fn serve_on(server: Server, router: Router) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(server.run(router, std::future::pending())))
}

pub struct ManagedWorker {
    /// Role in the log: `updater`.
    pub role: &'static str,
    pub worker: Worker,
    /// Heartbeat, started before the worker.
    pub heartbeat: Heartbeat,
    /// Tasks that run beside it until it is stopped. After a failure only the failed task is restarted.
    pub beside: Vec<Beside>,
}

impl ManagedWorker {
    /// Works until it is stopped, then takes the worker off the queues' lists. Fails only if it can never work.
    pub async fn run(self) -> Result<()> {
        let Self { role, worker, heartbeat: Heartbeat { listed, beating }, beside } = self;
        let (stop, name) = (worker.stop.clone(), worker.name.clone());
        let Monitored { namespace, stop: of_pipeline, .. } = listed.pipeline.clone();
        let spawn = |task: Beside| {
            let supervised = task.run(namespace.clone(), listed.pipeline.observer(), of_pipeline.clone());
            AbortOnDropHandle::new(tokio::spawn(supervised))
        };
        let beside: Vec<_> = beside.into_iter().map(spawn).chain([beating]).collect();
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
        stop.drain(); // if the worker stopped on its own, the tasks beside it stop, too
        // A task that hangs at a service that is down is aborted at the deadline: another worker repeats its work.
        tokio::select! {
            ended = try_join_all(beside) => drop(ended.context("a task beside the worker failed")?),
            () = stop.abandoning() => {}
        }
        let left = tokio::time::timeout(FAREWELL, listed.leave()).await;
        if let Err(error) = left.unwrap_or_else(|_| Err("the queue does not answer".to_owned())) {
            tracing::warn!(error, "cannot leave the list of workers: the name stays there for a minute");
        }
        tracing::info!(worker = name, namespace = listed.pipeline.namespace, "{role} stopped");
        worked.map_err(|message| Unavailable(message).into())
    }
}
