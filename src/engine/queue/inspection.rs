//! The queue as it is at one moment: counts, due times, places, samples.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;

use super::{Hour, Lane, LaneDue, Minute, Order, Result, RowRange};
use crate::base::clock::Millis;

/// A worker whose heartbeat is older than this, ms, is not counted on.
const HEARTBEAT_PATIENCE_MS: Millis = 15_000;

/// The place of an id.
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
    /// Order of the lane; the default for the leased ids.
    pub order: Order,
    /// Ids in the lane.
    pub total: u64,
    /// Distinct ids, each of the lane's with the same probability, whatever its due. In Redis the probabilities of two
    /// ids differ by about a fifth: it draws from a hash table and prefers ids that follow empty places.
    pub ids: Vec<String>,
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
    /// The lateness of the oldest of them, ms; 0 in a lane that counts no lateness.
    pub oldest_lateness_ms: Millis,
    /// Ids of a lane by lateness due later than its patience and [`MEND_SLACK`](super::MEND_SLACK) from now: their due times are wrong.
    pub beyond: u64,
    /// Its tier: 0 is claimed first.
    #[serde(skip_serializing_if = "is_default")]
    pub tier: u8,
    /// Order of its jobs.
    #[serde(skip_serializing_if = "is_default")]
    pub order: Order,
    /// The age of the data of the oldest due id, ms, in a lane that counts no lateness.
    #[serde(skip_serializing_if = "is_default")]
    pub oldest_age_ms: Millis,
}

/// Most lanes are in tier 0 and by lateness: their figures look as if there was nothing else.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl LaneStats {
    /// A lane with its counts; `oldest` is the earliest due time in it, ms since the epoch.
    pub(super) fn of(lane: &Lane, now: Millis, [delayed, due, beyond]: [u64; 3], oldest: Option<Millis>) -> Self {
        let waited = oldest.map_or(0, |oldest| (now - oldest).max(0));
        let is_timed = lane.order.is_timed();
        Self {
            lane: lane.name.to_string(),
            patience_ms: lane.patience,
            delayed,
            due,
            oldest_lateness_ms: if is_timed { waited } else { 0 },
            beyond: if is_timed { beyond } else { 0 },
            tier: lane.tier,
            order: lane.order,
            oldest_age_ms: if is_timed { 0 } else { waited },
        }
    }
}

/// A worker as its heartbeat shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerStats {
    /// Its name.
    pub worker: String,
    /// Since its last heartbeat, ms; the time until it, where the queue's clock has stepped back since.
    pub beat_age_ms: Millis,
    /// Its own report.
    pub fields: BTreeMap<String, String>,
}

impl WorkerStats {
    /// The field that says what keeps a worker from working; empty where nothing does.
    pub const TROUBLE: &'static str = "trouble";
    /// The field that says since when, by the worker's own clock, ms since the epoch.
    pub const TROUBLE_SINCE: &'static str = "trouble_since_ms";

    /// The age of a heartbeat, ms, by the queue's clock now; both ms since the epoch. One that is dated ahead tells nothing of now: the
    /// clock has stepped back since.
    #[must_use]
    pub(super) fn beat_age(beat: Millis, now: Millis) -> Millis {
        now.saturating_sub(beat).saturating_abs()
    }

    /// The field that names a task of it that failed lately, and why; empty where none did.
    pub const FAILING: &'static str = "failing";

    /// Its own report of a task that failed lately; the others work.
    #[must_use]
    pub fn failing(&self) -> Option<&str> {
        self.fields.get(Self::FAILING).map(String::as_str).filter(|why| !why.is_empty())
    }

    /// The field that names the API that it calls, with the kinds of credentials; empty where it calls none.
    pub const API: &'static str = "api";
    /// The field that says why its last call to the API failed; empty where it was answered.
    pub const CALL_FAILED: &'static str = "call_failed";
    /// The field that says when a call of it failed last, by the queue's clock, ms since the epoch; 0 where none did.
    pub const CALL_FAILED_AT: &'static str = "call_failed_ms";
    /// The field that says when a call of it was answered last, likewise.
    pub const CALL_ANSWERED_AT: &'static str = "call_answered_ms";

    /// Its own report of why its last call failed, and when.
    #[must_use]
    pub fn failed_call(&self) -> Option<(&str, Millis)> {
        let why = self.fields.get(Self::CALL_FAILED).map(String::as_str).filter(|why| !why.is_empty())?;
        Some((why, self.moment(Self::CALL_FAILED_AT).unwrap_or(0)))
    }

    /// When a call of it was answered last, ms since the epoch; `None` before the first.
    #[must_use]
    pub fn answered_at(&self) -> Option<Millis> {
        self.moment(Self::CALL_ANSWERED_AT)
    }

    fn moment(&self, field: &str) -> Option<Millis> {
        self.fields.get(field)?.parse().ok().filter(|at| *at > 0)
    }

    /// Its own report of why it cannot work.
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
    /// Its lanes, by tier, most impatient first.
    pub lanes: Vec<LaneStats>,
    /// Ids in all lanes.
    pub delayed: u64,
    /// Ids of those that are due.
    pub due: u64,
    /// The lateness of the oldest due id, ms.
    pub oldest_lateness_ms: Millis,
    /// Ids under a lease.
    pub leased: u64,
    /// Ids whose lease has expired and that are not claimed again yet.
    pub expired: u64,
    /// Buried ids.
    pub dead: u64,
    /// Ids in `incoming` that are not drained yet.
    pub incoming: u64,
    /// Refused members of `incoming`, moved aside: at most [`REFUSED_KEPT`](super::REFUSED_KEPT).
    pub incoming_refused: u64,
    /// The time from the queue's clock to the deadline of the last lease, ms; 0 if it is past. Longer than any lease:
    /// the clock stepped back.
    pub fence_ahead_ms: Millis,
    /// Why nothing is claimed, when it is paused.
    pub paused: Option<String>,
    /// Counters since the queue was made.
    pub counters: BTreeMap<String, i64>,
    /// Workers with a heartbeat in the last minute.
    pub workers: Vec<WorkerStats>,
}

impl Stats {
    /// Returns true if this worker is the first live one by name: it does what one has to do for all.
    #[must_use]
    pub fn is_first(&self, name: &str) -> bool {
        let lives = |of: &&WorkerStats| of.beat_age_ms < HEARTBEAT_PATIENCE_MS;
        let first = self.workers.iter().filter(lives).map(|of| &*of.worker).min();
        first.is_none_or(|first| first >= name)
    }

    /// Puts the lanes in order, by tier, most impatient first, and adds them up.
    pub(super) fn with_lanes(mut self, mut lanes: Vec<LaneStats>) -> Self {
        lanes.sort_by(|a, b| (a.tier, a.patience_ms, &a.lane).cmp(&(b.tier, b.patience_ms, &b.lane)));
        self.delayed = lanes.iter().map(|lane| lane.delayed).sum();
        self.due = lanes.iter().map(|lane| lane.due).sum();
        self.oldest_lateness_ms = lanes.iter().map(|lane| lane.oldest_lateness_ms).max().unwrap_or(0);
        self.lanes = lanes;
        self
    }
}

/// Reads the queue and changes nothing.
#[async_trait]
pub trait Inspection: Send + Sync + std::fmt::Debug {
    /// The namespace at this moment.
    async fn stats(&self) -> Result<Stats>;

    /// The same without its lanes, where counting them takes long: for whoever asks for the clock, the workers or the dead.
    async fn brief(&self) -> Result<Stats> {
        self.stats().await
    }

    /// The approximate number of due ids, by which a pace is chosen.
    async fn due(&self) -> Result<u64>;

    /// Per lane, most impatient first, how many ids are due at these moments: ms from now, rising, negative ones
    /// past. Each count holds those before it.
    async fn due_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>>;

    /// The last `count` minutes, [`MINUTES_KEPT`](super::MINUTES_KEPT) at the most: the oldest first, the current one last. One in which
    /// nothing was done is there, and empty.
    async fn minutes(&self, count: u32) -> Result<Vec<Minute>>;

    /// The hours of the last `count` of which anything is known, [`HOURS_KEPT`](super::HOURS_KEPT) at the most: the oldest first. They
    /// are as new as the last [`sum_hours`](super::Administration::sum_hours).
    async fn hours(&self, count: u32) -> Result<Vec<Hour>>;

    /// Every place each id is in, in the order asked. More than one place for an id is an error of
    /// ours; none means it was never scheduled, or its life has ended.
    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>>;

    /// Of each lane, most impatient first, and last of the leased: up to `most` ids chosen at random, [`PAGE_LIMIT`](super::PAGE_LIMIT) at
    /// the most. Lanes are read one after the other, so an id on its way may be in two samples or in none.
    ///
    /// Redis: about 1 ms of its thread per 1,000 ids in the sample. SQLite: two walks over the lane's index, about 0.2 s
    /// per million ids in the lane; it delays no writer.
    async fn sample(&self, most: usize) -> Result<Vec<Sample>>;

    /// The dead in that range of the list, buried first first.
    async fn dead(&self, rows: RowRange) -> Result<Vec<Buried>>;
}
