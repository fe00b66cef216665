//! Access of the pages to the store and to dead posts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::NoAnswer;
use super::snapshot_reader::OpenedStore;
use crate::data::dead::DeadItems;
use engine::base::reload::Reloadable;

/// Maximum wait for the store at the start. Other figures wait for it.
const OPEN_WAIT: Duration = Duration::from_secs(2);
const QUERY_TIMEOUT: Duration = Duration::from_secs(8);
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Maximum number of concurrent queries. The answer for one page may be a megabyte.
const MAX_CONCURRENT: usize = 4;

/// A store that is opened in the background. Until it is open, queries fail and the page shows its other parts.
#[derive(Debug)]
pub struct StoreAccess {
    dead: Reloadable<Result<DeadItems, NoAnswer>>,
    store: OpenedStore,
    query_slots: Semaphore,
    _opening: AbortOnDropHandle<()>,
}

impl StoreAccess {
    /// Opens the store by `open`. Waits two seconds; retries continue in the background.
    pub async fn open<Opening>(open: impl Fn() -> Opening + Send + Sync + 'static) -> Self
    where
        Opening: Future<Output = Result<DeadItems, NoAnswer>> + Send,
    {
        let not_yet = NoAnswer::NotYet("it");
        let (dead, store) = (Reloadable::new(Err(not_yet.clone())), OpenedStore::new(Err(not_yet)));
        let (tried, first) = tokio::sync::oneshot::channel();
        let opening = {
            let (dead, store) = (dead.clone(), store.clone());
            async move {
                let mut tried = Some(tried);
                loop {
                    let opened = open().await;
                    let is_open = opened.is_ok();
                    store.set(opened.as_ref().map(|dead| dead.store.clone()).map_err(Clone::clone));
                    dead.set(opened);
                    // The receiver is gone if the first attempt took too long.
                    let _ = tried.take().map(|tried| tried.send(()));
                    if is_open {
                        return;
                    }
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        };
        let opening = AbortOnDropHandle::new(tokio::spawn(opening));
        let _ = tokio::time::timeout(OPEN_WAIT, first).await;
        Self { dead, store, query_slots: Semaphore::new(MAX_CONCURRENT), _opening: opening }
    }

    pub(super) fn store(&self) -> OpenedStore {
        self.store.clone()
    }

    /// Runs a query. Fails if the store is not open or does not answer in time, or with the error of `query`.
    pub(super) async fn query<T, E: fmt::Display>(
        &self,
        query: impl AsyncFnOnce(&DeadItems) -> Result<T, E>,
    ) -> Result<T, NoAnswer> {
        let dead: Arc<_> = self.dead.load();
        let dead = dead.as_ref().as_ref().map_err(Clone::clone)?;
        let answer = async {
            let _query_slot = self.query_slots.acquire().await;
            query(dead).await
        };
        match tokio::time::timeout(QUERY_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|error| NoAnswer::Failed(error.to_string())),
            Err(_) => Err(NoAnswer::within_seconds("no answer", QUERY_TIMEOUT)),
        }
    }
}
