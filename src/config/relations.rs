//! `[relations]`

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BadConfig, words};
use crate::model::relation::Side;

/// `[relations]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct RelationSettings {
    pub collect: String,
    pub from_posts: bool,
    #[serde(deserialize_with = "super::word")]
    pub order: VisitOrder,
    #[serde(with = "humantime_serde")]
    pub revisit: Duration,
    #[serde(with = "humantime_serde")]
    pub complete_every: Duration,
    pub known_tail: u32,
    pub longest: u64,
    pub shrink: f64,
    pub page: u32,
}

/// The order in which lists are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VisitOrder {
    /// Owners that posted again first, least recently visited first; then the new ones, the newest first.
    Tiers,
    /// The more often, the more often a list had changed.
    Classes,
}

impl RelationSettings {
    /// The lists that are collected.
    ///
    /// # Errors
    /// A word of `relations.collect` is none of the known ones.
    pub fn sides(&self) -> Result<Vec<Side>, BadConfig> {
        words(&self.collect)
            .map(|word| word.parse().map_err(|why| BadConfig(format!("relations.collect: {why}"))))
            .collect()
    }
}
