//! Handles a batch of media: fetches each file, saves the media, saves their lives, settles them.
//!
//! ```text
//!   batch ─▶ known? ─▶ fetch, all at once ─▶ save media ─▶ save lives ─▶ verdicts, to the worker
//!                       the file is there      state, hash    ended, or due again
//! ```
//!
//! A file is stored before the store names it. If a process dies in between, the next attempt finds the same bytes and names it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use reqwest::Url;

use super::counters::Fetches;
use super::fetch::{Fetch, Fetched, Stored, Wanted, delay_after};
use super::schedule::retry;
use crate::base::clock::{Millis, millis, span};
use crate::base::failpoint;
use crate::base::random;
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Batch, Due, Job, Verdict};
use crate::engine::worker::{FreeHandler, Handled, Outlook};
use crate::model::media::MediaState;
use crate::model::post::{ItemState, Tweet};
use crate::pipelines::store_call;
use crate::store::{MediumTried, Observation, Seen, Store, StoreError, StoredMedium};

/// Wait before a partial file is resumed.
const CONTINUE_MS: Millis = 100;
/// Minimum attempts before a medium is given up.
const LEAST_ATTEMPTS: u32 = 4;
/// Failed attempts before smaller sizes of a picture are requested, too: a host in trouble lacks every size for a moment.
const LARGEST_ALONE: i64 = 2;
/// Time that a host must lack a file before its answer is accepted.
const CONFIRMED_AFTER: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, Copy)]
pub struct Retrying {
    /// Longest first delay; it doubles with each further one.
    pub first: Duration,
    pub most: Duration,
    /// Time of failures after which a medium is given up.
    pub give_up_after: Duration,
}

pub struct MediaHandler {
    pub namespace: String,
    pub fetcher: Arc<dyn Fetch>,
    /// Addresses of smaller sizes of the picture at an address, the largest first.
    pub smaller: fn(&str) -> Vec<String>,
    pub store: Arc<dyn Store>,
    pub retrying: Retrying,
    pub save_timeout: Duration,
    /// Ended processes after which a medium that was alone in its batch is dead.
    pub max_deliveries: u32,
    pub counters: Arc<Fetches>,
    pub metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Results {
    tried: Vec<MediumTried>,
    lives: Vec<Observation>,
    handled: Handled,
    disk: Option<String>,
}

#[async_trait]
impl FreeHandler for MediaHandler {
    async fn handle(&self, batch: &Batch) -> Handled {
        if let [job] = &batch.jobs[..]
            && job.failures >= self.max_deliveries
        {
            return self.bury(batch, job).await;
        }
        let ids: Vec<String> = batch.jobs.iter().map(|job| job.id.clone()).collect();
        failpoint::poison(&ids);
        let known = match self.in_time(self.store.media(&self.namespace, &ids)).await {
            Ok(known) => known,
            Err(outlook) => return Handled::released(batch, outlook),
        };
        // The rest of the lease, without the time for the save and the settle.
        let left = span(batch.fence.deadline - batch.now.now()).saturating_sub(self.save_timeout);
        let within = left.mul_f64(0.75);
        let fetched = join_all(batch.jobs.iter().zip(&known).map(async |(job, medium)| match medium {
            Some(medium) if !medium.state.is_final() => {
                let (namespace, id, url) = (&*self.namespace, &*medium.id, &*medium.url);
                let smaller = if medium.attempts < LARGEST_ALONE { Vec::new() } else { (self.smaller)(url) };
                Some(self.fetcher.fetch(Wanted { namespace, id, url, smaller: &smaller }, within).await)
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
            self.judge(&mut results, job, medium, fetched, at);
        }
        if let Err(outlook) = self.in_time(self.save(&mut results)).await {
            return Handled::released(batch, outlook);
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
    async fn bury(&self, batch: &Batch, job: &Job) -> Handled {
        let (at, reason) = (batch.now.now(), store_call::ended_its_process(job));
        match self.in_time(store_call::bury(&*self.store, &self.namespace, at, job, reason)).await {
            Ok(verdict) => Handled { verdicts: vec![(job.clone(), verdict)], ..Handled::default() },
            Err(outlook) => Handled::released(batch, outlook),
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        store_call::in_time(self.save_timeout, work).await
    }

    /// Saves media, then lives. Skips media that are gone by now: the deletion of a person's data has already searched for them.
    async fn save(&self, results: &mut Results) -> Result<(), StoreError> {
        let Results { tried, lives, handled, .. } = results;
        let saved: HashSet<String> = self.store.save_media(&self.namespace, tried).await?.into_iter().collect();
        let tried: HashSet<&str> = tried.iter().map(|tried| &*tried.id).collect();
        // It was forgotten or settled meanwhile, or its file is being removed: the next delivery finds out.
        let is_undone = |id: &str| tried.contains(id) && !saved.contains(id);
        lives.retain(|life| !is_undone(&life.id));
        for (_, verdict) in handled.verdicts.iter_mut().filter(|(job, _)| is_undone(&job.id)) {
            *verdict = Verdict::Retry { after: millis(self.retrying.first), counted: false };
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

    fn judge(
        &self,
        results: &mut Results,
        job: &Job,
        medium: Option<StoredMedium>,
        fetched: Option<Fetched>,
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
            Some(Fetched::Stored(stored)) => {
                self.count(&stored);
                results.tried.push(stored_as(&medium, stored, at));
                results.end(job, at, None);
            }
            Some(Fetched::Gone(why)) => {
                counters.media_gone.add(1);
                results.give_up(job, &medium, at, MediaState::Gone, &why);
            }
            Some(Fetched::Refused(why)) => {
                counters.media_refused.add(1);
                results.give_up(job, &medium, at, MediaState::Refused, &why);
            }
            Some(Fetched::Doubted { state, why }) => self.failed(results, job, &medium, (state, why, None), at),
            Some(Fetched::Failed { why, after, .. }) => {
                let url = Url::parse(&medium.url).ok();
                let host = url.as_ref().and_then(Url::host_str).or(Some(""));
                let place = ErrorPlace { host, endpoint: "file", example: Some(&job.id) };
                self.metrics.errors.record(ErrorKind::NoAnswer, &why, place);
                self.failed(results, job, &medium, (MediaState::Failed, why, after), at);
            }
            Some(Fetched::Partly) => results.retry_in(job, CONTINUE_MS),
            Some(Fetched::Later(rest)) => results.retry_in(job, millis(rest).max(1)),
            Some(Fetched::Disk(why)) => {
                counters.media_no_room.add(1);
                results.disk = Some(why);
                results.handled.release.push(job.clone());
            }
        }
    }

    fn count(&self, stored: &Stored) {
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

    /// Records a failure. The medium is retried, later each time, until the failure has lasted too long. Then it ends in the state `end`.
    fn failed(
        &self,
        results: &mut Results,
        job: &Job,
        medium: &StoredMedium,
        (end, why, after): (MediaState, String, Option<Duration>),
        at: Millis,
    ) {
        let Retrying { first, most, give_up_after } = self.retrying;
        let attempts = u32::try_from(medium.attempts).unwrap_or(u32::MAX).saturating_add(1);
        let since = medium.failing_since.unwrap_or(at);
        // The row has no date of this answer, so the attempt before must have had the same one: one 404 after hours of 503 proves
        // nothing.
        let is_repeated = end != MediaState::Failed && medium.reason.as_ref() == Some(&why);
        let patience = if is_repeated { confirmed_after(most).min(give_up_after) } else { give_up_after };
        if attempts >= LEAST_ATTEMPTS && at - since >= millis(patience) {
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
        let delay = delay_after(attempts, first, most, random::share()).max(after.map_or(0, millis).min(millis(most)));
        results.tried.push(MediumTried {
            attempts: attempts.into(),
            failing_since: Some(since),
            reason: Some(why.clone()),
            ..tried(medium, at, MediaState::Waiting)
        });
        results.lives.push(life(job, at, Some(&why), Some(at.saturating_add(delay))));
        let verdict = Verdict::Reschedule { lane: retry(), due: Due::In(delay) };
        results.handled.verdicts.push((job.clone(), verdict));
    }
}

impl Results {
    fn end(&mut self, job: &Job, at: Millis, why: Option<&str>) {
        self.lives.push(life(job, at, why, None));
        self.handled.verdicts.push((job.clone(), Verdict::Finish));
    }

    fn give_up(&mut self, job: &Job, medium: &StoredMedium, at: Millis, state: MediaState, why: &str) {
        let tried = tried(medium, at, state);
        self.tried.push(MediumTried { reason: Some(why.to_owned()), ..tried });
        // Its row has the reason. A life that ends with an unreadable answer has no date, and a late, older save would undo the end.
        self.end(job, at, None);
    }

    /// Retries an unfinished attempt, without a counted failure.
    fn retry_in(&mut self, job: &Job, after: Millis) {
        self.handled.verdicts.push((job.clone(), Verdict::Retry { after, counted: false }));
    }
}

/// Time that a doubted answer must last. With a short `media.longest_retry`, an hour would be hundreds of requests for a missing file.
fn confirmed_after(longest_retry: Duration) -> Duration {
    CONFIRMED_AFTER.min(longest_retry.saturating_mul(LEAST_ATTEMPTS))
}

/// Keeps the previous figures, with that state.
fn tried(medium: &StoredMedium, at: Millis, state: MediaState) -> MediumTried {
    let (id, attempts, failing_since) = (medium.id.clone(), medium.attempts, medium.failing_since);
    MediumTried { id, at, state, attempts, failing_since, ..MediumTried::default() }
}

fn stored_as(medium: &StoredMedium, stored: Stored, at: Millis) -> MediumTried {
    MediumTried {
        bytes: i64::try_from(stored.file.bytes).ok(),
        file_type: Some(stored.file.kind.to_owned()),
        sha256: Some(stored.file.sha256),
        url: stored.smaller,
        failing_since: None,
        ..tried(medium, at, MediaState::Stored)
    }
}

fn life(job: &Job, at: Millis, why: Option<&str>, next_due: Option<Millis>) -> Observation {
    let state = if next_due.is_some() { ItemState::Live } else { ItemState::Ended };
    let seen = match why {
        Some(why) => Seen::Broken(why.to_owned()),
        None => Seen::Found(Tweet::without_object(&job.id)),
    };
    Observation::new(&job.id, at, seen, state, next_due)
}
