//! The settings from which the figures are calculated.

use std::sync::Arc;
use std::time::Duration;

use crate::ops::report::plan::RequestFill;
use collect::pipelines::kind::{ItemWords, ListTerms};
use engine::schedule::Schedule;
use networks::providers::lookup::Capabilities;

#[derive(Debug, Clone)]
pub struct FigureSettings {
    pub words: ItemWords,
    pub schedule: Arc<dyn Schedule>,
    /// The called API in words; `None` if none is called.
    pub api: Option<String>,
    pub buffer_ttl: Duration,
    /// Share of its interval by which an id may be taken early.
    pub lookahead: f64,
    pub unavailable_every: Duration,
    pub lease: Duration,
    /// Page size and visit intervals; `None` unless the items are lists.
    pub lists: Option<ListTerms>,
    /// Minimum score of a member, if the items are accounts of a community.
    pub threshold: Option<f64>,
}

impl FigureSettings {
    #[must_use]
    pub fn fill(&self, capabilities: Capabilities) -> RequestFill {
        RequestFill::new(capabilities, self.buffer_ttl, self.lookahead)
    }
}

#[cfg(test)]
use engine::schedule::age::AgeTable;

#[cfg(test)]
impl FigureSettings {
    pub(crate) fn usual() -> Self {
        Self {
            words: ItemWords::POSTS,
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
