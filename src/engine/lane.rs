//! Lanes: a word the queue and the age table share. No I/O.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::{self, Millis};

/// A class of jobs inside a namespace, with how long one of them can wait: the interval at which it
/// is refreshed. Under overload every lane of a tier is late by the same multiple of its patience.
///
/// A lane travels with the jobs put into it, so the queue always knows every lane that holds any,
/// also after a change of configuration or a wiped Redis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Its name in the keys: `18m`.
    pub name: Arc<str>,
    /// Its patience in milliseconds, at least 1.
    pub patience: Millis,
    /// Its tier: 0 is claimed first. No job of a later tier is claimed while an earlier one fills the batch.
    pub tier: u8,
    /// Order of its jobs.
    pub order: Order,
}

/// The first letter of the names of lanes that lend: see [`Lane::lends`]. It keeps them apart from those of the age table, which are
/// named by an age.
pub const LENDS: char = '~';

/// Order in which the due jobs of a lane are claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By (now − due) ÷ patience. A job is late from its due time on.
    #[default]
    #[serde(rename = "lateness")]
    ByLateness,
    /// The same order, of due times that are the age of the data (the last visit, 0 for never). The oldest go first, the
    /// rest is meant to wait: no job is late.
    #[serde(rename = "oldest")]
    OldestFirst,
    /// The newest due time first, after the other lanes of its tier. The rest is meant to wait: no job is late.
    #[serde(rename = "newest")]
    NewestFirst,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ByLateness, Self::OldestFirst, Self::NewestFirst];

    /// The word for it in keys and tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ByLateness => "lateness",
            Self::OldestFirst => "oldest",
            Self::NewestFirst => "newest",
        }
    }

    /// The order that the word stands for; an unknown word stands for the default.
    #[must_use]
    pub fn of(word: &str) -> Self {
        Self::ALL.into_iter().find(|order| order.word() == word).unwrap_or_default()
    }

    /// Returns true if a job in such a lane can be late.
    #[must_use]
    pub fn is_timed(self) -> bool {
        self == Self::ByLateness
    }
}

/// The name of [`Lane::first`].
const FIRST: &str = "first";
/// The name of [`Lane::once`].
pub const ONCE: &str = "once";
/// The lanes of every pipeline that items pass through: their patience is no interval. A schedule may
/// [have more](crate::engine::schedule::Schedule::is_passing).
pub(super) const PASSING: [&str; 2] = [FIRST, ONCE];
/// The patience of items that were put in to be looked up at once, if calls are scarce.
const AT_ONCE: Duration = Duration::from_secs(3_600);

impl Lane {
    /// The lane of items that were put in to be looked up at once: their first lookup. They take their turn as fast as the
    /// quota goes, and none is late.
    #[must_use]
    pub fn first() -> Self {
        Self::new(FIRST, AT_ONCE).ordered(Order::OldestFirst)
    }

    /// The lane of items that are looked up once. What says so is their way in the store
    /// ([`ONCE`](crate::store::ONCE)); the lane alone says that it has to be asked.
    #[must_use]
    pub fn once() -> Self {
        Self::new(ONCE, AT_ONCE).ordered(Order::OldestFirst)
    }

    /// A lane of tier 0, ordered by lateness. `patience` below 1 ms counts as 1 ms, since the queue divides by it.
    pub fn new(name: impl Into<Arc<str>>, patience: Duration) -> Self {
        Self { name: name.into(), patience: clock::millis(patience).max(1), tier: 0, order: Order::default() }
    }

    /// Returns true if its jobs wait for about its patience, so that (due − now) ÷ patience says how early one is: lanes of the grid of an
    /// adaptive schedule, `~5m`. Those that wait for what was missing or failed are others, whose jobs may come back sooner.
    #[must_use]
    pub fn lends(&self) -> bool {
        self.order.is_timed() && self.name.starts_with(LENDS)
    }

    /// The same lane in that tier.
    #[must_use]
    pub fn in_tier(self, tier: u8) -> Self {
        Self { tier, ..self }
    }

    /// The same lane in that order.
    #[must_use]
    pub fn ordered(self, order: Order) -> Self {
        Self { order, ..self }
    }
}
