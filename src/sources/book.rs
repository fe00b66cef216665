//! Who asks for them: the store for how far each was read, the queues for when each is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Mutex;

use super::{GAPS_SHOWN, Source};
use crate::live::Live;
use crate::queue::{Place, Queue};
use crate::store::Positions;

/// Where the queue of a namespace is had.
#[async_trait]
pub trait Queues: Send + Sync + std::fmt::Debug {
    /// The queue of that namespace.
    ///
    /// # Errors
    /// One line: it cannot be opened.
    async fn queue(&self, namespace: &str) -> Result<Arc<dyn Queue>, String>;
}

/// Where positions are kept, or why that cannot be opened, in one line.
pub type PositionsAtHand = Live<Result<Arc<dyn Positions>, String>>;

/// Who asks for them.
#[derive(Debug)]
pub struct SourceBook {
    named: Vec<String>,
    positions: PositionsAtHand,
    queues: Arc<dyn Queues>,
    /// Those that are open, by namespace.
    open: Mutex<BTreeMap<String, Arc<dyn Queue>>>,
}

impl SourceBook {
    /// Of these names, which the settings have, and of all that the store knows.
    #[must_use]
    pub fn new(named: Vec<String>, positions: PositionsAtHand, queues: Arc<dyn Queues>) -> Self {
        Self { named, positions, queues, open: Mutex::default() }
    }

    /// Whether the settings name any.
    #[must_use]
    pub fn names_any(&self) -> bool {
        !self.named.is_empty()
    }

    /// All of them. The store may take so long, and the queues as long again; those that do not answer hide nothing else.
    ///
    /// # Errors
    /// One line: the store is out.
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
        let places = join_all(names.iter().map(async |(namespace, names)| {
            let places = tokio::time::timeout(patience, self.places(namespace, names)).await;
            let places = places.unwrap_or_else(|_| Err("no answer in time".to_owned()));
            if let Err(error) = &places {
                tracing::debug!(error, namespace, "it is not known when sources are due");
            }
            places.ok()
        }))
        .await;
        let mut known = BTreeMap::new();
        for ((namespace, names), places) in names.iter().zip(&places) {
            for (name, places) in names.iter().zip(places.iter().flatten()) {
                known.insert((namespace.as_str(), name.as_str()), places.as_slice());
            }
        }
        let never = self.named.iter().filter(|name| rows.iter().all(|row| row.source != **name));
        let never: Vec<Source> = never.map(|name| Source::never_polled(name)).collect();
        let polled = rows.into_iter().map(|row| {
            let place = known.get(&(row.namespace.as_str(), row.source.as_str())).copied();
            Source::new(row, place)
        });
        Ok(polled.chain(never).collect())
    }

    async fn places(&self, namespace: &str, names: &[String]) -> Result<Vec<Vec<Place>>, String> {
        let known = self.open.lock().await.get(namespace).cloned();
        let queue = match known {
            Some(queue) => queue,
            None => {
                let queue = self.queues.queue(namespace).await?;
                self.open.lock().await.insert(namespace.to_owned(), queue.clone());
                queue
            }
        };
        queue.locate(names).await.map_err(|error| error.to_string())
    }
}
