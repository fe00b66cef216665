//! Communities of accounts, by place, language and friends. Each community of the settings is a pipeline of its own.
//!
//! ```text
//!   members' posts and lists, searches ─▶ seen ─ often enough, within the caps ([`growth`]) ─▶ candidate
//!                                                                                                │ profile, posts ([`collector`])
//!   a person ─────────────▶ member ◀─────────────── judged by the rule ([`rule`], [`handler`]) ◀─┘
//!                           outside ◀──────────────┘       └──▶ open, until there is more
//! ```
//!
//! Data arrives by fan-out ([`evidence_receiver`]): the first answer about a post names its author and the accounts in it.

pub mod collector;
pub mod counters;
pub mod evidence_receiver;
pub mod growth;
pub mod handler;
pub mod manual_decisions;
pub mod names;
pub mod rule;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::collector::{Collector, PostRemover, TargetsByKind, group_targets};
use self::counters::JudgementCounters;
use self::evidence_receiver::EvidenceReceiver;
use self::growth::GrowthTask;
use self::handler::{JudgementWork, LiveRule, NetworkNamespaces};
use self::manual_decisions::ManualDecisions;
use self::rule::Rule;
use self::schedule::JudgementSchedule;
use super::item_handler::ItemHandler;
use super::kind::{
    Intake, ItemTerms, ItemWords, LiveSettings, OpenContext, OpenPipeline, PipelineHandler, PipelineKind, Presentation,
    ReceiverContext,
};
use super::profiles::PROFILES;
use super::store_call::PipelineStore;
use super::visits::VISITS;
use super::visits::follow::{Follower, PartQueue};
use crate::config::{BadConfig, Settings};
use crate::pipelines::refresh::{FanOutTarget, Receiver};
use engine::base::supervise::BackgroundTask;
use engine::schedule::Schedule;
use networks::model::pipeline_id::{COMMUNITY, POSTS, PipelineId};
use networks::model::provider::Provider;
use networks::model::relation::ListKind;
use networks::providers::lookup::{Capabilities, Charge};
use store::Database;
use store::export::{self, Table};

const CAPABILITIES: Capabilities = Capabilities { batch_limit: 100, charge: Charge::Nothing, endpoint: COMMUNITY };

#[derive(Debug, Clone, Copy, Default)]
pub struct Communities;

#[must_use]
pub fn community_pipeline(provider: &Provider, name: &str) -> PipelineId {
    PipelineId { partition: Some(name.to_owned()), ..PipelineId::items(provider, COMMUNITY) }
}

#[must_use]
pub fn community_pipelines(settings: &Settings, provider: &Provider) -> Vec<PipelineId> {
    let of = settings.communities.iter().filter(|(_, community)| community.provider == *provider);
    of.map(|(name, _)| community_pipeline(provider, name)).collect()
}

fn community_name(of: &PipelineId) -> &str {
    of.partition.as_deref().unwrap_or_default()
}

#[must_use]
pub fn network_namespaces(provider: &Provider) -> NetworkNamespaces {
    NetworkNamespaces {
        posts: PipelineId::posts(provider).to_string(),
        profiles: PipelineId::items(provider, PROFILES).to_string(),
        friends: PipelineId::items(provider, ListKind::Friends.as_str()).to_string(),
    }
}

#[async_trait]
impl PipelineKind for Communities {
    fn pipelines(&self, settings: &Settings) -> Result<Vec<PipelineId>, BadConfig> {
        let providers = settings.providers()?;
        let mut all = Vec::new();
        for (name, community) in &settings.communities {
            if !providers.contains(&community.provider) {
                let why = format!("communities.{name}.provider: {} is not in providers", community.provider);
                return Err(BadConfig(why));
            }
            all.push(community_pipeline(&community.provider, name));
        }
        Ok(all)
    }

    fn capabilities(&self, _: &PipelineId) -> Capabilities {
        CAPABILITIES
    }

    fn schedule(&self, of: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        let community = settings.communities.get(community_name(of)).cloned().unwrap_or_default();
        Arc::new(JudgementSchedule { interval: community.judge_again })
    }

    fn intake(&self, of: &PipelineId) -> Intake {
        Intake::undated_accounts(&of.provider)
    }

    fn terms(&self, settings: &Settings) -> ItemTerms {
        let lists = ListKind::ALL.map(ListKind::as_str);
        let named_by = [POSTS, PROFILES, VISITS, COMMUNITY].into_iter().chain(lists).collect();
        // The pipeline of profiles notices a deleted account.
        ItemTerms { notices_deletions: false, named_by, ..ItemTerms::new(settings) }
    }

    fn receiver(&self, of: &PipelineId, receiving: ReceiverContext) -> Option<Arc<dyn Receiver>> {
        let Database { store, communities, .. } = receiving.database;
        Some(Arc::new(EvidenceReceiver {
            namespace: of.to_string(),
            name: community_name(of).to_owned(),
            posts: PipelineId::posts(&of.provider).to_string(),
            in_force: receiving.in_force,
            store,
            communities,
        }))
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        let name = community_name(of);
        let rule = Rule::new(settings.community(name)?);
        rule.map(drop).map_err(|why| BadConfig(format!("communities.{name}: {why}")).into())
    }

    async fn open(&self, opening: OpenContext) -> Result<OpenPipeline> {
        let OpenContext { id, settings, in_force, database, fan_out, metrics, stop, .. } = opening;
        let (namespace, name) = (id.to_string(), community_name(&id).to_owned());
        let live_rule = Arc::new(live_rule(&name, in_force)?);
        let TargetsByKind { own, posts, visits, others: targets } = group_targets(&namespace, fan_out);
        let Some(own) = own else {
            return Err(BadConfig(format!("communities.{name}: this process does not have its pipeline")).into());
        };
        let follower = follower(&settings, &id.provider, &database, &visits)?;
        let counters = Arc::<JudgementCounters>::default();
        metrics.add_counters(&namespace, counters.clone());
        let Database { store, communities, forgetting, .. } = database;
        let post_remover = |posts: FanOutTarget| {
            let (posts, queue) = (posts.id().to_string(), posts.starter().queue().clone());
            PostRemover { posts, queue, forgetting }
        };
        let collector = Arc::new(Collector {
            namespace: namespace.clone(),
            all: community_pipelines(&settings, &id.provider).iter().map(PipelineId::to_string).collect(),
            targets,
            follower,
            post_remover: posts.map(post_remover),
            communities: communities.clone(),
            save_timeout: settings.updater.save_timeout,
            metrics,
        });
        let growth_task = GrowthTask {
            namespace: namespace.clone(),
            network: network_namespaces(&id.provider),
            live_rule: live_rule.clone(),
            communities: communities.clone(),
            by_hand: ManualDecisions {
                namespace: namespace.clone(),
                store: store.clone(),
                communities: communities.clone(),
                starter: own.starter().clone(),
            },
            own,
            lease: settings.updater.lease,
            collector: collector.clone(),
            counters: counters.clone(),
        };
        let handler = ItemHandler(JudgementWork {
            items: PipelineStore::new(namespace, store, &settings.updater),
            network: network_namespaces(&id.provider),
            live_rule,
            communities,
            collector,
            counters,
        });
        let beside = Some(BackgroundTask::with_state("growth", growth_task, GrowthTask::run, &stop));
        Ok(OpenPipeline { work: PipelineHandler::Unmetered(Arc::new(handler)), capabilities: CAPABILITIES, beside })
    }
}

impl Presentation for Communities {
    fn words(&self) -> ItemWords {
        ItemWords::COMMUNITY_ACCOUNTS
    }

    fn tables(&self) -> &'static [Table] {
        export::COMMUNITIES
    }

    fn member_threshold(&self, of: &PipelineId, settings: &Settings) -> Option<f64> {
        settings.communities.get(community_name(of)).map(|community| community.threshold)
    }
}

fn live_rule(name: &str, in_force: LiveSettings) -> Result<LiveRule, BadConfig> {
    LiveRule::new(name, in_force).map_err(|why| BadConfig(format!("communities.{name}: {why}")))
}

fn follower(
    settings: &Settings,
    provider: &Provider,
    database: &Database,
    visits: &[FanOutTarget],
) -> Result<Option<Follower>, BadConfig> {
    if visits.is_empty() {
        return Ok(None);
    }
    // An account may belong to any part.
    if visits.len() != settings.visits.parts as usize {
        let why = "communities follow accounts of all parts: leave visits.here empty where they run";
        return Err(BadConfig(why.to_owned()));
    }
    let part = |target: &FanOutTarget| PartQueue {
        queue: target.starter().queue().clone(),
        starter: target.starter().clone(),
    };
    let mut by_part: Vec<&FanOutTarget> = visits.iter().collect();
    by_part.sort_by_key(|target| super::visits::pipeline_part(target.id()));
    let parts = by_part.into_iter().map(part).collect();
    Ok(Some(Follower { provider: provider.clone(), parts, followed: database.followed.clone() }))
}
