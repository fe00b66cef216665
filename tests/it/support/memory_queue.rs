//! A queue in memory: the reference ([`QueueModel`]) with a clock, for simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, QueueTime, Stopwatch, millis, span, wall_ms};
use twitter_updater::base::random;
use twitter_updater::engine::queue::{
    Administration, Adoption, Batch, Claim, ClaimRequest, DeadJob, ERRORS_KEPT, ErrorRecords, Fence, HOUR_MS,
    HOURS_KEPT, Hour, Inbox, Incoming, Inspection, Job, Jobs, Lane, LaneDue, Lateness, MINUTE_MS, MINUTES_KEPT, Minute,
    NO_EXAMPLES_FOR, NewJob, PAGE_LIMIT, Place, PostponeOutcome, PromoteOutcome, QueueError, RecordedError, RowRange,
    Sample, ScheduleOutcome, SettleOutcome, Stats, Verdict, WorkerStats, Workers, check_id,
};

use super::queue_model::{Claimed, QueueModel, Rules};

/// How long a worker stays on the list after its last beat.
const WORKER_EXPIRY_MS: Millis = 60_000;

/// The clock of a service in memory: it runs with tokio's, so a simulation's when that is paused, and
/// can be put forward or back.
#[derive(Debug)]
pub struct ServiceClock {
    origin: Millis,
    running: Stopwatch,
    steps: AtomicI64,
    furthest: AtomicI64,
}

impl ServiceClock {
    /// It shows `origin`, ms since the epoch.
    pub fn starting_at(origin: Millis) -> Arc<Self> {
        Arc::new(Self { origin, running: Stopwatch::start(), steps: AtomicI64::new(0), furthest: AtomicI64::new(0) })
    }

    /// It shows the time.
    pub fn right() -> Arc<Self> {
        Self::starting_at(wall_ms())
    }

    pub fn now(&self) -> Millis {
        self.origin + self.running.elapsed_ms() + self.steps.load(Ordering::Relaxed)
    }

    /// Puts it forward, or back.
    pub fn step(&self, by: Millis) {
        let steps = self.steps.fetch_add(by, Ordering::Relaxed) + by;
        self.furthest.fetch_max(steps, Ordering::Relaxed);
    }

    /// How far it was ahead of itself at the most, ms.
    pub fn furthest(&self) -> Millis {
        self.furthest.load(Ordering::Relaxed)
    }
}

/// The model with a clock, and what surrounds it.
#[derive(Debug)]
pub struct MemoryQueue {
    namespace: String,
    clock: Arc<ServiceClock>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    model: QueueModel,
    counters: BTreeMap<String, i64>,
    /// By their start.
    minutes: BTreeMap<Millis, Minute>,
    hours: BTreeMap<Millis, Hour>,
    /// The start of the last minute that was added to its hour.
    hours_until: Millis,
    incoming: BTreeSet<(Millis, String)>,
    refused: BTreeMap<String, String>,
    drainer: Option<(String, Millis)>,
    workers: BTreeMap<String, (Millis, BTreeMap<String, String>)>,
    /// The newest first.
    errors: Vec<RecordedError>,
    errors_bare: Millis,
}

impl Inner {
    fn forget_errors(&mut self, names: &[String]) {
        let names = names.iter().map(|name| name.to_lowercase()).collect();
        for error in &mut self.errors {
            error.forget(&names);
        }
    }
}

impl MemoryQueue {
    pub fn new(namespace: &str, clock: Arc<ServiceClock>, rules: Rules) -> Self {
        let inner = Inner { model: QueueModel::with(rules), ..Inner::default() };
        Self { namespace: namespace.to_owned(), clock, inner: Mutex::new(inner) }
    }

    /// Looks at the rules and places, as they are.
    pub fn with_model<T>(&self, look: impl FnOnce(&QueueModel) -> T) -> T {
        look(&self.lock().model)
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

impl Inner {
    fn count(&mut self, now: Millis, counter: &str, by: usize) {
        if by > 0 {
            self.tell(now, counter, by as i64);
        }
    }

    fn tell(&mut self, now: Millis, counter: &str, by: i64) {
        *self.counters.entry(counter.to_owned()).or_default() += by;
        *self.minute(now).counters.entry(counter.to_owned()).or_default() += by;
    }

    fn minute(&mut self, now: Millis) -> &mut Minute {
        let at_ms = now - now.rem_euclid(MINUTE_MS);
        if !self.minutes.contains_key(&at_ms) {
            self.minutes.retain(|start, _| *start > at_ms - Millis::from(MINUTES_KEPT) * MINUTE_MS);
        }
        self.minutes.entry(at_ms).or_insert_with(|| Minute { at_ms, ..Minute::default() })
    }

    fn sum(&mut self, now: Millis, applied: &[bool]) -> SettleOutcome {
        let settled = applied.iter().filter(|applied| **applied).count();
        let lost = applied.len() - settled;
        self.count(now, "lost", lost);
        SettleOutcome { settled: settled as u64, lost: lost as u64 }
    }
}

#[async_trait]
impl Jobs for MemoryQueue {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn check(&self) -> Result<Vec<String>, QueueError> {
        Ok(vec!["a queue in memory, for tests".to_owned()])
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        for job in jobs {
            check_id(&job.id).map_err(|why| QueueError::Refused(format!("{why}: {:?}", job.id)))?;
        }
        let (mut inner, now) = (self.lock(), self.now());
        let answers: Vec<_> = jobs.iter().map(|job| inner.model.schedule(now, job)).collect();
        inner.count(now, "scheduled", answers.iter().filter(|answer| **answer == ScheduleOutcome::Scheduled).count());
        Ok(answers)
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        Ok(match inner.model.claim(now, request) {
            Claimed::Empty { wait, paused } => Claim::Empty { wait: span(wait), paused },
            Claimed::Batch { deadline, jobs, repeated } => {
                if !repeated {
                    inner.count(now, "claims", 1);
                    inner.count(now, "claimed", jobs.len());
                }
                let fence = Fence { deadline, token: request.token.to_owned() };
                Claim::Batch(Batch { fence, now: QueueTime::starting_at(now), claimed_at: now, jobs })
            }
        })
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        Ok(jobs.iter().map(|job| inner.model.postpone(now, job)).collect())
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>, QueueError> {
        for job in jobs {
            check_id(&job.id).map_err(|why| QueueError::Refused(format!("{why}: {:?}", job.id)))?;
        }
        let (mut inner, now) = (self.lock(), self.now());
        let answers: Vec<_> = jobs.iter().map(|job| inner.model.promote(now, job)).collect();
        let of = |(job, answer): (&NewJob, &PromoteOutcome)| {
            matches!(answer, PromoteOutcome::Moved | PromoteOutcome::Noted).then(|| job.id.clone())
        };
        let promoted: BTreeSet<String> = jobs.iter().zip(&answers).filter_map(of).collect();
        inner.count(now, "promoted", promoted.len());
        Ok(answers)
    }

    async fn settle(
        &self,
        fence: &Fence,
        verdicts: &[(Job, Verdict)],
        tally: &[(&str, i64)],
    ) -> Result<SettleOutcome, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let applied = inner.model.settle(now, fence.deadline, verdicts);
        for ((_, verdict), _) in verdicts.iter().zip(&applied).filter(|(_, applied)| **applied) {
            let counter = match verdict {
                Verdict::Reschedule { .. } => "rescheduled",
                Verdict::Finish => "finished",
                Verdict::Retry { .. } | Verdict::Suspect { .. } => "retried",
                Verdict::MarkDead { .. } => "buried",
            };
            inner.count(now, counter, 1);
        }
        for (counter, by) in tally.iter().filter(|(_, by)| *by != 0 && applied.contains(&true)) {
            inner.tell(now, counter, *by);
        }
        Ok(inner.sum(now, &applied))
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let applied = inner.model.release(now, fence.deadline, jobs);
        inner.count(now, "released", applied.iter().filter(|applied| **applied).count());
        Ok(inner.sum(now, &applied))
    }

    async fn mark_trial(&self, fence: &Fence) -> Result<bool, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        Ok(inner.model.mark_trial(now, fence.deadline, &fence.token))
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption, QueueError> {
        for id in ids {
            check_id(id).map_err(|why| QueueError::Refused(format!("{why}: {id:?}")))?;
        }
        let (mut inner, now) = (self.lock(), self.now());
        let nowhere = ids.iter().filter(|id| inner.model.place(id).is_none()).count();
        inner.count(now, "adopted", nowhere);
        let (deadline, answers) = inner.model.adopt(now, token, ids, millis(lease));
        Ok(Adoption { fence: Fence { deadline, token: token.to_owned() }, now, answers })
    }

    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let dead = inner.model.stats(now).dead;
        let answers: Vec<_> = jobs.iter().map(|job| inner.model.revive(now, job)).collect();
        let revived = dead - inner.model.stats(now).dead;
        inner.count(now, "scheduled", answers.iter().filter(|answer| **answer == ScheduleOutcome::Scheduled).count());
        inner.count(now, "exhumed", revived as usize);
        Ok(answers)
    }

    async fn forget(&self, ids: &[String]) -> Result<(), QueueError> {
        let mut inner = self.lock();
        ids.iter().for_each(|id| inner.model.forget(id));
        inner.forget_errors(ids);
        Ok(())
    }
}

#[async_trait]
impl Inbox for MemoryQueue {
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        if inner.drainer.as_ref().is_some_and(|(other, until)| other != drainer && *until > now) {
            return Ok(Vec::new());
        }
        let head: Vec<_> = inner.incoming.iter().take(limit).cloned().collect();
        if !head.is_empty() {
            inner.drainer = Some((drainer.to_owned(), now + millis(Duration::from_secs(10))));
        }
        Ok(head.into_iter().map(|(created_at, member)| Incoming { member, created_at }).collect())
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<(), QueueError> {
        self.lock().incoming.retain(|(_, member)| !members.contains(member));
        Ok(())
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<(), QueueError> {
        let mut inner = self.lock();
        for (member, reason) in members {
            inner.incoming.retain(|(_, known)| known != member);
            inner.refused.insert(member.clone(), reason.clone());
        }
        Ok(())
    }

    async fn add_incoming(&self, members: &[Incoming]) -> Result<(), QueueError> {
        let mut inner = self.lock();
        for Incoming { member, created_at } in members {
            inner.incoming.retain(|(_, known)| known != member);
            inner.incoming.insert((*created_at, member.clone()));
        }
        Ok(())
    }
}

#[async_trait]
impl Workers for MemoryQueue {
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<(), QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let fields = fields.iter().map(|(field, value)| ((*field).to_owned(), value.clone())).collect();
        inner.workers.insert(worker.to_owned(), (now, fields));
        inner.workers.retain(|_, (beat, _)| *beat > now - WORKER_EXPIRY_MS);
        for (counter, by) in counters {
            inner.tell(now, counter, *by);
        }
        inner.minute(now).lateness.merge(lateness);
        Ok(())
    }

    async fn deregister(&self, worker: &str) -> Result<(), QueueError> {
        self.lock().workers.remove(worker);
        Ok(())
    }
}

#[async_trait]
impl ErrorRecords for MemoryQueue {
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<(), QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let bare = inner.errors_bare;
        for error in errors.iter().filter_map(|error| error.prepare_for_storage(now, bare)) {
            match inner.errors.iter_mut().find(|known| known.key() == error.key()) {
                Some(known) => known.merge(&error),
                None => inner.errors.push(error),
            }
        }
        inner.errors.sort_by_key(|error| std::cmp::Reverse(error.last_ms));
        inner.errors.truncate(ERRORS_KEPT);
        inner.errors.retain(|error| error.is_kept(now));
        Ok(())
    }

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>, QueueError> {
        let (inner, now) = (self.lock(), self.now());
        Ok(inner.errors.iter().filter(|error| error.is_kept(now)).take(most).cloned().collect())
    }

    async fn forget_errors(&self, names: &[String]) -> Result<(), QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        inner.errors_bare = now + millis(NO_EXAMPLES_FOR);
        inner.forget_errors(names);
        Ok(())
    }
}

#[async_trait]
impl Inspection for MemoryQueue {
    async fn sample(&self, most: usize) -> Result<Vec<Sample>, QueueError> {
        let most = most.min(PAGE_LIMIT);
        let mut samples = self.lock().model.whole_sample();
        for Sample { ids, .. } in &mut samples {
            for at in 0..most.min(ids.len()) {
                let other = at + (random::fraction() * (ids.len() - at) as f64) as usize;
                ids.swap(at, other);
            }
            ids.truncate(most);
        }
        Ok(samples)
    }

    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>, QueueError> {
        let inner = self.lock();
        let mut dead: Vec<_> = inner
            .model
            .places()
            .filter_map(|(id, place)| match place {
                Place::Dead { at, reason } => Some(DeadJob { id: id.clone(), at, reason }),
                _ => None,
            })
            .collect();
        dead.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        Ok(dead.into_iter().skip(rows.first() as usize).take(rows.limit() as usize).collect())
    }

    async fn stats(&self) -> Result<Stats, QueueError> {
        let (inner, now) = (self.lock(), self.now());
        let worker = |(worker, (beat, fields)): (&String, &(Millis, BTreeMap<String, String>))| WorkerStats {
            worker: worker.clone(),
            beat_age_ms: now - beat,
            fields: fields.clone(),
        };
        Ok(Stats {
            namespace: self.namespace.clone(),
            incoming: inner.incoming.len() as u64,
            incoming_refused: inner.refused.len() as u64,
            counters: inner.counters.clone(),
            workers: inner.workers.iter().filter(|(_, (beat, _))| *beat > now - WORKER_EXPIRY_MS).map(worker).collect(),
            ..inner.model.stats(now)
        })
    }

    async fn due_count(&self) -> Result<u64, QueueError> {
        Ok(self.lock().model.due(self.now()))
    }

    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>, QueueError> {
        let (inner, now) = (self.lock(), self.now());
        let due_by = |lane: &str, moment| inner.model.due_of(lane, moment);
        let lanes = inner.model.stats(now).lanes.into_iter().map(|of| LaneDue {
            counts: offsets.iter().map(|offset| due_by(&of.lane, now.saturating_add(*offset))).collect(),
            lane: of.lane,
        });
        Ok(lanes.collect())
    }

    async fn minutes(&self, count: u32) -> Result<Vec<Minute>, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let this = inner.minute(now).at_ms;
        let starts = (0..Millis::from(count.min(MINUTES_KEPT))).rev().map(|ago| this - ago * MINUTE_MS);
        let idle = |at_ms| Minute { at_ms, ..Minute::default() };
        Ok(starts.map(|at_ms| inner.minutes.get(&at_ms).cloned().unwrap_or_else(|| idle(at_ms))).collect())
    }

    async fn hours(&self, count: u32) -> Result<Vec<Hour>, QueueError> {
        let (inner, now) = (self.lock(), self.now());
        let first = now - now.rem_euclid(HOUR_MS) - (Millis::from(count.min(HOURS_KEPT)) - 1) * HOUR_MS;
        Ok(inner.hours.range(first..).map(|(_, hour)| hour.clone()).collect())
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError> {
        let (inner, now) = (self.lock(), self.now());
        let place = |id: &String| match inner.model.place(id) {
            Some(Place::Leased { fence, .. }) if fence <= now => Some(Place::Leased { fence, by: None }),
            place => place,
        };
        Ok(ids.iter().map(|id| place(id).into_iter().collect()).collect())
    }
}

#[async_trait]
impl Administration for MemoryQueue {
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let mended = inner.model.repair_due_times(now, millis(slack), limit);
        inner.count(now, "mended", mended as usize);
        Ok(mended)
    }

    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        Ok(inner.model.apply_lane(now, lane, millis(slack), limit))
    }

    async fn sum_hours(&self) -> Result<(), QueueError> {
        let (mut inner, now) = (self.lock(), self.now());
        let this = inner.minute(now).at_ms;
        let kept = Millis::from(MINUTES_KEPT) * MINUTE_MS;
        if (this - MINUTE_MS..=this + kept).contains(&inner.hours_until) {
            return Ok(());
        }
        let first = (inner.hours_until.min(this - MINUTE_MS) + MINUTE_MS).max(this - kept + MINUTE_MS);
        for at_ms in (first..this).step_by(MINUTE_MS as usize) {
            let minute = inner.minutes.get(&at_ms).cloned().unwrap_or_default();
            let hour = at_ms - at_ms.rem_euclid(HOUR_MS);
            let hour = inner.hours.entry(hour).or_insert_with(|| Hour { at_ms: hour, ..Hour::default() });
            hour.minutes += 1;
            minute.counters.iter().for_each(|(name, by)| *hour.counters.entry(name.clone()).or_default() += by);
            hour.lateness.merge(&minute.lateness);
        }
        inner.hours_until = this - MINUTE_MS;
        inner.hours.retain(|at_ms, _| *at_ms > this - Millis::from(HOURS_KEPT) * HOUR_MS);
        Ok(())
    }

    async fn pause(&self, reason: Option<&str>) -> Result<(), QueueError> {
        self.lock().model.pause(reason);
        Ok(())
    }
}
