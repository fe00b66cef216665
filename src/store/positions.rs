//! How far each polled source has been read.

use async_trait::async_trait;

use super::StoreError;
use crate::clock::Millis;

/// Posts of a source that its API did not give any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SourceGap {
    /// The least id that may be missing.
    pub from: String,
    /// The greatest.
    pub to: String,
    /// Why.
    pub reason: String,
}

/// The contract, beside [`Store`](super::Store), in the same tables' place.
///
/// `namespace` is a pipeline; sources are unique inside one. What a position says is its poller's matter: to the
/// store it is a text.
#[async_trait]
pub trait Positions: Send + Sync + std::fmt::Debug {
    /// The position of a source as it was saved last; `None` where it never was.
    async fn position(&self, namespace: &str, source: &str) -> Result<Option<String>, StoreError>;

    /// Saves a position, once the posts that it counts as had are, and what is missing from before it: all or
    /// nothing. A gap that is noted already stays as it is. `at` is when, ms since the epoch.
    async fn save_position(
        &self,
        namespace: &str,
        source: &str,
        at: Millis,
        position: &str,
        gaps: &[SourceGap],
    ) -> Result<(), StoreError>;

    /// What is missing of a source, in the order in which it was noted.
    async fn gaps(&self, namespace: &str, source: &str) -> Result<Vec<SourceGap>, StoreError>;
}
