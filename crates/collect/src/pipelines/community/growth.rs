//! Growth: seeds become members, frequent accounts become candidates within the caps, outdated accounts are judged again.
//! Each process runs the task. A step has the same result in each.

use std::sync::Arc;
use std::time::Duration;

use super::collector::Collector;
use super::counters::JudgementCounters;
use super::handler::{LiveRule, NetworkNamespaces};
use super::manual_decisions::ManualDecisions;
use crate::config::CommunitySettings;
use crate::pipelines::refresh::FanOutTarget;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::shutdown::Stop;
use engine::worker::Outlook;
use networks::model::community::Belonging;
use store::{Communities, CommunitySize, GrowthLimits};

/// Candidates, and accounts judged again, per step.
const ACCOUNTS_PER_STEP: u32 = 1_000;
/// Steps between two records of the size, and between two searches for outdated accounts.
const STEPS_BETWEEN_CHECKS: u32 = 60;
/// Author of decisions on seeds.
pub const BY_SETTINGS: &str = "settings";

pub struct GrowthTask {
    pub namespace: String,
    pub network: NetworkNamespaces,
    pub live_rule: Arc<LiveRule>,
    pub communities: Arc<dyn Communities>,
    pub own: FanOutTarget,
    pub by_hand: ManualDecisions,
    /// Lease of a claim. An account without a judgement after twice this time is queued again.
    pub lease: Duration,
    pub collector: Arc<Collector>,
    pub counters: Arc<JudgementCounters>,
}

#[derive(Default)]
pub struct GrowthProgress {
    /// Version of the rule by which all accounts are judged, and the time of that check.
    judged: Option<(String, Stopwatch)>,
    logged: Option<(Stopwatch, CommunitySize)>,
}

impl GrowthTask {
    /// The next step retries work that failed.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        let mut is_out = false;
        let mut done = GrowthProgress::default();
        while !stop.is_draining() {
            let rule = self.live_rule.current();
            let settings = rule.settings();
            if settings.on {
                match self.step(settings, rule.version(), &mut done).await {
                    Ok(()) if std::mem::take(&mut is_out) => {
                        tracing::info!(namespace = self.namespace, "the community grows again")
                    }
                    Ok(()) => {}
                    Err(Outlook::Outage(why) | Outlook::Stop(why)) if !std::mem::replace(&mut is_out, true) => {
                        tracing::warn!(
                            namespace = self.namespace,
                            why,
                            "the community cannot grow; the next step retries"
                        );
                    }
                    Err(_) => {}
                }
            }
            stop.sleep(settings.grow_every).await;
        }
    }

    /// May be repeated after an error.
    pub async fn step(
        &self,
        settings: &CommunitySettings,
        version: &str,
        done: &mut GrowthProgress,
    ) -> Result<(), Outlook> {
        let now = clock::wall_ms();
        self.add_seeds(settings, now).await?;
        let growth = GrowthLimits {
            appearances: settings.appearances,
            new_a_day: settings.new_a_day,
            share_a_day: settings.share_a_day,
            most: settings.most,
        };
        let out = |error: store::StoreError| Outlook::Outage(error.to_string());
        let accounts =
            self.communities.admissible(&self.namespace, now, &growth, ACCOUNTS_PER_STEP).await.map_err(out)?;
        if !accounts.is_empty() {
            self.collector.admit(&self.own, &accounts, now).await?;
            self.counters.candidates_admitted.add(accounts.len());
        }
        // Accounts that a process recorded, but did not queue before it died.
        let before = now - 2 * clock::millis(self.lease);
        let waiting =
            self.communities.unjudged_accounts(&self.namespace, before, ACCOUNTS_PER_STEP).await.map_err(out)?;
        if !waiting.is_empty() {
            let ids = waiting.iter().map(String::as_str).collect();
            let recorded = self.own.starter().record_ids(ids).await.map_err(out)?;
            let handed = self.own.starter().hand_over(&recorded).await;
            handed.map_err(|error| Outlook::Outage(error.to_string()))?;
        }
        let check_interval = settings.grow_every.saturating_mul(STEPS_BETWEEN_CHECKS);
        // This search reads all accounts. It runs once per version, and again now and then: others may still judge by another version.
        if done.judged.as_ref().is_none_or(|(of, since)| of != version || since.elapsed() >= check_interval) {
            let outdated =
                self.communities.outdated_accounts(&self.namespace, version, ACCOUNTS_PER_STEP).await.map_err(out)?;
            if outdated.is_empty() {
                done.judged = Some((version.to_owned(), Stopwatch::start()));
            } else {
                let again = self.by_hand.schedule_judgement_now(&outdated, now).await;
                again.map_err(|error| Outlook::Outage(error.to_string()))?;
            }
        }
        self.log_size(check_interval, now, &mut done.logged).await;
        Ok(())
    }

    /// Makes undecided seeds of the settings members.
    async fn add_seeds(&self, settings: &CommunitySettings, now: Millis) -> Result<(), Outlook> {
        let seeds = settings.seed_ids();
        if seeds.is_empty() {
            return Ok(());
        }
        let out = |error: store::StoreError| Outlook::Outage(error.to_string());
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

    /// Records a changed size once per `every`, even after a failed count: counting is slow, and would probably fail again.
    async fn log_size(&self, every: Duration, now: Millis, logged: &mut Option<(Stopwatch, CommunitySize)>) {
        if logged.as_ref().is_some_and(|(since, _)| since.elapsed() < every) {
            return;
        }
        let before = logged.as_ref().map(|(_, size)| *size);
        let size = self.record_size(now, before).await.unwrap_or_else(|error| {
            tracing::warn!(namespace = self.namespace, %error, "the size of the community could not be recorded; a later step retries");
            before.unwrap_or_default()
        });
        *logged = Some((Stopwatch::start(), size));
    }

    async fn record_size(&self, now: Millis, before: Option<CommunitySize>) -> store::Result<CommunitySize> {
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
                    "posts and follows could not be counted; the size keeps their last numbers"
                );
                CommunitySize { posts, edges, ..size }
            }
        };
        if before.is_none_or(|before| CommunitySize { at: now, ..before } != size) {
            self.communities.save_size(&self.namespace, &size).await?;
        }
        Ok(size)
    }
}
