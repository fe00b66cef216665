//! Collects the data that a community needs: profiles of judged accounts, posts of candidates without a decision, and the data of
//! members that its settings name.
//! Posts of rejected candidates are dropped. Every step may be repeated.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::config::CommunitySettings;
use crate::ingest::StarterError;
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{FanOutTarget, Mentions, apply_to_targets};
use crate::pipelines::visits::VISITS;
use crate::pipelines::visits::follow::Follower;
use engine::base::clock::Millis;
use engine::metrics::Metrics;
use engine::queue::Queue;
use engine::worker::Outlook;
use networks::model::community::Belonging;
use networks::model::pipeline_id::{COMMUNITY, Kind, PipelineId};
use networks::model::relation::ListKind;
use store::{Communities, FollowMark, Forgetting, StoreError, UnwantedPost, UnwantedQuery};

const POSTS_PER_TRANSACTION: u32 = 500;

pub struct Collector {
    pub namespace: String,
    /// Communities of the same network, including this one.
    pub all: Vec<String>,
    pub targets: Vec<FanOutTarget>,
    pub follower: Option<Follower>,
    pub post_remover: Option<PostRemover>,
    pub communities: Arc<dyn Communities>,
    pub save_timeout: Duration,
    pub metrics: Arc<Metrics>,
}

#[derive(Debug, Clone)]
pub struct PostRemover {
    pub posts: String,
    pub queue: Arc<dyn Queue>,
    pub forgetting: Arc<dyn Forgetting>,
}

impl PostRemover {
    /// Removes posts from the queue, and returns those that are not there any more. A leased post stays: its answer would store it again.
    /// A later judgement drops it.
    async fn remove_from_queue(&self, posts: Vec<UnwantedPost>) -> Result<Vec<UnwantedPost>, StarterError> {
        let ids: Vec<String> = posts.iter().map(|of| of.post.clone()).collect();
        self.queue.forget(&ids).await?;
        let places = self.queue.locate(&ids).await?;
        Ok(posts.into_iter().zip(places).filter(|(_, places)| places.is_empty()).map(|(of, _)| of).collect())
    }
}

#[derive(Debug, Clone, Copy)]
pub struct WantedCollection {
    pub state: Belonging,
    pub has_no_profile: bool,
    pub wants_posts: bool,
}

fn to_outlook(error: StarterError) -> Outlook {
    match error {
        StarterError::Store(StoreError::Gone(why)) => Outlook::Stop(why),
        error => Outlook::Outage(error.to_string()),
    }
}

impl Collector {
    /// Starts the wanted collection of each account, and stops the rest; `at` is now. Returns the accounts whose posts were dropped.
    /// Repeat the call after visits and lookups in progress, which may restore posts, and after an error.
    pub async fn apply(
        &self,
        settings: &CommunitySettings,
        wanted: &BTreeMap<String, WantedCollection>,
        at: Millis,
    ) -> Result<HashSet<String>, Outlook> {
        let mut named = Mentions::for_item(&self.namespace, at);
        let (mut followed, mut left, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (account, of) in wanted {
            if of.has_no_profile {
                named.add_id(PROFILES, account);
            }
            let is_member = of.state == Belonging::Member;
            for (side, is_on) in [(ListKind::Followers, settings.followers), (ListKind::Friends, settings.friends)] {
                if is_member && is_on {
                    named.add_id(side.as_str(), account);
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
        self.record_and_schedule(&named).await?;
        self.follow(&followed, at).await.map_err(to_outlook)?;
        self.unfollow(&left, FollowMark::None, at).await.map_err(to_outlook)?;
        self.unfollow_and_drop_posts(&refused, at).await.map_err(to_outlook)
    }

    pub async fn record_and_schedule(&self, named: &Mentions) -> Result<(), Outlook> {
        let received = named.record(&self.targets).await.map_err(|error| to_outlook(error.into()))?;
        apply_to_targets(&self.targets, received, self.save_timeout, &self.metrics.counters).await
    }

    /// Skips accounts that a person follows: the community must not unfollow them later.
    async fn follow(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(()) };
        follower.follow_for_community(at, accounts, &self.namespace, &self.all).await
    }

    fn other_communities(&self) -> Vec<String> {
        self.all.iter().filter(|other| **other != self.namespace).cloned().collect()
    }

    /// Unfollows accounts that only this community follows. Gives `mark` to all accounts that it follows, and returns them.
    async fn unfollow(&self, accounts: &[String], mark: FollowMark, at: Millis) -> Result<Vec<String>, StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(Vec::new()) };
        let own = std::slice::from_ref(&self.namespace);
        let ours = self.communities.accounts_with_mark(own, accounts, FollowMark::Follows).await?;
        if ours.is_empty() {
            return Ok(ours);
        }
        follower.unfollow_for_community(at, &ours, &self.namespace, &self.all).await?;
        self.communities.set_mark(&self.namespace, &ours, mark).await?;
        Ok(ours)
    }

    /// Drops the posts of all rejected accounts that were ever unfollowed. Returns the accounts unfollowed now.
    async fn unfollow_and_drop_posts(&self, accounts: &[String], at: Millis) -> Result<HashSet<String>, StarterError> {
        if accounts.is_empty() {
            return Ok(HashSet::new());
        }
        let now = self.unfollow(accounts, FollowMark::Left, at).await?;
        let left = self
            .communities
            .accounts_with_mark(std::slice::from_ref(&self.namespace), accounts, FollowMark::Left)
            .await?;
        self.drop_posts(&left).await?;
        Ok(now.into_iter().collect())
    }

    async fn drop_posts(&self, accounts: &[String]) -> Result<(), StarterError> {
        let Some((follower, post_remover)) = self.follower.as_ref().zip(self.post_remover.as_ref()) else {
            return Ok(());
        };
        if accounts.is_empty() {
            return Ok(());
        }
        let (visits, others) = (follower.namespace(), self.other_communities());
        let profiles = PipelineId::items(&follower.provider, PROFILES).to_string();
        let (namespace, posts) = (&self.namespace, &post_remover.posts);
        let unwanted = UnwantedQuery { namespace, posts, profiles: &profiles, visits: &visits, others: &others };
        loop {
            let found = self.communities.find_unwanted_posts(&unwanted, accounts, POSTS_PER_TRANSACTION).await?;
            if found.is_empty() {
                return Ok(());
            }
            // Before the rows: if this process is killed, the rows show the posts that are left to remove. Posts of an account that a
            // person has followed meanwhile stay; the audit queues them again.
            let idle = post_remover.remove_from_queue(found).await?;
            let dropped = post_remover.forgetting.drop_posts(posts, &visits, &idle).await?;
            if dropped.items() == 0 {
                return Ok(());
            }
        }
    }

    /// Records accounts, admits them, and puts them into the community's own queue. May be repeated after an error.
    pub async fn admit(&self, own: &FanOutTarget, accounts: &[String], at: Millis) -> Result<(), Outlook> {
        let ids: BTreeSet<&str> = accounts.iter().map(String::as_str).collect();
        let recorded = own.starter().record_ids(ids).await.map_err(|error| to_outlook(error.into()))?;
        self.communities.admit(&self.namespace, at, accounts).await.map_err(|error| to_outlook(error.into()))?;
        let mut named = Mentions::for_item(&self.namespace, at);
        accounts.iter().for_each(|account| named.add_id(PROFILES, account));
        self.record_and_schedule(&named).await?;
        own.starter().hand_over(&recorded).await.map(drop).map_err(to_outlook)
    }
}

#[derive(Debug, Default)]
pub struct TargetsByKind {
    pub own: Option<FanOutTarget>,
    pub posts: Option<FanOutTarget>,
    pub visits: Vec<FanOutTarget>,
    pub others: Vec<FanOutTarget>,
}

#[must_use]
pub fn group_targets(namespace: &str, targets: Vec<FanOutTarget>) -> TargetsByKind {
    let mut grouped = TargetsByKind::default();
    for target in targets {
        match &target.id().kind {
            Kind::Posts => grouped.posts = Some(target),
            Kind::Items(word) if word == COMMUNITY => {
                if target.id().to_string() == namespace {
                    grouped.own = Some(target);
                }
            }
            Kind::Items(word) if word == VISITS => grouped.visits.push(target),
            Kind::Items(_) => grouped.others.push(target),
            Kind::Timelines | Kind::Streams => {}
        }
    }
    grouped
}
