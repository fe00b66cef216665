//! Judges a batch of accounts: reads the evidence, judges, saves the decisions, adjusts the collection, saves the lives, settles.
//!
//! Each step may be repeated. Accounts of a worker that died are judged once more: the same evidence gives the same decision.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::collecting::{Collecting, Wanted};
use super::counters::Judged;
use super::rule::{Judgement, Rule};
use super::schedule::judged;
use crate::base::clock::{Millis, millis};
use crate::base::failpoint;
use crate::config::CommunitySettings;
use crate::engine::queue::{Batch, Due, Job, Verdict};
use crate::engine::worker::{FreeHandler, Handled, Outlook};
use crate::model::community::Belonging;
use crate::model::post::{ItemState, Tweet};
use crate::pipelines::kind::Live;
use crate::pipelines::store_call;
use crate::store::{Communities, Facts, Neighbours, Observation, Seen, Store, StoreError};

/// Wait of an account for its profile or posts. Arriving evidence makes it due earlier.
const EVIDENCE_MS: Millis = 3_600_000;
/// Longest time that a visit to an unfollowed account, or a lookup of one of its posts, may still run.
const UNDER_WAY_MS: Millis = 3_600_000;
/// Wait of the accounts of a community that is turned off.
const OFF_MS: Millis = 600_000;
/// Wait of a job for the admission of its account: the process that recorded the account may have been killed before it admitted it.
const ADMISSION_MS: Millis = 60_000;

#[derive(Debug, Clone)]
pub struct Network {
    pub posts: String,
    pub profiles: String,
    pub friends: String,
}

impl Network {
    #[must_use]
    pub fn neighbours(&self) -> Neighbours<'_> {
        Neighbours { posts: &self.posts, profiles: &self.profiles, friends: &self.friends }
    }
}

/// The rule in force, rebuilt when its settings change.
pub struct Rules {
    pub name: String,
    in_force: Live,
    made: Mutex<Arc<Rule>>,
}

impl Rules {
    /// Fails if there is no such community, or if its rule is invalid.
    pub fn new(name: &str, in_force: Live) -> Result<Self, String> {
        let settings = (in_force)();
        let community = settings.community(name).map_err(|why| why.to_string())?;
        let made = Mutex::new(Arc::new(Rule::new(community)?));
        Ok(Self { name: name.to_owned(), in_force, made })
    }

    /// The current rule. If new settings are invalid, the previous rule stays in force.
    #[must_use]
    pub fn now(&self) -> Arc<Rule> {
        let settings = (self.in_force)();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(community) = settings.communities.get(&self.name).filter(|community| *community != made.settings())
        {
            match Rule::new(community) {
                Ok(rule) => *made = Arc::new(rule),
                Err(why) => tracing::error!(community = self.name, why, "the rule stays as it was"),
            }
        }
        made.clone()
    }
}

pub struct Judging {
    pub namespace: String,
    pub network: Network,
    pub rules: Arc<Rules>,
    pub store: Arc<dyn Store>,
    pub communities: Arc<dyn Communities>,
    pub collecting: Arc<Collecting>,
    pub save_timeout: Duration,
    /// Ended processes after which an account that was alone in its batch is dead.
    pub max_deliveries: u32,
    pub counters: Arc<Judged>,
}

#[async_trait]
impl FreeHandler for Judging {
    async fn handle(&self, batch: &Batch) -> Handled {
        self.judge_all(batch).await.unwrap_or_else(|outlook| Handled::released(batch, outlook))
    }
}

impl Judging {
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        store_call::in_time(self.save_timeout, work).await
    }

    async fn judge_all(&self, batch: &Batch) -> Result<Handled, Outlook> {
        if let [job] = &batch.jobs[..]
            && job.failures >= self.max_deliveries
        {
            let (at, reason) = (batch.now.now(), store_call::ended_its_process(job));
            let verdict = self.in_time(store_call::bury(&*self.store, &self.namespace, at, job, reason)).await?;
            return Ok(Handled { verdicts: vec![(job.clone(), verdict)], ..Handled::default() });
        }
        let ids: Vec<String> = batch.jobs.iter().map(|job| job.id.clone()).collect();
        failpoint::poison(&ids);
        let rule = self.rules.now();
        // Before the lease ends, so that the next worker dates its decisions later.
        let at = batch.now.now().min(batch.fence.deadline - 1);
        if !rule.settings().on {
            let due = |_: &Job| Some(at.saturating_add(OFF_MS));
            return self.settled(batch, at, due).await;
        }
        let facts = self.communities.facts(&self.namespace, self.network.neighbours(), &ids, rule.texts());
        let mut facts = self.in_time(facts).await?;
        let is_seen = |facts: &Facts| facts.state == Some(Belonging::Seen);
        let seen: HashSet<String> = facts.iter().filter(|of| is_seen(of)).map(|of| of.account.clone()).collect();
        // Nothing is stored for accounts without a state, for example because their owners asked to be forgotten.
        facts.retain(|of| of.state.is_some() && !is_seen(of));
        // Thousands of posts: on a blocking thread, so that other tasks of this process go on.
        let (rule, judging) = (rule.clone(), rule);
        let work = tokio::task::spawn_blocking(move || {
            facts.into_iter().map(|facts| (judging.judge(&facts), facts)).collect::<Vec<(Judgement, Facts)>>()
        });
        let judged = match work.await {
            Ok(judged) => judged,
            // Resumes the panic here: the batch returns when its lease ends, each time smaller.
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Err(failed) => return Err(Outlook::Outage(format!("judging failed: {failed}"))),
        };
        failpoint::point("after_answer");
        let languages: Vec<_> = judged.iter().flat_map(|(of, _)| of.languages.iter().cloned()).collect();
        self.in_time(self.communities.save_languages(&self.network.posts, &languages)).await?;
        let decisions: Vec<_> = judged.iter().map(|(of, _)| of.decision.clone()).collect();
        self.in_time(self.communities.decide(&self.namespace, at, rule.version(), &decisions)).await?;
        failpoint::point("after_commit");
        let wanted: BTreeMap<String, Wanted> = judged.iter().map(wanted).collect();
        let dropped = self.collecting.apply(rule.settings(), &wanted, at).await?;
        self.count(&judged);
        let due = |job: &Job| {
            let state = wanted.get(&job.id).map(|of| of.state).or(seen.contains(&job.id).then_some(Belonging::Seen));
            due_of(state, dropped.contains(&job.id), rule.settings(), at)
        };
        self.settled(batch, at, due).await
    }

    fn count(&self, judged: &[(Judgement, Facts)]) {
        let of = |state: Belonging| judged.iter().filter(|(of, _)| of.decision.state == state).count();
        self.counters.accounts_judged.add(judged.len());
        self.counters.judged_members.add(of(Belonging::Member));
        self.counters.judged_outside.add(of(Belonging::Outside));
    }

    /// Saves the lives of a batch and settles it. `due` gives the next date of an item; `None` ends its life.
    async fn settled(
        &self,
        batch: &Batch,
        at: Millis,
        due: impl Fn(&Job) -> Option<Millis>,
    ) -> Result<Handled, Outlook> {
        let lives: Vec<Observation> = batch.jobs.iter().map(|job| life(job, at, due(job))).collect();
        self.in_time(self.store.save(&self.namespace, &lives)).await?;
        let verdict = |job: &Job| match due(job) {
            Some(due) => Verdict::Reschedule { lane: judged(), due: Due::At(due) },
            None => Verdict::Finish,
        };
        let verdicts = batch.jobs.iter().map(|job| (job.clone(), verdict(job))).collect();
        Ok(Handled { verdicts, ..Handled::default() })
    }
}

/// The wanted collection of a judged account. A decision by a person overrides the rule.
fn wanted((judgement, facts): &(Judgement, Facts)) -> (String, Wanted) {
    let state = match facts.state.filter(|_| facts.is_by_hand) {
        Some(by_hand) => by_hand,
        None => judgement.decision.state,
    };
    let wants_posts = judgement.wants_posts && !facts.is_by_hand;
    (facts.account.clone(), Wanted { state, has_no_profile: facts.profile.is_none(), wants_posts })
}

fn due_of(state: Option<Belonging>, is_dropped: bool, settings: &CommunitySettings, at: Millis) -> Option<Millis> {
    let again = millis(settings.judge_again);
    let delay = match state? {
        Belonging::Seen => ADMISSION_MS.min(again),
        Belonging::Candidate => EVIDENCE_MS.min(again),
        _ if is_dropped => UNDER_WAY_MS.min(again),
        _ => again,
    };
    Some(at.saturating_add(delay))
}

fn life(job: &Job, at: Millis, next_due: Option<Millis>) -> Observation {
    let state = if next_due.is_some() { ItemState::Live } else { ItemState::Ended };
    Observation::new(&job.id, at, Seen::Found(Tweet::without_object(&job.id)), state, next_due)
}
