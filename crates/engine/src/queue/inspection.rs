//! The queue at one moment: counts, due times, states of single ids, samples.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;

use super::{Hour, Lane, LaneDue, Minute, Order, Result, RowRange};
use crate::base::clock::Millis;

/// Heartbeat age, ms, from which a worker does not count as live.
const HEARTBEAT_PATIENCE_MS: Millis = 15_000;

/// State of an id in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Delayed {
        lane: String,
        /// Due time, ms since the epoch.
        due: Millis,
    },
    Leased {
        /// Deadline of the lease, ms since the epoch.
        fence: Millis,
        /// The worker that holds it; `None` if its claim is not on record, for example after the end of the lease.
        by: Option<String>,
    },
    Dead {
        /// Time of its death, ms since the epoch.
        at: Millis,
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadJob {
    pub id: String,
    /// Time of its death, ms since the epoch.
    pub at: Millis,
    pub reason: String,
}

/// Random ids of one lane, or of the leased ids. For leased ids `lane` and `patience_ms` are `None`, and `order` is the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub lane: Option<String>,
    pub patience_ms: Option<Millis>,
    pub order: Order,
    /// Number of all ids there, sampled or not.
    pub total: u64,
    /// Distinct ids, each with the same probability, whatever its due time. In Redis the probabilities of two ids differ by about a
    /// fifth: it draws from a hash table and prefers ids that follow empty buckets.
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneStats {
    pub lane: String,
    pub patience_ms: Millis,
    /// Number of waiting ids, due or not.
    pub delayed: u64,
    pub due: u64,
    /// Lateness of the oldest due id, ms; 0 in a lane that counts no lateness.
    pub oldest_lateness_ms: Millis,
    /// Ids due later than the patience and [`DUE_SLACK`](super::DUE_SLACK) from now: wrong due times. 0 without lateness.
    pub beyond: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub tier: u8,
    #[serde(skip_serializing_if = "is_default")]
    pub order: Order,
    /// Age of the data of the oldest due id, ms, in a lane that counts no lateness; 0 in others.
    #[serde(skip_serializing_if = "is_default")]
    pub oldest_age_ms: Millis,
}

/// Output of lanes in tier 0 and ordered by lateness, which are most, leaves out these default values.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl LaneStats {
    /// A lane with its counts. `oldest` is the earliest due time in it, ms since the epoch.
    pub(super) fn from_counts(
        lane: &Lane,
        now: Millis,
        [delayed, due, beyond]: [u64; 3],
        oldest: Option<Millis>,
    ) -> Self {
        let waited = oldest.map_or(0, |oldest| (now - oldest).max(0));
        let counts_lateness = lane.order.counts_lateness();
        Self {
            lane: lane.name.to_string(),
            patience_ms: lane.patience,
            delayed,
            due,
            oldest_lateness_ms: if counts_lateness { waited } else { 0 },
            beyond: if counts_lateness { beyond } else { 0 },
            tier: lane.tier,
            order: lane.order,
            oldest_age_ms: if counts_lateness { 0 } else { waited },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerStats {
    pub worker: String,
    /// Time since its last heartbeat, ms. If the queue's clock has stepped back since, the time until it.
    pub beat_age_ms: Millis,
    pub fields: BTreeMap<String, String>,
}

impl WorkerStats {
    /// Field with the reason why a worker cannot work; empty if it can.
    pub const TROUBLE: &'static str = "trouble";
    /// Field with the start of that trouble, by the worker's own clock, ms since the epoch.
    pub const TROUBLE_SINCE: &'static str = "trouble_since_ms";

    /// Age of a heartbeat, ms; `beat` and `now` are ms since the epoch. A heartbeat from the future has the same age as one equally long
    /// ago.
    #[must_use]
    pub(super) fn heartbeat_age(beat: Millis, now: Millis) -> Millis {
        now.saturating_sub(beat).saturating_abs()
    }

    /// Field with a task that failed lately, and its failure; empty if none did.
    pub const FAILING: &'static str = "failing";

    /// Task of the worker that failed lately, with its error; `None` if none did.
    #[must_use]
    pub fn failing(&self) -> Option<&str> {
        self.fields.get(Self::FAILING).map(String::as_str).filter(|why| !why.is_empty())
    }

    /// Field with the API that the worker calls and the kinds of credentials; empty if it calls none.
    pub const API: &'static str = "api";
    /// Field with the reason why the last API call failed; empty if it succeeded.
    pub const CALL_FAILED: &'static str = "call_failed";
    /// Field with the time of the last failed call, by the queue's clock, ms since the epoch; 0 if none failed.
    pub const CALL_FAILED_AT: &'static str = "call_failed_ms";
    /// Field with the time of the last successful call, likewise.
    pub const CALL_ANSWERED_AT: &'static str = "call_answered_ms";

    /// Reason and time of the last API call if it failed, ms since the epoch (0: unknown); `None` if it succeeded.
    #[must_use]
    pub fn failed_call(&self) -> Option<(&str, Millis)> {
        let why = self.fields.get(Self::CALL_FAILED).map(String::as_str).filter(|why| !why.is_empty())?;
        Some((why, self.moment(Self::CALL_FAILED_AT).unwrap_or(0)))
    }

    /// Time of the last successful call, ms since the epoch; `None` before the first.
    #[must_use]
    pub fn answered_at(&self) -> Option<Millis> {
        self.moment(Self::CALL_ANSWERED_AT)
    }

    fn moment(&self, field: &str) -> Option<Millis> {
        self.fields.get(field)?.parse().ok().filter(|at| *at > 0)
    }

    /// Reason why the worker cannot work; `None` if it can.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.fields.get(Self::TROUBLE).map(String::as_str).filter(|why| !why.is_empty())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    pub namespace: String,
    /// The queue's clock, ms since the epoch.
    pub now_ms: Millis,
    /// Sorted by tier, then by interval, shortest first.
    pub lanes: Vec<LaneStats>,
    pub delayed: u64,
    pub due: u64,
    pub oldest_lateness_ms: Millis,
    pub leased: u64,
    /// Ids whose lease has expired and that are not claimed again yet.
    pub expired: u64,
    pub dead: u64,
    /// Ids in `incoming` that are not drained yet.
    pub incoming: u64,
    /// Rejected members of `incoming`, kept with their reasons: at most [`REFUSED_KEPT`](super::REFUSED_KEPT).
    pub incoming_refused: u64,
    /// Time from the queue's clock to the last lease's deadline, ms; 0 if it is past. It exceeds any lease if the clock stepped back.
    pub fence_ahead_ms: Millis,
    /// Reason of the pause; `None` if claiming is not paused.
    pub paused: Option<String>,
    /// Counters since the queue was created.
    pub counters: BTreeMap<String, i64>,
    /// Workers with a heartbeat in the last minute.
    pub workers: Vec<WorkerStats>,
}

impl Stats {
    /// Returns true if this worker is the first live one by name. It does the work that one worker does for all.
    #[must_use]
    pub fn is_first_worker(&self, name: &str) -> bool {
        let lives = |of: &&WorkerStats| of.beat_age_ms < HEARTBEAT_PATIENCE_MS;
        let first = self.workers.iter().filter(lives).map(|of| &*of.worker).min();
        first.is_none_or(|first| first >= name)
    }

    /// Sorts the lanes by tier, then by interval, shortest first, and adds up their counts.
    pub(super) fn with_lanes(mut self, mut lanes: Vec<LaneStats>) -> Self {
        lanes.sort_by(|a, b| (a.tier, a.patience_ms, &a.lane).cmp(&(b.tier, b.patience_ms, &b.lane)));
        self.delayed = lanes.iter().map(|lane| lane.delayed).sum();
        self.due = lanes.iter().map(|lane| lane.due).sum();
        self.oldest_lateness_ms = lanes.iter().map(|lane| lane.oldest_lateness_ms).max().unwrap_or(0);
        self.lanes = lanes;
        self
    }
}

#[async_trait]
pub trait Inspection: Send + Sync + std::fmt::Debug {
    async fn stats(&self) -> Result<Stats>;

    /// Returns the stats, without lanes if counting them takes long. Use it for the clock, the workers or the dead.
    async fn brief_stats(&self) -> Result<Stats> {
        self.stats().await
    }

    /// Approximate number of due ids. Workers choose the pace of their calls by it.
    async fn due_count(&self) -> Result<u64>;

    /// Number of due ids at these moments, per lane, shortest interval first. The moments are ms from now, rising; negative ones are
    /// past. Each count includes those before it.
    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>>;

    /// The last `count` minutes, up to [`MINUTES_KEPT`](super::MINUTES_KEPT), the oldest first. Minutes without activity are empty.
    async fn minutes(&self, count: u32) -> Result<Vec<Minute>>;

    /// Hours with data among the last `count`, up to [`HOURS_KEPT`](super::HOURS_KEPT), the oldest first. They are as new as the last
    /// [`sum_hours`](super::Administration::sum_hours).
    async fn hours(&self, count: u32) -> Result<Vec<Hour>>;

    /// Returns the [places](Place) of each id, in the order of `ids`; none for an id that the queue does not have. Two places are a bug.
    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>>;

    /// Up to `most` random ids of each lane, shortest interval first, and last of the leased ids; never more than
    /// [`PAGE_LIMIT`](super::PAGE_LIMIT). Lanes are read one after another, so an id that moves may be in two samples or in none.
    ///
    /// Redis: about 1 ms of its thread per 1,000 ids in the sample. SQLite: two walks over the lane's index, about 0.2 s
    /// per million ids in the lane; it delays no writer.
    async fn sample(&self, most: usize) -> Result<Vec<Sample>>;

    /// Dead jobs in that range of the list, the oldest death first.
    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>>;
}
