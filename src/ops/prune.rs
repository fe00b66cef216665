//! Removal of expired posts: their lookups have ended, and their last answer is old or their author has deleted them.

use crate::base::clock::Millis;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::store::{Expired, Listed, Listing, Result, Store};

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

/// The posts to remove: those whose last answer is from before that moment, ms since the epoch, and those that their authors have
/// deleted.
#[must_use]
pub fn expired(before: Option<Millis>, deleted: bool) -> Vec<Expired> {
    before.map(Expired::Before).into_iter().chain(deleted.then_some(Expired::Deleted)).collect()
}

/// Removes the expired posts of one pipeline, page by page; each page is a transaction of its own for each kind. After an
/// interruption, run it again.
///
/// # Errors
/// The store is down. What was removed before stays removed.
pub async fn prune(
    store: &dyn Store,
    namespace: &str,
    which: &[Expired],
    stop: &Stop,
    mut progress: impl FnMut(&Pruned),
) -> Result<Pruned> {
    let mut done = Pruned::default();
    let mut below: Option<String> = None;
    while !stop.is_draining() {
        task::step("removes expired rows");
        let page = store.page(namespace, Listing::Ended, below.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        below = Some(last.id.clone());
        done.ended += page.len() as u64;
        for which in which {
            // The store has the last word: a row may live again by now.
            let is_young = |row: &&Listed| matches!(which, Expired::Before(at) if row.checked_at >= Some(*at));
            let old: Vec<String> = page.iter().filter(|row| !is_young(row)).map(|row| row.id.clone()).collect();
            if !old.is_empty() {
                done.removed += store.remove(namespace, *which, &old).await?;
            }
        }
        progress(&done);
    }
    Ok(done)
}
