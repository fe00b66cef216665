//! The harness of every role: serves HTTP, opens the services, follows the settings, works, and stops.
//!
//! `updater` and `poll` run one worker per provider: [`Role::work`]. `starter` and `ops` answer requests:
//! [`Role::answer`]. A role itself says only what it checks, what it builds, and which routes it has.

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

/// Pause between two checks of the services, of a role that answers requests.
const CONTACT_EVERY: Duration = Duration::from_secs(2);
/// Longest wait for the services in such a check.
const CONTACT_PATIENCE: Duration = Duration::from_secs(5);
/// Time that a worker has after its deadline to give back what it holds, and the same again to deregister.
const FAREWELL: Duration = Duration::from_secs(2);

/// A process that runs until it is stopped, as the command line starts it.
pub struct Role {
    /// The settings at the start.
    pub settings: Settings,
    /// The address of its HTTP server, over `http.listen`.
    pub listen: Option<SocketAddr>,
    /// Follows the configuration files.
    pub follower: Follower,
    /// Stops it.
    pub stop: Stop,
    /// The kinds of pipelines that there are.
    pub registry: Registry,
}

impl Role {
    /// The address to serve at: that of the command line, or else that of the settings.
    ///
    /// # Errors
    /// `http.listen` is no address.
    pub fn address(&self) -> Result<Option<SocketAddr>> {
        Ok(if self.listen.is_some() { self.listen } else { self.settings.listen()? })
    }

    /// Listens at that address, guarded as the settings say.
    ///
    /// # Errors
    /// The address is taken, or `http.trusted_proxies` is invalid.
    pub async fn bind(&self, addr: SocketAddr) -> Result<Server> {
        self.guard(Server::bind(addr).await?)
    }

    /// Listens at `http.metrics_listen`, guarded in the same way.
    ///
    /// # Errors
    /// It is no address, or it is taken.
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

    /// The health of a role that answers requests.
    #[must_use]
    pub fn health(&self) -> Arc<Health> {
        Arc::new(Health::new(CONTACT_EVERY + CONTACT_PATIENCE + LIVE_SLACK, self.stop.clone()))
    }

    /// Runs one worker per pipeline, which `open` builds, until all have ended. One that can never work, or whose API is
    /// down, stops no other.
    ///
    /// # Errors
    /// The address is taken, a service is down, or a worker can never work: reported when all have ended.
    pub async fn work<T>(
        self,
        pipelines: Vec<(Monitored, T)>,
        open: impl AsyncFn(&Shared, Arc<dyn Queue>, &Monitored, T) -> Result<ManagedWorker>,
    ) -> Result<()> {
        let apis = announce_apis(&self.settings, pipelines.iter().map(|(one, _)| &one.items)).await;
        // Seen from outside before its services are open, and until the last batch is settled.
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
        let picture = Beside::new("picture", move || service.clone().keep_picture(token_of_picture.clone()));
        for of_process in [configuration, picture] {
            tokio::spawn(of_process.run("process".to_owned(), Arc::new(LogAlone), stop.clone()));
        }
        let alone = pipelines.len() == 1;
        let working = pipelines.into_iter().zip(queues).map(async |((one, own), queue)| {
            let ended = match token.run_until_cancelled(open(&shared, queue, &one, own)).await {
                Some(Ok(worker)) => worker.run().await,
                Some(Err(error)) => Err(error),
                None => Ok(()), // stopped while a service did not answer yet
            };
            one.ended(ended, alone)
        });
        let working = join_all(working);
        tokio::pin!(working);
        tokio::select! {
            ended = &mut working => ended.into_iter().collect(),
            missing = file_is_missing(&settings) => {
                stop.abandon();
                // Each says the same of its own file, or nothing.
                working.await;
                Err(missing.into())
            }
        }
    }

    /// Serves the probes and the metrics, where there is an address, until the returned handles are dropped.
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

    /// Answers requests until it is stopped. `contact` asks the services behind the health of that index, and the log says
    /// `works` when they answer; `take_over` takes changed settings. When the role is to stop, `/ready` says so for a while
    /// and requests are still answered; then it takes no more, and those in work are finished, unless the deadline passes.
    ///
    /// # Errors
    /// A SQLite file of queue or store was deleted or replaced.
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
        // Requests in work at the end of it have as long again.
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

/// The port for monitoring alone, if there is one.
pub struct MetricsPort(Option<Server>);

impl MetricsPort {
    /// Serves both there, until the returned handle is dropped. Returns the routes that the role's main port serves:
    /// `shared`, and without a port of their own the metrics as well.
    pub fn serve(self, shared: Router, metrics: Router) -> (Router, Option<AbortOnDropHandle<()>>) {
        match self.0 {
            Some(server) => (shared.clone(), Some(serve_on(server, shared.merge(metrics)))),
            None => (shared.merge(metrics), None),
        }
    }
}

/// Serves until the returned handle is dropped.
fn serve_on(server: Server, router: Router) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(server.run(router, std::future::pending())))
}

/// A worker with its heartbeat and the tasks beside it.
pub struct ManagedWorker {
    /// The role in the log: `updater`.
    pub role: &'static str,
    /// The worker.
    pub worker: Worker,
    /// Its heartbeat, which began before.
    pub heartbeat: Heartbeat,
    /// Tasks that run beside it until it is stopped. One that fails is begun anew, and nothing else is.
    pub beside: Vec<Beside>,
}

impl ManagedWorker {
    /// Works until it is stopped, then takes the worker off the queues' lists.
    ///
    /// # Errors
    /// It can never work: the message says why.
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
        stop.drain(); // a worker that stopped by itself stops the tasks beside it
        // A task that hangs at a service which is down is aborted at the deadline: another worker does again what it
        // had begun.
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
