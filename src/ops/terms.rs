//! The settings from which the figures are calculated.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::schedule::Schedule;
use crate::ops::report::plan::Fill;
use crate::pipelines::kind::{ListTerms, Words};
use crate::providers::lookup::Capabilities;

#[derive(Debug, Clone)]
pub struct Terms {
    pub words: Words,
    pub schedule: Arc<dyn Schedule>,
    /// The called API in words, by these settings; `None` where none is called.
    pub api: Option<String>,
    /// Time that an id may wait for its request to fill before it is overdue.
    pub buffer_ttl: Duration,
    /// Share of its interval by which an id may be taken early.
    pub lookahead: f64,
    pub unavailable_every: Duration,
    pub lease: Duration,
    /// Page size and visit intervals; `None` unless the items are lists.
    pub lists: Option<ListTerms>,
    /// Minimum score of a member, where items are accounts of a community.
    pub threshold: Option<f64>,
}

impl Terms {
    #[must_use]
    pub fn fill(&self, capabilities: Capabilities) -> Fill {
        Fill::of(capabilities, self.buffer_ttl, self.lookahead)
    }
}

#[cfg(test)]
use crate::engine::schedule::age::AgeTable;

#[cfg(test)]
impl Terms {
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
