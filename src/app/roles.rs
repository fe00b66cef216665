//! The processes that run until they are stopped: `updater`, `starter`, `ops`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use futures::future::join_all;
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Follower, InForce, Service, Updater, callers, credentials, follow, live_budget, open_lookup, open_store,
    open_store_and_positions, polled, starter, tuning, upkeep,
};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::{BadConfig, Settings, WithoutToken};
use crate::engine::health::{Health, Vitals};
use crate::engine::metrics::Metrics;
use crate::engine::queue::Queue;
use crate::engine::worker::LONGEST_PAUSE;
use crate::ingest::{Hook, Starter};
use crate::model::provider::Provider;
use crate::ops::report::sources::PositionsAtHand;
use crate::ops::{self, Archive, Door, Server, Shown, Site, Terms, WholeQueue};
use crate::providers::registry::capabilities;
use crate::quota::Budget;
use crate::store::{Store, Way};

/// Where the starter listens, unless it is told.
const STARTER_LISTENS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
/// The same for ops.
const OPS_LISTENS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8082);
/// How often a role that waits to be asked looks whether its services answer,
const CONTACT_EVERY: Duration = Duration::from_secs(2);
/// and how long they may take.
const CONTACT_PATIENCE: Duration = Duration::from_secs(5);
/// More than what a loop that turns needs between two beats: the machine may be busy.
const LIVE_SLACK: Duration = Duration::from_secs(30);

/// What is seen from outside of a pipeline that a process works on.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The pipeline.
    pub namespace: String,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// What it knows of itself.
    pub health: Arc<Health>,
}

impl Watched {
    /// Of that pipeline, whose batches are leased for so long, and which starts now.
    #[must_use]
    pub fn new(namespace: &str, lease: Duration, stop: &Stop) -> Self {
        // A loop waits for work, or is done with a batch within its lease.
        let patience = LONGEST_PAUSE.max(lease) + LIVE_SLACK;
        let health = Arc::new(Health::new(patience, stop.clone()));
        Self { namespace: namespace.to_owned(), metrics: Arc::new(Metrics::new()), health }
    }

    /// How its work for that provider ended. Where it was not `alone`, the others go on: that it can never work is said
    /// now, and not when all have ended.
    pub(super) fn ended(&self, provider: &Provider, ended: Result<()>, alone: bool) -> Result<()> {
        if let (Err(error), false) = (&ended, alone) {
            let error = format!("{error:#}");
            self.health.ended(&error);
            tracing::error!(provider = %provider, error, "stopped for good; the others go on");
        }
        ended
    }

    /// Serves the probes and the metrics of a process that works on these, where there is an address, until what it
    /// answers is dropped.
    ///
    /// # Errors
    /// The address is none, or taken.
    pub(super) async fn serve(
        pipelines: &[Self],
        settings: &Settings,
        listen: Option<SocketAddr>,
    ) -> Result<Option<AbortOnDropHandle<()>>> {
        let Some(addr) = listen.map_or_else(|| settings.listen(), |listen| Ok(Some(listen)))? else { return Ok(None) };
        let vitals = Vitals::new(pipelines.iter().map(|one| (one.namespace.clone(), one.health.clone())));
        let metrics = ops::of_process(pipelines.iter().map(|one| (one.namespace.clone(), one.metrics.clone())));
        let router = ops::router(vitals, metrics);
        let serving = bind(settings, addr).await?.run(router, std::future::pending());
        Ok(Some(AbortOnDropHandle::new(tokio::spawn(serving))))
    }
}

/// Keeps the posts of every provider fresh until it is stopped; is seen from outside where it has an address.
///
/// Each provider has an [`Updater`] of its own: one that can never work, or whose API is out, stops no other.
///
/// # Errors
/// A setting is missing, a service is not there, the address is taken, or one can never work: said when all have ended.
pub async fn run_updater(
    settings: &Settings,
    listen: Option<SocketAddr>,
    follower: Follower,
    stop: &Stop,
) -> Result<()> {
    // What is wrong with the settings is said before anything is connected.
    let mut crew = Vec::new();
    for provider in settings.providers()? {
        open_lookup(settings, &provider)?;
        credentials(settings, &provider)?;
        let stop = stop.child();
        let watched = Watched::new(&provider.namespace(), settings.updater.lease, &stop);
        crew.push((provider, watched, stop));
    }
    // It is seen before its services are open, and until the last batch is settled.
    let seen: Vec<Watched> = crew.iter().map(|(_, watched, _)| watched.clone()).collect();
    let _serving = Watched::serve(&seen, settings, listen).await?;
    let opened = tokio::select! {
        opened = async {
            let service = Service::new(settings)?;
            let queues = service.queues(crew.iter().map(|(provider, ..)| provider)).await?;
            // A queue that is not there leaves no store behind.
            Ok::<_, anyhow::Error>((open_store(settings).await?, service, queues))
        } => opened,
        () = stop.draining() => return Ok(()), // while a service did not answer yet
    };
    let (store, service, queues) = opened?;
    let in_force = Reloadable::new(InForce::new(settings.clone()));
    let metrics = crew.iter().map(|(_, watched, _)| watched.metrics.clone()).collect();
    tokio::spawn(follower.run(in_force.clone(), |_| (), metrics, stop.clone()));
    tokio::spawn({
        let (service, stop) = (service.clone(), stop.token());
        async move { service.keep_picture(stop).await }
    });
    let alone = crew.len() == 1;
    let updating = crew.into_iter().zip(queues).map(async |((provider, watched, stop), queue)| {
        let opened = tokio::select! {
            opened = Updater::open(&provider, in_force.clone(), &service, queue, store.clone(), stop.clone(), &watched) => opened,
            () = stop.draining() => Ok(None), // while a service did not answer yet
        };
        let ended = match opened {
            Ok(Some(updater)) => updater.run().await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        watched.ended(&provider, ended, alone)
    });
    join_all(updating).await.into_iter().collect()
}

/// Takes tweets over HTTP until it is stopped.
///
/// # Errors
/// A setting is missing, a service is not there, or the address is taken.
pub async fn run_starter(
    settings: &Settings,
    listen: Option<SocketAddr>,
    follower: Follower,
    stop: &Stop,
) -> Result<()> {
    let token = settings.starter_token()?;
    let addr = address(settings, listen, STARTER_LISTENS)?;
    if token.is_none() && settings.starter.without_token == WithoutToken::Loopback && !addr.ip().is_loopback() {
        return Err(BadConfig(format!(
            "{addr} is reached from elsewhere, and the starter has no token: give it one (starter.bearer_token_file), or \
             say that whoever reaches it may send tweets (starter.without_token = \"anybody\")"
        ))
        .into());
    }
    let server = bind(settings, addr).await?;
    let health = Arc::new(Health::new(CONTACT_EVERY + CONTACT_PATIENCE + LIVE_SLACK, stop.clone()));
    let providers = settings.providers()?;
    let opened = tokio::select! {
        opened = async {
            let queues = Service::new(settings)?.queues(&providers).await?;
            Ok::<_, anyhow::Error>((queues, open_store(settings).await?))
        } => opened?,
        () = stop.draining() => return Ok(()), // while a service did not answer yet
    };
    let (queues, store) = opened;
    let ages = Reloadable::new(settings.tweet_age.clone());
    let starters: Vec<(String, Starter)> = providers
        .iter()
        .zip(&queues)
        .map(|(provider, queue)| {
            let starter = starter(provider, queue.clone(), Some(store.clone()), ages.clone());
            (provider.to_string(), starter.by(Way::of("http")))
        })
        .collect();
    let take_over = move |settings: &Settings| ages.set(settings.tweet_age.clone());
    tokio::spawn(follow(follower, settings, take_over, stop.clone()));
    let hook = Arc::new(Hook::new(starters, token, settings.starter.max_body_bytes, health.clone()));
    let mut registry = ops::registry();
    hook.register(&mut registry);
    let router = hook.router().merge(ops::router(&health, registry));
    let contact = async |_| {
        for queue in &queues {
            queue.due().await.map_err(|error| error.to_string())?;
        }
        store.check().await.map_err(|error| error.to_string())
    };
    health.works();
    serve(server, router, std::slice::from_ref(&health), contact, drain_notice(settings), stop).await;
    Ok(())
}

/// Serves the figures of the whole queues until it is stopped, also while they are out.
///
/// # Errors
/// A setting is missing, the queue's file cannot be opened, or the address is taken.
pub async fn run_ops(settings: &Settings, listen: Option<SocketAddr>, follower: Follower, stop: &Stop) -> Result<()> {
    let providers = settings.providers()?;
    for provider in &providers {
        callers(settings, provider)?; // what is wrong with them is said before anything listens
    }
    settings.ops_token()?;
    let server = bind(settings, address(settings, listen, OPS_LISTENS)?).await?;
    let service = Service::new(settings)?;
    let mut queues = Vec::new();
    for provider in providers {
        let health = Arc::new(Health::new(CONTACT_EVERY + CONTACT_PATIENCE + LIVE_SLACK, stop.clone()));
        let queue = service.unchecked_queue(&provider.namespace()).await?;
        let budget = live_budget(settings, &provider);
        queues.push(Overseen { provider, queue, health, budget });
    }
    let in_force = Reloadable::new(terms(settings));
    let router = open_site(settings, in_force.clone(), &service, &queues).await?.router();
    let budgets: Vec<_> = queues.iter().map(|one| (capabilities(&one.provider), one.budget.clone())).collect();
    let take_over = move |settings: &Settings| {
        in_force.set(terms(settings));
        for (capabilities, live) in &budgets {
            if let (Some(live), Some(budget)) = (live, tuning::budget(settings, *capabilities)) {
                live.set(budget);
            }
        }
    };
    tokio::spawn(follow(follower, settings, take_over, stop.clone()));
    let checked: Vec<AtomicBool> = queues.iter().map(|_| AtomicBool::new(false)).collect();
    let contact = async |at: usize| {
        let (queue, checked) = (&queues[at].queue, &checked[at]);
        let answered = match checked.load(Ordering::Relaxed) {
            true => queue.due().await.map(drop),
            false => queue.check().await.map(drop),
        };
        checked.fetch_or(answered.is_ok(), Ordering::Relaxed);
        answered.map_err(|error| error.to_string())
    };
    let healths: Vec<_> = queues.iter().map(|one| one.health.clone()).collect();
    serve(server, router, &healths, contact, drain_notice(settings), stop).await;
    Ok(())
}

/// A queue that is shown.
#[derive(Debug)]
pub struct Overseen {
    /// Whose posts it holds.
    pub provider: Provider,
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// Hears whether it answers.
    pub health: Arc<Health>,
    /// The budget of reads, where the provider charges for them.
    pub budget: Option<Reloadable<Budget>>,
}

/// The pages of these providers' queues, and all else that `ops` serves: with the credentials' names, and no secret of
/// theirs. Each queue's health hears whether it answers.
///
/// # Errors
/// A setting is missing, or a ledger's file cannot be opened.
pub async fn open_site(
    settings: &Settings,
    terms: Reloadable<Terms>,
    service: &Service,
    queues: &[Overseen],
) -> Result<Arc<Site>> {
    let token = settings.ops_token()?;
    // One store for all, opened once.
    let store: Arc<OnceCell<Arc<dyn Store>>> = Arc::default();
    let positions = PositionsAtHand::new(Err("it has not answered yet".to_owned()));
    let mut shown = Vec::new();
    for Overseen { provider, queue, health, budget } in queues {
        let names: Vec<String> = callers(settings, provider)?.into_iter().map(|(name, _)| name).collect();
        let ledger = service.ledger(provider).await?;
        let open = {
            let (settings, provider) = (settings.clone(), provider.clone());
            let (queue, store, positions) = (queue.clone(), store.clone(), positions.clone());
            move || {
                let (settings, provider) = (settings.clone(), provider.clone());
                let (queue, store, positions) = (queue.clone(), store.clone(), positions.clone());
                async move {
                    let open = async || {
                        let opened = open_store_and_positions(&settings).await.map_err(|error| format!("{error:#}"));
                        positions.set(opened.as_ref().map(|(_, positions)| positions.clone()).map_err(Clone::clone));
                        opened.map(|(store, _)| store)
                    };
                    let store = store.get_or_try_init(open).await?;
                    Ok(upkeep::dead_of(&settings, &provider, queue, store.clone()))
                }
            }
        };
        let whole = Arc::new(WholeQueue {
            queue: queue.clone(),
            provider: provider.ledger(),
            ledger,
            names,
            capabilities: capabilities(provider),
            terms: terms.clone(),
            budget: budget.clone(),
            health: health.clone(),
        });
        let terms = terms.clone();
        // Opened at the same time: a store that does not answer holds up all of them once.
        shown.push(async move { Shown { whole, archive: Archive::open(open).await, terms } });
    }
    let book = polled::book(settings, service, positions);
    Ok(Site::new(join_all(shown).await, token.as_ref(), Some(book)))
}

/// What of these settings the page's figures are reckoned by.
#[must_use]
pub fn terms(settings: &Settings) -> Terms {
    let (ages, updater) = (settings.tweet_age.clone(), &settings.updater);
    Terms {
        ages,
        buffer_ttl: updater.buffer_ttl,
        lookahead: updater.lookahead,
        unavailable_every: updater.unavailable_every,
        lease: updater.lease,
    }
}

fn address(settings: &Settings, listen: Option<SocketAddr>, default: SocketAddr) -> Result<SocketAddr> {
    Ok(match listen {
        Some(listen) => listen,
        None => settings.listen()?.unwrap_or(default),
    })
}

/// Listens there, as the settings say.
async fn bind(settings: &Settings, addr: SocketAddr) -> Result<Server> {
    let http = &settings.http;
    Ok(Server::bind(addr).await?.guarded(Door::new(&http.hosts), http.connections))
}

/// What is in work at the end of it has as long again.
fn drain_notice(settings: &Settings) -> Duration {
    settings.http.drain_notice.min(settings.updater.drain_deadline / 2)
}

/// The main loop of a role that waits to be asked: looks now and then whether its services answer, of each health those
/// that are its own. Once it is to stop, it says so at `/ready` for a while and still takes what comes; then it takes no more, and what is
/// in work is finished, unless the deadline passes.
async fn serve(
    server: Server,
    router: Router,
    healths: &[Arc<Health>],
    contact: impl AsyncFn(usize) -> Result<(), String>,
    drain_notice: Duration,
    stop: &Stop,
) {
    let close = {
        let stop = stop.clone();
        async move {
            stop.draining().await;
            tokio::select! {
                () = tokio::time::sleep(drain_notice) => {}
                () = stop.abandoning() => {}
            }
        }
    };
    let turn = async |(at, health): (usize, &Arc<Health>)| {
        loop {
            health.beat();
            let answered = tokio::time::timeout(CONTACT_PATIENCE, contact(at)).await;
            let silent = || Err(format!("no answer within {} s", CONTACT_PATIENCE.as_secs()));
            match answered.unwrap_or_else(|_| silent()) {
                Ok(()) if health.works() => tracing::info!("the services answer"),
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
        () = stop.abandoning() => tracing::warn!("what is in work is cut off: whoever sent it sends it again"),
    }
    tracing::info!("stopped");
}
