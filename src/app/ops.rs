//! The whole queues and the polled sources for the page and `status`.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::OnceCell;

use super::sources::sources;
use super::{Service, api_in_words, callers, dead_of, live_budget, open_store, page_token};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::config::Settings;
use crate::engine::health::Health;
use crate::engine::queue::Queue;
use crate::model::pipeline_id::PipelineId;
use crate::ops::report::sources::{NamedSource, PositionsAtHand, Queues, SourceBook};
use crate::ops::{Access, Archive, DatabaseAtHand, PageInputs, Site, Terms, WholeQueue};
use crate::pipelines::kind::Registered;
use crate::store::Store;

/// Opens the queue of a pipeline with its quota ledger and the names of its credentials. Reads no secret. `health`
/// shows if they respond.
pub async fn whole_queue(
    settings: &Settings,
    service: &Service,
    pipeline: &Registered,
    queue: Arc<dyn Queue>,
    terms: Reloadable<Terms>,
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
    queues: &[(Registered, Arc<WholeQueue>)],
    stop: &Stop,
) -> Result<Arc<Site>> {
    let access = Access {
        token: page_token(settings, stop)?,
        behind_tls: settings.http.behind_tls,
        has_metrics_port: settings.metrics_listen()?.is_some(),
    };
    let positions = PositionsAtHand::new(Err("it has not answered yet".to_owned()));
    let database = DatabaseAtHand::new(Err("the store has not answered yet".to_owned()));
    let store = Arc::new(OneStore {
        settings: settings.clone(),
        opened: OnceCell::new(),
        positions: positions.clone(),
        database: database.clone(),
    });
    // Opened concurrently: a store that does not respond delays all of them only once.
    let shown = queues.iter().map(async |(provider, whole)| {
        let dead = {
            let at = Arc::new((store.clone(), provider.clone(), whole.queue.clone()));
            move || {
                let at = at.clone();
                async move {
                    let (store, provider, queue) = &*at;
                    Ok(dead_of(&store.settings, provider, queue.clone(), store.open().await?))
                }
            }
        };
        let archive = Archive::open(dead).await;
        PageInputs { whole: whole.clone(), archive, terms: whole.terms.clone(), database: database.clone() }
    });
    let book = source_book(settings, service, positions);
    Ok(Site::new(join_all(shown).await, access, Some(book)))
}

struct OneStore {
    settings: Settings,
    opened: OnceCell<Arc<dyn Store>>,
    positions: PositionsAtHand,
    database: DatabaseAtHand,
}

impl OneStore {
    async fn open(&self) -> Result<Arc<dyn Store>, String> {
        let open = async || {
            let opened = open_store(&self.settings).await.map_err(|error| format!("{error:#}"));
            self.positions.set(opened.as_ref().map(|opened| opened.positions.clone()).map_err(Clone::clone));
            self.database.set(opened.clone());
            opened.map(|opened| opened.store)
        };
        self.opened.get_or_try_init(open).await.cloned()
    }
}

#[must_use]
pub fn terms(settings: &Settings, pipeline: &Registered) -> Terms {
    let updater = &settings.updater;
    Terms {
        words: pipeline.kind.words(),
        api: if pipeline.is_metered() { api_in_words(settings, &pipeline.id.provider) } else { None },
        schedule: pipeline.schedule(settings),
        buffer_ttl: updater.buffer_ttl,
        lookahead: updater.lookahead,
        unavailable_every: updater.unavailable_every,
        lease: pipeline.kind.lease(settings),
        lists: pipeline.kind.lists(&pipeline.id, settings),
        threshold: pipeline.kind.threshold(&pipeline.id, settings),
    }
}

/// Reads the polled sources from this service's queues and these positions.
pub fn source_book(settings: &Settings, service: &Service, positions: PositionsAtHand) -> SourceBook {
    // An invalid configuration is reported elsewhere; it polls nothing.
    let by_provider = sources(settings).unwrap_or_default();
    let named = by_provider.iter().flat_map(|(provider, endpoints)| {
        endpoints.iter().flat_map(move |(endpoint, sources)| {
            sources.keys().map(move |name| NamedSource {
                name: name.clone(),
                provider: provider.clone(),
                namespace: PipelineId::timelines(provider, endpoint).to_string(),
                quiet_after: settings.poll.quiet_after(name),
                longest: settings.poll.longest,
            })
        })
    });
    let mut named: Vec<NamedSource> = named.collect();
    named.sort_by(|one, other| one.name.cmp(&other.name));
    SourceBook::new(named, positions, Arc::new(service.clone()))
}

#[async_trait]
impl Queues for Service {
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, String> {
        self.unchecked_queue(namespace).await.map_err(|error| format!("{error:#}"))
    }
}
