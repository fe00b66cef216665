//! The handler of `tweet:update`: the specification's `requestTweets` (`request.rs`), `saveTweets`,
//! `promoteTweets`.

mod request;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::{Millis, Stopwatch};
use crate::crash;
use crate::credential::{Credentials, Permit};
use crate::live::Live;
use crate::lookup::{Lookup, Outcome};
use crate::metrics::Metrics;
use crate::queue::{Batch, Job, Lane, Verdict};
use crate::store::{Observation, Seen, Standing, Store, StoreError};
use crate::tweet::TweetState;
use crate::tweet_age::{AgeTable, SameDay};
use crate::worker::{Handled, Handler, Outlook};

use self::request::Requested;
pub use crate::provider::NAMESPACE;

/// The lane of tweets the provider does not return.
pub const UNAVAILABLE_LANE: &str = "unavailable";

/// An answer in which over half of this many ids or more that lived before are missing is doubted.
const MASS_MISSING_LEAST: usize = 20;
/// What was doubted and never came again would stay for ever: a bound, far above need.
const MANY_DOUBTS: usize = 100_000;
/// Between two attempts of a request that is refused as a whole.
const REFUSED_RETRY_MS: Millis = 1_000;
/// Before an id whose call failed alone is asked for again. It is one call and one step of the back-off.
const FAILED_RETRY_MS: Millis = 60_000;

/// What becomes of tweets the provider does not return.
#[derive(Debug, Clone)]
pub struct UnavailableSettings {
    /// Their lane; its patience is how often they are looked up.
    pub lane: Lane,
    /// Their life ends after so many misses in a row ...
    pub limit: u32,
    /// ... when they have been missing for so long, in ms.
    pub after: Millis,
}

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
    pub ages: Live<AgeTable>,
    /// Whether an update is made before midnight UTC instead of shortly after it. The default is never.
    pub same_day: Live<SameDay>,
    /// What becomes of tweets the provider does not return.
    pub unavailable: UnavailableSettings,
    /// Failures of an id by itself (its request is refused, its process ends) after which it is buried.
    pub max_deliveries: u32,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// How long saving may take.
    pub save_timeout: Duration,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What this process doubts.
    pub doubts: Doubts,
}

/// Doubts about the provider. Only this process's memory: to lose one costs a repeated call.
#[derive(Debug, Default)]
pub struct Doubts {
    /// Ids missing from an answer that was not believed: if they are missing again, it is.
    missing: Mutex<HashSet<String>>,
    /// Ids whose calls failed, and how often, until they are answered.
    failed: Mutex<HashMap<String, u32>>,
    /// A call was answered since one that travels apart was blamed: the API does not refuse everybody.
    others_answered: AtomicBool,
}

impl Doubts {
    fn fail(&self, jobs: &[Job]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() > MANY_DOUBTS {
            failed.clear();
        }
        for job in jobs {
            *failed.entry(job.id.clone()).or_default() += 1;
        }
    }

    /// Whether calls for one of these failed twice. Once is a hiccup, and may have met all that were under
    /// way.
    fn failed_twice(&self, jobs: &[Job]) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        !failed.is_empty() && jobs.iter().any(|job| failed.get(&job.id).is_some_and(|times| *times > 1))
    }

    fn answered(&self, jobs: &[Job]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if !failed.is_empty() {
            for job in jobs {
                failed.remove(&job.id);
            }
        }
    }
}

/// Why nothing could be made of the answers.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Most of the tweets that lived before are missing.
    #[error("{missing} of {of} tweets that lived before are missing: not believed until it repeats")]
    MassMissing { missing: usize, of: usize },
}

/// What the answers mean, side by side: each job, what is stored of it, and what the queue is told.
#[derive(Default)]
struct Judged {
    jobs: Vec<Job>,
    observations: Vec<Observation>,
    verdicts: Vec<Verdict>,
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
        let requested = self.request_tweets(batch, permit).await;
        let Requested { answered, refused, failed, postponed, unanswered, outlook, .. } = requested;
        let done = self.done_with(batch, answered, refused);
        let mut handled = match tokio::time::timeout(self.save_timeout, done).await {
            Ok(Ok(verdicts)) => Handled { verdicts, outlook, ..Handled::default() },
            Ok(Err(failure)) => return Handled::released(batch, Outlook::Outage(failure.to_string())),
            Err(_) => return Handled::released(batch, Outlook::Outage(self.store_is_silent())),
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
    /// Judges and saves what was answered, buries what was refused too often; what the queue is told.
    async fn done_with(
        &self,
        batch: &Batch,
        answered: Vec<(Job, Outcome, Millis)>,
        refused: Vec<(Job, String)>,
    ) -> Result<Vec<(Job, Verdict)>, Failure> {
        let mut verdicts = Vec::with_capacity(batch.jobs.len());
        if !answered.is_empty() {
            let mut judged = self.judge(answered).await?;
            if self.save_tweets(&judged.observations).await? > 0 {
                self.heed_refusals(&mut judged).await?;
            }
            verdicts.extend(self.promote_tweets(judged));
        }
        for (job, why) in refused {
            let verdict = self.blame(batch, &job, &why).await?;
            verdicts.push((job, verdict));
        }
        Ok(verdicts)
    }

    /// What each outcome means: state, what is stored, when it is due again.
    async fn judge(&self, answered: Vec<(Job, Outcome, Millis)>) -> Result<Judged, Failure> {
        // Only an answer that lacks something needs to know what was there before.
        let whole = answered.iter().all(|(_, outcome, _)| match outcome {
            Outcome::Found(tweet) | Outcome::Withheld { tweet, .. } => tweet.created_at.is_some(),
            Outcome::Unavailable | Outcome::Broken(_) => false,
        });
        let standings = if whole {
            vec![None; answered.len()]
        } else {
            let ids: Vec<String> = answered.iter().map(|(job, ..)| job.id.clone()).collect();
            let standings = self.store.standing(&self.namespace, &ids).await?;
            self.doubt(&answered, &standings)?;
            standings
        };
        let mut judged = Judged::default();
        let (ages, same_day) = (self.ages.load(), self.same_day.load());
        for ((job, outcome, at), standing) in answered.into_iter().zip(standings) {
            let (observation, verdict) = self.judge_one((&ages, *same_day), &job, outcome, standing, at);
            judged.jobs.push(job);
            judged.observations.push(observation);
            judged.verdicts.push(verdict);
        }
        Ok(judged)
    }

    /// Missing is often the provider's trouble and not the tweets': an answer without most of the
    /// tweets that lived before is not believed until it repeats.
    fn doubt(&self, answered: &[(Job, Outcome, Millis)], standings: &[Option<Standing>]) -> Result<(), Failure> {
        let lived = |standing: &Option<Standing>| {
            standing.as_ref().is_some_and(|known| known.state == TweetState::Live && known.checked_at.is_some())
        };
        let of: Vec<_> = (0..answered.len()).filter(|at| standings.get(*at).is_some_and(lived)).collect();
        let missing: Vec<&String> =
            of.iter().filter(|at| answered[**at].1 == Outcome::Unavailable).map(|at| &answered[*at].0.id).collect();
        if of.len() < MASS_MISSING_LEAST || missing.len() * 2 <= of.len() {
            return Ok(());
        }
        let mut doubted = self.doubts.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let again = missing.iter().filter(|id| doubted.contains(**id)).count();
        if again * 2 > missing.len() {
            doubted.retain(|id| !missing.contains(&id));
            return Ok(());
        }
        if doubted.len() > MANY_DOUBTS {
            doubted.clear();
        }
        doubted.extend(missing.iter().map(|id| (*id).clone()));
        Err(Failure::MassMissing { missing: missing.len(), of: of.len() })
    }

    fn judge_one(
        &self,
        (ages, same_day): (&AgeTable, SameDay),
        job: &Job,
        outcome: Outcome,
        standing: Option<Standing>,
        at: Millis,
    ) -> (Observation, Verdict) {
        let counters = &self.metrics.counters;
        let standing = standing.as_ref();
        let known =
            || standing.and_then(|known| known.created_at).or_else(|| self.lookup.created_at(&job.id).ok().flatten());
        let (seen, state, lane) = match outcome {
            Outcome::Found(tweet) => {
                counters.found.add(1);
                let lane = lane(ages, tweet.created_at.or_else(known), at);
                (Seen::Found(tweet), TweetState::Live, lane)
            }
            Outcome::Withheld { tweet, countries } => {
                counters.withheld.add(1);
                let lane = lane(ages, tweet.created_at.or_else(known), at);
                (Seen::Withheld { tweet, countries }, TweetState::Live, lane)
            }
            Outcome::Broken(why) => {
                counters.broken.add(1);
                tracing::warn!(why, "a tweet came in a shape we cannot read; it stays on its schedule");
                tracing::debug!(id = job.id, "this one");
                // It was returned, so it cannot have ended; whether it still counts as missing, the next
                // whole answer says.
                let missing = standing.is_some_and(|known| known.state == TweetState::Unavailable);
                let state = if missing { TweetState::Unavailable } else { TweetState::Live };
                (Seen::Broken, state, lane(ages, known(), at))
            }
            Outcome::Unavailable => {
                counters.unavailable.add(1);
                let misses = standing.map_or(0, |known| known.misses).saturating_add(1);
                let since = standing.and_then(|known| known.missing_since).unwrap_or(at);
                let UnavailableSettings { lane: slow, limit, after } = &self.unavailable;
                let over = (misses >= *limit && at - since >= *after) || lane(ages, known(), at).is_none();
                (Seen::Missing { misses, since }, TweetState::Unavailable, (!over).then_some(slow))
            }
        };
        let state = if lane.is_none() { TweetState::Ended } else { state };
        // What was not returned today is not free today.
        let same_day = if matches!(seen, Seen::Missing { .. }) { SameDay::default() } else { same_day };
        let next = lane.map(|lane| (lane, same_day.delay(at, lane.patience)));
        let verdict = match next {
            Some((lane, delay)) => Verdict::Reschedule { lane: lane.clone(), delay },
            None => Verdict::Finish,
        };
        let next_due = next.map(|(_, delay)| at.saturating_add(delay));
        (Observation { id: job.id.clone(), answered_at: at, seen, state, next_due }, verdict)
    }

    /// Every answer into the store, before the queue hears of any. Answers how many it refused.
    async fn save_tweets(&self, observations: &[Observation]) -> Result<u64, Failure> {
        let watch = Stopwatch::start();
        let saved = self.store.save(&self.namespace, observations).await;
        self.metrics.histograms.save_seconds.observe(watch.elapsed().as_secs_f64());
        let saved = saved?;
        crash::point("after_commit");
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

    /// The store refuses answers older than what it has, and all about the dead: then it knows better.
    /// The dead are buried in the queue as well (written to the store, and the worker died before it
    /// told the queue), and nobody leaves the queue whose life has not ended in the store.
    async fn heed_refusals(&self, judged: &mut Judged) -> Result<(), Failure> {
        let ids: Vec<String> = judged.jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.store.standing(&self.namespace, &ids).await?;
        for (verdict, standing) in judged.verdicts.iter_mut().zip(standings) {
            match (standing.map(|known| known.state), &*verdict) {
                (Some(TweetState::Dead), _) => {
                    *verdict = Verdict::Bury { reason: "dead in the store".to_owned() };
                }
                (Some(TweetState::Live | TweetState::Unavailable), Verdict::Finish) => {
                    let lane = self.unavailable.lane.clone();
                    *verdict = Verdict::Reschedule { delay: lane.patience, lane };
                }
                _ => {}
            }
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
    async fn blame(&self, batch: &Batch, job: &Job, why: &str) -> Result<Verdict, Failure> {
        let failures = job.failures + 1;
        if failures < self.max_deliveries {
            return Ok(Verdict::Retry { after: REFUSED_RETRY_MS, counted: true });
        }
        self.bury(batch, job, format!("refused {failures} times while alone in its request: {why}")).await
    }

    /// A job that ended its process whenever it was alone in it: not tried again.
    async fn bury_killer(&self, batch: &Batch, job: &Job) -> Handled {
        let reason = format!("its process ended {} times while it was alone in it", job.failures);
        match tokio::time::timeout(self.save_timeout, self.bury(batch, job, reason)).await {
            Ok(Ok(verdict)) => Handled { verdicts: vec![(job.clone(), verdict)], ..Handled::default() },
            Ok(Err(failure)) => Handled::released(batch, Outlook::Outage(failure.to_string())),
            Err(_) => Handled::released(batch, Outlook::Outage(self.store_is_silent())),
        }
    }

    async fn bury(&self, batch: &Batch, job: &Job, reason: String) -> Result<Verdict, Failure> {
        // The store hears of it before the queue does.
        self.store.bury(&self.namespace, batch.now.now(), &[(job.id.clone(), reason.clone())]).await?;
        self.metrics.counters.buried_here.add(1);
        tracing::error!(id = job.id, reason, "buried");
        Ok(Verdict::Bury { reason })
    }

    fn store_is_silent(&self) -> String {
        format!("the store did not answer within updater.save_timeout ({:?})", self.save_timeout)
    }
}

/// The lane of a tweet made then. A date nobody knows (sequential ids from before Snowflake, put
/// in without one) is older than any bracket but the last: that one keeps it alive.
fn lane(ages: &AgeTable, created_at: Option<Millis>, at: Millis) -> Option<&Lane> {
    match created_at {
        // From the future by more than skew: as young as can be, rather than the end of its life.
        Some(created_at) => ages.lane(created_at.min(at), at),
        None => ages.brackets().last().map(|bracket| &bracket.lane),
    }
}
