//! Followers and friends of accounts, and the dates of each edge: the lists are read page by page, again and again.
//!
//! ```text
//!   posts ─ authors ([`owner_receiver`]) ─▶ new ─▶ visit: page by page ([`handler`]) ─▶ visited ─▶ after a long while
//!                                      └─ a second post ─▶ repeat ◀─ a post since ─┘       ([`schedule`])
//! ```
//!
//! The two lists of an account belong to two pipelines, each with its own quota. The store has the edges
//! ([`Edges`](store::Edges)).

pub mod counters;
mod crawl;
pub mod handler;
pub mod member_collector;
pub mod owner_receiver;
mod page_request;
pub mod removal;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::counters::ListCounters;
use self::handler::{CrawlBounds, ListWork, UnansweredLists};
use self::member_collector::MemberCollector;
use self::owner_receiver::OwnerReceiver;
use self::removal::Removal;
use self::schedule::VisitSchedule;
use super::apis::open_relations;
use super::item_handler::ItemHandler;
use super::kind::{
    Intake, ItemTerms, ItemWords, ListPages, ListTerms, OpenContext, OpenPipeline, PipelineHandler, PipelineKind,
    Presentation, ReceiverContext,
};
use super::profiles::PROFILES;
use super::store_call::PipelineStore;
use crate::config::{BadConfig, RelationSettings, Settings};
use crate::pipelines::blame::Evidence;
use crate::pipelines::refresh::Receiver;
use engine::base::clock;
use engine::lane::Order;
use engine::schedule::Schedule;
use networks::model::pipeline_id::{COMMUNITY, POSTS, PipelineId};
use networks::model::provider::Provider;
use networks::model::relation::ListKind;
use networks::providers::lookup::Capabilities;
use networks::providers::registry;
use store::Database;
use store::export::{self, Table};

/// Tier of missing owners: after all others.
const GONE_TIER: u8 = 3;

/// Pipelines of one of the two lists: one for each provider in the settings, if `relations.collect` has it.
#[derive(Debug, Clone, Copy)]
pub struct Lists(pub ListKind);

#[async_trait]
impl PipelineKind for Lists {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        if !settings.relations.sides()?.contains(&self.0) {
            return Ok(Vec::new());
        }
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, self.0.as_str())).collect())
    }

    fn capabilities(&self, pipeline: &PipelineId) -> Capabilities {
        let list = registry::list_capabilities(&pipeline.provider, self.0);
        Capabilities { batch_limit: 1, charge: list.charge, endpoint: list.endpoint }
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        Arc::new(visit_schedule(&settings.relations))
    }

    fn intake(&self, pipeline: &PipelineId) -> Intake {
        Intake::ids(Arc::new(registry::accounts(&pipeline.provider).date_of))
    }

    fn terms(&self, settings: &Settings) -> ItemTerms {
        let by_posts = [POSTS].into_iter().filter(|_| settings.relations.from_posts);
        let mut terms = ItemTerms::of_accounts(settings);
        terms.unavailable.lane = terms.unavailable.lane.with_order(Order::OldestFirst).with_tier(GONE_TIER);
        // A missing account leaves all lists by its profile.
        ItemTerms { notices_deletions: false, named_by: by_posts.chain([COMMUNITY]).collect(), ..terms }
    }

    fn receiver(&self, pipeline: &PipelineId, receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        let ReceiverContext { schedule, database: Database { store, .. }, .. } = receiving;
        Some(Arc::new(OwnerReceiver { namespace: pipeline.to_string(), schedule, store }))
    }

    fn check(&self, pipeline: &PipelineId, settings: &Settings) -> Result<()> {
        open_relations(settings, &pipeline.provider).map(drop)
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let OpenContext { id, settings, database, fan_out, credentials, metrics, unavailable, stop, .. } = opening;
        let Database { store, edges, .. } = database;
        let relations = open_relations(&settings, &id.provider)?;
        let (namespace, counters) = (id.to_string(), Arc::<ListCounters>::default());
        metrics.add_counters(&namespace, counters.clone());
        let RelationSettings { known_tail, longest, shrink, page, complete_every, .. } = settings.relations;
        let capabilities = self.capabilities(&id);
        let accounts = PipelineId::items(&id.provider, PROFILES).to_string();
        let save_timeout = settings.updater.save_timeout;
        let member_collector = MemberCollector {
            accounts,
            targets: fan_out,
            store: store.clone(),
            side: self.0,
            profile_limit: settings.accounts.from_lists,
            community_limit: settings
                .communities
                .values()
                .filter(|community| community.provider == id.provider)
                .map(|community| community.from_lists.into())
                .max()
                .unwrap_or(0),
            time_limit: save_timeout,
            metrics: metrics.clone(),
        };
        let beside = Removal::task(id.provider.to_string(), edges.clone(), &settings, stop);
        let handler = ItemHandler(ListWork {
            items: PipelineStore::new(namespace, store, &settings.updater),
            side: self.0,
            relations,
            edges,
            credentials,
            visits: visit_schedule(&settings.relations),
            bounds: CrawlBounds { known_tail, complete_every: clock::millis(complete_every), longest, shrink, page },
            unavailable,
            call_timeout: settings.lookup.timeout,
            metrics,
            counters,
            member_collector,
            unanswered: UnansweredLists::default(),
            evidence: Evidence::default(),
        });
        Ok(OpenPipeline { work: PipelineHandler::Metered(Arc::new(handler)), capabilities, beside })
    }
}

impl Presentation for Lists {
    fn words(&self) -> ItemWords {
        ItemWords::LISTS
    }

    fn tables(&self) -> &'static [Table] {
        export::EDGES
    }

    fn list_terms(&self, pipeline: &PipelineId, settings: &Settings) -> Option<ListTerms> {
        let pages = pages(&pipeline.provider, self.0, settings);
        Some(visit_schedule(&settings.relations).terms(pages, &settings.relations))
    }
}

#[must_use]
pub fn pages(provider: &Provider, side: ListKind, settings: &Settings) -> ListPages {
    let most = registry::list_capabilities(provider, side).page_limit;
    let RelationSettings { page, longest, .. } = settings.relations;
    ListPages { page: if page == 0 { most } else { page.min(most) }, longest }
}

fn visit_schedule(settings: &RelationSettings) -> VisitSchedule {
    VisitSchedule { order: settings.order, revisit: settings.revisit }
}
