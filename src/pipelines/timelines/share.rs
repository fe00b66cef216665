//! A fair share for each source: one that answers slowly keeps no other waiting.
//!
//! A poll that takes longer than [`SLOW_AFTER`] gives its place among the batches in flight to another source and
//! continues in a place for slow ones, of which there are more. A source whose last poll was slow begins in such a
//! place; if none is free, it is retried later.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::reload::Reloadable;

/// A poll is slow from then on.
pub const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Places for slow polls, for each ordinary one.
const SLOW_PLACES: usize = 4;

/// The places of a poller. Clones are the same.
#[derive(Debug, Clone)]
pub struct Share(Arc<Places>);

#[derive(Debug)]
struct Places {
    /// Ordinary ones.
    ordinary: usize,
    /// Polls in flight, at the most: the worker's.
    concurrency: Reloadable<usize>,
    /// Free places for slow polls.
    slow: Arc<Semaphore>,
    /// Slow polls in flight.
    in_flight: Mutex<usize>,
    /// Sources whose last poll was slow, by namespace and name.
    known: Mutex<HashSet<(String, String)>>,
}

impl Share {
    /// Of a worker with so many ordinary places, which takes as many batches as `concurrency` says.
    #[must_use]
    pub fn new(concurrency: Reloadable<usize>) -> Self {
        let ordinary = (*concurrency.load()).max(1);
        let slow = Arc::new(Semaphore::new(ordinary * SLOW_PLACES));
        Self(Arc::new(Places { ordinary, concurrency, slow, in_flight: Mutex::default(), known: Mutex::default() }))
    }

    /// Polls a source in its place; `None` where it is known to be slow and there is none.
    pub async fn poll<T>(&self, namespace: &str, name: &str, poll: impl Future<Output = T>) -> Option<T> {
        let source = (namespace.to_owned(), name.to_owned());
        let mut poll = std::pin::pin!(poll);
        let mut place = None;
        if self.known().contains(&source) {
            place = Some(self.slow_place()?);
        }
        if let Ok(polled) = tokio::time::timeout(SLOW_AFTER, &mut poll).await {
            self.known().remove(&source);
            return Some(polled);
        }
        if place.is_none() {
            self.known().insert(source);
            place = self.slow_place();
        }
        let polled = poll.await;
        drop(place);
        Some(polled)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A place for a slow poll: while it is taken, the worker takes one batch more.
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
    async fn a_slow_poll_makes_room_for_another_and_there_are_so_many_of_them() {
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
        // It is known to be slow now: whoever has no place does not begin.
        assert_eq!(share.poll("n", "a", async { 7 }).await, None);
        assert_eq!(share.poll("another", "a", async { 7 }).await, Some(7));
        for poll in polls {
            assert_eq!(poll.await.unwrap(), Some(()));
        }
        assert_eq!(*concurrency.load(), 2);
        // One that is fast again is as any other.
        assert_eq!(share.poll("n", "a", async { 7 }).await, Some(7));
        assert!(!share.known().contains(&("n".to_owned(), "a".to_owned())));
        assert_eq!(share.known().len(), 8);
    }
}
