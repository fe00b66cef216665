//! Configured streams, each next to the polled source that fills its gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;

use crate::app::updater::worker_name;
use crate::app::{Service, credentials};
use collect::config::{BadConfig, Settings, StreamProvider, StreamSettings};
use collect::pipelines::apis::open_api;
use collect::pipelines::streams::counters::StreamCounters;
use collect::pipelines::streams::gap_filler::GapFiller;
use collect::pipelines::streams::lease::{LeaseKeeper, LeaseTerms};
use collect::pipelines::streams::post_handover::PostHandover;
use collect::pipelines::streams::reader::StreamSource;
use collect::pipelines::timelines::pace::interval_lane;
use collect::pipelines::timelines::source::SourcePoll;
use engine::base::clock;
use engine::metrics::Metrics;
use engine::queue::Queue;
use engine::quota::Credential;
use networks::model::pipeline_id::PipelineId;
use networks::model::provider::Provider;
use networks::providers::http::ClientError;
use networks::providers::source::Source;
use networks::providers::stream::Stream;
use networks::providers::x_v2::stream::SearchStream;
use store::Way;

/// Stream before its services are open.
pub struct UnopenedStream {
    name: String,
    fills: String,
    provider: Provider,
    account: String,
    stream: Arc<dyn Stream>,
}

impl UnopenedStream {
    pub(super) fn is_filled_by(&self, provider: &Provider, sources: &BTreeMap<String, Source>) -> bool {
        self.provider == *provider && sources.contains_key(&self.fills)
    }

    pub(super) fn missing_source_error(&self) -> BadConfig {
        let Self { name, fills, .. } = self;
        BadConfig(format!("poll.streams.{name}.fills: {} has no source {fills:?}", self.provider))
    }
}

/// Returns the configured streams. Calls no API.
pub fn configured_streams(settings: &Settings) -> Result<Vec<UnopenedStream>> {
    settings.poll.streams.iter().map(|(name, stream)| unopened_stream(settings, name, stream)).collect()
}

fn unopened_stream(settings: &Settings, name: &str, stream: &StreamSettings) -> Result<UnopenedStream> {
    let provider = stream.provider.provider();
    let credential = Arc::new(credential(settings, name, &provider, stream)?);
    let (account, fills) = (credential.name.clone(), stream.fills.clone());
    let x_fields = settings.x_fields()?;
    // A separate client: closing a stuck connection closes all requests on it.
    let stream = open_api(settings, &provider, |http, api| -> Result<Arc<dyn Stream>, ClientError> {
        Ok(match stream.provider {
            StreamProvider::X => Arc::new(SearchStream::new(http, api, &x_fields, credential)?),
        })
    })?;
    Ok(UnopenedStream { name: name.to_owned(), fills, provider, account, stream })
}

/// Returns the named credential, or the only one.
fn credential(settings: &Settings, name: &str, provider: &Provider, stream: &StreamSettings) -> Result<Credential> {
    let mut all = credentials(settings, provider)?;
    let names: Vec<String> = all.iter().map(|credential| credential.name.clone()).collect();
    let at = match (names.iter().position(|known| *known == stream.credential), all.len()) {
        (Some(at), _) => at,
        (None, 1) if stream.credential.is_empty() => 0,
        _ => {
            let names = names.join(", ");
            return Err(BadConfig(format!(
                "poll.streams.{name}.credential ({:?}) must be one of {names}, because an account has one stream",
                stream.credential
            ))
            .into());
        }
    };
    Ok(all.swap_remove(at))
}

/// Opens each stream next to its source, because their posts take the same path.
pub async fn open_streams(
    settings: &Settings,
    unopened: Vec<UnopenedStream>,
    service: &Service,
    (queue, source): (&Arc<dyn Queue>, &SourcePoll),
    (counters, metrics): (&Arc<StreamCounters>, &Arc<Metrics>),
) -> Result<Vec<StreamSource>> {
    let mut streams = Vec::new();
    for UnopenedStream { name, fills, provider, account, stream } in unopened {
        let rules = source.timelines.get(&fills).await?.map(|source| source.timeline.rules());
        let way = Way { source: name.clone(), ..Way::new("stream") };
        let held_in = service.queue(&PipelineId::stream(&provider, &account).to_string()).await?;
        streams.push(StreamSource {
            lease_keeper: LeaseKeeper::new(
                held_in,
                worker_name(settings),
                LeaseTerms::from_lease(settings.updater.lease),
            ),
            gap_filler: GapFiller {
                queue: queue.clone(),
                source: fills,
                lane: interval_lane(source.pace.first()),
                delay: rules.map_or(0, |rules| rules.k + clock::millis(rules.behind)),
                scheduled_due: Default::default(),
            },
            handover: PostHandover {
                name: name.clone(),
                starter: source.reader.starter.clone().with_way(way).with_timeout(settings.updater.save_timeout),
                counters: counters.clone(),
            },
            name,
            stream,
            counters: counters.clone(),
            metrics: metrics.clone(),
        });
    }
    Ok(streams)
}
