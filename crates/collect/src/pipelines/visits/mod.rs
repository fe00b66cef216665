//! Repeated reads of the timelines of followed accounts, each when its account probably has new posts.
//!
//! ```text
//!   accounts follow ─▶ first ─▶ visit ([`handler`]): page by page, all posts go to the posts' pipeline
//!                       ▲          └─▶ the rhythm learns when there were posts ─▶ due at the next visit (engine::schedule::visits)
//!   a lookup shows more posts ([`post_count_receiver`]) ─▶ due at once
//! ```
//!
//! [`timelines`](super::timelines) has paging, positions and gaps. The store has the followed accounts and their parts
//! ([`FollowList`](store::FollowList)).

pub mod divide;
pub mod evidence_sender;
pub mod follow;
pub mod handler;
pub mod post_count_receiver;
pub mod summary;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::evidence_sender::EvidenceSender;
use self::handler::{AccountTimelineBuilder, VisitWork};
use self::post_count_receiver::PostCountReceiver;
use super::apis::open_api;
use super::item_handler::ItemHandler;
use super::kind::{
    Intake, ItemTerms, ItemWords, OpenContext, OpenPipeline, PipelineHandler, PipelineKind, Presentation,
    ReceiverContext,
};
use super::store_call::PipelineStore;
use super::timelines::counters::PollCounters;
use super::timelines::reader::{Reader, SharedState};
use crate::config::{BadConfig, Settings};
use crate::pipelines::refresh::{FanOutTarget, Receiver, UnavailableSettings};
use engine::base::clock::Millis;
use engine::schedule::Schedule;
use engine::schedule::visits::coefficients::Coefficients;
use engine::schedule::visits::{Options, Policy, Visits};
use networks::model::pipeline_id::{COMMUNITY, Kind, PROFILES, PipelineId};
use networks::model::provider::Provider;
use networks::providers::lookup::Capabilities;
use networks::providers::registry;
use store::{Database, Part};

pub const VISITS: &str = "visits";

/// One pipeline for each provider in the settings and each part, if `visits.collect` is on.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountVisits;

/// Pipeline of a part of a provider's followed accounts. The first one has the plain name.
#[must_use]
pub fn visits_pipeline(provider: &Provider, part: Part) -> PipelineId {
    let partition = (part > 0).then(|| format!("p{part}"));
    PipelineId { partition, ..PipelineId::items(provider, VISITS) }
}

#[must_use]
pub fn pipeline_part(pipeline: &PipelineId) -> Part {
    let number = pipeline.partition.as_deref().and_then(|part| part.strip_prefix('p'));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[async_trait]
impl PipelineKind for AccountVisits {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        if !settings.visits.collect {
            return Ok(Vec::new());
        }
        settings.visits.options()?;
        let (providers, parts) = (settings.providers()?, settings.visits.parts_here()?);
        let of = |provider: &Provider| {
            parts.iter().map(|part| visits_pipeline(provider, Part::from(*part))).collect::<Vec<_>>()
        };
        Ok(providers.iter().flat_map(of).collect())
    }

    fn capabilities(&self, of: &PipelineId) -> Capabilities {
        registry::account_timelines(&of.provider).capabilities
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        Arc::new(schedule(settings))
    }

    fn intake(&self, of: &PipelineId) -> Intake {
        Intake::undated_accounts(&of.provider)
    }

    fn terms(&self, settings: &Settings) -> ItemTerms {
        let by_profiles = [PROFILES].into_iter().filter(|_| settings.visits.by_counts);
        let terms = ItemTerms::of_accounts(settings);
        ItemTerms {
            // Long enough for further pages.
            lease: terms.lease.max(settings.timeline_lease()),
            unavailable: UnavailableSettings {
                limit: u32::MAX,
                after: Millis::MAX,
                forget: false,
                ..terms.unavailable
            },
            // A timeline shows only new posts.
            notices_deletions: false,
            named_by: by_profiles.chain([COMMUNITY]).collect(),
        }
    }

    fn receiver(&self, of: &PipelineId, receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        let ReceiverContext { schedule, database: Database { store, .. }, .. } = receiving;
        Some(Arc::new(PostCountReceiver { namespace: of.to_string(), schedule, store }))
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        Coefficients::embedded()?;
        AccountTimelineBuilder::open(settings, &of.provider).map(drop)
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let OpenContext { id, settings, database, credentials, metrics, unavailable, fan_out, .. } = opening;
        let Database { store, positions, followed, .. } = database;
        let capabilities = self.capabilities(&id);
        let accounts = AccountTimelineBuilder::open(&settings, &id.provider)?;
        let (posts, communities): (Vec<FanOutTarget>, Vec<FanOutTarget>) =
            fan_out.into_iter().partition(|target| target.id().kind == Kind::Posts);
        let Some(posts) = posts.first() else {
            return Err(BadConfig("visits.collect: the settings have no pipeline for the posts".to_owned()).into());
        };
        let (namespace, polls) = (id.to_string(), Arc::<PollCounters>::default());
        metrics.add_counters(&namespace, polls.clone());
        let reader = Reader {
            // Positions belong to an account, in any part.
            namespace: visits_pipeline(&id.provider, 0).to_string(),
            endpoint: capabilities.endpoint,
            pages: settings.visits.pages,
            starter: posts.starter().clone(),
            way: "visit",
            stores_old: true,
            positions,
            credentials,
            call_timeout: settings.lookup.timeout,
            save_timeout: settings.updater.save_timeout,
            longest: settings.visits.longest,
            metrics: metrics.clone(),
            polls,
            shared_state: SharedState::new([visits_pipeline(&id.provider, 0).to_string()]),
        };
        let evidence_sender = (!communities.is_empty()).then(|| EvidenceSender {
            profiles: PipelineId::items(&id.provider, PROFILES).to_string(),
            people: registry::people(&id.provider),
            targets: communities,
            store: store.clone(),
            save_timeout: settings.updater.save_timeout,
            metrics,
        });
        let handler = ItemHandler(VisitWork {
            items: PipelineStore::new(namespace, store, &settings.updater),
            part: pipeline_part(&id),
            reader,
            accounts,
            followed,
            schedule: opening.schedule,
            rules: settings.visits.options()?.classes,
            unavailable,
            shortest: settings.visits.shortest,
            evidence_sender,
        });
        Ok(OpenPipeline { work: PipelineHandler::Metered(Arc::new(handler)), capabilities, beside: None })
    }
}

impl Presentation for AccountVisits {
    fn words(&self) -> ItemWords {
        ItemWords::TIMELINES
    }
}

fn schedule(settings: &Settings) -> Visits {
    let options = settings.visits.options().unwrap_or_default();
    match Coefficients::embedded() {
        Ok(coefficients) => Visits::new(options, Arc::new(coefficients)),
        Err(why) => {
            tracing::error!(error = %why, "visits: no coefficients; all accounts are visited equally often");
            Visits::new(Options { policy: Policy::RoundRobin, ..options }, Arc::default())
        }
    }
}

impl AccountTimelineBuilder {
    pub fn open(settings: &Settings, provider: &Provider) -> Result<Self> {
        let kinds = registry::source_kinds(provider);
        let fields = settings.x_fields()?;
        let k = settings.poll.out_of_order.max(kinds.out_of_order);
        let build = open_api(settings, provider, |http, address| (kinds.open)(http, address, fields))?;
        Ok(Self { provider: provider.clone(), build, k })
    }
}
