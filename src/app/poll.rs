//! The poller: sources in their queues, their posts to the starters of their providers.

mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::heartbeat::{BEAT_EVERY, trouble_fields};
use super::sources::{Sources, sources};
use super::updater::{FAREWELL, worker_name};
use super::{
    Follower, Service, Unavailable, Watched, credentials, follow, open_credentials, open_store_and_positions, starter,
};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::lateness::Lateness;
use crate::engine::queue::{Queue, QueueError};
use crate::engine::schedule::age::AgeTable;
use crate::engine::worker::{ClaimSettings, Pipeline, Worker};
use crate::model::provider::Provider;
use crate::pipelines::streams::reader::StreamSource;
use crate::pipelines::timelines::pace::Pace;
use crate::pipelines::timelines::share::Share;
use crate::pipelines::timelines::source::{InCommon, PIPELINE, SourcePoll, namespace_of};
use crate::store::{Positions, Store};

/// A source waits no longer than this once it is due.
const LINGER: Duration = Duration::from_millis(10);

/// What all providers' pollers share.
struct Shared {
    settings: Settings,
    service: Service,
    store: Arc<dyn Store>,
    positions: Arc<dyn Positions>,
    ages: Reloadable<AgeTable>,
}

/// Polls the sources until it is stopped; is seen from outside where it has an address.
///
/// Each provider has a [`Worker`] of its own, with its credentials: one that can never work, or whose API is out,
/// stops no other.
///
/// # Errors
/// A setting is missing, a service is not there, the address is taken, or one can never work: said when all have ended.
pub async fn run_poll(settings: &Settings, listen: Option<SocketAddr>, follower: Follower, stop: &Stop) -> Result<()> {
    // What is wrong with the settings is said before anything is connected.
    let (mut crew, mut seen) = (Vec::new(), Vec::new());
    let mut openings = streams::streams(settings)?;
    for (provider, sources) in sources(settings)? {
        credentials(settings, &provider)?;
        let openings: Vec<_> = openings.extract_if(.., |opening| opening.provider == provider).collect();
        let watched = Watched::new(&pipeline(&provider), lease(settings), stop);
        seen.push(watched.clone());
        crew.push((provider, sources, openings, watched));
    }
    let _serving = Watched::serve(&seen, settings, listen).await?;
    let (shared, queues) = tokio::select! {
        shared = open_shared(settings, crew.iter().map(|(provider, ..)| provider)) => shared?,
        () = stop.draining() => return Ok(()), // while a service did not answer yet
    };
    let ages = shared.ages.clone();
    let take_over = move |settings: &Settings| ages.set(settings.tweet_age.clone());
    tokio::spawn(follow(follower, settings, take_over, stop.clone()));
    let alone = crew.len() == 1;
    let polling = crew.into_iter().zip(queues).map(async |((provider, sources, openings, watched), posts)| {
        let own = stop.child();
        let opened = tokio::select! {
            opened = open(&shared, &provider, posts, sources, openings, &own, &watched) => opened,
            () = stop.draining() => return Ok(()), // while a service did not answer yet
        };
        let ended = match opened {
            Ok((worker, polls, streams)) => tokio::join!(work(worker, polls, &own), streams::run(streams, &own)).0,
            Err(error) => Err(error),
        };
        watched.ended(&provider, ended, alone)
    });
    futures::future::join_all(polling).await.into_iter().collect()
}

/// How a provider's sources are named as a whole: each endpoint's namespace begins with it.
fn pipeline(provider: &Provider) -> String {
    match provider {
        Provider::Twitter => PIPELINE.to_owned(),
        other => format!("{PIPELINE}:{other}"),
    }
}

/// A queue, and who handles what is in it.
type Polls = Vec<(Arc<dyn Queue>, Arc<SourcePoll>)>;

/// How long a claimed source is this poller's: a page needs a call, the position before and after it, the hand-over and
/// the settling; there is some time for more pages.
fn lease(settings: &Settings) -> Duration {
    settings.lookup.timeout + 5 * settings.updater.save_timeout
}

/// What all of them share, and the queues of the providers' posts.
async fn open_shared(
    settings: &Settings,
    providers: impl IntoIterator<Item = &Provider>,
) -> Result<(Shared, Vec<Arc<dyn Queue>>)> {
    let service = Service::new(settings)?;
    let queues = service.queues(providers).await?;
    // A queue that is not there leaves no store behind.
    let (store, positions) = open_store_and_positions(settings).await?;
    let ages = Reloadable::new(settings.tweet_age.clone());
    Ok((Shared { settings: settings.clone(), service, store, positions, ages }, queues))
}

async fn open(
    shared: &Shared,
    provider: &Provider,
    posts: Arc<dyn Queue>,
    sources: Sources,
    openings: Vec<streams::Opening>,
    stop: &Stop,
    watched: &Watched,
) -> Result<(Worker, Polls, Vec<StreamSource>)> {
    let Shared { settings, service, store, positions, ages } = shared;
    let credentials = open_credentials(settings, service, provider).await?;
    let starter = starter(provider, posts, Some(store.clone()), ages.clone());
    let (call_timeout, save_timeout) = (settings.lookup.timeout, settings.updater.save_timeout);
    let poll = &settings.poll;
    let claims = ClaimSettings { limit: 1, linger: LINGER, lookahead: 0.0, lease: lease(settings) };
    let (mut polls, mut pipelines) = (Polls::new(), Vec::new());
    let concurrency = Reloadable::new(settings.updater.concurrency);
    let namespaces = sources.keys().map(|endpoint| namespace_of(provider, endpoint));
    let in_common = InCommon::new(namespaces, Share::new(concurrency.clone()));
    for (endpoint, sources) in sources {
        let namespace = namespace_of(provider, endpoint);
        let queue = service.queue(&namespace).await?;
        let handler = Arc::new(SourcePoll {
            polls: watched.metrics.polls(&namespace),
            namespace,
            endpoint,
            sources,
            pace: Pace { shortest: poll.shortest, longest: poll.longest, fill: poll.fill },
            pages: poll.pages,
            queries: poll
                .sources
                .iter()
                .filter_map(|(name, source)| Some((name.clone(), source.asks_for()?)))
                .collect(),
            starter: starter.clone(),
            positions: positions.clone(),
            credentials: credentials.clone(),
            call_timeout,
            save_timeout,
            in_common: in_common.clone(),
        });
        pipelines.push(Pipeline { queue: queue.clone(), handler: handler.clone(), claims: Reloadable::new(claims) });
        polls.push((queue, handler));
    }
    let streams = streams::open(settings, openings, service, &polls, watched).await?;
    watched.health.works();
    let worker = Worker {
        name: worker_name(settings),
        pipelines,
        credentials,
        concurrency,
        metrics: watched.metrics.clone(),
        health: watched.health.clone(),
        stop: stop.clone(),
    };
    Ok((worker, polls, streams))
}

async fn work(worker: Worker, polls: Polls, stop: &Stop) -> Result<()> {
    for (queue, poll) in &polls {
        poll.schedule(&**queue).await.context("the sources cannot be scheduled")?;
        tracing::info!(namespace = poll.namespace, sources = poll.sources.len(), "polls");
    }
    let (name, health) = (worker.name.clone(), worker.health.clone());
    let fields = || {
        let own = [("version", env!("CARGO_PKG_VERSION").to_owned()), ("pid", std::process::id().to_string())];
        own.into_iter().chain(trouble_fields(&health)).collect::<Vec<_>>()
    };
    let beating = async {
        loop {
            for (queue, poll) in &polls {
                // Another poller that does not have a source in its settings takes it out of the queue.
                let told = async {
                    // How late is counted by process, and its queues are many: /metrics has it.
                    let untold = poll.polls.untold();
                    queue.beat(&name, &fields(), &untold.counts(), &Lateness::default()).await?;
                    untold.told();
                    poll.schedule(&**queue).await
                };
                if let Err(error) = told.await {
                    tracing::warn!(error = %error, namespace = poll.namespace, "no heartbeat");
                }
            }
            tokio::time::sleep(BEAT_EVERY).await;
        }
    };
    let time_is_up = async {
        stop.abandoning().await;
        tokio::time::sleep(FAREWELL).await;
    };
    let worked = tokio::select! {
        worked = worker.run() => worked,
        () = beating => Ok(()), // it never ends
        () = time_is_up => {
            tracing::warn!("the queue does not answer: what is in flight is claimable when its lease has run out");
            Ok(())
        }
    };
    let farewell = async {
        // What was counted since the last beat, then off the list.
        for (queue, poll) in &polls {
            let untold = poll.polls.untold();
            queue.beat(&name, &fields(), &untold.counts(), &Lateness::default()).await?;
            untold.told();
            queue.leave(&name).await?;
        }
        Ok::<_, QueueError>(())
    };
    if !matches!(tokio::time::timeout(FAREWELL, farewell).await, Ok(Ok(()))) {
        tracing::warn!("cannot leave the list of workers: the name stays there for a minute");
    }
    tracing::info!(worker = name, "poller stopped");
    worked.map_err(|message| Unavailable(message).into())
}
