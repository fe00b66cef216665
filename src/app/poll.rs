//! The worker of a poller: sources in their queues, their posts to the starter of their provider.

mod streams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;

use self::streams::{Opening, Polls};
use super::heartbeat::{Counted, Heartbeat};
use super::sources::{Sources, sources};
use super::updater::worker_name;
use super::{ManagedWorker, Monitored, Role, Shared, credentials, open_credentials, starter};
use crate::base::reload::Reloadable;
use crate::config::{Settings, SourceSettings};
use crate::engine::queue::Queue;
use crate::engine::worker::{ClaimSettings, Handling, Pipeline, Worker};
use crate::model::pipeline_id::PipelineId;
use crate::pipelines::streams::counters::StreamCounters;
use crate::pipelines::streams::reader::StreamSource;
use crate::pipelines::timelines::counters;
use crate::pipelines::timelines::pace::Pace;
use crate::pipelines::timelines::share::Share;
use crate::pipelines::timelines::source::{InCommon, SourcePoll};

/// Longest wait of a source once it is due.
const LINGER: Duration = Duration::from_millis(10);

/// What a poller of one provider asks.
pub type Asked = (Sources, Vec<Opening>);

/// The pollers that the settings name, one per provider. Nothing is connected yet.
///
/// # Errors
/// A setting is missing or invalid.
pub fn pollers(role: &Role) -> Result<Vec<(Monitored, Asked)>> {
    let settings = &role.settings;
    let mut pipelines = Vec::new();
    let mut openings = streams::streams(settings)?;
    for (provider, sources) in sources(settings)? {
        credentials(settings, &provider)?;
        let openings: Vec<_> = openings.extract_if(.., |opening| opening.provider == provider).collect();
        let (pipeline, stop) = (PipelineId::all_timelines(&provider).to_string(), role.stop.child());
        pipelines.push((Monitored::new(provider, pipeline, lease(settings), stop), (sources, openings)));
    }
    Ok(pipelines)
}

/// The lease of a claimed source: a page needs a call, the position before and after it, the hand-over and the settling;
/// there is some time for more pages.
fn lease(settings: &Settings) -> Duration {
    settings.lookup.timeout + 5 * settings.updater.save_timeout
}

/// Builds the worker that polls the sources of a provider, whose posts go into that queue.
///
/// # Errors
/// A service is down.
pub async fn open_poller(
    shared: &Shared,
    posts: Arc<dyn Queue>,
    pipeline: &Monitored,
    (sources, openings): Asked,
) -> Result<ManagedWorker> {
    let settings = &shared.in_force.load().settings;
    let Monitored { provider, metrics, health, stop, .. } = pipeline.clone();
    let credentials = open_credentials(settings, &shared.service, &provider).await?;
    let concurrency = Reloadable::new(settings.updater.concurrency);
    let namespaces = sources.keys().map(|endpoint| PipelineId::timelines(&provider, endpoint).to_string());
    let in_common = InCommon::new(namespaces, Share::new(concurrency.clone()));
    let starter = starter(&provider, posts, Some(shared.store.clone()), shared.ages.clone());
    let poll = &settings.poll;
    let asked = |(name, source): (&String, &SourceSettings)| Some((name.clone(), source.asks_for()?));
    let queries: BTreeMap<_, _> = poll.sources.iter().filter_map(asked).collect();
    let claims = ClaimSettings { limit: 1, linger: LINGER, lookahead: 0.0, lease: lease(settings) };
    let (mut polls, mut pipelines) = (Polls::new(), Vec::new());
    for (endpoint, sources) in sources {
        let namespace = PipelineId::timelines(&provider, endpoint).to_string();
        let queue = shared.service.queue(&namespace).await?;
        let counted = Arc::<counters::Polls>::default();
        metrics.also_show(&namespace, counted.clone());
        let handler = Arc::new(SourcePoll {
            polls: counted,
            namespace,
            endpoint,
            sources,
            pace: Pace { shortest: poll.shortest, longest: poll.longest, fill: poll.fill },
            pages: poll.pages,
            queries: queries.clone(),
            starter: starter.clone(),
            positions: shared.positions.clone(),
            credentials: credentials.clone(),
            call_timeout: settings.lookup.timeout,
            save_timeout: settings.updater.save_timeout,
            in_common: in_common.clone(),
        });
        pipelines.push(Pipeline {
            queue: queue.clone(),
            handler: Handling::Metered(handler.clone()),
            claims: claims.into(),
        });
        polls.push((queue, handler));
    }
    let counted = Arc::<StreamCounters>::default();
    metrics.also_show(&pipeline.namespace, counted.clone());
    let streams = streams::open(settings, openings, &shared.service, &polls, &counted).await?;
    health.works();
    for (queue, poll) in &polls {
        poll.schedule(&**queue).await.context("the sources cannot be scheduled")?;
        tracing::info!(namespace = poll.namespace, sources = poll.sources.len(), "polls");
    }
    let name = worker_name(settings);
    let queues = polls.into_iter().map(|(queue, poll)| (queue, Counted::Polls(poll))).collect();
    let heartbeat = Heartbeat::start(&name, &shared.in_force, pipeline, queues);
    let stream = |stream: StreamSource| {
        let stop = stop.clone();
        async move { stream.run(&stop).await }.boxed()
    };
    let beside = streams.into_iter().map(stream).collect();
    let worker = Worker { name, pipelines, credentials, concurrency, metrics, health, stop };
    Ok(ManagedWorker { role: "poller", worker, heartbeat, beside })
}
