//! Fills a stream's gap: makes the polled source with the same posts due.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use engine::base::clock::{self, Millis};
use engine::base::retry::Retry;
use engine::lane::Lane;
use engine::queue::{NewJob, Place, Queue, QueueError, ScheduleOutcome};

const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Interval of checks for the end of an earlier poll, which may have started before the connection: its answer does not count.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct GapFiller {
    pub queue: Arc<dyn Queue>,
    pub source: String,
    pub lane: Lane,
    /// Delay of the poll, ms: the time until a post may appear, plus the lag of the timeline. A post from just before the connection is
    /// not in the stream, and not yet in the timeline.
    pub delay: Millis,
    /// Due time of the last scheduled poll, ms since the epoch by the queue's clock; 0 before the first.
    pub scheduled_due: AtomicI64,
}

impl GapFiller {
    /// Retries until the source is due soon.
    pub async fn schedule_poll(&self) {
        let mut retry = Retry::new(BACKOFF.0, BACKOFF.1);
        loop {
            let pause = match self.try_schedule().await {
                Ok(Some(ScheduleOutcome::Scheduled)) => {
                    tracing::info!(source = self.source, in_ms = self.delay, "a poll of a stream's gap is scheduled");
                    return;
                }
                // Another process has put it there meanwhile, due at once.
                Ok(Some(ScheduleOutcome::Known)) => Duration::from_millis(1) + clock::span(self.delay),
                Ok(None | Some(ScheduleOutcome::Leased | ScheduleOutcome::Dead)) => CHECK_INTERVAL,
                Err(error) => {
                    let pause = retry.next_delay();
                    tracing::warn!(
                        source = self.source,
                        error = %error,
                        delay_ms = clock::millis(pause),
                        "the poll of a stream's gap is not scheduled yet: the queue does not answer"
                    );
                    pause
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Removes the job and schedules it again, because nothing moves a queued job. If the process dies in between, the next poller's beat
    /// restores it. `None` while the earlier poll is still to come: short connections in a row would postpone it for ever.
    async fn try_schedule(&self) -> Result<Option<ScheduleOutcome>, QueueError> {
        if self.due_at().await? == Some(self.scheduled_due.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        self.queue.forget(std::slice::from_ref(&self.source)).await?;
        let job = NewJob { id: self.source.clone(), lane: self.lane.clone(), due: self.delay.into() };
        let answers = self.queue.schedule(&[job]).await?;
        let answer = answers.first().copied().ok_or_else(|| QueueError::Refused("no answer for a job".to_owned()))?;
        if answer == ScheduleOutcome::Scheduled {
            // The job is scheduled even if the queue does not state its due time.
            self.scheduled_due.store(self.due_at().await.ok().flatten().unwrap_or(0), Ordering::Relaxed);
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
