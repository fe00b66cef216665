//! A batch of accounts: what is stored of them is read, each is judged, decisions are saved, then what is to be collected of each
//! is, then their lives are saved and they are settled.
//!
//! Each step may be repeated. A worker that dies in between leaves accounts that are judged once more; what the same evidence
//! says is the same, and what is collected already stays as it is.

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
use crate::model::post::{Tweet, TweetState};
use crate::pipelines::kind::Live;
use crate::pipelines::store_call;
use crate::store::{Communities, Facts, Neighbours, Observation, Seen, Store, StoreError};

/// How long an account waits for its profile or its posts before it is looked at again: what arrives brings it forward.
const EVIDENCE_MS: Millis = 3_600_000;
/// How long a visit to an account that is followed no more, or a lookup of one of its posts, may still be under way.
const UNDER_WAY_MS: Millis = 3_600_000;
/// How long accounts of a community wait that is turned off.
const OFF_MS: Millis = 600_000;
/// How long a job waits for the admission of its account. A rebuild queues an account that was recorded and is not yet admitted; the
/// process that was about to admit it may have been killed.
const ADMISSION_MS: Millis = 60_000;

/// The pipelines of a network that a community reads.
#[derive(Debug, Clone)]
pub struct Network {
    /// Of its posts,
    pub posts: String,
    /// of its profiles,
    pub profiles: String,
    /// and of the lists of friends.
    pub friends: String,
}

impl Network {
    /// As the store wants them.
    #[must_use]
    pub fn neighbours(&self) -> Neighbours<'_> {
        Neighbours { posts: &self.posts, profiles: &self.profiles, friends: &self.friends }
    }
}

/// The rule in force: made anew when its settings change.
pub struct Rules {
    /// The community.
    pub name: String,
    in_force: Live,
    made: Mutex<Arc<Rule>>,
}

impl Rules {
    /// The rules of that community.
    ///
    /// # Errors
    /// There is no such community, or its rule cannot be made.
    pub fn new(name: &str, in_force: Live) -> Result<Self, String> {
        let settings = (in_force)();
        let community = settings.community(name).map_err(|why| why.to_string())?;
        let made = Mutex::new(Arc::new(Rule::new(community)?));
        Ok(Self { name: name.to_owned(), in_force, made })
    }

    /// The rule now.
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

/// The handler of a community.
pub struct Judging {
    /// The pipeline's name in queue and store.
    pub namespace: String,
    /// The pipelines that it reads.
    pub network: Network,
    /// The rule in force.
    pub rules: Arc<Rules>,
    /// The store,
    pub store: Arc<dyn Store>,
    /// and the communities in it.
    pub communities: Arc<dyn Communities>,
    /// Collects.
    pub collecting: Arc<Collecting>,
    /// The time limit for a call of the store.
    pub save_timeout: Duration,
    /// An account that ended so many processes while it was alone in its batch is dead.
    pub max_deliveries: u32,
    /// The counters.
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
        // Inside the lease, so that whoever has them after it dates its decisions later.
        let at = batch.now.now().min(batch.fence.deadline - 1);
        if !rule.settings().on {
            let due = |_: &Job| Some(at.saturating_add(OFF_MS));
            return self.settled(batch, at, due).await;
        }
        let facts = self.communities.facts(&self.namespace, self.network.neighbours(), &ids, rule.texts());
        let mut facts = self.in_time(facts).await?;
        let is_seen = |facts: &Facts| facts.state == Some(Belonging::Seen);
        let seen: HashSet<String> = facts.iter().filter(|of| is_seen(of)).map(|of| of.account.clone()).collect();
        // Of those without a state nothing is stored, for example since their persons asked to be forgotten.
        facts.retain(|of| of.state.is_some() && !is_seen(of));
        // Thousands of posts: others of this process go on meanwhile.
        let (rule, judging) = (rule.clone(), rule);
        let work = tokio::task::spawn_blocking(move || {
            facts.into_iter().map(|facts| (judging.judge(&facts), facts)).collect::<Vec<(Judgement, Facts)>>()
        });
        let judged = match work.await {
            Ok(judged) => judged,
            // As if it had happened here: the batch comes back by its lease, each time smaller.
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

    /// Saves the lives of a batch, and settles it: each is due then, or its life is over.
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

/// What is wanted of a judged account. What a person decided stays.
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

/// The record of an account's life in the pipeline.
fn life(job: &Job, at: Millis, next_due: Option<Millis>) -> Observation {
    let state = if next_due.is_some() { TweetState::Live } else { TweetState::Ended };
    Observation::new(&job.id, at, Seen::Found(Tweet::without_object(&job.id)), state, next_due)
}
