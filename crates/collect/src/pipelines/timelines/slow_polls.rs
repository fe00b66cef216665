//! Permits for slow polls: a source that answers slowly delays no other.
//!
//! A poll that takes longer than [`SLOW_AFTER`] returns its ordinary permit, and continues with a permit for slow polls, of which
//! there are more. A source whose last poll was slow starts with such a permit; if none is free, it is retried later.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use engine::base::reload::Reloadable;

pub const SLOW_AFTER: Duration = Duration::from_secs(1);
const SLOW_PERMITS: usize = 4;

#[derive(Debug, Clone)]
pub struct SlowPollLimiter(Arc<PollPermits>);

#[derive(Debug)]
struct PollPermits {
    ordinary: usize,
    /// Maximum polls in flight: the limit of the worker.
    concurrency: Reloadable<usize>,
    slow: Arc<Semaphore>,
    in_flight: Mutex<usize>,
    /// Sources whose last poll was slow, by namespace and name.
    slow_sources: Mutex<HashSet<(String, String)>>,
}

impl SlowPollLimiter {
    /// The current value of `concurrency` is the number of ordinary permits: the worker claims as many batches.
    #[must_use]
    pub fn new(concurrency: Reloadable<usize>) -> Self {
        let ordinary = (*concurrency.load()).max(1);
        let slow = Arc::new(Semaphore::new(ordinary * SLOW_PERMITS));
        Self(Arc::new(PollPermits {
            ordinary,
            concurrency,
            slow,
            in_flight: Mutex::default(),
            slow_sources: Mutex::default(),
        }))
    }

    /// Runs a poll; `None` if the last poll was slow and no slow permit is free.
    pub async fn run<T>(&self, namespace: &str, name: &str, poll: impl Future<Output = T>) -> Option<T> {
        let source = (namespace.to_owned(), name.to_owned());
        let mut poll = std::pin::pin!(poll);
        let mut permit = None;
        if self.slow_sources().contains(&source) {
            permit = Some(self.acquire_slow_permit()?);
        }
        if let Ok(polled) = tokio::time::timeout(SLOW_AFTER, &mut poll).await {
            self.slow_sources().remove(&source);
            return Some(polled);
        }
        if permit.is_none() {
            self.slow_sources().insert(source);
            permit = self.acquire_slow_permit();
        }
        let polled = poll.await;
        drop(permit);
        Some(polled)
    }

    fn slow_sources(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        self.0.slow_sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acquire_slow_permit(&self) -> Option<SlowPermit> {
        let free = self.0.slow.clone().try_acquire_owned().ok()?;
        self.0.change_in_flight(|slow| slow + 1);
        Some(SlowPermit { permits: self.0.clone(), _free: free })
    }
}

impl PollPermits {
    fn change_in_flight(&self, change: impl Fn(usize) -> usize) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        *in_flight = change(*in_flight);
        self.concurrency.set(self.ordinary + *in_flight);
    }
}

/// While it exists, the worker claims one more batch.
struct SlowPermit {
    permits: Arc<PollPermits>,
    _free: OwnedSemaphorePermit,
}

impl Drop for SlowPermit {
    fn drop(&mut self) {
        self.permits.change_in_flight(|slow| slow.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_poll_makes_room_for_another_up_to_a_limit() {
        let concurrency = Reloadable::new(2);
        let share = SlowPollLimiter::new(concurrency.clone());
        let slowly = |name: &'static str| {
            let share = share.clone();
            tokio::spawn(async move { share.run("n", name, tokio::time::sleep(Duration::from_secs(9))).await })
        };
        let polls: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(slowly).into();
        assert_eq!(share.run("n", "fast", async { 7 }).await, Some(7));
        assert_eq!(*concurrency.load(), 2);
        tokio::time::sleep(SLOW_AFTER + Duration::from_millis(1)).await;
        assert_eq!(*concurrency.load(), 2 + 2 * SLOW_PERMITS, "one of the nine found no slow permit");
        // It is known to be slow now: without a permit it does not start.
        assert_eq!(share.run("n", "a", async { 7 }).await, None);
        assert_eq!(share.run("another", "a", async { 7 }).await, Some(7));
        for poll in polls {
            assert_eq!(poll.await.unwrap(), Some(()));
        }
        assert_eq!(*concurrency.load(), 2);
        // A source that is fast again is like any other.
        assert_eq!(share.run("n", "a", async { 7 }).await, Some(7));
        assert!(!share.slow_sources().contains(&("n".to_owned(), "a".to_owned())));
        assert_eq!(share.slow_sources().len(), 8);
    }
}
