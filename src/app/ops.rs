//! Queues and polled sources for the page and `status`.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::OnceCell;

use super::sources::sources;
use super::{Service, callers, describe_api, live_budget, new_dead_posts, open_store, page_token};
use crate::ops::report::sources::{ConfiguredSource, OpenedPositions, QueueOpener, SourceReader};
use crate::ops::{Access, FigureSettings, NoAnswer, OpenedDatabase, PageInputs, Site, StoreAccess, WholeQueue};
use collect::config::Settings;
use collect::pipelines::kind::RegisteredPipeline;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::health::Health;
use engine::queue::Queue;
use networks::model::pipeline_id::PipelineId;
use store::Store;

/// Opens the queue of a pipeline with its quota ledger and the names of its credentials. Reads no secret. `health`
/// shows if they respond.
pub async fn open_whole_queue(
    settings: &Settings,
    service: &Service,
    pipeline: &RegisteredPipeline,
    queue: Arc<dyn Queue>,
    terms: Reloadable<FigureSettings>,
    health: Arc<Health>,
) -> Result<WholeQueue> {
    let provider = &pipeline.id.provider;
    Ok(WholeQueue {
        queue,
        provider: provider.ledger(),
        ledger: service.ledger(provider).await?,
        names: match pipeline.is_metered() {
            true => callers(settings, provider)?.into_iter().map(|(name, _)| name).collect(),
            false => Vec::new(),
        },
        capabilities: pipeline.capabilities(),
        terms,
        budget: if pipeline.is_metered() { live_budget(settings, provider) } else { None },
        health,
    })
}

pub async fn open_site(
    settings: &Settings,
    service: &Service,
    queues: &[(RegisteredPipeline, Arc<WholeQueue>)],
    stop: &Stop,
) -> Result<Arc<Site>> {
    let access = Access {
        token: page_token(settings, stop)?,
        behind_tls: settings.http.behind_tls,
        has_metrics_port: settings.metrics_listen()?.is_some(),
    };
    let positions = OpenedPositions::new(Err(NoAnswer::NotYet("it")));
    let database = OpenedDatabase::new(Err(NoAnswer::NotYet("the store")));
    let store = Arc::new(LazyStore {
        settings: settings.clone(),
        opened: OnceCell::new(),
        positions: positions.clone(),
        database: database.clone(),
    });
    // Concurrently: a store that does not respond delays all of them only once.
    let shown = queues.iter().map(async |(provider, whole)| {
        let dead = {
            let at = Arc::new((store.clone(), provider.clone(), whole.queue.clone()));
            move || {
                let at = at.clone();
                async move {
                    let (store, provider, queue) = &*at;
                    Ok(new_dead_posts(&store.settings, provider, queue.clone(), store.open().await?))
                }
            }
        };
        let archive = StoreAccess::open(dead).await;
        PageInputs { whole: whole.clone(), archive, terms: whole.terms.clone(), database: database.clone() }
    });
    let book = source_book(settings, service, positions);
    Ok(Site::new(join_all(shown).await, access, Some(book)))
}

struct LazyStore {
    settings: Settings,
    opened: OnceCell<Arc<dyn Store>>,
    positions: OpenedPositions,
    database: OpenedDatabase,
}

impl LazyStore {
    async fn open(&self) -> Result<Arc<dyn Store>, NoAnswer> {
        let open = async || {
            let opened = open_store(&self.settings).await.map_err(NoAnswer::from);
            self.positions.set(opened.as_ref().map(|opened| opened.positions.clone()).map_err(Clone::clone));
            self.database.set(opened.clone());
            opened.map(|opened| opened.store)
        };
        self.opened.get_or_try_init(open).await.cloned()
    }
}

#[must_use]
pub fn figure_settings(settings: &Settings, pipeline: &RegisteredPipeline) -> FigureSettings {
    let updater = &settings.updater;
    FigureSettings {
        words: pipeline.kind.words(),
        api: if pipeline.is_metered() { describe_api(settings, &pipeline.id.provider) } else { None },
        schedule: pipeline.schedule(settings),
        buffer_ttl: updater.buffer_ttl,
        lookahead: updater.lookahead,
        unavailable_every: updater.unavailable_every,
        lease: pipeline.kind.terms(settings).lease,
        lists: pipeline.kind.list_terms(&pipeline.id, settings),
        threshold: pipeline.kind.member_threshold(&pipeline.id, settings),
    }
}

/// Reads the polled sources from this service's queues and these positions.
pub fn source_book(settings: &Settings, service: &Service, positions: OpenedPositions) -> SourceReader {
    // An invalid configuration is reported elsewhere; it polls nothing.
    let by_provider = sources(settings).unwrap_or_default();
    let named = by_provider.iter().flat_map(|(provider, endpoints)| {
        endpoints.iter().flat_map(move |(endpoint, sources)| {
            sources.keys().map(move |name| ConfiguredSource {
                name: name.clone(),
                provider: provider.clone(),
                namespace: PipelineId::timelines(provider, endpoint).to_string(),
                quiet_after: settings.poll.quiet_after(name),
                longest: settings.poll.longest,
            })
        })
    });
    let mut named: Vec<ConfiguredSource> = named.collect();
    named.sort_by(|one, other| one.name.cmp(&other.name));
    SourceReader::new(named, positions, Arc::new(service.clone()))
}

#[async_trait]
impl QueueOpener for Service {
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, NoAnswer> {
        Ok(self.open_unchecked_queue(namespace).await?)
    }
}
