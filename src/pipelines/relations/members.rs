//! Members of lists whose profiles are collected (`accounts.from_lists`): the first of each list, which are the newest.
//!
//! They go the way of all fan-out: recorded in the store before the page that shows them, put into the queue after it. A queue
//! that does not take them stops nothing: the next visit of the list names them again, and `rebuild` finds them in the store. A
//! member that the pipeline of accounts has looked up is not named again; the profile that its page holds is an answer, as that
//! of an author in a post is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::base::clock::Millis;
use crate::engine::metrics::Metrics;
use crate::model::relation::Side;
use crate::pipelines::community::shown::{COMMUNITY, Shown};
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{Mention, Named, Received, Target};
use crate::providers::relations::Members;
use crate::store::{Standing, Store, StoreError};

/// Hands members of lists to the pipeline of accounts.
#[derive(Debug)]
pub struct Recruits {
    /// The pipeline of accounts in the store.
    pub accounts: String,
    /// The same, to put ids into; empty where the settings do not have it.
    pub targets: Vec<Target>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The list.
    pub side: Side,
    /// Members of a list that are named to the pipeline of accounts at the most,
    pub profiles: u64,
    /// and to communities.
    pub communities: u64,
    /// The time limit of the queue.
    pub within: Duration,
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
}

/// Never looked up: recorded, perhaps, and not in the queue.
fn is_new(known: Option<&Standing>) -> bool {
    known.is_none_or(|known| known.checked_at.is_none())
}

/// The newest members of a list, for communities.
fn shown_by(owner: &str, side: Side, members: Vec<String>) -> Mention {
    let shown = match side {
        Side::Followers => Shown { followers: members, ..Shown::default() },
        Side::Friends => Shown { friends: members, ..Shown::default() },
    };
    // Texts alone: it cannot fail.
    let object = serde_json::to_string(&shown).ok();
    Mention { kind: COMMUNITY, id: owner.to_owned(), object, ..Mention::default() }
}

impl Recruits {
    /// Records members of a page, behind `before` others of its list; `at` is when the page was answered, ms since the epoch.
    ///
    /// # Errors
    /// The store's; the same members may be recorded again.
    pub async fn record(
        &self,
        owner: &str,
        before: u64,
        page: &Members,
        at: Millis,
    ) -> Result<Vec<Received>, StoreError> {
        if self.targets.is_empty() {
            return Ok(Vec::new());
        }
        let first = |most: u64| {
            let left = usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX);
            let mut seen = HashSet::new();
            let ids = page.members.iter().take(left).map(|member| &member.id).filter(|id| seen.insert(id.as_str()));
            ids.cloned().collect::<Vec<String>>()
        };
        let ids = first(self.profiles);
        let known = if ids.is_empty() { Vec::new() } else { self.store.standing(&self.accounts, &ids).await? };
        let profiles: HashMap<&str, &str> =
            page.accounts.iter().map(|account| (account.id.as_str(), account.raw.as_str())).collect();
        let mut named = Named::at(owner, at);
        let newest = first(self.communities);
        if !newest.is_empty() {
            named.mention(shown_by(owner, self.side, newest));
        }
        for (id, known) in ids.into_iter().zip(known) {
            let (object, is_first) = (profiles.get(id.as_str()).map(|raw| (*raw).to_owned()), is_new(known.as_ref()));
            if is_first || object.is_some() {
                named.mention(Mention { kind: PROFILES, id, is_first, object, ..Mention::default() });
            }
        }
        named.record(&self.targets).await
    }

    /// Tells the queue of those that were recorded.
    pub async fn schedule(&self, received: &[Received]) {
        let some = self.targets.iter().zip(received).filter(|(_, received)| !received.is_empty());
        join_all(some.map(|(target, received)| target.schedule(received, self.within, &self.metrics.counters))).await;
    }
}
