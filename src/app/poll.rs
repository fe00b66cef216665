//! The worker of a poller: the sources of an endpoint in their queue, and the starter for their posts.

mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use self::streams::Opening;
use super::heartbeat::{Counted, Heartbeat};
use super::sources::sources;
use super::updater::worker_name;
use super::{ManagedWorker, Monitored, Role, Shared, credentials, open_credentials, starter};
use crate::base::reload::Reloadable;
use crate::base::supervise::Beside;
use crate::engine::queue::Queue;
use crate::engine::worker::{ClaimSettings, Handling, Worker};
use crate::model::pipeline_id::PipelineId;
use crate::pipelines::posts::posts_of;
use crate::pipelines::streams::counters::StreamCounters;
use crate::pipelines::streams::reader::StreamSource;
use crate::pipelines::timelines::counters;
use crate::pipelines::timelines::pace::Pace;
use crate::pipelines::timelines::reader::{InCommon, Reader};
use crate::pipelines::timelines::share::Share;
use crate::pipelines::timelines::source::SourcePoll;
use crate::providers::source::Source;
use crate::quota::Credentials;

/// Pause of an idle loop. A source that comes due sooner wakes it: a batch of one is enough.
const LINGER: Duration = Duration::from_secs(1);

/// Work of a poller: the sources of one endpoint, and the streams whose gaps they fill.
pub struct PollerWork {
    endpoint: &'static str,
    sources: BTreeMap<String, Source>,
    openings: Vec<Opening>,
    in_common: InCommon,
    /// Opened by the first endpoint of the provider.
    credentials: Arc<OnceCell<Arc<Credentials>>>,
}

/// Returns the configured pollers, one per endpoint. Connects to nothing.
pub fn pollers(role: &Role) -> Result<Vec<(Monitored, PollerWork)>> {
    let settings = &role.settings;
    let mut pipelines = Vec::new();
    let mut openings = streams::streams(settings)?;
    for (provider, endpoints) in sources(settings)? {
        credentials(settings, &provider)?;
        let namespace = |endpoint: &&str| PipelineId::timelines(&provider, endpoint).to_string();
        let in_common = InCommon::new(endpoints.keys().map(namespace));
        let credentials = Arc::new(OnceCell::new());
        for (endpoint, sources) in endpoints {
            let is_filled = |opening: &mut Opening| opening.is_filled_by(&provider, &sources);
            let openings = openings.extract_if(.., is_filled).collect();
            let (items, stop) = (posts_of(&provider), role.stop.child());
            let monitored = Monitored::new(settings, items, namespace(&endpoint), settings.timeline_lease(), stop);
            let (in_common, credentials) = (in_common.clone(), credentials.clone());
            pipelines.push((monitored, PollerWork { endpoint, sources, openings, in_common, credentials }));
        }
    }
    match openings.first() {
        Some(opening) => Err(opening.without_source().into()),
        None => Ok(pipelines),
    }
}

/// Builds the worker that polls the sources of an endpoint. Their posts go into the queue `posts`.
pub async fn open_poller(
    shared: &Shared,
    posts: Arc<dyn Queue>,
    pipeline: &Monitored,
    PollerWork { endpoint, sources: named, openings, in_common, credentials }: PollerWork,
) -> Result<ManagedWorker> {
    let settings = &shared.in_force.load().settings;
    let Monitored { items, schedule, namespace, metrics, health, stop } = pipeline.clone();
    let sources = named.len();
    let opened = async || open_credentials(settings, &shared.service, &items.id.provider).await;
    let credentials = credentials.get_or_try_init(opened).await?.clone();
    let concurrency = Reloadable::new(settings.updater.concurrency);
    let poll = &settings.poll;
    let claims = ClaimSettings { limit: 1, linger: LINGER, lookahead: 0.0, lease: settings.timeline_lease() };
    let queue = shared.service.queue(&namespace).await?;
    let (polls, streamed) = (Arc::<counters::Polls>::default(), Arc::<StreamCounters>::default());
    metrics.also_show(&namespace, polls.clone());
    metrics.also_show(&namespace, streamed.clone());
    let reader = Reader {
        metrics: metrics.clone(),
        polls,
        namespace,
        endpoint,
        pages: poll.pages,
        starter: starter(settings, &items, posts, Some(shared.database.store.clone()), schedule),
        way: "poll",
        keeps_old: false,
        positions: shared.database.positions.clone(),
        credentials: credentials.clone(),
        call_timeout: settings.lookup.timeout,
        save_timeout: settings.updater.save_timeout,
        longest: poll.longest,
        in_common,
    };
    let handler = Arc::new(SourcePoll {
        reader,
        timelines: Arc::new(named),
        pace: Pace { shortest: poll.shortest, longest: poll.longest, fill: poll.fill },
        share: Share::new(concurrency.clone()),
    });
    let streams = streams::open(settings, openings, &shared.service, (&queue, &handler), (&streamed, &metrics)).await?;
    health.works();
    handler.schedule(&*queue).await.context("the sources cannot be scheduled")?;
    tracing::info!(namespace = handler.reader.namespace, sources, "polls");
    credentials.warn_of_parked(endpoint).await;
    let name = worker_name(settings);
    let heartbeat = Heartbeat::start(&name, shared, pipeline, queue.clone(), Counted::Polls(handler.clone()));
    let stream = |stream: StreamSource| {
        let (stream, stop) = (Arc::new(stream), stop.clone());
        Beside::new("stream", move || {
            let (stream, stop) = (stream.clone(), stop.clone());
            async move { stream.run(&stop).await }
        })
    };
    let beside = streams.into_iter().map(stream).collect();
    let (handling, claims, early) = (Handling::Metered(handler, credentials), claims.into(), 0.0.into());
    let worker = Worker { name, queue, handling, claims, early, concurrency, metrics, health, stop };
    Ok(ManagedWorker { role: "poller", worker, heartbeat, beside })
}
