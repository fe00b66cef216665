//! Receives new posts of known accounts; accounts that members name, repost or list; and accounts with new profiles or posts. A batch is
//! one store call.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::schedule::judged_lane;
use crate::ingest::Starter;
use crate::pipelines::kind::LiveSettings;
use crate::pipelines::refresh::{Arrival, Mention, QueueChanges, Receiver};
use engine::base::clock::Millis;
use engine::queue::{Due, NewJob};
use networks::model::account::Role;
use networks::model::community::Belonging;
use store::{Appearance, Communities, FoundPost, Reason, Store, StoreError};

pub struct EvidenceReceiver {
    pub namespace: String,
    pub name: String,
    pub posts: String,
    pub in_force: LiveSettings,
    pub store: Arc<dyn Store>,
    pub communities: Arc<dyn Communities>,
}

impl std::fmt::Debug for EvidenceReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvidenceReceiver").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

#[async_trait]
impl Receiver for EvidenceReceiver {
    fn takes(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Evidence(_) | Arrival::NewFacts)
    }

    async fn receive(&self, _: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError> {
        let settings = (self.in_force)();
        let Some(community) = settings.communities.get(&self.name).filter(|community| community.on) else {
            return Ok(QueueChanges::default());
        };
        let Some(now) = mentions.iter().map(|mention| mention.answered_at).max() else {
            return Ok(QueueChanges::default());
        };
        let roles = community.roles().unwrap_or_default();
        let (mut found, mut appeared) = (Vec::new(), Vec::new());
        let mut looked_up = BTreeSet::new();
        for mention in mentions {
            let Arrival::Evidence(evidence) = &mention.arrival else {
                looked_up.insert(mention.id.clone());
                continue;
            };
            let by_post = evidence.posted.then(|| mention.from.clone());
            if evidence.is_new_post {
                found.push(FoundPost { post: mention.from.clone(), author: mention.id.clone() });
            }
            let mut add_appearances = |accounts: &[String], reason: Reason| {
                appeared.extend(accounts.iter().map(|account| Appearance {
                    account: account.clone(),
                    source: mention.id.clone(),
                    reason,
                    post: by_post.clone(),
                }));
            };
            if roles.contains(&Role::Mentioned) {
                add_appearances(&evidence.mentioned, Reason::Mentioned);
            }
            if roles.contains(&Role::Reposted) {
                add_appearances(&evidence.reposted, Reason::Reposted);
            }
            let room = u64::from(community.from_lists).saturating_sub(evidence.listed_before);
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            for (members, reason) in [(&evidence.followers, Reason::Follower), (&evidence.friends, Reason::Friend)] {
                add_appearances(&members[..room.min(members.len())], reason);
            }
        }
        let searches = community.searches();
        // A batch of profiles has neither: there is nothing to write.
        let known = match found.is_empty() && appeared.is_empty() {
            true => Vec::new(),
            false => {
                self.communities
                    .record_arrivals(&self.namespace, now, &found, &appeared, (&self.posts, &searches))
                    .await?
            }
        };
        let is_due = |new_posts: i64| new_posts >= i64::from(community.posts);
        let mut due: BTreeSet<String> = known
            .into_iter()
            .filter(|account| account.state != Belonging::Seen && is_due(account.new_posts))
            .map(|account| account.account)
            .collect();
        let looked_up: Vec<String> = looked_up.into_iter().collect();
        let states = match looked_up.is_empty() {
            true => Vec::new(),
            false => self.communities.belonging(&self.namespace, &looked_up).await?,
        };
        // A first profile decides most candidates. The others are judged again at their next date.
        let waiting = looked_up.into_iter().zip(states).filter(|(_, state)| *state == Some(Belonging::Candidate));
        due.extend(waiting.map(|(account, _)| account));
        self.promote(due, now).await
    }
}

impl EvidenceReceiver {
    async fn promote(&self, due: BTreeSet<String>, now: Millis) -> Result<QueueChanges, StoreError> {
        let dates: Vec<(String, Millis)> = due.into_iter().map(|account| (account, now)).collect();
        self.store.promote(&self.namespace, &dates).await?;
        let job = |(id, at)| NewJob { id, lane: judged_lane(), due: Due::At(at) };
        Ok(QueueChanges { promote: dates.into_iter().map(job).collect(), ..QueueChanges::default() })
    }
}
