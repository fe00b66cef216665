//! A delayed job queue with leases.
//!
//! A job is an id in a namespace (a pipeline, `thing:update`). It knows nothing of the item behind it. Two backends,
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
//!   dead ◀── MarkDead ─────┼───────────────────────────────────────────────┤
//!   ended (in the store) ◀─┴── Finish ─────────────────────────────────────┘
//! ```
//!
//! A rebuild adopts: (nowhere) ─▶ leased. A person revives the dead: dead ─▶ delayed, or forgets them: dead ─▶ (nowhere). A
//! promote moves a delayed job to another lane or makes it due earlier. On a leased job it leaves a note, which the end of
//! the lease applies.
//!
//! An id is in exactly one place: delayed (in a lane), leased or dead. Each move writes the new place before it
//! removes the old one. If an id is ever found in two places, *leased* wins.
//!
//! **The buffer is the set of due ids.** The specification's worker keeps up to 100 ids in memory and flushes when full or after
//! `bufferTTL`. With N workers that thins every request to 1/N. Here a claim returns a batch when `limit` ids are due over all
//! lanes, or when the oldest has waited `linger`. So the fill does not depend on the number of workers, and a killed worker
//! loses no buffer.
//!
//! **Tiers come before urgency.** A batch is filled from tier 0 first, then from the next tier, and so on. In a tier, lanes by
//! lateness or by age go first, by (now − due) ÷ patience; then newest-first lanes, by due time. Expired leases come before all
//! of this, since their lane is not known.
//!
//! [`Queue`] is the whole contract. Its parts are separate traits: [`Jobs`] (schedule, claim, settle), [`Inbox`] (ids from other
//! programs), [`Workers`] (heartbeats), [`ErrorRecords`] (their errors), [`Inspection`] (counts, states of ids, samples) and
//! [`Administration`] (pause, repair of due times).
//!
//! ```
//! use std::time::Duration;
//! use lease_lanes::queue::{Claim, ClaimRequest, EmbeddedQueue, Jobs, Lane, NewJob, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
//! let queue = EmbeddedQueue::open(&folder.path().join("queue.db"), "thing:update", 5 * second).await?;
//! let lane = Lane::new("18m", 3 * minute);
//! queue.schedule(&[NewJob { id: "20".to_owned(), lane: lane.clone(), due: 0.into() }]).await?;
//!
//! let request = ClaimRequest { token: "a", limit: 100, linger: Duration::ZERO, lookahead: 0.1, early: 0.0, lease: minute };
//! let Claim::Batch(batch) = queue.claim(&request).await? else { panic!("it is due") };
//! // ... what has to be done, and then each job's verdict: it holds while the lease does.
//! let again = Verdict::Reschedule { due: lane.patience.into(), lane };
//! let verdicts: Vec<_> = batch.jobs.iter().map(|job| (job.clone(), again.clone())).collect();
//! let settled = queue.settle(&batch.fence, &verdicts, &[]).await?;
//! assert_eq!((settled.settled, settled.lost), (1, 0));
//! # Ok(())
//! # }
//! ```

mod administration;
mod due;
mod embedded;
mod errors;
mod inbox;
mod inspection;
mod jobs;
pub mod keys;
mod minutes;
mod promote;
mod redis;
mod row_range;
mod workers;

pub use self::administration::{Administration, DUE_SLACK, PAGE_LIMIT};
pub use self::due::Due;
pub use self::embedded::EmbeddedQueue;
pub use self::errors::{ERRORS_KEPT, ERRORS_KEPT_FOR, ErrorRecords, NO_EXAMPLES_FOR, RecordedError};
pub use self::inbox::{Inbox, Incoming, REFUSED_KEPT, REFUSED_KEPT_FOR};
pub use self::inspection::{DeadJob, Inspection, LaneStats, Place, Sample, Stats, WorkerStats};
pub use self::jobs::check_ids;
pub use self::jobs::{
    Adoption, Batch, Claim, ClaimRequest, Fence, Job, Jobs, NewJob, PostponeOutcome, PromoteOutcome, ScheduleOutcome,
    SettleOutcome, Verdict, rank, suspect_limit, worker_name_of_token,
};
pub use self::minutes::{HOUR_MS, HOURS_KEPT, Hour, LaneDue, MINUTE_MS, MINUTES_KEPT, Minute, append_minutes};
pub use self::redis::RedisQueue;
pub use self::row_range::RowRange;
pub use self::workers::Workers;
pub use crate::base::backend::BackendError as QueueError;
pub use crate::base::id::{MAX_ID_BYTES, check_id};
pub use crate::lane::{Lane, Order};
pub use crate::lateness::Lateness;

pub type Result<T, E = QueueError> = std::result::Result<T, E>;

/// The whole contract, for one namespace. A caller that needs one part takes that part's trait.
pub trait Queue: Jobs + Inbox + Workers + ErrorRecords + Inspection + Administration {}

impl<T: Jobs + Inbox + Workers + ErrorRecords + Inspection + Administration> Queue for T {}
