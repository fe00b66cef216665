//! A pipeline as the rest of the program sees it. [`Registry`](super::registry::Registry) has a line for each kind.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use serde::Serialize;

use crate::config::{BadConfig, OnDeleted, Settings};
use crate::ingest::{IdDate, LaneChooser};
use crate::pipelines::refresh::mass_miss_alert::MassMissAlert;
use crate::pipelines::refresh::{
    FailureTracker, FanOutTarget, Judge, Receiver, Refresher, UNAVAILABLE_LANE, UnavailableSettings,
};
use engine::base::clock::{self, Millis};
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::base::supervise::BackgroundTask;
use engine::health::Health;
use engine::metrics::Metrics;
use engine::queue::{Lane, Queue};
use engine::quota::Credentials;
use engine::schedule::checked::BoundedSchedule;
use engine::schedule::{Schedule, Schedules};
use engine::worker::{Handler, UnmeteredHandler};
use networks::model::pipeline_id::PipelineId;
use networks::providers::lookup::{Capabilities, Lookup};
use networks::providers::registry::Parse;
use store::export::{self, Table};
use store::{Database, Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemWords {
    pub one: &'static str,
    pub many: &'static str,
    /// Settings of the lookup interval: `tweet_age`.
    pub intervals: &'static str,
}

impl ItemWords {
    pub const POSTS: Self = Self { one: "post", many: "posts", intervals: "tweet_age" };
    pub const ACCOUNTS: Self = Self { one: "account", many: "accounts", intervals: "accounts.active, idle and frozen" };
    pub const MEDIA: Self = Self { one: "media file", many: "media files", intervals: "media.retry" };
    pub const LISTS: Self = Self { one: "list", many: "lists", intervals: "relations.revisit" };
    pub const FOLLOWED: Self = Self { one: "timeline", many: "timelines", intervals: "visits.every" };
    pub const BELONGING: Self =
        Self { one: "account", many: "accounts of a community", intervals: "communities.NAME.judge_again" };
    pub const ITEMS: Self = Self { one: "item", many: "items", intervals: "the schedule" };
}

const DAY_MS: f64 = 86_400_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPages {
    pub page: u32,
    /// Members after which a list is cut; 0: never.
    pub longest: u64,
}

impl ListPages {
    /// Pages of a list with that number of members: at least one.
    #[must_use]
    pub fn count_for(self, members: u64) -> u64 {
        let read = if self.longest > 0 { members.min(self.longest) } else { members };
        read.div_ceil(u64::from(self.page.max(1))).max(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VisitIntervals {
    pub revisit_ms: Millis,
    /// Interval between visits that read the whole list, ms.
    pub complete_every_ms: Millis,
}

impl VisitIntervals {
    #[must_use]
    pub fn new(revisit: Millis, complete_every: Millis, known_tail: u32) -> Self {
        let revisit_ms = revisit.max(1);
        // Without a known tail every visit reads the whole list.
        let complete_every_ms = if known_tail == 0 { revisit_ms } else { complete_every.max(revisit_ms) };
        Self { revisit_ms, complete_every_ms }
    }

    /// Daily sum per list: `whole` per complete visit, `short` per visit that ends on its first page.
    #[must_use]
    pub fn daily_total(self, whole: f64, short: f64) -> f64 {
        let [complete, visits] = [self.complete_every_ms, self.revisit_ms].map(|every| DAY_MS / every as f64);
        whole * complete + short * (visits - complete).max(0.0)
    }

    #[must_use]
    pub fn average_per_visit(self, whole: f64, short: f64) -> f64 {
        self.daily_total(whole, short) * self.revisit_ms as f64 / DAY_MS
    }

    /// The longest time between two complete reads, ms: the first visit after `complete_every_ms` is complete.
    #[must_use]
    pub fn complete_within_ms(self) -> Millis {
        let visits = (self.complete_every_ms - 1) / self.revisit_ms + 1;
        visits.saturating_mul(self.revisit_ms)
    }
}

/// Lists with the same visit interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTier {
    pub name: Arc<str>,
    pub every: VisitIntervals,
    /// The longest stored time between a visit and the next one in this tier, ms.
    pub up_to_ms: Millis,
    /// True if its visits come before the first reads of new lists.
    pub is_before_new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTerms {
    pub pages: ListPages,
    /// Intervals of a list that was never read. Its first read is due within the first one.
    pub new: VisitIntervals,
    /// Tiers of lists that were read, the shortest stored interval first; at most three.
    pub tiers: Vec<ListTier>,
}

/// A kind of pipeline that looks items up again and again. It holds no state: it [opens](PipelineKind::open) the part that runs.
#[async_trait]
pub trait PipelineKind: Send + Sync + Debug {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig>;

    fn words(&self) -> ItemWords {
        ItemWords::ITEMS
    }

    /// Number of ids per call, and the endpoint whose quota it uses. A kind that charges nothing opens [`PipelineHandler::Free`].
    fn capabilities(&self, pipeline: &PipelineId) -> Capabilities;

    fn schedule(&self, pipeline: &PipelineId, settings: &Settings) -> Arc<dyn Schedule>;

    fn lease(&self, settings: &Settings) -> Duration {
        settings.updater.lease
    }

    fn unavailable(&self, settings: &Settings) -> UnavailableSettings {
        let updater = &settings.updater;
        UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, updater.unavailable_every),
            confirmed_after: clock::millis(updater.unavailable_after),
            limit: updater.unavailable_limit,
            after: clock::millis(updater.unavailable_for),
            confirm: None,
            forget: settings.store.on_deleted != OnDeleted::Keep,
        }
    }

    /// Returns true if its lookups notice deletions: then `store.longest_unchecked` limits the time between two of them.
    fn notices_deletions(&self) -> bool {
        true
    }

    /// Creation date in an id, ms since the epoch; `None` if the id has none. The error is the reason why the id is invalid.
    fn date_of(&self, pipeline: &PipelineId, id: &str) -> Result<Option<clock::Millis>, String>;

    /// Kinds of the ids that its judge [passes on](Judge::fan_out), as words of [`PipelineId::items`]. The pipelines are those of the
    /// same provider; a kind without a pipeline is skipped.
    fn fan_out_kinds(&self, _settings: &Settings) -> Vec<&'static str> {
        Vec::new()
    }

    /// Receives data that came with ids from other pipelines; `None`: only the ids are used.
    fn receiver(
        &self,
        _pipeline: &PipelineId,
        _schedule: Arc<dyn Schedules>,
        _store: Arc<dyn Store>,
    ) -> Option<Arc<dyn Receiver>> {
        None
    }

    /// Variant of `receiver` for a kind that needs more than the store.
    fn build_receiver(&self, pipeline: &PipelineId, receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        self.receiver(pipeline, receiving.schedule, receiving.database.store)
    }

    /// Reads an object that arrives instead of an id.
    fn parse(&self, _pipeline: &PipelineId) -> Parse {
        |_| Err("only ids can be put in here".to_owned())
    }

    /// Tables of its stored items for `export`, beside those of [all items](export::ITEMS).
    fn tables(&self) -> &'static [Table] {
        &[]
    }

    fn list_terms(&self, _pipeline: &PipelineId, _settings: &Settings) -> Option<ListTerms> {
        None
    }

    /// Minimum score of a community's member.
    fn member_threshold(&self, _pipeline: &PipelineId, _settings: &Settings) -> Option<f64> {
        None
    }

    /// Counts over time, to train the adaptive schedule; `None`: it keeps none.
    fn histories(&self, _settings: &Settings) -> Option<Histories> {
        None
    }

    /// Builds the parts of a pipeline before any connection, to find invalid settings.
    fn check(&self, _pipeline: &PipelineId, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline>;
}

#[derive(Debug, Clone)]
pub struct Histories {
    /// Columns: id, date of the item, newest answer, answer, and the counts.
    pub table: &'static Table,
    /// Weights of the counts, in the order of the columns.
    pub weights: Vec<f64>,
}

#[derive(Debug, Clone)]
pub struct RegisteredPipeline {
    pub id: PipelineId,
    pub kind: Arc<dyn PipelineKind>,
}

pub type LiveSettings = Arc<dyn Fn() -> Arc<Settings> + Send + Sync>;

pub struct ReceiverContext {
    pub schedule: Arc<dyn Schedules>,
    pub database: Database,
    pub in_force: LiveSettings,
}

pub struct OpenContext {
    pub id: PipelineId,
    pub settings: Settings,
    /// Settings in force. Some may change while it runs.
    pub in_force: LiveSettings,
    pub queue: Arc<dyn Queue>,
    pub worker: String,
    pub database: Database,
    /// Pipelines whose ids its judge may name.
    pub fan_out: Vec<FanOutTarget>,
    /// Credentials of its provider; empty if it is not metered.
    pub credentials: Arc<Credentials>,
    pub schedule: Arc<dyn Schedules>,
    pub unavailable: UnavailableSettings,
    pub wave: Reloadable<Option<MassMissAlert>>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    pub stop: Stop,
}

pub enum PipelineHandler {
    Metered(Arc<dyn Handler>),
    Free(Arc<dyn UnmeteredHandler>),
}

/// A handler, and its capabilities as learned from the API.
pub struct OpenPipeline {
    pub work: PipelineHandler,
    pub capabilities: Capabilities,
    /// A task that runs beside it until it is stopped.
    pub beside: Option<BackgroundTask>,
}

impl OpenContext {
    pub fn refresher<J: Judge>(self, lookup: Arc<dyn Lookup<J::Item>>, judge: J) -> OpenPipeline {
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
            failure_tracker: FailureTracker::default(),
        };
        OpenPipeline { work: PipelineHandler::Metered(Arc::new(handler)), capabilities, beside: None }
    }
}

impl RegisteredPipeline {
    /// Name in queue, store, metrics and on the page.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.id.to_string()
    }

    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.kind.capabilities(&self.id)
    }

    /// Returns true if its calls use a provider's quota: its handler then needs permits and credentials.
    #[must_use]
    pub fn is_metered(&self) -> bool {
        self.capabilities().is_metered()
    }

    /// Schedule of its kind, limited by `store.longest_unchecked`.
    #[must_use]
    pub fn schedule(&self, settings: &Settings) -> Arc<dyn Schedule> {
        let schedule = self.kind.schedule(&self.id, settings);
        match settings.store.longest_unchecked().filter(|_| self.kind.notices_deletions()) {
            Some(longest) => Arc::new(BoundedSchedule { schedule, longest }),
            None => schedule,
        }
    }

    #[must_use]
    pub fn lanes(&self, settings: &Settings, schedule: Arc<dyn Schedules>) -> LaneChooser {
        LaneChooser { schedule, unavailable: self.kind.unavailable(settings).lane, id_date: self.id_date() }
    }

    #[must_use]
    pub fn table(&self, name: &str) -> Option<&'static Table> {
        self.tables().find(|table| table.name == name)
    }

    pub fn tables(&self) -> impl Iterator<Item = &'static Table> {
        self.kind.tables().iter().chain(export::ITEMS)
    }

    #[must_use]
    pub fn id_date(&self) -> IdDate {
        let Self { id, kind } = self.clone();
        Arc::new(move |item: &str| kind.date_of(&id, item))
    }
}
