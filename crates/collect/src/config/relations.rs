//! `[relations]`

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BadConfig, comma_separated};
use networks::model::relation::ListKind;

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VisitOrder {
    /// Owners that posted again first, least recently visited first; then new ones, newest first.
    Tiers,
    /// Visits a list more often if it changed more often.
    Classes,
}

impl RelationSettings {
    /// Lists that are collected.
    pub fn sides(&self) -> Result<Vec<ListKind>, BadConfig> {
        comma_separated(&self.collect)
            .map(|word| word.parse().map_err(|why| BadConfig(format!("relations.collect: {why}"))))
            .collect()
    }
}
