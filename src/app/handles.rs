//! Resolves handles to accounts: those of a file, and those that came over HTTP and wait in the store.
//!
//! ```text
//!   a file ──────────────────────────┐
//!   POST /accounts ─▶ store ─ claim ─┴▶ resolve (metered) ─▶ record, schedule ─▶ forget the handle
//! ```
//!
//! The updater forgets a handle after it has recorded the account, so a process that dies in between resolves it again.
//! A handle without a result stays, and comes again when its lease ends.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::base::clock::{self, Millis, millis};
use crate::base::retry::RetryPolicy;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::engine::queue::Queue;
use crate::ingest::{NamedLines, Queued, Starter};
use crate::model::account::Account;
use crate::pipelines::handles::{Resolved, Resolver};
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{Mention, Receiver};
use crate::providers::handles::Handles;
use crate::providers::named::AccountOf;
use crate::quota::Credentials;
use crate::store::{Store, StoreError};

/// Handles that a process claims at once.
const CLAIM: u32 = 100;
/// Lease of the handles: a quota may make them wait.
const LEASE: Duration = Duration::from_secs(900);
/// Maximum number of handles remembered for a second request; above it all are dropped. Otherwise, handles that another process settles
/// would stay forever.
const MANY_DOUBTED: usize = 100_000;
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause after a failure that retries did not fix.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Naming {
    /// Records the data that came with each account.
    pub receiver: Arc<dyn Receiver>,
    pub starter: Starter,
    /// Lead of the queue's clock, which dates responses, over ours, ms.
    pub ahead: Millis,
}

impl Naming {
    pub async fn ahead(queue: &dyn Queue) -> Result<Millis> {
        Ok(queue.brief().await?.now_ms - clock::wall_ms())
    }

    /// Records accounts and schedules them. May be repeated after a failure.
    pub async fn hand_over(&self, resolved: Vec<Resolved>) -> Result<Vec<Queued>> {
        let answered_at = clock::wall_ms() + self.ahead;
        let mention = |Resolved { id, account, .. }| Mention {
            kind: PROFILES,
            id,
            is_first: true,
            answered_at,
            object: account.map(|account: Box<Account>| account.raw),
            ..Mention::default()
        };
        let mut mentions: Vec<Mention> = resolved.into_iter().map(mention).collect();
        mentions.sort_by(|one, other| one.id.cmp(&other.id));
        let received = self.receiver.receive(&self.starter, &mentions.iter().collect::<Vec<_>>()).await?;
        Ok(received.tell(&self.starter).await?)
    }
}

pub(super) struct WaitingHandles {
    pub namespace: String,
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    /// Records the data that came with each account.
    pub receiver: Arc<dyn Receiver>,
    pub starter: Starter,
    pub handles: Arc<dyn Handles>,
    pub read: AccountOf,
    pub credentials: Arc<Credentials>,
    pub call_timeout: Duration,
}

impl WaitingHandles {
    /// Works until the process stops, on a separate thread: the resolver's closures may borrow, so its future is not
    /// known to be `Send`.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let (runtime, task) = (Handle::current(), task::current());
        let work = spawn_blocking(move || runtime.block_on(task::within(task, self.work(stop))));
        if let Err(error) = work.await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic); // here, where the task is supervised
        }
    }

    async fn work(&self, stop: Stop) {
        // Kept in memory only: a loss costs one repeated call.
        let mut doubted = HashSet::new();
        while !stop.is_draining() {
            let pause = match self.round(&stop, &mut doubted).await {
                Ok(0) => LOOK_EVERY,
                Ok(_) => continue,
                Err(_) if stop.is_draining() => return,
                Err(error) => {
                    let (namespace, error) = (&self.namespace, format!("{error:#}"));
                    tracing::warn!(namespace, error, "handles are not resolved: they wait, and are tried again");
                    AFTER_FAILURE
                }
            };
            stop.sleep(pause).await;
        }
    }

    /// Resolves one batch, and returns its size. `doubted` are handles that a response omitted without a reason.
    async fn round(&self, stop: &Stop, doubted: &mut HashSet<String>) -> Result<usize> {
        let now = clock::wall_ms();
        let until = now.saturating_add(millis(LEASE));
        let claimed = self.store.claim_handles(&self.namespace, now, until, CLAIM).await?;
        if claimed.is_empty() {
            return Ok(0);
        }
        let ahead = Naming::ahead(&*self.queue).await?;
        let naming = Naming { receiver: self.receiver.clone(), starter: self.starter.clone(), ahead };
        let resolver = Resolver {
            handles: &*self.handles,
            credentials: &self.credentials,
            call_timeout: self.call_timeout,
            retry: RetryPolicy::default(),
            stop: stop.clone(),
        };
        let file = as_file(&claimed);
        let mut lines = NamedLines::new(file.as_bytes(), self.read);
        // The batch of one call: handed over when all are resolved.
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let hand_over = |resolved: Vec<Resolved>| {
            found.extend(resolved);
            std::future::ready(Ok::<_, Infallible>(()))
        };
        let refuse = |line, why: &str| refused.extend(of_line(&claimed, line).map(|handle| (handle, why.to_owned())));
        if doubted.len() > MANY_DOUBTED {
            doubted.clear();
        }
        let resolved = resolver.resolve_kept(&mut lines, doubted, hand_over, refuse).await;
        // These handles are settled, even if others failed.
        let done: Vec<String> = found.iter().filter_map(|one| of_line(&claimed, one.line)).collect();
        naming.hand_over(found).await?;
        self.settle(&done, &refused).await?;
        for handle in done.iter().chain(refused.iter().map(|(handle, _)| handle)) {
            doubted.remove(handle);
        }
        let (resolved, namespace) = (resolved?, &self.namespace);
        tracing::info!(namespace, resolved = resolved.handles, refused = refused.len(), "handles are resolved");
        Ok(claimed.len())
    }

    async fn settle(&self, resolved: &[String], refused: &[(String, String)]) -> Result<(), StoreError> {
        self.store.settle_handles(&self.namespace, clock::wall_ms(), resolved, refused).await
    }
}

fn as_file(handles: &[String]) -> String {
    handles.iter().fold(String::new(), |mut file, handle| {
        // Writing to a String cannot fail.
        let _ = writeln!(file, "@{handle}");
        file
    })
}

/// Returns the handle of a line, counted from 1.
fn of_line(handles: &[String], line: u64) -> Option<String> {
    handles.get(usize::try_from(line).ok()?.checked_sub(1)?).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::Provider;
    use crate::providers::named::Named;
    use crate::providers::registry::account_of;

    #[tokio::test]
    async fn a_handle_that_was_kept_is_read_as_the_same_one() {
        for (provider, handle) in [
            (Provider::X, "username"),
            (Provider::Twitter, "12"),
            (Provider::Mastodon("social".to_owned()), "ann@example.org"),
            (Provider::Bluesky, "ann.example.org"),
        ] {
            let kept = [handle.to_owned(), handle.to_owned()];
            let file = as_file(&kept);
            let mut lines = NamedLines::new(file.as_bytes(), account_of(&provider));
            for _ in 0..2 {
                let line = lines.next().await.unwrap().unwrap();
                assert_eq!(line.named, Ok(Named::Handle(handle.to_owned())), "{provider}");
                assert_eq!(of_line(&kept, line.line).as_deref(), Some(handle));
            }
        }
        assert_eq!((of_line(&[], 1), of_line(&["a".to_owned()], 0)), (None, None));
    }
}
