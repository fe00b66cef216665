//! Brings posts of known accounts, accounts that members show, and new profiles to a community. A batch is one store call.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::account_evidence::AccountEvidence;
use super::schedule::judged;
use crate::base::clock::Millis;
use crate::engine::queue::{Due, NewJob};
use crate::ingest::Starter;
use crate::model::account::Role;
use crate::model::community::Belonging;
use crate::pipelines::kind::Live;
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::store::{Appearance, Communities, FoundPost, Reason, Store, StoreError};

pub struct Arrivals {
    pub namespace: String,
    pub name: String,
    /// Namespace of the network's posts.
    pub posts: String,
    pub in_force: Live,
    pub store: Arc<dyn Store>,
    pub communities: Arc<dyn Communities>,
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrivals").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

#[async_trait]
impl Receiver for Arrivals {
    async fn receive(&self, _: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError> {
        let settings = (self.in_force)();
        let Some(community) = settings.communities.get(&self.name).filter(|community| community.on) else {
            return Ok(Received::default());
        };
        let Some(now) = mentions.iter().map(|mention| mention.answered_at).max() else {
            return Ok(Received::default());
        };
        let roles = community.roles().unwrap_or_default();
        let (mut found, mut appeared) = (Vec::new(), Vec::new());
        let mut looked_up = BTreeSet::new();
        for mention in mentions {
            let Some(shown) =
                mention.object.as_deref().and_then(|object| serde_json::from_str::<AccountEvidence>(object).ok())
            else {
                looked_up.insert(mention.id.clone());
                continue;
            };
            let by_post = shown.posted.then(|| mention.from.clone());
            if shown.counts {
                found.push(FoundPost { post: mention.from.clone(), author: mention.id.clone() });
            }
            let mut take = |accounts: Vec<String>, reason: Reason| {
                appeared.extend(accounts.into_iter().map(|account| Appearance {
                    account,
                    source: mention.id.clone(),
                    reason,
                    post: by_post.clone(),
                }));
            };
            if roles.contains(&Role::Mentioned) {
                take(shown.mentioned, Reason::Mentioned);
            }
            if roles.contains(&Role::Reposted) {
                take(shown.reposted, Reason::Reposted);
            }
            let newest = community.from_lists as usize;
            take(shown.followers.into_iter().take(newest).collect(), Reason::Follower);
            take(shown.friends.into_iter().take(newest).collect(), Reason::Friend);
        }
        let searches = community.searches();
        // A batch of profiles has neither: there is nothing to write.
        let known = match found.is_empty() && appeared.is_empty() {
            true => Vec::new(),
            false => self.communities.arrive(&self.namespace, now, &found, &appeared, (&self.posts, &searches)).await?,
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

impl Arrivals {
    async fn promote(&self, due: BTreeSet<String>, now: Millis) -> Result<Received, StoreError> {
        let dates: Vec<(String, Millis)> = due.into_iter().map(|account| (account, now)).collect();
        self.store.promote(&self.namespace, &dates).await?;
        let job = |(id, at)| NewJob { id, lane: judged(), due: Due::At(at) };
        Ok(Received { promote: dates.into_iter().map(job).collect(), ..Received::default() })
    }
}
