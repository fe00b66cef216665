//! A pipeline as the rest of the program sees it. [`Registry`](super::registry::Registry) has a line for each kind.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

pub use super::presentation::{
    Histories, ItemContent, ItemWords, ListPages, ListTerms, ListTier, Presentation, VisitIntervals,
};
use super::store_call::PipelineStore;
use crate::config::{BadConfig, OnDeleted, Settings};
use crate::ingest::{IdDate, LaneChooser};
use crate::pipelines::refresh::mass_miss_alert::MassMissAlert;
use crate::pipelines::refresh::{
    FailureTracker, FanOutTarget, Judge, Receiver, Refresher, UNAVAILABLE_LANE, UnavailableSettings,
};
use engine::base::clock;
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::base::supervise::BackgroundTask;
use engine::health::Health;
use engine::metrics::Metrics;
use engine::queue::{Lane, Queue};
use engine::quota::Credentials;
use engine::schedule::bounded::BoundedSchedule;
use engine::schedule::{Schedule, Schedules};
use engine::worker::{Handler, UnmeteredHandler};
use networks::model::pipeline_id::PipelineId;
use networks::model::provider::Provider;
use networks::providers::lookup::{Capabilities, Lookup};
use networks::providers::registry::{self, Parse};
use networks::providers::unreadable::UnreadableObject;
use store::Database;
use store::export::{self, Table};

/// A kind of pipeline that looks items up again and again. It holds no state: it [opens](PipelineKind::open) the part that runs.
#[async_trait]
pub trait PipelineKind: Presentation + Send + Sync + Debug {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig>;

    /// Number of ids per call, and the endpoint whose quota it uses. A kind whose calls use no quota opens [`PipelineHandler::Unmetered`].
    fn capabilities(&self, pipeline: &PipelineId) -> Capabilities;

    fn schedule(&self, pipeline: &PipelineId, settings: &Settings) -> Arc<dyn Schedule>;

    fn intake(&self, pipeline: &PipelineId) -> Intake;

    fn terms(&self, settings: &Settings) -> ItemTerms {
        ItemTerms::new(settings)
    }

    /// Receives data that came with ids from other pipelines; `None`: only the ids are used.
    fn receiver(&self, _pipeline: &PipelineId, _receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        None
    }

    /// Builds the parts of a pipeline before any connection, to find invalid settings.
    fn check(&self, _pipeline: &PipelineId, _settings: &Settings) -> Result<()> {
        Ok(())
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline>;
}

/// Ids and objects that come in.
#[derive(Clone)]
pub struct Intake {
    /// Creation date in an id, ms since the epoch; `None` if the id has none. The error is the reason why the id is invalid.
    pub id_date: IdDate,
    /// Reads an object that arrives instead of an id.
    pub parse: Parse,
}

impl Intake {
    #[must_use]
    pub fn ids(id_date: IdDate) -> Self {
        Self { id_date, parse: |_| Err(UnreadableObject::NotAccepted) }
    }

    /// Only ids of accounts come in, and an account has no age.
    #[must_use]
    pub fn undated_accounts(provider: &Provider) -> Self {
        let date_of = registry::accounts(provider).date_of;
        Self::ids(Arc::new(move |id: &str| date_of(id).map(|_| None)))
    }
}

/// Lease, confirmation of misses and sources of ids of a kind, by the settings.
#[derive(Debug, Clone)]
pub struct ItemTerms {
    pub lease: Duration,
    pub unavailable: UnavailableSettings,
    /// True if its lookups notice deletions: then `store.longest_unchecked` limits the time between two of them.
    pub notices_deletions: bool,
    /// Kinds of the same provider that name ids of this one, as words of [`PipelineId::word`].
    pub named_by: Vec<&'static str>,
}

impl ItemTerms {
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let (updater, on_deleted) = (&settings.updater, settings.store.on_deleted);
        let unavailable = UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, updater.unavailable_every),
            confirmed_after: clock::millis(updater.unavailable_after),
            limit: updater.unavailable_limit,
            after: clock::millis(updater.unavailable_for),
            confirm: None,
            forget: on_deleted != OnDeleted::Keep,
        };
        Self { lease: updater.lease, unavailable, notices_deletions: true, named_by: Vec::new() }
    }

    /// Terms of accounts: they come back, so a life ends only if the settings demand the removal of missing accounts.
    #[must_use]
    pub fn of_accounts(settings: &Settings) -> Self {
        let terms = Self::new(settings);
        let removes = settings.store.on_deleted == OnDeleted::Remove;
        let lane = Lane::new(UNAVAILABLE_LANE, settings.accounts.gone).with_tier(1);
        let limit = if removes { terms.unavailable.limit } else { u32::MAX };
        Self { unavailable: UnavailableSettings { lane, limit, ..terms.unavailable }, ..terms }
    }
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
    /// Pipelines that receive ids from this one.
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
    Unmetered(Arc<dyn UnmeteredHandler>),
}

/// A handler and its capabilities. A Mastodon instance may state its own batch limit.
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
            items: PipelineStore::new(self.id.to_string(), self.database.store, updater),
            lookup,
            judge,
            fan_out: self.fan_out,
            credentials: self.credentials,
            schedule: self.schedule,
            unavailable: self.unavailable,
            wave: self.wave,
            call_timeout: self.settings.lookup.timeout,
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

    /// Schedule of its kind, limited by `store.longest_unchecked` if the kind notices deletions and `store.on_deleted` is not `keep`.
    #[must_use]
    pub fn schedule(&self, settings: &Settings) -> Arc<dyn Schedule> {
        let schedule = self.kind.schedule(&self.id, settings);
        match settings.store.longest_unchecked().filter(|_| self.kind.terms(settings).notices_deletions) {
            Some(longest) => Arc::new(BoundedSchedule { schedule, longest: Some(longest), same_day: None }),
            None => schedule,
        }
    }

    #[must_use]
    pub fn lanes(&self, settings: &Settings, schedule: Arc<dyn Schedules>) -> LaneChooser {
        LaneChooser { schedule, unavailable: self.kind.terms(settings).unavailable.lane, id_date: self.id_date() }
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
        self.kind.intake(&self.id).id_date
    }

    /// Returns true if the items of that pipeline name ids of this one.
    #[must_use]
    pub fn is_named_by(&self, other: &PipelineId, settings: &Settings) -> bool {
        let named_by = self.kind.terms(settings).named_by;
        self.id.provider == other.provider && other.word().is_some_and(|word| named_by.contains(&word))
    }
}
