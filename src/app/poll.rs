//! The worker of a poller.

mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use self::streams::UnopenedStream;
use super::heartbeat::{CountSource, Heartbeat};
use super::sources::sources;
use super::updater::worker_name;
use super::{ManagedWorker, MonitoredPipeline, Role, SharedServices, credentials, open_credentials, starter};
use collect::pipelines::posts::posts_pipeline;
use collect::pipelines::streams::counters::StreamCounters;
use collect::pipelines::streams::reader::StreamSource;
use collect::pipelines::timelines::counters;
use collect::pipelines::timelines::pace::Pace;
use collect::pipelines::timelines::reader::{Reader, SharedState};
use collect::pipelines::timelines::slow_polls::SlowPollLimiter;
use collect::pipelines::timelines::source::SourcePoll;
use engine::base::reload::Reloadable;
use engine::base::supervise::BackgroundTask;
use engine::queue::Queue;
use engine::quota::Credentials;
use engine::worker::{ClaimSettings, HandlerKind, Worker};
use networks::model::pipeline_id::PipelineId;
use networks::providers::source::Source;

/// Pause of an idle loop. A source that comes due sooner wakes it: a batch of one is enough.
const LINGER: Duration = Duration::from_secs(1);

/// Sources of one endpoint, and the streams whose gaps they fill.
pub struct PollerWork {
    endpoint: &'static str,
    sources: BTreeMap<String, Source>,
    unopened: Vec<UnopenedStream>,
    shared_state: SharedState,
    /// Opened by the first endpoint of the provider.
    credentials: Arc<OnceCell<Arc<Credentials>>>,
}

/// Returns the configured pollers, one per endpoint. Connects to nothing.
pub fn pollers(role: &Role) -> Result<Vec<(MonitoredPipeline, PollerWork)>> {
    let settings = &role.settings;
    let mut pipelines = Vec::new();
    let mut unopened = streams::configured_streams(settings)?;
    for (provider, endpoints) in sources(settings)? {
        credentials(settings, &provider)?;
        let namespace = |endpoint: &&str| PipelineId::timelines(&provider, endpoint).to_string();
        let shared_state = SharedState::new(endpoints.keys().map(namespace));
        let credentials = Arc::new(OnceCell::new());
        for (endpoint, sources) in endpoints {
            let is_filled = |unopened_stream: &mut UnopenedStream| unopened_stream.is_filled_by(&provider, &sources);
            let unopened = unopened.extract_if(.., is_filled).collect();
            let (items, stop) = (posts_pipeline(&provider), role.stop.child());
            let monitored =
                MonitoredPipeline::new(settings, items, namespace(&endpoint), settings.timeline_lease(), stop);
            let (shared_state, credentials) = (shared_state.clone(), credentials.clone());
            pipelines.push((monitored, PollerWork { endpoint, sources, unopened, shared_state, credentials }));
        }
    }
    match unopened.first() {
        Some(unopened_stream) => Err(unopened_stream.missing_source_error().into()),
        None => Ok(pipelines),
    }
}

/// Builds the worker that polls the sources of an endpoint. Their posts go into the queue `posts`.
pub async fn open_poller(
    shared: &SharedServices,
    posts: Arc<dyn Queue>,
    pipeline: &MonitoredPipeline,
    PollerWork { endpoint, sources: named, unopened, shared_state, credentials }: PollerWork,
) -> Result<ManagedWorker> {
    let settings = &shared.in_force.load().settings;
    let MonitoredPipeline { items, schedule, namespace, metrics, health, stop } = pipeline.clone();
    let sources = named.len();
    let opened = async || open_credentials(settings, &shared.service, &items.id.provider).await;
    let credentials = credentials.get_or_try_init(opened).await?.clone();
    let concurrency = Reloadable::new(settings.updater.concurrency);
    let poll = &settings.poll;
    let claims = ClaimSettings { limit: 1, linger: LINGER, lookahead: 0.0, lease: settings.timeline_lease() };
    let queue = shared.service.queue(&namespace).await?;
    let (polls, streamed) = (Arc::<counters::PollCounters>::default(), Arc::<StreamCounters>::default());
    metrics.add_counters(&namespace, polls.clone());
    metrics.add_counters(&namespace, streamed.clone());
    let reader = Reader {
        metrics: metrics.clone(),
        polls,
        namespace,
        endpoint,
        pages: poll.pages,
        starter: starter(settings, &items, posts, Some(shared.database.store.clone()), schedule),
        way: "poll",
        stores_old: false,
        positions: shared.database.positions.clone(),
        credentials: credentials.clone(),
        call_timeout: settings.lookup.timeout,
        save_timeout: settings.updater.save_timeout,
        longest: poll.longest,
        shared_state,
    };
    let handler = Arc::new(SourcePoll {
        reader,
        timelines: Arc::new(named),
        pace: Pace { shortest: poll.shortest, longest: poll.longest, fill: poll.fill },
        slow_polls: SlowPollLimiter::new(concurrency.clone()),
    });
    let streams =
        streams::open_streams(settings, unopened, &shared.service, (&queue, &handler), (&streamed, &metrics)).await?;
    health.record_success();
    handler.schedule(&*queue).await.context("the sources cannot be scheduled")?;
    tracing::info!(namespace = handler.reader.namespace, sources, "the poller runs");
    credentials.warn_of_parked(endpoint).await;
    let name = worker_name(settings);
    let heartbeat = Heartbeat::start(&name, shared, pipeline, queue.clone(), CountSource::Polls(handler.clone()));
    let stream = |stream: StreamSource| {
        let (stream, stop) = (Arc::new(stream), stop.clone());
        BackgroundTask::new("stream", move || {
            let (stream, stop) = (stream.clone(), stop.clone());
            async move { stream.run(&stop).await }
        })
    };
    let beside = streams.into_iter().map(stream).collect();
    let (handling, claims, early) = (HandlerKind::Metered(handler, credentials), claims.into(), 0.0.into());
    let worker = Worker { name, queue, handling, claims, early, concurrency, metrics, health, stop };
    Ok(ManagedWorker { role: "poller", worker, heartbeat, beside })
}
