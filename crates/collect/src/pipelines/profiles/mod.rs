//! Profiles: accounts are looked up again and again, while the system runs. They come from posts ([`profile_receiver`]) or from a file.
//!
//! ```text
//!   posts ─ authors, mentioned ─▶ first ─▶ active ⇄ idle ⇄ frozen      by silence (schedule.rs)
//!                                    └──▶ confirm ─▶ unavailable        missing: once more alone, then weekly
//! ```
//!
//! With `accounts.schedule = "adaptive"`, active and idle accounts go by the pace of their counts ([`by_pace`]).
//!
//! New accounts come first, then those with the oldest data for their interval. An account that is found again returns to its lane.

pub mod by_pace;
pub mod pace;
pub mod profile_receiver;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::by_pace::PaceSchedule;
use self::pace::estimate_pace;
use self::profile_receiver::ProfileReceiver;
use self::schedule::{Intervals, SilenceSchedule, quiet_from};
use super::apis::{open_accounts, open_accounts_with_limits};
use super::kind::{
    Intake, ItemTerms, ItemWords, OpenContext, OpenPipeline, PipelineKind, Presentation, ReceiverContext,
    RegisteredPipeline,
};
use crate::config::{AccountSchedule, AccountSettings, BadConfig, Settings};
use crate::pipelines::refresh::{Arrival, Item, Judge, Mention, Mentions, Receiver};
use crate::pipelines::relations::removal::Removal;
use engine::base::activity::{Activity, newest_activity};
use engine::base::clock::Millis;
use engine::lane::Lane;
use engine::queue::Job;
use engine::schedule::Schedule;
use networks::model::account::Account;
pub use networks::model::pipeline_id::{COMMUNITY, PROFILES};
use networks::model::pipeline_id::{POSTS, PipelineId};
use networks::model::provider::Provider;
use networks::model::relation::ListKind;
use networks::providers::lookup::Capabilities;
use networks::providers::registry;
use store::export::{self, Table};
use store::{Database, Observation, SaveCounts, Standing, Store, StoreError};

/// Lane of accounts that were found before and are missing now.
const CONFIRM_LANE: &str = "confirm";
/// Newest posts of an account that decide its quietest hours.
const POSTS_FOR_HOURS: u32 = 300;

/// One pipeline for each provider in the settings, if `accounts.collect` is on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Profiles;

#[async_trait]
impl PipelineKind for Profiles {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        if !settings.accounts.collect {
            return Ok(Vec::new());
        }
        settings.accounts.roles()?;
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, PROFILES)).collect())
    }

    fn capabilities(&self, pipeline: &PipelineId) -> Capabilities {
        registry::accounts(&pipeline.provider).capabilities
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        let silence = silence_schedule(settings);
        match settings.accounts.schedule {
            AccountSchedule::Silence => Arc::new(silence),
            AccountSchedule::Adaptive => Arc::new(PaceSchedule::new(silence, settings.adaptive.options())),
        }
    }

    fn intake(&self, pipeline: &PipelineId) -> Intake {
        Intake::ids(Arc::new(registry::accounts(&pipeline.provider).date_of))
    }

    fn terms(&self, settings: &Settings) -> ItemTerms {
        let AccountSettings { from_posts, from_lists, .. } = &settings.accounts;
        let by_posts = [POSTS].into_iter().filter(|_| !from_posts.trim().is_empty());
        let by_lists = ListKind::ALL.map(ListKind::as_str).into_iter().filter(|_| *from_lists > 0);
        let mut terms = ItemTerms::of_accounts(settings);
        terms.unavailable.confirm = Some(confirm_lane(settings));
        ItemTerms { named_by: by_posts.chain(by_lists).chain([COMMUNITY]).collect(), ..terms }
    }

    fn receiver(&self, pipeline: &PipelineId, receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        let ReceiverContext { schedule, database: Database { store, .. }, .. } = receiving;
        let parse = registry::accounts(&pipeline.provider).parse;
        Some(Arc::new(ProfileReceiver { namespace: pipeline.to_string(), parse, schedule, store }))
    }

    fn check(&self, pipeline: &PipelineId, settings: &Settings) -> Result<()> {
        open_accounts(settings, &pipeline.provider).map(drop)
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let lookup = open_accounts_with_limits(&opening.settings, &opening.id.provider, &opening.health).await?;
        let schedule = silence_schedule(&opening.settings);
        let OpenContext { id, database, settings, stop, .. } = &opening;
        let beside = Removal::task(id.provider.to_string(), database.edges.clone(), settings, stop.clone());
        Ok(OpenPipeline { beside, ..opening.refresher(lookup, ProfileJudge { schedule }) })
    }
}

impl Presentation for Profiles {
    fn words(&self) -> ItemWords {
        ItemWords::ACCOUNTS
    }

    fn tables(&self) -> &'static [Table] {
        export::ACCOUNTS
    }
}

#[must_use]
pub fn profiles_pipeline(provider: &Provider) -> RegisteredPipeline {
    RegisteredPipeline { id: PipelineId::items(provider, PROFILES), kind: Arc::new(Profiles) }
}

fn silence_schedule(settings: &Settings) -> SilenceSchedule {
    let AccountSettings { idle_after, freeze_after, .. } = settings.accounts;
    let [active, idle, frozen] = settings.account_intervals();
    SilenceSchedule::new(Intervals { active, idle, frozen, idle_after, freeze_after }, confirm_lane(settings))
}

fn confirm_lane(settings: &Settings) -> Lane {
    Lane::new(CONFIRM_LANE, settings.updater.unavailable_after).with_tier(1)
}

/// Judges a found account: it lives, and stays as long as it is returned.
#[derive(Debug, Clone)]
pub struct ProfileJudge {
    /// Decides which accounts are frozen: only their quiet hours are read.
    pub schedule: SilenceSchedule,
}

impl Item for Account {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Option<Millis> {
        self.created_at
    }

    fn activity(&self) -> Activity {
        self.activity
    }

    fn handle(&self) -> Option<&str> {
        self.handle.as_deref()
    }
}

#[async_trait]
impl Judge for ProfileJudge {
    type Item = Account;

    fn needs_standing(&self, _: &Job, _: &Account) -> bool {
        false
    }

    async fn prepare(
        &self,
        store: &dyn Store,
        namespace: &str,
        found: Vec<&mut Account>,
        at: Millis,
    ) -> Result<(), StoreError> {
        let ids: Vec<String> = found.iter().map(|account| account.id.clone()).collect();
        let signs = store.schedule_inputs(namespace, &ids).await?;
        for (account, signs) in found.into_iter().zip(signs) {
            let signs = signs.unwrap_or_default();
            account.last_post_at = newest_activity([account.last_post_at], at);
            // A network without the date of the last post states the number of posts.
            let posted =
                account.counts.posts.is_some_and(|posts| signs.counts.posts.is_some_and(|before| posts > before));
            let seen = (signs.first_seen > 0).then_some(signs.first_seen);
            let known = [account.last_post_at, signs.active_at, signs.changed_at, posted.then_some(at)];
            let last = newest_activity(known, at).or(seen).unwrap_or(at);
            let hours = match self.schedule.is_frozen(last, at) {
                true => store.post_times(namespace, &account.id, POSTS_FOR_HOURS).await?,
                false => Vec::new(),
            };
            let pace = estimate_pace(&(&signs).into(), &account.counts, account.created_at, at);
            account.activity = Activity { last: Some(last), quiet_from: quiet_from(&hours), pace };
        }
        Ok(())
    }

    /// An account that was active since its last answer has posted: its timeline has something new.
    fn fan_out(&self, account: &Account, before: Option<&Standing>, mentions: &mut Mentions) {
        let looked_at = before.and_then(|before| before.checked_at);
        if looked_at.is_none() || account.activity.last > looked_at {
            mentions.add(Mention::new(&account.id, Arrival::NewPosts));
        }
        // A first profile may decide the membership.
        if looked_at.is_none() {
            mentions.add(Mention::first(&account.id, Arrival::NewFacts));
        }
    }

    async fn save(
        &self,
        store: &dyn Store,
        namespace: &str,
        answers: &[Observation<Account>],
    ) -> Result<SaveCounts, StoreError> {
        store.save_accounts(namespace, answers).await
    }
}
