//! Removal of expired posts: their lookups have ended, and their last answer is old or their author has deleted them.

use std::sync::Arc;

use crate::base::shutdown::Stop;
use crate::store::{Expired, Listing, Result, Store};

/// Rows that are read, and removed, at once.
const PAGE: u32 = 1_000;

/// What a removal did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Pruned {
    /// Posts whose lookups have ended.
    pub ended: u64,
    /// Those of them that were removed, with their history.
    pub removed: u64,
}

/// Removes the expired posts of one pipeline, page by page; each page is a transaction. After an interruption, run it again.
///
/// # Errors
/// The store is down. What was removed before stays removed.
pub async fn prune(
    store: &Arc<dyn Store>,
    namespace: &str,
    which: Expired,
    stop: &Stop,
    mut progress: impl FnMut(&Pruned),
) -> Result<Pruned> {
    let mut done = Pruned::default();
    let mut below: Option<String> = None;
    while !stop.is_draining() {
        let page = store.page(namespace, Listing::Ended, below.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        below = Some(last.id.clone());
        done.ended += page.len() as u64;
        // The store has the last word: a row may live again by now.
        let is_young = |checked_at| matches!(which, Expired::Before(moment) if checked_at >= Some(moment));
        let old = page.into_iter().filter(|row| !is_young(row.checked_at)).map(|row| row.id).collect::<Vec<_>>();
        if !old.is_empty() {
            done.removed += store.remove(namespace, which, &old).await?;
        }
        progress(&done);
    }
    Ok(done)
}
