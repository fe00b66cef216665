//! Stopping in two steps: first no new work; after a deadline, no old work either.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::task;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// A command stops when its terminal is closed, unless `nohup` started it.
    Stops,
    /// A role reads its configuration again.
    Reads,
}

/// The signal to stop. Every running part holds a clone.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    drain: CancellationToken,
    abandon: CancellationToken,
}

impl Stop {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A signal for a part. It stops with the whole, or alone if only the part is stopped.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { drain: self.drain.child_token(), abandon: self.abandon.child_token() }
    }

    /// Step 1: take no new work; finish the work in flight.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Step 2: release the work in flight, now.
    pub fn abandon(&self) {
        self.drain.cancel();
        self.abandon.cancel();
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits for step 1.
    pub async fn wait_for_drain(&self) {
        self.drain.cancelled().await;
    }

    /// Waits for step 2.
    pub async fn wait_for_abandon(&self) {
        self.abandon.cancelled().await;
    }

    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.drain.clone()
    }

    /// Waits for `span`, or until step 1.
    pub async fn sleep(&self, span: Duration) {
        task::waits("waits", Some(span));
        tokio::select! {
            biased;
            () = self.wait_for_drain() => {}
            () = tokio::time::sleep(span) => {}
        }
        task::step("works");
    }

    /// Listens for SIGTERM and SIGINT. The first signal drains and starts the deadline; the deadline or a second signal
    /// abandons. With `Hangup::Stops`, SIGHUP drains and starts the deadline too.
    pub fn listen_for_signals(&self, deadline: Duration, hangup: Hangup) -> std::io::Result<()> {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        if hangup == Hangup::Stops && !is_hangup_ignored() {
            let (mut hangups, stop) = (signal(SignalKind::hangup())?, self.clone());
            tokio::spawn(async move {
                hangups.recv().await;
                tracing::info!("stopping: the terminal was closed (SIGHUP)");
                stop.drain();
                tokio::time::sleep(deadline).await;
                stop.abandon();
            });
        }
        let stop = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            tracing::info!(
                deadline_ms = deadline.as_millis() as u64,
                "stopping: the process finishes the work in flight"
            );
            stop.drain();
            tokio::select! {
                () = tokio::time::sleep(deadline) => tracing::warn!("the deadline has passed: the process gives back its unfinished work"),
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            stop.abandon();
        });
        Ok(())
    }
}

/// Returns true if SIGHUP is ignored, as after `nohup` (Linux only; false elsewhere).
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_with_the_whole_and_not_the_other_way_round() {
        let whole = Stop::new();
        let (one, other) = (whole.child(), whole.child());
        one.abandon();
        assert!(one.is_draining() && !whole.is_draining() && !other.is_draining());
        whole.drain();
        assert!(other.is_draining() && whole.child().is_draining());
    }
}
