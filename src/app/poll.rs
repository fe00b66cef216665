//! The poller: sources in their queues, their posts to the starter.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::provider::http_options;
use super::updater::{BEAT_EVERY, FAREWELL, worker_name};
use super::{Follower, Service, Unavailable, Watched, follow, open_credentials, open_store_and_positions, starter};
use crate::config::{BadConfig, Settings, SourceKind, SourceSettings};
use crate::lateness::Lateness;
use crate::live::Live;
use crate::lookup::http::HttpClient;
use crate::poll::pace::Pace;
use crate::poll::source::{PIPELINE, SourcePoll, namespace};
use crate::poll::timeline::Timeline;
use crate::poll::twitter_v1::{Kind, TwitterApi};
use crate::provider::Provider;
use crate::queue::{Queue, QueueError};
use crate::shutdown::Stop;
use crate::updater::NAMESPACE;
use crate::worker::{ClaimSettings, Pipeline, Worker};

/// A source waits no longer than this once it is due.
const LINGER: Duration = Duration::from_millis(10);

/// The sources of the settings, by endpoint and name.
type Sources = BTreeMap<&'static str, BTreeMap<String, Arc<dyn Timeline>>>;

/// Polls the sources until it is stopped; is seen from outside where it has an address.
///
/// # Errors
/// A setting is missing, a service is not there, the address is taken, or it can never work.
pub async fn run_poll(settings: &Settings, listen: Option<SocketAddr>, follower: Follower, stop: &Stop) -> Result<()> {
    let sources = sources(settings)?;
    let watched = Watched::new(PIPELINE, lease(settings), stop);
    let _serving = Watched::serve(std::slice::from_ref(&watched), settings, listen).await?;
    tokio::select! {
        opened = open(settings, sources, follower, stop, &watched) => match opened {
            Ok((worker, polls)) => work(worker, polls, stop).await,
            Err(error) => Err(error),
        },
        () = stop.draining() => Ok(()), // while a service did not answer yet
    }
}

/// The timelines that the settings name.
///
/// # Errors
/// There is none, or the API's address is none.
pub fn sources(settings: &Settings) -> Result<Sources> {
    if settings.poll.sources.is_empty() {
        let why = "no source to poll: name one in [poll.sources.NAME], with its kind".to_owned();
        return Err(BadConfig(why).into());
    }
    let http = HttpClient::new(&http_options(settings));
    let api = http.and_then(|http| TwitterApi::new(http, &settings.twitter.api));
    let api = api.map_err(|why| BadConfig(format!("twitter.api: {why}")))?;
    let mut sources = Sources::new();
    for (name, source) in &settings.poll.sources {
        let timeline = api.timeline(kind(source), source.out_of_order.unwrap_or(settings.poll.out_of_order));
        let of_endpoint = sources.entry(timeline.endpoint()).or_default();
        of_endpoint.insert(name.clone(), Arc::new(timeline));
    }
    Ok(sources)
}

fn kind(source: &SourceSettings) -> Kind {
    match source.kind {
        SourceKind::Search => Kind::Search { query: source.query.clone() },
        SourceKind::User => Kind::User { screen_name: source.screen_name.clone() },
        SourceKind::List => Kind::List { list_id: source.list_id.clone() },
        SourceKind::Home => Kind::Home,
    }
}

/// A queue, and who handles what is in it.
type Polls = Vec<(Arc<dyn Queue>, Arc<SourcePoll>)>;

/// How long a claimed source is this poller's: a page needs a call, the position before and after it, the hand-over and
/// the settling; there is some time for more pages.
fn lease(settings: &Settings) -> Duration {
    settings.lookup.timeout + 5 * settings.updater.save_timeout
}

async fn open(
    settings: &Settings,
    sources: Sources,
    follower: Follower,
    stop: &Stop,
    watched: &Watched,
) -> Result<(Worker, Polls)> {
    let service = Service::new(settings)?;
    let tweets = service.queue(NAMESPACE).await?;
    let credentials = open_credentials(settings, &service, &Provider::Twitter).await?;
    let (store, positions) = open_store_and_positions(settings).await?;
    let ages = Live::new(settings.tweet_age.clone());
    let starter = starter(&Provider::Twitter, tweets, Some(store), ages.clone());
    let (call_timeout, save_timeout) = (settings.lookup.timeout, settings.updater.save_timeout);
    let poll = &settings.poll;
    let claims = ClaimSettings { limit: 1, linger: LINGER, lookahead: 0.0, lease: lease(settings) };
    let (mut polls, mut pipelines) = (Polls::new(), Vec::new());
    for (endpoint, sources) in sources {
        let namespace = namespace(endpoint);
        let queue = service.queue(&namespace).await?;
        let handler = Arc::new(SourcePoll {
            polls: watched.metrics.polls(&namespace),
            namespace,
            endpoint,
            sources,
            pace: Pace { shortest: poll.shortest, longest: poll.longest, fill: poll.fill },
            pages: poll.pages,
            starter: starter.clone(),
            positions: positions.clone(),
            credentials: credentials.clone(),
            call_timeout,
            save_timeout,
        });
        pipelines.push(Pipeline { queue: queue.clone(), handler: handler.clone(), claims: Live::new(claims) });
        polls.push((queue, handler));
    }
    watched.health.works();
    let take_over = move |settings: &Settings| ages.set(settings.tweet_age.clone());
    tokio::spawn(follow(follower, settings, take_over, stop.clone()));
    let worker = Worker {
        name: worker_name(settings),
        pipelines,
        credentials,
        concurrency: Live::new(settings.updater.concurrency),
        metrics: watched.metrics.clone(),
        health: watched.health.clone(),
        stop: stop.clone(),
    };
    Ok((worker, polls))
}

async fn work(worker: Worker, polls: Polls, stop: &Stop) -> Result<()> {
    for (queue, poll) in &polls {
        poll.schedule(&**queue).await.context("the sources cannot be scheduled")?;
        tracing::info!(namespace = poll.namespace, sources = poll.sources.len(), "polls");
    }
    let name = worker.name.clone();
    let fields = [("version", env!("CARGO_PKG_VERSION").to_owned()), ("pid", std::process::id().to_string())];
    let beating = async {
        loop {
            for (queue, poll) in &polls {
                // Another poller that does not have a source in its settings takes it out of the queue.
                let told = async {
                    // How late is counted by process, and its queues are many: /metrics has it.
                    let untold = poll.polls.untold();
                    queue.beat(&name, &fields, &untold.counts(), &Lateness::default()).await?;
                    untold.told();
                    poll.schedule(&**queue).await
                };
                if let Err(error) = told.await {
                    tracing::warn!(error = %error, namespace = poll.namespace, "no beat");
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
            queue.beat(&name, &fields, &untold.counts(), &Lateness::default()).await?;
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
