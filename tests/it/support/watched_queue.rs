//! A queue around another: it can be told to fail, and shows what was asked of it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::{
    Administration, Adoption, Claim, ClaimRequest, DeadJob, ErrorRecords, Fence, Hour, Inbox, Incoming, Inspection,
    Job, Jobs, Lane, LaneDue, Lateness, Minute, NewJob, Place, PostponeOutcome, PromoteOutcome, Queue, QueueError,
    RecordedError, RowRange, Sample, ScheduleOutcome, SettleOutcome, Stats, Verdict, Workers,
};

#[derive(Debug)]
pub struct WatchedQueue {
    inner: Arc<dyn Queue>,
    /// So many calls of `schedule` fail before they reach the queue.
    pub fail_schedules: AtomicU64,
    /// A call of `schedule` with this id always fails.
    pub fail_id: Mutex<Option<String>>,
    /// So many calls of `accept_incoming` are done, and their replies lost.
    pub lose_accept_replies: AtomicU64,
    /// So many calls of `accept_incoming` fail before they reach the queue.
    pub fail_accepts: AtomicU64,
    /// `schedule` only counts.
    pub sink: AtomicBool,
    /// Calls of `stats`, and whether they fail.
    pub looks: AtomicU64,
    pub fail_looks: AtomicBool,
    /// Seconds that each of them takes.
    pub look_takes: AtomicU64,
    /// How many `minutes` was asked for, call by call.
    pub minutes_asked: Mutex<Vec<u32>>,
    /// Jobs inside `schedule` right now, the most there ever were, and all that came out.
    pub jobs_in_flight: AtomicU64,
    pub most_jobs_in_flight: AtomicU64,
    pub jobs_done: AtomicU64,
    /// A call of `schedule` succeeded.
    pub scheduled: Notify,
    /// A call of `incoming` found nothing.
    pub drained: Notify,
    /// What `refuse_incoming` was told.
    pub refused: Mutex<Vec<(String, String)>>,
}

impl WatchedQueue {
    pub fn around(inner: Arc<dyn Queue>) -> Self {
        Self {
            inner,
            fail_schedules: AtomicU64::new(0),
            fail_id: Mutex::new(None),
            lose_accept_replies: AtomicU64::new(0),
            fail_accepts: AtomicU64::new(0),
            sink: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            fail_looks: AtomicBool::new(false),
            look_takes: AtomicU64::new(0),
            minutes_asked: Mutex::default(),
            jobs_in_flight: AtomicU64::new(0),
            most_jobs_in_flight: AtomicU64::new(0),
            jobs_done: AtomicU64::new(0),
            scheduled: Notify::new(),
            drained: Notify::new(),
            refused: Mutex::new(Vec::new()),
        }
    }

    async fn schedule_or_fail(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        let fail_id = self.fail_id.lock().unwrap().clone();
        if one_of(&self.fail_schedules) || jobs.iter().any(|job| Some(&job.id) == fail_id.as_ref()) {
            return Err(away());
        }
        if self.sink.load(SeqCst) {
            tokio::task::yield_now().await; // as a network would
            return Ok(vec![ScheduleOutcome::Scheduled; jobs.len()]);
        }
        self.inner.schedule(jobs).await
    }
}

/// Takes one from a counter; says whether there was one.
fn one_of(counter: &AtomicU64) -> bool {
    counter.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn away() -> QueueError {
    QueueError::Unavailable("the test took it away".to_owned())
}

#[async_trait]
impl Jobs for WatchedQueue {
    fn namespace(&self) -> &str {
        self.inner.namespace()
    }

    async fn check(&self) -> Result<Vec<String>, QueueError> {
        self.inner.check().await
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        let count = jobs.len() as u64;
        let in_flight = self.jobs_in_flight.fetch_add(count, SeqCst) + count;
        self.most_jobs_in_flight.fetch_max(in_flight, SeqCst);
        let answer = self.schedule_or_fail(jobs).await;
        self.jobs_in_flight.fetch_sub(count, SeqCst);
        if answer.is_ok() {
            self.jobs_done.fetch_add(count, SeqCst);
            self.scheduled.notify_one();
        }
        answer
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
        self.inner.claim(request).await
    }

    async fn settle(
        &self,
        fence: &Fence,
        verdicts: &[(Job, Verdict)],
        tally: &[(&str, i64)],
    ) -> Result<SettleOutcome, QueueError> {
        self.inner.settle(fence, verdicts, tally).await
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome, QueueError> {
        self.inner.release(fence, jobs).await
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption, QueueError> {
        self.inner.adopt(token, ids, lease).await
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>, QueueError> {
        self.inner.postpone(jobs).await
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>, QueueError> {
        self.inner.promote(jobs).await
    }

    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        self.inner.revive(jobs).await
    }

    async fn forget(&self, ids: &[String]) -> Result<(), QueueError> {
        self.inner.forget(ids).await
    }

    async fn mark_trial(&self, fence: &Fence) -> Result<bool, QueueError> {
        self.inner.mark_trial(fence).await
    }
}

#[async_trait]
impl Inbox for WatchedQueue {
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>, QueueError> {
        let head = self.inner.read_incoming(drainer, limit).await?;
        if head.is_empty() {
            self.drained.notify_one();
        }
        Ok(head)
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<(), QueueError> {
        if one_of(&self.fail_accepts) {
            return Err(away());
        }
        self.inner.accept_incoming(members).await?;
        if one_of(&self.lose_accept_replies) { Err(away()) } else { Ok(()) }
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<(), QueueError> {
        self.refused.lock().unwrap().extend_from_slice(members);
        self.inner.refuse_incoming(members).await
    }

    async fn add_incoming(&self, members: &[Incoming]) -> Result<(), QueueError> {
        self.inner.add_incoming(members).await
    }
}

#[async_trait]
impl Workers for WatchedQueue {
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<(), QueueError> {
        self.inner.heartbeat(worker, fields, counters, lateness).await
    }

    async fn deregister(&self, worker: &str) -> Result<(), QueueError> {
        self.inner.deregister(worker).await
    }
}

#[async_trait]
impl ErrorRecords for WatchedQueue {
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<(), QueueError> {
        self.inner.record_errors(errors).await
    }

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>, QueueError> {
        self.inner.errors(most).await
    }

    async fn forget_errors(&self, names: &[String]) -> Result<(), QueueError> {
        self.inner.forget_errors(names).await
    }
}

#[async_trait]
impl Inspection for WatchedQueue {
    async fn sample(&self, most: usize) -> Result<Vec<Sample>, QueueError> {
        self.inner.sample(most).await
    }

    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>, QueueError> {
        self.inner.list_dead(rows).await
    }

    async fn due_count(&self) -> Result<u64, QueueError> {
        self.inner.due_count().await
    }

    async fn stats(&self) -> Result<Stats, QueueError> {
        self.looks.fetch_add(1, SeqCst);
        if self.fail_looks.load(SeqCst) {
            return Err(away());
        }
        let stats = self.inner.stats().await;
        let takes = self.look_takes.load(SeqCst);
        if takes > 0 {
            tokio::time::sleep(Duration::from_secs(takes)).await;
        }
        stats
    }

    async fn brief_stats(&self) -> Result<Stats, QueueError> {
        if self.fail_looks.load(SeqCst) {
            return Err(away());
        }
        self.inner.brief_stats().await
    }

    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>, QueueError> {
        self.inner.due_counts_by(offsets).await
    }

    async fn minutes(&self, count: u32) -> Result<Vec<Minute>, QueueError> {
        self.minutes_asked.lock().unwrap().push(count);
        self.inner.minutes(count).await
    }

    async fn hours(&self, count: u32) -> Result<Vec<Hour>, QueueError> {
        self.inner.hours(count).await
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError> {
        self.inner.locate(ids).await
    }
}

#[async_trait]
impl Administration for WatchedQueue {
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        self.inner.repair_due_times(slack, limit).await
    }

    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        self.inner.apply_lane(lane, slack, limit).await
    }

    async fn sum_hours(&self) -> Result<(), QueueError> {
        self.inner.sum_hours().await
    }

    async fn pause(&self, reason: Option<&str>) -> Result<(), QueueError> {
        self.inner.pause(reason).await
    }
}
