//! The handler of `tweet:update`: the specification's `requestTweets`, `saveTweets`, `promoteTweets`.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::{self, Millis, Stopwatch};
use crate::credential::{Ledger, Permit};
use crate::lookup::{Answer, Lookup, LookupError, Outcome};
use crate::metrics::Metrics;
use crate::queue::{Batch, Job, Lane, Verdict};
use crate::store::{Observation, Seen, Standing, Store, StoreError};
use crate::tweet::TweetState;
use crate::tweet_age::AgeTable;
use crate::worker::{Handled, Handler, Outlook};

/// The namespace of Twitter's v1.1 lookup.
pub const NAMESPACE: &str = "tweet:update";
/// The lane of tweets the provider does not return.
pub const UNAVAILABLE_LANE: &str = "unavailable";

/// An answer in which over half of this many ids or more that lived before are missing is doubted.
const MASS_MISSING_LEAST: usize = 20;
/// A credential the API refuses is left alone for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(15 * 60);
/// So many requests in a row refused as a whole, with none answered between, are no single id's fault.
/// More than a lone bad id needs to be buried: log2(100) halvings and `max_deliveries` of 12.
const REFUSED_IN_A_ROW: u32 = 24;
/// Between two attempts of a request that is refused as a whole.
const REFUSED_RETRY_MS: Millis = 1_000;

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
    pub ledger: Arc<Ledger>,
    /// How often, by age.
    pub ages: AgeTable,
    /// What becomes of tweets the provider does not return.
    pub unavailable: UnavailableSettings,
    /// Refusals of a request with a single id after which that id is buried.
    pub max_deliveries: u32,
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
    /// Requests refused as a whole since the last one that was answered.
    refused_in_a_row: AtomicU32,
}

/// Why a batch could not be done.
enum Failure {
    Lookup(LookupError),
    Store(StoreError),
    /// Saving took longer than it may.
    SaveTimeout,
    /// Most of the tweets that lived before are missing.
    MassMissing {
        missing: usize,
        of: usize,
    },
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What an answer means for one job: what is stored, and what the queue is told.
struct Judgement {
    observation: Observation,
    verdict: Verdict,
}

#[async_trait]
impl Handler for TweetUpdate {
    fn endpoint(&self) -> &'static str {
        self.lookup.capabilities().endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> Handled {
        let tweets = match self.request_tweets(batch, permit).await {
            Ok(tweets) => tweets,
            Err(error) => return self.failed(batch, Failure::Lookup(error)).await,
        };
        // The answer is as old as this, on the queue's clock: no worker's own clock dates it.
        let answered_at = batch.now.now();
        let save = async {
            let mut judgements = self.judge(batch, tweets, answered_at).await?;
            if self.save_tweets(&judgements).await? > 0 {
                self.heed_refusals(&mut judgements).await?;
            }
            Ok(judgements)
        };
        match tokio::time::timeout(self.save_timeout, save).await {
            Ok(Ok(judgements)) => self.promote_tweets(batch, judgements),
            Ok(Err(failure)) => self.failed(batch, failure).await,
            Err(_) => self.failed(batch, Failure::SaveTimeout).await,
        }
    }
}

impl TweetUpdate {
    /// One call for the whole batch.
    async fn request_tweets(&self, batch: &Batch, permit: Permit) -> Result<Answer, LookupError> {
        let counters = &self.metrics.counters;
        let ids: Vec<String> = batch.jobs.iter().map(|job| job.id.clone()).collect();
        let watch = Stopwatch::start();
        counters.requests.add(1);
        let answer = self.lookup.look_up(&ids, &permit.credential).await;
        tracing::debug!(ids = ids.len(), lookup_ms = watch.elapsed_ms(), ok = answer.is_ok(), "looked up");
        match &answer {
            Ok(answer) => {
                self.doubts.refused_in_a_row.store(0, Ordering::Relaxed);
                counters.looked_up.add(ids.len());
                counters.unasked.add(answer.unasked);
                self.ledger.spent(permit, answer.quota);
            }
            Err(error) => {
                counters.requests_failed.add(1);
                match error {
                    LookupError::Throttled { pause, quota, .. } => self.ledger.park(permit, *pause, *quota),
                    LookupError::Credential(_) => self.ledger.park(permit, REFUSED_PAUSE, None),
                    _ => self.ledger.spent(permit, None),
                }
            }
        }
        answer
    }

    /// What each outcome means: state, what is stored, when it is due again.
    async fn judge(&self, batch: &Batch, answer: Answer, at: Millis) -> Result<Vec<Judgement>, Failure> {
        // Only an answer that lacks something needs to know what was there before.
        let whole = answer.outcomes.iter().all(|outcome| match outcome {
            Outcome::Found(tweet) | Outcome::Withheld { tweet, .. } => tweet.created_at.is_some(),
            Outcome::Unavailable | Outcome::Broken(_) => false,
        });
        let standings = if whole {
            vec![None; batch.jobs.len()]
        } else {
            let ids: Vec<String> = batch.jobs.iter().map(|job| job.id.clone()).collect();
            let standings = self.store.standing(&self.namespace, &ids).await?;
            self.doubt(batch, &answer.outcomes, &standings)?;
            standings
        };
        let judge = |((job, outcome), standing): ((&Job, Outcome), Option<Standing>)| {
            self.judge_one(job, outcome, standing, at)
        };
        Ok(batch.jobs.iter().zip(answer.outcomes).zip(standings).map(judge).collect())
    }

    /// Missing is often the provider's trouble and not the tweets': an answer without most of the
    /// tweets that lived before is not believed until it repeats.
    fn doubt(&self, batch: &Batch, outcomes: &[Outcome], standings: &[Option<Standing>]) -> Result<(), Failure> {
        let lived = |standing: &Option<Standing>| {
            standing.as_ref().is_some_and(|known| known.state == TweetState::Live && known.checked_at.is_some())
        };
        let of: Vec<_> = (0..outcomes.len()).filter(|at| standings.get(*at).is_some_and(lived)).collect();
        let missing: Vec<&String> =
            of.iter().filter(|at| outcomes[**at] == Outcome::Unavailable).map(|at| &batch.jobs[*at].id).collect();
        if of.len() < MASS_MISSING_LEAST || missing.len() * 2 <= of.len() {
            return Ok(());
        }
        let mut doubted = self.doubts.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let again = missing.iter().filter(|id| doubted.contains(**id)).count();
        if again * 2 > missing.len() {
            doubted.retain(|id| !missing.contains(&id));
            return Ok(());
        }
        // What was doubted and never came again would stay for ever: a bound, far above need.
        if doubted.len() > 100_000 {
            doubted.clear();
        }
        doubted.extend(missing.iter().map(|id| (*id).clone()));
        Err(Failure::MassMissing { missing: missing.len(), of: of.len() })
    }

    fn judge_one(&self, job: &Job, outcome: Outcome, standing: Option<Standing>, at: Millis) -> Judgement {
        let counters = &self.metrics.counters;
        let standing = standing.as_ref();
        let known =
            || standing.and_then(|known| known.created_at).or_else(|| self.lookup.created_at(&job.id).ok().flatten());
        let (seen, state, lane) = match outcome {
            Outcome::Found(tweet) => {
                counters.found.add(1);
                let lane = self.lane(tweet.created_at.or_else(known), at);
                (Seen::Found(tweet), TweetState::Live, lane)
            }
            Outcome::Withheld { tweet, countries } => {
                counters.withheld.add(1);
                let lane = self.lane(tweet.created_at.or_else(known), at);
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
                (Seen::Broken, state, self.lane(known(), at))
            }
            Outcome::Unavailable => {
                counters.unavailable.add(1);
                let misses = standing.map_or(0, |known| known.misses).saturating_add(1);
                let since = standing.and_then(|known| known.missing_since).unwrap_or(at);
                let UnavailableSettings { lane, limit, after } = &self.unavailable;
                let over = (misses >= *limit && at - since >= *after) || self.lane(known(), at).is_none();
                (Seen::Missing { misses, since }, TweetState::Unavailable, (!over).then_some(lane))
            }
        };
        let state = if lane.is_none() { TweetState::Ended } else { state };
        let verdict = match lane {
            Some(lane) => Verdict::Reschedule { lane: lane.clone(), delay: lane.patience },
            None => Verdict::Finish,
        };
        let next_due = lane.map(|lane| at.saturating_add(lane.patience));
        Judgement { observation: Observation { id: job.id.clone(), answered_at: at, seen, state, next_due }, verdict }
    }

    /// The lane of a tweet made then. A date nobody knows (sequential ids from before Snowflake, put
    /// in without one) is older than any bracket but the last: that one keeps it alive.
    fn lane(&self, created_at: Option<Millis>, at: Millis) -> Option<&Lane> {
        match created_at {
            // From the future by more than skew: as young as can be, rather than the end of its life.
            Some(created_at) => self.ages.lane(created_at.min(at), at),
            None => self.ages.brackets().last().map(|bracket| &bracket.lane),
        }
    }

    /// Every answer into the store, before the queue hears of any. Answers how many it refused.
    async fn save_tweets(&self, judgements: &[Judgement]) -> Result<u64, Failure> {
        let watch = Stopwatch::start();
        let observations: Vec<Observation> = judgements.iter().map(|judged| judged.observation.clone()).collect();
        let saved = self.store.save(&self.namespace, &observations).await?;
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
    async fn heed_refusals(&self, judgements: &mut [Judgement]) -> Result<(), Failure> {
        let ids: Vec<String> = judgements.iter().map(|judged| judged.observation.id.clone()).collect();
        let standings = self.store.standing(&self.namespace, &ids).await?;
        for (judged, standing) in judgements.iter_mut().zip(standings) {
            match (standing.map(|known| known.state), &judged.verdict) {
                (Some(TweetState::Dead), _) => {
                    judged.verdict = Verdict::Bury { reason: "dead in the store".to_owned() };
                }
                (Some(TweetState::Live | TweetState::Unavailable), Verdict::Finish) => {
                    let lane = self.unavailable.lane.clone();
                    judged.verdict = Verdict::Reschedule { delay: lane.patience, lane };
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Each tweet to the lane of its age, or to the end of its life.
    fn promote_tweets(&self, batch: &Batch, judgements: Vec<Judgement>) -> Handled {
        let verdicts: Vec<_> =
            batch.jobs.iter().cloned().zip(judgements.into_iter().map(|judged| judged.verdict)).collect();
        self.metrics.counters.ended.add(verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Finish).count());
        Handled { verdicts, release: Vec::new(), outlook: Outlook::Fine }
    }

    /// An outage is nobody's fault: the ids go back as they were. A request that is refused as a
    /// whole may be the fault of one id: counted, the queue halves their batches until it is alone.
    async fn failed(&self, batch: &Batch, failure: Failure) -> Handled {
        match failure {
            Failure::Lookup(LookupError::BadRequest(why) | LookupError::BatchTooLarge(why)) => {
                self.suspect(batch, &why).await
            }
            Failure::Lookup(LookupError::Stop(message)) => Handled::released(batch, Outlook::Stop(message)),
            Failure::Lookup(error @ LookupError::Throttled { .. }) => {
                tracing::warn!(error = %error, "out of quota: the credential is parked");
                Handled::released(batch, Outlook::Unchanged)
            }
            Failure::Lookup(error @ LookupError::Credential(_)) => {
                tracing::error!(error = %error, pause_ms = clock::millis(REFUSED_PAUSE), "the credential is parked");
                Handled::released(batch, Outlook::Unchanged)
            }
            Failure::Lookup(error) => Handled::released(batch, Outlook::Outage(error.to_string())),
            Failure::Store(error) => Handled::released(batch, Outlook::Outage(error.to_string())),
            Failure::SaveTimeout => Handled::released(batch, Outlook::Outage(self.save_took_too_long())),
            Failure::MassMissing { missing, of } => {
                let why =
                    format!("{missing} of {of} tweets that lived before are missing: not believed until it repeats");
                Handled::released(batch, Outlook::Outage(why))
            }
        }
    }

    fn save_took_too_long(&self) -> String {
        format!("the store did not answer within updater.save_timeout ({:?})", self.save_timeout)
    }

    /// How often this job was refused while it was alone, this time included: the queue halves the
    /// batches of suspects, so of 100 ids one is alone after 6 deliveries (100 ÷ 2^6 < 2).
    fn refusals_alone(&self, job: &Job) -> u32 {
        let halvings = self.lookup.capabilities().batch_limit.max(1).ilog2();
        (job.deliveries + 1).saturating_sub(halvings)
    }

    async fn suspect(&self, batch: &Batch, why: &str) -> Handled {
        let in_a_row = self.doubts.refused_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if in_a_row > REFUSED_IN_A_ROW.max(2 * self.max_deliveries) {
            // Not this id, and not that one: the API refuses us all. Nobody is buried for it.
            return Handled::released(
                batch,
                Outlook::Outage(format!("{in_a_row} requests in a row are refused: {why}")),
            );
        }
        tracing::warn!(
            ids = batch.jobs.len(),
            error = why,
            "the request is refused: its ids are tried in smaller batches"
        );
        if let [job] = &*batch.jobs
            && self.refusals_alone(job) >= self.max_deliveries
        {
            let reason = format!("refused {} times while alone in its request: {why}", self.refusals_alone(job));
            // The store hears of it before the queue does.
            let buried = [(job.id.clone(), reason.clone())];
            let bury = self.store.bury(&self.namespace, batch.now.now(), &buried);
            return match tokio::time::timeout(self.save_timeout, bury).await {
                Ok(Ok(())) => {
                    self.metrics.counters.buried_here.add(1);
                    tracing::error!(id = job.id, reason, "buried");
                    Handled { verdicts: vec![(job.clone(), Verdict::Bury { reason })], ..Handled::default() }
                }
                Ok(Err(error)) => Handled::released(batch, Outlook::Outage(error.to_string())),
                Err(_) => Handled::released(batch, Outlook::Outage(self.save_took_too_long())),
            };
        }
        let retry = Verdict::Retry { after: REFUSED_RETRY_MS, counted: true };
        let verdicts = batch.jobs.iter().map(|job| (job.clone(), retry.clone())).collect();
        Handled { verdicts, release: Vec::new(), outlook: Outlook::Unchanged }
    }
}
