//! Lanes, shared by the queue and the age table. No I/O.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::{self, Millis};

/// A class of jobs inside a namespace. Its patience is the longest wait of a job: the interval at which the job is refreshed.
/// Under overload every lane of a tier is late by the same multiple of its patience.
///
/// A lane travels with its jobs. So the queue always knows every lane that holds any, even after a change of configuration or
/// the loss of all data in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Name in the keys, for example `18m`.
    pub name: Arc<str>,
    /// At least 1 ms.
    pub patience: Millis,
    /// Tier 0 is claimed first. Jobs of a later tier are claimed only if the earlier tiers leave room in the batch.
    pub tier: u8,
    pub order: Order,
}

/// First letter of the names of lanes that lend: see [`Lane::lends`]. Lanes of the age table are named by an age instead.
pub const LENDS: char = '~';

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Order by (now − due) ÷ patience. A job is late from its due time on.
    #[default]
    #[serde(rename = "lateness")]
    ByLateness,
    /// The same order, but the due time is the age of the data: the last visit, 0 for never. The oldest go first. The other jobs
    /// are meant to wait, so no job is late.
    #[serde(rename = "oldest")]
    OldestFirst,
    /// The newest due time first, after the other lanes of its tier. The other jobs are meant to wait, so no job is late.
    #[serde(rename = "newest")]
    NewestFirst,
}

impl Order {
    pub const ALL: [Self; 3] = [Self::ByLateness, Self::OldestFirst, Self::NewestFirst];

    /// The word in keys and tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ByLateness => "lateness",
            Self::OldestFirst => "oldest",
            Self::NewestFirst => "newest",
        }
    }

    /// The order for a word; the default for an unknown word.
    #[must_use]
    pub fn of(word: &str) -> Self {
        Self::ALL.into_iter().find(|order| order.word() == word).unwrap_or_default()
    }

    #[must_use]
    pub fn is_timed(self) -> bool {
        self == Self::ByLateness
    }
}

const FIRST: &str = "first";
pub const ONCE: &str = "once";
/// Lanes of every pipeline in which items stay only once: their patience is no interval. A schedule may
/// [have more](crate::engine::schedule::Schedule::is_passing).
pub(super) const PASSING: [&str; 2] = [FIRST, ONCE];
/// Patience of items to look up at once. It matters only while calls are scarce.
const AT_ONCE: Duration = Duration::from_secs(3_600);

impl Lane {
    /// The lane of first lookups that should happen at once. They run as fast as the quota allows, and none is late.
    #[must_use]
    pub fn first() -> Self {
        Self::new(FIRST, AT_ONCE).ordered(Order::OldestFirst)
    }

    /// The lane of items that are looked up once. The item's row in the store decides that ([`ONCE`](crate::store::ONCE)); this
    /// lane only tells the worker to read the row.
    #[must_use]
    pub fn once() -> Self {
        Self::new(ONCE, AT_ONCE).ordered(Order::OldestFirst)
    }

    /// A lane of tier 0, ordered by lateness. `patience` below 1 ms counts as 1 ms, since the queue divides by it.
    pub fn new(name: impl Into<Arc<str>>, patience: Duration) -> Self {
        Self { name: name.into(), patience: clock::millis(patience).max(1), tier: 0, order: Order::default() }
    }

    /// Returns true if its jobs wait for about its patience, so (due − now) ÷ patience states how early a job is. These are the grid
    /// lanes of an adaptive schedule (`~5m`). In other lanes a job may return sooner, for example after a failure.
    #[must_use]
    pub fn lends(&self) -> bool {
        self.order.is_timed() && self.name.starts_with(LENDS)
    }

    #[must_use]
    pub fn in_tier(self, tier: u8) -> Self {
        Self { tier, ..self }
    }

    #[must_use]
    pub fn ordered(self, order: Order) -> Self {
        Self { order, ..self }
    }
}
