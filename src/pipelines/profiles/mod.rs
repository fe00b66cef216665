//! Profiles: accounts are looked up again and again, while the system runs. They come from posts ([`arrivals`]) or from a file.
//!
//! ```text
//!   posts ─ authors, mentioned ─▶ first ─▶ active ⇄ idle ⇄ frozen      by silence (schedule.rs)
//!                                    └──▶ confirm ─▶ unavailable        missing: once more alone, then weekly
//! ```
//!
//! With `accounts.schedule = "adaptive"`, active and idle accounts go by the pace of their counts ([`by_pace`]).
//!
//! New accounts come first, then those with the oldest data for their interval. An account that is found again returns to its lane.

pub mod arrivals;
pub mod by_pace;
pub mod pace;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::arrivals::Arrivals;
use self::by_pace::ByPace;
use self::pace::pace;
use self::schedule::{BySilence, Intervals, quiet_from};
use super::apis::{learn_accounts, open_accounts};
use super::community::account_evidence::{COMMUNITY, are_wanted};
use super::kind::{Opened, Opening, PipelineKind, Registered, Words};
use super::visits::VISITS;
use crate::base::clock::{self, Millis};
use crate::config::{AccountSchedule, AccountSettings, BadConfig, OnDeleted, Settings};
use crate::engine::lane::Lane;
use crate::engine::queue::Job;
use crate::engine::schedule::{Schedule, Schedules};
use crate::model::account::Account;
use crate::model::activity::{Activity, newest};
pub use crate::model::pipeline_id::PROFILES;
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::pipelines::refresh::{Item, Judge, Mention, Named, Receiver, UNAVAILABLE_LANE, UnavailableSettings};
use crate::pipelines::relations::removal::Removal;
use crate::providers::lookup::Capabilities;
use crate::providers::registry;
use crate::store::export::{self, Table};
use crate::store::{Observation, Saved, Standing, Store, StoreError};

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

    fn words(&self) -> Words {
        Words::ACCOUNTS
    }

    fn capabilities(&self, of: &PipelineId) -> Capabilities {
        registry::accounts(&of.provider).capabilities
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        let silence = by_silence(settings);
        match settings.accounts.schedule {
            AccountSchedule::Silence => Arc::new(silence),
            AccountSchedule::Adaptive => Arc::new(ByPace::new(silence, settings.adaptive.options())),
        }
    }

    fn unavailable(&self, settings: &Settings) -> UnavailableSettings {
        let updater = &settings.updater;
        let removes = settings.store.on_deleted == OnDeleted::Remove;
        UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, settings.accounts.gone).in_tier(1),
            confirmed_after: clock::millis(updater.unavailable_after),
            // Accounts come back: a life ends only if the settings demand the removal of missing accounts.
            limit: if removes { updater.unavailable_limit } else { u32::MAX },
            after: clock::millis(updater.unavailable_for),
            confirm: Some(confirm(settings)),
            forget: settings.store.on_deleted != OnDeleted::Keep,
        }
    }

    fn date_of(&self, of: &PipelineId, id: &str) -> Result<Option<Millis>, String> {
        (registry::accounts(&of.provider).date_of)(id)
    }

    fn fans_out_to(&self, settings: &Settings) -> Vec<&'static str> {
        let visits = settings.visits.collect && settings.visits.by_counts;
        let kinds = [(VISITS, visits), (COMMUNITY, are_wanted(settings))];
        kinds.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(kind, _)| kind).collect()
    }

    fn receiver(
        &self,
        of: &PipelineId,
        schedule: Arc<dyn Schedules>,
        store: Arc<dyn Store>,
    ) -> Option<Arc<dyn Receiver>> {
        let parse = registry::accounts(&of.provider).parse;
        Some(Arc::new(Arrivals { namespace: of.to_string(), parse, schedule, store }))
    }

    fn tables(&self) -> &'static [Table] {
        export::ACCOUNTS
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        open_accounts(settings, &of.provider).map(drop)
    }

    async fn open(&self, opening: Opening) -> Result<Opened> {
        let lookup = learn_accounts(&opening.settings, &opening.id.provider, &opening.health).await?;
        let schedule = by_silence(&opening.settings);
        let Opening { id, database, settings, stop, .. } = &opening;
        let beside = Removal::task(id.provider.to_string(), database.edges.clone(), settings, stop.clone());
        Ok(Opened { beside, ..opening.refresher(lookup, ProfileJudge { schedule }) })
    }
}

#[must_use]
pub fn profiles_of(provider: &Provider) -> Registered {
    Registered { id: PipelineId::items(provider, PROFILES), kind: Arc::new(Profiles) }
}

#[must_use]
pub fn holds_accounts(namespace: &str) -> bool {
    PipelineId::is_of(namespace, PROFILES)
}

fn by_silence(settings: &Settings) -> BySilence {
    let AccountSettings { idle_after, freeze_after, .. } = settings.accounts;
    let [active, idle, frozen] = settings.account_intervals();
    BySilence::new(Intervals { active, idle, frozen, idle_after, freeze_after }, confirm(settings))
}

fn confirm(settings: &Settings) -> Lane {
    Lane::new(CONFIRM_LANE, settings.updater.unavailable_after).in_tier(1)
}

/// Judges a found account: it lives, and stays as long as it is returned.
#[derive(Debug, Clone)]
pub struct ProfileJudge {
    /// Decides which accounts are frozen: only their quiet hours are read.
    pub schedule: BySilence,
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
        let signs = store.signs(namespace, &ids).await?;
        for (account, signs) in found.into_iter().zip(signs) {
            let signs = signs.unwrap_or_default();
            account.last_post_at = newest([account.last_post_at], at);
            // A network without the date of the last post states the number of posts.
            let posted =
                account.counts.posts.is_some_and(|posts| signs.counts.posts.is_some_and(|before| posts > before));
            let seen = (signs.first_seen > 0).then_some(signs.first_seen);
            let known = [account.last_post_at, signs.active_at, signs.changed_at, posted.then_some(at)];
            let last = newest(known, at).or(seen).unwrap_or(at);
            let hours = match self.schedule.is_frozen(last, at) {
                true => store.post_times(namespace, &account.id, POSTS_FOR_HOURS).await?,
                false => Vec::new(),
            };
            let pace = pace(&(&signs).into(), &account.counts, account.created_at, at);
            account.activity = Activity { last: Some(last), quiet_from: quiet_from(&hours), pace };
        }
        Ok(())
    }

    /// An account that was active since its last answer has posted: its timeline has something new.
    fn fan_out(&self, account: &Account, before: Option<&Standing>, named: &mut Named) {
        let looked_at = before.and_then(|before| before.checked_at);
        if looked_at.is_none() || account.activity.last > looked_at {
            named.mention(Mention { kind: VISITS, id: account.id.clone(), ..Mention::default() });
        }
        // A first profile may decide the membership.
        if looked_at.is_none() {
            named.mention(Mention { kind: COMMUNITY, id: account.id.clone(), is_first: true, ..Mention::default() });
        }
    }

    async fn save(
        &self,
        store: &dyn Store,
        namespace: &str,
        answers: &[Observation<Account>],
    ) -> Result<Saved, StoreError> {
        store.save_accounts(namespace, answers).await
    }
}
