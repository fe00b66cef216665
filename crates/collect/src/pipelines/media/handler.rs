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
use crate::pipelines::item_handler::{ItemOutcome, ItemWork, UnmeteredWork};
use crate::pipelines::store_call::PipelineStore;
use engine::base::call_error::ErrorKind;
use engine::base::clock::{Millis, millis, span};
use engine::base::failpoint;
use engine::base::random;
use engine::error_log::ErrorPlace;
use engine::metrics::Metrics;
use engine::queue::{Batch, Due, Job, Verdict};
use engine::worker::Outlook;
use networks::model::media::MediaState;
use networks::model::post::ItemState;
use store::{FetchAttempt, Finding, StoreError, StoredMedium};

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

pub struct MediaWork {
    pub items: PipelineStore,
    pub fetcher: Arc<dyn Fetch>,
    /// Addresses of smaller sizes of the picture at an address, the largest first.
    pub smaller: fn(&str) -> Vec<String>,
    pub retrying: RetryLimits,
    pub counters: Arc<FetchCounters>,
    pub metrics: Arc<Metrics>,
}

type MediumOutcome = ItemOutcome<FetchAttempt>;

#[async_trait]
impl ItemWork for MediaWork {
    type Row = FetchAttempt;

    fn items(&self) -> &PipelineStore {
        &self.items
    }

    /// Saves attempts. Skips the lives of media that were forgotten meanwhile.
    async fn save_rows(&self, jobs: &[Job], outcomes: &mut [MediumOutcome]) -> Result<(), StoreError> {
        let PipelineStore { namespace, store, .. } = &self.items;
        let attempts: Vec<FetchAttempt> = outcomes.iter_mut().filter_map(|outcome| outcome.row.take()).collect();
        let saved: HashSet<String> = store.save_media(namespace, &attempts).await?.into_iter().collect();
        failpoint::point("after_commit");
        let tried: HashSet<&str> = attempts.iter().map(|attempt| &*attempt.id).collect();
        // It was forgotten or settled meanwhile, or its file is being removed: the next delivery finds out.
        let is_unsaved = |job: &Job| tried.contains(&*job.id) && !saved.contains(&job.id);
        for (_, outcome) in jobs.iter().zip(&mut *outcomes).filter(|(job, _)| is_unsaved(job)) {
            *outcome = retry_in(millis(self.retrying.first_delay));
        }
        let lives = outcomes.iter().filter_map(|outcome| outcome.life.as_ref());
        let untried: Vec<String> =
            lives.map(|life| &life.id).filter(|id| !tried.contains(id.as_str())).cloned().collect();
        if !untried.is_empty() {
            let standings = store.standing(namespace, &untried).await?;
            let gone = untried.iter().zip(standings).filter(|(_, standing)| standing.is_none());
            let gone: HashSet<&String> = gone.map(|(id, _)| id).collect();
            for outcome in outcomes {
                outcome.life.take_if(|life| gone.contains(&life.id));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl UnmeteredWork for MediaWork {
    async fn handle(&self, batch: &Batch) -> Result<Vec<MediumOutcome>, Outlook> {
        let PipelineStore { namespace, store, save_timeout, .. } = &self.items;
        let known = self.items.run_with_timeout(store.media(namespace, &batch.ids())).await?;
        // The rest of the lease, without the time for the save and the settle.
        let left = span(batch.fence.deadline - batch.now.now()).saturating_sub(*save_timeout);
        let within = left.mul_f64(0.75);
        let fetched = join_all(batch.jobs.iter().zip(&known).map(async |(job, medium)| match medium {
            Some(medium) if !medium.state.is_final() => {
                let (id, url) = (&*medium.id, &*medium.url);
                let smaller = if medium.attempts < ATTEMPTS_AT_LARGEST_SIZE { Vec::new() } else { (self.smaller)(url) };
                Some(self.fetcher.fetch(FileRequest { namespace, id, url, smaller: &smaller }, within).await)
            }
            _ => {
                self.fetcher.discard(namespace, &job.id);
                None
            }
        }));
        let fetched = fetched.await;
        failpoint::point("after_answer");
        let at = batch.answer_time();
        let answers = batch.jobs.iter().zip(known).zip(fetched);
        Ok(answers.map(|((job, medium), fetched)| self.judge(job, medium, fetched, at)).collect())
    }
}

impl MediaWork {
    fn judge(
        &self,
        job: &Job,
        medium: Option<StoredMedium>,
        fetched: Option<FetchOutcome>,
        at: Millis,
    ) -> MediumOutcome {
        let Some(medium) = medium else {
            // A person added this id by hand, so no post has its address. Or it is forgotten, and has no row.
            return end(job, at, Finding::Broken("no post names this medium".to_owned()), None);
        };
        match fetched {
            // An earlier worker finished it but could not settle it.
            None => end(job, at, Finding::Found(None), None),
            Some(FetchOutcome::Stored(stored)) => {
                self.count_stored(&stored);
                end(job, at, Finding::Found(None), Some(stored_medium(&medium, stored, at)))
            }
            Some(FetchOutcome::Gone(why)) => self.give_up(job, &medium, at, MediaState::Gone, why),
            Some(FetchOutcome::Refused(why)) => self.give_up(job, &medium, at, MediaState::Refused, why),
            Some(FetchOutcome::Unconfirmed { state, why }) => {
                self.retry_or_give_up(job, medium, (state, why, None), at)
            }
            Some(FetchOutcome::Failed { why, after, .. }) => {
                let url = Url::parse(&medium.url).ok();
                let host = url.as_ref().and_then(Url::host_str).or(Some(""));
                let place = ErrorPlace { host, endpoint: "file", example: Some(&job.id) };
                self.metrics.errors.record(ErrorKind::NoAnswer, &why, place);
                self.retry_or_give_up(job, medium, (MediaState::Failed, why, after), at)
            }
            Some(FetchOutcome::Interrupted) => retry_in(RESUME_DELAY_MS),
            Some(FetchOutcome::Later(rest)) => retry_in(millis(rest).max(1)),
            Some(FetchOutcome::StorageUnavailable(why)) => {
                self.counters.media_no_room.add(1);
                ItemOutcome { outlook: Outlook::Outage(why), ..ItemOutcome::default() }
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
        job: &Job,
        medium: StoredMedium,
        (end, why, after): (MediaState, String, Option<Duration>),
        at: Millis,
    ) -> MediumOutcome {
        let RetryLimits { first_delay, longest_delay, give_up_after } = self.retrying;
        let attempts = u32::try_from(medium.attempts).unwrap_or(u32::MAX).saturating_add(1);
        let since = medium.failing_since.unwrap_or(at);
        // The row has no date of this answer, so the attempt before must have had the same one: one 404 after hours of 503 proves
        // nothing.
        let is_repeated = end != MediaState::Failed && medium.reason.as_ref() == Some(&why);
        let patience = if is_repeated { confirmed_after(longest_delay).min(give_up_after) } else { give_up_after };
        let medium = StoredMedium { attempts: attempts.into(), failing_since: Some(since), ..medium };
        if attempts >= MIN_ATTEMPTS && at - since >= millis(patience) {
            return self.give_up(job, &medium, at, end, why);
        }
        self.counters.media_attempts_failed.add(1);
        let delay = retry_delay_ms(attempts, first_delay, longest_delay, random::fraction())
            .max(after.map_or(0, millis).min(millis(longest_delay)));
        let (finding, next) = (Finding::Broken(why.clone()), Some((retry_lane(), at.saturating_add(delay))));
        ItemOutcome {
            verdict: Some(Verdict::Reschedule { lane: retry_lane(), due: Due::In(delay) }),
            row: Some(failed_medium(&medium, at, MediaState::Waiting, why)),
            ..ItemOutcome::with_life(job, at, finding, ItemState::Live, next)
        }
    }

    fn give_up(&self, job: &Job, medium: &StoredMedium, at: Millis, state: MediaState, why: String) -> MediumOutcome {
        let counter = match state {
            MediaState::Gone => &self.counters.media_gone,
            MediaState::Refused => &self.counters.media_refused,
            _ => &self.counters.media_failed,
        };
        counter.add(1);
        // Its row has the reason. A life that ends with an unreadable answer has no date, and a late, older save would undo the end.
        end(job, at, Finding::Found(None), Some(failed_medium(medium, at, state, why)))
    }
}

fn end(job: &Job, at: Millis, finding: Finding<Option<String>>, row: Option<FetchAttempt>) -> MediumOutcome {
    ItemOutcome { row, ..ItemOutcome::with_life(job, at, finding, ItemState::Ended, None) }
}

/// Retries without a counted failure.
fn retry_in(after: Millis) -> MediumOutcome {
    ItemOutcome::new(Verdict::Retry { after, counted: false }, Outlook::Fine)
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

fn failed_medium(medium: &StoredMedium, at: Millis, state: MediaState, why: String) -> FetchAttempt {
    FetchAttempt { reason: Some(why), ..updated_medium(medium, at, state) }
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
