//! A stream's gap: the polled source that has the same posts is put due.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{self, Millis};
use crate::base::retry::Retry;
use crate::engine::lane::Lane;
use crate::engine::queue::{NewJob, Queue, QueueError, Scheduled};

/// First and longest delay while the queue is out.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How often it is seen whether a poll that is on its way is done. It began before the stream was connected,
/// perhaps, so its answer does not count.
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
}

impl Fill {
    /// Has the source polled soon. Asks until it is so.
    pub async fn put_due(&self) {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        loop {
            let pause = match self.put().await {
                Ok(Scheduled::Scheduled) => {
                    tracing::info!(source = self.source, in_ms = self.delay, "a stream's gap is polled");
                    return;
                }
                // In between somebody else has put it there, due at once.
                Ok(Scheduled::Known) => Duration::from_millis(1) + clock::span(self.delay),
                Ok(Scheduled::Leased | Scheduled::Dead) => LOOK_EVERY,
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
    /// source to the next poller's beat, which puts back what is missing.
    async fn put(&self) -> Result<Scheduled, QueueError> {
        self.queue.forget(std::slice::from_ref(&self.source)).await?;
        let job = NewJob { id: self.source.clone(), lane: self.lane.clone(), due: self.delay.into() };
        let answers = self.queue.schedule(&[job]).await?;
        answers.first().copied().ok_or_else(|| QueueError::Refused("no answer for a job".to_owned()))
    }
}
