//! Members of lists whose profiles are collected (`accounts.from_lists`): the first of each list, which are the newest.
//!
//! Like all fan-out, they are recorded in the store before their page, and queued after it. A queue that does not take them stops
//! nothing: the next visit names them again, and `rebuild` finds them. A member that was looked up is not named again. The profile in its
//! page is an answer, like that of an author in a post.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::base::clock::Millis;
use crate::engine::metrics::Metrics;
use crate::model::relation::Side;
use crate::pipelines::community::account_evidence::{AccountEvidence, COMMUNITY};
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{Mention, Named, Received, Target};
use crate::providers::relations::Members;
use crate::store::{Standing, Store, StoreError};

#[derive(Debug)]
pub struct Recruits {
    pub accounts: String,
    /// Pipelines that receive the ids; empty if the settings have none.
    pub targets: Vec<Target>,
    pub store: Arc<dyn Store>,
    pub side: Side,
    /// Maximum members per list for the pipeline of accounts.
    pub profiles: u64,
    /// Maximum members per list for communities.
    pub communities: u64,
    pub within: Duration,
    pub metrics: Arc<Metrics>,
}

/// Returns true for a member that was never looked up: it may be recorded, but not queued.
fn is_new(known: Option<&Standing>) -> bool {
    known.is_none_or(|known| known.checked_at.is_none())
}

fn shown_by(owner: &str, side: Side, members: Vec<String>) -> Mention {
    let shown = match side {
        Side::Followers => AccountEvidence { followers: members, ..AccountEvidence::default() },
        Side::Friends => AccountEvidence { friends: members, ..AccountEvidence::default() },
    };
    // Only texts: it cannot fail.
    let object = serde_json::to_string(&shown).ok();
    Mention { kind: COMMUNITY, id: owner.to_owned(), object, ..Mention::default() }
}

impl Recruits {
    /// Records members of a page, behind `before` others of its list, answered at `at`, ms since the epoch. May be repeated.
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

    pub async fn schedule(&self, received: &[Received]) {
        let some = self.targets.iter().zip(received).filter(|(_, received)| !received.is_empty());
        join_all(some.map(|(target, received)| target.schedule(received, self.within, &self.metrics.counters))).await;
    }
}
