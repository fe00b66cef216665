//! Collection for a community: profiles of all judged accounts, posts of candidates until a decision, and for members the data in the
//! settings. Posts of rejected candidates are dropped. Every step may be repeated.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::account_evidence::COMMUNITY;
use crate::base::clock::Millis;
use crate::config::CommunitySettings;
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Place, Queue};
use crate::engine::worker::Outlook;
use crate::ingest::StarterError;
use crate::model::community::Belonging;
use crate::model::pipeline_id::{Kind, PipelineId};
use crate::model::relation::Side;
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{Named, Target, schedule_each};
use crate::pipelines::visits::VISITS;
use crate::pipelines::visits::follow::Follower;
use crate::store::{Communities, Forgetting, Mark, StoreError, Unwanted, UnwantedPost};

/// Posts removed per transaction.
const PORTION: u32 = 500;

pub struct Collecting {
    pub namespace: String,
    /// Communities of the same network, including this one.
    pub all: Vec<String>,
    pub targets: Vec<Target>,
    /// `None`: the settings have no visits.
    pub follower: Option<Follower>,
    /// `None`: the settings have no posts.
    pub dropping: Option<Dropping>,
    pub communities: Arc<dyn Communities>,
    pub within: Duration,
    pub metrics: Arc<Metrics>,
}

#[derive(Debug, Clone)]
pub struct Dropping {
    pub posts: String,
    pub queue: Arc<dyn Queue>,
    pub forgetting: Arc<dyn Forgetting>,
}

#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub state: Belonging,
    pub has_no_profile: bool,
    pub wants_posts: bool,
}

fn out(error: StarterError) -> Outlook {
    match error {
        StarterError::Store(StoreError::Gone(why)) => Outlook::Stop(why),
        error => Outlook::Outage(error.to_string()),
    }
}

impl Collecting {
    /// Starts the wanted collection of each account, and stops the rest; `at` is now, ms since the epoch. Returns the accounts whose
    /// posts were dropped: repeat the call after visits and lookups in progress, which may restore some, and after an error.
    pub async fn apply(
        &self,
        settings: &CommunitySettings,
        wanted: &BTreeMap<String, Wanted>,
        at: Millis,
    ) -> Result<HashSet<String>, Outlook> {
        let mut named = Named::at(&self.namespace, at);
        let (mut followed, mut left, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (account, of) in wanted {
            if of.has_no_profile {
                named.add(PROFILES, account);
            }
            let is_member = of.state == Belonging::Member;
            for (side, is_on) in [(Side::Followers, settings.followers), (Side::Friends, settings.friends)] {
                if is_member && is_on {
                    named.add(side.as_str(), account);
                }
            }
            let wanted_posts = if (is_member && settings.timelines) || of.wants_posts {
                &mut followed
            } else if of.state == Belonging::Outside {
                &mut refused
            } else {
                &mut left
            };
            wanted_posts.push(account.clone());
        }
        self.put(&named).await?;
        self.follow(&followed, at).await.map_err(out)?;
        self.leave(&left, Mark::None, at).await.map_err(out)?;
        self.refuse(&refused, at).await.map_err(out)
    }

    pub async fn put(&self, named: &Named) -> Result<(), Outlook> {
        let received = named.record(&self.targets).await.map_err(|error| out(error.into()))?;
        schedule_each(&self.targets, received, self.within, &self.metrics.counters).await
    }

    /// Follows accounts, except those that a person follows: the community must not unfollow them later.
    async fn follow(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(()) };
        follower.follow_for(at, accounts, &self.namespace, &self.all).await
    }

    fn others(&self) -> Vec<String> {
        self.all.iter().filter(|other| **other != self.namespace).cloned().collect()
    }

    /// Unfollows accounts that only this community follows. Gives `mark` to all accounts that it follows, and returns them.
    async fn leave(&self, accounts: &[String], mark: Mark, at: Millis) -> Result<Vec<String>, StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(Vec::new()) };
        let own = std::slice::from_ref(&self.namespace);
        let ours = self.communities.marked(own, accounts, Mark::Follows).await?;
        if ours.is_empty() {
            return Ok(ours);
        }
        follower.unfollow_for(at, &ours, &self.namespace, &self.all).await?;
        self.communities.mark(&self.namespace, &ours, mark).await?;
        Ok(ours)
    }

    /// Unfollows rejected accounts, and drops the posts of all that were ever unfollowed. Returns the accounts unfollowed now.
    async fn refuse(&self, accounts: &[String], at: Millis) -> Result<HashSet<String>, StarterError> {
        if accounts.is_empty() {
            return Ok(HashSet::new());
        }
        let now = self.leave(accounts, Mark::Left, at).await?;
        let left = self.communities.marked(std::slice::from_ref(&self.namespace), accounts, Mark::Left).await?;
        self.drop_posts(&left).await?;
        Ok(now.into_iter().collect())
    }

    async fn drop_posts(&self, accounts: &[String]) -> Result<(), StarterError> {
        let Some((follower, dropping)) = self.follower.as_ref().zip(self.dropping.as_ref()) else { return Ok(()) };
        if accounts.is_empty() {
            return Ok(());
        }
        let (visits, others) = (follower.namespace(), self.others());
        let profiles = PipelineId::items(&follower.provider, PROFILES).to_string();
        let (namespace, posts) = (&self.namespace, &dropping.posts);
        let unwanted = Unwanted { namespace, posts, profiles: &profiles, visits: &visits, others: &others };
        loop {
            let found = self.communities.unwanted(&unwanted, accounts, PORTION).await?;
            if found.is_empty() {
                return Ok(());
            }
            let ids: Vec<String> = found.iter().map(|of| of.post.clone()).collect();
            // The answer to a leased post would store it again: a later judgement drops it.
            let places = dropping.queue.locate(&ids).await?;
            let is_idle = |places: &[Place]| !places.iter().any(|place| matches!(place, Place::Leased { .. }));
            let idle = found.into_iter().zip(places).filter(|(_, places)| is_idle(places));
            let idle: Vec<UnwantedPost> = idle.map(|(of, _)| of).collect();
            let ids: Vec<String> = idle.iter().map(|of| of.post.clone()).collect();
            // Before the rows: if this process is killed, the rows show the posts that are left to remove. Posts of an account that a
            // person has followed meanwhile stay; the audit queues them again.
            dropping.queue.forget(&ids).await?;
            let dropped = dropping.forgetting.drop_posts(posts, &visits, &idle).await?;
            if dropped.of_items() == 0 {
                return Ok(());
            }
        }
    }

    /// Records accounts in the store, admits them, and puts them into the community's own queue. The call may be repeated after an error.
    pub async fn admit(&self, own: &Target, accounts: &[String], at: Millis) -> Result<(), Outlook> {
        let ids: BTreeSet<&str> = accounts.iter().map(String::as_str).collect();
        let recorded = own.starter().record_ids(ids).await.map_err(|error| out(error.into()))?;
        self.communities.admit(&self.namespace, at, accounts).await.map_err(|error| out(error.into()))?;
        let mut named = Named::at(&self.namespace, at);
        accounts.iter().for_each(|account| named.add(PROFILES, account));
        self.put(&named).await?;
        own.starter().hand_over(&recorded).await.map(drop).map_err(out)
    }
}

#[derive(Debug, Default)]
pub struct Divided {
    pub own: Option<Target>,
    pub posts: Option<Target>,
    pub visits: Vec<Target>,
    pub others: Vec<Target>,
}

#[must_use]
pub fn divided(namespace: &str, targets: Vec<Target>) -> Divided {
    let mut divided = Divided::default();
    for target in targets {
        match &target.id().kind {
            Kind::Posts => divided.posts = Some(target),
            Kind::Items(word) if word == COMMUNITY => {
                if target.id().to_string() == namespace {
                    divided.own = Some(target);
                }
            }
            Kind::Items(word) if word == VISITS => divided.visits.push(target),
            Kind::Items(_) => divided.others.push(target),
            Kind::Timelines | Kind::Streams => {}
        }
    }
    divided
}
