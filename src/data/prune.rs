//! Removal of expired posts. Their tracking has ended, and their last answer is old or their author has deleted them.

use engine::base::clock::Millis;
use engine::base::shutdown::Stop;
use engine::base::task;
use store::{Expiry, ListedItem, Listing, Result, Store};

const PAGE: u32 = 1_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PruneReport {
    pub ended: u64,
    pub removed: u64,
}

/// Returns the rules for posts to remove: a last answer from before that time, ms since the epoch; deletion by the author.
#[must_use]
pub fn expiry_rules(before: Option<Millis>, deleted: bool) -> Vec<Expiry> {
    before.map(Expiry::Before).into_iter().chain(deleted.then_some(Expiry::Deleted)).collect()
}

/// Removes the expired posts of one pipeline, page by page, in one transaction per page and rule. After an interruption or an error,
/// finished removals stay and the same call does the rest.
pub async fn prune(
    store: &dyn Store,
    namespace: &str,
    which: &[Expiry],
    stop: &Stop,
    mut progress: impl FnMut(&PruneReport),
) -> Result<PruneReport> {
    let mut done = PruneReport::default();
    let mut below: Option<String> = None;
    while !stop.is_draining() {
        task::step("removes expired rows");
        let page = store.page(namespace, Listing::Ended, below.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        below = Some(last.id.clone());
        done.ended += page.len() as u64;
        for which in which {
            // The store decides: a row may live again by now.
            let is_young = |row: &&ListedItem| matches!(which, Expiry::Before(at) if row.checked_at >= Some(*at));
            let old: Vec<String> = page.iter().filter(|row| !is_young(row)).map(|row| row.id.clone()).collect();
            if !old.is_empty() {
                done.removed += store.remove(namespace, *which, &old).await?;
            }
        }
        progress(&done);
    }
    Ok(done)
}
