//! Lanes, shared by the queue and the age table. No I/O.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::{self, Millis};

/// A class of jobs inside a namespace. Its patience is the longest wait of a job: the interval at which the job is refreshed.
/// Under overload every lane of a tier is late by the same multiple of its patience.
///
/// A lane travels with its jobs, so the queue knows it even after a change of configuration or a loss of all data in Redis.
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

/// First letter of lanes that [allow early claims](Lane::allows_early_claims). Lanes of the age table are named by an age instead.
pub const EARLY_CLAIM_PREFIX: char = '~';

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Order by (now − due) ÷ patience. A job is late from its due time on.
    #[default]
    #[serde(rename = "lateness")]
    ByLateness,
    /// The oldest data first: the due time is that of the last visit, 0 for never. No job is late.
    #[serde(rename = "oldest")]
    OldestFirst,
    /// The newest due time first, after the other lanes of its tier. No job is late.
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
    pub fn from_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|order| order.word() == word).unwrap_or_default()
    }

    #[must_use]
    pub fn counts_lateness(self) -> bool {
        self == Self::ByLateness
    }
}

const FIRST: &str = "first";
pub const ONCE: &str = "once";
/// Lane of items that an event made due, not an interval.
pub const REPEAT: &str = "repeat";
/// Patience of items to look up at once. It matters only while calls are scarce.
const AT_ONCE: Duration = Duration::from_secs(3_600);

impl Lane {
    /// The lane of first lookups that should happen at once. They run as fast as the quota allows, and none is late.
    #[must_use]
    pub fn first() -> Self {
        Self::new(FIRST, AT_ONCE).with_order(Order::OldestFirst)
    }

    /// The lane of items that are looked up once. It makes the worker read the item's row, which decides.
    #[must_use]
    pub fn once() -> Self {
        Self::new(ONCE, AT_ONCE).with_order(Order::OldestFirst)
    }

    /// A lane of tier 0, ordered by lateness. `patience` below 1 ms counts as 1 ms, since the queue divides by it.
    pub fn new(name: impl Into<Arc<str>>, patience: Duration) -> Self {
        Self { name: name.into(), patience: clock::millis(patience).max(1), tier: 0, order: Order::default() }
    }

    /// Returns true for the grid lanes of an adaptive schedule (`~5m`): their jobs wait for about the patience, so
    /// (due − now) ÷ patience is the earliness of a job. In other lanes a job may return sooner.
    #[must_use]
    pub fn allows_early_claims(&self) -> bool {
        self.order.counts_lateness() && self.name.starts_with(EARLY_CLAIM_PREFIX)
    }

    #[must_use]
    pub fn with_tier(self, tier: u8) -> Self {
        Self { tier, ..self }
    }

    #[must_use]
    pub fn with_order(self, order: Order) -> Self {
        Self { order, ..self }
    }
}

/// Returns true if items only pass through that lane: its patience is no interval, so the items state no demand. Items wait in order of
/// [`Order::NewestFirst`] only for their first lookup.
#[must_use]
pub fn is_pass_through(name: &str, order: Order) -> bool {
    [FIRST, ONCE, REPEAT].contains(&name) || order == Order::NewestFirst
}
