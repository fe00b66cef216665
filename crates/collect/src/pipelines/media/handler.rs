//! Handles a batch of media: fetches each file, saves the media, saves their lives, settles them.
//!
//! ```text
//!   batch ─▶ known? ─▶ fetch, all at once ─▶ save media ─▶ save lives ─▶ verdicts, to the worker
//!                       the file is stored     state, hash    ended, or due again
//! ```
//!
//! A file is stored before the store names it. If a process dies in between, the next attempt finds the same bytes and names it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use reqwest::Url;

use super::counters::FetchCounters;
use super::fetch::{Fetch, FetchOutcome, FileRequest, StoredFile, retry_delay_ms};
use super::schedule::retry_lane;
use crate::pipelines::store_call;
use engine::base::call_error::ErrorKind;
use engine::base::clock::{Millis, millis, span};
use engine::base::failpoint;
use engine::base::random;
use engine::error_log::ErrorPlace;
use engine::metrics::Metrics;
use engine::queue::{Batch, Due, Job, Verdict};
use engine::worker::{BatchOutcome, Outlook, UnmeteredHandler};
use networks::model::media::MediaState;
use networks::model::post::{ItemState, Tweet};
use store::{FetchAttempt, Finding, Observation, Store, StoreError, StoredMedium};

const RESUME_DELAY_MS: Millis = 100;
const MIN_ATTEMPTS: u32 = 4;
/// Failed attempts before smaller sizes of a picture are requested: a host in trouble lacks every size for a moment.
const ATTEMPTS_AT_LARGEST_SIZE: i64 = 2;
/// Time that a host must lack a file before its answer is accepted.
const CONFIRMED_AFTER: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, Copy)]
pub struct RetryLimits {
    /// Upper bound of the first delay; it doubles with each further one.
    pub first_delay: Duration,
    pub longest_delay: Duration,
    pub give_up_after: Duration,
}

pub struct MediaHandler {
    pub namespace: String,
    pub fetcher: Arc<dyn Fetch>,
    /// Addresses of smaller sizes of the picture at an address, the largest first.
    pub smaller: fn(&str) -> Vec<String>,
    pub store: Arc<dyn Store>,
    pub retrying: RetryLimits,
    pub save_timeout: Duration,
    /// Ended processes after which a medium that was alone in its batch is dead.
    pub max_deliveries: u32,
    pub counters: Arc<FetchCounters>,
    pub metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Results {
    tried: Vec<FetchAttempt>,
    lives: Vec<Observation>,
    handled: BatchOutcome,
    disk: Option<String>,
}

#[async_trait]
impl UnmeteredHandler for MediaHandler {
    async fn handle(&self, batch: &Batch) -> BatchOutcome {
        if let [job] = &batch.jobs[..]
            && job.failures >= self.max_deliveries
        {
            return self.mark_dead(batch, job).await;
        }
        let ids: Vec<String> = batch.jobs.iter().map(|job| job.id.clone()).collect();
        failpoint::abort_on_poison(&ids);
        let known = match self.run_with_timeout(self.store.media(&self.namespace, &ids)).await {
            Ok(known) => known,
            Err(outlook) => return BatchOutcome::released(batch, outlook),
        };
        // The rest of the lease, without the time for the save and the settle.
        let left = span(batch.fence.deadline - batch.now.now()).saturating_sub(self.save_timeout);
        let within = left.mul_f64(0.75);
        let fetched = join_all(batch.jobs.iter().zip(&known).map(async |(job, medium)| match medium {
            Some(medium) if !medium.state.is_final() => {
                let (namespace, id, url) = (&*self.namespace, &*medium.id, &*medium.url);
                let smaller = if medium.attempts < ATTEMPTS_AT_LARGEST_SIZE { Vec::new() } else { (self.smaller)(url) };
                Some(self.fetcher.fetch(FileRequest { namespace, id, url, smaller: &smaller }, within).await)
            }
            _ => {
                self.fetcher.discard(&self.namespace, &job.id);
                None
            }
        }));
        let fetched = fetched.await;
        failpoint::point("after_answer");
        // Before the lease ends, so that the next worker dates its answers later.
        let at = batch.now.now().min(batch.fence.deadline - 1);
        let mut results = Results::default();
        for ((job, medium), fetched) in batch.jobs.iter().zip(known).zip(fetched) {
            self.record_outcome(&mut results, job, medium, fetched, at);
        }
        if let Err(outlook) = self.run_with_timeout(self.save(&mut results)).await {
            return BatchOutcome::released(batch, outlook);
        }
        let Results { mut handled, disk, .. } = results;
        handled.outlook = match disk {
            Some(why) => Outlook::Outage(why),
            None if handled.verdicts.is_empty() => Outlook::Unchanged,
            None => Outlook::Fine,
        };
        handled
    }
}

impl MediaHandler {
    async fn mark_dead(&self, batch: &Batch, job: &Job) -> BatchOutcome {
        let (at, reason) = (batch.now.now(), store_call::repeated_crash_reason(job));
        match self.run_with_timeout(store_call::mark_dead(&*self.store, &self.namespace, at, job, reason)).await {
            Ok(verdict) => BatchOutcome { verdicts: vec![(job.clone(), verdict)], ..BatchOutcome::default() },
            Err(outlook) => BatchOutcome::released(batch, outlook),
        }
    }

    async fn run_with_timeout<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        store_call::run_with_timeout(self.save_timeout, work).await
    }

    /// Saves media, then lives. Skips media that were forgotten meanwhile.
    async fn save(&self, results: &mut Results) -> Result<(), StoreError> {
        let Results { tried, lives, handled, .. } = results;
        let saved: HashSet<String> = self.store.save_media(&self.namespace, tried).await?.into_iter().collect();
        let tried: HashSet<&str> = tried.iter().map(|tried| &*tried.id).collect();
        // It was forgotten or settled meanwhile, or its file is being removed: the next delivery finds out.
        let is_unsaved = |id: &str| tried.contains(id) && !saved.contains(id);
        lives.retain(|life| !is_unsaved(&life.id));
        for (_, verdict) in handled.verdicts.iter_mut().filter(|(job, _)| is_unsaved(&job.id)) {
            *verdict = Verdict::Retry { after: millis(self.retrying.first_delay), counted: false };
        }
        let untried: Vec<String> =
            lives.iter().map(|life| &life.id).filter(|id| !tried.contains(id.as_str())).cloned().collect();
        if !untried.is_empty() {
            let standings = self.store.standing(&self.namespace, &untried).await?;
            let gone = untried.iter().zip(standings).filter(|(_, standing)| standing.is_none());
            let gone: HashSet<&String> = gone.map(|(id, _)| id).collect();
            lives.retain(|life| !gone.contains(&life.id));
        }
        self.store.save(&self.namespace, lives).await?;
        failpoint::point("after_commit");
        Ok(())
    }

    fn record_outcome(
        &self,
        results: &mut Results,
        job: &Job,
        medium: Option<StoredMedium>,
        fetched: Option<FetchOutcome>,
        at: Millis,
    ) {
        let Some(medium) = medium else {
            // A person added this id by hand, so no post has its address. Or it is forgotten, and has no row.
            results.end(job, at, Some("no post names this medium"));
            return;
        };
        let counters = &self.counters;
        match fetched {
            // An earlier worker finished it but could not settle it.
            None => results.end(job, at, None),
            Some(FetchOutcome::Stored(stored)) => {
                self.count_stored(&stored);
                results.tried.push(stored_medium(&medium, stored, at));
                results.end(job, at, None);
            }
            Some(FetchOutcome::Gone(why)) => {
                counters.media_gone.add(1);
                results.give_up(job, &medium, at, MediaState::Gone, &why);
            }
            Some(FetchOutcome::Refused(why)) => {
                counters.media_refused.add(1);
                results.give_up(job, &medium, at, MediaState::Refused, &why);
            }
            Some(FetchOutcome::Unconfirmed { state, why }) => {
                self.retry_or_give_up(results, job, &medium, (state, why, None), at)
            }
            Some(FetchOutcome::Failed { why, after, .. }) => {
                let url = Url::parse(&medium.url).ok();
                let host = url.as_ref().and_then(Url::host_str).or(Some(""));
                let place = ErrorPlace { host, endpoint: "file", example: Some(&job.id) };
                self.metrics.errors.record(ErrorKind::NoAnswer, &why, place);
                self.retry_or_give_up(results, job, &medium, (MediaState::Failed, why, after), at);
            }
            Some(FetchOutcome::Interrupted) => results.retry_in(job, RESUME_DELAY_MS),
            Some(FetchOutcome::Later(rest)) => results.retry_in(job, millis(rest).max(1)),
            Some(FetchOutcome::StorageUnavailable(why)) => {
                counters.media_no_room.add(1);
                results.disk = Some(why);
                results.handled.release.push(job.clone());
            }
        }
    }

    fn count_stored(&self, stored: &StoredFile) {
        let counters = &self.counters;
        match stored.is_new {
            true => {
                counters.media_stored.add(1);
                counters.media_bytes.add(usize::try_from(stored.file.bytes).unwrap_or(usize::MAX));
            }
            false => counters.media_known.add(1),
        }
        counters.media_continued.add(usize::from(stored.is_continued));
    }

    /// Retries later each time. A failure that has lasted too long ends the medium in the state `end`.
    fn retry_or_give_up(
        &self,
        results: &mut Results,
        job: &Job,
        medium: &StoredMedium,
        (end, why, after): (MediaState, String, Option<Duration>),
        at: Millis,
    ) {
        let RetryLimits { first_delay, longest_delay, give_up_after } = self.retrying;
        let attempts = u32::try_from(medium.attempts).unwrap_or(u32::MAX).saturating_add(1);
        let since = medium.failing_since.unwrap_or(at);
        // The row has no date of this answer, so the attempt before must have had the same one: one 404 after hours of 503 proves
        // nothing.
        let is_repeated = end != MediaState::Failed && medium.reason.as_ref() == Some(&why);
        let patience = if is_repeated { confirmed_after(longest_delay).min(give_up_after) } else { give_up_after };
        if attempts >= MIN_ATTEMPTS && at - since >= millis(patience) {
            let counter = match end {
                MediaState::Gone => &self.counters.media_gone,
                MediaState::Refused => &self.counters.media_refused,
                _ => &self.counters.media_failed,
            };
            counter.add(1);
            let medium = StoredMedium { attempts: attempts.into(), failing_since: Some(since), ..medium.clone() };
            results.give_up(job, &medium, at, end, &why);
            return;
        }
        self.counters.media_attempts_failed.add(1);
        let delay = retry_delay_ms(attempts, first_delay, longest_delay, random::fraction())
            .max(after.map_or(0, millis).min(millis(longest_delay)));
        results.tried.push(FetchAttempt {
            attempts: attempts.into(),
            failing_since: Some(since),
            reason: Some(why.clone()),
            ..updated_medium(medium, at, MediaState::Waiting)
        });
        results.lives.push(life_observation(job, at, Some(&why), Some(at.saturating_add(delay))));
        let verdict = Verdict::Reschedule { lane: retry_lane(), due: Due::In(delay) };
        results.handled.verdicts.push((job.clone(), verdict));
    }
}

impl Results {
    fn end(&mut self, job: &Job, at: Millis, why: Option<&str>) {
        self.lives.push(life_observation(job, at, why, None));
        self.handled.verdicts.push((job.clone(), Verdict::Finish));
    }

    fn give_up(&mut self, job: &Job, medium: &StoredMedium, at: Millis, state: MediaState, why: &str) {
        let tried = updated_medium(medium, at, state);
        self.tried.push(FetchAttempt { reason: Some(why.to_owned()), ..tried });
        // Its row has the reason. A life that ends with an unreadable answer has no date, and a late, older save would undo the end.
        self.end(job, at, None);
    }

    /// Retries without a counted failure.
    fn retry_in(&mut self, job: &Job, after: Millis) {
        self.handled.verdicts.push((job.clone(), Verdict::Retry { after, counted: false }));
    }
}

/// Time until an unconfirmed answer is accepted. With a short `media.longest_retry`, an hour would be hundreds of requests for a missing
/// file.
fn confirmed_after(longest_retry: Duration) -> Duration {
    CONFIRMED_AFTER.min(longest_retry.saturating_mul(MIN_ATTEMPTS))
}

fn updated_medium(medium: &StoredMedium, at: Millis, state: MediaState) -> FetchAttempt {
    let (id, attempts, failing_since) = (medium.id.clone(), medium.attempts, medium.failing_since);
    FetchAttempt { id, at, state, attempts, failing_since, ..FetchAttempt::default() }
}

fn stored_medium(medium: &StoredMedium, stored: StoredFile, at: Millis) -> FetchAttempt {
    FetchAttempt {
        bytes: i64::try_from(stored.file.bytes).ok(),
        file_type: Some(stored.file.kind.to_owned()),
        sha256: Some(stored.file.sha256),
        url: stored.smaller,
        failing_since: None,
        ..updated_medium(medium, at, MediaState::Stored)
    }
}

/// Observation that stores the next attempt of a medium, or its end (`next_due` is `None`). `why`: reason of a failed attempt.
fn life_observation(job: &Job, at: Millis, why: Option<&str>, next_due: Option<Millis>) -> Observation {
    let state = if next_due.is_some() { ItemState::Live } else { ItemState::Ended };
    let seen = match why {
        Some(why) => Finding::Broken(why.to_owned()),
        None => Finding::Found(Tweet::without_object(&job.id)),
    };
    Observation::new(&job.id, at, seen, state, next_due)
}
