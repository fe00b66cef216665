//! The calls for one batch, and the meaning of each kind of refusal.
//!
//! A batch usually needs one call. A request that is refused as a whole, or keeps failing while others are answered, is halved until the
//! bad id is alone. The next credential replaces one that is refused or used up. Each further call takes its own permit, without waiting;
//! ids without a permit go back unchanged.

mod explain;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;

use super::judge::Item;
use crate::base::clock::{self, Millis, Stopwatch};
use crate::base::failpoint;
use crate::base::random;
use crate::base::rarely::{Rarely, escape_id};
use crate::base::task;
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Batch, Job};
use crate::engine::worker::Outlook;
use crate::model::account::Absence;
use crate::pipelines::blame::{Blame, Evidence, Refused, Testimony, park_of_witness, permit_for};
use crate::providers::lookup::{Answer, Lookup, LookupError, Outcome, Strangers};
use crate::providers::metered::{CallReport, metered};
use crate::quota::{Acquired, ChargedReads, Credential, Credentials, Park, Permit};

/// Limit of consecutive requests refused as a whole: seven halvings isolate one bad id among a hundred, so its eighth request has it
/// alone.
const REFUSED_IN_A_ROW: u32 = 8;
/// Calls without an answer for the same ids before they go back: a correction of the clock, and a few credentials.
const TRIES: usize = 8;

/// Maximum remembered suspects, far above need. Without it, suspects that never come again would stay in memory.
const MANY_DOUBTS: usize = 100_000;

/// Version to request, by the id of the post.
pub(super) type Versions = HashMap<String, String>;

#[derive(Debug)]
pub(super) struct Requested<T> {
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
    in_a_row: u32,
    versions: Versions,
    /// Reason why a credential was useless: an outage, unless another one was answered.
    unready: Option<String>,
}

impl<T> Requested<T> {
    fn new(versions: Versions) -> Self {
        Self {
            answered: Vec::new(),
            refused: Vec::new(),
            failed: Vec::new(),
            postponed: Vec::new(),
            deferred: Vec::new(),
            unanswered: Vec::new(),
            outlook: Outlook::default(),
            in_a_row: 0,
            versions,
            unready: None,
        }
    }

    fn ids(&self, jobs: &[Job]) -> Vec<String> {
        jobs.iter().map(|job| self.versions.get(&job.id).unwrap_or(&job.id).clone()).collect()
    }
}

#[derive(Default)]
struct BatchPart {
    jobs: Vec<Job>,
    tries: usize,
    /// Calls for some of them failed at least twice before.
    failed_before: bool,
}

impl BatchPart {
    /// Splits it in half, in random order: in a fixed one, the same bad ids could use up all tries of each batch. Splits halves with more
    /// than `limit` ids, the limit of a call, into parts of that size.
    fn halve(mut self, limit: usize, parts: &mut Vec<BatchPart>) {
        if self.jobs.len() > 2 * limit {
            parts.extend(self.split(limit));
            return;
        }
        let jobs = self.jobs.split_off(self.jobs.len() / 2);
        let second = BatchPart { jobs, failed_before: self.failed_before, ..BatchPart::default() };
        let first = BatchPart { jobs: self.jobs, failed_before: self.failed_before, ..BatchPart::default() };
        parts.extend(if random::share() < 0.5 { [first, second] } else { [second, first] });
    }

    fn split(self, limit: usize) -> impl Iterator<Item = BatchPart> {
        let BatchPart { mut jobs, tries, failed_before } = self;
        std::iter::from_fn(move || {
            let rest = jobs.split_off(limit.max(1).min(jobs.len()));
            let jobs = std::mem::replace(&mut jobs, rest);
            (!jobs.is_empty()).then_some(BatchPart { jobs, tries, failed_before })
        })
    }
}

/// Suspicions about the provider, in this process's memory only: a lost one costs a repeated call.
#[derive(Debug, Default)]
pub struct Suspicions {
    /// Failed calls by id, until it is answered.
    failed: Mutex<HashMap<String, u32>>,
    /// True if a call was answered since the last blame of a separate job: the API does not refuse all.
    others_answered: AtomicBool,
    evidence: Evidence,
    /// Rate limits of log lines: unrequested objects, answers under another id, and ids that the API refuses alone.
    strangers: Rarely,
    other_ids: Rarely,
    hidden: Rarely,
}

impl Suspicions {
    fn fail(&self, jobs: &[Job]) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() > MANY_DOUBTS {
            failed.clear();
        }
        for job in jobs {
            *failed.entry(job.id.clone()).or_default() += 1;
        }
    }

    fn times(&self, jobs: &[Job]) -> Vec<u32> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().map(|job| failed.get(&job.id).copied().unwrap_or(0)).collect()
    }

    /// Returns true if at least two calls failed for each of them: one failure may be temporary.
    fn doubts(&self, jobs: &[Job]) -> bool {
        self.times(jobs).iter().all(|times| *times > 1)
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

/// Makes the calls of a pipeline's batches within its quota and budget, and finds the ids that fail on their own.
pub(super) struct Calls<'a, T> {
    pub namespace: &'a str,
    pub lookup: &'a dyn Lookup<T>,
    pub credentials: &'a Credentials,
    pub metrics: &'a Metrics,
    pub suspicions: &'a Suspicions,
    /// Lane whose jobs get one call each.
    pub alone: Option<&'a str>,
    /// Time limit for a call and the save after it.
    pub time_for_one: Duration,
}

impl<T: Item> Calls<'_, T> {
    pub(super) async fn request(&self, batch: &Batch, versions: Versions, permit: Permit) -> Requested<T> {
        let mut requested = Requested::new(versions);
        if let [job] = &batch.jobs[..]
            && self.suspicions.evidence.defer_once(&job.id)
        {
            self.credentials.give_back(permit).await;
            requested.deferred.push(job.clone());
            requested.outlook = Outlook::Unchanged;
            return requested;
        }
        let mut permit = Some(permit);
        let limit = self.lookup.capabilities().batch_limit;
        // `parts` is a stack: both halves of a failed part are looked up before the next part. The batch was claimed with the limit of
        // that time; the server may have turned out to take fewer ids.
        let mut parts: Vec<BatchPart> =
            self.parts(&batch.jobs).into_iter().flat_map(|part| part.split(limit)).collect();
        while let Some(part) = parts.pop() {
            let leave = match permit.take() {
                Some(permit) => Some(permit),
                None if self.time_is_up(batch) => None,
                None => self.permit_at_once().await,
            };
            let Some(permit) = leave else {
                requested.unanswered.extend(part.jobs);
                continue;
            };
            let Some((part, permit)) = self.within_budget(part, permit, &mut requested).await else {
                if requested.outlook != Outlook::Fine {
                    requested.unanswered.extend(parts.drain(..).flat_map(|part| part.jobs));
                }
                continue;
            };
            // The start of the call dates the answer, on the queue's clock. Dated by its arrival, an answer that lay unread while the
            // process was stopped would look newer than later knowledge of others. A date inside the lease is older than any answer of
            // the next worker.
            let at = batch.now.now().min(batch.fence.deadline - 1);
            // If the API answers other ids of the batch, a repeated failure of these ids is not the credential's fault.
            let is_own = part.failed_before && !requested.answered.is_empty();
            let example = part.jobs.first().map(|job| &*job.id);
            let error = match self.look_up((requested.ids(&part.jobs), example), permit, batch, is_own).await {
                Ok(answer) => {
                    self.suspicions.answered(&part.jobs);
                    requested.in_a_row = 0;
                    requested
                        .answered
                        .extend(part.jobs.into_iter().zip(answer.outcomes).map(|(job, outcome)| (job, outcome, at)));
                    continue;
                }
                Err(error) => error,
            };
            self.after(error, part, &mut parts, &mut requested);
            if requested.outlook != Outlook::Fine {
                requested.unanswered.extend(parts.drain(..).flat_map(|part| part.jobs));
            }
        }
        self.explain(&mut requested.answered, batch).await;
        if requested.answered.is_empty() {
            if requested.outlook == Outlook::Fine {
                requested.outlook = requested.unready.take().map_or(Outlook::Unchanged, Outlook::Outage);
            }
            self.withhold_blame_if_ambiguous(batch, &mut requested);
        }
        requested
    }

    /// Parts for the first calls, the last one first. One part, unless calls for some jobs failed at least twice: those would always come
    /// first.
    ///
    /// Jobs without failed calls go first. Their answer shows that the API works; a call that fails after that has a bad id, and is
    /// halved. A lease has time for few timeouts, so the next batch continues: answered ids are no longer suspects. Suspects go in random
    /// parts. The first is smaller each time, because several ids may be bad. Each further part is twice as large, because all ids are
    /// suspects after an outage. In an outage the first call is enough.
    fn parts(&self, jobs: &[Job]) -> Vec<BatchPart> {
        let is_alone = |job: &&Job| self.alone.is_some_and(|lane| *job.lane == *lane);
        let (alone, together): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(is_alone);
        let alone = alone.into_iter().map(|job| vec![job.clone()]);
        let mut parts: Vec<BatchPart> = alone
            .map(|jobs| BatchPart { failed_before: self.suspicions.doubts(&jobs), jobs, ..BatchPart::default() })
            .collect();
        if !together.is_empty() {
            parts.extend(self.parts_together(&together.into_iter().cloned().collect::<Vec<Job>>()));
        }
        parts
    }

    fn parts_together(&self, jobs: &[Job]) -> Vec<BatchPart> {
        let part = |jobs, failed_before| BatchPart { jobs, failed_before, ..BatchPart::default() };
        let (mut doubted, mut least, mut others) = (Vec::new(), u32::MAX, Vec::new());
        for (job, times) in jobs.iter().zip(self.suspicions.times(jobs)) {
            // One failure may be temporary, and may have hit all calls in flight.
            if times > 1 {
                least = least.min(times);
                doubted.push(job.clone());
            } else {
                others.push(job.clone());
            }
        }
        if doubted.is_empty() || jobs.len() == 1 {
            return vec![part(jobs.to_vec(), !doubted.is_empty())];
        }
        let mut parts = Vec::new();
        if !others.is_empty() {
            parts.push(part(others, false));
        }
        random::shuffle(&mut doubted);
        let mut size = doubted.len().checked_shr(least - 1).unwrap_or(0).max(1);
        while !doubted.is_empty() {
            let rest = doubted.split_off(size.min(doubted.len()));
            parts.push(part(std::mem::replace(&mut doubted, rest), true));
            size *= 2;
        }
        parts.reverse();
        parts
    }

    /// Withholds blame if nothing shows the id at fault, and avoids a busy loop. A single job, or suspects, may be blamed if others were
    /// answered since the last such blame. So an API that refuses all causes one blame per process.
    fn withhold_blame_if_ambiguous(&self, batch: &Batch, requested: &mut Requested<T>) {
        let suspects = batch.jobs.iter().all(|job| job.deliveries > 0);
        let apart = suspects || batch.jobs.len() == 1;
        let refused = requested.in_a_row > 0;
        let is_unambiguous = || apart && self.suspicions.others_answered.swap(false, Ordering::Relaxed);
        if !requested.refused.is_empty() && !is_unambiguous() {
            if requested.outlook == Outlook::Unchanged {
                requested.outlook = Outlook::Outage("each id of a batch is refused alone".to_owned());
            }
            requested.unanswered.extend(requested.refused.drain(..).map(|(job, _)| job));
        }
        // Given back unchanged, they would be the most urgent again, and a few bad ids would take all calls. Others go first: their
        // answers decide.
        let out = matches!(requested.outlook, Outlook::Outage(_));
        // If a call takes one id, no other answer can decide.
        let lone = self.lookup.capabilities().batch_limit == 1 && self.suspicions.doubts(&batch.jobs);
        if apart && refused || out && (suspects && batch.jobs.len() == 1 || lone) {
            requested.postponed.append(&mut requested.unanswered);
        }
    }

    fn after(&self, error: LookupError, mut part: BatchPart, parts: &mut Vec<BatchPart>, requested: &mut Requested<T>) {
        match error {
            // Nothing is smaller than one id: an API that finds it too large is faulty.
            LookupError::BatchTooLarge(_) if part.jobs.len() <= 1 => {
                self.suspicions.fail(&part.jobs);
                requested.outlook = Outlook::Outage(error.to_string());
                requested.unanswered.extend(part.jobs);
            }
            LookupError::BadRequest(why) | LookupError::BatchTooLarge(why) => {
                requested.in_a_row += 1;
                let in_a_row = requested.in_a_row;
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
            LookupError::Clock(_) if part.tries == 0 => parts.push(BatchPart { tries: TRIES, ..part }),
            LookupError::Throttled { .. } | LookupError::Credential(_) | LookupError::Unready(_) => {
                if let LookupError::Unready(_) = error {
                    requested.unready = Some(error.to_string());
                }
                if error.is_about_credential() {
                    // One of these ids may still be the cause: the next calls request them in smaller parts.
                    self.suspicions.fail(&part.jobs);
                }
                if part.tries < TRIES {
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
                self.suspicions.fail(&part.jobs);
                self.failed(error.to_string(), part, parts, requested);
            }
        }
    }

    /// Handles a failed call: an outage, unless it failed before while others of its batch are answered.
    fn failed(&self, why: String, part: BatchPart, parts: &mut Vec<BatchPart>, requested: &mut Requested<T>) {
        let others_are_answered = !requested.answered.is_empty();
        if part.failed_before && others_are_answered && requested.in_a_row < REFUSED_IN_A_ROW {
            requested.in_a_row += 1;
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

    /// Reserves reads. Returns the part that fits into the budget; all of it if reads are not counted. The rest goes back unchanged.
    async fn within_budget(
        &self,
        mut part: BatchPart,
        permit: Permit,
        requested: &mut Requested<T>,
    ) -> Option<(BatchPart, Permit)> {
        let reads: Vec<Vec<String>> = requested.ids(&part.jobs).iter().map(|id| self.lookup.reads(id)).collect();
        let granted = match self.credentials.reserve_items(&permit, &reads).await {
            Ok(None) => return Some((part, permit)),
            Ok(Some(granted)) => granted,
            Err(error) => {
                // A read that was not counted must not be made.
                self.credentials.give_back(permit).await;
                requested.outlook = Outlook::Outage(error.to_string());
                requested.unanswered.append(&mut part.jobs);
                return None;
            }
        };
        let (jobs, rest): (Vec<_>, Vec<_>) = part.jobs.into_iter().zip(granted).partition(|(_, granted)| *granted);
        requested.unanswered.extend(rest.into_iter().map(|(job, _)| job));
        part.jobs = jobs.into_iter().map(|(job, _)| job).collect();
        if part.jobs.is_empty() {
            self.credentials.give_back(permit).await;
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
            failpoint::soon("during_lookup");
            let place = (self.lookup.capabilities().endpoint, example);
            let answer = self.metrics.call(place, ids.len(), self.lookup.look_up(&ids, credential)).await;
            failpoint::point("after_answer");
            failpoint::poison(&ids);
            answer
        };
        let accounting = async |credential: &Credential, answer: &Result<Answer<T>, LookupError>| {
            let charged = self.charged(&ids, answer);
            match answer {
                Ok(answer) => {
                    self.suspicions.others_answered.store(true, Ordering::Relaxed);
                    self.suspicions.evidence.answered(&credential.name, returned(&ids, answer));
                    self.metrics.counters.unsolicited.add(answer.unsolicited);
                    self.tell_what_is_odd(&ids, answer);
                    CallReport { quota: answer.quota, park: None, charged }
                }
                Err(error) => {
                    let is_of_all = !(is_own && matches!(error, LookupError::Overloaded { .. }));
                    let mut park = error.park().filter(|_| is_of_all);
                    if error.is_about_credential() {
                        let refused = Refused { credential: &credential.name, items: &ids, started, is_trial };
                        let judged = self
                            .suspicions
                            .evidence
                            .judge(refused, |witness| self.ask_for_witness(witness, credential, batch).boxed())
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
        let answer = metered(self.credentials, permit, call, accounting).await;
        match (answer, blame.into_inner()) {
            (Err(error), Some(Blame::Items)) if ids.len() > 1 => Err(LookupError::BadRequest(error.to_string())),
            (Err(error), Some(Blame::Items)) => {
                self.log_hidden(&ids, &error);
                Ok(Answer::new(vec![Outcome::Absent(Absence::Protected)], None, Strangers::default()))
            }
            (Err(error), Some(Blame::Unclear(why))) => {
                Err(LookupError::Outage(format!("{error}; no other id shows whether the credential works: {why}")))
            }
            (answer, _) => answer,
        }
    }

    /// Requests an id that the API returned to this credential before. The answer only shows that the credential works.
    async fn ask_for_witness(&self, witness: String, credential: &Credential, batch: &Batch) -> Testimony {
        if self.time_is_up(batch) {
            return Testimony::None("the lease has no time left for another call".to_owned());
        }
        let permit = match permit_for(self.credentials, credential, self.lookup.capabilities().endpoint).await {
            Ok(permit) => permit,
            Err(why) => return Testimony::None(why),
        };
        let ids = [witness];
        match self.credentials.reserve_items(&permit, &[self.lookup.reads(&ids[0])]).await {
            Ok(None) => {}
            Ok(Some(granted)) if !granted.contains(&false) => {}
            refused => {
                self.credentials.give_back(permit).await;
                let full = "the budget of reads has no room".to_owned();
                return Testimony::None(refused.map_or_else(|error| error.to_string(), |_| full));
            }
        }
        let place = (self.lookup.capabilities().endpoint, None);
        let call =
            async |credential: &Credential| self.metrics.call(place, 1, self.lookup.look_up(&ids, credential)).await;
        let accounting = async |_: &Credential, answer: &Result<Answer<T>, LookupError>| CallReport {
            quota: answer.as_ref().ok().and_then(|answer| answer.quota),
            park: park_of_witness(answer),
            charged: self.charged(&ids, answer),
        };
        metered(self.credentials, permit, call, accounting).await.into()
    }

    fn charged(&self, ids: &[String], answer: &Result<Answer<T>, LookupError>) -> ChargedReads {
        let mut charged = charged(ids, answer);
        charged.unread = charged.unread.iter().flat_map(|id| self.lookup.reads(id)).collect();
        charged
    }

    fn log_hidden(&self, ids: &[String], error: &LookupError) {
        let namespace = self.namespace;
        if let Some(refusals) = self.suspicions.hidden.is_due(ids.len()) {
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
    fn tell_what_is_odd(&self, ids: &[String], answer: &Answer<T>) {
        let namespace = self.namespace;
        if answer.unsolicited > 0
            && let Some(objects) = self.suspicions.strangers.is_due(answer.unsolicited)
        {
            let id = answer.stranger.as_deref().map_or_else(String::new, escape_id);
            tracing::warn!(namespace, id, objects, "answers contain unrequested objects: they are not stored");
        }
        let other = |(asked, outcome): (&'_ String, &'_ Outcome<T>)| match outcome {
            Outcome::Found(item) if item.id() != *asked => Some((asked.clone(), item.id().to_owned())),
            _ => None,
        };
        let others: Vec<_> = ids.iter().zip(&answer.outcomes).filter_map(other).collect();
        if let Some((asked, came)) = others.first()
            && let Some(posts) = self.suspicions.other_ids.is_due(others.len())
        {
            let (id, came) = (escape_id(asked), escape_id(came));
            tracing::info!(
                namespace,
                id,
                came,
                posts,
                "posts came under another id than the asked one: they were edited"
            );
        }
    }

    /// Acquires a permit for a further call, if there is one now.
    async fn permit_at_once(&self) -> Option<Permit> {
        match self.credentials.acquire(self.lookup.capabilities().endpoint, 0).await {
            Ok(Acquired::Granted(permit)) => Some(permit),
            Ok(Acquired::Wait(_)) => None,
            Err(error) => {
                tracing::warn!(error = %error, "no further call without the ledger");
                None
            }
        }
    }

    /// Returns true if the lease has too little time left for another call and its save.
    fn time_is_up(&self, batch: &Batch) -> bool {
        let needed = clock::millis(self.time_for_one);
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

fn returned<'a, T>(ids: &'a [String], answer: &'a Answer<T>) -> impl Iterator<Item = &'a str> {
    let found = |(id, outcome): (&'a String, &Outcome<T>)| matches!(outcome, Outcome::Found(_)).then_some(id.as_str());
    ids.iter().zip(&answer.outcomes).filter_map(found)
}

/// Ids of a call that were not returned, or were returned under another id: only returned posts are charged.
fn charged<T: Item>(ids: &[String], answer: &Result<Answer<T>, LookupError>) -> ChargedReads {
    let mut charged = ChargedReads::default();
    match answer {
        Ok(answer) => {
            for (id, outcome) in ids.iter().zip(&answer.outcomes) {
                match outcome {
                    Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) => charged.unread.push(id.clone()),
                    // An edited post arrives as its last version.
                    Outcome::Found(item) if item.id() != *id => {
                        charged.edited.push((id.clone(), item.id().to_owned()));
                    }
                    Outcome::Found(_) | Outcome::Broken(_) => {}
                }
            }
        }
        Err(error) if error.is_refusal() => charged.unread = ids.to_vec(),
        // A lost answer may have been charged: it stays counted.
        Err(_) => {}
    }
    charged
}
