//! Members of lists whose profiles are collected (`accounts.from_lists`): the first of each list, which are the newest.
//!
//! They are recorded in the store before their page, and queued after it. If the queue does not take them, the next visit names them
//! again, and `rebuild` finds them. A profile in a page is an answer, like that of an author in a post.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use crate::pipelines::refresh::{AccountEvidence, Arrival, FanOutTarget, Mention, Mentions, QueueChanges};
use engine::base::clock::Millis;
use engine::metrics::Metrics;
use networks::model::relation::ListKind;
use networks::providers::relations::Members;
use store::{Standing, Store, StoreError};

#[derive(Debug)]
pub struct MemberCollector {
    pub accounts: String,
    /// Pipelines that receive the ids; empty if the settings have none.
    pub targets: Vec<FanOutTarget>,
    pub store: Arc<dyn Store>,
    pub side: ListKind,
    /// Maximum members per list for the pipeline of accounts.
    pub profile_limit: u64,
    /// Maximum members per list for communities.
    pub community_limit: u64,
    pub time_limit: Duration,
    pub metrics: Arc<Metrics>,
}

/// Returns true for a member that was never looked up: it may be recorded, but not queued.
fn is_new(known: Option<&Standing>) -> bool {
    known.is_none_or(|known| known.checked_at.is_none())
}

fn evidence(side: ListKind, members: Vec<String>, listed_before: u64) -> AccountEvidence {
    let evidence = AccountEvidence { listed_before, ..AccountEvidence::default() };
    match side {
        ListKind::Followers => AccountEvidence { followers: members, ..evidence },
        ListKind::Friends => AccountEvidence { friends: members, ..evidence },
    }
}

impl MemberCollector {
    /// Records members of a page, behind `before` others of its list, answered at `at`, ms since the epoch. May be repeated.
    pub async fn record(
        &self,
        owner: &str,
        before: u64,
        page: &Members,
        at: Millis,
    ) -> Result<Vec<QueueChanges>, StoreError> {
        if self.targets.is_empty() {
            return Ok(Vec::new());
        }
        let first = |most: u64| {
            let left = usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX);
            let mut seen = HashSet::new();
            let ids = page.members.iter().take(left).map(|member| &member.id).filter(|id| seen.insert(id.as_str()));
            ids.cloned().collect::<Vec<String>>()
        };
        let ids = first(self.profile_limit);
        let known = if ids.is_empty() { Vec::new() } else { self.store.standing(&self.accounts, &ids).await? };
        let profiles: HashMap<&str, &str> =
            page.accounts.iter().map(|account| (account.id.as_str(), account.raw.as_str())).collect();
        let mut mentions = Mentions::for_item(owner, at);
        let newest = first(self.community_limit);
        if !newest.is_empty() {
            mentions.add(Mention::new(owner, Arrival::Evidence(evidence(self.side, newest, before))));
        }
        for (id, known) in ids.into_iter().zip(known) {
            let (profile, is_first) = (profiles.get(id.as_str()).map(|raw| (*raw).to_owned()), is_new(known.as_ref()));
            if is_first || profile.is_some() {
                let arrival = Arrival::Account { profile, posted_at: None };
                mentions.add(Mention { is_first, ..Mention::new(id, arrival) });
            }
        }
        mentions.record(&self.targets).await
    }

    pub async fn apply_changes(&self, changes: &[QueueChanges]) {
        let some = self.targets.iter().zip(changes).filter(|(_, changes)| !changes.is_empty());
        join_all(some.map(|(target, changes)| target.apply_changes(changes, self.time_limit, &self.metrics.counters)))
            .await;
    }
}
