//! A value that may change while others use it: the tunable part of the configuration.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

/// A value with one writer and many readers. Clones are the same value.
///
/// Load it once per piece of work: a loaded value does not change.
pub struct Reloadable<T>(Arc<Cell<T>>);

struct Cell<T> {
    value: ArcSwap<T>,
    changed: watch::Sender<()>,
}

impl<T> Reloadable<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(Cell { value: ArcSwap::from_pointee(value), changed: watch::Sender::new(()) }))
    }

    #[must_use]
    pub fn load(&self) -> Arc<T> {
        self.0.value.load_full()
    }

    pub fn set(&self, value: T) {
        self.0.value.store(Arc::new(value));
        self.0.changed.send_replace(());
    }

    /// Subscribes to later changes of the value.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.0.changed.subscribe())
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> From<T> for Reloadable<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: fmt::Debug> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

#[derive(Debug)]
pub struct Changes(watch::Receiver<()>);

impl Changes {
    /// Waits for the next change after the last return, or after [`Reloadable::changes`]. Several changes may be one.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await; // nothing is left that could set it
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn what_was_loaded_stays_and_the_next_load_is_new() {
        let live = Reloadable::new(1);
        let (same, before) = (live.clone(), live.load());
        live.set(2);
        assert_eq!((*before, *live.load(), *same.load()), (1, 2, 2));
    }

    #[test]
    fn a_change_before_the_wait_is_not_missed() {
        let live = Reloadable::new(1);
        let mut changes = live.changes();
        assert!(changes.next().now_or_never().is_none());
        live.set(2);
        live.set(3);
        assert!(changes.next().now_or_never().is_some());
        assert!(changes.next().now_or_never().is_none(), "two were one");
        drop(live);
        assert!(changes.next().now_or_never().is_none());
    }
}
