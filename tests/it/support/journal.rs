//! What an updater does to its services, in order, and trouble for it on demand: a queue, a store and
//! a lookup around real ones.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::engine::queue::{
    Administration, Adoption, Claim, ClaimRequest, DeadJob, ErrorRecords, Fence, Hour, Inbox, Incoming, Inspection,
    Job, Jobs, Lane, LaneDue, Lateness, Minute, NewJob, Place, PostponeOutcome, PromoteOutcome, Queue, QueueError,
    RecordedError, RowRange, Sample, ScheduleOutcome, SettleOutcome, Stats, Verdict, Workers,
};
use twitter_updater::model::post::{BadId, ItemState};
use twitter_updater::providers::lookup::{Answer, Capabilities, Lookup, LookupError};
use twitter_updater::quota::Credential;
use twitter_updater::store::{
    BudgetCorrections, Budgets, Change, DeadResolution, Expiry, Lifecycle, ListedItem, Listing, MetricsAt, NewItem,
    Observation, Posts, RecordCounts, SaveCounts, Standing, StateCounts, Store, StoreError, StoredTweet, Way,
};

/// One step, when it is known to have begun (looking up, settling, releasing) or to be done (claiming,
/// saving, marking dead).
#[derive(Debug, Clone)]
pub enum Event {
    Claimed(Vec<Job>),
    NothingToClaim { paused: bool },
    ClaimFailed,
    LookedUp { call: usize, ids: Vec<String> },
    Answered { call: usize },
    Saved(Vec<(String, ItemState)>),
    Buried(Vec<String>),
    Settled(Vec<(String, Verdict)>),
    Released,
}

/// A call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Claim,
    Settle,
    Release,
    Save,
    Bury,
    Adopt,
    Standing,
    ResolveDead,
    Schedule,
    /// Of the store, then of the queue.
    Promote,
}

/// How it fails.
#[derive(Debug, Clone, Copy)]
pub enum Trouble {
    /// It is not done.
    Down,
    /// It is done, and the answer is lost.
    AnswerLost,
    /// It is done, and the answer takes that long.
    Late(Duration),
    /// It is never answered.
    Hangs,
    /// It is not done for want of space (the queue).
    Full,
}

/// The events so far and the trouble to come.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Inner>>);

/// Something that happens once, when a call is done and before its caller hears of it.
struct Meanwhile(BoxFuture<'static, ()>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

#[derive(Debug, Default)]
struct Inner {
    meanwhile: HashMap<Call, Meanwhile>,
    events: Vec<(Millis, Event)>,
    trouble: HashMap<Call, Vec<(Trouble, u32)>>,
    calls: usize,
    in_flight: usize,
    most_in_flight: usize,
}

impl Journal {
    /// The next `times` such calls fail; behind the trouble that is there already.
    pub fn trouble(&self, call: Call, trouble: Trouble, times: u32) {
        self.lock().trouble.entry(call).or_default().push((trouble, times));
    }

    /// When the next such call is done, this happens before its caller goes on.
    pub fn meanwhile(&self, call: Call, happens: impl Future<Output = ()> + Send + 'static) {
        self.lock().meanwhile.insert(call, Meanwhile(Box::pin(happens)));
    }

    /// Such calls fail no more.
    pub fn well_again(&self, call: Call) {
        self.lock().trouble.remove(&call);
    }

    /// The events with their times, ms since the epoch.
    pub fn events(&self) -> Vec<(Millis, Event)> {
        self.lock().events.clone()
    }

    pub fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.lock().events.iter().filter(|(_, event)| which(event)).count()
    }

    /// Calls of the lookup so far.
    pub fn lookups(&self) -> usize {
        self.count(|event| matches!(event, Event::LookedUp { .. }))
    }

    /// The ids of each call of the lookup.
    pub fn looked_up(&self) -> Vec<Vec<String>> {
        let ids = |(_, event)| if let Event::LookedUp { ids, .. } = event { Some(ids) } else { None };
        self.events().into_iter().filter_map(ids).collect()
    }

    /// The jobs of each batch that reached a worker.
    pub fn claimed(&self) -> Vec<Vec<Job>> {
        let jobs = |(_, event)| if let Event::Claimed(jobs) = event { Some(jobs) } else { None };
        self.events().into_iter().filter_map(jobs).collect()
    }

    /// Lookups under way: now, and the most there ever were.
    pub fn in_flight(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.in_flight, inner.most_in_flight)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn note(&self, event: Event) {
        self.lock().events.push((wall_ms(), event));
    }

    /// The trouble of this call, if it has any.
    fn draw(&self, call: Call) -> Option<Trouble> {
        let mut inner = self.lock();
        let list = inner.trouble.get_mut(&call)?;
        let (trouble, times) = list.first_mut()?;
        let drawn = *trouble;
        *times -= 1;
        if *times == 0 {
            list.remove(0);
        }
        Some(drawn)
    }

    async fn through<T, E>(
        &self,
        call: Call,
        fails: impl Fn(Trouble) -> E,
        run: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match self.draw(call) {
            None => {
                let answer = run.await;
                let happens = self.lock().meanwhile.remove(&call);
                if let Some(Meanwhile(happens)) = happens {
                    happens.await;
                }
                answer
            }
            Some(Trouble::Hangs) => pending().await,
            Some(Trouble::Late(delay)) => {
                let answer = run.await;
                tokio::time::sleep(delay).await; // the network's, not ours
                answer
            }
            Some(trouble @ Trouble::AnswerLost) => {
                run.await?;
                Err(fails(trouble))
            }
            Some(trouble) => Err(fails(trouble)),
        }
    }
}

fn queue_fails(trouble: Trouble) -> QueueError {
    match trouble {
        Trouble::Full => QueueError::Full("the test filled it".to_owned()),
        trouble => QueueError::Unavailable(format!("the test says {trouble:?}")),
    }
}

fn store_fails(trouble: Trouble) -> StoreError {
    StoreError::Unavailable(format!("the test says {trouble:?}"))
}

/// A queue whose claims, settles and releases are noted and may fail.
#[derive(Debug)]
pub struct JournalledQueue {
    pub inner: Arc<dyn Queue>,
    pub journal: Journal,
}

#[async_trait]
impl Jobs for JournalledQueue {
    fn namespace(&self) -> &str {
        self.inner.namespace()
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
        let claim = self.journal.through(Call::Claim, queue_fails, self.inner.claim(request)).await;
        self.journal.note(match &claim {
            Ok(Claim::Batch(batch)) => Event::Claimed(batch.jobs.clone()),
            Ok(Claim::Empty { paused, .. }) => Event::NothingToClaim { paused: paused.is_some() },
            Err(_) => Event::ClaimFailed,
        });
        claim
    }

    async fn settle(
        &self,
        fence: &Fence,
        verdicts: &[(Job, Verdict)],
        tally: &[(&str, i64)],
    ) -> Result<SettleOutcome, QueueError> {
        let noted = verdicts.iter().map(|(job, verdict)| (job.id.clone(), verdict.clone())).collect();
        self.journal.note(Event::Settled(noted));
        self.journal.through(Call::Settle, queue_fails, self.inner.settle(fence, verdicts, tally)).await
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome, QueueError> {
        self.journal.note(Event::Released);
        self.journal.through(Call::Release, queue_fails, self.inner.release(fence, jobs)).await
    }

    async fn check(&self) -> Result<Vec<String>, QueueError> {
        self.inner.check().await
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        self.journal.through(Call::Schedule, queue_fails, self.inner.schedule(jobs)).await
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption, QueueError> {
        self.journal.through(Call::Adopt, queue_fails, self.inner.adopt(token, ids, lease)).await
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>, QueueError> {
        self.inner.postpone(jobs).await
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>, QueueError> {
        self.journal.through(Call::Promote, queue_fails, self.inner.promote(jobs)).await
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
impl Inbox for JournalledQueue {
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
impl Workers for JournalledQueue {
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
impl ErrorRecords for JournalledQueue {
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
impl Inspection for JournalledQueue {
    async fn sample(&self, most: usize) -> Result<Vec<Sample>, QueueError> {
        self.inner.sample(most).await
    }

    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>, QueueError> {
        self.inner.list_dead(rows).await
    }

    async fn due_count(&self) -> Result<u64, QueueError> {
        self.inner.due_count().await
    }

    async fn stats(&self) -> Result<Stats, QueueError> {
        self.inner.stats().await
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
impl Administration for JournalledQueue {
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

/// A store whose saves and burials are noted and may fail.
#[derive(Debug)]
pub struct JournalledStore {
    pub inner: Arc<dyn Store>,
    pub journal: Journal,
}

#[async_trait]
impl Lifecycle for JournalledStore {
    async fn mark_dead(&self, namespace: &str, at: Millis, ids: &[(String, String)]) -> Result<(), StoreError> {
        self.journal.through(Call::Bury, store_fails, self.inner.mark_dead(namespace, at, ids)).await?;
        self.journal.note(Event::Buried(ids.iter().map(|(id, _)| id.clone()).collect()));
        Ok(())
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
        self.inner.record(namespace, at, way, tweets).await
    }

    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, Way)>, StoreError> {
        self.inner.ways(namespace, id).await
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>, StoreError> {
        self.journal.through(Call::Standing, store_fails, self.inner.standing(namespace, ids)).await
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<(), StoreError> {
        self.journal.through(Call::ResolveDead, store_fails, self.inner.resolve_dead(namespace, at, tweets)).await
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<(), StoreError> {
        self.journal.through(Call::Promote, store_fails, self.inner.promote(namespace, ids)).await
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
impl Posts for JournalledStore {
    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts, StoreError> {
        let save = self.inner.save(namespace, observations);
        let saved = self.journal.through(Call::Save, store_fails, save).await?;
        self.journal.note(Event::Saved(observations.iter().map(|seen| (seen.id.clone(), seen.state)).collect()));
        Ok(saved)
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

/// A lookup whose calls are noted.
#[derive(Debug)]
pub struct JournalledLookup {
    pub inner: Arc<dyn Lookup>,
    pub journal: Journal,
    /// No call takes more ids.
    pub batch_limit: usize,
}

/// A lookup under way until it is dropped, answered or not.
struct InFlight<'a> {
    journal: &'a Journal,
    call: usize,
}

impl<'a> InFlight<'a> {
    fn begin(journal: &'a Journal, ids: &[String]) -> Self {
        let mut inner = journal.lock();
        let call = inner.calls;
        inner.calls += 1;
        inner.in_flight += 1;
        inner.most_in_flight = inner.most_in_flight.max(inner.in_flight);
        inner.events.push((wall_ms(), Event::LookedUp { call, ids: ids.to_vec() }));
        Self { journal, call }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut inner = self.journal.lock();
        inner.in_flight -= 1;
        inner.events.push((wall_ms(), Event::Answered { call: self.call }));
    }
}

#[async_trait]
impl Lookup for JournalledLookup {
    fn capabilities(&self) -> Capabilities {
        let capabilities = self.inner.capabilities();
        Capabilities { batch_limit: capabilities.batch_limit.min(self.batch_limit), ..capabilities }
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        self.inner.created_at(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        let _in_flight = InFlight::begin(&self.journal, ids);
        self.inner.look_up(ids, credential).await
    }
}

crate::support::account_store::hand_on_accounts!(JournalledStore, inner);
crate::support::media_store::hand_on_media!(JournalledStore, inner);

#[async_trait]
impl Budgets for JournalledStore {
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
