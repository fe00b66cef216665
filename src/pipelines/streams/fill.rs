//! Fills a stream's gap: makes the polled source with the same posts due.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::base::retry::Retry;
use crate::engine::lane::Lane;
use crate::engine::queue::{NewJob, Place, Queue, QueueError, Scheduled};

const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Interval of checks for the end of an earlier poll, which may have started before the connection: its answer does not count.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Fill {
    pub queue: Arc<dyn Queue>,
    pub source: String,
    pub lane: Lane,
    /// Delay of the poll, ms: the time until a post may appear, plus the lag of the timeline. A post from just before the connection is
    /// not in the stream, and not yet in the timeline.
    pub delay: Millis,
    /// Due time of the last scheduled poll, ms since the epoch by the queue's clock; 0 before the first.
    pub put_for: AtomicI64,
}

impl Fill {
    /// Makes the source due soon. Retries until it is.
    pub async fn put_due(&self) {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        loop {
            let pause = match self.put().await {
                Ok(Some(Scheduled::Scheduled)) => {
                    tracing::info!(source = self.source, in_ms = self.delay, "a stream's gap is polled");
                    return;
                }
                // Another process has put it there meanwhile, due at once.
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

    /// Removes the job and schedules it again, because nothing moves a queued job. If the process dies in between, the next poller's beat
    /// restores it. `None` while the earlier poll is still to come: short connections in a row would postpone it for ever.
    async fn put(&self) -> Result<Option<Scheduled>, QueueError> {
        if self.due_at().await? == Some(self.put_for.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        self.queue.forget(std::slice::from_ref(&self.source)).await?;
        let job = NewJob { id: self.source.clone(), lane: self.lane.clone(), due: self.delay.into() };
        let answers = self.queue.schedule(&[job]).await?;
        let answer = answers.first().copied().ok_or_else(|| QueueError::Refused("no answer for a job".to_owned()))?;
        if answer == Scheduled::Scheduled {
            // The job is scheduled even if the queue does not state its due time.
            self.put_for.store(self.due_at().await.ok().flatten().unwrap_or(0), Ordering::Relaxed);
        }
        Ok(Some(answer))
    }

    /// Due time of the source, ms since the epoch by the queue's clock; `None` while it is polled, or missing.
    async fn due_at(&self) -> Result<Option<Millis>, QueueError> {
        let places = self.queue.locate(std::slice::from_ref(&self.source)).await?;
        Ok(places.into_iter().flatten().find_map(|place| match place {
            Place::Delayed { due, .. } => Some(due),
            _ => None,
        }))
    }
}
