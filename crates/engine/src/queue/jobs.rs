//! Jobs: schedule, claim, settle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Due, Lane, Order, QueueError, Result};
use crate::base::backend::RefusedWrites;
use crate::base::clock::{Millis, QueueTime, Stopwatch};
use crate::base::id::check_id;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// 1 to [`MAX_ID_BYTES`](crate::base::id::MAX_ID_BYTES) bytes without white space or control characters.
    pub id: String,
    pub lane: Lane,
    pub due: Due,
}

/// Effect of [`Jobs::schedule`] on a job. It changes no job that is known, leased or dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleOutcome {
    Scheduled,
    /// Delayed already.
    Known,
    Leased,
    Dead,
}

/// Effect of [`Jobs::promote`] on a job. It changes no job that is dead or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromoteOutcome {
    /// The job was delayed. Now it is in the given lane, due no later than requested.
    Moved,
    /// The job is leased. A note is stored, and applied when a settle or a release ends the lease.
    Noted,
    Dead,
    Absent,
}

/// Effect of [`Jobs::postpone`] on a job. Only `Moved` changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostponeOutcome {
    /// The job was delayed and due sooner. Now it is in the given lane, due at the requested time.
    Moved,
    /// The job was delayed, but due at that time or later already.
    Kept,
    /// The settle of that lease decides.
    Leased,
    Dead,
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    /// The lane it came from. After an expired lease: the first lane (lowest tier, then least patience).
    pub lane: Arc<str>,
    /// Due time, ms since the epoch. After an expired lease: the start of that lease.
    pub due: Millis,
    /// Number of expired leases and counted retries since the last success. It only reduces the size of the job's batches.
    pub deliveries: u32,
    /// Number of failures of its own since the last success: counted retries, and leases that expired while the job was
    /// [on trial](Jobs::mark_trial).
    pub failures: u32,
    pub order: Order,
}

impl Job {
    /// Lateness at that moment, ms; `None` if the lane counts no lateness.
    #[must_use]
    pub fn lateness(&self, at: Millis) -> Option<Millis> {
        self.order.counts_lateness().then(|| (at - self.due).max(0))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// Name of this claim. The same token again within the lease returns the same batch: a claim with a lost reply is repeated.
    pub token: &'a str,
    pub limit: usize,
    /// Time that the oldest due id may wait for the batch to fill (the specification's `bufferTTL`).
    pub linger: Duration,
    /// Earliness allowed for ids that fill a short batch, as a share of their lane's patience (0.1: an hourly item up to 6 min
    /// early). The id due soonest goes first, up to the first id that is too early. 0 turns it off, for APIs that charge per id.
    /// Only lanes by lateness take part.
    pub lookahead: f64,
    /// Earliness allowed for ids that use idle quota, as a share of their lane's patience; 0 turns it off. Above 0 a claim never
    /// waits, and `lookahead` has no effect. After the due ids, those that are not due go by the smallest (due − now) ÷ patience,
    /// over all tiers. Only lanes that [allow early claims](Lane::allows_early_claims) take part, and no suspects.
    pub early: f64,
    pub lease: Duration,
}

/// Proof of a claim: the deadline of its lease, which no other claim of the namespace has, and its token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Deadline on the queue's clock, ms since the epoch: unique and rising.
    pub deadline: Millis,
    pub token: String,
}

/// Ids that the worker holds until the lease ends.
#[derive(Debug, Clone)]
pub struct Batch {
    pub fence: Fence,
    /// The queue's clock at the claim, carried forward.
    pub now: QueueTime,
    /// The queue's clock at the claim, ms since the epoch, for the lateness.
    pub claimed_at: Millis,
    /// Most urgent first.
    pub jobs: Vec<Job>,
}

impl Batch {
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.jobs.iter().map(|job| job.id.clone()).collect()
    }

    /// Now, but before the lease ends: older than any answer of the next worker.
    #[must_use]
    pub fn answer_time(&self) -> Millis {
        self.now.now().min(self.fence.deadline - 1)
    }
}

#[derive(Debug, Clone)]
pub enum Claim {
    Batch(Batch),
    Empty {
        /// Time until the next attempt may succeed: the least of the time until a batch is ready, until the next lease ends, and
        /// `linger`, since something may be scheduled meanwhile.
        wait: Duration,
        /// Reason of a pause: no ids are claimed although some may be due.
        paused: Option<String>,
    },
}

impl Claim {
    /// Returns this claim with its time corrected for a request that was sent at the start of the stopwatch.
    pub(super) fn with_request_start(self, since: &Stopwatch) -> Self {
        match self {
            Self::Batch(batch) => Self::Batch(Batch { now: batch.now.with_request_start(since), ..batch }),
            Self::Empty { .. } => self,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done for now; due again at `due`.
    Reschedule { lane: Lane, due: Due },
    /// The job's life is over. The store has recorded that already.
    Finish,
    /// Not done; due again in its lane after `after`.
    Retry {
        /// Delay from now, ms.
        after: Millis,
        /// True if this counts as a delivery and as a failure: only if the job itself is at fault.
        counted: bool,
    },
    /// Not done, perhaps by the job's own fault; due again in its lane after `after`. It counts as a delivery, never as a failure.
    Suspect {
        /// Delay from now, ms.
        after: Millis,
    },
    /// Kept for a person. The store has recorded that already.
    MarkDead {
        /// One line for that person.
        reason: String,
    },
}

/// Number of given jobs that the fence still held, and number of those that it did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SettleOutcome {
    pub settled: u64,
    /// The claim no longer held the id; nothing was changed.
    pub lost: u64,
}

#[derive(Debug, Clone)]
pub struct Adoption {
    pub fence: Fence,
    /// The queue's clock, ms since the epoch.
    pub now: Millis,
    /// One per id, in the given order. [`ScheduleOutcome::Scheduled`]: the caller holds it now.
    pub answers: Vec<ScheduleOutcome>,
}

/// Jobs of one namespace.
///
/// Every call may be repeated if its reply was lost. The queue's clock is the service's, never the caller's.
///
/// # Errors
/// [`QueueError::Unavailable`]: the result is unknown; repeat the call. [`QueueError::Refused`]: the call can never succeed.
/// [`QueueError::Full`]: there is no room. Only calls that add return it: [`Jobs::schedule`], [`Jobs::promote`],
/// [`Jobs::revive`], [`Jobs::adopt`], [`Inbox::add_incoming`](super::Inbox::add_incoming). In a full Redis claims, settles and
/// releases go on.
#[async_trait]
pub trait Jobs: Send + Sync + std::fmt::Debug {
    fn namespace(&self) -> &str;

    /// Checks that the service is there and fit. Returns lines about it for a person.
    async fn check(&self) -> Result<Vec<String>>;

    /// Returns an error if the service responds but accepts no writes: a worker without heartbeats looks like one that does not run.
    async fn check_writes(&self) -> std::result::Result<(), RefusedWrites> {
        Ok(())
    }

    /// Adds each id that the queue does not have. Results are in the order given. An id that is twice in `jobs` is scheduled once, then
    /// known.
    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>>;

    /// Makes jobs due earlier, or moves them to another lane, each in one step. Results are in the order given. Up to 1,000 jobs are
    /// one step together. An id that is twice in `jobs` is promoted twice.
    ///
    /// A delayed job moves to the given lane, and the earlier of its two due times applies. For a leased job, even under an expired
    /// lease, the due time and the lane are stored as a note. A second promote keeps the earlier due time and takes the newer lane.
    /// Reschedule, Retry, Suspect and release apply the note (the noted lane, the earlier due time) and delete it in the same step.
    /// Finish, MarkDead and [`Jobs::forget`] delete it. A settle that lost its fence leaves the note, and so does the claim of an
    /// expired lease.
    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>>;

    /// Makes delayed jobs due later, each in one step, in the given lane, because the result of their next claim is known already.
    /// Results are in the order given. Up to 1,000 jobs are one step together. The ids must be distinct.
    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>>;

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim>;

    /// Returns the [`Claim::Empty`] that a claim would return now, without a write. `None` if a claim may return a batch.
    async fn empty_claim(&self, _request: &ClaimRequest<'_>) -> Result<Option<Claim>> {
        Ok(None)
    }

    /// Applies each verdict to the ids that the fence still holds. Adds `tally` to the namespace's counters in the same step, if at
    /// least one verdict was applied. So a settle that is repeated after a lost reply counts nothing twice.
    async fn settle(&self, fence: &Fence, verdicts: &[(Job, Verdict)], tally: &[(&str, i64)]) -> Result<SettleOutcome>;

    /// Returns ids that the fence still holds to their lanes with their old due time, uncounted. A [promoted](Jobs::promote) job takes
    /// the noted lane and the earlier due time.
    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome>;

    /// Notes that the ids of the fence are alone in their process: if this lease expires, that is their failure.
    /// Returns true if the fence still held at least one id.
    async fn mark_trial(&self, fence: &Fence) -> Result<bool>;

    /// Leases each id that the queue does not have, for a rebuild. The rebuild then checks again that the id belongs in the queue, and
    /// settles. The ids must be distinct, about 1,000 at most. The same token again within the lease returns the same results for the
    /// same ids.
    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption>;

    /// Moves dead ids into their lanes, each in one step; schedules ids that the queue does not have. Returns one result per job, in
    /// the order given: *scheduled* for these, *known* or *leased* for the others.
    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>>;

    /// Removes dead or delayed ids, whose end the store has recorded. A leased id stays, without its note of [`Jobs::promote`].
    async fn forget(&self, ids: &[String]) -> Result<()>;
}

/// Position of a job in the order of claims: the lesser group first, then the greater number. Jobs that are not due come last.
#[must_use]
pub fn rank(lane: &Lane, due: Millis, now: Millis) -> (u32, f64) {
    // Both fit a double exactly: milliseconds since the epoch are below 2^53.
    let urgency = (now - due) as f64 / lane.patience as f64;
    match lane.order {
        _ if due > now => (u32::MAX, urgency),
        Order::NewestFirst => (2 * u32::from(lane.tier) + 1, due as f64),
        Order::ByLateness | Order::OldestFirst => (2 * u32::from(lane.tier), urgency),
    }
}

pub fn check_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Result<()> {
    for id in ids {
        check_id(id).map_err(|why| QueueError::Refused(format!("{why}: {id:?}")))?;
    }
    Ok(())
}

/// Size of a batch that contains an id with this many deliveries: halved each time. An id that kills its worker is alone after
/// log2(limit) rounds, and no other id is blamed.
#[must_use]
pub fn suspect_limit(limit: usize, deliveries: u32) -> usize {
    limit.checked_shr(deliveries).unwrap_or(0).max(1)
}

/// The worker that a claim's token names. A token is the name, a `-` and a number in hexadecimal digits.
#[must_use]
pub fn worker_name_of_token(token: &str) -> &str {
    match token.rsplit_once('-') {
        Some((worker, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_hexdigit()) => worker,
        _ => token,
    }
}
