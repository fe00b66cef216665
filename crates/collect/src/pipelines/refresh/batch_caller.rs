//! The calls for one batch, and the meaning of each kind of refusal.
//!
//! A batch usually needs one call. A request that is refused, or keeps failing while others are answered, is halved until the bad id is
//! alone. Each further call takes its own permit, without waiting; ids without a permit go back unchanged.

mod charges;
mod explain;
mod failure_tracker;
mod part;

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;

use self::charges::charged_reads;
pub use self::failure_tracker::FailureTracker;
use self::part::BatchPart;
use super::judge::Item;
use crate::pipelines::blame::{Blame, Refusal, Testimony, acquire_witness_permit, park_after_witness};
use engine::base::call_error::ErrorKind;
use engine::base::clock::{self, Millis, Stopwatch};
use engine::base::failpoint;
use engine::base::log_throttle::escape_id;
use engine::base::random;
use engine::base::task;
use engine::error_log::ErrorPlace;
use engine::metrics::Metrics;
use engine::queue::{Batch, Job};
use engine::quota::{AcquireOutcome, ChargedReads, Credential, Credentials, Park, Permit};
use engine::worker::Outlook;
use networks::model::account::Absence;
use networks::providers::lookup::{Answer, Lookup, LookupError, Outcome, UnsolicitedObjects};
use networks::providers::metered::{CallReport, make_metered_call};

/// Limit of consecutive refused requests: seven halvings isolate one bad id among a hundred, so its eighth request has it alone.
const REFUSED_IN_A_ROW: u32 = 8;
/// Calls without an answer for the same ids before they go back: a correction of the clock, and a few credentials.
const MAX_TRIES: usize = 8;

/// Version to request, by the id of the post.
pub(super) type Versions = HashMap<String, String>;

#[derive(Debug)]
pub(super) struct RequestReport<T> {
    /// Jobs with their outcome, and its time on the queue's clock.
    pub answered: Vec<(Job, Outcome<T>, Millis)>,
    /// Jobs whose request was refused while they were alone in it, and the reason.
    pub refused: Vec<(Job, String)>,
    /// Jobs whose call failed while they were alone in it, and others were answered.
    pub failed: Vec<Job>,
    /// Suspects whose call failed for an unknown reason: others go first.
    pub postponed: Vec<Job>,
    /// Jobs deferred without a call: see [`Evidence::defer_once`].
    pub deferred: Vec<Job>,
    pub unanswered: Vec<Job>,
    pub outlook: Outlook,
    /// Calls of this batch since its last answer that were refused as a whole, or failed while others were answered.
    failures_in_a_row: u32,
    versions: Versions,
    /// Reason why a credential was useless: an outage, unless another one was answered.
    unready_reason: Option<String>,
}

impl<T> RequestReport<T> {
    fn new(versions: Versions) -> Self {
        Self {
            answered: Vec::new(),
            refused: Vec::new(),
            failed: Vec::new(),
            postponed: Vec::new(),
            deferred: Vec::new(),
            unanswered: Vec::new(),
            outlook: Outlook::default(),
            failures_in_a_row: 0,
            versions,
            unready_reason: None,
        }
    }

    fn ids(&self, jobs: &[Job]) -> Vec<String> {
        jobs.iter().map(|job| self.versions.get(&job.id).unwrap_or(&job.id).clone()).collect()
    }
}

/// Makes the calls of a pipeline's batches within its quota and budget, and finds the ids that fail on their own.
pub(super) struct BatchCaller<'a, T> {
    pub namespace: &'a str,
    pub lookup: &'a dyn Lookup<T>,
    pub credentials: &'a Credentials,
    pub metrics: &'a Metrics,
    pub failure_tracker: &'a FailureTracker,
    /// Lane whose jobs get one call each.
    pub separate_lane: Option<&'a str>,
    /// Time limit for a call and the save after it.
    pub call_and_save_time: Duration,
}

impl<T: Item> BatchCaller<'_, T> {
    pub(super) async fn request(&self, batch: &Batch, versions: Versions, permit: Permit) -> RequestReport<T> {
        let mut requested = RequestReport::new(versions);
        if let [job] = &batch.jobs[..]
            && self.failure_tracker.evidence.defer_once(&job.id)
        {
            self.credentials.return_permit(permit).await;
            requested.deferred.push(job.clone());
            requested.outlook = Outlook::Unchanged;
            return requested;
        }
        let mut permit = Some(permit);
        let limit = self.lookup.capabilities().batch_limit;
        // `parts` is a stack: both halves of a failed part are looked up before the next part. The batch was claimed with the limit of
        // that time; the server may have turned out to take fewer ids.
        let mut parts: Vec<BatchPart> =
            self.first_parts(&batch.jobs).into_iter().flat_map(|part| part.split(limit)).collect();
        while let Some(part) = parts.pop() {
            let granted = match permit.take() {
                Some(permit) => Some(permit),
                None if self.time_is_up(batch) => None,
                None => self.try_acquire_permit().await,
            };
            let Some(permit) = granted else {
                requested.unanswered.extend(part.jobs);
                continue;
            };
            let Some((part, permit)) = self.reserve_reads(part, permit, &mut requested).await else {
                if requested.outlook != Outlook::Fine {
                    requested.unanswered.extend(parts.drain(..).flat_map(|part| part.jobs));
                }
                continue;
            };
            // The start of the call dates the answer, on the queue's clock. Dated by its arrival, an answer that lay unread while the
            // process was stopped would look newer than later knowledge of others. A date inside the lease is older than any answer of
            // the next worker.
            let at = batch.answer_time();
            // If the API answers other ids of the batch, a repeated failure of these ids is not the credential's fault.
            let is_own = part.failed_before && !requested.answered.is_empty();
            let example = part.jobs.first().map(|job| &*job.id);
            let error = match self.look_up((requested.ids(&part.jobs), example), permit, batch, is_own).await {
                Ok(answer) => {
                    self.failure_tracker.clear_failures(&part.jobs);
                    requested.failures_in_a_row = 0;
                    requested
                        .answered
                        .extend(part.jobs.into_iter().zip(answer.outcomes).map(|(job, outcome)| (job, outcome, at)));
                    continue;
                }
                Err(error) => error,
            };
            self.handle_failure(error, part, &mut parts, &mut requested);
            if requested.outlook != Outlook::Fine {
                requested.unanswered.extend(parts.drain(..).flat_map(|part| part.jobs));
            }
        }
        self.request_reasons(&mut requested.answered, batch).await;
        if requested.answered.is_empty() {
            if requested.outlook == Outlook::Fine {
                requested.outlook = requested.unready_reason.take().map_or(Outlook::Unchanged, Outlook::Outage);
            }
            self.withhold_blame_if_ambiguous(batch, &mut requested);
        }
        requested
    }

    /// Parts for the first calls, the last one first. One part, unless calls for some jobs failed at least twice.
    ///
    /// Jobs without failed calls go first: their answer shows that the API works. Suspects follow in random parts. The first part is
    /// smaller each time, because several ids may be bad. Each further part is twice as large: all ids are suspects after an outage.
    fn first_parts(&self, jobs: &[Job]) -> Vec<BatchPart> {
        let is_alone = |job: &&Job| self.separate_lane.is_some_and(|lane| *job.lane == *lane);
        let (alone, together): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(is_alone);
        let alone = alone.into_iter().map(|job| vec![job.clone()]);
        let mut parts: Vec<BatchPart> = alone
            .map(|jobs| BatchPart {
                failed_before: self.failure_tracker.are_suspects(&jobs),
                jobs,
                ..BatchPart::default()
            })
            .collect();
        if !together.is_empty() {
            parts.extend(self.order_by_failures(&together.into_iter().cloned().collect::<Vec<Job>>()));
        }
        parts
    }

    fn order_by_failures(&self, jobs: &[Job]) -> Vec<BatchPart> {
        let part = |jobs, failed_before| BatchPart { jobs, failed_before, ..BatchPart::default() };
        let (mut suspects, mut least, mut others) = (Vec::new(), u32::MAX, Vec::new());
        for (job, times) in jobs.iter().zip(self.failure_tracker.failure_counts(jobs)) {
            // One failure may be temporary, and may have hit all calls in flight.
            if times > 1 {
                least = least.min(times);
                suspects.push(job.clone());
            } else {
                others.push(job.clone());
            }
        }
        if suspects.is_empty() || jobs.len() == 1 {
            return vec![part(jobs.to_vec(), !suspects.is_empty())];
        }
        let mut parts = Vec::new();
        if !others.is_empty() {
            parts.push(part(others, false));
        }
        random::shuffle(&mut suspects);
        let mut size = suspects.len().checked_shr(least - 1).unwrap_or(0).max(1);
        while !suspects.is_empty() {
            let rest = suspects.split_off(size.min(suspects.len()));
            parts.push(part(std::mem::replace(&mut suspects, rest), true));
            size *= 2;
        }
        parts.reverse();
        parts
    }

    /// Withholds blame if nothing shows the id at fault. A single job, or suspects, may be blamed if others were answered since the last
    /// such blame: an API that refuses all causes one blame per process.
    fn withhold_blame_if_ambiguous(&self, batch: &Batch, requested: &mut RequestReport<T>) {
        let suspects = batch.jobs.iter().all(|job| job.deliveries > 0);
        let apart = suspects || batch.jobs.len() == 1;
        let refused = requested.failures_in_a_row > 0;
        let is_unambiguous = || apart && self.failure_tracker.others_answered.swap(false, Ordering::Relaxed);
        if !requested.refused.is_empty() && !is_unambiguous() {
            if requested.outlook == Outlook::Unchanged {
                requested.outlook =
                    Outlook::Outage("the API refused each id of a batch in a request of its own".to_owned());
            }
            requested.unanswered.extend(requested.refused.drain(..).map(|(job, _)| job));
        }
        // Given back unchanged, they would be the most urgent again, and a few bad ids would take all calls. Others go first: their
        // answers decide.
        let out = matches!(requested.outlook, Outlook::Outage(_));
        // If a call takes one id, no other answer can decide.
        let lone = self.lookup.capabilities().batch_limit == 1 && self.failure_tracker.are_suspects(&batch.jobs);
        if apart && refused || out && (suspects && batch.jobs.len() == 1 || lone) {
            requested.postponed.append(&mut requested.unanswered);
        }
    }

    fn handle_failure(
        &self,
        error: LookupError,
        mut part: BatchPart,
        parts: &mut Vec<BatchPart>,
        requested: &mut RequestReport<T>,
    ) {
        match error {
            // Nothing is smaller than one id: an API that finds it too large is faulty.
            LookupError::BatchTooLarge(_) if part.jobs.len() <= 1 => {
                self.failure_tracker.record_failure(&part.jobs);
                requested.outlook = Outlook::Outage(error.to_string());
                requested.unanswered.extend(part.jobs);
            }
            LookupError::BadRequest(why) | LookupError::BatchTooLarge(why) => {
                requested.failures_in_a_row += 1;
                let in_a_row = requested.failures_in_a_row;
                if in_a_row > REFUSED_IN_A_ROW {
                    // The API refuses all ids, so none is blamed.
                    requested.outlook = Outlook::Outage(format!("{in_a_row} requests in a row are refused: {why}"));
                    requested.unanswered.extend(part.jobs);
                } else if part.jobs.len() > 1 {
                    tracing::warn!(
                        ids = part.jobs.len(),
                        error = why,
                        "the request is refused: its ids are tried in halves"
                    );
                    part.halve(self.lookup.capabilities().batch_limit, parts);
                } else {
                    requested.refused.extend(part.jobs.into_iter().map(|job| (job, why.clone())));
                }
            }
            // The lookup has corrected its clock: one more try.
            LookupError::Clock(_) if part.tries == 0 => parts.push(BatchPart { tries: MAX_TRIES, ..part }),
            LookupError::Throttled { .. } | LookupError::Credential(_) | LookupError::Unready(_) => {
                if let LookupError::Unready(_) = error {
                    requested.unready_reason = Some(error.to_string());
                }
                if error.is_about_credential() {
                    // One of these ids may still be the cause: the next calls request them in smaller parts.
                    self.failure_tracker.record_failure(&part.jobs);
                }
                if part.tries < MAX_TRIES {
                    part.tries += 1;
                    parts.push(part);
                } else {
                    requested.unanswered.extend(part.jobs);
                }
            }
            LookupError::Stop(message) => {
                requested.outlook = Outlook::Stop(message);
                requested.unanswered.extend(part.jobs);
            }
            LookupError::QueueClock(why) => {
                requested.outlook = Outlook::Outage(why);
                requested.unanswered.extend(part.jobs);
            }
            error @ (LookupError::Outage(_)
            | LookupError::Overloaded { .. }
            | LookupError::BadAnswer(_)
            | LookupError::Clock(_)) => {
                self.failure_tracker.record_failure(&part.jobs);
                self.handle_missing_answer(error.to_string(), part, parts, requested);
            }
        }
    }

    /// Handles a failed call: an outage, unless it failed before while others of its batch are answered.
    fn handle_missing_answer(
        &self,
        why: String,
        part: BatchPart,
        parts: &mut Vec<BatchPart>,
        requested: &mut RequestReport<T>,
    ) {
        let others_are_answered = !requested.answered.is_empty();
        if part.failed_before && others_are_answered && requested.failures_in_a_row < REFUSED_IN_A_ROW {
            requested.failures_in_a_row += 1;
            tracing::warn!(ids = part.jobs.len(), error = why, "the call fails while others of its batch are answered");
            if part.jobs.len() > 1 {
                part.halve(self.lookup.capabilities().batch_limit, parts);
            } else {
                requested.failed.extend(part.jobs);
            }
        } else {
            requested.outlook = Outlook::Outage(why);
            requested.unanswered.extend(part.jobs);
        }
    }

    /// Returns the part that fits into the budget; all of it if reads are not counted. The rest goes back unchanged.
    async fn reserve_reads(
        &self,
        mut part: BatchPart,
        permit: Permit,
        requested: &mut RequestReport<T>,
    ) -> Option<(BatchPart, Permit)> {
        let reads: Vec<Vec<String>> = requested.ids(&part.jobs).iter().map(|id| self.lookup.read_keys(id)).collect();
        let granted = match self.credentials.reserve_items(&permit, &reads).await {
            Ok(None) => return Some((part, permit)),
            Ok(Some(granted)) => granted,
            Err(error) => {
                // A read that was not counted must not be made.
                self.credentials.return_permit(permit).await;
                requested.outlook = Outlook::Outage(error.to_string());
                requested.unanswered.append(&mut part.jobs);
                return None;
            }
        };
        let (jobs, rest): (Vec<_>, Vec<_>) = part.jobs.into_iter().zip(granted).partition(|(_, granted)| *granted);
        requested.unanswered.extend(rest.into_iter().map(|(job, _)| job));
        part.jobs = jobs.into_iter().map(|(job, _)| job).collect();
        if part.jobs.is_empty() {
            self.credentials.return_permit(permit).await;
            return None;
        }
        Some((part, permit))
    }

    /// Makes one call, counts it and logs its failure. A refusal that is not the credential's fault becomes the outcome of an id that was
    /// alone, or else a [`LookupError::BadRequest`]. `example`: one of its items. `is_own`: an outage concerns only its ids.
    async fn look_up(
        &self,
        (ids, example): (Vec<String>, Option<&str>),
        permit: Permit,
        batch: &Batch,
        is_own: bool,
    ) -> Result<Answer<T>, LookupError> {
        let (blame, started, is_trial) = (OnceLock::new(), Stopwatch::start(), permit.is_trial());
        let call = async |credential: &Credential| {
            task::step("looks up");
            failpoint::abort_soon("during_lookup");
            let place = (self.lookup.capabilities().endpoint, example);
            let answer = self.metrics.call(place, ids.len(), self.lookup.look_up(&ids, credential)).await;
            failpoint::point("after_answer");
            failpoint::abort_on_poison(ids.iter().map(String::as_str));
            answer
        };
        let accounting = async |credential: &Credential, answer: &Result<Answer<T>, LookupError>| {
            let charged = self.charged_reads(&ids, answer);
            match answer {
                Ok(answer) => {
                    self.failure_tracker.others_answered.store(true, Ordering::Relaxed);
                    self.failure_tracker.evidence.record_answer(&credential.name, returned_ids(&ids, answer));
                    self.metrics.counters.unsolicited.add(answer.unsolicited);
                    self.log_odd_answers(&ids, answer);
                    CallReport { quota: answer.quota, park: None, charged }
                }
                Err(error) => {
                    let is_of_all = !(is_own && matches!(error, LookupError::Overloaded { .. }));
                    let mut park = error.park().filter(|_| is_of_all);
                    if error.is_about_credential() {
                        let refused = Refusal { credential: &credential.name, items: &ids, started, is_trial };
                        let judged = self
                            .failure_tracker
                            .evidence
                            .judge(refused, |witness| self.request_witness(witness, credential, batch).boxed())
                            .await;
                        park = match (park, blame.get_or_init(|| judged)) {
                            (Some(park), Blame::Credential { everywhere }) => {
                                Some(Park { everywhere: park.everywhere && *everywhere, ..park })
                            }
                            _ => None,
                        };
                    }
                    if park.is_some() && error.is_about_credential() {
                        let place =
                            ErrorPlace { endpoint: self.lookup.capabilities().endpoint, ..ErrorPlace::default() };
                        self.metrics.errors.record(ErrorKind::Credential, &error.to_string(), place);
                    }
                    if park.is_some() || !error.is_about_credential() {
                        log_failure(error, &credential.name, park.as_ref());
                    }
                    CallReport { quota: None, park, charged }
                }
            }
        };
        let answer = make_metered_call(self.credentials, permit, call, accounting).await;
        match (answer, blame.into_inner()) {
            (Err(error), Some(Blame::Items)) if ids.len() > 1 => Err(LookupError::BadRequest(error.to_string())),
            (Err(error), Some(Blame::Items)) => {
                self.log_hidden(&ids, &error);
                Ok(Answer::new(vec![Outcome::Absent(Absence::Protected)], None, UnsolicitedObjects::default()))
            }
            (Err(error), Some(Blame::Unclear(why))) => {
                Err(LookupError::Outage(format!("{error}; no other id shows whether the credential works: {why}")))
            }
            (answer, _) => answer,
        }
    }

    /// Requests an id that the API returned to this credential before. The answer only shows that the credential works.
    async fn request_witness(&self, witness: String, credential: &Credential, batch: &Batch) -> Testimony {
        if self.time_is_up(batch) {
            return Testimony::None("the lease has no time left for another call".to_owned());
        }
        let permit =
            match acquire_witness_permit(self.credentials, credential, self.lookup.capabilities().endpoint).await {
                Ok(permit) => permit,
                Err(none) => return none,
            };
        let ids = [witness];
        match self.credentials.reserve_items(&permit, &[self.lookup.read_keys(&ids[0])]).await {
            Ok(None) => {}
            Ok(Some(granted)) if !granted.contains(&false) => {}
            refused => {
                self.credentials.return_permit(permit).await;
                let full = "the budget of reads has no room".to_owned();
                return Testimony::None(refused.map_or_else(|error| error.to_string(), |_| full));
            }
        }
        let place = (self.lookup.capabilities().endpoint, None);
        let call =
            async |credential: &Credential| self.metrics.call(place, 1, self.lookup.look_up(&ids, credential)).await;
        let accounting = async |_: &Credential, answer: &Result<Answer<T>, LookupError>| CallReport {
            quota: answer.as_ref().ok().and_then(|answer| answer.quota),
            park: park_after_witness(answer),
            charged: self.charged_reads(&ids, answer),
        };
        make_metered_call(self.credentials, permit, call, accounting).await.into()
    }

    fn charged_reads(&self, ids: &[String], answer: &Result<Answer<T>, LookupError>) -> ChargedReads {
        let mut charged = charged_reads(ids, answer);
        charged.unread = charged.unread.iter().flat_map(|id| self.lookup.read_keys(id)).collect();
        charged
    }

    fn log_hidden(&self, ids: &[String], error: &LookupError) {
        let namespace = self.namespace;
        if let Some(refusals) = self.failure_tracker.hidden_log.count_if_due(ids.len()) {
            tracing::warn!(
                namespace,
                refusals,
                %error,
                "the API refuses an id but returns others to the same credential: the id counts as missing"
            );
        }
        tracing::debug!(namespace, id = ids.first(), "the API refuses this id alone");
    }

    /// Logs unrequested objects, and objects under another id: one line each, at a limited rate.
    fn log_odd_answers(&self, ids: &[String], answer: &Answer<T>) {
        let namespace = self.namespace;
        if answer.unsolicited > 0
            && let Some(objects) = self.failure_tracker.unrequested_log.count_if_due(answer.unsolicited)
        {
            let id = answer.first_unsolicited.as_deref().map_or_else(String::new, escape_id);
            tracing::warn!(namespace, id, objects, "answers contain unrequested objects: they are not stored");
        }
        let other = |(asked, outcome): (&'_ String, &'_ Outcome<T>)| match outcome {
            Outcome::Found(item) if item.id() != *asked => Some((asked.clone(), item.id().to_owned())),
            _ => None,
        };
        let others: Vec<_> = ids.iter().zip(&answer.outcomes).filter_map(other).collect();
        if let Some((asked, came)) = others.first()
            && let Some(posts) = self.failure_tracker.other_id_log.count_if_due(others.len())
        {
            let (id, came) = (escape_id(asked), escape_id(came));
            tracing::info!(
                namespace,
                id,
                came,
                posts,
                "posts came under another id than the requested one: they were edited"
            );
        }
    }

    async fn try_acquire_permit(&self) -> Option<Permit> {
        match self.credentials.acquire(self.lookup.capabilities().endpoint, 0).await {
            Ok(AcquireOutcome::Granted(permit)) => Some(permit),
            Ok(AcquireOutcome::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(error = %error, "no further calls for this batch: the quota ledger does not answer");
                None
            }
        }
    }

    /// Returns true if the lease has too little time left for another call and its save.
    fn time_is_up(&self, batch: &Batch) -> bool {
        let needed = clock::millis(self.call_and_save_time);
        batch.fence.deadline - batch.now.now() <= needed
    }
}

fn log_failure(error: &LookupError, name: &str, park: Option<&Park>) {
    let pause_ms = park.map_or(0, |park| clock::millis(park.pause));
    match error {
        LookupError::Throttled { .. } => {
            tracing::warn!(credential = name, %error, pause_ms, "out of quota: the credential is parked");
        }
        LookupError::Overloaded { .. } if park.is_some() => {
            tracing::warn!(credential = name, %error, pause_ms, "the API asks to wait: the credential is parked");
        }
        LookupError::Credential(why) => {
            tracing::error!(
                credential = name,
                error = why,
                pause_ms,
                "refused by the API: the credential is parked; once it is fixed, run `credentials --check`"
            );
        }
        LookupError::Unready(_) => tracing::warn!(credential = name, %error, pause_ms, "the credential is parked"),
        LookupError::Clock(offset_ms) => {
            tracing::warn!(credential = name, offset_ms, "this machine's clock is off: corrected by the API's clock");
        }
        _ => {}
    }
}

fn returned_ids<'a, T>(ids: &'a [String], answer: &'a Answer<T>) -> impl Iterator<Item = &'a str> {
    let found = |(id, outcome): (&'a String, &Outcome<T>)| matches!(outcome, Outcome::Found(_)).then_some(id.as_str());
    ids.iter().zip(&answer.outcomes).filter_map(found)
}
