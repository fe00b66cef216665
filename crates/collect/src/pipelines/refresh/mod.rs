//! The refresher of every pipeline that looks items up again and again: request, judge, save, settle.
//!
//! ```text
//!   batch ─▶ request (batch_caller.rs) ─▶ judge ─▶ save ─▶ verdicts, to the worker
//!             halves, suspects      │ misses.rs: confirmation of a miss
//!             blame (blame.rs)      │ mass_miss_alert.rs: far more misses than usual
//!                                   │ found items: the kind's own [`Judge`]
//!                                   └ fan_out.rs: ids of other kinds that follow from it
//! ```
//!
//! A [`Schedules`] sets the next due date, a [`Judge`] decides the meaning and storage of a found item.
//! `requestTweets`, `saveTweets` and `promoteTweets` of the specification are `BatchCaller::request`, `Refresher::save` and
//! `Refresher::promote`; its `Config.getTweetUpdateDelay` is
//! [`AgeTable::update_delay`](engine::schedule::age::AgeTable::update_delay).

mod arrival;
mod batch_caller;
mod fan_out;
mod history;
mod judge;
pub mod mass_miss_alert;
pub mod misses;
mod refused_answers;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;

pub use self::arrival::{AccountEvidence, Arrival};
pub use self::batch_caller::FailureTracker;
use self::batch_caller::{BatchCaller, RequestReport, Versions};
pub use self::fan_out::{FanOutTarget, Mention, Mentions, QueueChanges, Receiver, apply_to_targets};
pub use self::judge::{Item, Judge, JudgedItem};
use self::mass_miss_alert::MassMissAlert;
use self::misses::MissState;
pub use self::misses::UnavailableSettings;
use crate::pipelines::store_call::PipelineStore;
use engine::base::call_error::ErrorKind;
use engine::base::clock::{Millis, Stopwatch};
use engine::base::failpoint;
use engine::base::reload::Reloadable;
use engine::base::task;
use engine::error_log::ErrorPlace;
use engine::lane::{Lane, ONCE};
use engine::metrics::Metrics;
use engine::queue::{Batch, Job, Verdict};
use engine::quota::{Credentials, Permit};
use engine::schedule::adaptive::budget::Spending;
use engine::schedule::{Next, Schedule, ScheduledItem, Schedules};
use engine::worker::{BatchOutcome, Handler, Outlook};
use networks::model::account::Absence;
use networks::model::post::ItemState;
use networks::providers::lookup::{Lookup, Outcome};
use store::{Finding, LastAnswer, Observation, Standing, StoreError};

pub const UNAVAILABLE_LANE: &str = "unavailable";

/// Delay between two attempts of a request that is refused as a whole.
const REFUSED_RETRY_MS: Millis = 1_000;
/// Delay before an id whose call failed alone is requested again: one call and one step of the back-off.
const FAILED_RETRY_MS: Millis = 60_000;
/// Wait of an id that is looked up once and was missing in an answer, ms.
const ONCE_RETRY_MS: Millis = 60_000;
/// Delay of a deferred id, ms: ids that become due in this time are looked up before it.
const DEFERRAL_MS: Millis = 5_000;

pub struct Refresher<J: Judge> {
    pub items: PipelineStore,
    pub lookup: Arc<dyn Lookup<J::Item>>,
    pub judge: J,
    pub fan_out: Vec<FanOutTarget>,
    pub credentials: Arc<Credentials>,
    pub schedule: Arc<dyn Schedules>,
    pub unavailable: UnavailableSettings,
    /// Last mass-miss alert over all workers.
    pub wave: Reloadable<Option<MassMissAlert>>,
    pub call_timeout: Duration,
    pub metrics: Arc<Metrics>,
    pub failure_tracker: FailureTracker,
}

/// Judged answers in parallel lists: each job, its record for the store, and its verdict for the queue.
struct JudgedAnswers<T> {
    jobs: Vec<Job>,
    observations: Vec<Observation<T>>,
    verdicts: Vec<Verdict>,
    mentions: Mentions,
    found: usize,
    /// Misses of items that were known to live.
    missed: usize,
    /// Calls and events of found items, for the schedule's budget.
    spent: Spending,
}

#[async_trait]
impl<J: Judge> Handler for Refresher<J> {
    fn endpoint(&self) -> &'static str {
        self.lookup.capabilities().endpoint
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        if let Some((job, reason)) = self.items.repeated_crash(batch) {
            self.credentials.return_permit(permit).await;
            return match self.items.run_with_timeout(self.mark_dead(batch, job, reason)).await {
                Ok(verdict) => BatchOutcome { verdicts: vec![(job.clone(), verdict)], ..BatchOutcome::default() },
                Err(outlook) => BatchOutcome::released(batch, outlook),
            };
        }
        let versions = match self.items.run_with_timeout(self.newest_versions(&batch.jobs)).await {
            Ok(versions) => versions,
            Err(outlook) => {
                self.credentials.return_permit(permit).await;
                return BatchOutcome::released(batch, outlook);
            }
        };
        let requested = self.calls().request(batch, versions, permit).await;
        let RequestReport { answered, refused, failed, postponed, deferred, unanswered, outlook, .. } = requested;
        let watch = Stopwatch::start();
        let mut naming_items = HashSet::new();
        let (mut handled, changes) =
            match self.items.run_with_timeout(self.judge_and_save(batch, answered, refused, &mut naming_items)).await {
                Ok((done, changes)) => (BatchOutcome { outlook, ..done }, changes),
                Err(outlook) => {
                    let mut released = BatchOutcome::released(batch, outlook);
                    // Their answers may be stored nevertheless.
                    let again: Vec<Job> =
                        released.release.extract_if(.., |job| naming_items.contains(&job.id)).collect();
                    redeliver(again, &mut released);
                    return released;
                }
            };
        // The lease has room for one save: the other queues get the rest of its time.
        let left = self.items.save_timeout.saturating_sub(watch.elapsed());
        let others = self.fan_out.iter().zip(&changes).filter(|(_, received)| !received.is_empty());
        let counters = &self.metrics.counters;
        let taken = join_all(others.map(|(target, received)| target.apply_changes(received, left, counters))).await;
        if taken.contains(&false) {
            let again = handled.verdicts.extract_if(.., |(job, _)| naming_items.contains(&job.id));
            let again: Vec<Job> = again.map(|(job, _)| job).collect();
            // Each of these calls was wasted, so the next need not hurry. If others of the batch are done, this pipeline works.
            if !again.is_empty() && handled.verdicts.is_empty() && handled.outlook == Outlook::Fine {
                handled.outlook = Outlook::Outage("the queue of another pipeline takes no ids".to_owned());
            }
            redeliver(again, &mut handled);
        }
        // The job becomes a suspect, so that it spoils no other call. No more than that: the cause of a failure is never certain.
        let later = |job| (job, Verdict::Suspect { after: FAILED_RETRY_MS });
        handled.verdicts.extend(failed.into_iter().map(later));
        let uncounted = Verdict::Retry { after: FAILED_RETRY_MS, counted: false };
        handled.verdicts.extend(postponed.into_iter().map(|job| (job, uncounted.clone())));
        let behind_others = Verdict::Retry { after: DEFERRAL_MS, counted: false };
        handled.verdicts.extend(deferred.into_iter().map(|job| (job, behind_others.clone())));
        handled.release.extend(unanswered);
        handled
    }

    /// Returns the jobs of a batch that was dropped at a forced stop. Their answers may be stored while the ids of other kinds in them
    /// are not in their queues yet, so the jobs are looked up again.
    fn handle_abandoned(&self, batch: &Batch) -> BatchOutcome {
        if self.fan_out.is_empty() {
            return BatchOutcome::released(batch, Outlook::Unchanged);
        }
        let mut handled = BatchOutcome { outlook: Outlook::Unchanged, ..BatchOutcome::default() };
        redeliver(batch.jobs.clone(), &mut handled);
        handled
    }
}

/// Returns jobs to their lanes whose answers may be stored while the ids in these answers are not in their queues yet: the next lookup
/// passes the ids on. The process runs on, so these leases would not expire. A job without a delivery gets one, which marks it as
/// looked up before; a second delivery would only make batches smaller.
fn redeliver(jobs: Vec<Job>, handled: &mut BatchOutcome) {
    for job in jobs {
        match job.deliveries {
            0 => handled.verdicts.push((job, Verdict::Suspect { after: 0 })),
            _ => handled.release.push(job),
        }
    }
}

impl<J: Judge> Refresher<J> {
    fn calls(&self) -> BatchCaller<'_, J::Item> {
        let Self { items, lookup, credentials, metrics, failure_tracker, .. } = self;
        let call_and_save_time = self.call_timeout + self.items.save_timeout;
        let separate_lane = self.unavailable.confirm.as_ref().map(|lane| &*lane.name);
        BatchCaller {
            namespace: &items.namespace,
            lookup: &**lookup,
            credentials,
            metrics,
            failure_tracker,
            separate_lane,
            call_and_save_time,
        }
    }

    /// Newest known version of each edited item, by its first id.
    async fn newest_versions(&self, jobs: &[Job]) -> Result<Versions, StoreError> {
        if !self.lookup.versions_have_ids() {
            return Ok(Versions::default());
        }
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.items.store.standing(&self.items.namespace, &ids).await?;
        Ok(ids.into_iter().zip(standings).filter_map(|(id, known)| Some((id, known?.current_id?))).collect())
    }

    /// Judges and saves the answers, and marks ids dead that were refused too often. Returns verdicts and counters for the queue, and the
    /// recorded ids of other kinds by target. `naming_items` gets the items to deliver again until the queue has taken their ids, before
    /// anything is written.
    async fn judge_and_save(
        &self,
        batch: &Batch,
        answered: Vec<(Job, Outcome<J::Item>, Millis)>,
        refused: Vec<(Job, String)>,
        naming_items: &mut HashSet<String>,
    ) -> Result<(BatchOutcome, Vec<QueueChanges>), StoreError> {
        let (mut done, mut changes) = (BatchOutcome::default(), Vec::new());
        if !answered.is_empty() {
            let mut judged = self.judge(answered).await?;
            *naming_items = std::mem::take(&mut judged.mentions.naming_items);
            changes = judged.mentions.record(&self.fan_out).await?;
            if self.save(&judged.observations).await? > 0 {
                self.apply_stored_refusals(&mut judged).await?;
            }
            done.tally = [(mass_miss_alert::FOUND, judged.found), (mass_miss_alert::MISSED, judged.missed)]
                .map(|(counter, by)| (counter, i64::try_from(by).unwrap_or(i64::MAX)))
                .into();
            if judged.spent != Spending::default() {
                done.tally.extend(judged.spent.to_counters());
            }
            done.verdicts = self.promote(judged);
        }
        for (job, why) in refused {
            let verdict = self.retry_or_mark_dead(batch, &job, &why).await?;
            done.verdicts.push((job, verdict));
        }
        Ok((done, changes))
    }

    async fn judge(
        &self,
        mut answered: Vec<(Job, Outcome<J::Item>, Millis)>,
    ) -> Result<JudgedAnswers<J::Item>, StoreError> {
        if let Some(at) = answered.first().map(|(.., at)| *at) {
            let found = answered.iter_mut().filter_map(|(_, outcome, _)| match outcome {
                Outcome::Found(item) => Some(item),
                _ => None,
            });
            self.judge.prepare(&*self.items.store, &self.items.namespace, found.collect(), at).await?;
        }
        let none_found = !answered.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Found(_)));
        let terms =
            JudgeTerms { schedule: self.schedule.current_schedule(), is_alert: self.is_mass_miss_alert(), none_found };
        let needs_history = terms.schedule.needs_history();
        // The whole stored state is needed only for an answer that lacks something or may name other ids. A comparison with the answer
        // before needs only that answer.
        let whole = answered.iter().all(|(job, outcome, _)| match outcome {
            // A job that was delivered before may have lost its lane.
            Outcome::Found(item) => {
                self.fan_out.is_empty()
                    && job.deliveries == 0
                    && *job.lane != *ONCE
                    && !self.judge.needs_standing(job, item)
            }
            Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) | Outcome::Broken(_) => false,
        });
        let ids = || answered.iter().map(|(job, ..)| job.id.clone()).collect::<Vec<String>>();
        let (standings, before) = match (whole, needs_history) {
            (true, false) => (vec![None; answered.len()], vec![None; answered.len()]),
            (true, true) => {
                (vec![None; answered.len()], self.items.store.last_answers(&self.items.namespace, &ids()).await?)
            }
            (false, _) => {
                let standings = self.items.store.standing(&self.items.namespace, &ids()).await?;
                let before = standings.iter().map(|known| known.as_ref().map(LastAnswer::from)).collect();
                (standings, before)
            }
        };
        let (jobs, observations, verdicts) = (Vec::new(), Vec::new(), Vec::new());
        let mut judged = JudgedAnswers {
            jobs,
            observations,
            verdicts,
            mentions: Mentions::default(),
            found: 0,
            missed: 0,
            spent: Spending::default(),
        };
        for (((job, outcome, at), standing), before) in answered.into_iter().zip(standings).zip(before) {
            match &outcome {
                Outcome::Found(item) => {
                    judged.found += 1;
                    // As the store will accept or refuse it.
                    let taken = |known: &Standing| known.state != ItemState::Dead && known.checked_at <= Some(at);
                    if !self.fan_out.is_empty() && standing.as_ref().is_none_or(taken) {
                        // Delivered again: the worker that stored the answer before may have died before it scheduled the ids.
                        let before = standing.as_ref().filter(|_| job.deliveries == 0);
                        judged.mentions.answered_at = at;
                        judged.mentions.requested_id.clone_from(&job.id);
                        self.judge.fan_out(item, before, &mut judged.mentions);
                    }
                }
                Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) => {
                    judged.missed += usize::from(standing.as_ref().is_some_and(Standing::is_known_to_live));
                }
                Outcome::Broken(_) => {}
            }
            let (observation, verdict) =
                self.judge_one(&terms, &job, outcome, (standing.as_ref(), before.as_ref()), at, &mut judged.spent);
            judged.jobs.push(job);
            judged.observations.push(observation);
            judged.verdicts.push(verdict);
        }
        Ok(judged)
    }

    fn is_mass_miss_alert(&self) -> bool {
        self.wave.load().as_ref().as_ref().is_some_and(MassMissAlert::lasts)
    }

    fn judge_one(
        &self,
        terms: &JudgeTerms,
        job: &Job,
        outcome: Outcome<J::Item>,
        (standing, before): (Option<&Standing>, Option<&LastAnswer>),
        at: Millis,
        spent: &mut Spending,
    ) -> (Observation<J::Item>, Verdict) {
        let counters = &self.metrics.counters;
        let created_at = || self.created_at(&job.id, standing);
        let once = standing.is_some_and(|known| known.once);
        let next = |item: &ScheduledItem<'_>| if once { None } else { terms.schedule.next(item, at) };
        // An answer without the item has no counts: it is taken for an average one.
        let regular = |created_at| next(&ScheduledItem::new(&job.id, created_at));
        // An item with one untrusted answer is looked up once more.
        let once_more = |is_due: bool| (once && is_due).then(Lane::once).map(|lane| (lane.clone(), lane.patience));
        let (mut follow, mut forget, mut recent) = (None, false, None);
        let (seen, state, next) = match outcome {
            Outcome::Found(mut item) => {
                if item.is_withheld() { &counters.withheld } else { &counters.found }.add(1);
                let judged = self.judge.judge_found(job, &mut item, standing, created_at());
                let known = match terms.schedule.needs_history() {
                    true => ScheduledItem {
                        id: &job.id,
                        history: self.history(&item, judged.created_at, before, at),
                        ..ScheduledItem::default()
                    },
                    false => ScheduledItem::new(&job.id, judged.created_at),
                };
                let known = ScheduledItem { activity: item.activity(), ..known };
                recent = terms.schedule.recent_events(&known);
                let spending = || terms.schedule.spending(&known, job.due).unwrap_or_default();
                *spent = if once { *spent } else { spent.plus(spending()) };
                let mut next = next(&known);
                follow = judged.follow;
                if let (Some(_), Some((_, delay))) = (&follow, &mut next) {
                    *delay = 0;
                }
                (Finding::Found(item), ItemState::Live, next)
            }
            Outcome::Broken(why) => {
                counters.broken.add(1);
                self.metrics.count_unreadable(&why);
                // Logged once, not each round.
                if standing.and_then(|known| known.unreadable.as_ref()) != Some(&why) {
                    let namespace = &*self.items.namespace;
                    tracing::warn!(
                        namespace,
                        id = job.id,
                        why,
                        "the answer for an item is unreadable; the item keeps its schedule"
                    );
                }
                // It proves neither that the item lives nor that it is gone: state and lane stay.
                let regular = regular(created_at());
                match standing.filter(|known| known.state == ItemState::Unavailable) {
                    Some(known) => {
                        let next = regular.map(|(lane, _)| {
                            self.next_unavailable_lookup(terms, lane.patience, known.missing_since, at)
                        });
                        (Finding::Broken(why), ItemState::Unavailable, next)
                    }
                    None => {
                        // After two unreadable answers in a row, it is not looked up a third time.
                        let is_first = standing.is_none_or(|known| known.unreadable.is_none());
                        (Finding::Broken(why), ItemState::Live, once_more(is_first).or(regular))
                    }
                }
            }
            Outcome::Unavailable | Outcome::Absent(_) | Outcome::Emptied(..) => {
                let (reason, handle) = match outcome {
                    Outcome::Absent(reason) => (Some(reason), None),
                    Outcome::Emptied(item, reason) => (Some(reason), item.handle().map(str::to_owned)),
                    _ => (None, None),
                };
                counters.unavailable.add(1);
                let misses = standing.map_or(0, |known| known.misses).saturating_add(1);
                let since = standing.and_then(|known| known.missing_since).unwrap_or(at);
                let regular = regular(created_at());
                let was_found = standing.is_some_and(Standing::was_found);
                // An item that was never found ends with its time, without a confirmed miss.
                let ends_unfound = regular.is_none() && !was_found;
                // A mass-miss alert confirms no miss, and ids that were never found cause no alert. So an id that is looked up once is
                // looked up again: soon, in another request, if this answer lacks only some ids. If it lacks all ids, the id is looked
                // up again when its misses span as long as those of other ids.
                let span = self.unavailable.confirmation_span(false);
                let confirmed_after = if terms.none_found { span } else { span.min(ONCE_RETRY_MS) };
                let is_doubted = at.saturating_sub(since) < confirmed_after;
                let doubted = || once_more(is_doubted).map(|(lane, _)| (lane, confirmed_after));
                let (state, mut next) = match once_more(terms.is_alert).or_else(doubted) {
                    Some(next) => (ItemState::Live, Some(next)),
                    None if ends_unfound => (ItemState::Ended, None),
                    None => self.judge_miss(terms, regular, (misses, since, was_found), once, at),
                };
                if let (Some(Absence::Protected), Some((_, delay))) = (reason, &mut next) {
                    *delay = self.unavailable.refused_delay(*delay, since, at);
                }
                let is_confirmed = match state {
                    ItemState::Unavailable => true,
                    ItemState::Ended => !ends_unfound,
                    ItemState::Live | ItemState::Dead => false,
                };
                forget =
                    is_confirmed && !terms.is_alert && self.unavailable.must_forget(reason, at.saturating_sub(since));
                (Finding::Missing { misses, since, reason, handle }, state, next)
            }
        };
        let state = if next.is_none() { ItemState::Ended } else { state };
        let next_due = next.as_ref().map(|(_, delay)| at.saturating_add(*delay));
        let verdict = next.map_or(Verdict::Finish, |(lane, delay)| Verdict::Reschedule { lane, due: delay.into() });
        (
            Observation { id: job.id.clone(), answered_at: at, finding: seen, state, next_due, follow, forget, recent },
            verdict,
        )
    }

    /// State and next lookup of a missing item; `regular` is its next step otherwise. An item whose time is over has none, but is looked
    /// up until its miss is confirmed. `once`: it is looked up once.
    fn judge_miss(
        &self,
        terms: &JudgeTerms,
        regular: Option<Next>,
        (misses, since, was_found): (i64, Millis, bool),
        once: bool,
        at: Millis,
    ) -> (ItemState, Option<Next>) {
        let miss_state = self.unavailable.judge(misses, since, at, terms.is_alert);
        let Some((lane, _)) = regular else {
            let lane = if once { Lane::once() } else { self.unavailable.lane.clone() };
            let again = Some((lane, self.unavailable.confirmation_span(terms.is_alert)));
            return match miss_state {
                MissState::Suspected => (ItemState::Live, again),
                MissState::Unavailable if terms.is_alert => (ItemState::Unavailable, again),
                MissState::Unavailable | MissState::Ended => (ItemState::Ended, None),
            };
        };
        match miss_state {
            // A post that was not returned today is not free today: an earlier lookup saves nothing.
            MissState::Suspected => {
                let next = match &self.unavailable.confirm {
                    // Thousands of items that were never found may be gone: they are requested again with others.
                    Some(confirm) if !terms.is_alert => {
                        let lane = if was_found { confirm.clone() } else { lane };
                        (lane, confirm.patience)
                    }
                    _ => {
                        // Data that must be forgotten does not wait for a whole interval. A mass-miss alert confirms nothing sooner.
                        let is_forgotten = self.unavailable.forget && !terms.is_alert;
                        let soonest = if is_forgotten { self.unavailable.confirmation_delay() } else { lane.patience };
                        let delay = lane.patience.min(soonest);
                        (lane, delay)
                    }
                };
                (ItemState::Live, Some(next))
            }
            MissState::Unavailable => {
                (ItemState::Unavailable, Some(self.next_unavailable_lookup(terms, lane.patience, Some(since), at)))
            }
            MissState::Ended => (ItemState::Ended, None),
        }
    }

    /// Next lookup of an item that is unavailable at `at`, missing since `since`; `interval` is its regular one, ms.
    fn next_unavailable_lookup(&self, terms: &JudgeTerms, interval: Millis, since: Option<Millis>, at: Millis) -> Next {
        let delay = self.unavailable.next_delay(since.unwrap_or(at), at, interval, terms.is_alert);
        (self.unavailable.lane.clone(), delay)
    }

    /// Creation date of an item, ms since the epoch, from the store or its id.
    fn created_at(&self, id: &str, standing: Option<&Standing>) -> Option<Millis> {
        standing.and_then(|known| known.created_at).or_else(|| self.lookup.created_at(id).ok().flatten())
    }

    /// Saves every answer, before the queue is updated. Returns the number of refused answers.
    async fn save(&self, observations: &[Observation<J::Item>]) -> Result<u64, StoreError> {
        let watch = Stopwatch::start();
        task::step("saves");
        let saved = self.judge.save(&*self.items.store, &self.items.namespace, observations).await;
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

    fn promote(&self, judged: JudgedAnswers<J::Item>) -> Vec<(Job, Verdict)> {
        let verdicts: Vec<_> = judged.jobs.into_iter().zip(judged.verdicts).collect();
        self.metrics.counters.ended.add(verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Finish).count());
        verdicts
    }

    /// Handles a job whose request was refused while it was alone in it: retried a few times, then marked dead.
    async fn retry_or_mark_dead(&self, batch: &Batch, job: &Job, why: &str) -> Result<Verdict, StoreError> {
        let failures = job.failures + 1;
        let place = ErrorPlace { endpoint: self.endpoint(), example: Some(&job.id), ..ErrorPlace::default() };
        self.metrics.errors.record(ErrorKind::Refused, why, place);
        if failures < self.items.max_deliveries {
            return Ok(Verdict::Retry { after: REFUSED_RETRY_MS, counted: true });
        }
        self.mark_dead(batch, job, format!("refused {failures} times while alone in its request: {why}")).await
    }

    async fn mark_dead(&self, batch: &Batch, job: &Job, reason: String) -> Result<Verdict, StoreError> {
        let verdict = self.items.mark_dead(batch.now.now(), job, reason).await?;
        self.metrics.counters.buried_here.add(1);
        Ok(verdict)
    }
}

struct JudgeTerms {
    schedule: Arc<dyn Schedule>,
    is_alert: bool,
    /// None of the requested items was found.
    none_found: bool,
}
