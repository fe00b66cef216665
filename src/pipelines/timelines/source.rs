//! A source: a timeline that the [worker](crate::engine::worker)'s loop polls as a job of a delayed queue, by the
//! [reader](super::reader).
//!
//! The store has the state. A process remembers only slow sources ([`Share`]) and refused ones ([`Refusals`](super::trouble::Refusals)).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::pace::{Pace, lane};
use super::paging::{Position, Taken};
use super::reader::{Ended, Learning, Reader, Trouble};
use super::share::Share;
use super::trouble::pause;
use crate::base::clock::{self, Millis};
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::lane::Lane;
use crate::engine::queue::{Batch, Job, Jobs, NewJob, QueueError, Verdict};
use crate::engine::worker::{Handled, Handler, Outlook};
use crate::providers::source::Source;
use crate::quota::Permit;
use crate::store::{SavedSource, SourceTrouble, StoreError};

/// Finds the timeline of an id. Its position is not part of this interface: the store has it, also for an id that is gone.
#[async_trait]
pub trait Timelines: Send + Sync {
    /// The source of that id; `None` ends its job. After an error the job stays due.
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError>;

    /// Ids that every poller puts into the queue, again with each heartbeat. Empty if each new id is scheduled elsewhere.
    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

#[async_trait]
impl Timelines for BTreeMap<String, Source> {
    async fn get(&self, id: &str) -> Result<Option<Source>, StoreError> {
        Ok(self.get(id).cloned())
    }

    fn listed(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

pub struct SourcePoll {
    pub reader: Reader,
    pub timelines: Arc<dyn Timelines>,
    pub pace: Pace,
    pub share: Share,
}

#[async_trait]
impl Learning for Pace {
    /// The interval is stored with the position.
    fn page(&mut self, position: &mut Option<Position>, taken: &Taken, _: &[Millis], full: u32) -> Option<Millis> {
        let (whole, position) = (taken.whole?, position.as_mut()?);
        let before = position.interval.unwrap_or(self.first());
        // The first page may hold the posts of a year.
        let next = whole.elapsed.map_or(before, |elapsed| self.next(before, whole.fresh, elapsed, full));
        position.interval = Some(next);
        Some(next)
    }
}

impl SourcePoll {
    /// Puts the listed sources into their queue; those that are there stay as they are.
    pub async fn schedule(&self, queue: &dyn Jobs) -> Result<(), QueueError> {
        let lane = lane(self.pace.first());
        let ids = self.timelines.listed().into_iter();
        let jobs: Vec<_> = ids.map(|id| NewJob { id, lane: lane.clone(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.map(drop)
    }

    async fn handle_one(&self, job: &Job, batch: &Batch, permit: &mut Option<Permit>, handled: &mut Handled) {
        let due_in = |delay| Verdict::Reschedule { lane: lane(delay), due: delay.into() };
        let source = match self.reader.in_time(self.timelines.get(&job.id)).await {
            Ok(Some(source)) => source,
            Ok(None) => {
                // A poller that has this source configured schedules it again; its position stays.
                tracing::info!(source = job.id, "no longer a configured source: not polled any more");
                return handled.verdicts.push((job.clone(), Verdict::Finish));
            }
            Err(outlook) => {
                handled.outlook = outlook;
                return handled.release.push(job.clone());
            }
        };
        let mut saved = SavedSource::default();
        let poll = async {
            saved = self.reader.in_time(self.reader.positions.saved(&self.reader.namespace, &job.id)).await?;
            let read = self.reader.read(&job.id, source, &saved, (batch, &mut *permit), &mut self.pace.clone()).await?;
            Ok(read.unwrap_or(self.pace.first()))
        };
        let Some(polled) = self.share.poll(&self.reader.namespace, &job.id, poll).await else {
            tracing::debug!(source = job.id, "its last poll was slow, and all places for slow polls are in use");
            handled.verdicts.push((job.clone(), due_in(clock::millis(self.reader.call_timeout / 2).max(1))));
            handled.outlook = Outlook::Unchanged;
            return;
        };
        self.reader.polls.polls.add(1);
        self.reader.polls.polls_failed.add(usize::from(polled.is_err()));
        match self.judged(&job.id, polled, saved.trouble.as_ref()).await {
            Ok(Next { delay, lane, outlook }) => {
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
    async fn judged(
        &self,
        name: &str,
        polled: Result<Millis, Ended>,
        before: Option<&SourceTrouble>,
    ) -> Result<Next, Outlook> {
        let ended = match polled {
            Ok(delay) => {
                if let Some(trouble) = before {
                    tracing::info!(source = name, failures = trouble.failures, "a source is read again");
                }
                return Ok(Next { delay, lane: lane(delay), outlook: Outlook::Fine });
            }
            Err(ended) => ended,
        };
        let Trouble { why, is_own, is_alone, failures, outlook, .. } = self.reader.trouble(name, ended, before).await?;
        let Pace { shortest, longest, .. } = self.pace;
        let delay = match (is_own, is_alone) {
            (true, _) => clock::millis(longest),
            (false, true) => pause(shortest, longest, failures),
            (false, false) => self.pace.first(),
        };
        // Behind readable sources, if the quota is short.
        let lane = if is_own || is_alone { lane(clock::millis(longest)) } else { lane(delay) };
        let place = ErrorPlace { endpoint: self.reader.endpoint, example: Some(name), ..ErrorPlace::default() };
        self.reader.metrics.errors.record_reason(ErrorKind::Refused, &why, place);
        tracing::warn!(
            source = name,
            error = why,
            tried_again_in_ms = delay,
            others_are_read = is_alone,
            "a source cannot be read"
        );
        Ok(Next { delay, lane, outlook })
    }
}

struct Next {
    delay: Millis,
    lane: Lane,
    outlook: Outlook,
}

#[async_trait]
impl Handler for SourcePoll {
    fn endpoint(&self) -> &'static str {
        self.reader.endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled {
        let (mut permit, mut handled) = (Some(permit), Handled::default());
        for job in &batch.jobs {
            match handled.outlook {
                Outlook::Fine => self.handle_one(job, batch, &mut permit, &mut handled).await,
                _ => handled.release.push(job.clone()),
            }
        }
        if let Some(permit) = permit {
            self.reader.credentials.give_back(permit).await;
        }
        handled
    }
}
