//! Stopping in two steps: first no new work, then, after a deadline, no old work either.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::task;

/// The effect of SIGHUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// The terminal of a command was closed: it stops, unless `nohup` started it.
    Stops,
    /// A role reads its configuration.
    Reads,
}

/// The signal to stop, as everything that runs holds it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    drain: CancellationToken,
    abandon: CancellationToken,
}

impl Stop {
    /// Nobody has asked to stop yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A part's own: it stops with the whole, and alone where only the part is told to.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { drain: self.drain.child_token(), abandon: self.abandon.child_token() }
    }

    /// Take no new work; finish what is in flight.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Give back what is in flight, now.
    pub fn abandon(&self) {
        self.drain.cancel();
        self.abandon.cancel();
    }

    /// Returns true if to take no new work.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Until no new work is to be taken.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// Until what is in flight is to be given back.
    pub async fn abandoning(&self) {
        self.abandon.cancelled().await;
    }

    /// The first step, as a token for code that waits for one.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.drain.clone()
    }

    /// Waits for so long, or until no new work is to be taken.
    pub async fn sleep(&self, span: Duration) {
        task::waits("waits", Some(span));
        tokio::select! {
            biased;
            () = self.draining() => {}
            () = tokio::time::sleep(span) => {}
        }
        task::step("works");
    }

    /// Listens for SIGTERM and SIGINT: the first one drains and starts the deadline, the deadline or
    /// a second one abandons. SIGHUP counts as SIGTERM, if it should.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn on_signals(&self, deadline: Duration, hangup: Hangup) -> std::io::Result<()> {
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
            tracing::info!(deadline_ms = deadline.as_millis() as u64, "stopping: finishing what is in flight");
            stop.drain();
            tokio::select! {
                () = tokio::time::sleep(deadline) => tracing::warn!("the deadline has passed: giving back what is in flight"),
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            stop.abandon();
        });
        Ok(())
    }
}

/// Returns true if the process was started by `nohup`, as Linux says; elsewhere it is unknown.
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
