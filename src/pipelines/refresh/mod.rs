//! The refresher of every pipeline that looks items up again and again: request, judge, save, settle.
//!
//! ```text
//!   batch ─▶ request (calls.rs) ─▶ judge ─▶ save ─▶ verdicts, to the worker
//!             halves, doubts        │ misses.rs: when a miss is confirmed
//!             who is to blame       │ wave.rs: far more misses than usual
//!                                   │ what was found: the kind's own [`Judge`]
//!                                   └ fan_out.rs: ids of other kinds that follow from it
//! ```
//!
//! A [`Lookup`] makes the requests, a [`Schedules`] sets the next due date, a [`Judge`] decides the meaning and storage of a found item.
//! `requestTweets`, `saveTweets` and `promoteTweets` of the specification are `Calls::request`, `Refresher::save` and
//! `Refresher::promote`; its `Config.getTweetUpdateDelay` is
//! [`AgeTable::update_delay`](crate::engine::schedule::age::AgeTable::update_delay).

mod calls;
mod fan_out;
mod history;
mod judge;
pub mod misses;
pub mod wave;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;

pub use self::calls::Suspicions;
use self::calls::{Calls, Requested, Versions};
pub use self::fan_out::{Mention, Named, Received, Receiver, Target, schedule_each};
pub use self::judge::{Item, Judge, Judged};
use self::misses::MissState;
pub use self::misses::UnavailableSettings;
use self::wave::Wave;
use crate::base::clock::{Millis, Stopwatch};
use crate::base::failpoint;
use crate::base::reload::Reloadable;
use crate::base::task;
use crate::engine::error_log::{ErrorKind, ErrorPlace};
use crate::engine::lane::{Lane, ONCE};
use crate::engine::metrics::Metrics;
use crate::engine::queue::{Batch, Job, Verdict};
use crate::engine::schedule::adaptive::budget::Spending;
use crate::engine::schedule::{Known, Next, Schedule, Schedules};
use crate::engine::worker::{Handled, Handler, Outlook};
use crate::model::account::Absence;
use crate::model::post::ItemState;
use crate::pipelines::store_call;
use crate::providers::lookup::{Lookup, Outcome};
use crate::quota::{Credentials, Permit};
use crate::store::{LastAnswer, Observation, Seen, Standing, Store, StoreError};

pub const UNAVAILABLE_LANE: &str = "unavailable";

/// Delay between two attempts of a request that is refused as a whole.
const REFUSED_RETRY_MS: Millis = 1_000;
/// Delay before an id whose call failed alone is requested again. That is one call and one step of the back-off.
const FAILED_RETRY_MS: Millis = 60_000;
/// Wait of an id that is looked up once and was missing in an answer, ms.
const ONCE_AGAIN_MS: Millis = 60_000;
/// Delay of a deferred id, ms: ids that become due in this time are looked up before it.
const DEFERRAL_MS: Millis = 5_000;

pub struct Refresher<J: Judge> {
    pub namespace: String,
    pub lookup: Arc<dyn Lookup<J::Item>>,
    pub judge: J,
    pub store: Arc<dyn Store>,
    pub fan_out: Vec<Target>,
    pub credentials: Arc<Credentials>,
    /// A batch is judged by one schedule.
    pub schedule: Arc<dyn Schedules>,
    pub unavailable: UnavailableSettings,
    /// Last mass-miss alert over all workers.
    pub wave: Reloadable<Option<Wave>>,
    /// Failures of an id on its own (its request is refused, its process ends) after which it is buried.
    pub max_deliveries: u32,
    pub call_timeout: Duration,
    pub save_timeout: Duration,
    pub metrics: Arc<Metrics>,
    pub suspicions: Suspicions,
}

/// Judged answers in parallel lists: each job, its record for the store, and its verdict for the queue.
struct Answers<T> {
    jobs: Vec<Job>,
    observations: Vec<Observation<T>>,
    verdicts: Vec<Verdict>,
    named: Named,
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
        let requested = self.calls().request(batch, versions, permit).await;
        let Requested { answered, refused, failed, postponed, deferred, unanswered, outlook, .. } = requested;
        let watch = Stopwatch::start();
        let mut naming = HashSet::new();
        let (mut handled, following) = match self.in_time(self.done_with(batch, answered, refused, &mut naming)).await {
            Ok((done, following)) => (Handled { outlook, ..done }, following),
            Err(outlook) => {
                let mut released = Handled::released(batch, outlook);
                // Their answers may be stored nevertheless.
                let again: Vec<Job> = released.release.extract_if(.., |job| naming.contains(&job.id)).collect();
                redeliver(again, &mut released);
                return released;
            }
        };
        // The lease has room for one save: the other queues get the rest of its time.
        let left = self.save_timeout.saturating_sub(watch.elapsed());
        let others = self.fan_out.iter().zip(&following).filter(|(_, received)| !received.is_empty());
        let counters = &self.metrics.counters;
        let taken = join_all(others.map(|(target, received)| target.schedule(received, left, counters))).await;
        if taken.contains(&false) {
            let again = handled.verdicts.extract_if(.., |(job, _)| naming.contains(&job.id));
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

    /// An answer may be stored whose ids of other kinds are not in their queue yet.
    fn handle_abandoned(&self, batch: &Batch) -> Handled {
        if self.fan_out.is_empty() {
            return Handled::released(batch, Outlook::Unchanged);
        }
        let mut handled = Handled { outlook: Outlook::Unchanged, ..Handled::default() };
        redeliver(batch.jobs.clone(), &mut handled);
        handled
    }
}

/// Gives back jobs whose answers may be stored while the ids that they name are not queued. The process lives, so no lease expires.
/// One delivery is counted: a job without any is known by its stored answer, and a second would only make batches smaller.
fn redeliver(jobs: Vec<Job>, handled: &mut Handled) {
    for job in jobs {
        match job.deliveries {
            0 => handled.verdicts.push((job, Verdict::Suspect { after: 0 })),
            _ => handled.release.push(job),
        }
    }
}

impl<J: Judge> Refresher<J> {
    fn calls(&self) -> Calls<'_, J::Item> {
        let Self { namespace, lookup, credentials, metrics, suspicions, .. } = self;
        let time_for_one = self.call_timeout + self.save_timeout;
        let alone = self.unavailable.confirm.as_ref().map(|lane| &*lane.name);
        Calls { namespace, lookup: &**lookup, credentials, metrics, suspicions, alone, time_for_one }
    }

    /// Newest known version of each edited item, by its first id, which returns the item before the edit if versions have their own ids.
    async fn versions(&self, jobs: &[Job]) -> Result<Versions, StoreError> {
        if !self.lookup.versions_have_ids() {
            return Ok(Versions::default());
        }
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.store.standing(&self.namespace, &ids).await?;
        Ok(ids.into_iter().zip(standings).filter_map(|(id, known)| Some((id, known?.current_id?))).collect())
    }

    /// Judges and saves the answers, and buries ids that were refused too often. Returns verdicts and counters for the queue, and the
    /// recorded ids of other kinds by target. `naming` gets the items to deliver again until the queue has taken their ids, before
    /// anything is written.
    async fn done_with(
        &self,
        batch: &Batch,
        answered: Vec<(Job, Outcome<J::Item>, Millis)>,
        refused: Vec<(Job, String)>,
        naming: &mut HashSet<String>,
    ) -> Result<(Handled, Vec<Received>), StoreError> {
        let (mut done, mut following) = (Handled::default(), Vec::new());
        if !answered.is_empty() {
            let mut judged = self.judge(answered).await?;
            *naming = std::mem::take(&mut judged.named.naming);
            following = judged.named.record(&self.fan_out).await?;
            if self.save(&judged.observations).await? > 0 {
                self.apply_stored_refusals(&mut judged).await?;
            }
            done.tally = [(wave::FOUND, judged.found), (wave::MISSED, judged.missed)]
                .map(|(counter, by)| (counter, i64::try_from(by).unwrap_or(i64::MAX)))
                .into();
            if judged.spent != Spending::default() {
                done.tally.extend(judged.spent.counted());
            }
            done.verdicts = self.promote(judged);
        }
        for (job, why) in refused {
            let verdict = self.blame(batch, &job, &why).await?;
            done.verdicts.push((job, verdict));
        }
        Ok((done, following))
    }

    async fn judge(&self, mut answered: Vec<(Job, Outcome<J::Item>, Millis)>) -> Result<Answers<J::Item>, StoreError> {
        if let Some(at) = answered.first().map(|(.., at)| *at) {
            let found = answered.iter_mut().filter_map(|(_, outcome, _)| match outcome {
                Outcome::Found(item) => Some(item),
                _ => None,
            });
            self.judge.prepare(&*self.store, &self.namespace, found.collect(), at).await?;
        }
        let has_none = !answered.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Found(_)));
        let terms = Terms { schedule: self.schedule.in_force(), wave: self.is_wave(), has_none };
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
            (true, true) => (vec![None; answered.len()], self.store.last_answers(&self.namespace, &ids()).await?),
            (false, _) => {
                let standings = self.store.standing(&self.namespace, &ids()).await?;
                let before = standings.iter().map(|known| known.as_ref().map(LastAnswer::from)).collect();
                (standings, before)
            }
        };
        let (jobs, observations, verdicts) = (Vec::new(), Vec::new(), Vec::new());
        let mut judged = Answers {
            jobs,
            observations,
            verdicts,
            named: Named::default(),
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
                        judged.named.answered_at = at;
                        judged.named.asked.clone_from(&job.id);
                        self.judge.fan_out(item, before, &mut judged.named);
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

    /// Returns true during a mass-miss alert, over all workers.
    fn is_wave(&self) -> bool {
        self.wave.load().as_ref().as_ref().is_some_and(Wave::lasts)
    }

    fn judge_one(
        &self,
        terms: &Terms,
        job: &Job,
        outcome: Outcome<J::Item>,
        (standing, before): (Option<&Standing>, Option<&LastAnswer>),
        at: Millis,
        spent: &mut Spending,
    ) -> (Observation<J::Item>, Verdict) {
        let counters = &self.metrics.counters;
        let created_at = || self.created_at(&job.id, standing);
        let once = standing.is_some_and(|known| known.once);
        let next = |item: &Known<'_>| if once { None } else { terms.schedule.next(item, at) };
        // An answer without the item has no counts: it is taken for an average one.
        let regular = |created_at| next(&Known::new(&job.id, created_at));
        // An item with one untrusted answer is looked up once more.
        let once_more = |is_due: bool| (once && is_due).then(Lane::once).map(|lane| (lane.clone(), lane.patience));
        let (mut follow, mut forget, mut recent) = (None, false, None);
        let (seen, state, next) = match outcome {
            Outcome::Found(mut item) => {
                if item.is_withheld() { &counters.withheld } else { &counters.found }.add(1);
                let judged = self.judge.found(job, &mut item, standing, created_at());
                let known = match terms.schedule.needs_history() {
                    true => Known {
                        id: &job.id,
                        history: self.history(&item, judged.created_at, before, at),
                        ..Known::default()
                    },
                    false => Known::new(&job.id, judged.created_at),
                };
                let known = Known { activity: item.activity(), ..known };
                recent = terms.schedule.recent(&known);
                let spending = || terms.schedule.spending(&known, job.due).unwrap_or_default();
                *spent = if once { *spent } else { spent.plus(spending()) };
                let mut next = next(&known);
                follow = judged.follow;
                if let (Some(_), Some((_, delay))) = (&follow, &mut next) {
                    *delay = 0;
                }
                (Seen::Found(item), ItemState::Live, next)
            }
            Outcome::Broken(why) => {
                counters.broken.add(1);
                self.metrics.unreadable(&why);
                // Logged once, not each round.
                if standing.and_then(|known| known.unreadable.as_ref()) != Some(&why) {
                    let namespace = &*self.namespace;
                    tracing::warn!(namespace, id = job.id, why, "this answer cannot be read; it stays on its schedule");
                }
                // It proves neither that the item lives nor that it is gone: state and lane stay.
                let regular = regular(created_at());
                match standing.filter(|known| known.state == ItemState::Unavailable) {
                    Some(known) => {
                        let next = regular.map(|(lane, _)| self.slow(terms, lane.patience, known.missing_since, at));
                        (Seen::Broken(why), ItemState::Unavailable, next)
                    }
                    None => {
                        // After two unreadable answers in a row, it is not looked up a third time.
                        let is_first = standing.is_none_or(|known| known.unreadable.is_none());
                        (Seen::Broken(why), ItemState::Live, once_more(is_first).or(regular))
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
                // looked up again. If this answer lacks only some ids, that is soon, in another answer. If it has none, that is when the
                // misses span as long as those of other ids.
                let span = self.unavailable.span(false);
                let confirmed_after = if terms.has_none { span } else { span.min(ONCE_AGAIN_MS) };
                let is_doubted = at.saturating_sub(since) < confirmed_after;
                let doubted = || once_more(is_doubted).map(|(lane, _)| (lane, confirmed_after));
                let (state, mut next) = match once_more(terms.wave).or_else(doubted) {
                    Some(next) => (ItemState::Live, Some(next)),
                    None if ends_unfound => (ItemState::Ended, None),
                    None => self.missed(terms, regular, (misses, since, was_found), once, at),
                };
                if let (Some(Absence::Protected), Some((_, delay))) = (reason, &mut next) {
                    *delay = self.unavailable.refused_delay(*delay, since, at);
                }
                let is_confirmed = match state {
                    ItemState::Unavailable => true,
                    ItemState::Ended => !ends_unfound,
                    ItemState::Live | ItemState::Dead => false,
                };
                forget = is_confirmed && !terms.wave && self.unavailable.forgets(reason, at.saturating_sub(since));
                (Seen::Missing { misses, since, reason, handle }, state, next)
            }
        };
        let state = if next.is_none() { ItemState::Ended } else { state };
        let next_due = next.as_ref().map(|(_, delay)| at.saturating_add(*delay));
        let verdict = next.map_or(Verdict::Finish, |(lane, delay)| Verdict::Reschedule { lane, due: delay.into() });
        (Observation { id: job.id.clone(), answered_at: at, seen, state, next_due, follow, forget, recent }, verdict)
    }

    /// State and next lookup of a missing item; `regular` is its next step otherwise. An item whose time is over has none, but is looked
    /// up until its miss is confirmed. `once`: it is looked up once.
    fn missed(
        &self,
        terms: &Terms,
        regular: Option<Next>,
        (misses, since, was_found): (i64, Millis, bool),
        once: bool,
        at: Millis,
    ) -> (ItemState, Option<Next>) {
        let miss_state = self.unavailable.judge(misses, since, at, terms.wave);
        let Some((lane, _)) = regular else {
            let lane = if once { Lane::once() } else { self.unavailable.lane.clone() };
            let again = Some((lane, self.unavailable.span(terms.wave)));
            return match miss_state {
                MissState::Suspected => (ItemState::Live, again),
                MissState::Unavailable if terms.wave => (ItemState::Unavailable, again),
                MissState::Unavailable | MissState::Ended => (ItemState::Ended, None),
            };
        };
        match miss_state {
            // A post that was not returned today is not free today: an earlier lookup saves nothing.
            MissState::Suspected => {
                let next = match &self.unavailable.confirm {
                    // Thousands of items that were never found may be gone: they are requested again with others.
                    Some(confirm) if !terms.wave => {
                        let lane = if was_found { confirm.clone() } else { lane };
                        (lane, confirm.patience)
                    }
                    _ => {
                        // Data that must be forgotten does not wait for a whole interval. A mass-miss alert confirms nothing sooner.
                        let is_forgotten = self.unavailable.forget && !terms.wave;
                        let soonest = if is_forgotten { self.unavailable.confirms_after() } else { lane.patience };
                        let delay = lane.patience.min(soonest);
                        (lane, delay)
                    }
                };
                (ItemState::Live, Some(next))
            }
            MissState::Unavailable => (ItemState::Unavailable, Some(self.slow(terms, lane.patience, Some(since), at))),
            MissState::Ended => (ItemState::Ended, None),
        }
    }

    /// Next lookup of an item that is unavailable at `at`, missing since `since`; `interval` is its regular one, ms.
    fn slow(&self, terms: &Terms, interval: Millis, since: Option<Millis>, at: Millis) -> Next {
        let delay = self.unavailable.delay(since.unwrap_or(at), at, interval, terms.wave);
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
        let saved = self.judge.save(&*self.store, &self.namespace, observations).await;
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

    /// Applies the stored state to refused answers: late ones, and those about dead items. (A worker that died before it settled leaves
    /// such a difference, too.)
    async fn apply_stored_refusals(&self, judged: &mut Answers<J::Item>) -> Result<(), StoreError> {
        let ids: Vec<String> = judged.jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.store.standing(&self.namespace, &ids).await?;
        let terms = Terms { schedule: self.schedule.in_force(), wave: self.is_wave(), has_none: false };
        for ((verdict, seen), standing) in judged.verdicts.iter_mut().zip(&judged.observations).zip(standings) {
            let Some(known) = standing else {
                // A save makes each missing row, except those of blocked people.
                *verdict = Verdict::Finish;
                continue;
            };
            let is_refused = known.checked_at.is_some_and(|newer| newer > seen.answered_at);
            let item = Known::new(&seen.id, self.created_at(&seen.id, Some(&known)));
            let regular = terms.schedule.next(&item, seen.answered_at);
            let interval = regular.as_ref().map_or(self.unavailable.lane.patience, |(lane, _)| lane.patience);
            let slow = || self.slow(&terms, interval, known.missing_since, seen.answered_at);
            let (lane, delay) = match known.state {
                ItemState::Dead => {
                    *verdict = Verdict::Bury { reason: "dead in the store".to_owned() };
                    continue;
                }
                ItemState::Ended if is_refused => {
                    *verdict = Verdict::Finish;
                    continue;
                }
                ItemState::Live if is_refused => regular.unwrap_or_else(slow),
                ItemState::Unavailable if is_refused => slow(),
                _ => continue,
            };
            *verdict = Verdict::Reschedule { lane, due: delay.into() };
        }
        Ok(())
    }

    fn promote(&self, judged: Answers<J::Item>) -> Vec<(Job, Verdict)> {
        let verdicts: Vec<_> = judged.jobs.into_iter().zip(judged.verdicts).collect();
        self.metrics.counters.ended.add(verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Finish).count());
        verdicts
    }

    /// Handles a job whose request was refused while it was alone in it: retried a few times, then buried.
    async fn blame(&self, batch: &Batch, job: &Job, why: &str) -> Result<Verdict, StoreError> {
        let failures = job.failures + 1;
        let place = ErrorPlace { endpoint: self.endpoint(), example: Some(&job.id), ..ErrorPlace::default() };
        self.metrics.errors.record(ErrorKind::Refused, why, place);
        if failures < self.max_deliveries {
            return Ok(Verdict::Retry { after: REFUSED_RETRY_MS, counted: true });
        }
        self.bury(batch, job, format!("refused {failures} times while alone in its request: {why}")).await
    }

    /// Buries a job that ended its process whenever it was alone in it.
    async fn bury_killer(&self, batch: &Batch, job: &Job) -> Handled {
        match self.in_time(self.bury(batch, job, store_call::ended_its_process(job))).await {
            Ok(verdict) => Handled { verdicts: vec![(job.clone(), verdict)], ..Handled::default() },
            Err(outlook) => Handled::released(batch, outlook),
        }
    }

    async fn bury(&self, batch: &Batch, job: &Job, reason: String) -> Result<Verdict, StoreError> {
        let verdict = store_call::bury(&*self.store, &self.namespace, batch.now.now(), job, reason).await?;
        self.metrics.counters.buried_here.add(1);
        Ok(verdict)
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Outlook> {
        store_call::in_time(self.save_timeout, work).await
    }
}

struct Terms {
    schedule: Arc<dyn Schedule>,
    wave: bool,
    /// None of the requested items was found.
    has_none: bool,
}
