//! Communities of accounts, by place, language and friends. Each community of the settings is a pipeline of its own.
//!
//! ```text
//!   members' posts and lists, searches ─▶ seen ─ often enough, within the caps ([`growth`]) ─▶ candidate
//!                                                                                                │ profile, posts ([`collecting`])
//!   a person ─────────────▶ member ◀─────────────── judged by the rule ([`rule`], [`handler`]) ◀─┘
//!                           outside ◀──────────────┘       └──▶ open, until there is more
//! ```
//!
//! Data arrives by fan-out ([`arrivals`]): the first answer about a post names its author and the accounts in it.

pub mod account_evidence;
pub mod arrivals;
pub mod by_hand;
pub mod collecting;
pub mod counters;
pub mod growth;
pub mod handler;
pub mod language;
pub mod names;
pub mod place;
pub mod rule;
pub mod schedule;

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;

use self::account_evidence::COMMUNITY;
use self::arrivals::Arrivals;
use self::by_hand::ByHand;
use self::collecting::{Collecting, Divided, Dropping, divided};
use self::counters::Judged;
use self::growth::Growing;
use self::handler::{Judging, Network, Rules};
use self::rule::Rule;
use self::schedule::ByEvidence;
use super::kind::{Live, Opened, Opening, PipelineKind, Receiving, Words, Work};
use super::profiles::PROFILES;
use super::visits::VISITS;
use super::visits::follow::{Follower, PartQueue};
use crate::base::clock::Millis;
use crate::base::supervise::Beside;
use crate::config::{BadConfig, Settings};
use crate::engine::schedule::Schedule;
use crate::model::pipeline_id::{POSTS, PipelineId};
use crate::model::provider::Provider;
use crate::model::relation::Side;
use crate::pipelines::refresh::{Receiver, Target};
use crate::providers::lookup::{Capabilities, Charge};
use crate::providers::registry;
use crate::store::Database;
use crate::store::export::{self, Table};

/// Accounts per batch; they are judged one after the other.
const CAPABILITIES: Capabilities = Capabilities { batch_limit: 100, charge: Charge::Nothing, endpoint: COMMUNITY };

#[derive(Debug, Clone, Copy, Default)]
pub struct Communities;

#[must_use]
pub fn community_of(provider: &Provider, name: &str) -> PipelineId {
    PipelineId { partition: Some(name.to_owned()), ..PipelineId::items(provider, COMMUNITY) }
}

#[must_use]
pub fn communities_of(settings: &Settings, provider: &Provider) -> Vec<PipelineId> {
    let of = settings.communities.iter().filter(|(_, community)| community.provider == *provider);
    of.map(|(name, _)| community_of(provider, name)).collect()
}

fn name_of(of: &PipelineId) -> &str {
    of.partition.as_deref().unwrap_or_default()
}

#[must_use]
pub fn network(provider: &Provider) -> Network {
    Network {
        posts: PipelineId::posts(provider).to_string(),
        profiles: PipelineId::items(provider, PROFILES).to_string(),
        friends: PipelineId::items(provider, Side::Friends.as_str()).to_string(),
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
            all.push(community_of(&community.provider, name));
        }
        Ok(all)
    }

    fn words(&self) -> Words {
        Words::BELONGING
    }

    fn capabilities(&self, _: &PipelineId) -> Capabilities {
        CAPABILITIES
    }

    fn schedule(&self, of: &PipelineId, settings: &Settings) -> Arc<dyn Schedule> {
        let community = settings.communities.get(name_of(of)).cloned().unwrap_or_default();
        Arc::new(ByEvidence { again: community.judge_again })
    }

    /// The pipeline of profiles notices a deleted account.
    fn notices_deletions(&self) -> bool {
        false
    }

    fn date_of(&self, of: &PipelineId, id: &str) -> Result<Option<Millis>, String> {
        (registry::accounts(&of.provider).date_of)(id).map(|_| None)
    }

    fn fans_out_to(&self, _: &Settings) -> Vec<&'static str> {
        vec![COMMUNITY, POSTS, PROFILES, VISITS, Side::Followers.as_str(), Side::Friends.as_str()]
    }

    fn receives(&self, of: &PipelineId, receiving: Receiving) -> Option<Arc<dyn Receiver>> {
        let Database { store, communities, .. } = receiving.database;
        Some(Arc::new(Arrivals {
            namespace: of.to_string(),
            name: name_of(of).to_owned(),
            posts: PipelineId::posts(&of.provider).to_string(),
            in_force: receiving.in_force,
            store,
            communities,
        }))
    }

    fn threshold(&self, of: &PipelineId, settings: &Settings) -> Option<f64> {
        settings.communities.get(name_of(of)).map(|community| community.threshold)
    }

    fn tables(&self) -> &'static [Table] {
        export::COMMUNITIES
    }

    fn check(&self, of: &PipelineId, settings: &Settings) -> Result<()> {
        let name = name_of(of);
        let rule = Rule::new(settings.community(name)?);
        rule.map(drop).map_err(|why| BadConfig(format!("communities.{name}: {why}")).into())
    }

    async fn open(&self, opening: Opening) -> Result<Opened> {
        let Opening { id, settings, in_force, database, fan_out, metrics, stop, .. } = opening;
        let (namespace, name) = (id.to_string(), name_of(&id).to_owned());
        let rules = Arc::new(rules(&name, in_force)?);
        let Divided { own, posts, visits, others: targets } = divided(&namespace, fan_out);
        let Some(own) = own else {
            return Err(BadConfig(format!("communities.{name}: its own pipeline is not there")).into());
        };
        let follower = follower(&settings, &id.provider, &database, &visits)?;
        let counters = Arc::<Judged>::default();
        metrics.also_show(&namespace, counters.clone());
        let Database { store, communities, forgetting, .. } = database;
        let dropping = |posts: Target| {
            let (posts, queue) = (posts.id().to_string(), posts.starter().queue().clone());
            Dropping { posts, queue, forgetting }
        };
        let collecting = Arc::new(Collecting {
            namespace: namespace.clone(),
            all: communities_of(&settings, &id.provider).iter().map(PipelineId::to_string).collect(),
            targets,
            follower,
            dropping: posts.map(dropping),
            communities: communities.clone(),
            within: settings.updater.save_timeout,
            metrics,
        });
        let growing = Growing {
            namespace: namespace.clone(),
            network: network(&id.provider),
            rules: rules.clone(),
            communities: communities.clone(),
            by_hand: ByHand {
                namespace: namespace.clone(),
                store: store.clone(),
                communities: communities.clone(),
                starter: own.starter().clone(),
            },
            own,
            lease: settings.updater.lease,
            collecting: collecting.clone(),
            counters: counters.clone(),
        };
        let handler = Judging {
            namespace,
            network: network(&id.provider),
            rules,
            store,
            communities,
            collecting,
            save_timeout: settings.updater.save_timeout,
            max_deliveries: settings.updater.max_deliveries,
            counters,
        };
        let beside = Some(Beside::of("growth", growing, Growing::run, &stop));
        Ok(Opened { work: Work::Free(Arc::new(handler)), capabilities: CAPABILITIES, beside })
    }
}

fn rules(name: &str, in_force: Live) -> Result<Rules, BadConfig> {
    Rules::new(name, in_force).map_err(|why| BadConfig(format!("communities.{name}: {why}")))
}

/// `None` if the settings have no visits.
fn follower(
    settings: &Settings,
    provider: &Provider,
    database: &Database,
    visits: &[Target],
) -> Result<Option<Follower>, BadConfig> {
    if visits.is_empty() {
        return Ok(None);
    }
    // An account may belong to any part.
    if visits.len() != settings.visits.parts as usize {
        let why = "communities follow accounts of all parts: leave visits.here empty where they run";
        return Err(BadConfig(why.to_owned()));
    }
    let part =
        |target: &Target| PartQueue { queue: target.starter().queue().clone(), starter: target.starter().clone() };
    let mut by_part: Vec<&Target> = visits.iter().collect();
    by_part.sort_by_key(|target| super::visits::part_of(target.id()));
    let parts = by_part.into_iter().map(part).collect();
    Ok(Some(Follower { provider: provider.clone(), parts, followed: database.followed.clone() }))
}
