//! The worker loop: permit → claim → handle → settle. It does not depend on the kind of items.
//!
//! A worker serves one pipeline, so no pipeline waits for the API, outages or batches of another. It runs one loop per batch
//! that may be in flight; that number may change. The loops take turns to ask for work. So an idle worker asks the queue once
//! per wait, and a worker that met an outage sends one probe per backoff step.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::base::clock::{self, FURTHEST_AHEAD_MS, Millis, Stopwatch};
use crate::base::failpoint;
use crate::base::humanize;
use crate::base::random;
use crate::base::reload::{Changes, Reloadable};
use crate::base::retry::Retry;
use crate::base::shutdown::Stop;
use crate::base::supervise::supervise;
use crate::base::task::{self, Task};
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::health::Health;
use crate::engine::metrics::Metrics;
use crate::engine::observer::PipelineObserver;
use crate::engine::queue::{Batch, Claim, ClaimRequest, Job, Queue, QueueError, Settled, Verdict};
use crate::quota::{Acquired, Credentials, Pacing, Permit};

/// Longest pause before the loop looks for work again.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// First and longest delay of a process that meets an outage. One probe per five seconds on average does not burden a service.
/// Everything is up to date again within 15 s of the end of an outage.
pub const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// The same for a call to the queue that must succeed before the lease ends.
const SETTLE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Shortest interval at which the worker asks the queue for the number of due ids.
const BACKLOG_EVERY: Duration = Duration::from_secs(1);
/// The worker spends at most 1/50 of its time on that. A file counts a million in 0.4 s.
const BACKLOG_SHARE: u32 = 50;

/// Slots for batches in flight: more than there are loops, so only a batch in isolation waits, as it takes all of them.
const PLACES: u32 = 1 << 20;

/// Handles the batches of a pipeline with metered calls: each batch brings a permit.
#[async_trait]
pub trait Handler: Send + Sync {
    fn endpoint(&self) -> &'static str;

    /// Does the work. It must end well before the lease does, even if services hang. It may be dropped at any await: work that it
    /// has not returned is done again.
    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled;

    /// The result for a batch whose work was dropped. By default the jobs are released, uncounted. A handler whose jobs may be
    /// half done returns them with a counted delivery instead.
    fn handle_abandoned(&self, batch: &Batch) -> Handled {
        Handled::released(batch, Outlook::Unchanged)
    }
}

/// Handles the batches of a pipeline without a quota: the worker acquires no permit.
#[async_trait]
pub trait FreeHandler: Send + Sync {
    /// Does the work, under the same rules as [`Handler::handle`].
    async fn handle(&self, batch: &Batch) -> Handled;
}

#[derive(Clone)]
pub enum Handling {
    /// The worker acquires a permit of these credentials for the handler's endpoint before it claims.
    Metered(Arc<dyn Handler>, Arc<Credentials>),
    /// The worker claims without a permit, even while every quota is used up.
    Free(Arc<dyn FreeHandler>),
}

/// The result of a batch. Jobs in neither list stay leased until the lease ends.
#[derive(Debug, Default)]
pub struct Handled {
    pub verdicts: Vec<(Job, Verdict)>,
    /// Jobs to release at once, uncounted.
    pub release: Vec<Job>,
    /// Counters to add to the namespace's in the same step as the verdicts, if one of them is applied.
    pub tally: Vec<(&'static str, i64)>,
    pub outlook: Outlook,
}

/// Effect of a batch on the process.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Outlook {
    #[default]
    Fine,
    /// No fault of the services, and no sign that they work either, for example without quota.
    Unchanged,
    /// A service is down: back off.
    Outage(String),
    /// The pipeline can never work: stop the process with this message.
    Stop(String),
}

impl Handled {
    /// Releases the whole batch, uncounted.
    #[must_use]
    pub fn released(batch: &Batch, outlook: Outlook) -> Self {
        Self { release: batch.jobs.clone(), outlook, ..Self::default() }
    }
}

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
    pub handling: Handling,
    /// Changes apply from the next claim on.
    pub claims: Reloadable<ClaimSettings>,
    /// See [`ClaimRequest::early`]. Above 0 the calls are spread evenly over the quota window, so that all of it is used.
    pub early: Reloadable<f64>,
    /// Maximum number of batches in flight. If it falls, the worker finishes the batches in flight and claims none until there
    /// are few enough.
    pub concurrency: Reloadable<usize>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
}

/// Number of calls that were due when the queue was last asked.
#[derive(Clone, Copy)]
struct Backlog {
    calls: u64,
    asked: Stopwatch,
    /// Time until the queue is asked again; longer if counting takes long.
    good_for: Duration,
}

struct ClaimState {
    /// Token of a claim that has brought no batch yet. Its reply may have been lost, so the worker repeats the claim with this
    /// token until a batch comes.
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

struct Places {
    free: Arc<Semaphore>,
    /// Signals that a batch left a job that is due at once, so a loop that waits for due jobs can go on.
    due_at_once: Notify,
}

struct Claimed {
    call: Call,
    batch: Batch,
    lease: Duration,
}

enum Call {
    Metered(Arc<dyn Handler>, Arc<Credentials>, Permit),
    Free(Arc<dyn FreeHandler>),
}

enum ClaimOutcome {
    Batch(Claimed),
    /// Nothing yet. The worker asks again after this time.
    Wait(Duration),
}

/// A claimed batch in work. While a service is down (one probe per backoff step), and in isolation, it keeps the turn until it
/// is settled. So no other loop claims.
struct Work {
    claimed: Claimed,
    place: OwnedSemaphorePermit,
    /// Number of failures known when the batch was claimed. Batches in flight together fail together and count as one failure:
    /// otherwise a short fault with 16 batches in flight would cost 16 backoff steps.
    failures: u64,
    turn: Option<OwnedMutexGuard<ClaimState>>,
}

/// Counts a batch as in flight until it is dropped, even by a panic.
struct InFlight<'a>(&'a Metrics);

impl<'a> InFlight<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.in_flight.inc();
        Self(metrics)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

/// Describes a batch for the list of tasks.
fn describe(batch: &Batch) -> String {
    let first = batch.jobs.first().map_or("-", |job| job.id.as_str());
    let more = batch.jobs.len().saturating_sub(1);
    format!("claim {}: {first} and {more} more", batch.fence.token)
}

/// Returns true if the batch is one suspect alone. Batches of suspects are halved until each suspect is alone in its batch. A
/// suspect is at fault if it fails while it is alone in the worker, too.
fn is_isolated(batch: &Batch) -> bool {
    matches!(&batch.jobs[..], [job] if job.deliveries > 0)
}

/// The text of a temporary error. A permanent one is returned as `Err`.
fn passing(error: QueueError) -> Result<String, String> {
    match error {
        QueueError::Gone(why) => Err(why),
        error => Ok(error.to_string()),
    }
}

impl Worker {
    /// Works until it is stopped, then settles or releases every claimed job. If it is dropped, the loops end where they are and
    /// the leases run out. The error is the message of a handler that can never work, or of a queue whose file is gone.
    pub async fn run(self) -> Result<(), String> {
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
        let free = Arc::new(Semaphore::new(PLACES as usize));
        let places = Arc::new(Places { free, due_at_once: Notify::new() });
        let running = Arc::new(AtomicUsize::new(0));
        let fatal = Arc::new(OnceLock::new());
        let (mut loops, mut number) = (JoinSet::new(), 0);
        let mut changes = worker.concurrency.changes();
        loop {
            while !worker.stop.is_draining() && running.load(Ordering::Relaxed) < *worker.concurrency.load() {
                running.fetch_add(1, Ordering::Relaxed);
                number += 1;
                let (worker, turn, fatal) = (worker.clone(), turn.clone(), fatal.clone());
                let (places, running) = (places.clone(), running.clone());
                let task = Task::new(worker.queue.namespace(), format!("loop {number}"));
                loops.spawn(async move {
                    let observer = PipelineObserver { health: worker.health.clone(), metrics: worker.metrics.clone() };
                    let turn_on = || worker.turn_on(&turn, &places, &running, &fatal);
                    supervise(&task, &observer, &worker.stop, turn_on).await;
                });
            }
            tokio::select! {
                ended = loops.join_next() => if ended.is_none() { break },
                () = changes.next() => {}
            }
        }
        fatal.get().map_or(Ok(()), |message| Err(message.clone()))
    }

    /// Runs one loop until it must end. After a panic the supervisor restarts it as if its batch had been dropped. The lease of
    /// that batch runs out with a delivery counted, and a pending claim is repeated with its token.
    async fn turn_on(
        &self,
        turn: &Arc<Mutex<ClaimState>>,
        places: &Places,
        running: &AtomicUsize,
        fatal: &OnceLock<String>,
    ) {
        loop {
            let message = match self.next(turn.clone(), places, running).await {
                Ok(Some(work)) => self.work(work, turn.clone(), places).await,
                Ok(None) => break,
                Err(message) => Some(message),
            };
            if let Some(message) = message {
                self.stop.drain();
                let _ = fatal.set(message); // the first message wins
            }
        }
    }

    /// Takes one loop off the count if there are too many. Returns true if the caller must end.
    fn is_one_too_many(&self, running: &AtomicUsize) -> bool {
        let most = *self.concurrency.load();
        let one_less = |now: usize| (now > most).then(|| now - 1);
        running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// The next batch; `None` if the loop must end. The error is a message: the process can never work.
    async fn next(
        &self,
        turn: Arc<Mutex<ClaimState>>,
        places: &Places,
        running: &AtomicUsize,
    ) -> Result<Option<Work>, String> {
        task::waits("waits for its turn to claim", None);
        let mut turn = tokio::select! {
            biased;
            () = self.stop.draining() => return Ok(None),
            turn = turn.lock_owned() => turn,
        };
        loop {
            self.rest(&mut turn, places).await;
            if self.is_one_too_many(running) {
                return Ok(None);
            }
            if self.stop.is_draining() {
                return Ok(None);
            }
            match self.ask(&mut turn).await {
                Ok(ClaimOutcome::Batch(claimed)) => {
                    let failures = turn.failures;
                    // There are more slots than loops, and the semaphore is never closed.
                    let Ok(place) = places.free.clone().acquire_owned().await else { return Ok(None) };
                    let turn = (turn.retry.attempts() > 0 || is_isolated(&claimed.batch)).then_some(turn);
                    return Ok(Some(Work { claimed, place, failures, turn }));
                }
                Ok(ClaimOutcome::Wait(until)) => turn.pause = Some(until.min(LONGEST_PAUSE)),
                Err(error) => {
                    let why = passing(error)?;
                    self.health.is_out(&why);
                    self.metrics.errors.record_reason(ErrorKind::Queue, &why, ErrorPlace::default());
                    turn.pause = Some(turn.failed(&why));
                }
            }
        }
    }

    async fn rest(&self, turn: &mut ClaimState, places: &Places) {
        self.health.beat();
        if let Some(pause) = turn.pause.take() {
            let backs_off = turn.retry.attempts() > 0;
            tokio::select! {
                () = self.stop.sleep(pause) => {}
                () = turn.changes.next() => {}
                () = places.due_at_once.notified(), if !backs_off => {}
            }
            task::step("works"); // even if a change cut the sleep short
            self.health.beat();
        }
    }

    /// Asks for a batch. A metered pipeline acquires its permit first, so that it claims nothing that it cannot look up.
    async fn ask(&self, turn: &mut ClaimState) -> Result<ClaimOutcome, QueueError> {
        let token = turn.token.get_or_insert_with(|| self.token()).clone();
        let claims = self.claims.load();
        // A permit costs two writes even if it is returned, so an idle worker only reads. A busy worker skips this read.
        if turn.is_idle {
            task::step_with("looks for work", || format!("claim {token}"));
            if let Some(Claim::Empty { wait, paused }) = self.queue.empty_claim(&self.request(&claims, &token)).await? {
                return Ok(self.report_idle(wait, paused));
            }
        }
        let call = match &self.handling {
            Handling::Free(handler) => Call::Free(handler.clone()),
            Handling::Metered(handler, credentials) => {
                task::step("acquires a permit");
                match self.permit(credentials, handler.endpoint(), turn).await? {
                    Acquired::Granted(permit) => Call::Metered(handler.clone(), credentials.clone(), permit),
                    Acquired::Wait(until) => return Ok(ClaimOutcome::Wait(until)),
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
                call.give_back().await;
                turn.is_idle = true;
                Ok(self.report_idle(wait, paused))
            }
            Err(error) => {
                call.give_back().await;
                Err(error)
            }
        }
    }

    /// Reports that no job can be claimed for `wait`, or that the namespace is paused for this reason.
    fn report_idle(&self, wait: Duration, paused: Option<String>) -> ClaimOutcome {
        if let Some(reason) = paused {
            tracing::debug!(namespace = self.queue.namespace(), reason, "paused");
        }
        self.health.works();
        ClaimOutcome::Wait(wait)
    }

    /// A token that no other claim has. Replicas that share a configuration have the same worker name, and so has the process
    /// before a restart of its container.
    fn token(&self) -> String {
        format!("{}-{:016x}", self.name, random::number())
    }

    /// Acquires a permit. Automatic pacing spreads calls over the window if more are due than the quota allows, so it needs a
    /// rough, recent number of due calls. With `early` above 0 there is always more to do.
    async fn permit(
        &self,
        credentials: &Credentials,
        endpoint: &'static str,
        turn: &mut ClaimState,
    ) -> Result<Acquired, QueueError> {
        if *self.early.load() > 0.0 {
            return credentials.acquire(endpoint, u64::from(u32::MAX)).await;
        }
        if credentials.pacing() == Pacing::Auto
            && turn.backlog.is_none_or(|backlog| backlog.asked.elapsed() >= backlog.good_for)
        {
            let watch = Stopwatch::start();
            let calls = self.queue.due().await?.div_ceil(self.claims.load().limit.max(1) as u64);
            let good_for = (watch.elapsed() * BACKLOG_SHARE).clamp(BACKLOG_EVERY, LONGEST_PAUSE);
            turn.backlog = Some(Backlog { calls, asked: Stopwatch::start(), good_for });
        }
        let calls = turn.backlog.map_or(0, |backlog| backlog.calls);
        credentials.acquire(endpoint, calls).await
    }

    fn request<'a>(&self, claims: &ClaimSettings, token: &'a str) -> ClaimRequest<'a> {
        let ClaimSettings { limit, linger, lookahead, lease } = *claims;
        ClaimRequest { token, limit, linger, lookahead, early: *self.early.load(), lease }
    }

    /// Claims. If the reply is lost, it repeats the claim with the same token, which returns the same batch.
    async fn claim(&self, claims: &ClaimSettings, token: &str) -> Result<Claim, QueueError> {
        let request = self.request(claims, token);
        match self.queue.claim(&request).await {
            Err(QueueError::Unavailable(first)) => {
                tracing::debug!(error = first, "the claim's answer is lost: asking again with its token");
                self.queue.claim(&request).await
            }
            answer => answer,
        }
    }

    /// Handles a claimed batch and settles it. Returns a message if the process can never work.
    async fn work(&self, work: Work, turn: Arc<Mutex<ClaimState>>, places: &Places) -> Option<String> {
        let Work { claimed: Claimed { call, batch, lease }, place, failures, turn: kept } = work;
        let queue = &self.queue;
        let watch = Stopwatch::start();
        let late = |job: &Job| job.lateness(batch.claimed_at);
        self.metrics.late(batch.jobs.iter().filter_map(late));
        self.metrics.histograms.batch_ids.observe(batch.jobs.len() as f64);
        let in_work = InFlight::new(&self.metrics);
        self.health.beat();

        // Until the batch is settled no other batch is in flight.
        let (_others, in_the_way) = match is_isolated(&batch) {
            true => self.isolate(&batch, lease / 4, &places.free).await,
            false => (None, None),
        };
        let handled = if let Some(outlook) = in_the_way {
            call.give_back().await;
            Handled::released(&batch, outlook)
        } else if batch.fence.deadline - batch.now.now() < clock::millis(lease) / 2 {
            // The claim's reply came late: too little of the lease is left to finish in it.
            call.give_back().await;
            Handled::released(&batch, Outlook::Unchanged)
        } else if let Some(why) = call.clock_doubt(batch.now.now()) {
            Handled::released(&batch, Outlook::Outage(why))
        } else {
            tokio::select! {
                biased;
                handled = clock::by_queue(batch.now, call.handle(&batch)) => handled,
                () = self.stop.abandoning() => self.handling.handle_abandoned(&batch),
            }
        };
        let handled_ms = watch.elapsed_ms();
        self.health.beat();
        task::step("settles");
        let settling = Stopwatch::start();
        let settled = self.settle(&batch, &handled).await;
        self.metrics.histograms.settle_seconds.observe(settling.elapsed().as_secs_f64());
        drop(in_work);
        clock::by_queue(batch.now, async { self.note(&handled) }).await;
        let now = batch.now.now();
        let is_due = |verdict: &Verdict| matches!(verdict, Verdict::Reschedule { due, .. } if due.moment(now) <= now);
        if handled.verdicts.iter().any(|(_, verdict)| is_due(verdict)) {
            places.due_at_once.notify_one();
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
        drop(place);
        // Without an outage there is nothing to note, unless this batch has the turn. Another loop may hold it while the queue is empty.
        let mut turn = match (kept, &handled.outlook) {
            (Some(turn), _) => turn,
            (None, Outlook::Outage(_)) => turn.lock_owned().await,
            (None, Outlook::Stop(message)) => return Some(message.clone()),
            (None, Outlook::Fine | Outlook::Unchanged) => return None,
        };
        match handled.outlook {
            Outlook::Fine => turn.works(),
            Outlook::Unchanged => {}
            Outlook::Outage(why) if failures == turn.failures => turn.pause = Some(turn.failed(&why)),
            Outlook::Outage(why) => tracing::debug!(error = why, "the known failure continues"),
            Outlook::Stop(message) => return Some(message),
        }
        None
    }

    /// Records the state of the services, if the batch shows it.
    fn note(&self, handled: &Handled) {
        self.health.beat();
        let errors = &self.metrics.errors;
        for (job, verdict) in &handled.verdicts {
            if let Verdict::Bury { reason } = verdict {
                errors.record(ErrorKind::Dead, reason, ErrorPlace { example: Some(&job.id), ..ErrorPlace::default() });
            }
        }
        match &handled.outlook {
            Outlook::Fine => {
                self.health.works();
                self.metrics.last_call.answered();
            }
            Outlook::Outage(why) | Outlook::Stop(why) => {
                self.health.is_out(why);
                self.metrics.last_call.failed(why);
                let is_stop = matches!(handled.outlook, Outlook::Stop(_));
                let kind = if is_stop { ErrorKind::Stopped } else { ErrorKind::Outage };
                errors.record_reason(kind, why, ErrorPlace::default());
            }
            Outlook::Unchanged => {}
        }
    }

    /// Waits until no other batch is in flight, and has the queue note that: if the process ends now, this job is at fault.
    /// Returns the permits that block the others, or the outcome if that failed.
    async fn isolate<'a>(
        &self,
        batch: &Batch,
        patience: Duration,
        in_flight: &'a Semaphore,
    ) -> (Option<SemaphorePermit<'a>>, Option<Outlook>) {
        let Ok(Ok(others)) = tokio::time::timeout(patience, in_flight.acquire_many(PLACES - 1)).await else {
            return (None, Some(Outlook::Unchanged));
        };
        match self.queue.try_alone(&batch.fence).await {
            Ok(true) => (Some(others), None),
            Ok(false) => (None, Some(Outlook::Unchanged)), // the lease has run out
            Err(error) => (None, Some(Outlook::Outage(error.to_string()))),
        }
    }

    /// Settles and releases, with retries while the lease lasts. Jobs that are not settled by then are not lost: the lease runs out
    /// and they are claimed again.
    async fn settle(&self, batch: &Batch, handled: &Handled) -> Settled {
        let queue = &self.queue;
        let (Batch { fence, now, .. }, Handled { verdicts, release, tally, .. }) = (batch, handled);
        let mut sum = Settled::default();
        let mut retry = Retry::new(SETTLE_BACKOFF.0, SETTLE_BACKOFF.1);
        let (mut verdicts_left, mut release_left) = (!verdicts.is_empty(), !release.is_empty());
        loop {
            let step = async {
                if verdicts_left {
                    failpoint::point("before_settle");
                    let Settled { settled, lost } = queue.settle(fence, verdicts, tally).await?;
                    (verdicts_left, sum.settled, sum.lost) = (false, sum.settled + settled, sum.lost + lost);
                    failpoint::point("after_settle");
                }
                if release_left {
                    failpoint::point("before_release");
                    let Settled { settled, lost } = queue.release(fence, release).await?;
                    (release_left, sum.settled, sum.lost) = (false, sum.settled + settled, sum.lost + lost);
                    failpoint::point("after_release");
                }
                Ok::<_, QueueError>(())
            };
            let Err(error) = step.await else { break };
            self.metrics.errors.record_reason(ErrorKind::Queue, &error.to_string(), ErrorPlace::default());
            // Past the lease's end, by the queue's clock, the fence holds no job.
            if now.now() >= fence.deadline || matches!(error, QueueError::Refused(_) | QueueError::Gone(_)) {
                tracing::error!(error = %error, ids = verdicts.len() + release.len(), "not settled: the lease will expire");
                break;
            }
            tracing::warn!(error = %error, attempt = retry.attempts() + 1, "settle failed, trying again");
            tokio::select! {
                biased;
                () = self.stop.abandoning() => break,
                () = tokio::time::sleep(retry.next_delay()) => {}
            }
        }
        if sum.lost > 0 {
            tracing::warn!(lost = sum.lost, "the lease had expired, or the first answer was lost: nothing changed");
        }
        sum
    }
}

impl Handling {
    fn handle_abandoned(&self, batch: &Batch) -> Handled {
        match self {
            Self::Metered(handler, _) => handler.handle_abandoned(batch),
            Self::Free(_) => Handled::released(batch, Outlook::Unchanged),
        }
    }
}

impl Call {
    async fn handle(self, batch: &Batch) -> Handled {
        match self {
            Self::Metered(handler, _, permit) => handler.handle(batch, permit).await,
            Self::Free(handler) => handler.handle(batch).await,
        }
    }

    /// The reason not to trust the queue's clock if it is too far ahead of this machine's. `queue` is the queue's time, ms since the
    /// epoch. Handlers that call an API compare it with the API's clock instead.
    fn clock_doubt(&self, queue: Millis) -> Option<String> {
        let ahead = queue.saturating_sub(clock::wall_ms());
        (matches!(self, Self::Free(_)) && ahead > FURTHEST_AHEAD_MS).then(|| {
            let ahead = humanize::span(ahead);
            format!("the queue's clock is {ahead} ahead of this machine's: nothing is saved until one of the clocks is corrected")
        })
    }

    /// Returns the permit of a call that is not made.
    async fn give_back(self) {
        if let Self::Metered(_, credentials, permit) = self {
            credentials.give_back(permit).await;
        }
    }
}

impl ClaimState {
    /// Records one more failure and returns the delay before the next attempt.
    fn failed(&mut self, why: &str) -> Duration {
        self.failures += 1;
        let delay = self.retry.next_delay();
        let attempt = self.retry.attempts();
        tracing::warn!(error = why, attempt, delay_ms = clock::millis(delay), "a service is out: backing off");
        delay
    }

    fn works(&mut self) {
        if self.retry.attempts() > 0 {
            tracing::info!(attempts = self.retry.attempts(), "works again");
        }
        self.retry.succeeded();
        self.pause = None;
    }
}
