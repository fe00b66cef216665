//! A pipeline as the rest of the program sees it: the seam that [`Registry`](super::registry::Registry) has a line for.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use serde::Serialize;

use crate::base::clock::{self, Millis};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::base::supervise::Beside;
use crate::config::{BadConfig, OnDeleted, Settings};
use crate::engine::health::Health;
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Lane, Queue};
use crate::engine::schedule::checked::Checked;
use crate::engine::schedule::{Schedule, Schedules};
use crate::engine::worker::{FreeHandler, Handler};
use crate::ingest::{IdDate, Lanes};
use crate::model::pipeline_id::PipelineId;
use crate::pipelines::refresh::wave::Wave;
use crate::pipelines::refresh::{
    Judge, Receiver, Refresher, Suspicions, Target, UNAVAILABLE_LANE, UnavailableSettings,
};
use crate::providers::lookup::{Capabilities, Lookup};
use crate::providers::registry::Parse;
use crate::quota::Credentials;
use crate::store::export::{self, Table};
use crate::store::{Database, Store};

/// The words for the items of a kind, where people read of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// One item: `post`.
    pub one: &'static str,
    /// Several: `posts`.
    pub many: &'static str,
    /// The settings that say how often each is looked up: `tweet_age`.
    pub intervals: &'static str,
}

impl Words {
    /// Those of posts.
    pub const POSTS: Self = Self { one: "post", many: "posts", intervals: "tweet_age" };
    /// Those of accounts.
    pub const ACCOUNTS: Self = Self { one: "account", many: "accounts", intervals: "accounts.active, idle and frozen" };
    /// Those of media.
    pub const MEDIA: Self = Self { one: "media file", many: "media files", intervals: "media.retry" };
    /// Those of lists of followers and friends.
    pub const LISTS: Self = Self { one: "list", many: "lists", intervals: "relations.revisit" };
    /// Those of accounts whose timelines are visited.
    pub const FOLLOWED: Self = Self { one: "timeline", many: "timelines", intervals: "visits.every" };
    /// Those of accounts that may belong to a community.
    pub const BELONGING: Self =
        Self { one: "account", many: "accounts of a community", intervals: "communities.NAME.judge_again" };
    /// Those of items whose kind names none.
    pub const ITEMS: Self = Self { one: "item", many: "items", intervals: "the schedule" };
}

const DAY_MS: f64 = 86_400_000.0;

/// How a list is read, where items are lists that are read page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPages {
    /// Members of a page.
    pub page: u32,
    /// Members after which a list is cut; 0: never.
    pub longest: u64,
}

impl ListPages {
    /// Pages of a list with that number of members: at least one.
    #[must_use]
    pub fn of(self, members: u64) -> u64 {
        let read = if self.longest > 0 { members.min(self.longest) } else { members };
        read.div_ceil(u64::from(self.page.max(1))).max(1)
    }
}

/// Intervals of the visits of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VisitIntervals {
    /// The interval between visits, ms.
    pub revisit_ms: Millis,
    /// The interval between visits that read the whole list, ms.
    pub complete_every_ms: Millis,
}

impl VisitIntervals {
    /// Intervals by the settings, ms; `known_tail` is that of the settings.
    #[must_use]
    pub fn new(revisit: Millis, complete_every: Millis, known_tail: u32) -> Self {
        let revisit_ms = revisit.max(1);
        // Without a known tail every visit reads the whole list.
        let complete_every_ms = if known_tail == 0 { revisit_ms } else { complete_every.max(revisit_ms) };
        Self { revisit_ms, complete_every_ms }
    }

    /// A sum per day and list, of a visit that reads a list as a whole and one that ends on its first page.
    #[must_use]
    pub fn per_day(self, whole: f64, short: f64) -> f64 {
        let [complete, visits] = [self.complete_every_ms, self.revisit_ms].map(|every| DAY_MS / every as f64);
        whole * complete + short * (visits - complete).max(0.0)
    }

    /// The same sum per visit, on average.
    #[must_use]
    pub fn per_visit(self, whole: f64, short: f64) -> f64 {
        self.per_day(whole, short) * self.revisit_ms as f64 / DAY_MS
    }

    /// The longest time between two complete reads, ms: the first visit after `complete_every_ms` is complete.
    #[must_use]
    pub fn complete_within_ms(self) -> Millis {
        let visits = (self.complete_every_ms - 1) / self.revisit_ms + 1;
        visits.saturating_mul(self.revisit_ms)
    }
}

/// A tier of lists: those that are visited at the same interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTier {
    /// Its lane.
    pub name: Arc<str>,
    /// Its intervals.
    pub every: VisitIntervals,
    /// The longest stored time between a visit and the next one in this tier, ms.
    pub up_to_ms: Millis,
    /// True if its visits come before the first reads of new lists.
    pub is_before_new: bool,
}

/// Page size and visit intervals of lists, by tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTerms {
    /// The pages of a list.
    pub pages: ListPages,
    /// Intervals of a list that was never read: it is to be read within the first one.
    pub new: VisitIntervals,
    /// The tiers of lists that were read, the shortest stored interval first; three at the most.
    pub tiers: Vec<ListTier>,
}

/// A kind of pipeline that looks items up again and again. Its objects hold no state: what runs is what it
/// [opens](PipelineKind::open).
#[async_trait]
pub trait PipelineKind: Send + Sync + Debug {
    /// The pipelines of this kind that the settings ask for.
    ///
    /// # Errors
    /// A setting is invalid.
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig>;

    /// The words for its items, where people read of them.
    fn words(&self) -> Words {
        Words::ITEMS
    }

    /// The number of ids in a call, and the endpoint whose quota it uses. One that charges nothing opens [`Work::Free`].
    fn capabilities(&self, of: &PipelineId) -> Capabilities;

    /// When its items are due, by these settings.
    fn schedule(&self, of: &PipelineId, settings: &Settings) -> Arc<dyn Schedule>;

    /// The lease of a claimed batch.
    fn lease(&self, settings: &Settings) -> Duration {
        settings.updater.lease
    }

    /// The rules for its items that the API does not return.
    fn unavailable(&self, settings: &Settings) -> UnavailableSettings {
        let updater = &settings.updater;
        UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, updater.unavailable_every),
            believed_after: clock::millis(updater.unavailable_after),
            limit: updater.unavailable_limit,
            after: clock::millis(updater.unavailable_for),
            confirm: None,
            forget: settings.store.on_deleted != OnDeleted::Keep,
        }
    }

    /// Returns true if its lookups notice deletions: then `store.longest_unchecked` bounds the time between two of them.
    fn notices_deletions(&self) -> bool {
        true
    }

    /// When the item with this id was made, ms since the epoch, where the id says so.
    ///
    /// # Errors
    /// Not an id of such an item; says why in one clause.
    fn date_of(&self, of: &PipelineId, id: &str) -> Result<Option<clock::Millis>, String>;

    /// Kinds that its judge [names ids of](Judge::fan_out), by the words of [`PipelineId::items`]: they go into the
    /// pipelines of the same provider. Where the settings have no such pipeline, nothing is fanned out to it.
    fn fans_out_to(&self, _settings: &Settings) -> Vec<&'static str> {
        Vec::new()
    }

    /// Receives what came along with ids that other pipelines name; `None`: the ids alone are taken.
    fn receiver(
        &self,
        _of: &PipelineId,
        _schedule: Arc<dyn Schedules>,
        _store: Arc<dyn Store>,
    ) -> Option<Arc<dyn Receiver>> {
        None
    }

    /// The same of a kind that needs more for it than the store.
    fn receives(&self, of: &PipelineId, receiving: Receiving) -> Option<Arc<dyn Receiver>> {
        self.receiver(of, receiving.schedule, receiving.database.store)
    }

    /// Reads an object that arrives instead of an id.
    fn parse(&self, _of: &PipelineId) -> Parse {
        |_| Err("only ids can be put in here".to_owned())
    }

    /// The tables of what is stored of its items, beside those of [all items](export::ITEMS): what `export` offers.
    fn tables(&self) -> &'static [Table] {
        &[]
    }

    /// How its items are read, where they are lists that are read page by page.
    fn lists(&self, _of: &PipelineId, _settings: &Settings) -> Option<ListTerms> {
        None
    }

    /// The score from which on an item belongs, where items are accounts of a community.
    fn threshold(&self, _of: &PipelineId, _settings: &Settings) -> Option<f64> {
        None
    }

    /// The counts of its items over time, from which the adaptive schedule can be trained; `None`: it keeps none.
    fn histories(&self, _settings: &Settings) -> Option<Histories> {
        None
    }

    /// Builds what is asked of that one before anything is connected: wrong settings are found by it.
    ///
    /// # Errors
    /// A setting is invalid.
    fn check(&self, _of: &PipelineId, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    /// Builds its handler.
    ///
    /// # Errors
    /// A setting is invalid.
    async fn open(&self, opening: Opening) -> Result<Opened>;
}

/// The stored counts of items.
#[derive(Debug, Clone)]
pub struct Histories {
    /// Its columns are id, date of the item, newest answer, answer, and the counts.
    pub table: &'static Table,
    /// Weights of the counts, in their order.
    pub weights: Vec<f64>,
}

/// A pipeline that the settings ask for, and its kind.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Its name.
    pub id: PipelineId,
    /// Its kind.
    pub kind: Arc<dyn PipelineKind>,
}

/// The settings in force.
pub type Live = Arc<dyn Fn() -> Arc<Settings> + Send + Sync>;

/// The parts from which a receiver is built.
pub struct Receiving {
    /// When the items are due, in force.
    pub schedule: Arc<dyn Schedules>,
    /// The store, and what else lies in its database.
    pub database: Database,
    /// The settings in force.
    pub in_force: Live,
}

/// The parts from which a handler is built.
pub struct Opening {
    /// The pipeline.
    pub id: PipelineId,
    /// The settings at the start.
    pub settings: Settings,
    /// The settings in force, as far as they may change while it runs.
    pub in_force: Live,
    /// Its queue.
    pub queue: Arc<dyn Queue>,
    /// The worker's name.
    pub worker: String,
    /// The store, and what else lies in its database.
    pub database: Database,
    /// The pipelines that its judge may name ids of.
    pub fan_out: Vec<Target>,
    /// The credentials of its provider; none where it is not metered.
    pub credentials: Arc<Credentials>,
    /// When its items are due, in force.
    pub schedule: Arc<dyn Schedules>,
    /// The rules for its items that the API does not return.
    pub unavailable: UnavailableSettings,
    /// The last wave of misses.
    pub wave: Reloadable<Option<Wave>>,
    /// Its counters.
    pub metrics: Arc<Metrics>,
    /// Its health, as others see it.
    pub health: Arc<Health>,
    /// Stops it.
    pub stop: Stop,
}

/// The handler of a pipeline.
pub enum Work {
    /// With a quota.
    Metered(Arc<dyn Handler>),
    /// Without one.
    Free(Arc<dyn FreeHandler>),
}

/// A handler, and what a call takes now that the API was asked.
pub struct Opened {
    /// The handler.
    pub work: Work,
    /// What a call takes.
    pub capabilities: Capabilities,
    /// A task that runs beside it until it is stopped.
    pub beside: Option<Beside>,
}

impl Opening {
    /// The machine of `refresh` with this lookup and this judge.
    pub fn refresher<J: Judge>(self, lookup: Arc<dyn Lookup<J::Item>>, judge: J) -> Opened {
        let updater = &self.settings.updater;
        let capabilities = lookup.capabilities();
        let handler = Refresher {
            namespace: self.id.to_string(),
            lookup,
            judge,
            store: self.database.store,
            fan_out: self.fan_out,
            credentials: self.credentials,
            schedule: self.schedule,
            unavailable: self.unavailable,
            wave: self.wave,
            max_deliveries: updater.max_deliveries,
            call_timeout: self.settings.lookup.timeout,
            save_timeout: updater.save_timeout,
            metrics: self.metrics,
            suspicions: Suspicions::default(),
        };
        Opened { work: Work::Metered(Arc::new(handler)), capabilities, beside: None }
    }
}

impl Registered {
    /// Its name in queue, store, metrics and on the page.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.id.to_string()
    }

    /// What a call takes, as far as that is known without asking.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.kind.capabilities(&self.id)
    }

    /// Returns true if its calls use a provider's quota: then its handler gets permits, and the provider's credentials are
    /// needed.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        self.capabilities().is_metered()
    }

    /// When its items are due, by these settings.
    #[must_use]
    pub fn schedule(&self, settings: &Settings) -> Arc<dyn Schedule> {
        let schedule = self.kind.schedule(&self.id, settings);
        match settings.store.longest_unchecked().filter(|_| self.kind.notices_deletions()) {
            Some(longest) => Arc::new(Checked { schedule, longest }),
            None => schedule,
        }
    }

    /// The lane of each item, chosen as its handler chooses it.
    #[must_use]
    pub fn lanes(&self, settings: &Settings, schedule: Arc<dyn Schedules>) -> Lanes {
        Lanes { schedule, unavailable: self.kind.unavailable(settings).lane, id_date: self.id_date() }
    }

    /// The table of that name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&'static Table> {
        self.tables().find(|table| table.name == name)
    }

    /// All of its tables.
    pub fn tables(&self) -> impl Iterator<Item = &'static Table> {
        self.kind.tables().iter().chain(export::ITEMS)
    }

    /// Reads the date of an item from its id.
    #[must_use]
    pub fn id_date(&self) -> IdDate {
        let Self { id, kind } = self.clone();
        Arc::new(move |item: &str| kind.date_of(&id, item))
    }
}
