//! Removal of expired posts: their lookups have ended, and their last answer is old or their author has deleted them.

use crate::base::clock::Millis;
use crate::base::shutdown::Stop;
use crate::base::task;
use crate::store::{Expired, Listed, Listing, Result, Store};

const PAGE: u32 = 1_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Pruned {
    pub ended: u64,
    /// Removed posts, with their history.
    pub removed: u64,
}

/// Posts to remove: those whose last answer is from before that time, ms since the epoch, and those that their authors have deleted.
#[must_use]
pub fn expired(before: Option<Millis>, deleted: bool) -> Vec<Expired> {
    before.map(Expired::Before).into_iter().chain(deleted.then_some(Expired::Deleted)).collect()
}

/// Removes the expired posts of one pipeline, page by page. Each kind in a page has a transaction of its own. After an interruption, run
/// it again.
///
/// # Errors
/// The store is down. Finished removals stay.
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
            // The store decides: a row may live again by now.
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
