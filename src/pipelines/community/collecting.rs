//! What is collected of whom: profiles of all that are judged, posts of candidates until they are decided, and of members what the
//! settings say. Posts of candidates that were decided against are dropped. Every step may be repeated, so that a worker that dies
//! does it again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::shown::COMMUNITY;
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

/// Posts that one transaction removes.
const PORTION: u32 = 500;

/// Collects for a community.
pub struct Collecting {
    /// The pipeline of the community.
    pub namespace: String,
    /// The communities of the same network, this one too.
    pub all: Vec<String>,
    /// The pipelines of profiles and of lists.
    pub targets: Vec<Target>,
    /// Follows accounts; `None`: the settings have no visits.
    pub follower: Option<Follower>,
    /// Drops their posts; `None`: the settings have none.
    pub dropping: Option<Dropping>,
    /// The communities in the store.
    pub communities: Arc<dyn Communities>,
    /// The time limit of a queue.
    pub within: Duration,
    /// Where what was fanned out is counted.
    pub metrics: Arc<Metrics>,
}

/// Drops posts.
#[derive(Debug, Clone)]
pub struct Dropping {
    /// The pipeline of the posts.
    pub posts: String,
    /// Its queue.
    pub queue: Arc<dyn Queue>,
    /// Removes their rows.
    pub forgetting: Arc<dyn Forgetting>,
}

/// What is wanted of an account.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Its state from now on.
    pub state: Belonging,
    /// Its profile is not known.
    pub has_no_profile: bool,
    /// Its posts are needed for the judgement.
    pub wants_posts: bool,
}

/// The process's outlook after an error.
fn out(error: StarterError) -> Outlook {
    match error {
        StarterError::Store(StoreError::Gone(why)) => Outlook::Stop(why),
        error => Outlook::Outage(error.to_string()),
    }
}

impl Collecting {
    /// Collects what is wanted of each account, and nothing more of the others; `at` is now, ms since the epoch. Answers those whose
    /// posts were dropped, while a visit or a lookup may bring some back: the same is to be repeated when that is over.
    ///
    /// # Errors
    /// A service is out; the same may be repeated.
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

    /// Puts accounts into the pipelines of profiles and of lists.
    ///
    /// # Errors
    /// The store or a queue is out.
    pub async fn put(&self, named: &Named) -> Result<(), Outlook> {
        let received = named.record(&self.targets).await.map_err(|error| out(error.into()))?;
        schedule_each(&self.targets, received, self.within, &self.metrics.counters).await
    }

    /// Follows accounts, but for those that a person follows: these are not ours to leave.
    async fn follow(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(()) };
        follower.follow_for(at, accounts, &self.namespace, &self.all).await
    }

    fn others(&self) -> Vec<String> {
        self.all.iter().filter(|other| **other != self.namespace).cloned().collect()
    }

    /// Follows accounts no more that were followed for this community's sake alone; those that were followed for its sake at all have
    /// that mark from then on, and are answered.
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

    /// Leaves accounts that were decided against, and drops the posts of those that were ever left so: a post whose author was not
    /// known yet is dropped at a later judgement. Answers those that are left now.
    async fn refuse(&self, accounts: &[String], at: Millis) -> Result<HashSet<String>, StarterError> {
        if accounts.is_empty() {
            return Ok(HashSet::new());
        }
        let now = self.leave(accounts, Mark::Left, at).await?;
        let left = self.communities.marked(std::slice::from_ref(&self.namespace), accounts, Mark::Left).await?;
        self.drop_posts(&left).await?;
        Ok(now.into_iter().collect())
    }

    /// Drops the posts of accounts that were decided against.
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
            // One that is being looked up would be stored again by its answer: it is dropped at a later judgement.
            let places = dropping.queue.locate(&ids).await?;
            let is_idle = |places: &[Place]| !places.iter().any(|place| matches!(place, Place::Leased { .. }));
            let idle = found.into_iter().zip(places).filter(|(_, places)| is_idle(places));
            let idle: Vec<UnwantedPost> = idle.map(|(of, _)| of).collect();
            let ids: Vec<String> = idle.iter().map(|of| of.post.clone()).collect();
            // Before the rows: by them a removal that was killed finds what is left to do. Posts of an account that somebody has
            // followed meanwhile stay; the audit puts them back into the queue.
            dropping.queue.forget(&ids).await?;
            let dropped = dropping.forgetting.drop_posts(posts, &visits, &idle).await?;
            if dropped.of_items() == 0 {
                return Ok(());
            }
        }
    }

    /// Accounts of the community's own pipeline: recorded in the store, then admitted, then put into its queue.
    ///
    /// # Errors
    /// A service is out; the same may be repeated.
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

/// The targets of a community.
#[derive(Debug, Default)]
pub struct Divided {
    /// Its own pipeline.
    pub own: Option<Target>,
    /// That of the network's posts.
    pub posts: Option<Target>,
    /// The parts of the visits.
    pub visits: Vec<Target>,
    /// Profiles and lists.
    pub others: Vec<Target>,
}

/// Divides the targets of a community.
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
