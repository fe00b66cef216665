//! Configured streams, each next to the polled source that fills its gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;

use crate::app::updater::worker_name;
use crate::app::{Service, credentials};
use crate::base::clock;
use crate::config::{BadConfig, Settings, StreamProvider, StreamSettings};
use crate::engine::metrics::Metrics;
use crate::engine::queue::Queue;
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::pipelines::apis::open_api;
use crate::pipelines::streams::counters::StreamCounters;
use crate::pipelines::streams::feed::Feed;
use crate::pipelines::streams::fill::Fill;
use crate::pipelines::streams::hold::{Hold, HoldTerms};
use crate::pipelines::streams::reader::StreamSource;
use crate::pipelines::timelines::pace::lane;
use crate::pipelines::timelines::source::SourcePoll;
use crate::providers::source::Source;
use crate::providers::stream::Stream;
use crate::providers::x_v2::stream::SearchStream;
use crate::quota::Credential;
use crate::store::Way;

/// A stream before its services are open: its provider, and the account that it connects as.
pub struct Opening {
    name: String,
    fills: String,
    provider: Provider,
    account: String,
    stream: Arc<dyn Stream>,
}

impl Opening {
    pub(super) fn is_filled_by(&self, provider: &Provider, sources: &BTreeMap<String, Source>) -> bool {
        self.provider == *provider && sources.contains_key(&self.fills)
    }

    pub(super) fn without_source(&self) -> BadConfig {
        let Self { name, fills, .. } = self;
        BadConfig(format!("poll.streams.{name}.fills: {} has no source {fills:?}", self.provider))
    }
}

/// Returns the configured streams. Calls no API.
pub fn streams(settings: &Settings) -> Result<Vec<Opening>> {
    settings.poll.streams.iter().map(|(name, stream)| opening(settings, name, stream)).collect()
}

fn opening(settings: &Settings, name: &str, stream: &StreamSettings) -> Result<Opening> {
    let provider = stream.provider.provider();
    let credential = Arc::new(credential(settings, name, &provider, stream)?);
    let (account, fills) = (credential.name.clone(), stream.fills.clone());
    let x_fields = settings.x_fields()?;
    // A separate client: closing a stuck connection closes all requests on it.
    let stream = open_api(settings, &provider, |http, api| -> Result<Arc<dyn Stream>, String> {
        Ok(match stream.provider {
            StreamProvider::X => Arc::new(SearchStream::new(http, api, &x_fields, credential)?),
        })
    })?;
    Ok(Opening { name: name.to_owned(), fills, provider, account, stream })
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
                "poll.streams.{name}.credential ({:?}) must be one of {names}: an account has one stream",
                stream.credential
            ))
            .into());
        }
    };
    Ok(all.swap_remove(at))
}

/// Puts each stream next to its source, one of the handler's: their posts take the same path.
pub async fn open(
    settings: &Settings,
    openings: Vec<Opening>,
    service: &Service,
    (queue, source): (&Arc<dyn Queue>, &SourcePoll),
    (counters, metrics): (&Arc<StreamCounters>, &Arc<Metrics>),
) -> Result<Vec<StreamSource>> {
    let mut streams = Vec::new();
    for Opening { name, fills, provider, account, stream } in openings {
        let rules = source.timelines.get(&fills).await?.map(|source| source.timeline.rules());
        let way = Way { source: name.clone(), ..Way::of("stream") };
        let held_in = service.queue(&PipelineId::stream(&provider, &account).to_string()).await?;
        streams.push(StreamSource {
            hold: Hold::new(held_in, worker_name(settings), HoldTerms::of_lease(settings.updater.lease)),
            fill: Fill {
                queue: queue.clone(),
                source: fills,
                lane: lane(source.pace.first()),
                delay: rules.map_or(0, |rules| rules.k + clock::millis(rules.behind)),
                put_for: Default::default(),
            },
            feed: Feed {
                name: name.clone(),
                starter: source.reader.starter.clone().by(way).within(settings.updater.save_timeout),
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
