//! The settings from which the figures are calculated.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::schedule::Schedule;
use crate::ops::report::plan::Fill;
use crate::pipelines::kind::{ListTerms, Words};
use crate::providers::lookup::Capabilities;

/// The settings from which the figures are calculated.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The words for the items.
    pub words: Words,
    /// When items are due.
    pub schedule: Arc<dyn Schedule>,
    /// The API that is called, in words, by these settings; `None` where none is.
    pub api: Option<String>,
    /// How long an id may wait for its request to fill before it is overdue.
    pub buffer_ttl: Duration,
    /// How early an id may be taken along, as a share of its interval.
    pub lookahead: f64,
    /// How often an unavailable post is looked up.
    pub unavailable_every: Duration,
    /// How long a claimed batch is leased.
    pub lease: Duration,
    /// Page size and visit intervals; `None` unless the items are lists.
    pub lists: Option<ListTerms>,
    /// The score from which on an item belongs, where items are accounts of a community.
    pub threshold: Option<f64>,
}

impl Terms {
    /// How requests to such a lookup are filled.
    #[must_use]
    pub fn fill(&self, capabilities: Capabilities) -> Fill {
        Fill::of(capabilities, self.buffer_ttl, self.lookahead)
    }
}

#[cfg(test)]
use crate::engine::schedule::age::AgeTable;

#[cfg(test)]
impl Terms {
    /// Those of tests.
    pub(crate) fn usual() -> Self {
        Self {
            words: Words::POSTS,
            api: None,
            schedule: Arc::new("18m: 3m, 1d: 1h".parse::<AgeTable>().unwrap()),
            buffer_ttl: Duration::from_secs(5),
            lookahead: 0.1,
            unavailable_every: Duration::from_secs(21_600),
            lease: Duration::from_secs(60),
            lists: None,
            threshold: None,
        }
    }
}
