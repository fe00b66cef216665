//! Growth: seeds become members; accounts that appeared often enough become candidates, within the caps; accounts judged by another
//! version of the rule are judged again. A task beside the handler, in every process: a step has the same result in each.

use std::sync::Arc;
use std::time::Duration;

use super::by_hand::ByHand;
use super::collecting::Collecting;
use super::counters::Judged;
use super::handler::{Network, Rules};
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::shutdown::Stop;
use crate::config::CommunitySettings;
use crate::engine::worker::Outlook;
use crate::model::community::Belonging;
use crate::pipelines::refresh::Target;
use crate::store::{Communities, CommunitySize, Growth};

/// Candidates, and accounts judged again, per step.
const AT_ONCE: u32 = 1_000;
/// Steps between two entries in the log of growth, even if one failed, and between two searches for outdated accounts.
const SELDOM: u32 = 60;
/// Author of the decisions on seeds from the settings.
pub const BY_SETTINGS: &str = "settings";

pub struct Growing {
    pub namespace: String,
    pub network: Network,
    pub rules: Arc<Rules>,
    pub communities: Arc<dyn Communities>,
    pub own: Target,
    pub by_hand: ByHand,
    /// Lease of a claim. An account without a judgement after twice this time is queued again.
    pub lease: Duration,
    pub collecting: Arc<Collecting>,
    pub counters: Arc<Judged>,
}

#[derive(Default)]
pub struct Done {
    /// Version of the rule by which all accounts are judged, and the time of that check.
    judged: Option<(String, Stopwatch)>,
    logged: Option<(Stopwatch, CommunitySize)>,
}

impl Growing {
    /// Runs steps until `stop` drains. The next step retries work that failed.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut is_out = false;
        let mut done = Done::default();
        while !stop.is_draining() {
            let rule = self.rules.now();
            let settings = rule.settings();
            if settings.on {
                match self.step(settings, rule.version(), &mut done).await {
                    Ok(()) if std::mem::take(&mut is_out) => tracing::info!(namespace = self.namespace, "grows again"),
                    Ok(()) => {}
                    Err(Outlook::Outage(why) | Outlook::Stop(why)) if !std::mem::replace(&mut is_out, true) => {
                        tracing::warn!(namespace = self.namespace, why, "cannot grow now; tried again");
                    }
                    Err(_) => {}
                }
            }
            stop.sleep(settings.grow_every).await;
        }
    }

    /// Runs one step, which may be repeated after an error.
    pub async fn step(&self, settings: &CommunitySettings, version: &str, done: &mut Done) -> Result<(), Outlook> {
        let now = clock::wall_ms();
        self.seed(settings, now).await?;
        let growth = Growth {
            appearances: settings.appearances,
            new_a_day: settings.new_a_day,
            share_a_day: settings.share_a_day,
            most: settings.most,
        };
        let out = |error: crate::store::StoreError| Outlook::Outage(error.to_string());
        let accounts = self.communities.admissible(&self.namespace, now, &growth, AT_ONCE).await.map_err(out)?;
        if !accounts.is_empty() {
            self.collecting.admit(&self.own, &accounts, now).await?;
            self.counters.candidates_admitted.add(accounts.len());
        }
        // Accounts that a process recorded, but did not queue before it died.
        let before = now - 2 * clock::millis(self.lease);
        let waiting = self.communities.unjudged(&self.namespace, before, AT_ONCE).await.map_err(out)?;
        if !waiting.is_empty() {
            let ids = waiting.iter().map(String::as_str).collect();
            let recorded = self.own.starter().record_ids(ids).await.map_err(out)?;
            let handed = self.own.starter().hand_over(&recorded).await;
            handed.map_err(|error| Outlook::Outage(error.to_string()))?;
        }
        let seldom = settings.grow_every.saturating_mul(SELDOM);
        // This search reads all accounts. It runs once per version, and again now and then: others may still judge by another version.
        if done.judged.as_ref().is_none_or(|(of, since)| of != version || since.elapsed() >= seldom) {
            let outdated = self.communities.outdated(&self.namespace, version, AT_ONCE).await.map_err(out)?;
            if outdated.is_empty() {
                done.judged = Some((version.to_owned(), Stopwatch::start()));
            } else {
                let again = self.by_hand.judge_now(&outdated, now).await;
                again.map_err(|error| Outlook::Outage(error.to_string()))?;
            }
        }
        self.log(seldom, now, &mut done.logged).await;
        Ok(())
    }

    /// Makes the seeds from the settings members, unless there is a decision on them.
    async fn seed(&self, settings: &CommunitySettings, now: Millis) -> Result<(), Outlook> {
        let seeds = settings.seed_ids();
        if seeds.is_empty() {
            return Ok(());
        }
        let out = |error: crate::store::StoreError| Outlook::Outage(error.to_string());
        let known = self.communities.belonging(&self.namespace, &seeds).await.map_err(out)?;
        let is_new = |state: Option<Belonging>| matches!(state, None | Some(Belonging::Seen));
        let new: Vec<String> =
            seeds.into_iter().zip(known).filter(|(_, state)| is_new(*state)).map(|(id, _)| id).collect();
        if new.is_empty() {
            return Ok(());
        }
        let by_hand = self.by_hand.decide(&new, Belonging::Member, BY_SETTINGS, "a seed", now).await;
        by_hand.map(drop).map_err(|error| Outlook::Outage(error.to_string()))
    }

    /// Records a changed size, now and then. A failed count waits as long, too: counting is slow, and would probably fail again.
    async fn log(&self, every: Duration, now: Millis, logged: &mut Option<(Stopwatch, CommunitySize)>) {
        if logged.as_ref().is_some_and(|(since, _)| since.elapsed() < every) {
            return;
        }
        let before = logged.as_ref().map(|(_, size)| *size);
        let size = self.note(now, before).await.unwrap_or_else(|error| {
            tracing::warn!(namespace = self.namespace, %error, "the size of the community is not recorded this time");
            before.unwrap_or_default()
        });
        *logged = Some((Stopwatch::start(), size));
    }

    async fn note(&self, now: Millis, before: Option<CommunitySize>) -> crate::store::Result<CommunitySize> {
        let counted = self.communities.size(&self.namespace, Some(self.network.neighbours()), now).await;
        let size = match counted {
            Ok(size) => size,
            Err(error) => {
                let CommunitySize { posts, edges, .. } = before.unwrap_or_default();
                let size = self.communities.size(&self.namespace, None, now).await?;
                tracing::warn!(
                    namespace = self.namespace,
                    %error,
                    posts,
                    edges,
                    "posts and follows cannot be counted in time: recorded with their last numbers"
                );
                CommunitySize { posts, edges, ..size }
            }
        };
        if before.is_none_or(|before| CommunitySize { at: now, ..before } != size) {
            self.communities.note_size(&self.namespace, &size).await?;
        }
        Ok(size)
    }
}
