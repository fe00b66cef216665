//! What is collected of whom: profiles of all that are judged, posts of candidates until they are decided, and of members what the
//! settings say. Every step may be repeated, so that a worker that dies does it again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::shown::COMMUNITY;
use crate::base::clock::Millis;
use crate::config::CommunitySettings;
use crate::engine::metrics::Metrics;
use crate::engine::worker::Outlook;
use crate::ingest::StarterError;
use crate::model::community::Belonging;
use crate::model::pipeline_id::Kind;
use crate::model::relation::Side;
use crate::pipelines::profiles::PROFILES;
use crate::pipelines::refresh::{Named, Target, schedule_each};
use crate::pipelines::visits::follow::Follower;
use crate::store::{Communities, StoreError};

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
    /// The communities in the store.
    pub communities: Arc<dyn Communities>,
    /// The time limit of a queue.
    pub within: Duration,
    /// Where what was fanned out is counted.
    pub metrics: Arc<Metrics>,
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
    /// Collects what is wanted of each account, and nothing more of the others; `at` is now, ms since the epoch.
    ///
    /// # Errors
    /// A service is out; the same may be repeated.
    pub async fn apply(
        &self,
        settings: &CommunitySettings,
        wanted: &BTreeMap<String, Wanted>,
        at: Millis,
    ) -> Result<(), Outlook> {
        let mut named = Named::at(&self.namespace, at);
        let (mut followed, mut left) = (Vec::new(), Vec::new());
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
            let is_followed = (is_member && settings.timelines) || of.wants_posts;
            if is_followed { &mut followed } else { &mut left }.push(account.clone());
        }
        self.put(&named).await?;
        self.follow(&followed, at).await.map_err(out)?;
        self.leave(&left, at).await.map_err(out)
    }

    /// Puts accounts into the pipelines of profiles and of lists.
    ///
    /// # Errors
    /// The store or a queue is out.
    pub async fn put(&self, named: &Named) -> Result<(), Outlook> {
        let received = named.record(&self.targets).await.map_err(|error| out(error.into()))?;
        schedule_each(&self.targets, received, self.within, &self.metrics.counters).await
    }

    /// Follows accounts that nobody follows. They are marked first: who dies after it follows them the next time.
    async fn follow(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(()) };
        let parts = follower.parts(accounts).await?;
        let ours: HashSet<String> = self.communities.follows(&self.all, accounts).await?.into_iter().collect();
        // What a person follows is not ours to leave.
        let is_ours = |(account, part): &(&String, Option<i64>)| part.is_none() || ours.contains(*account);
        let ours: Vec<String> =
            accounts.iter().zip(parts).filter(is_ours).map(|(account, _)| account.clone()).collect();
        self.communities.mark_follows(&self.namespace, &ours, true).await?;
        follower.follow(at, &ours).await.map(drop)
    }

    /// Follows accounts no more that were followed for this community's sake alone.
    async fn leave(&self, accounts: &[String], at: Millis) -> Result<(), StarterError> {
        let Some(follower) = self.follower.as_ref().filter(|_| !accounts.is_empty()) else { return Ok(()) };
        let ours = self.communities.follows(std::slice::from_ref(&self.namespace), accounts).await?;
        if ours.is_empty() {
            return Ok(());
        }
        let others: Vec<String> = self.all.iter().filter(|other| **other != self.namespace).cloned().collect();
        let needed: HashSet<String> = self.communities.follows(&others, &ours).await?.into_iter().collect();
        let alone: Vec<String> = ours.iter().filter(|account| !needed.contains(*account)).cloned().collect();
        follower.unfollow(at, &alone).await?;
        self.communities.mark_follows(&self.namespace, &ours, false).await.map_err(StarterError::from)
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

/// Splits targets into the community's own one and those of profiles and lists.
#[must_use]
pub fn divided(namespace: &str, targets: Vec<Target>) -> (Option<Target>, Vec<Target>, Vec<Target>) {
    let (mut own, mut visits, mut others) = (None, Vec::new(), Vec::new());
    for target in targets {
        let Kind::Items(word) = &target.id().kind else { continue };
        match word.as_str() {
            COMMUNITY if target.id().to_string() == namespace => own = Some(target),
            COMMUNITY => {}
            crate::pipelines::visits::VISITS => visits.push(target),
            _ => others.push(target),
        }
    }
    (own, visits, others)
}
