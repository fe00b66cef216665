//! A stream's gap: the polled source that has the same posts is put due.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::base::retry::Retry;
use crate::engine::lane::Lane;
use crate::engine::queue::{NewJob, Place, Queue, QueueError, Scheduled};

/// First and longest delay while the queue is out.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How often it is seen whether a poll that is on its way, or still to come for an earlier connection, is done. It began
/// before the stream was connected, perhaps, so its answer does not count.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The source that fills a stream's gaps.
#[derive(Debug)]
pub struct Fill {
    /// The queue that the source is in.
    pub queue: Arc<dyn Queue>,
    /// Its name there.
    pub source: String,
    /// Its queue.
    pub lane: Lane,
    /// The delay of the poll, ms: the time that a post may take to appear, plus the lag of the timeline. One that was
    /// made just before the stream was connected is not in the stream, and not yet in the timeline.
    pub delay: Millis,
    /// When the poll that was last put is due, ms since the epoch by the queue's clock; 0 before the first.
    pub put_for: AtomicI64,
}

impl Fill {
    /// Has the source polled soon. Asks until it is so.
    pub async fn put_due(&self) {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        loop {
            let pause = match self.put().await {
                Ok(Some(Scheduled::Scheduled)) => {
                    tracing::info!(source = self.source, in_ms = self.delay, "a stream's gap is polled");
                    return;
                }
                // In between somebody else has put it there, due at once.
                Ok(Some(Scheduled::Known)) => Duration::from_millis(1) + clock::span(self.delay),
                Ok(None | Some(Scheduled::Leased | Scheduled::Dead)) => LOOK_EVERY,
                Err(error) => {
                    let pause = retry.next_delay();
                    tracing::warn!(
                        source = self.source,
                        error = %error,
                        delay_ms = clock::millis(pause),
                        "a stream's gap is not polled yet: the queue is out"
                    );
                    pause
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Out of the queue and into it, since nothing moves a job that is there. Whoever dies between the two leaves the
    /// source to the next poller's beat, which puts back what is missing. `None` while the poll that was put before is
    /// still to come: put off by one short connection after the other, it would never be.
    async fn put(&self) -> Result<Option<Scheduled>, QueueError> {
        if self.due_at().await? == Some(self.put_for.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        self.queue.forget(std::slice::from_ref(&self.source)).await?;
        let job = NewJob { id: self.source.clone(), lane: self.lane.clone(), due: self.delay.into() };
        let answers = self.queue.schedule(&[job]).await?;
        let answer = answers.first().copied().ok_or_else(|| QueueError::Refused("no answer for a job".to_owned()))?;
        if answer == Scheduled::Scheduled {
            // It is put all the same where the queue does not say for when.
            self.put_for.store(self.due_at().await.ok().flatten().unwrap_or(0), Ordering::Relaxed);
        }
        Ok(Some(answer))
    }

    /// When the source is due, ms since the epoch by the queue's clock; `None` while it is being polled, or not there.
    async fn due_at(&self) -> Result<Option<Millis>, QueueError> {
        let places = self.queue.locate(std::slice::from_ref(&self.source)).await?;
        Ok(places.into_iter().flatten().find_map(|place| match place {
            Place::Delayed { due, .. } => Some(due),
            _ => None,
        }))
    }
}
