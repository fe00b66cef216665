//! A fair share for each source: one that answers slowly delays no other.
//!
//! A poll that takes longer than [`SLOW_AFTER`] frees its place among the batches in flight, and continues in a place for slow ones, of
//! which there are more. A source whose last poll was slow starts in such a place; if none is free, it is retried later.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::reload::Reloadable;

/// Time after which a poll is slow.
pub const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Places for slow polls per ordinary place.
const SLOW_PLACES: usize = 4;

#[derive(Debug, Clone)]
pub struct Share(Arc<Places>);

#[derive(Debug)]
struct Places {
    ordinary: usize,
    /// Maximum polls in flight: the limit of the worker.
    concurrency: Reloadable<usize>,
    slow: Arc<Semaphore>,
    in_flight: Mutex<usize>,
    /// Sources whose last poll was slow, by namespace and name.
    slow_sources: Mutex<HashSet<(String, String)>>,
}

impl Share {
    /// The present value of `concurrency` is the number of ordinary places of the worker, which takes as many batches.
    #[must_use]
    pub fn new(concurrency: Reloadable<usize>) -> Self {
        let ordinary = (*concurrency.load()).max(1);
        let slow = Arc::new(Semaphore::new(ordinary * SLOW_PLACES));
        Self(Arc::new(Places {
            ordinary,
            concurrency,
            slow,
            in_flight: Mutex::default(),
            slow_sources: Mutex::default(),
        }))
    }

    /// Polls a source in its place; `None` if it is known to be slow and no slow place is free.
    pub async fn poll<T>(&self, namespace: &str, name: &str, poll: impl Future<Output = T>) -> Option<T> {
        let source = (namespace.to_owned(), name.to_owned());
        let mut poll = std::pin::pin!(poll);
        let mut place = None;
        if self.slow_sources().contains(&source) {
            place = Some(self.slow_place()?);
        }
        if let Ok(polled) = tokio::time::timeout(SLOW_AFTER, &mut poll).await {
            self.slow_sources().remove(&source);
            return Some(polled);
        }
        if place.is_none() {
            self.slow_sources().insert(source);
            place = self.slow_place();
        }
        let polled = poll.await;
        drop(place);
        Some(polled)
    }

    fn slow_sources(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        self.0.slow_sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slow_place(&self) -> Option<SlowPlace> {
        let free = self.0.slow.clone().try_acquire_owned().ok()?;
        self.0.count(|slow| slow + 1);
        Some(SlowPlace { places: self.0.clone(), _free: free })
    }
}

impl Places {
    fn count(&self, change: impl Fn(usize) -> usize) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        *in_flight = change(*in_flight);
        self.concurrency.set(self.ordinary + *in_flight);
    }
}

/// A place for a slow poll: while it is taken, the worker takes one more batch.
struct SlowPlace {
    places: Arc<Places>,
    _free: OwnedSemaphorePermit,
}

impl Drop for SlowPlace {
    fn drop(&mut self) {
        self.places.count(|slow| slow.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_poll_makes_room_for_another_up_to_a_limit() {
        let concurrency = Reloadable::new(2);
        let share = Share::new(concurrency.clone());
        let slowly = |name: &'static str| {
            let share = share.clone();
            tokio::spawn(async move { share.poll("n", name, tokio::time::sleep(Duration::from_secs(9))).await })
        };
        let polls: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(slowly).into();
        assert_eq!(share.poll("n", "fast", async { 7 }).await, Some(7));
        assert_eq!(*concurrency.load(), 2);
        tokio::time::sleep(SLOW_AFTER + Duration::from_millis(1)).await;
        assert_eq!(*concurrency.load(), 2 + 2 * SLOW_PLACES, "one of the nine found no other place");
        // It is known to be slow now: without a place it does not start.
        assert_eq!(share.poll("n", "a", async { 7 }).await, None);
        assert_eq!(share.poll("another", "a", async { 7 }).await, Some(7));
        for poll in polls {
            assert_eq!(poll.await.unwrap(), Some(()));
        }
        assert_eq!(*concurrency.load(), 2);
        // A source that is fast again is like any other.
        assert_eq!(share.poll("n", "a", async { 7 }).await, Some(7));
        assert!(!share.slow_sources().contains(&("n".to_owned(), "a".to_owned())));
        assert_eq!(share.slow_sources().len(), 8);
    }
}
