//! Visits: the timelines of followed accounts are read again and again, at the moments that their owners' rhythms ask for.
//!
//! ```text
//!   accounts follow ─▶ first ─▶ visit ([`handler`]): page by page, all posts go to the posts' pipeline
//!                       ▲          └─▶ the rhythm learns when there were posts ─▶ due at the next visit (engine::schedule::visits)
//!   a lookup shows more posts ([`signs`]) ─▶ due at once
//! ```
//!
//! [`timelines`](super::timelines) has paging, positions and gaps. The store has the followed accounts and their parts
//! ([`FollowList`](crate::store::FollowList)).

pub mod divide;
pub mod follow;
pub mod handler;
pub mod report;
pub mod signs;
pub mod summary;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use self::handler::{Accounts, Visitor};
use self::report::Telling;
use self::signs::Signs;
use super::apis::open_api;
use super::community::account_evidence::{COMMUNITY, are_wanted};
use super::kind::{Opened, Opening, PipelineKind, Words, Work};
use super::timelines::counters::Polls;
use super::timelines::reader::{InCommon, Reader};
use crate::base::clock::{self, Millis};
use crate::config::{BadConfig, Settings};
use crate::engine::lane::Lane;
use crate::engine::schedule::visits::coefficients::Coefficients;
use crate::engine::schedule::visits::{Options, Policy, Visits};
use crate::engine::schedule::{Schedule, Schedules};
use crate::model::pipeline_id::{Kind, POSTS, PROFILES, PipelineId};
use crate::model::provider::Provider;
use crate::pipelines::refresh::{Receiver, Target, UNAVAILABLE_LANE, UnavailableSettings};
use crate::providers::lookup::Capabilities;
use crate::providers::registry;
use crate::store::{Database, Part, Store};

pub const VISITS: &str = "visits";

/// One pipeline for each provider in the settings and each part, if `visits.collect` is on.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountVisits;

/// Pipeline of a part of a provider's followed accounts. The first one has the plain name.
#[must_use]
pub fn visits_of(provider: &Provider, part: Part) -> PipelineId {
    let partition = (part > 0).then(|| format!("p{part}"));
    PipelineId { partition, ..PipelineId::items(provider, VISITS) }
}

#[must_use]
pub fn part_of(pipeline: &PipelineId) -> Part {
    let number = pipeline.partition.as_deref().and_then(|part| part.strip_prefix('p'));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[must_use]
pub fn holds_visits(namespace: &str) -> bool {
    PipelineId::is_of(namespace, VISITS)
}

#[async_trait]
impl PipelineKind for AccountVisits {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        if !settings.visits.collect {
            return Ok(Vec::new());
        }
        settings.visits.options()?;
        let (providers, parts) = (settings.providers()?, settings.visits.parts_here()?);
        let of =
            |provider: &Provider| parts.iter().map(|part| visits_of(provider, Part::from(*part))).collect::<Vec<_>>();
        Ok(providers.iter().flat_map(of).collect())
    }

    fn words(&self) -> Words {
        Words::FOLLOWED
    }

    fn capabilities(&self, of: &PipelineId) -> Capabilities {
        registry::account_timelines(&of.provider).capabilities
    }

    fn schedule(&self, _: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        Arc::new(schedule(settings))
    }

    /// Long enough for further pages, like that of a poll.
    fn lease(&self, settings: &Settings) -> Duration {
        settings.updater.lease.max(settings.timeline_lease())
    }

    fn unavailable(&self, settings: &Settings) -> UnavailableSettings {
        UnavailableSettings {
            lane: Lane::new(UNAVAILABLE_LANE, settings.accounts.gone).in_tier(1),
            confirmed_after: clock::millis(settings.updater.unavailable_after),
            limit: u32::MAX,
            after: Millis::MAX,
            confirm: None,
            forget: false,
        }
    }

    /// A timeline shows only new posts.
    fn notices_deletions(&self) -> bool {
        false
    }

    fn date_of(&self, of: &PipelineId, id: &str) -> Result<Option<Millis>, String> {
        (registry::accounts(&of.provider).date_of)(id).map(|_| None)
    }

    fn fans_out_to(&self, settings: &Settings) -> Vec<&'static str> {
        std::iter::once(POSTS).chain(are_wanted(settings).then_some(COMMUNITY)).collect()
    }

    fn receiver(
        &self,
        of: &PipelineId,
        schedule: Arc<dyn Schedules>,
        store: Arc<dyn Store>,
    ) -> Option<Arc<dyn Receiver>> {
        Some(Arc::new(Signs { namespace: of.to_string(), schedule, store }))
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        Coefficients::embedded()?;
        Accounts::open(settings, &of.provider).map(drop)
    }

    async fn open(&self, opening: Opening) -> Result<Opened> {
        let Opening { id, settings, database, credentials, metrics, unavailable, fan_out, .. } = opening;
        let Database { store, positions, followed, .. } = database;
        let capabilities = self.capabilities(&id);
        let accounts = Accounts::open(&settings, &id.provider)?;
        let (posts, communities): (Vec<Target>, Vec<Target>) =
            fan_out.into_iter().partition(|target| target.id().kind == Kind::Posts);
        let Some(posts) = posts.first() else {
            return Err(BadConfig("visits.collect: the settings have no pipeline for the posts".to_owned()).into());
        };
        let (namespace, polls) = (id.to_string(), Arc::<Polls>::default());
        metrics.also_show(&namespace, polls.clone());
        let reader = Reader {
            // Positions belong to an account, in any part.
            namespace: visits_of(&id.provider, 0).to_string(),
            endpoint: capabilities.endpoint,
            pages: settings.visits.pages,
            starter: posts.starter().clone(),
            way: "visit",
            keeps_old: true,
            positions,
            credentials,
            call_timeout: settings.lookup.timeout,
            save_timeout: settings.updater.save_timeout,
            longest: settings.visits.longest,
            metrics: metrics.clone(),
            polls,
            in_common: InCommon::new([visits_of(&id.provider, 0).to_string()]),
        };
        let telling = (!communities.is_empty()).then(|| Telling {
            profiles: PipelineId::items(&id.provider, PROFILES).to_string(),
            people: registry::people(&id.provider),
            targets: communities,
            store: store.clone(),
            within: settings.updater.save_timeout,
            metrics,
        });
        let handler = Visitor {
            namespace,
            part: part_of(&id),
            reader,
            accounts,
            store,
            followed,
            schedule: opening.schedule,
            rules: settings.visits.options()?.classes,
            unavailable,
            shortest: settings.visits.shortest,
            max_deliveries: settings.updater.max_deliveries,
            telling,
        };
        Ok(Opened { work: Work::Metered(Arc::new(handler)), capabilities, beside: None })
    }
}

/// Settings and coefficients were checked before.
fn schedule(settings: &Settings) -> Visits {
    let options = settings.visits.options().unwrap_or_default();
    match Coefficients::embedded() {
        Ok(coefficients) => Visits::new(options, Arc::new(coefficients)),
        Err(why) => {
            tracing::error!(error = %why, "no coefficients: all accounts are visited alike");
            Visits::new(Options { policy: Policy::RoundRobin, ..options }, Arc::default())
        }
    }
}

impl Accounts {
    pub fn open(settings: &Settings, provider: &Provider) -> Result<Self> {
        let kinds = registry::kinds(provider);
        let fields = settings.x_fields()?;
        let k = settings.poll.out_of_order.max(kinds.out_of_order);
        let build = open_api(settings, provider, |http, address| (kinds.open)(http, address, fields))?;
        Ok(Self { provider: provider.clone(), build, k })
    }
}
