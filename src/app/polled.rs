//! Who asks for the polled sources: what the settings name, and what the store knows.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;

use super::sources::sources;
use super::{Service, connect_store, unusable_store};
use crate::config::{Settings, StoreBackend};
use crate::engine::queue::Queue;
use crate::ops::report::sources::{NamedSource, PositionsAtHand, Queues, SourceBook, Sources};
use crate::pipelines::timelines::source::namespace_of;
use crate::store::{Positions, Store};

/// How long store and queues may take each, where somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same where the settings name no source, and there may be none.
const GLANCE: Duration = Duration::from_millis(1_500);

#[async_trait]
impl Queues for Service {
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, String> {
        self.unchecked_queue(namespace).await.map_err(|error| format!("{error:#}"))
    }
}

/// Who asks, with that service's queues and those positions.
pub(super) fn book(settings: &Settings, service: &Service, positions: PositionsAtHand) -> SourceBook {
    // A configuration that makes no sense is told of elsewhere; it polls nothing.
    let by_provider = sources(settings).unwrap_or_default();
    let named = by_provider.iter().flat_map(|(provider, endpoints)| {
        endpoints.iter().flat_map(move |(endpoint, sources)| {
            sources.keys().map(move |name| NamedSource {
                name: name.clone(),
                provider: provider.clone(),
                namespace: namespace_of(provider, endpoint),
                quiet_after: settings.poll.quiet_after(name),
            })
        })
    });
    let mut named: Vec<NamedSource> = named.collect();
    named.sort_by(|one, other| one.name.cmp(&other.name));
    SourceBook::new(named, positions, Arc::new(service.clone()))
}

/// The sources at this moment. A store that does not answer is told of where the settings name any: without, there may be
/// none, and nobody needs it.
pub(super) async fn read(settings: &Settings, service: &Service) -> Sources {
    let patience = if settings.poll.sources.is_empty() { GLANCE } else { PATIENCE };
    let positions = match tokio::time::timeout(patience, positions(settings)).await {
        Ok(positions) => positions.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("the store did not answer within {} ms", patience.as_millis())),
    };
    let book = book(settings, service, PositionsAtHand::new(positions));
    match book.read(patience).await {
        Ok(all) => Sources { all, error: None },
        Err(why) if book.names_any() => Sources { error: Some(why), ..Sources::default() },
        Err(why) => {
            tracing::debug!(why, "whether there are polled sources is not known");
            Sources::default()
        }
    }
}

async fn positions(settings: &Settings) -> anyhow::Result<Arc<dyn Positions>> {
    Ok(store_as_it_is(settings).await?.1)
}

/// The store and the positions, as they are: who only looks makes no file and no table.
pub(super) async fn store_as_it_is(settings: &Settings) -> anyhow::Result<(Arc<dyn Store>, Arc<dyn Positions>)> {
    if settings.store.backend == StoreBackend::Sqlite {
        tokio::fs::metadata(&settings.store.sqlite.path).await.with_context(|| unusable_store(settings))?;
    }
    connect_store(settings).await
}
