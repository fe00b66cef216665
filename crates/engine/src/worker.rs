//! The worker loop: permit → claim → handle → settle. It does not depend on the kind of items.
//!
//! A worker serves one pipeline, so no pipeline waits for another. It runs one loop per batch that may be in flight. The loops
//! take turns to claim: an idle worker asks the queue once per wait, and in an outage it sends one probe per backoff step.

mod handler;
mod in_flight;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

pub use self::handler::{BatchOutcome, Handler, HandlerKind, Outlook, PermanentFailure, UnmeteredHandler};
use self::in_flight::InFlight;
use crate::base::call_error::ErrorKind;
use crate::base::clock::{self, FURTHEST_AHEAD_MS, Millis, Stopwatch};
use crate::base::failpoint;
use crate::base::humanize;
use crate::base::random;
use crate::base::reload::{Changes, Reloadable};
use crate::base::retry::Retry;
use crate::base::shutdown::Stop;
use crate::base::supervise::supervise;
use crate::base::task::{self, Task};
use crate::error_log::ErrorPlace;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::observer::PipelineObserver;
use crate::queue::{Batch, Claim, ClaimRequest, Job, Queue, QueueError, SettleOutcome, Verdict};
use crate::quota::{AcquireOutcome, Credentials, Pacing, Permit};

/// Longest pause before the loop looks for work again.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// First and longest delay during an outage: a probe per five seconds on average, and recovery within 15 s of its end.
pub const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// First and longest delay between attempts of a call to the queue that must succeed before the lease ends.
const SETTLE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Shortest interval at which the worker asks the queue for the number of due ids.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(1);
/// The worker spends at most 1/50 of its time on that. A file counts a million in 0.4 s.
const BACKLOG_SHARE: u32 = 50;

/// Permits for batches in flight. There are fewer loops than permits, so a batch waits only for an isolated batch, which takes all.
const IN_FLIGHT_LIMIT: u32 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub struct ClaimSettings {
    pub limit: usize,
    /// See [`ClaimRequest::linger`].
    pub linger: Duration,
    /// See [`ClaimRequest::lookahead`].
    pub lookahead: f64,
    /// See [`ClaimRequest::lease`].
    pub lease: Duration,
}

pub struct Worker {
    pub name: String,
    pub queue: Arc<dyn Queue>,
    pub handling: HandlerKind,
    /// Changes apply from the next claim on.
    pub claims: Reloadable<ClaimSettings>,
    /// See [`ClaimRequest::early`]. Above 0 the calls are spread evenly over the quota window, so that all of it is used.
    pub early: Reloadable<f64>,
    /// Maximum number of batches in flight. If it falls, the worker first finishes the batches above it.
    pub concurrency: Reloadable<usize>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
}

/// Number of calls that were due when the queue was last asked.
#[derive(Clone, Copy)]
struct Backlog {
    calls: u64,
    read_at: Stopwatch,
    /// Time until the queue is asked again; longer if counting takes long.
    valid_for: Duration,
}

struct ClaimState {
    /// Token of a claim that has brought no batch yet. It is used again, since the reply may have been lost.
    token: Option<String>,
    /// True until a claim brings a batch, and after a claim that brings none.
    is_idle: bool,
    backlog: Option<Backlog>,
    retry: Retry,
    failures: u64,
    pause: Option<Duration>,
    /// Changed claim settings end the wait, since it was computed from the old ones.
    changes: Changes,
}

struct InFlightGate {
    free: Arc<Semaphore>,
    /// Wakes a waiting loop after a batch left a job that is due at once.
    due_at_once: Notify,
}

struct Claimed {
    call: Call,
    batch: Batch,
    lease: Duration,
}

enum Call {
    Metered(Arc<dyn Handler>, Arc<Credentials>, Permit),
    Unmetered(Arc<dyn UnmeteredHandler>),
}

enum ClaimOutcome {
    Batch(Claimed),
    /// Nothing yet. The worker asks again after this time.
    Wait(Duration),
}

/// A claimed batch in work. During an outage, and in isolation, it keeps the turn until it is settled, so no other loop claims.
struct Work {
    claimed: Claimed,
    gate_permit: OwnedSemaphorePermit,
    /// Number of failures known at the claim. Batches in flight fail together and count as one failure, so 16 of them do not
    /// cost 16 backoff steps.
    failures: u64,
    turn: Option<OwnedMutexGuard<ClaimState>>,
}

/// Describes a batch for the list of tasks.
fn describe(batch: &Batch) -> String {
    let first = batch.jobs.first().map_or("-", |job| job.id.as_str());
    let more = batch.jobs.len().saturating_sub(1);
    format!("claim {}: {first} and {more} more", batch.fence.token)
}

/// Returns true if the batch is one suspect alone. Only a suspect that also fails alone in the worker is at fault.
fn is_isolated(batch: &Batch) -> bool {
    matches!(&batch.jobs[..], [job] if job.deliveries > 0)
}

/// Text of a temporary error, as `Ok`; a permanent one, as `Err`.
fn temporary_message(error: QueueError) -> Result<String, PermanentFailure> {
    match error {
        QueueError::Gone(why) => Err(PermanentFailure(why)),
        error => Ok(error.to_string()),
    }
}

impl Worker {
    /// Works until it is stopped, then settles or releases every claimed job. If it is dropped, the leases run out.
    pub async fn run(self) -> Result<(), PermanentFailure> {
        let worker = Arc::new(self);
        let turn = Arc::new(Mutex::new(ClaimState {
            token: None,
            is_idle: true,
            backlog: None,
            retry: Retry::new(BACKOFF.0, BACKOFF.1),
            failures: 0,
            pause: None,
            changes: worker.claims.changes(),
        }));
        let free = Arc::new(Semaphore::new(IN_FLIGHT_LIMIT as usize));
        let gate = Arc::new(InFlightGate { free, due_at_once: Notify::new() });
        let running = Arc::new(AtomicUsize::new(0));
        let fatal = Arc::new(OnceLock::new());
        let (mut loops, mut number) = (JoinSet::new(), 0);
        let mut changes = worker.concurrency.changes();
        loop {
            while !worker.stop.is_draining() && running.load(Ordering::Relaxed) < *worker.concurrency.load() {
                running.fetch_add(1, Ordering::Relaxed);
                number += 1;
                let (worker, turn, fatal) = (worker.clone(), turn.clone(), fatal.clone());
                let (gate, running) = (gate.clone(), running.clone());
                let task = Task::new(worker.queue.namespace(), format!("loop {number}"));
                loops.spawn(async move {
                    let observer = PipelineObserver { health: worker.health.clone(), metrics: worker.metrics.clone() };
                    let run_loop = || worker.run_loop(&turn, &gate, &running, &fatal);
                    supervise(&task, &observer, &worker.stop, run_loop).await;
                });
            }
            tokio::select! {
                ended = loops.join_next() => if ended.is_none() { break },
                () = changes.next() => {}
            }
        }
        fatal.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Runs one loop until it must end. After a panic the supervisor restarts it: the lease of its batch runs out with a delivery
    /// counted, and a pending claim is repeated with its token.
    async fn run_loop(
        &self,
        turn: &Arc<Mutex<ClaimState>>,
        gate: &InFlightGate,
        running: &AtomicUsize,
        fatal: &OnceLock<PermanentFailure>,
    ) {
        loop {
            let failure = match self.next_work(turn.clone(), gate, running).await {
                Ok(Some(work)) => self.process(work, turn.clone(), gate).await,
                Ok(None) => break,
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                self.stop.drain();
                let _ = fatal.set(failure); // the first failure wins
            }
        }
    }

    /// Ends the caller's loop if there are too many: takes it off the count and returns true.
    fn leave_if_too_many(&self, running: &AtomicUsize) -> bool {
        let most = *self.concurrency.load();
        let one_less = |now: usize| (now > most).then(|| now - 1);
        running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// The next batch; `None` if the loop must end.
    async fn next_work(
        &self,
        turn: Arc<Mutex<ClaimState>>,
        gate: &InFlightGate,
        running: &AtomicUsize,
    ) -> Result<Option<Work>, PermanentFailure> {
        task::waits("waits for its turn to claim", None);
        let mut turn = tokio::select! {
            biased;
            () = self.stop.wait_for_drain() => return Ok(None),
            turn = turn.lock_owned() => turn,
        };
        loop {
            self.wait_for_pause(&mut turn, gate).await;
            if self.leave_if_too_many(running) {
                return Ok(None);
            }
            if self.stop.is_draining() {
                return Ok(None);
            }
            match self.try_claim(&mut turn).await {
                Ok(ClaimOutcome::Batch(claimed)) => {
                    let failures = turn.failures;
                    // There are more slots than loops, and the semaphore is never closed.
                    let Ok(gate_permit) = gate.free.clone().acquire_owned().await else { return Ok(None) };
                    let turn = (turn.retry.attempts() > 0 || is_isolated(&claimed.batch)).then_some(turn);
                    return Ok(Some(Work { claimed, gate_permit, failures, turn }));
                }
                Ok(ClaimOutcome::Wait(until)) => turn.pause = Some(until.min(LONGEST_PAUSE)),
                Err(error) => {
                    let why = temporary_message(error)?;
                    self.health.record_outage(&why);
                    self.metrics.errors.record_reason(ErrorKind::Queue, &why, ErrorPlace::default());
                    turn.pause = Some(turn.record_failure(&why));
                }
            }
        }
    }

    async fn wait_for_pause(&self, turn: &mut ClaimState, gate: &InFlightGate) {
        self.health.record_turn();
        if let Some(pause) = turn.pause.take() {
            let backs_off = turn.retry.attempts() > 0;
            tokio::select! {
                () = self.stop.sleep(pause) => {}
                () = turn.changes.next() => {}
                () = gate.due_at_once.notified(), if !backs_off => {}
            }
            task::step("works"); // even if a change cut the sleep short
            self.health.record_turn();
        }
    }

    /// Asks for a batch. A metered pipeline acquires its permit first, so that it claims nothing that it cannot look up.
    async fn try_claim(&self, turn: &mut ClaimState) -> Result<ClaimOutcome, QueueError> {
        let token = turn.token.get_or_insert_with(|| self.new_token()).clone();
        let claims = self.claims.load();
        // A permit costs two writes even if it is returned, so an idle worker only reads. A busy worker skips this read.
        if turn.is_idle {
            task::step_with("looks for work", || format!("claim {token}"));
            if let Some(Claim::Empty { wait, paused }) =
                self.queue.empty_claim(&self.claim_request(&claims, &token)).await?
            {
                return Ok(self.report_idle(wait, paused));
            }
        }
        let call = match &self.handling {
            HandlerKind::Unmetered(handler) => Call::Unmetered(handler.clone()),
            HandlerKind::Metered(handler, credentials) => {
                task::step("acquires a permit");
                match self.acquire_permit(credentials, handler.endpoint(), turn).await? {
                    AcquireOutcome::Granted(permit) => Call::Metered(handler.clone(), credentials.clone(), permit),
                    AcquireOutcome::Wait(until) => return Ok(ClaimOutcome::Wait(until)),
                }
            }
        };
        failpoint::point("after_permit");
        task::step_with("claims", || format!("claim {token}"));
        match self.claim(&claims, &token).await {
            Ok(Claim::Batch(batch)) => {
                failpoint::point("after_claim");
                (turn.token, turn.is_idle) = (None, false);
                task::step_with("handles", || describe(&batch));
                failpoint::hang("after_claim").await;
                Ok(ClaimOutcome::Batch(Claimed { call, batch, lease: claims.lease }))
            }
            Ok(Claim::Empty { wait, paused }) => {
                call.return_permit().await;
                turn.is_idle = true;
                Ok(self.report_idle(wait, paused))
            }
            Err(error) => {
                call.return_permit().await;
                Err(error)
            }
        }
    }

    /// Reports that no job can be claimed for `wait`, or that the namespace is paused for this reason.
    fn report_idle(&self, wait: Duration, paused: Option<String>) -> ClaimOutcome {
        if let Some(reason) = paused {
            tracing::debug!(namespace = self.queue.namespace(), reason, "paused");
        }
        self.health.record_success();
        ClaimOutcome::Wait(wait)
    }

    /// A token that no other claim has: replicas, and the process before a restart, may have the same worker name.
    fn new_token(&self) -> String {
        format!("{}-{:016x}", self.name, random::number())
    }

    /// Acquires a permit. Automatic pacing needs a rough number of due calls; with `early` above 0 there is always more to do.
    async fn acquire_permit(
        &self,
        credentials: &Credentials,
        endpoint: &'static str,
        turn: &mut ClaimState,
    ) -> Result<AcquireOutcome, QueueError> {
        if *self.early.load() > 0.0 {
            return credentials.acquire(endpoint, u64::from(u32::MAX)).await;
        }
        if credentials.pacing() == Pacing::Auto
            && turn.backlog.is_none_or(|backlog| backlog.read_at.elapsed() >= backlog.valid_for)
        {
            let watch = Stopwatch::start();
            let calls = self.queue.due_count().await?.div_ceil(self.claims.load().limit.max(1) as u64);
            let valid_for = (watch.elapsed() * BACKLOG_SHARE).clamp(BACKLOG_INTERVAL, LONGEST_PAUSE);
            turn.backlog = Some(Backlog { calls, read_at: Stopwatch::start(), valid_for });
        }
        let calls = turn.backlog.map_or(0, |backlog| backlog.calls);
        credentials.acquire(endpoint, calls).await
    }

    fn claim_request<'a>(&self, claims: &ClaimSettings, token: &'a str) -> ClaimRequest<'a> {
        let ClaimSettings { limit, linger, lookahead, lease } = *claims;
        ClaimRequest { token, limit, linger, lookahead, early: *self.early.load(), lease }
    }

    /// Claims. If the reply is lost, it repeats the claim with the same token, which returns the same batch.
    async fn claim(&self, claims: &ClaimSettings, token: &str) -> Result<Claim, QueueError> {
        let request = self.claim_request(claims, token);
        match self.queue.claim(&request).await {
            Err(QueueError::Unavailable(first)) => {
                tracing::debug!(
                    error = first,
                    "the worker received no answer to its claim: it repeats the claim with the same token"
                );
                self.queue.claim(&request).await
            }
            answer => answer,
        }
    }

    /// Handles a claimed batch and settles it. Returns a failure if the process can never work.
    async fn process(&self, work: Work, turn: Arc<Mutex<ClaimState>>, gate: &InFlightGate) -> Option<PermanentFailure> {
        let Work { claimed: Claimed { call, batch, lease }, gate_permit, failures, turn: kept } = work;
        let queue = &self.queue;
        let watch = Stopwatch::start();
        let late = |job: &Job| job.lateness(batch.claimed_at);
        self.metrics.record_lateness(batch.jobs.iter().filter_map(late));
        self.metrics.histograms.batch_ids.observe(batch.jobs.len() as f64);
        let in_work = InFlight::new(&self.metrics);
        self.health.record_turn();

        // Until the batch is settled no other batch is in flight.
        let (_others, isolation_failure) = match is_isolated(&batch) {
            true => self.isolate(&batch, lease / 4, &gate.free).await,
            false => (None, None),
        };
        let handled = if let Some(outlook) = isolation_failure {
            call.return_permit().await;
            BatchOutcome::released(&batch, outlook)
        } else if batch.fence.deadline - batch.now.now() < clock::millis(lease) / 2 {
            // The claim's reply came late: too little of the lease is left to finish in it.
            call.return_permit().await;
            BatchOutcome::released(&batch, Outlook::Unchanged)
        } else if let Some(why) = call.clock_error(batch.now.now()) {
            BatchOutcome::released(&batch, Outlook::Outage(why))
        } else {
            tokio::select! {
                biased;
                handled = clock::with_queue_clock(batch.now, call.handle(&batch)) => handled,
                () = self.stop.wait_for_abandon() => self.handling.handle_abandoned(&batch),
            }
        };
        let handled_ms = watch.elapsed_ms();
        self.health.record_turn();
        task::step("settles");
        let settling = Stopwatch::start();
        let settled = self.settle(&batch, &handled).await;
        self.metrics.histograms.settle_seconds.observe(settling.elapsed().as_secs_f64());
        drop(in_work);
        clock::with_queue_clock(batch.now, async { self.record_outcome(&handled) }).await;
        let now = batch.now.now();
        let is_due = |verdict: &Verdict| matches!(verdict, Verdict::Reschedule { due, .. } if due.moment(now) <= now);
        if handled.verdicts.iter().any(|(_, verdict)| is_due(verdict)) {
            gate.due_at_once.notify_one();
        }

        tracing::info!(
            namespace = queue.namespace(),
            ids = batch.jobs.len(),
            late_max_ms = batch.jobs.iter().filter_map(late).max().unwrap_or(0),
            handled_ms,
            settle_ms = settling.elapsed_ms(),
            settled = settled.settled,
            lost = settled.lost,
            released = handled.release.len(),
            "batch"
        );
        // A batch in isolation that has the turn waits for this slot.
        drop(gate_permit);
        // Without an outage there is nothing to note, unless this batch has the turn. Another loop may hold it while the queue is empty.
        let mut turn = match (kept, &handled.outlook) {
            (Some(turn), _) => turn,
            (None, Outlook::Outage(_)) => turn.lock_owned().await,
            (None, Outlook::Stop(message)) => return Some(PermanentFailure(message.clone())),
            (None, Outlook::Fine | Outlook::Unchanged) => return None,
        };
        match handled.outlook {
            Outlook::Fine => turn.record_success(),
            Outlook::Unchanged => {}
            Outlook::Outage(why) if failures == turn.failures => turn.pause = Some(turn.record_failure(&why)),
            Outlook::Outage(why) => tracing::debug!(error = why, "the same outage continues"),
            Outlook::Stop(message) => return Some(PermanentFailure(message)),
        }
        None
    }

    fn record_outcome(&self, handled: &BatchOutcome) {
        self.health.record_turn();
        let errors = &self.metrics.errors;
        for (job, verdict) in &handled.verdicts {
            if let Verdict::MarkDead { reason } = verdict {
                errors.record(ErrorKind::Dead, reason, ErrorPlace { example: Some(&job.id), ..ErrorPlace::default() });
            }
        }
        match &handled.outlook {
            Outlook::Fine => {
                self.health.record_success();
                self.metrics.last_call.record_answer();
            }
            Outlook::Outage(why) | Outlook::Stop(why) => {
                self.health.record_outage(why);
                self.metrics.last_call.record_failure(why);
                let is_stop = matches!(handled.outlook, Outlook::Stop(_));
                let kind = if is_stop { ErrorKind::Stopped } else { ErrorKind::Outage };
                errors.record_reason(kind, why, ErrorPlace::default());
            }
            Outlook::Unchanged => {}
        }
    }

    /// Waits until no other batch is in flight, and marks the trial: if the process ends now, this job is at fault.
    /// Returns the permits that block the others, or the outlook if that failed.
    async fn isolate<'a>(
        &self,
        batch: &Batch,
        patience: Duration,
        in_flight: &'a Semaphore,
    ) -> (Option<SemaphorePermit<'a>>, Option<Outlook>) {
        let Ok(Ok(others)) = tokio::time::timeout(patience, in_flight.acquire_many(IN_FLIGHT_LIMIT - 1)).await else {
            return (None, Some(Outlook::Unchanged));
        };
        match self.queue.mark_trial(&batch.fence).await {
            Ok(true) => (Some(others), None),
            Ok(false) => (None, Some(Outlook::Unchanged)), // the lease has run out
            Err(error) => (None, Some(Outlook::Outage(error.to_string()))),
        }
    }

    /// Settles and releases, with retries while the lease lasts. Jobs that are not settled by then are claimed again.
    async fn settle(&self, batch: &Batch, handled: &BatchOutcome) -> SettleOutcome {
        let queue = &self.queue;
        let (Batch { fence, now, .. }, BatchOutcome { verdicts, release, tally, .. }) = (batch, handled);
        let mut sum = SettleOutcome::default();
        let mut retry = Retry::new(SETTLE_BACKOFF.0, SETTLE_BACKOFF.1);
        let (mut verdicts_left, mut release_left) = (!verdicts.is_empty(), !release.is_empty());
        loop {
            let step = async {
                if verdicts_left {
                    failpoint::point("before_settle");
                    let SettleOutcome { settled, lost } = queue.settle(fence, verdicts, tally).await?;
                    (verdicts_left, sum.settled, sum.lost) = (false, sum.settled + settled, sum.lost + lost);
                    failpoint::point("after_settle");
                }
                if release_left {
                    failpoint::point("before_release");
                    let SettleOutcome { settled, lost } = queue.release(fence, release).await?;
                    (release_left, sum.settled, sum.lost) = (false, sum.settled + settled, sum.lost + lost);
                    failpoint::point("after_release");
                }
                Ok::<_, QueueError>(())
            };
            let Err(error) = step.await else { break };
            self.metrics.errors.record_reason(ErrorKind::Queue, &error.to_string(), ErrorPlace::default());
            // Past the lease's end, by the queue's clock, the fence holds no job.
            if now.now() >= fence.deadline || matches!(error, QueueError::Refused(_) | QueueError::Gone(_)) {
                let ids = verdicts.len() + release.len();
                tracing::error!(error = %error, ids, "settling the batch failed: its jobs return when their lease expires");
                break;
            }
            tracing::warn!(error = %error, attempt = retry.attempts() + 1, "settling the batch failed: the worker tries again");
            tokio::select! {
                biased;
                () = self.stop.wait_for_abandon() => break,
                () = tokio::time::sleep(retry.next_delay()) => {}
            }
        }
        if sum.lost > 0 {
            tracing::warn!(
                lost = sum.lost,
                "some jobs were not settled: their lease had expired, or an earlier attempt had settled them"
            );
        }
        sum
    }
}

impl Call {
    async fn handle(self, batch: &Batch) -> BatchOutcome {
        match self {
            Self::Metered(handler, _, permit) => handler.handle(batch, permit).await,
            Self::Unmetered(handler) => handler.handle(batch).await,
        }
    }

    /// Error if the queue's clock (`queue`, ms since the epoch) is too far ahead of this machine's. Handlers that call an API
    /// compare it with the API's clock instead.
    fn clock_error(&self, queue: Millis) -> Option<String> {
        let ahead = queue.saturating_sub(clock::wall_ms());
        (matches!(self, Self::Unmetered(_)) && ahead > FURTHEST_AHEAD_MS).then(|| {
            let ahead = humanize::span(ahead);
            format!("the queue's clock is {ahead} ahead of this machine's: nothing is saved until one of the clocks is corrected")
        })
    }

    /// Returns the permit of a call that is not made.
    async fn return_permit(self) {
        if let Self::Metered(_, credentials, permit) = self {
            credentials.return_permit(permit).await;
        }
    }
}

impl ClaimState {
    fn record_failure(&mut self, why: &str) -> Duration {
        self.failures += 1;
        let delay = self.retry.next_delay();
        let attempt = self.retry.attempts();
        tracing::warn!(error = why, attempt, delay_ms = clock::millis(delay), "a service is unavailable: backing off");
        delay
    }

    fn record_success(&mut self) {
        if self.retry.attempts() > 0 {
            tracing::info!(attempts = self.retry.attempts(), "the service works again");
        }
        self.retry.reset();
        self.pause = None;
    }
}
