//! Jobs: schedule, claim, settle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Due, Lane, Order, QueueError, Result};
use crate::base::clock::{Millis, QueueTime, Stopwatch};

/// The longest id, in bytes. The longest known are uris of about 100.
pub const MAX_ID_BYTES: usize = 512;

/// A job to be put into the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its id: 1 to [`MAX_ID_BYTES`] bytes without white space or control characters.
    pub id: String,
    /// Its lane.
    pub lane: Lane,
    /// When it is due.
    pub due: Due,
}

/// The effect of [`Jobs::schedule`] on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduled {
    /// New in the queue.
    Scheduled,
    /// Delayed already; unchanged.
    Known,
    /// A worker has it right now; it stays as it is.
    Leased,
    /// Dead; unchanged.
    Dead,
}

/// The effect of [`Jobs::promote`] on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promoted {
    /// It was delayed. Now it is in the given lane, due no later than requested.
    Moved,
    /// It is leased: a note is stored, and applied when the lease ends in a settle or a release.
    Noted,
    /// Dead; unchanged.
    Dead,
    /// Not in the queue; nothing was changed.
    Absent,
}

/// The effect of [`Jobs::postpone`] on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Postponed {
    /// It was delayed, and due sooner. Now it is in the given lane, due when requested.
    Moved,
    /// It was delayed, and is due then or later already; unchanged.
    Kept,
    /// A worker has it right now; unchanged: what that settles counts.
    Leased,
    /// Dead; unchanged.
    Dead,
    /// Not in the queue; nothing was changed.
    Absent,
}

/// A job as claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// The lane it came from; the first lane (lowest tier, then least patience) when its lease had run out.
    pub lane: Arc<str>,
    /// When it was due, ms since the epoch; for a lease that ran out, when that began.
    pub due: Millis,
    /// How often a lease on it ran out or a counted retry was made since it last succeeded: it only makes
    /// the batches smaller that it travels in.
    pub deliveries: u32,
    /// How often it failed by itself since it last succeeded: a counted retry, or a lease that ran out
    /// while it was [on trial](Jobs::try_alone).
    pub failures: u32,
    /// Order of its lane.
    pub order: Order,
}

impl Job {
    /// Its lateness at that moment, ms; `None` if the lane counts no lateness.
    #[must_use]
    pub fn lateness(&self, at: Millis) -> Option<Millis> {
        self.order.is_timed().then(|| (at - self.due).max(0))
    }
}

/// The parameters of a claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// Names this claim. The same token again within the lease answers the same batch, so a claim
    /// whose reply was lost is simply made again.
    pub token: &'a str,
    /// The maximum number of ids in a batch.
    pub limit: usize,
    /// The time that the oldest due id may wait for the batch to fill (the specification's `bufferTTL`).
    pub linger: Duration,
    /// How early an id may be taken into a batch that is sent short, as a share of its lane's
    /// patience (0.1: an hourly item up to 6 min early). What is due soonest goes first, up to the first
    /// id that is too early for. No interval gets shorter than by this share. 0 turns it off
    /// (where an API charges per id). Only lanes by lateness lend their ids.
    pub lookahead: f64,
    /// How early an id may be taken into a batch that is made for the sake of idle quota, as a share of its lane's
    /// patience; 0 turns it off. With it a claim waits for nothing: after all that is due, what is not due yet goes by
    /// the smallest (due − now) ÷ patience, over all tiers, and `lookahead` counts for nothing. Only lanes that
    /// [lend](Lane::lends) do, and no suspects: in others a job may wait for far less than the patience, and would always be
    /// the least early one.
    pub early: f64,
    /// The length of the lease.
    pub lease: Duration,
}

/// Proof of a claim: its lease's deadline, which no other claim of the namespace shares, and its
/// token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The lease's deadline on the queue's clock, ms since the epoch: unique and rising.
    pub deadline: Millis,
    /// The claim's token.
    pub token: String,
}

/// Ids that are ours until the lease ends.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The fence that settles them.
    pub fence: Fence,
    /// The queue's clock at the claim, carried forward.
    pub now: QueueTime,
    /// The queue's clock at the claim, ms since the epoch: what lateness is measured against.
    pub claimed_at: Millis,
    /// The jobs, most urgent first.
    pub jobs: Vec<Job>,
}

/// A claim's answer.
#[derive(Debug, Clone)]
pub enum Claim {
    /// A batch.
    Batch(Batch),
    /// Nothing to do yet.
    Empty {
        /// How long until it may be worth asking again: the least of when a batch can be ready, the
        /// next lease's end, and `linger` (something may be scheduled meanwhile).
        wait: Duration,
        /// The reason why no ids are claimed although some may be due: the namespace is paused.
        paused: Option<String>,
    },
}

impl Claim {
    /// The same, where the queue was asked at the start of a stopwatch.
    pub(super) fn asked(self, since: &Stopwatch) -> Self {
        match self {
            Self::Batch(batch) => Self::Batch(Batch { now: batch.now.asked(since), ..batch }),
            Self::Empty { .. } => self,
        }
    }
}

/// The verdict on a claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done for now; due again then.
    Reschedule {
        /// The lane it goes to.
        lane: Lane,
        /// When it is due.
        due: Due,
    },
    /// Its life is over; the store says so already.
    Finish,
    /// Not done; due again in its lane after a while.
    Retry {
        /// The delay from now, in milliseconds.
        after: Millis,
        /// True if this counts as a delivery and as a failure: only when the job itself is at fault.
        counted: bool,
    },
    /// Not done, and perhaps the job's own fault; due again in its lane after a while. It counts as a
    /// delivery, so it travels apart from now on, and never as a failure.
    Suspect {
        /// The delay from now, in milliseconds.
        after: Millis,
    },
    /// Set aside for a person to look at; the store says so already.
    Bury {
        /// One line for that person.
        reason: String,
    },
}

/// The number of the given jobs that the fence still held, and the number that it did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// The verdict was applied.
    pub settled: u64,
    /// The claim held the id no longer; nothing was changed.
    pub lost: u64,
}

/// The jobs that [`Jobs::adopt`] leased.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// The fence that settles it.
    pub fence: Fence,
    /// The queue's clock, ms since the epoch.
    pub now: Millis,
    /// One per id, in the order given: [`Scheduled::Scheduled`] is ours now.
    pub answers: Vec<Scheduled>,
}

/// Jobs of one namespace, on their way through the queue.
///
/// Every call may be repeated when its reply was lost. The queue's clock is the service's, never the caller's.
///
/// # Errors
/// Every call's: [`QueueError::Unavailable`] when it is not known whether it was done; the same call may be made
/// again. [`QueueError::Refused`] when it never will be. Those that add ([`Jobs::schedule`], [`Jobs::promote`],
/// [`Jobs::exhume`], [`Jobs::adopt`], [`Inbox::put_incoming`](super::Inbox::put_incoming)) meet [`QueueError::Full`]
/// where there is no room; in a full Redis claims, settles and releases go on.
#[async_trait]
pub trait Jobs: Send + Sync + std::fmt::Debug {
    /// The namespace.
    fn namespace(&self) -> &str;

    /// Checks that the service is there and fit, and says what a person should know about it.
    async fn check(&self) -> Result<Vec<String>>;

    /// Says why nothing can be written although the service answers. Without it, a worker that cannot write its heartbeat looks
    /// like one that does not run.
    async fn check_writes(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Adds each id that is in none of the places. Answers in the order given; an id twice in `jobs`
    /// is scheduled once, then known.
    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<Scheduled>>;

    /// Makes jobs due earlier, or moves them to another lane, each in one step. Answers in the order given; up to 1,000
    /// jobs are one step together. An id twice in `jobs` is promoted twice.
    ///
    /// A delayed job moves to its given lane and is due at the earlier of its present due and the given one. For a
    /// leased job (also under a lease that ran out and was not claimed yet) the due and the lane are stored as a note; a
    /// second promote keeps the earlier due and takes the newer lane. The note outlives the lease: Reschedule, Retry, Suspect and
    /// release take the noted lane and the earlier of both dues, and delete the note in the same step; Finish, Bury and
    /// [`Jobs::forget`] delete it. A settle that lost its fence leaves it, and so does the claim of an expired lease.
    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<Promoted>>;

    /// Makes delayed jobs due later, each in one step, in the given lane: what their next claim was for is known already.
    /// Answers in the order given; up to 1,000 jobs are one step together. The ids are distinct. What is leased stays, with
    /// the note of a [promote](Jobs::promote), if there is one.
    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<Postponed>>;

    /// Takes a batch, if one is ready.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim>;

    /// Returns the [`Claim::Empty`] that a claim would return now, without a write. `None` if a claim may return a batch, or if this
    /// queue cannot know without a claim.
    async fn empty_claim(&self, _request: &ClaimRequest<'_>) -> Result<Option<Claim>> {
        Ok(None)
    }

    /// Applies each verdict to the ids the fence still holds. Adds `tally` to the namespace's counters in the same
    /// step, if at least one verdict was applied: a settle that is repeated after a lost reply counts nothing twice.
    async fn settle(&self, fence: &Fence, verdicts: &[(Job, Verdict)], tally: &[(&str, i64)]) -> Result<Settled>;

    /// Gives ids the fence still holds back to their lanes with their old due time, uncounted. A
    /// [promoted](Jobs::promote) one takes the noted lane and the earlier due.
    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<Settled>;

    /// Notes that the ids the fence holds are alone, in their batch and in their process: if this lease
    /// runs out, that is a failure of theirs. Answers whether the fence still held any.
    async fn try_alone(&self, fence: &Fence) -> Result<bool>;

    /// Takes under a lease each id that is in none of the places: for a rebuild, which then looks again
    /// whether it still belongs into the queue, and settles. The ids are distinct, about 1,000 at the
    /// most. The same token again within the lease answers for the same ids what it answered before.
    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adopted>;

    /// Takes ids out of the dead, each into its lane in one step; one that is in no place is scheduled
    /// too. Answers as [`Jobs::schedule`], never *dead*.
    async fn exhume(&self, jobs: &[NewJob]) -> Result<Vec<Scheduled>>;

    /// Removes ids that are dead or delayed: their life has ended, the store says so already. What is
    /// leased stays; a [promote](Jobs::promote)'s note about it is deleted.
    async fn forget(&self, ids: &[String]) -> Result<()>;
}

/// Place of a job in the order of claims: the lesser group first, in a group the greater figure. What is not due yet
/// comes after all that is.
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

/// Refuses a call in which one of the ids cannot be a job's.
pub(crate) fn check_ids<'a>(ids: impl IntoIterator<Item = &'a String>) -> Result<()> {
    for id in ids {
        check_id(id).map_err(|why| QueueError::Refused(format!("{why}: {id:?}")))?;
    }
    Ok(())
}

/// Says whether an id can be a job's.
///
/// # Errors
/// One clause that says what is wrong with it.
pub fn check_id(id: &str) -> Result<(), &'static str> {
    if id.is_empty() {
        Err("the id is empty")
    } else if id.len() > MAX_ID_BYTES {
        Err("the id is longer than 512 bytes")
    } else if id.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err("the id has white space or control characters")
    } else {
        Ok(())
    }
}

/// The size of a batch that contains an id with this many deliveries: halved each time.
///
/// An id that kills its worker takes its batch with it; halving finds it in log2(limit) rounds
/// without calling any of the others guilty.
#[must_use]
pub fn suspect_limit(limit: usize, deliveries: u32) -> usize {
    limit.checked_shr(deliveries).unwrap_or(0).max(1)
}

/// The worker that a claim's token names: tokens are its name, a `-` and a number in hexadecimal digits.
#[must_use]
pub fn worker_of(token: &str) -> &str {
    match token.rsplit_once('-') {
        Some((worker, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_hexdigit()) => worker,
        _ => token,
    }
}
