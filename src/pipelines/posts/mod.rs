//! The handler of `tweet:update`: the specification's `requestTweets` (`request.rs`), `saveTweets`,
//! `promoteTweets`. Its `Config.getTweetUpdateDelay` is [`AgeTable::update_delay`].

pub mod misses;
mod request;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::{Millis, Stopwatch};
use crate::base::failpoint;
use crate::base::reload::Reloadable;
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Batch, Job, Lane, Verdict};
use crate::engine::schedule::age::{AgeTable, SameDay};
use crate::engine::worker::{Handled, Handler, Outlook};
use crate::model::post::{Metrics as Counts, Tweet, TweetState};
use crate::pipelines::wave::{self, Wave};
use crate::providers::lookup::{Lookup, Outcome};
use crate::quota::{Credentials, Permit};
use crate::store::{Observation, Seen, Standing, Store, StoreError};

use self::misses::Belief;
pub use self::misses::UnavailableSettings;
pub use self::request::Suspicions;
use self::request::{Calls, Requested, Versions};
pub use crate::model::pipeline_id::NAMESPACE;

/// The lane of tweets the provider does not return.
pub const UNAVAILABLE_LANE: &str = "unavailable";

/// Between two attempts of a request that is refused as a whole.
const REFUSED_RETRY_MS: Millis = 1_000;
/// Before an id whose call failed alone is asked for again. It is one call and one step of the back-off.
const FAILED_RETRY_MS: Millis = 60_000;

/// The handler.
pub struct TweetUpdate {
    /// The pipeline's name in the store.
    pub namespace: String,
    /// Who is asked.
    pub lookup: Arc<dyn Lookup>,
    /// Where answers are kept.
    pub store: Arc<dyn Store>,
    /// Where calls are accounted for.
    pub credentials: Arc<Credentials>,
    /// How often, by age. A batch is judged by one table.
    pub ages: Reloadable<AgeTable>,
    /// Whether an update is made before midnight UTC instead of shortly after it. The default is never.
    pub same_day: Reloadable<SameDay>,
    /// What becomes of tweets the provider does not return.
    pub unavailable: UnavailableSettings,
    /// The last wave of misses, as all workers together have seen it.
    pub wave: Reloadable<Option<Wave>>,
    /// Failures of an id by itself (its request is refused, its process ends) after which it is buried.
    pub max_deliveries: u32,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// How long saving may take.
    pub save_timeout: Duration,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What this process suspects.
    pub suspicions: Suspicions,
}

/// What the answers mean, side by side: each job, what is stored of it, and what the queue is told.
#[derive(Default)]
struct Judged {
    jobs: Vec<Job>,
    observations: Vec<Observation>,
    verdicts: Vec<Verdict>,
    /// Posts that were found.
    found: usize,
    /// Misses of posts that were known to live.
    missed: usize,
}

#[async_trait]
impl Handler for TweetUpdate {
    fn endpoint(&self) -> &'static str {
        self.lookup.capabilities().endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled {
        if let [job] = &batch.jobs[..]
            && job.failures >= self.max_deliveries
        {
            self.credentials.give_back(permit).await;
            return self.bury_killer(batch, job).await;
        }
        let versions = match self.in_time(self.versions(&batch.jobs)).await {
            Ok(versions) => versions,
            Err(outlook) => {
                self.credentials.give_back(permit).await;
                return Handled::released(batch, outlook);
            }
        };
        let requested = self.calls().request_tweets(batch, versions, permit).await;
        let Requested { answered, refused, failed, postponed, unanswered, outlook, .. } = requested;
        let mut handled = match self.in_time(self.done_with(batch, answered, refused)).await {
            Ok(done) => Handled { outlook, ..done },
            Err(outlook) => return Handled::released(batch, outlook),
        };
        // It becomes a suspect, so that it spoils no other's call, and no more than that: who is to blame for
        // a failure is never sure.
        let later = |job| (job, Verdict::Suspect { after: FAILED_RETRY_MS });
        handled.verdicts.extend(failed.into_iter().map(later));
        let uncounted = Verdict::Retry { after: FAILED_RETRY_MS, counted: false };
        handled.verdicts.extend(postponed.into_iter().map(|job| (job, uncounted.clone())));
        handled.release = unanswered;
        handled
    }
}

impl TweetUpdate {
    /// The calls of a batch, made for this pipeline.
    fn calls(&self) -> Calls<'_> {
        let Self { namespace, lookup, credentials, metrics, suspicions, .. } = self;
        let time_for_one = self.call_timeout + self.save_timeout;
        Calls { namespace, lookup: &**lookup, credentials, metrics, suspicions, time_for_one }
    }

    /// The newest known version of each edited post, by the post's id. Looked up by its first id, a post stays as it was before
    /// it was edited, its counts too, where versions have ids of their own.
    async fn versions(&self, jobs: &[Job]) -> Result<Versions, StoreError> {
        if !self.lookup.versions_have_ids() {
            return Ok(Versions::default());
        }
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.store.standing(&self.namespace, &ids).await?;
        Ok(ids.into_iter().zip(standings).filter_map(|(id, known)| Some((id, known?.current_id?))).collect())
    }

    /// Judges and saves what was answered, buries what was refused too often; what the queue is told, and what is added to its counters.
    async fn done_with(
        &self,
        batch: &Batch,
        answered: Vec<(Job, Outcome, Millis)>,
        refused: Vec<(Job, String)>,
    ) -> Result<Handled, StoreError> {
        let mut done = Handled::default();
        if !answered.is_empty() {
            let mut judged = self.judge(answered).await?;
            if self.save_tweets(&judged.observations).await? > 0 {
                self.heed_refusals(&mut judged).await?;
            }
            done.tally = [(wave::FOUND, judged.found), (wave::MISSED, judged.missed)]
                .map(|(counter, by)| (counter, i64::try_from(by).unwrap_or(i64::MAX)))
                .into();
            done.verdicts = self.promote_tweets(judged);
        }
        for (job, why) in refused {
            let verdict = self.blame(batch, &job, &why).await?;
            done.verdicts.push((job, verdict));
        }
        Ok(done)
    }

    /// What each outcome means: state, what is stored, when it is due again.
    async fn judge(&self, answered: Vec<(Job, Outcome, Millis)>) -> Result<Judged, StoreError> {
        // Only an answer that lacks something needs to know what was there before.
        let whole = answered.iter().all(|(job, outcome, _)| match outcome {
            Outcome::Found(tweet) => tweet.created_at.is_some() && !is_version(job, tweet),
            Outcome::Unavailable | Outcome::Broken(_) => false,
        });
        let standings = if whole {
            vec![None; answered.len()]
        } else {
            let ids: Vec<String> = answered.iter().map(|(job, ..)| job.id.clone()).collect();
            self.store.standing(&self.namespace, &ids).await?
        };
        let mut judged = Judged::default();
        let terms = Terms { ages: self.ages.load(), same_day: *self.same_day.load(), wave: self.is_wave() };
        for ((job, outcome, at), standing) in answered.into_iter().zip(standings) {
            match &outcome {
                Outcome::Found(_) => judged.found += 1,
                Outcome::Unavailable if standing.as_ref().is_some_and(Standing::is_known_to_live) => judged.missed += 1,
                Outcome::Unavailable | Outcome::Broken(_) => {}
            }
            let (observation, verdict) = self.judge_one(&terms, &job, outcome, standing.as_ref(), at);
            judged.jobs.push(job);
            judged.observations.push(observation);
            judged.verdicts.push(verdict);
        }
        Ok(judged)
    }

    /// Whether far more posts are missing than usual, at this moment and over all workers.
    fn is_wave(&self) -> bool {
        self.wave.load().as_ref().as_ref().is_some_and(Wave::lasts)
    }

    fn judge_one(
        &self,
        terms: &Terms,
        job: &Job,
        outcome: Outcome,
        standing: Option<&Standing>,
        at: Millis,
    ) -> (Observation, Verdict) {
        let counters = &self.metrics.counters;
        let created_at = || self.created_at(&job.id, standing);
        let by_age = |created_at| terms.by_age(created_at, at);
        let mut follow = None;
        let (seen, state, next) = match outcome {
            Outcome::Found(mut tweet) => {
                if tweet.withheld_in.is_some() { &counters.withheld } else { &counters.found }.add(1);
                let made = match is_version(job, &tweet) {
                    // A later version has its own date; the post is as old as it was.
                    true => created_at().or(tweet.created_at),
                    false => tweet.created_at.or_else(created_at),
                };
                let mut next = by_age(made);
                follow = follow_edits(&mut tweet, standing);
                if let (Some(_), Some((_, delay))) = (&follow, &mut next) {
                    *delay = 0;
                }
                (Seen::Found(tweet), TweetState::Live, next)
            }
            Outcome::Broken(why) => {
                counters.broken.add(1);
                self.metrics.unreadable(&why);
                // Said once, not each round.
                if standing.and_then(|known| known.unreadable.as_ref()) != Some(&why) {
                    let namespace = &*self.namespace;
                    tracing::warn!(
                        namespace,
                        id = job.id,
                        why,
                        "this answer cannot be read; the tweet stays on its schedule"
                    );
                }
                // It proves neither that the post lives nor that it is gone: state and lane stay.
                let by_age = by_age(created_at());
                match standing.filter(|known| known.state == TweetState::Unavailable) {
                    Some(known) => {
                        let next = by_age.map(|(lane, _)| self.slow(terms, lane.patience, known.missing_since, at));
                        (Seen::Broken(why), TweetState::Unavailable, next)
                    }
                    None => (Seen::Broken(why), TweetState::Live, by_age),
                }
            }
            Outcome::Unavailable => {
                counters.unavailable.add(1);
                let misses = standing.map_or(0, |known| known.misses).saturating_add(1);
                let since = standing.and_then(|known| known.missing_since).unwrap_or(at);
                let (state, next) = self.missed(terms, by_age(created_at()), misses, since, at);
                (Seen::Missing { misses, since }, state, next)
            }
        };
        let state = if next.is_none() { TweetState::Ended } else { state };
        let next_due = next.as_ref().map(|(_, delay)| at.saturating_add(*delay));
        let verdict = next.map_or(Verdict::Finish, |(lane, delay)| Verdict::Reschedule { lane, due: delay.into() });
        (Observation { id: job.id.clone(), answered_at: at, seen, state, next_due, follow }, verdict)
    }

    /// State and next look-up of a post that is missing; `by_age` is where its age would put it.
    fn missed(
        &self,
        terms: &Terms,
        by_age: Option<Next>,
        misses: u32,
        since: Millis,
        at: Millis,
    ) -> (TweetState, Option<Next>) {
        let Some((lane, _)) = by_age else { return (TweetState::Ended, None) };
        match self.unavailable.judge(misses, since, at, terms.wave) {
            // What was not returned today is not free today: no earlier look-up saves anything.
            Belief::Suspected => {
                let delay = lane.patience;
                (TweetState::Live, Some((lane, delay)))
            }
            Belief::Unavailable => (TweetState::Unavailable, Some(self.slow(terms, lane.patience, Some(since), at))),
            Belief::Ended => (TweetState::Ended, None),
        }
    }

    /// Where a post goes at `at` that is unavailable and missing since then; `interval` is that of its age, ms.
    fn slow(&self, terms: &Terms, interval: Millis, since: Option<Millis>, at: Millis) -> Next {
        let delay = self.unavailable.delay(since.unwrap_or(at), at, interval, terms.wave);
        (self.unavailable.lane.clone(), delay)
    }

    /// When a post was made, ms since the epoch: as the store knows it, or its id.
    fn created_at(&self, id: &str, standing: Option<&Standing>) -> Option<Millis> {
        standing.and_then(|known| known.created_at).or_else(|| self.lookup.created_at(id).ok().flatten())
    }

    /// Every answer into the store, before the queue hears of any. Answers how many it refused.
    async fn save_tweets(&self, observations: &[Observation]) -> Result<u64, StoreError> {
        let watch = Stopwatch::start();
        let saved = self.store.save(&self.namespace, observations).await;
        self.metrics.histograms.save_seconds.observe(watch.elapsed().as_secs_f64());
        let saved = saved?;
        failpoint::point("after_commit");
        self.metrics.counters.saves_refused.add(saved.older as usize);
        self.metrics.counters.changes.add(saved.changed as usize);
        tracing::debug!(
            saved = saved.saved,
            older = saved.older,
            changed = saved.changed,
            save_ms = watch.elapsed_ms(),
            "saved"
        );
        Ok(saved.older)
    }

    /// The store refuses answers older than what it has, and all about the dead: then the queue is told what the store
    /// knows. (A worker that died between save and settle leaves such a difference, and so does an answer that came
    /// late.)
    async fn heed_refusals(&self, judged: &mut Judged) -> Result<(), StoreError> {
        let ids: Vec<String> = judged.jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.store.standing(&self.namespace, &ids).await?;
        let terms = Terms { ages: self.ages.load(), same_day: *self.same_day.load(), wave: self.is_wave() };
        for ((verdict, seen), standing) in judged.verdicts.iter_mut().zip(&judged.observations).zip(standings) {
            let Some(known) = standing else { continue };
            let is_refused = known.checked_at.is_some_and(|newer| newer > seen.answered_at);
            let by_age = terms.by_age(self.created_at(&seen.id, Some(&known)), seen.answered_at);
            let interval = by_age.as_ref().map_or(self.unavailable.lane.patience, |(lane, _)| lane.patience);
            let slow = || self.slow(&terms, interval, known.missing_since, seen.answered_at);
            let (lane, delay) = match known.state {
                TweetState::Dead => {
                    *verdict = Verdict::Bury { reason: "dead in the store".to_owned() };
                    continue;
                }
                TweetState::Ended if is_refused => {
                    *verdict = Verdict::Finish;
                    continue;
                }
                TweetState::Live if is_refused => by_age.unwrap_or_else(slow),
                TweetState::Unavailable if is_refused => slow(),
                _ => continue,
            };
            *verdict = Verdict::Reschedule { lane, due: delay.into() };
        }
        Ok(())
    }

    /// Each tweet to the lane of its age, or to the end of its life.
    fn promote_tweets(&self, judged: Judged) -> Vec<(Job, Verdict)> {
        let verdicts: Vec<_> = judged.jobs.into_iter().zip(judged.verdicts).collect();
        self.metrics.counters.ended.add(verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Finish).count());
        verdicts
    }

    /// A job whose request was refused while it was alone in it: tried again a few times, then buried.
    async fn blame(&self, batch: &Batch, job: &Job, why: &str) -> Result<Verdict, StoreError> {
        let failures = job.failures + 1;
        if failures < self.max_deliveries {
            return Ok(Verdict::Retry { after: REFUSED_RETRY_MS, counted: true });
        }
        self.bury(batch, job, format!("refused {failures} times while alone in its request: {why}")).await
    }

    /// A job that ended its process whenever it was alone in it: not tried again.
    async fn bury_killer(&self, batch: &Batch, job: &Job) -> Handled {
        let reason = format!("its process ended {} times while it was alone in it", job.failures);
        match self.in_time(self.bury(batch, job, reason)).await {
            Ok(verdict) => Handled { verdicts: vec![(job.clone(), verdict)], ..Handled::default() },
            Err(outlook) => Handled::released(batch, outlook),
        }
    }

    async fn bury(&self, batch: &Batch, job: &Job, reason: String) -> Result<Verdict, StoreError> {
        // The store hears of it before the queue does.
        self.store.bury(&self.namespace, batch.now.now(), &[(job.id.clone(), reason.clone())]).await?;
        self.metrics.counters.buried_here.add(1);
        tracing::error!(id = job.id, reason, "buried");
        Ok(Verdict::Bury { reason })
    }

    /// The store's answer, if it comes in time; else what that says of the services.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        let answer = tokio::time::timeout(self.save_timeout, work).await;
        let late = || format!("the store did not answer within updater.save_timeout ({:?})", self.save_timeout);
        answer.map_err(|_| Outlook::Outage(late()))?.map_err(|failure| match failure {
            StoreError::Gone(why) => Outlook::Stop(why),
            failure => Outlook::Outage(failure.to_string()),
        })
    }
}

/// Whether it is one of several versions of a post.
fn is_version(job: &Job, tweet: &Tweet) -> bool {
    tweet.id != job.id || !tweet.newer.is_empty()
}

/// The version that comes next: one after the other, so that the history has each of them, and at once. A post that was missing
/// a moment ago has its versions stored, as far as they could be had: then the newest, and what came in between is no change.
fn follow_edits(tweet: &mut Tweet, standing: Option<&Standing>) -> Option<String> {
    if standing.is_none_or(|known| known.misses == 0) {
        return tweet.newer.first().cloned();
    }
    let newest = tweet.newer.last().cloned();
    if newest.is_some() {
        (tweet.text, tweet.metrics, tweet.withheld_in) = (None, Counts::default(), None);
    }
    newest
}

/// A lane, and how long until the post is due in it, ms.
type Next = (Lane, Millis);

/// What the answers of one batch are judged by.
struct Terms {
    ages: Arc<AgeTable>,
    same_day: SameDay,
    wave: bool,
}

impl Terms {
    /// Where its age puts a post made at `created_at`; `None` past the last bracket. A date nobody knows (sequential ids
    /// from before Snowflake, put in without one) is older than any bracket but the last: that one keeps it alive.
    fn by_age(&self, created_at: Option<Millis>, at: Millis) -> Option<Next> {
        let lane = match created_at {
            // From the future by more than skew: as young as can be, rather than the end of its life.
            Some(created_at) => self.ages.lane(created_at.min(at), at),
            None => self.ages.brackets().last().map(|bracket| &bracket.lane),
        }?;
        Some((lane.clone(), self.same_day.delay(at, lane.patience)))
    }
}
