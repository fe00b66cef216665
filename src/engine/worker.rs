//! The worker loop: permit → claim → handle → settle. It does not depend on the kind of items.
//!
//! A worker serves one pipeline, so that no other waits for its API, its outages or its batches. It runs as many of
//! these loops as it may have batches in flight; that figure may change. They take turns at asking for work, so an idle
//! one asks the queue once per wait, and one that met an outage sends one probe per back-off step.

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
use crate::engine::observer::Seen;
use crate::engine::queue::{Batch, Claim, ClaimRequest, Job, Queue, QueueError, Settled, Verdict};
use crate::quota::{Acquired, Credentials, Pacing, Permit};

/// The loop looks for work at least this often.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The first and the longest delay of a process that meets an outage. A probe every five seconds on average is no burden for
/// a service, and everything is up to date again within 15 s of the end of an outage.
pub const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// The same for one call to the queue that has to be made, while the lease lasts.
const SETTLE_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The shortest interval at which the queue is asked for the number of due ids.
const BACKLOG_EVERY: Duration = Duration::from_secs(1);
/// The share of time that may go into that: one in so many. A file counts a million in 0.4 s.
const BACKLOG_SHARE: u32 = 50;

/// Places for batches in flight: more than there are loops, so that nobody waits for one but a batch in isolation,
/// which takes them all.
const PLACES: u32 = 1 << 20;

/// Handles the batches of a pipeline whose calls are metered: each batch brings a permit.
#[async_trait]
pub trait Handler: Send + Sync {
    /// The endpoint whose quota a batch needs.
    fn endpoint(&self) -> &'static str;

    /// Does the work. It ends well before the lease does, whatever the services do, and may be
    /// dropped at any await: what it has not said in its answer is done again.
    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled;

    /// Says what to do with a batch whose work was dropped. By default it is given back, uncounted. A handler whose jobs may
    /// be half done has a delivery of them counted.
    fn cut_off(&self, batch: &Batch) -> Handled {
        Handled::released(batch, Outlook::Unchanged)
    }
}

/// Handles the batches of a pipeline without a quota: no permit is asked for.
#[async_trait]
pub trait FreeHandler: Send + Sync {
    /// Does the work. The same holds as for [`Handler::handle`].
    async fn handle(&self, batch: &Batch) -> Handled;
}

/// Handler of a pipeline, and whether its batches need permits.
#[derive(Clone)]
pub enum Handling {
    /// The worker acquires a permit of these credentials for the handler's endpoint before it claims.
    Metered(Arc<dyn Handler>, Arc<Credentials>),
    /// The worker claims without a permit, also while every quota is used up.
    Free(Arc<dyn FreeHandler>),
}

/// The result of a batch. Jobs in neither list stay leased until the lease ends.
#[derive(Debug, Default)]
pub struct Handled {
    /// Jobs with their verdicts.
    pub verdicts: Vec<(Job, Verdict)>,
    /// Jobs to give back at once, uncounted.
    pub release: Vec<Job>,
    /// Counters to add to the namespace's in the same step as the verdicts, if one of them is applied.
    pub tally: Vec<(&'static str, i64)>,
    /// How the process should continue.
    pub outlook: Outlook,
}

/// The outcome of a batch for the process.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Outlook {
    /// All is well.
    #[default]
    Fine,
    /// No fault of the services, and no sign that they work either: no quota, say.
    Unchanged,
    /// A service is out: back off.
    Outage(String),
    /// The pipeline can never work: stop the process with this message.
    Stop(String),
}

impl Handled {
    /// The whole batch goes back, uncounted.
    #[must_use]
    pub fn released(batch: &Batch, outlook: Outlook) -> Self {
        Self { release: batch.jobs.clone(), outlook, ..Self::default() }
    }
}

/// The settings for claims of a pipeline.
#[derive(Debug, Clone, Copy)]
pub struct ClaimSettings {
    /// The maximum number of ids in a batch.
    pub limit: usize,
    /// See [`ClaimRequest::linger`].
    pub linger: Duration,
    /// See [`ClaimRequest::lookahead`].
    pub lookahead: f64,
    /// See [`ClaimRequest::lease`].
    pub lease: Duration,
}

/// The loops of one pipeline.
pub struct Worker {
    /// Its name in the queue.
    pub name: String,
    /// The pipeline's queue.
    pub queue: Arc<dyn Queue>,
    /// Its handler, with or without a quota.
    pub handling: Handling,
    /// The settings for claims, applied from the next claim on.
    pub claims: Reloadable<ClaimSettings>,
    /// See [`ClaimRequest::early`]; above 0 the calls are spread evenly over the quota's window, so that all of it is used.
    pub early: Reloadable<f64>,
    /// The maximum number of batches in flight. If it is lowered, those in flight are finished, and none is claimed
    /// until they are few enough.
    pub concurrency: Reloadable<usize>,
    /// Its counters.
    pub metrics: Arc<Metrics>,
    /// Its health.
    pub health: Arc<Health>,
    /// When it ends.
    pub stop: Stop,
}

/// How many calls were due.
#[derive(Clone, Copy)]
struct Backlog {
    calls: u64,
    asked: Stopwatch,
    /// When it is asked again: later where counting takes long.
    good_for: Duration,
}

/// State shared by the loops: the turn to claim, and the state of the services.
struct ClaimState {
    /// The token of a claim that has brought no batch yet. Its answer may have been lost, so it is made again under
    /// that token until a batch comes.
    token: Option<String>,
    /// True until a claim brings a batch, and after one that brings none.
    is_idle: bool,
    /// Calls that were due when that was last asked.
    backlog: Option<Backlog>,
    /// Delays while a service is out.
    retry: Retry,
    /// Failures so far.
    failures: u64,
    /// The wait before the next claim.
    pause: Option<Duration>,
    /// Other claim settings end the wait: it was reckoned from the old ones.
    changes: Changes,
}

/// The places of batches, and who waits for work.
struct Places {
    /// Those that are free.
    free: Arc<Semaphore>,
    /// A batch has left something that is due at once: who waits for what comes due need wait no longer.
    due_at_once: Notify,
}

/// A claimed batch, and what handles it.
struct Claimed {
    call: Call,
    batch: Batch,
    /// The lease it was claimed for.
    lease: Duration,
}

/// A handler with all it needs for one batch.
enum Call {
    Metered(Arc<dyn Handler>, Arc<Credentials>, Permit),
    Free(Arc<dyn FreeHandler>),
}

/// Answer of the pipeline that was asked for a batch.
enum Asked {
    Batch(Claimed),
    /// Nothing yet; it may be worth asking again after this.
    Wait(Duration),
}

/// A claimed batch on its way. It keeps the turn until it is settled, so that nothing else is asked for,
/// while a service is out (one probe per back-off step) and when it is in isolation.
struct Work {
    claimed: Claimed,
    /// Its place among the batches in flight.
    place: OwnedSemaphorePermit,
    /// The failures known when it was claimed. Batches in flight together fail together: all of them
    /// are one failure, or a hiccup with 16 in flight would cost 16 steps of the back-off.
    failures: u64,
    turn: Option<OwnedMutexGuard<ClaimState>>,
}

/// Counts a batch as in flight until it is dropped, also by a panic.
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

/// A batch, as it is told to whoever asks what a loop is doing.
fn told(batch: &Batch) -> String {
    let first = batch.jobs.first().map_or("-", |job| job.id.as_str());
    let more = batch.jobs.len().saturating_sub(1);
    format!("claim {}: {first} and {more} more", batch.fence.token)
}

/// Returns true if a job is in isolation. Batches of suspects are halved until each suspect is alone; whether it is to blame
/// shows when it is alone in the worker, too.
fn is_isolated(batch: &Batch) -> bool {
    matches!(&batch.jobs[..], [job] if job.deliveries > 0)
}

/// The text of a temporary error.
///
/// # Errors
/// The message of one that does not.
fn passing(error: QueueError) -> Result<String, String> {
    match error {
        QueueError::Gone(why) => Err(why),
        error => Ok(error.to_string()),
    }
}

impl Worker {
    /// Works until it is stopped; then everything claimed is settled or given back. Dropped, its loops
    /// end where they are: the leases run out.
    ///
    /// # Errors
    /// The message of a handler for which it can never work, or of a queue whose file is gone.
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
                    let observer = Seen { health: worker.health.clone(), metrics: worker.metrics.clone() };
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

    /// A loop, until it is to end. Begun anew after a panic it goes on as if a batch had been dropped: the lease of that one runs
    /// out, with a delivery counted, and a claim on its way is made again with its token.
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
                let _ = fatal.set(message); // the first message is the one to show
            }
        }
    }

    /// Returns true if there are too many loops, so that the caller must end.
    fn is_one_too_many(&self, running: &AtomicUsize) -> bool {
        let most = *self.concurrency.load();
        let one_less = |now: usize| (now > most).then(|| now - 1);
        running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// The next batch; `None` when the loop is to end, and a message when the process can never work.
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
                Ok(Asked::Batch(claimed)) => {
                    let failures = turn.failures;
                    // There are more places than loops; closed they never are.
                    let Ok(place) = places.free.clone().acquire_owned().await else { return Ok(None) };
                    let turn = (turn.retry.attempts() > 0 || is_isolated(&claimed.batch)).then_some(turn);
                    return Ok(Some(Work { claimed, place, failures, turn }));
                }
                Ok(Asked::Wait(until)) => turn.pause = Some(until.min(LONGEST_PAUSE)),
                Err(error) => {
                    let why = passing(error)?;
                    self.health.is_out(&why);
                    self.metrics.errors.record_reason(ErrorKind::Queue, &why, ErrorPlace::default());
                    turn.pause = Some(turn.failed(&why));
                }
            }
        }
    }

    /// Waits out the pause, if there is one.
    async fn rest(&self, turn: &mut ClaimState, places: &Places) {
        self.health.beat();
        if let Some(pause) = turn.pause.take() {
            let backs_off = turn.retry.attempts() > 0;
            tokio::select! {
                () = self.stop.sleep(pause) => {}
                () = turn.changes.next() => {}
                () = places.due_at_once.notified(), if !backs_off => {}
            }
            task::step("works"); // also where a change cut the sleep short
            self.health.beat();
        }
    }

    /// Asks for a batch. A metered pipeline needs its permit first, so that nothing is claimed that cannot be looked up.
    async fn ask(&self, turn: &mut ClaimState) -> Result<Asked, QueueError> {
        let token = turn.token.get_or_insert_with(|| self.token()).clone();
        let claims = self.claims.load();
        // A permit costs two writes, also if it is returned: an idle worker only reads. A busy one does not read twice.
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
                    Acquired::Wait(until) => return Ok(Asked::Wait(until)),
                }
            }
        };
        failpoint::point("after_permit");
        task::step_with("claims", || format!("claim {token}"));
        match self.claim(&claims, &token).await {
            Ok(Claim::Batch(batch)) => {
                failpoint::point("after_claim");
                (turn.token, turn.is_idle) = (None, false);
                task::step_with("handles", || told(&batch));
                failpoint::hang("after_claim").await;
                Ok(Asked::Batch(Claimed { call, batch, lease: claims.lease }))
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

    /// Reports that no job can be claimed for `wait`, or that the namespace is paused, for this reason.
    fn report_idle(&self, wait: Duration, paused: Option<String>) -> Asked {
        if let Some(reason) = paused {
            tracing::debug!(namespace = self.queue.namespace(), reason, "paused");
        }
        self.health.works();
        Asked::Wait(wait)
    }

    /// A token no other claim has: neither of another worker of this name (replicas that share a
    /// configuration), nor of the process that had it before (a container that was started again).
    fn token(&self) -> String {
        format!("{}-{:016x}", self.name, random::number())
    }

    /// Acquired to make a call. More due than the quota carries is spread over the window, so how much is
    /// due has to be known: roughly, so it is asked for now and then. Where idle quota is spent there is always more.
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

    /// Claims; a claim whose reply was lost is made again with its token, which answers its batch.
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

    /// Handles a claimed batch and settles it. Answers a message when the process can never work.
    async fn work(&self, work: Work, turn: Arc<Mutex<ClaimState>>, places: &Places) -> Option<String> {
        let Work { claimed: Claimed { call, batch, lease }, place, failures, turn: kept } = work;
        let queue = &self.queue;
        let watch = Stopwatch::start();
        let late = |job: &Job| job.lateness(batch.claimed_at);
        self.metrics.late(batch.jobs.iter().filter_map(late));
        self.metrics.histograms.batch_ids.observe(batch.jobs.len() as f64);
        let in_work = InFlight::new(&self.metrics);
        self.health.beat();

        // Until it is settled nothing else is in flight.
        let (_others, in_the_way) = match is_isolated(&batch) {
            true => self.isolate(&batch, lease / 4, &places.free).await,
            false => (None, None),
        };
        let handled = if let Some(outlook) = in_the_way {
            call.give_back().await;
            Handled::released(&batch, outlook)
        } else if batch.fence.deadline - batch.now.now() < clock::millis(lease) / 2 {
            // A claim whose answer came late: too little of the lease is left to be sure to be done in it.
            call.give_back().await;
            Handled::released(&batch, Outlook::Unchanged)
        } else if let Some(why) = call.clock_doubt(batch.now.now()) {
            Handled::released(&batch, Outlook::Outage(why))
        } else {
            tokio::select! {
                biased;
                handled = clock::by_queue(batch.now, call.handle(&batch)) => handled,
                () = self.stop.abandoning() => self.handling.cut_off(&batch),
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
        // One that is in isolation and has the turn waits for this place.
        drop(place);
        // Nothing to note, unless it has the turn: that may be another's for as long as the queue is empty.
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

    /// A batch shows how the services are, unless it says nothing of them.
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

    /// Waits until nothing else is in flight, and has the queue note that: if the process ends now, it is
    /// this job's own failure. Answers what keeps the others out, or what was in the way.
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

    /// Settles and releases, again and again while the lease lasts. What cannot be said by then is
    /// not lost: the lease runs out and the jobs are claimed again.
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
            // Past the lease, by the queue's clock, the fence holds nothing.
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
    /// See [`Handler::cut_off`].
    fn cut_off(&self, batch: &Batch) -> Handled {
        match self {
            Self::Metered(handler, _) => handler.cut_off(batch),
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

    /// The reason not to trust the queue's clock, if it is too far ahead of this machine's; `queue` is its time, ms since the epoch.
    /// Handlers that call an API compare it with the API's clock instead.
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
    /// Notes one more failure and answers how long to wait.
    fn failed(&mut self, why: &str) -> Duration {
        self.failures += 1;
        let delay = self.retry.next_delay();
        let attempt = self.retry.attempts();
        tracing::warn!(error = why, attempt, delay_ms = clock::millis(delay), "a service is out: backing off");
        delay
    }

    /// A probe went well.
    fn works(&mut self) {
        if self.retry.attempts() > 0 {
            tracing::info!(attempts = self.retry.attempts(), "works again");
        }
        self.retry.succeeded();
        self.pause = None;
    }
}
