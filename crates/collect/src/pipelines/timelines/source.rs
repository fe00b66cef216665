//! Polls of sources: timelines that the [worker](engine::worker)'s loop reads as jobs of a delayed queue.
//!
//! The store has the state. A process remembers only slow sources ([`SlowPollLimiter`]) and refused ones
//! ([`Refusals`](super::trouble::Refusals)).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::pace::{Pace, interval_lane};
use super::paging::{PageResult, Position};
use super::reader::{PageObserver, ReadError, ReadFailure, Reader};
use super::slow_polls::SlowPollLimiter;
use super::trouble::retry_pause;
use engine::base::call_error::ErrorKind;
use engine::base::clock::{self, Millis};
use engine::error_log::ErrorPlace;
use engine::lane::Lane;
use engine::queue::{Batch, Job, Jobs, NewJob, QueueError, Verdict};
use engine::quota::Permit;
use engine::worker::{BatchOutcome, Handler, Outlook};
use networks::providers::source::Source;
use store::{SavedSource, SourceTrouble, StoreError};

/// Finds the timeline of an id. The store has its position, also for an id that is gone.
#[async_trait]
pub trait TimelineDirectory: Send + Sync {
    /// `None` ends the job of that id. After an error the job stays due.
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError>;

    /// Ids that every poller schedules with each heartbeat. Empty if new ids are scheduled elsewhere.
    fn configured_ids(&self) -> Vec<String> {
        Vec::new()
    }
}

#[async_trait]
impl TimelineDirectory for BTreeMap<String, Source> {
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError> {
        Ok(self.get(id).cloned())
    }

    fn configured_ids(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

pub struct SourcePoll {
    pub reader: Reader,
    pub timelines: Arc<dyn TimelineDirectory>,
    pub pace: Pace,
    pub slow_polls: SlowPollLimiter,
}

#[async_trait]
impl PageObserver for Pace {
    /// The interval is stored with the position.
    fn observe_page(
        &mut self,
        position: &mut Option<Position>,
        taken: &PageResult,
        _: &[Millis],
        full: u32,
    ) -> Option<Millis> {
        let (whole, position) = (taken.finished_round?, position.as_mut()?);
        let before = position.interval.unwrap_or(self.first());
        // The first page may hold the posts of a year.
        let next = whole.elapsed.map_or(before, |elapsed| self.next(before, whole.fresh, elapsed, full));
        position.interval = Some(next);
        Some(next)
    }
}

impl SourcePoll {
    /// Schedules the configured sources; queued ones stay as they are.
    pub async fn schedule(&self, queue: &dyn Jobs) -> Result<(), QueueError> {
        let lane = interval_lane(self.pace.first());
        let ids = self.timelines.configured_ids().into_iter();
        let jobs: Vec<_> = ids.map(|id| NewJob { id, lane: lane.clone(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.map(drop)
    }

    async fn handle_one(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>, handled: &mut BatchOutcome) {
        let due_in = |delay| Verdict::Reschedule { lane: interval_lane(delay), due: delay.into() };
        let source = match self.reader.run_with_timeout(self.timelines.get(&job.id)).await {
            Ok(Some(source)) => source,
            Ok(None) => {
                // A poller that has this source configured schedules it again; its position stays.
                tracing::info!(source = job.id, "the source is no longer configured; its polls end");
                return handled.verdicts.push((job.clone(), Verdict::Finish));
            }
            Err(outlook) => {
                handled.outlook = outlook;
                return handled.release.push(job.clone());
            }
        };
        let mut saved = SavedSource::default();
        let poll = async {
            saved = self
                .reader
                .run_with_timeout(self.reader.positions.saved_source(&self.reader.namespace, &job.id))
                .await?;
            let read = self.reader.read(&job.id, source, &saved, (batch, &mut *permit), &mut self.pace.clone()).await?;
            Ok(read.unwrap_or(self.pace.first()))
        };
        let Some(polled) = self.slow_polls.run(&self.reader.namespace, &job.id, poll).await else {
            tracing::debug!(
                source = job.id,
                "the last poll of the source was slow, and all places for slow polls are in use"
            );
            handled.verdicts.push((job.clone(), due_in(clock::millis(self.reader.call_timeout / 2).max(1))));
            handled.outlook = Outlook::Unchanged;
            return;
        };
        self.reader.polls.polls.add(1);
        self.reader.polls.polls_failed.add(usize::from(polled.is_err()));
        match self.decide_next_poll(&job.id, polled, saved.trouble.as_ref()).await {
            Ok(NextPoll { delay, lane, outlook }) => {
                handled.verdicts.push((job.clone(), Verdict::Reschedule { lane, due: delay.into() }));
                handled.outlook = outlook;
            }
            Err(outlook) => {
                handled.release.push(job.clone());
                handled.outlook = outlook;
            }
        }
    }

    /// Decides the next poll of a source. An error affects all sources: this one is then released.
    async fn decide_next_poll(
        &self,
        name: &str,
        polled: Result<Millis, ReadError>,
        before: Option<&SourceTrouble>,
    ) -> Result<NextPoll, Outlook> {
        let ended = match polled {
            Ok(delay) => {
                if let Some(trouble) = before {
                    tracing::info!(source = name, failures = trouble.failures, "a source is read again");
                }
                return Ok(NextPoll { delay, lane: interval_lane(delay), outlook: Outlook::Fine });
            }
            Err(ended) => ended,
        };
        let ReadFailure { why, is_own, is_alone, failures, outlook, .. } =
            self.reader.judge_failure(name, ended, before).await?;
        let Pace { shortest, longest, .. } = self.pace;
        let delay = match (is_own, is_alone) {
            (true, _) => clock::millis(longest),
            (false, true) => retry_pause(shortest, longest, failures),
            (false, false) => self.pace.first(),
        };
        // Behind readable sources, if the quota is short.
        let lane = if is_own || is_alone { interval_lane(clock::millis(longest)) } else { interval_lane(delay) };
        let place = ErrorPlace { endpoint: self.reader.endpoint, example: Some(name), ..ErrorPlace::default() };
        self.reader.metrics.errors.record_reason(ErrorKind::Refused, &why, place);
        tracing::warn!(
            source = name,
            error = why,
            tried_again_in_ms = delay,
            others_are_read = is_alone,
            "a source cannot be read"
        );
        Ok(NextPoll { delay, lane, outlook })
    }
}

struct NextPoll {
    delay: Millis,
    lane: Lane,
    outlook: Outlook,
}

#[async_trait]
impl Handler for SourcePoll {
    fn endpoint(&self) -> &'static str {
        self.reader.endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        let (mut permit, mut handled) = (Some(permit), BatchOutcome::default());
        for job in &batch.jobs {
            match handled.outlook {
                Outlook::Fine => self.handle_one(job, batch, &mut permit, &mut handled).await,
                _ => handled.release.push(job.clone()),
            }
        }
        if let Some(permit) = permit {
            self.reader.credentials.return_permit(permit).await;
        }
        handled
    }
}
