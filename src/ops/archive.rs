//! Access to the store and the dead for the pages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::reader::StoreAtHand;
use crate::base::reload::Reloadable;
use crate::ops::dead::Dead;

/// Time for which a store that does not answer may delay other figures.
const FIRST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(8);
const AGAIN: Duration = Duration::from_secs(5);

/// Concurrent questions. The answer for one page may be a megabyte.
const AT_ONCE: usize = 4;

/// A store that is opened in the background. Until it is open, the rest of the page does without it.
#[derive(Debug)]
pub struct Archive {
    dead: Reloadable<Result<Dead, String>>,
    store: StoreAtHand,
    room: Semaphore,
    _opening: AbortOnDropHandle<()>,
}

impl Archive {
    /// Opens the store by `open`, whose error is one line. Waits two seconds for it; the attempts go on in the background.
    pub async fn open<Opening>(open: impl Fn() -> Opening + Send + Sync + 'static) -> Self
    where
        Opening: Future<Output = Result<Dead, String>> + Send,
    {
        let not_yet = || "it has not answered yet".to_owned();
        let (dead, store) = (Reloadable::new(Err(not_yet())), StoreAtHand::new(Err(not_yet())));
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
                    tokio::time::sleep(AGAIN).await;
                }
            }
        };
        let opening = AbortOnDropHandle::new(tokio::spawn(opening));
        let _ = tokio::time::timeout(FIRST, first).await;
        Self { dead, store, room: Semaphore::new(AT_ONCE), _opening: opening }
    }

    pub(super) fn store(&self) -> StoreAtHand {
        self.store.clone()
    }

    /// Runs a question. The error is one line: the store is not open, did not answer in time, or the error of `ask`.
    pub(super) async fn ask<T, E: fmt::Display>(
        &self,
        ask: impl AsyncFnOnce(&Dead) -> Result<T, E>,
    ) -> Result<T, String> {
        let dead: Arc<_> = self.dead.load();
        let dead = dead.as_ref().as_ref().map_err(Clone::clone)?;
        let answer = async {
            let _room = self.room.acquire().await;
            ask(dead).await
        };
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}
