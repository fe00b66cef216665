//! Judges a batch of accounts: reads the evidence, judges, saves the decisions, adjusts the collection, saves the lives, settles.
//! Each step may be repeated: the same evidence gives the same decision.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::collector::{Collector, WantedCollection};
use super::counters::JudgementCounters;
use super::rule::{BadRule, Judgement, Rule};
use super::schedule::judged_lane;
use crate::config::CommunitySettings;
use crate::pipelines::item_handler::{ItemOutcome, ItemWork, UnmeteredWork};
use crate::pipelines::kind::LiveSettings;
use crate::pipelines::store_call::PipelineStore;
use engine::base::clock::{Millis, millis};
use engine::base::failpoint;
use engine::queue::{Batch, Job};
use engine::worker::Outlook;
use networks::model::community::Belonging;
use networks::model::post::ItemState;
use store::{AccountFacts, Communities, Finding, NetworkPipelines};

/// Wait of an account for its profile or posts. Arriving evidence makes it due earlier.
const EVIDENCE_WAIT_MS: Millis = 3_600_000;
/// Wait of an account whose posts were dropped: visits and lookups in progress may store some again.
const DROPPED_RECHECK_MS: Millis = 3_600_000;
/// Wait of accounts while their community is off.
const DISABLED_WAIT_MS: Millis = 600_000;
/// Wait for the admission of an account: a killed process may have recorded it without admitting it.
const ADMISSION_WAIT_MS: Millis = 60_000;

#[derive(Debug, Clone)]
pub struct NetworkNamespaces {
    pub posts: String,
    pub profiles: String,
    pub friends: String,
}

impl NetworkNamespaces {
    #[must_use]
    pub fn neighbours(&self) -> NetworkPipelines<'_> {
        NetworkPipelines { posts: &self.posts, profiles: &self.profiles, friends: &self.friends }
    }
}

/// Rule in force, rebuilt when its settings change.
pub struct LiveRule {
    pub name: String,
    in_force: LiveSettings,
    rule: Mutex<Arc<Rule>>,
}

impl LiveRule {
    pub fn new(name: &str, in_force: LiveSettings) -> Result<Self, BadRule> {
        let settings = (in_force)();
        let community = settings.community(name)?;
        let rule = Mutex::new(Arc::new(Rule::new(community)?));
        Ok(Self { name: name.to_owned(), in_force, rule })
    }

    /// Returns the current rule. If new settings are invalid, the previous rule stays in force.
    #[must_use]
    pub fn current(&self) -> Arc<Rule> {
        let settings = (self.in_force)();
        let mut rule = self.rule.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(community) = settings.communities.get(&self.name).filter(|community| *community != rule.settings())
        {
            match Rule::new(community) {
                Ok(new_rule) => *rule = Arc::new(new_rule),
                Err(why) => tracing::error!(
                    community = self.name,
                    why = why.to_string(),
                    "the new rule of the community is invalid; the previous rule stays in force"
                ),
            }
        }
        rule.clone()
    }
}

pub struct JudgementWork {
    pub items: PipelineStore,
    pub network: NetworkNamespaces,
    pub live_rule: Arc<LiveRule>,
    pub communities: Arc<dyn Communities>,
    pub collector: Arc<Collector>,
    pub counters: Arc<JudgementCounters>,
}

#[async_trait]
impl ItemWork for JudgementWork {
    type Row = ();

    fn items(&self) -> &PipelineStore {
        &self.items
    }
}

#[async_trait]
impl UnmeteredWork for JudgementWork {
    async fn handle(&self, batch: &Batch) -> Result<Vec<ItemOutcome>, Outlook> {
        let (namespace, ids) = (&self.items.namespace, batch.ids());
        let rule = self.live_rule.current();
        let at = batch.answer_time();
        if !rule.settings().on {
            let due = Some(at.saturating_add(DISABLED_WAIT_MS));
            return Ok(batch.jobs.iter().map(|job| next_judgement(job, at, due)).collect());
        }
        let facts = self.communities.facts(namespace, self.network.neighbours(), &ids, rule.texts_per_account());
        let mut facts = self.items.run_with_timeout(facts).await?;
        let is_seen = |facts: &AccountFacts| facts.state == Some(Belonging::Seen);
        let seen: HashSet<String> = facts.iter().filter(|of| is_seen(of)).map(|of| of.account.clone()).collect();
        // Nothing is stored for accounts without a state, for example because their owners asked to be forgotten.
        facts.retain(|of| of.state.is_some() && !is_seen(of));
        // Thousands of posts: on a blocking thread, so that other tasks of this process go on.
        let (rule, judging) = (rule.clone(), rule);
        let work = tokio::task::spawn_blocking(move || {
            facts.into_iter().map(|facts| (judging.judge(&facts), facts)).collect::<Vec<(Judgement, AccountFacts)>>()
        });
        let judged = match work.await {
            Ok(judged) => judged,
            // Resumes the panic here: the batch returns when its lease ends, each time smaller.
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(failed) => return Err(Outlook::Outage(format!("judging failed: {failed}"))),
        };
        failpoint::point("after_answer");
        let languages: Vec<_> = judged.iter().flat_map(|(of, _)| of.languages.iter().cloned()).collect();
        self.items.run_with_timeout(self.communities.save_languages(&self.network.posts, &languages)).await?;
        let decisions: Vec<_> = judged.iter().map(|(of, _)| of.decision.clone()).collect();
        let saving = self.communities.save_decisions(namespace, at, rule.version(), &decisions);
        self.items.run_with_timeout(saving).await?;
        failpoint::point("after_commit");
        let wanted: BTreeMap<String, WantedCollection> = judged.iter().map(wanted_collection).collect();
        let dropped = self.collector.apply(rule.settings(), &wanted, at).await?;
        self.count(&judged);
        let outcome = |job: &Job| {
            let state = wanted.get(&job.id).map(|of| of.state).or(seen.contains(&job.id).then_some(Belonging::Seen));
            next_judgement(job, at, next_due_at(state, dropped.contains(&job.id), rule.settings(), at))
        };
        Ok(batch.jobs.iter().map(outcome).collect())
    }
}

impl JudgementWork {
    fn count(&self, judged: &[(Judgement, AccountFacts)]) {
        let of = |state: Belonging| judged.iter().filter(|(of, _)| of.decision.state == state).count();
        self.counters.accounts_judged.add(judged.len());
        self.counters.judged_members.add(of(Belonging::Member));
        self.counters.judged_outside.add(of(Belonging::Outside));
    }
}

/// A decision by a person overrides the rule.
fn wanted_collection((judgement, facts): &(Judgement, AccountFacts)) -> (String, WantedCollection) {
    let state = match facts.state.filter(|_| facts.is_by_hand) {
        Some(by_hand) => by_hand,
        None => judgement.decision.state,
    };
    let wants_posts = judgement.wants_posts && !facts.is_by_hand;
    (facts.account.clone(), WantedCollection { state, has_no_profile: facts.profile.is_none(), wants_posts })
}

fn next_due_at(state: Option<Belonging>, is_dropped: bool, settings: &CommunitySettings, at: Millis) -> Option<Millis> {
    let again = millis(settings.judge_again);
    let delay = match state? {
        Belonging::Seen => ADMISSION_WAIT_MS.min(again),
        Belonging::Candidate => EVIDENCE_WAIT_MS.min(again),
        _ if is_dropped => DROPPED_RECHECK_MS.min(again),
        _ => again,
    };
    Some(at.saturating_add(delay))
}

/// The time of the next judgement, or the end of the item (`due` is `None`).
fn next_judgement(job: &Job, at: Millis, due: Option<Millis>) -> ItemOutcome {
    let state = if due.is_some() { ItemState::Live } else { ItemState::Ended };
    ItemOutcome::with_life(job, at, Finding::Found(None), state, due.map(|due| (judged_lane(), due)))
}
