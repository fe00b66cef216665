//! A delayed job queue with leases: the product's heart.
//!
//! A job is an id in a namespace (a pipeline, `tweet:update`). It knows no tweets. Two backends,
//! [`RedisQueue`] and [`EmbeddedQueue`], pass one contract suite (`tests/it/queue.rs`).
//!
//! ```text
//!              schedule                   claim: due, ≤ limit, by (now − due) ÷ patience
//!   (nowhere) ─────────▶ delayed:<lane> ─────────────────────────▶ leased, under a fence
//!                          ▲   ▲  │ ▲                                │ │ │ │   │
//!                          │   │  │ └──────── Reschedule ────────────┘ │ │ │   │ the lease runs out:
//!                          │   │  │ └──────── Retry ──────────────────┘ │ │   │ claimable at once by the
//!                          │   └──┼────────── release (old due) ─────────┘ │   │ next claim, a delivery
//!                          │      │                                        │   │ counted
//!                          │   (being due is a matter of time,             │   └──▶ (leased again)
//!                          │    no move)                                   │
//!   dead ◀── Bury ─────────┼───────────────────────────────────────────────┤
//!   ended (in the store) ◀─┴── Finish ─────────────────────────────────────┘
//! ```
//!
//! Beside this, a rebuild adopts: (nowhere) ─▶ leased; and a person exhumes the dead: dead ─▶ delayed, or
//! has them forgotten: dead ─▶ (nowhere). A promote moves a delayed job to another lane or makes it due earlier; of
//! a leased job it leaves a note, which the end of the lease applies.
//!
//! An id is in exactly one place. Each move writes where the id goes before it removes it from where
//! it was, and if it is ever found in two, *leased* wins.
//!
//! **The buffer is the set of due ids.** The specification's worker keeps up to 100 ids in memory and
//! flushes when full or after `bufferTTL`; with N workers that thins every request to 1/N. Here a
//! claim answers a batch when `limit` ids are due over all lanes, or when the oldest has waited
//! `linger`, so the fill does not depend on the number of workers, and a killed worker loses no buffer.
//!
//! ```
//! use std::time::Duration;
//! use twitter_updater::engine::queue::{Claim, ClaimRequest, EmbeddedQueue, Lane, NewJob, Queue, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
//! let queue = EmbeddedQueue::open(&folder.path().join("queue.db"), "tweet:update", 5 * second).await?;
//! let lane = Lane::new("18m", 3 * minute);
//! queue.schedule(&[NewJob { id: "20".to_owned(), lane: lane.clone(), delay: 0 }]).await?;
//!
//! let request = ClaimRequest { token: "a", limit: 100, linger: Duration::ZERO, lookahead: 0.1, lease: minute };
//! let Claim::Batch(batch) = queue.claim(&request).await? else { panic!("it is due") };
//! // ... what has to be done, and then each job's verdict: it holds while the lease does.
//! let again = Verdict::Reschedule { delay: lane.patience, lane };
//! let verdicts: Vec<_> = batch.jobs.iter().map(|job| (job.clone(), again.clone())).collect();
//! let settled = queue.settle(&batch.fence, &verdicts, &[]).await?;
//! assert_eq!((settled.settled, settled.lost), (1, 0));
//! # Ok(())
//! # }
//! ```

mod embedded;
pub mod keys;
mod minutes;
mod promote;
mod redis;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

pub use self::embedded::EmbeddedQueue;
pub use self::minutes::{LaneDue, MINUTE_MS, MINUTES_KEPT, Minute, joined};
pub use self::redis::RedisQueue;
pub use crate::base::backend::BackendError as QueueError;
use crate::base::clock::{Millis, QueueTime};
pub use crate::engine::lane::Lane;
pub use crate::engine::lateness::Lateness;

/// The longest id, in bytes. Bluesky's at-uris are the longest known, about 100.
pub const MAX_ID_BYTES: usize = 512;

/// Ids per lane that [`Queue::sample`] returns and ids per call that [`Queue::mend`] changes, at the most. A larger
/// sample makes Redis copy the set; a larger repair holds up its only thread.
pub const PAGE_LIMIT: usize = 1_000;

/// The slack beyond a lane's patience before a due time is out of bounds. A call that failed is repeated after 60 s, also
/// in a lane with less patience, so no correct due time is beyond it. It is twice the default lease; with longer leases
/// [`Queue::mend`] needs a longer slack.
pub const MEND_SLACK: Duration = Duration::from_secs(120);

/// Refused members of `incoming` that are kept, with their reasons: the newest ...
pub const REFUSED_KEPT: usize = 10_000;
/// ... and for this long. Who has not looked by then does not look.
pub const REFUSED_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

/// A job to be put into the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its id: 1 to [`MAX_ID_BYTES`] bytes without white space or control characters.
    pub id: String,
    /// Where it goes.
    pub lane: Lane,
    /// How long from now (the queue's now) until it is due, in milliseconds.
    pub delay: Millis,
}

/// What [`Queue::schedule`] did with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduled {
    /// It is in the queue now and was not before.
    Scheduled,
    /// It was delayed already and stays as it was.
    Known,
    /// A worker has it right now; it stays as it is.
    Leased,
    /// It is buried and stays so.
    Dead,
}

/// What [`Queue::promote`] did with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promoted {
    /// It was delayed: it is in the given lane now, and due no later than asked.
    Moved,
    /// It is leased: a note is stored, and applied when the lease ends in a settle or a release.
    Noted,
    /// It is dead; nothing was changed.
    Dead,
    /// It is in no place; nothing was changed.
    Absent,
}

/// A job as claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// The lane it came from; the first lane (least patience) when its lease had run out.
    pub lane: Arc<str>,
    /// When it was due, ms since the epoch; for a lease that ran out, its end.
    pub due: Millis,
    /// How often a lease on it ran out or a counted retry was made since it last succeeded: it only makes
    /// the batches smaller that it travels in.
    pub deliveries: u32,
    /// How often it failed by itself since it last succeeded: a counted retry, or a lease that ran out
    /// while it was [on trial](Queue::try_alone).
    pub failures: u32,
}

/// What a claim asks for.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// Names this claim. The same token again within the lease answers the same batch, so a claim
    /// whose reply was lost is simply made again.
    pub token: &'a str,
    /// Ids in a batch, at the most.
    pub limit: usize,
    /// How long the oldest due id may wait for the batch to fill (the specification's `bufferTTL`).
    pub linger: Duration,
    /// How early an id may be taken into a batch that is sent short, as a share of its lane's
    /// patience (0.1: an hourly tweet up to 6 min early). What is due soonest goes first, up to the first
    /// id that is too early for. No interval gets shorter than by this share. 0 turns it off
    /// (providers that charge per id).
    pub lookahead: f64,
    /// How long the batch is ours.
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
    /// What settles them.
    pub fence: Fence,
    /// The queue's clock at the claim, carried forward.
    pub now: QueueTime,
    /// The queue's clock at the claim, ms since the epoch: what lateness is measured against.
    pub claimed_at: Millis,
    /// The jobs, most urgent first.
    pub jobs: Vec<Job>,
}

/// What a claim answers.
#[derive(Debug, Clone)]
pub enum Claim {
    /// A batch.
    Batch(Batch),
    /// Nothing to do yet.
    Empty {
        /// How long until it may be worth asking again: the least of when a batch can be ready, the
        /// next lease's end, and `linger` (something may be scheduled meanwhile).
        wait: Duration,
        /// Why nothing is claimed although something may be due: somebody paused the namespace.
        paused: Option<String>,
    },
}

/// What becomes of a claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done for now; due again after `delay` ms.
    Reschedule {
        /// The lane it goes to.
        lane: Lane,
        /// How long from now, in milliseconds.
        delay: Millis,
    },
    /// Its life is over; the store says so already.
    Finish,
    /// Not done; due again in its lane after a while.
    Retry {
        /// How long from now, in milliseconds.
        after: Millis,
        /// Whether this counts as a delivery and as a failure: only when the job itself is at fault.
        counted: bool,
    },
    /// Not done, and perhaps the job's own fault; due again in its lane after a while. It counts as a
    /// delivery, so it travels apart from now on, and never as a failure.
    Suspect {
        /// How long from now, in milliseconds.
        after: Millis,
    },
    /// Set aside for a person to look at; the store says so already.
    Bury {
        /// One line for that person.
        reason: String,
    },
}

/// How many of the given jobs the fence still held, and how many it did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// The verdict was applied.
    pub settled: u64,
    /// The claim held the id no longer; nothing was changed.
    pub lost: u64,
}

/// Where an id is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In a lane, due at `due` ms since the epoch.
    Delayed {
        /// The lane.
        lane: String,
        /// When it is due, ms since the epoch.
        due: Millis,
    },
    /// Under the lease that ends at `fence` ms since the epoch.
    Leased {
        /// The lease's deadline, ms since the epoch.
        fence: Millis,
        /// The worker that holds it, where its claim is on record: not once the lease has run out.
        by: Option<String>,
    },
    /// Buried at `at` ms since the epoch.
    Dead {
        /// When, ms since the epoch.
        at: Millis,
        /// Why.
        reason: String,
    },
}

/// What [`Queue::adopt`] took.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// What settles it.
    pub fence: Fence,
    /// The queue's clock, ms since the epoch.
    pub now: Millis,
    /// One per id, in the order given: [`Scheduled::Scheduled`] is ours now.
    pub answers: Vec<Scheduled>,
}

/// A dead job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buried {
    /// Its id.
    pub id: String,
    /// When it was buried, ms since the epoch.
    pub at: Millis,
    /// Why.
    pub reason: String,
}

/// Ids of one lane, or of the leased, chosen at random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The lane; `None` for the leased ids.
    pub lane: Option<String>,
    /// The lane's patience, ms; `None` for the leased ids.
    pub patience_ms: Option<Millis>,
    /// Ids in the lane.
    pub total: u64,
    /// Distinct ids, each of the lane's with the same probability, whatever its due. In Redis the probabilities of two
    /// ids differ by about a fifth: it draws from a hash table and prefers ids that follow empty places.
    pub ids: Vec<String>,
}

/// A member of `incoming`: an id some ingest put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// What was put there; nobody has checked it.
    pub member: String,
    /// The post's date, ms since the epoch; 0 to take it from the id.
    pub created_at: Millis,
}

/// One lane of [`Stats`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneStats {
    /// The lane.
    pub lane: String,
    /// Its patience, ms.
    pub patience_ms: Millis,
    /// Ids in it.
    pub delayed: u64,
    /// Ids of those that are due.
    pub due: u64,
    /// How late the oldest of them is, ms.
    pub oldest_lateness_ms: Millis,
    /// Ids due later than the lane's patience and [`MEND_SLACK`] from now: their due times are wrong.
    pub beyond: u64,
}

/// A worker as its beat shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerStats {
    /// Its name.
    pub worker: String,
    /// Since its last beat, ms.
    pub beat_age_ms: Millis,
    /// What it says of itself.
    pub fields: BTreeMap<String, String>,
}

impl WorkerStats {
    /// The field that says what keeps a worker from working; empty where nothing does.
    pub const TROUBLE: &'static str = "trouble";
    /// The field that says since when, by the worker's own clock, ms since the epoch.
    pub const TROUBLE_SINCE: &'static str = "trouble_since_ms";

    /// What keeps it from working, as it says itself.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.fields.get(Self::TROUBLE).map(String::as_str).filter(|why| !why.is_empty())
    }
}

/// A namespace at one moment. The words are those of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// The namespace.
    pub namespace: String,
    /// The queue's clock, ms since the epoch.
    pub now_ms: Millis,
    /// Its lanes, most impatient first.
    pub lanes: Vec<LaneStats>,
    /// Ids in all lanes.
    pub delayed: u64,
    /// Ids of those that are due.
    pub due: u64,
    /// How late the oldest due id is, ms.
    pub oldest_lateness_ms: Millis,
    /// Ids under a lease.
    pub leased: u64,
    /// Ids of those whose lease has run out and that nobody has claimed yet.
    pub expired: u64,
    /// Buried ids.
    pub dead: u64,
    /// Ids somebody put into `incoming` that are not drained yet.
    pub incoming: u64,
    /// Malformed members of `incoming`, moved aside: at the most [`REFUSED_KEPT`].
    pub incoming_refused: u64,
    /// How far the last lease's deadline is ahead of the queue's clock, ms; 0 when it is past. Longer than any lease:
    /// the clock stepped back.
    pub fence_ahead_ms: Millis,
    /// Why nothing is claimed, when it is paused.
    pub paused: Option<String>,
    /// Counters since the queue was made.
    pub counters: BTreeMap<String, i64>,
    /// Workers that have beaten lately.
    pub workers: Vec<WorkerStats>,
}

impl Stats {
    /// Puts the lanes in order, most impatient first, and adds them up.
    fn with_lanes(mut self, mut lanes: Vec<LaneStats>) -> Self {
        lanes.sort_by(|a, b| (a.patience_ms, &a.lane).cmp(&(b.patience_ms, &b.lane)));
        self.delayed = lanes.iter().map(|lane| lane.delayed).sum();
        self.due = lanes.iter().map(|lane| lane.due).sum();
        self.oldest_lateness_ms = lanes.iter().map(|lane| lane.oldest_lateness_ms).max().unwrap_or(0);
        self.lanes = lanes;
        self
    }
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

/// The ids in a batch that holds an id with so many deliveries: halved each time.
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

/// The queue's contract, for one namespace.
///
/// Every call may be repeated when its reply was lost. Its clock is the service's, never the caller's.
///
/// # Errors
/// Every call's: [`QueueError::Unavailable`] when it is not known whether it was done; the same call may be made
/// again. [`QueueError::Refused`] when it never will be. Those that add ([`Queue::schedule`], [`Queue::promote`],
/// [`Queue::exhume`], [`Queue::adopt`], [`Queue::put_incoming`]) meet [`QueueError::Full`] where there is no room; in a full Redis
/// claims, settles and releases go on.
#[async_trait]
pub trait Queue: Send + Sync + std::fmt::Debug {
    /// The namespace.
    fn namespace(&self) -> &str;
    /// Checks that the service is there and fit, and says what a person should know about it.
    async fn check(&self) -> Result<Vec<String>, QueueError>;

    /// Adds each id that is in none of the places. Answers in the order given; an id twice in `jobs`
    /// is scheduled once, then known.
    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<Scheduled>, QueueError>;

    /// Makes jobs due earlier, or moves them to another lane, each in one step. Answers in the order given; up to 1,000
    /// jobs are one step together. An id twice in `jobs` is promoted twice.
    ///
    /// A delayed job moves to its given lane and is due at the earlier of its present due and now + delay. For a leased
    /// job (also under a lease that ran out and was not claimed yet) now + delay and the lane are stored as a note; a
    /// second promote keeps the earlier due and takes the newer lane. The note outlives the lease: Reschedule, Retry, Suspect and
    /// release take the noted lane and the earlier of both dues, and delete the note in the same step; Finish, Bury and
    /// [`Queue::forget`] delete it. A settle that lost its fence leaves it, and so does the claim of an expired lease.
    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<Promoted>, QueueError>;

    /// Takes a batch, if one is ready.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError>;

    /// Applies each verdict to the ids the fence still holds. Adds `tally` to the namespace's counters in the same
    /// step, if at least one verdict was applied: a settle that is repeated after a lost reply counts nothing twice.
    async fn settle(
        &self,
        fence: &Fence,
        verdicts: &[(Job, Verdict)],
        tally: &[(&str, i64)],
    ) -> Result<Settled, QueueError>;

    /// Gives ids the fence still holds back to their lanes with their old due time, uncounted. A
    /// [promoted](Queue::promote) one takes the noted lane and the earlier due.
    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<Settled, QueueError>;

    /// Takes under a lease each id that is in none of the places: for a rebuild, which then looks again
    /// whether it still belongs into the queue, and settles. The ids are distinct, about 1,000 at the
    /// most. The same token again within the lease answers for the same ids what it answered before.
    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adopted, QueueError>;

    /// Takes ids out of the dead, each into its lane in one step; one that is in no place is scheduled
    /// too. Answers as [`Queue::schedule`], never *dead*.
    async fn exhume(&self, jobs: &[NewJob]) -> Result<Vec<Scheduled>, QueueError>;

    /// Removes ids that are dead or delayed: their life has ended, the store says so already. What is
    /// leased stays; a [promote](Queue::promote)'s note about it is deleted.
    async fn forget(&self, ids: &[String]) -> Result<(), QueueError>;

    /// The dead from the `from`-th on, up to `limit`, buried first first.
    async fn dead(&self, from: u64, limit: u32) -> Result<Vec<Buried>, QueueError>;

    /// Notes that the ids the fence holds are alone, in their batch and in their process: if this lease
    /// runs out, that is a failure of theirs. Answers whether the fence still held any.
    async fn try_alone(&self, fence: &Fence) -> Result<bool, QueueError>;

    /// Of each lane, most impatient first, and last of the leased: up to `most` ids chosen at random, [`PAGE_LIMIT`] at
    /// the most. Lanes are read one after the other, so an id on its way may be in two samples or in none.
    ///
    /// Redis: about 1 ms of its thread per 1,000 ids in the sample. SQLite: two walks over the lane's index, about 0.2 s
    /// per million ids in the lane; it delays no writer.
    async fn sample(&self, most: usize) -> Result<Vec<Sample>, QueueError>;

    /// Corrects due times that are out of bounds, as a clock that was ahead leaves them. In each lane, ids due later
    /// than now + the lane's patience + `slack` get a new due, spread evenly over the lane's next patience. Changes up
    /// to `limit` ids per call over all lanes, [`PAGE_LIMIT`] at the most, and returns how many; due times within
    /// bounds never change.
    ///
    /// `slack` must be longer than any lease. Changes nothing while the last fence is more than `slack` ahead of the
    /// queue's clock: the clock stepped back, due times that look wrong may be right, and an answer would be older than
    /// the stored one.
    async fn mend(&self, slack: Duration, limit: usize) -> Result<u64, QueueError>;

    /// The namespace at this moment.
    async fn stats(&self) -> Result<Stats, QueueError>;

    /// How many ids are due, roughly: what a pace is chosen by.
    async fn due(&self) -> Result<u64, QueueError>;

    /// Per lane, most impatient first, how many ids are due at these moments: ms from now, rising, negative ones
    /// past. Each count holds those before it.
    async fn due_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>, QueueError>;

    /// The last `count` minutes, [`MINUTES_KEPT`] at the most: the oldest first, the current one last. One in which
    /// nothing was done is there, and empty.
    async fn minutes(&self, count: u32) -> Result<Vec<Minute>, QueueError>;

    /// Every place each id is in, in the order asked. More than one place for an id is an error of
    /// ours; none means it was never scheduled, or its life has ended.
    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError>;

    /// Up to `limit` members of `incoming` for `drainer`, while no other drainer is at it: several
    /// may drain at once without harm, it only would be the same work twice.
    async fn incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>, QueueError>;

    /// Removes members from `incoming` that are scheduled now.
    async fn accept_incoming(&self, members: &[String]) -> Result<(), QueueError>;

    /// Moves members of `incoming` aside, each with the reason.
    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<(), QueueError>;

    /// Puts ids into `incoming`, as an ingest in another language would.
    async fn put_incoming(&self, members: &[Incoming]) -> Result<(), QueueError>;

    /// Says that `worker` is alive, what it says of itself, adds to the namespace's counters, and says how late the
    /// ids were that it has claimed since.
    async fn beat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<(), QueueError>;

    /// Takes a worker that stopped off the list.
    async fn leave(&self, worker: &str) -> Result<(), QueueError>;

    /// Pauses (a reason) or resumes (`None`) claiming.
    async fn pause(&self, reason: Option<&str>) -> Result<(), QueueError>;
}
