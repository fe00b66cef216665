//! Followers and friends of accounts, and the dates of each edge: the lists are read page by page, again and again.
//!
//! ```text
//!   posts ─ authors ([`arrivals`]) ─▶ new ─▶ visit: page by page ([`handler`]) ─▶ visited ─▶ after a long while
//!                                      └─ a second post ─▶ repeat ◀─ a post since ─┘       ([`schedule`])
//! ```
//!
//! The two lists of an account belong to two pipelines, each with its own quota. The store has the edges
//! ([`Edges`](crate::store::Edges)).

pub mod arrivals;
pub mod counters;
pub mod handler;
pub mod members;
pub mod removal;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::arrivals::Owners;
use self::counters::Reads;
use self::handler::{Bounds, ListReader, Unanswered};
use self::members::Recruits;
use self::removal::Removal;
use self::schedule::Visits;
use super::apis::open_relations;
use super::community::account_evidence::{COMMUNITY, are_wanted};
use super::kind::{ListPages, ListTerms, Opened, Opening, PipelineKind, Words, Work};
use super::profiles::PROFILES;
use crate::base::clock::{self, Millis};
use crate::config::{BadConfig, OnDeleted, RelationSettings, Settings};
use crate::engine::lane::{Lane, Order};
use crate::engine::schedule::{Schedule, Schedules};
use crate::model::pipeline_id::PipelineId;
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::pipelines::blame::Evidence;
use crate::pipelines::refresh::{Receiver, UNAVAILABLE_LANE, UnavailableSettings};
use crate::providers::lookup::Capabilities;
use crate::providers::registry;
use crate::store::Database;
use crate::store::Store;
use crate::store::export::{self, Table};

/// Tier of missing owners: after all others.
const GONE_TIER: u8 = 3;

/// Pipelines of one of the two lists: one for each provider in the settings, if `relations.collect` has it.
#[derive(Debug, Clone, Copy)]
pub struct Lists(pub Side);

#[async_trait]
impl PipelineKind for Lists {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        if !settings.relations.sides()?.contains(&self.0) {
            return Ok(Vec::new());
        }
        Ok(settings.providers()?.iter().map(|provider| PipelineId::items(provider, self.0.as_str())).collect())
    }

    fn words(&self) -> Words {
        Words::LISTS
    }

    fn capabilities(&self, of: &PipelineId) -> Capabilities {
        let list = registry::relations(&of.provider, self.0);
        Capabilities { batch_limit: 1, charge: list.charge, endpoint: list.endpoint }
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        Arc::new(visits(&settings.relations))
    }

    fn unavailable(&self, settings: &Settings) -> UnavailableSettings {
        let removes = settings.store.on_deleted == OnDeleted::Remove;
        UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, settings.accounts.gone).ordered(Order::OldestFirst).in_tier(GONE_TIER),
            confirmed_after: clock::millis(settings.updater.unavailable_after),
            // Like those of profiles.
            limit: if removes { settings.updater.unavailable_limit } else { u32::MAX },
            after: clock::millis(settings.updater.unavailable_for),
            confirm: None,
            forget: settings.store.on_deleted != OnDeleted::Keep,
        }
    }

    fn fans_out_to(&self, settings: &Settings) -> Vec<&'static str> {
        let profiles = settings.accounts.collect && settings.accounts.from_lists > 0;
        let kinds = [(PROFILES, profiles), (COMMUNITY, are_wanted(settings))];
        kinds.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(kind, _)| kind).collect()
    }

    /// A missing account leaves all lists by its profile.
    fn notices_deletions(&self) -> bool {
        false
    }

    fn date_of(&self, of: &PipelineId, id: &str) -> Result<Option<Millis>, String> {
        (registry::accounts(&of.provider).date_of)(id)
    }

    fn receiver(
        &self,
        of: &PipelineId,
        schedule: Arc<dyn Schedules>,
        store: Arc<dyn Store>,
    ) -> Option<Arc<dyn Receiver>> {
        Some(Arc::new(Owners { namespace: of.to_string(), schedule, store }))
    }

    fn lists(&self, of: &PipelineId, settings: &Settings) -> Option<ListTerms> {
        Some(visits(&settings.relations).terms(pages(&of.provider, self.0, settings), &settings.relations))
    }

    fn tables(&self) -> &'static [Table] {
        export::EDGES
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        open_relations(settings, &of.provider).map(drop)
    }

    async fn open(&self, opening: Opening) -> Result<Opened> {
        let Opening { id, settings, database, fan_out, credentials, metrics, unavailable, stop, .. } = opening;
        let Database { store, edges, .. } = database;
        let relations = open_relations(&settings, &id.provider)?;
        let (namespace, counters) = (id.to_string(), Arc::<Reads>::default());
        metrics.also_show(&namespace, counters.clone());
        let RelationSettings { known_tail, longest, shrink, page, complete_every, .. } = settings.relations;
        let capabilities = self.capabilities(&id);
        let accounts = PipelineId::items(&id.provider, PROFILES).to_string();
        let save_timeout = settings.updater.save_timeout;
        let recruits = Recruits {
            accounts: accounts.clone(),
            targets: fan_out,
            store: store.clone(),
            side: self.0,
            profiles: settings.accounts.from_lists,
            communities: settings.communities.values().map(|community| community.from_lists.into()).max().unwrap_or(0),
            within: save_timeout,
            metrics: metrics.clone(),
        };
        let beside = Removal::task(id.provider.to_string(), edges.clone(), &settings, stop);
        let handler = ListReader {
            namespace,
            accounts,
            side: self.0,
            relations,
            store,
            edges,
            credentials,
            visits: visits(&settings.relations),
            bounds: Bounds { known_tail, complete_every: clock::millis(complete_every), longest, shrink, page },
            unavailable,
            call_timeout: settings.lookup.timeout,
            save_timeout,
            max_deliveries: settings.updater.max_deliveries,
            metrics,
            counters,
            recruits,
            unanswered: Unanswered::default(),
            evidence: Evidence::default(),
        };
        Ok(Opened { work: Work::Metered(Arc::new(handler)), capabilities, beside })
    }
}

#[must_use]
pub fn pages(provider: &Provider, side: Side, settings: &Settings) -> ListPages {
    let most = registry::relations(provider, side).page_limit;
    let RelationSettings { page, longest, .. } = settings.relations;
    ListPages { page: if page == 0 { most } else { page.min(most) }, longest }
}

fn visits(settings: &RelationSettings) -> Visits {
    Visits { order: settings.order, revisit: settings.revisit }
}
