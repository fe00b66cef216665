//! Resolves handles to accounts: handles of a file, and handles from HTTP that wait in the store.
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

use collect::ingest::{AccountReader, Queued, Starter};
use collect::pipelines::handles::{ResolvedAccount, Resolver};
use collect::pipelines::refresh::{Arrival, Mention, Receiver};
use engine::base::clock::{self, Millis, millis};
use engine::base::retry::RetryPolicy;
use engine::base::shutdown::Stop;
use engine::base::task;
use engine::queue::Queue;
use engine::quota::Credentials;
use networks::model::account::Account;
use networks::providers::handles::Handles;
use networks::providers::named::ReadAccountRef;
use store::{Store, StoreError};

/// Handles that a process claims at once.
const CLAIM_LIMIT: u32 = 100;
/// Lease of the handles: a quota may make them wait.
const LEASE: Duration = Duration::from_secs(900);
/// Maximum number of handles remembered for a second request. Above it all are dropped, because handles that another
/// process settles would stay forever.
const MAX_UNCONFIRMED: usize = 100_000;
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after a failure that retries did not fix.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct HandleRecorder {
    /// Records the data that came with each account.
    pub receiver: Arc<dyn Receiver>,
    pub starter: Starter,
    /// Lead of the queue's clock, which dates responses, over ours, ms.
    pub clock_lead: Millis,
}

impl HandleRecorder {
    pub async fn clock_lead(queue: &dyn Queue) -> Result<Millis> {
        Ok(queue.brief_stats().await?.now_ms - clock::wall_ms())
    }

    /// Records and schedules the accounts. May be repeated after a failure.
    pub async fn hand_over(&self, resolved: Vec<ResolvedAccount>) -> Result<Vec<Queued>> {
        let answered_at = clock::wall_ms() + self.clock_lead;
        let mention = |ResolvedAccount { id, account, .. }| {
            let profile = account.map(|account: Box<Account>| account.raw);
            Mention { answered_at, ..Mention::first(id, Arrival::Account { profile, posted_at: None }) }
        };
        let mut mentions: Vec<Mention> = resolved.into_iter().map(mention).collect();
        mentions.sort_by(|one, other| one.id.cmp(&other.id));
        let received = self.receiver.receive(&self.starter, &mentions.iter().collect::<Vec<_>>()).await?;
        Ok(received.apply(&self.starter).await?)
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
    pub read: ReadAccountRef,
    pub credentials: Arc<Credentials>,
    pub call_timeout: Duration,
}

impl WaitingHandles {
    /// Works until the process stops, on a separate thread: the resolver's future is not `Send`, because its closures
    /// may borrow.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let (runtime, task) = (Handle::current(), task::current());
        let work = spawn_blocking(move || runtime.block_on(task::run_in_task(task, self.work(stop))));
        if let Err(error) = work.await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic); // here, where the task is supervised
        }
    }

    async fn work(&self, stop: Stop) {
        // Kept in memory only: a loss costs one repeated call.
        let mut unconfirmed = HashSet::new();
        while !stop.is_draining() {
            let pause = match self.resolve_batch(&stop, &mut unconfirmed).await {
                Ok(0) => CHECK_INTERVAL,
                Ok(_) => continue,
                Err(_) if stop.is_draining() => return,
                Err(error) => {
                    let (namespace, error) = (&self.namespace, format!("{error:#}"));
                    tracing::warn!(namespace, error, "handles cannot be resolved: they wait, and are tried again");
                    FAILURE_PAUSE
                }
            };
            stop.sleep(pause).await;
        }
    }

    /// Resolves one batch, and returns its size. `unconfirmed` are handles that a response omitted without a reason.
    async fn resolve_batch(&self, stop: &Stop, unconfirmed: &mut HashSet<String>) -> Result<usize> {
        let now = clock::wall_ms();
        let until = now.saturating_add(millis(LEASE));
        let claimed = self.store.claim_handles(&self.namespace, now, until, CLAIM_LIMIT).await?;
        if claimed.is_empty() {
            return Ok(0);
        }
        let clock_lead = HandleRecorder::clock_lead(&*self.queue).await?;
        let recorder = HandleRecorder { receiver: self.receiver.clone(), starter: self.starter.clone(), clock_lead };
        let resolver = Resolver {
            handles: &*self.handles,
            credentials: &self.credentials,
            call_timeout: self.call_timeout,
            retry: RetryPolicy::default(),
            stop: stop.clone(),
        };
        let file = to_lines(&claimed);
        let mut lines = AccountReader::new(file.as_bytes(), self.read);
        // The batch of one call: handed over when all are resolved.
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let hand_over = |resolved: Vec<ResolvedAccount>| {
            found.extend(resolved);
            std::future::ready(Ok::<_, Infallible>(()))
        };
        let refuse =
            |line, why: &str| refused.extend(handle_at_line(&claimed, line).map(|handle| (handle, why.to_owned())));
        if unconfirmed.len() > MAX_UNCONFIRMED {
            unconfirmed.clear();
        }
        let resolved = resolver.resolve_stored(&mut lines, unconfirmed, hand_over, refuse).await;
        // These handles are settled, even if others failed.
        let done: Vec<String> = found.iter().filter_map(|one| handle_at_line(&claimed, one.line)).collect();
        recorder.hand_over(found).await?;
        self.settle(&done, &refused).await?;
        for handle in done.iter().chain(refused.iter().map(|(handle, _)| handle)) {
            unconfirmed.remove(handle);
        }
        let (resolved, namespace) = (resolved?, &self.namespace);
        tracing::info!(namespace, resolved = resolved.handles, refused = refused.len(), "handles are resolved");
        Ok(claimed.len())
    }

    async fn settle(&self, resolved: &[String], refused: &[(String, String)]) -> Result<(), StoreError> {
        self.store.settle_handles(&self.namespace, clock::wall_ms(), resolved, refused).await
    }
}

fn to_lines(handles: &[String]) -> String {
    handles.iter().fold(String::new(), |mut file, handle| {
        // Writing to a String cannot fail.
        let _ = writeln!(file, "@{handle}");
        file
    })
}

/// Returns the handle of a line, counted from 1.
fn handle_at_line(handles: &[String], line: u64) -> Option<String> {
    handles.get(usize::try_from(line).ok()?.checked_sub(1)?).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use networks::model::provider::Provider;
    use networks::providers::named::AccountRef;
    use networks::providers::registry::read_account_ref;

    #[tokio::test]
    async fn a_handle_that_was_kept_is_read_as_the_same_one() {
        for (provider, handle) in [
            (Provider::X, "username"),
            (Provider::Twitter, "12"),
            (Provider::Mastodon("social".to_owned()), "ann@example.org"),
            (Provider::Bluesky, "ann.example.org"),
        ] {
            let kept = [handle.to_owned(), handle.to_owned()];
            let file = to_lines(&kept);
            let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&provider));
            for _ in 0..2 {
                let line = lines.next().await.unwrap().unwrap();
                assert_eq!(line.named, Ok(AccountRef::Handle(handle.to_owned())), "{provider}");
                assert_eq!(handle_at_line(&kept, line.line).as_deref(), Some(handle));
            }
        }
        assert_eq!((handle_at_line(&[], 1), handle_at_line(&["a".to_owned()], 0)), (None, None));
    }
}
