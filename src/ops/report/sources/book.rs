//! The reader of sources: positions from the store, due times from the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Mutex;

use super::{ConfiguredSource, GAPS_SHOWN, Poller, Source};
use crate::ops::NoAnswer;
use engine::base::clock;
use engine::base::reload::Reloadable;
use engine::queue::{Place, Queue};
use store::{Positions, SourceRow};

#[async_trait]
pub trait QueueOpener: Send + Sync + std::fmt::Debug {
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, NoAnswer>;
}

pub type OpenedPositions = Reloadable<Result<Arc<dyn Positions>, NoAnswer>>;

#[derive(Debug)]
pub struct SourceReader {
    named: Vec<ConfiguredSource>,
    positions: OpenedPositions,
    queues: Arc<dyn QueueOpener>,
    open: Mutex<BTreeMap<String, Arc<dyn Queue>>>,
}

impl SourceReader {
    #[must_use]
    pub fn new(named: Vec<ConfiguredSource>, positions: OpenedPositions, queues: Arc<dyn QueueOpener>) -> Self {
        Self { named, positions, queues, open: Mutex::default() }
    }

    #[must_use]
    pub fn has_configured_sources(&self) -> bool {
        !self.named.is_empty()
    }

    /// Reads all sources. `timeout` limits the store, and then again the queues. A queue without an answer leaves its sources' due times
    /// unknown. Fails if the store does not answer.
    pub async fn read(&self, timeout: Duration) -> Result<Vec<Source>, NoAnswer> {
        let positions: Arc<_> = self.positions.load();
        let positions = positions.as_ref().as_ref().map_err(Clone::clone)?;
        let rows = match tokio::time::timeout(timeout, positions.sources(GAPS_SHOWN)).await {
            Ok(rows) => rows?,
            Err(_) => return Err(NoAnswer::within_millis("the store did not answer", timeout)),
        };
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in &rows {
            names.entry(row.namespace.clone()).or_default().push(row.source.clone());
        }
        for named in &self.named {
            let names = names.entry(named.namespace.clone()).or_default();
            if !names.contains(&named.name) {
                names.push(named.name.clone());
            }
        }
        let asked = join_all(names.iter().map(async |(namespace, names)| {
            let asked = tokio::time::timeout(timeout, self.locate(namespace, names)).await;
            let asked = asked.unwrap_or_else(|_| Err(NoAnswer::Late("no answer in time".to_owned())));
            if let Err(error) = &asked {
                tracing::debug!(
                    error = error.to_string(),
                    namespace,
                    "the queue of a source did not answer, so due times are unknown"
                );
            }
            asked.ok()
        }))
        .await;
        let (mut places, mut pollers) = (BTreeMap::new(), BTreeMap::new());
        for ((namespace, names), asked) in names.iter().zip(asked) {
            let Some((found, poller)) = asked else { continue };
            pollers.insert(namespace.as_str(), poller);
            for (name, found) in names.iter().zip(found) {
                places.insert((namespace.as_str(), name.as_str()), found);
            }
        }
        let poller = |namespace: &str| pollers.get(namespace).cloned().unwrap_or_default();
        let now = clock::wall_ms();
        let is_of =
            |named: &ConfiguredSource, row: &SourceRow| named.name == row.source && named.namespace == row.namespace;
        let never = self.named.iter().filter(|named| !rows.iter().any(|row| is_of(named, row)));
        let never = never.map(|named| {
            let place = places.get(&(named.namespace.as_str(), named.name.as_str())).map(Vec::as_slice);
            let source = Source::never_polled(&named.name, place);
            let (provider, poller) = (Some(named.provider.to_string()), poller(&named.namespace));
            Source { provider, poller, ..source }.with_settings(named, now)
        });
        let never: Vec<Source> = never.collect();
        let polled = rows.iter().map(|row| {
            let place = places.get(&(row.namespace.as_str(), row.source.as_str())).map(Vec::as_slice);
            let source = Source { poller: poller(&row.namespace), ..Source::new(row.clone(), place) };
            match self.named.iter().find(|named| is_of(named, row)) {
                Some(named) => source.with_settings(named, now),
                None => source,
            }
        });
        Ok(polled.chain(never).collect())
    }

    async fn locate(&self, namespace: &str, names: &[String]) -> Result<(Vec<Vec<Place>>, Poller), NoAnswer> {
        let known = self.open.lock().await.get(namespace).cloned();
        let queue = match known {
            Some(queue) => queue,
            None => {
                let queue = self.queues.queue(namespace).await?;
                self.open.lock().await.insert(namespace.to_owned(), queue.clone());
                queue
            }
        };
        let (places, stats) = tokio::try_join!(queue.locate(names), queue.brief_stats())?;
        Ok((places, Poller::from_stats(&stats)))
    }
}
