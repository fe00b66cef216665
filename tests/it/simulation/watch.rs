//! Who watches the services: everything done to them passes here, and is compared with the invariants
//! as it happens. It keeps its own books, so a wrong queue is found out as well as a wrong worker.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::{
    Administration, Adoption, Batch, Claim, ClaimRequest, DeadJob, ErrorRecords, Fence, Hour, Inbox, Incoming,
    Inspection, Job, Jobs, Lane, LaneDue, Lateness, Minute, NewJob, Place, PostponeOutcome, PromoteOutcome, QueueError,
    RecordedError, RowRange, Sample, ScheduleOutcome, SettleOutcome, Stats, Verdict, Workers,
};
use twitter_updater::model::post::ItemState;
use twitter_updater::store::{
    Accounts as _, BudgetCorrections, Budgets, Change, DeadResolution, Expiry, Lifecycle, ListedItem, Listing,
    MetricsAt, NewItem, Observation, Posts, RecordCounts, SaveCounts, Standing, StateCounts, StoreError, StoredTweet,
    Way,
};

use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;

/// Lines kept to tell what led to a failure.
const TAIL: usize = 60;

/// What happened, in order; its hash says whether two runs were the same.
#[derive(Debug)]
pub struct Log {
    clock: Arc<ServiceClock>,
    inner: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    hasher: DefaultHasher,
    tail: VecDeque<String>,
    /// The first thing that was not as it should be, and what led to it.
    wrong: Option<String>,
    all: bool,
}

impl Log {
    /// `all`: every line is printed as well.
    pub fn new(clock: Arc<ServiceClock>, all: bool) -> Arc<Self> {
        Arc::new(Self { clock, inner: Mutex::new(Lines { all, ..Lines::default() }) })
    }

    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        let mut line = String::with_capacity(80);
        let _ = write!(line, "{} {what}", self.clock.now());
        let mut inner = self.inner.lock().unwrap();
        inner.hasher.write(line.as_bytes());
        if inner.all {
            println!("{line}");
        }
        if inner.tail.len() == TAIL {
            inner.tail.pop_front();
        }
        inner.tail.push_back(line);
    }

    /// Something is not as it should be.
    pub fn wrong(&self, what: std::fmt::Arguments<'_>) {
        self.note(format_args!("WRONG: {what}"));
        let mut inner = self.inner.lock().unwrap();
        if inner.wrong.is_none() {
            let tail: Vec<_> = inner.tail.iter().map(String::as_str).collect();
            inner.wrong = Some(format!("{what}\n  {}", tail.join("\n  ")));
        }
    }

    pub fn first_wrong(&self) -> Option<String> {
        self.inner.lock().unwrap().wrong.clone()
    }

    pub fn hash(&self) -> u64 {
        self.inner.lock().unwrap().hasher.finish()
    }
}

/// Ids as they are told of.
pub fn names<'a>(ids: impl Iterator<Item = &'a String>) -> String {
    ids.map(|id| &id[id.len().saturating_sub(5)..]).collect::<Vec<_>>().join(" ")
}

/// An answer, as the store has taken it.
#[derive(Debug, Clone)]
pub struct Stored {
    /// When, by the world's clock.
    pub at: Millis,
    pub id: String,
    pub state: ItemState,
    pub misses: i64,
}

/// The store, watched.
#[derive(Debug)]
pub struct WatchedStore {
    pub inner: MemoryStore,
    pub log: Arc<Log>,
    /// When the store was last told of an id, by the world's clock.
    told: Mutex<BTreeMap<String, Millis>>,
    stored: Mutex<Vec<Stored>>,
    /// Ids whose lives were over and begin anew since their last save: whoever asked for that has to schedule them.
    revived: Mutex<BTreeSet<String>>,
    /// How much older than what it replaces an answer's content may be, ms: their calls overlapped.
    pub overlap: Mutex<Millis>,
}

impl WatchedStore {
    pub fn new(log: Arc<Log>, overlap: Millis) -> Self {
        Self {
            inner: MemoryStore::default(),
            log,
            told: Mutex::default(),
            stored: Mutex::default(),
            revived: Mutex::default(),
            overlap: Mutex::new(overlap),
        }
    }

    pub fn told_at(&self, id: &str) -> Option<Millis> {
        self.told.lock().unwrap().get(id).copied()
    }

    /// Answers that were stored so far, by id, in their order.
    pub fn stored(&self) -> BTreeMap<String, Vec<Stored>> {
        let mut by_id: BTreeMap<String, Vec<Stored>> = BTreeMap::new();
        for stored in self.stored.lock().unwrap().iter() {
            by_id.entry(stored.id.clone()).or_default().push(stored.clone());
        }
        by_id
    }

    /// A page of a list or a timeline, or the end of its crawl, was saved.
    pub fn note_page(&self, owner: &str, what: std::fmt::Arguments<'_>) {
        self.told.lock().unwrap().insert(owner.to_owned(), self.log.clock.now());
        self.log.note(format_args!("page of {}: {what}", names([&owner.to_owned()].into_iter())));
    }

    async fn state(&self, namespace: &str, id: &str) -> Option<ItemState> {
        self.inner.tweet(namespace, id).await.unwrap().map(|row| row.state)
    }

    /// What is stored of an item, and the scripted moment at which that was read.
    async fn known(&self, namespace: &str, id: &str) -> Result<Option<(StoredTweet, Millis)>, StoreError> {
        let Some(row) = self.inner.tweet(namespace, id).await? else { return Ok(None) };
        let of_account = self.inner.account(namespace, id).await?.and_then(|account| account.counts.followers);
        let moment = row.metrics.retweet_count.or(of_account).unwrap_or(0);
        Ok(Some((row, moment)))
    }

    /// Makes a save, and compares what is stored before and after it.
    async fn watched<I>(
        &self,
        namespace: &str,
        observations: &[Observation<I>],
        save: impl Future<Output = Result<SaveCounts, StoreError>>,
    ) -> Result<SaveCounts, StoreError> {
        let now = self.log.clock.now();
        let mut before = Vec::new();
        for seen in observations {
            before.push(self.known(namespace, &seen.id).await?);
        }
        let saved = save.await?;
        let ids = names(observations.iter().map(|seen| &seen.id));
        self.log.note(format_args!("save {ids}: {} saved, {} older", saved.saved, saved.older));
        for (seen, before) in observations.iter().zip(before) {
            self.told.lock().unwrap().insert(seen.id.clone(), now);
            self.revived.lock().unwrap().remove(&seen.id);
            let Some((after, moment)) = self.known(namespace, &seen.id).await? else { continue };
            let StoredTweet { id, state, misses, .. } = after.clone();
            self.stored.lock().unwrap().push(Stored { at: now, id, state, misses });
            let Some((before, moment_before)) = before else { continue };
            if after.checked_at < before.checked_at {
                self.log.wrong(format_args!("{}: an answer went back in time", seen.id));
            }
            let age = moment_before - moment;
            if age > *self.overlap.lock().unwrap() {
                self.log.wrong(format_args!("{}: overwritten with what is {age} ms older", seen.id));
            }
            if before.state == ItemState::Dead && after.state != ItemState::Dead {
                self.log.wrong(format_args!("{}: the dead live again", seen.id));
            }
        }
        Ok(saved)
    }
}

#[async_trait]
impl Lifecycle for WatchedStore {
    async fn mark_dead(&self, namespace: &str, at: Millis, ids: &[(String, String)]) -> Result<(), StoreError> {
        self.log.note(format_args!("mark {} dead in the store", names(ids.iter().map(|(id, _)| id))));
        self.inner.mark_dead(namespace, at, ids).await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.inner.migrate().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.inner.check().await
    }

    async fn record(
        &self,
        namespace: &str,
        at: Millis,
        way: &Way,
        tweets: &[NewItem],
    ) -> Result<RecordCounts, StoreError> {
        self.log.note(format_args!("record {}", names(tweets.iter().map(|tweet| &tweet.id))));
        for NewItem { id, next_due, .. } in tweets {
            if next_due.is_some() && self.state(namespace, id).await == Some(ItemState::Ended) {
                self.revived.lock().unwrap().insert(id.clone());
            }
        }
        self.inner.record(namespace, at, way, tweets).await
    }

    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>, StoreError> {
        self.inner.ways(namespace, id).await
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>, StoreError> {
        self.inner.standing(namespace, ids).await
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<(), StoreError> {
        self.inner.resolve_dead(namespace, at, tweets).await
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<(), StoreError> {
        self.inner.promote(namespace, ids).await
    }

    async fn page(
        &self,
        namespace: &str,
        of: Listing,
        below: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ListedItem>, StoreError> {
        self.inner.page(namespace, of, below, limit).await
    }

    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64, StoreError> {
        self.inner.remove(namespace, which, ids).await
    }

    async fn counts(&self, namespace: &str) -> Result<StateCounts, StoreError> {
        self.inner.counts(namespace).await
    }
}

#[async_trait]
impl Posts for WatchedStore {
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts, StoreError> {
        self.watched(namespace, observations, self.inner.save(namespace, observations)).await
    }

    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>, StoreError> {
        self.inner.changes(namespace, id).await
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>, StoreError> {
        self.inner.tweet(namespace, id).await
    }

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>, StoreError> {
        self.inner.history(namespace, id).await
    }
}

/// The queue, watched.
#[derive(Debug)]
pub struct WatchedQueue {
    pub inner: MemoryQueue,
    store: Arc<WatchedStore>,
    log: Arc<Log>,
    books: Mutex<Books>,
}

/// What must be so, by what was done.
#[derive(Debug, Default)]
struct Books {
    /// Who holds an id: its fence.
    held: BTreeMap<String, Millis>,
    /// Leases on an id that ran out, and retries that count, since it last succeeded.
    deliveries: BTreeMap<String, u32>,
    /// Claims by token: fence, and when it was, by the world's clock.
    claims: BTreeMap<String, (Millis, Millis)>,
    last_fence: Millis,
    /// Jobs as they were claimed, with the queue's clock.
    claimed: Vec<(Millis, Job)>,
    counts: Counts,
}

/// What a run went through: a simulation that never gets anywhere proves nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub claims: u64,
    pub claims_repeated: u64,
    pub leases_run_out: u64,
    pub settled: u64,
    pub settles_lost: u64,
    pub released: u64,
    pub finished: u64,
    pub buried: u64,
    pub promoted: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.claims += other.claims;
        self.claims_repeated += other.claims_repeated;
        self.leases_run_out += other.leases_run_out;
        self.settled += other.settled;
        self.settles_lost += other.settles_lost;
        self.released += other.released;
        self.finished += other.finished;
        self.buried += other.buried;
        self.promoted += other.promoted;
    }
}

impl WatchedQueue {
    pub fn new(inner: MemoryQueue, store: Arc<WatchedStore>, log: Arc<Log>) -> Self {
        Self { inner, store, log, books: Mutex::default() }
    }

    pub fn counts(&self) -> Counts {
        self.books().counts
    }

    /// Jobs as they were claimed so far, with the queue's clock.
    pub fn claimed(&self) -> Vec<(Millis, Job)> {
        self.books().claimed.clone()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    fn check_claim(&self, request: &ClaimRequest<'_>, batch: &Batch) {
        let (log, now) = (&self.log, batch.claimed_at);
        let mut books = self.books();
        let deadline = batch.fence.deadline;
        let mine: BTreeSet<&String> = batch.jobs.iter().map(|job| &job.id).collect();
        if let Some((fence, _)) = books.claims.get(request.token).copied().filter(|(fence, _)| *fence > now) {
            let still: BTreeSet<&String> =
                books.held.iter().filter(|(_, of)| **of == fence).map(|(id, _)| id).collect();
            if !still.is_empty() {
                if deadline != fence || mine != still {
                    log.wrong(format_args!("token {}: another batch, {mine:?} and not {still:?}", request.token));
                }
                books.counts.claims_repeated += 1;
                return;
            }
        }
        if deadline <= books.last_fence {
            log.wrong(format_args!("fence {deadline} after {}", books.last_fence));
        }
        if batch.jobs.len() > request.limit || batch.jobs.is_empty() {
            log.wrong(format_args!("a batch of {}", batch.jobs.len()));
        }
        books.last_fence = deadline;
        books.claims.insert(request.token.to_owned(), (deadline, log.clock.now()));
        books.counts.claims += 1;
        for job in &batch.jobs {
            if let Some(fence) = books.held.insert(job.id.clone(), deadline) {
                if fence > now {
                    log.wrong(format_args!("{} is claimed while another holds it until {fence}", job.id));
                }
                *books.deliveries.entry(job.id.clone()).or_default() += 1;
                books.counts.leases_run_out += 1;
            }
            let most = books.deliveries.get(&job.id).copied().unwrap_or(0);
            if job.deliveries != most {
                log.wrong(format_args!("{} is claimed with {} deliveries and had {most}", job.id, job.deliveries));
            }
            books.claimed.push((now, job.clone()));
        }
        // Nobody left behind is more urgent than anybody taken. Suspects travel apart.
        if batch.jobs.iter().all(|job| job.deliveries == 0) {
            let least = self.inner.with_model(|model| {
                let taken = batch.jobs.iter().map(|job| model.urgency(now, &job.lane, job.due));
                (taken.reduce(|one, other| if other < one { other } else { one }), model.most_urgent(now))
            });
            if least.1 > least.0 {
                log.wrong(format_args!("urgency (taken, left) {least:?}"));
            }
        }
    }

    /// Whether that claim still holds an id; if so, it does no longer.
    fn let_go(&self, fence: &Fence, now: Millis, id: &str) -> bool {
        let mut books = self.books();
        let ours = now < fence.deadline && books.held.get(id) == Some(&fence.deadline);
        if ours {
            books.held.remove(id);
        }
        ours
    }

    /// What the store must know before the queue hears of a verdict.
    async fn check_verdict(&self, fence: &Fence, id: &str, verdict: &Verdict) {
        let state = self.store.state(self.namespace(), id).await;
        let since = self.books().claims.get(&fence.token).map(|(_, at)| *at);
        match verdict {
            Verdict::Reschedule { .. } if self.store.told_at(id) < since => {
                self.log.wrong(format_args!("{id} is rescheduled, and its answer is not in the store"));
            }
            // Between the save of its end and this, somebody put it in again, and sees that a worker has it.
            Verdict::Finish if self.store.revived.lock().unwrap().contains(id) => {}
            Verdict::Finish if state != Some(ItemState::Ended) => {
                self.log.wrong(format_args!("{id} is finished, and the store says {state:?}"));
            }
            Verdict::MarkDead { .. } if state != Some(ItemState::Dead) => {
                self.log.wrong(format_args!("{id} is buried, and the store says {state:?}"));
            }
            _ => {}
        }
        let mut books = self.books();
        match verdict {
            Verdict::Retry { counted: true, .. } | Verdict::Suspect { .. } => {
                *books.deliveries.entry(id.to_owned()).or_default() += 1
            }
            Verdict::Retry { .. } => {}
            _ => drop(books.deliveries.remove(id)),
        }
        books.counts.finished += u64::from(*verdict == Verdict::Finish);
        books.counts.buried += u64::from(matches!(verdict, Verdict::MarkDead { .. }));
    }

    fn check_settled(&self, settled: SettleOutcome, expected: u64) {
        if settled.settled != expected {
            self.log.wrong(format_args!("{settled:?}, and the claim held {expected} of them"));
        }
        let mut books = self.books();
        books.counts.settled += settled.settled;
        books.counts.settles_lost += settled.lost;
    }
}

#[async_trait]
impl Jobs for WatchedQueue {
    fn namespace(&self) -> &str {
        self.inner.namespace()
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        let answers = self.inner.schedule(jobs).await?;
        self.log.note(format_args!("schedule {}: {answers:?}", names(jobs.iter().map(|job| &job.id))));
        Ok(answers)
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
        let claim = self.inner.claim(request).await?;
        if let Claim::Batch(batch) = &claim {
            let ids = names(batch.jobs.iter().map(|job| &job.id));
            self.log.note(format_args!("{} claims {ids} until {}", request.token, batch.fence.deadline));
            self.check_claim(request, batch);
        }
        Ok(claim)
    }

    async fn settle(
        &self,
        fence: &Fence,
        verdicts: &[(Job, Verdict)],
        tally: &[(&str, i64)],
    ) -> Result<SettleOutcome, QueueError> {
        let now = self.inner.now();
        let settled = self.inner.settle(fence, verdicts, tally).await?;
        let ids = names(verdicts.iter().map(|(job, _)| &job.id));
        self.log.note(format_args!("{} settles {ids}: {settled:?}", fence.token));
        let mut expected = 0;
        for (job, verdict) in verdicts {
            if self.let_go(fence, now, &job.id) {
                expected += 1;
                self.check_verdict(fence, &job.id, verdict).await;
            }
        }
        self.check_settled(settled, expected);
        Ok(settled)
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome, QueueError> {
        let now = self.inner.now();
        let released = self.inner.release(fence, jobs).await?;
        self.log.note(format_args!("{} releases {}: {released:?}", fence.token, names(jobs.iter().map(|job| &job.id))));
        let expected = jobs.iter().filter(|job| self.let_go(fence, now, &job.id)).count();
        self.check_settled(released, expected as u64);
        self.books().counts.released += released.settled;
        Ok(released)
    }

    async fn check(&self) -> Result<Vec<String>, QueueError> {
        self.inner.check().await
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption, QueueError> {
        let adopted = self.inner.adopt(token, ids, lease).await?;
        self.log.note(format_args!("{token} adopts {}: {:?}", names(ids.iter()), adopted.answers));
        let mut books = self.books();
        for (id, _) in ids.iter().zip(&adopted.answers).filter(|(_, answer)| **answer == ScheduleOutcome::Scheduled) {
            let deadline = adopted.fence.deadline;
            if let Some(fence) = books.held.insert(id.clone(), deadline).filter(|fence| *fence != deadline) {
                self.log.wrong(format_args!("{id} is adopted while another holds it until {fence}"));
            }
            books.last_fence = books.last_fence.max(deadline);
        }
        Ok(adopted)
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>, QueueError> {
        self.inner.postpone(jobs).await
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>, QueueError> {
        let answers = self.inner.promote(jobs).await?;
        self.log.note(format_args!("promote {}: {answers:?}", names(jobs.iter().map(|job| &job.id))));
        let promoted =
            answers.iter().filter(|answer| matches!(answer, PromoteOutcome::Moved | PromoteOutcome::Noted)).count();
        self.books().counts.promoted += promoted as u64;
        Ok(answers)
    }

    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        self.inner.revive(jobs).await
    }

    async fn forget(&self, ids: &[String]) -> Result<(), QueueError> {
        self.inner.forget(ids).await
    }

    async fn mark_trial(&self, fence: &Fence) -> Result<bool, QueueError> {
        self.inner.mark_trial(fence).await
    }
}

#[async_trait]
impl Inbox for WatchedQueue {
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>, QueueError> {
        self.inner.read_incoming(drainer, limit).await
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<(), QueueError> {
        self.inner.accept_incoming(members).await
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<(), QueueError> {
        self.inner.refuse_incoming(members).await
    }

    async fn add_incoming(&self, members: &[Incoming]) -> Result<(), QueueError> {
        self.inner.add_incoming(members).await
    }
}

#[async_trait]
impl Workers for WatchedQueue {
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<(), QueueError> {
        self.inner.heartbeat(worker, fields, counters, lateness).await
    }

    async fn deregister(&self, worker: &str) -> Result<(), QueueError> {
        self.inner.deregister(worker).await
    }
}

#[async_trait]
impl ErrorRecords for WatchedQueue {
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<(), QueueError> {
        self.inner.record_errors(errors).await
    }

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>, QueueError> {
        self.inner.errors(most).await
    }

    async fn forget_errors(&self, names: &[String]) -> Result<(), QueueError> {
        self.inner.forget_errors(names).await
    }
}

#[async_trait]
impl Inspection for WatchedQueue {
    async fn sample(&self, most: usize) -> Result<Vec<Sample>, QueueError> {
        self.inner.sample(most).await
    }

    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>, QueueError> {
        self.inner.list_dead(rows).await
    }

    async fn stats(&self) -> Result<Stats, QueueError> {
        self.inner.stats().await
    }

    async fn due_count(&self) -> Result<u64, QueueError> {
        self.inner.due_count().await
    }

    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>, QueueError> {
        self.inner.due_counts_by(offsets).await
    }

    async fn minutes(&self, count: u32) -> Result<Vec<Minute>, QueueError> {
        self.inner.minutes(count).await
    }

    async fn hours(&self, count: u32) -> Result<Vec<Hour>, QueueError> {
        self.inner.hours(count).await
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError> {
        self.inner.locate(ids).await
    }
}

#[async_trait]
impl Administration for WatchedQueue {
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        self.inner.repair_due_times(slack, limit).await
    }

    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        self.inner.apply_lane(lane, slack, limit).await
    }

    async fn sum_hours(&self) -> Result<(), QueueError> {
        self.inner.sum_hours().await
    }

    async fn pause(&self, reason: Option<&str>) -> Result<(), QueueError> {
        self.inner.pause(reason).await
    }
}

crate::support::account_store::hand_on_accounts!(WatchedStore, inner, |store, namespace, answers| store.watched(
    namespace,
    answers,
    store.inner.save_accounts(namespace, answers)
));
crate::support::media_store::hand_on_media!(WatchedStore, inner);

#[async_trait]
impl Budgets for WatchedStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>, StoreError> {
        self.inner.corrections(namespace).await
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool, StoreError> {
        self.inner.replace_corrections(namespace, before, learnt).await
    }
}
