//! Stopping in two steps: first no new work, then, after a deadline, no old work either.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

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

    /// Take no new work; finish what is in flight.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Give back what is in flight, now.
    pub fn abandon(&self) {
        self.drain.cancel();
        self.abandon.cancel();
    }

    /// Whether to take no new work.
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
        tokio::select! {
            biased;
            () = self.draining() => {}
            () = tokio::time::sleep(span) => {}
        }
    }

    /// Listens for SIGTERM and SIGINT: the first one drains and starts the deadline, the deadline or
    /// a second one abandons.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn on_signals(&self, deadline: Duration) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
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
