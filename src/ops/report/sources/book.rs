//! The reader of sources: positions come from the store, due times from the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Mutex;

use super::{GAPS_SHOWN, NamedSource, Poller, Source};
use crate::base::clock;
use crate::base::reload::Reloadable;
use crate::engine::queue::{Place, Queue};
use crate::store::{Positions, SourceRow};

#[async_trait]
pub trait Queues: Send + Sync + std::fmt::Debug {
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, String>;
}

/// The store of positions, or one line that says why it cannot be opened.
pub type PositionsAtHand = Reloadable<Result<Arc<dyn Positions>, String>>;

#[derive(Debug)]
pub struct SourceBook {
    named: Vec<NamedSource>,
    positions: PositionsAtHand,
    queues: Arc<dyn Queues>,
    open: Mutex<BTreeMap<String, Arc<dyn Queue>>>,
}

impl SourceBook {
    #[must_use]
    pub fn new(named: Vec<NamedSource>, positions: PositionsAtHand, queues: Arc<dyn Queues>) -> Self {
        Self { named, positions, queues, open: Mutex::default() }
    }

    #[must_use]
    pub fn names_any(&self) -> bool {
        !self.named.is_empty()
    }

    /// Reads all sources. `patience` limits the store, and then again the queues; a queue that does not answer hides nothing else. The
    /// error is one line: the store is out.
    pub async fn read(&self, patience: Duration) -> Result<Vec<Source>, String> {
        let positions: Arc<_> = self.positions.load();
        let positions = positions.as_ref().as_ref().map_err(Clone::clone)?;
        let rows = match tokio::time::timeout(patience, positions.sources(GAPS_SHOWN)).await {
            Ok(rows) => rows.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("the store did not answer within {} ms", patience.as_millis())),
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
            let asked = tokio::time::timeout(patience, self.ask(namespace, names)).await;
            let asked = asked.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            if let Err(error) = &asked {
                tracing::debug!(error, namespace, "it is not known when sources are due");
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
        let is_of = |named: &NamedSource, row: &SourceRow| named.name == row.source && named.namespace == row.namespace;
        let never = self.named.iter().filter(|named| !rows.iter().any(|row| is_of(named, row)));
        let never = never.map(|named| {
            let place = places.get(&(named.namespace.as_str(), named.name.as_str())).map(Vec::as_slice);
            let source = Source::never_polled(&named.name, place);
            let (provider, poller) = (Some(named.provider.to_string()), poller(&named.namespace));
            Source { provider, poller, ..source }.judged_by(named, now)
        });
        let never: Vec<Source> = never.collect();
        let polled = rows.iter().map(|row| {
            let place = places.get(&(row.namespace.as_str(), row.source.as_str())).map(Vec::as_slice);
            let source = Source { poller: poller(&row.namespace), ..Source::new(row.clone(), place) };
            match self.named.iter().find(|named| is_of(named, row)) {
                Some(named) => source.judged_by(named, now),
                None => source,
            }
        });
        Ok(polled.chain(never).collect())
    }

    async fn ask(&self, namespace: &str, names: &[String]) -> Result<(Vec<Vec<Place>>, Poller), String> {
        let known = self.open.lock().await.get(namespace).cloned();
        let queue = match known {
            Some(queue) => queue,
            None => {
                let queue = self.queues.queue(namespace).await?;
                self.open.lock().await.insert(namespace.to_owned(), queue.clone());
                queue
            }
        };
        let (places, stats) =
            tokio::try_join!(queue.locate(names), queue.brief()).map_err(|error| error.to_string())?;
        Ok((places, Poller::of(&stats)))
    }
}
