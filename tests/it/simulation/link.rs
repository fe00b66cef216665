//! The services as one process sees them: through its way over the network.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::{
    Administration, Adoption, Claim, ClaimRequest, DeadJob, ErrorRecords, Fence, Hour, Inbox, Incoming, Inspection,
    Job, Jobs, Lane, LaneDue, Lateness, Minute, NewJob, Place, PostponeOutcome, PromoteOutcome, Queue, QueueError,
    RecordedError, RowRange, Sample, ScheduleOutcome, SettleOutcome, Stats, Verdict, Workers,
};
use twitter_updater::model::account::{Account, AccountCounts};
use twitter_updater::model::post::{BadId, Tweet};
use twitter_updater::providers::lookup::{Answer, Capabilities, Lookup, LookupError, Outcome};
use twitter_updater::quota::{
    Budget, CallRecord, ChargedReads, CountedReads, Credential, CredentialStatus, Grant, Ledger, LedgerError, Period,
    PermitRequest,
};
use twitter_updater::store::{
    self, AccountTotal, Accounts, BudgetCorrections, Budgets, Change, CountsAt, DeadResolution, Expiry, HandleBearer,
    Lifecycle, ListedItem, Listing, MetricsAt, NewItem, Observation, Posts, RecordCounts, SaveCounts, ScheduleInputs,
    Sighting, Standing, StateCounts, Store, StoreError, StoredAccount, StoredTweet,
};

use super::network::{Lost, Service, Way};
use super::provider::{Provider, capabilities};

/// How long a process waits for an answer of the queue, the ledger or the store.
pub const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct LinkedQueue {
    pub way: Arc<Way>,
    pub queue: Arc<dyn Queue>,
}

impl LinkedQueue {
    async fn call<T: Send + 'static>(
        &self,
        effect: impl Future<Output = Result<T, QueueError>> + Send + 'static,
    ) -> Result<T, QueueError> {
        let lost = |why| QueueError::Unavailable(format!("{why:?}"));
        self.way.call(Service::Queue, PATIENCE, effect).await.map_err(lost)?
    }
}

/// Calls a method of the service with arguments of the call's own.
macro_rules! pass_on {
    ($self:ident . $service:ident . $call:ident ($($argument:ident),*)) => {{
        let service = $self.$service.clone();
        $self.call(async move { service.$call($(&$argument),*).await }).await
    }};
}

#[async_trait]
impl Jobs for LinkedQueue {
    fn namespace(&self) -> &str {
        self.queue.namespace()
    }

    async fn check(&self) -> Result<Vec<String>, QueueError> {
        pass_on!(self.queue.check())
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        let jobs = jobs.to_vec();
        pass_on!(self.queue.schedule(jobs))
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim, QueueError> {
        let (queue, token) = (self.queue.clone(), request.token.to_owned());
        let ClaimRequest { limit, linger, lookahead, early, lease, .. } = *request;
        let claim = async move {
            let request = ClaimRequest { token: &token, limit, linger, lookahead, early, lease };
            queue.claim(&request).await
        };
        self.call(claim).await
    }

    async fn settle(
        &self,
        fence: &Fence,
        verdicts: &[(Job, Verdict)],
        tally: &[(&str, i64)],
    ) -> Result<SettleOutcome, QueueError> {
        let (queue, fence, verdicts) = (self.queue.clone(), fence.clone(), verdicts.to_vec());
        let tally: Vec<(String, i64)> = tally.iter().map(|(counter, by)| ((*counter).to_owned(), *by)).collect();
        let settle = async move {
            let tally: Vec<(&str, i64)> = tally.iter().map(|(counter, by)| (counter.as_str(), *by)).collect();
            queue.settle(&fence, &verdicts, &tally).await
        };
        self.call(settle).await
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome, QueueError> {
        let (fence, jobs) = (fence.clone(), jobs.to_vec());
        pass_on!(self.queue.release(fence, jobs))
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption, QueueError> {
        let (queue, token, ids) = (self.queue.clone(), token.to_owned(), ids.to_vec());
        self.call(async move { queue.adopt(&token, &ids, lease).await }).await
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>, QueueError> {
        let jobs = jobs.to_vec();
        pass_on!(self.queue.postpone(jobs))
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>, QueueError> {
        let jobs = jobs.to_vec();
        pass_on!(self.queue.promote(jobs))
    }

    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>, QueueError> {
        let jobs = jobs.to_vec();
        pass_on!(self.queue.revive(jobs))
    }

    async fn forget(&self, ids: &[String]) -> Result<(), QueueError> {
        let ids = ids.to_vec();
        pass_on!(self.queue.forget(ids))
    }

    async fn mark_trial(&self, fence: &Fence) -> Result<bool, QueueError> {
        let fence = fence.clone();
        pass_on!(self.queue.mark_trial(fence))
    }
}

#[async_trait]
impl Inbox for LinkedQueue {
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>, QueueError> {
        let (queue, drainer) = (self.queue.clone(), drainer.to_owned());
        self.call(async move { queue.read_incoming(&drainer, limit).await }).await
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<(), QueueError> {
        let members = members.to_vec();
        pass_on!(self.queue.accept_incoming(members))
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<(), QueueError> {
        let members = members.to_vec();
        pass_on!(self.queue.refuse_incoming(members))
    }

    async fn add_incoming(&self, members: &[Incoming]) -> Result<(), QueueError> {
        let members = members.to_vec();
        pass_on!(self.queue.add_incoming(members))
    }
}

#[async_trait]
impl Workers for LinkedQueue {
    async fn heartbeat(
        &self,
        worker: &str,
        _: &[(&str, String)],
        _: &[(&str, i64)],
        _: &Lateness,
    ) -> Result<(), QueueError> {
        let (queue, worker) = (self.queue.clone(), worker.to_owned());
        self.call(async move { queue.heartbeat(&worker, &[], &[], &Lateness::default()).await }).await
    }

    async fn deregister(&self, worker: &str) -> Result<(), QueueError> {
        let worker = worker.to_owned();
        pass_on!(self.queue.deregister(worker))
    }
}

#[async_trait]
impl ErrorRecords for LinkedQueue {
    async fn record_errors(&self, errors: &[RecordedError]) -> Result<(), QueueError> {
        let errors = errors.to_vec();
        pass_on!(self.queue.record_errors(errors))
    }

    async fn errors(&self, most: usize) -> Result<Vec<RecordedError>, QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.errors(most).await }).await
    }

    async fn forget_errors(&self, names: &[String]) -> Result<(), QueueError> {
        let names = names.to_vec();
        pass_on!(self.queue.forget_errors(names))
    }
}

#[async_trait]
impl Inspection for LinkedQueue {
    async fn sample(&self, most: usize) -> Result<Vec<Sample>, QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.sample(most).await }).await
    }

    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>, QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.list_dead(rows).await }).await
    }

    async fn stats(&self) -> Result<Stats, QueueError> {
        pass_on!(self.queue.stats())
    }

    async fn due_count(&self) -> Result<u64, QueueError> {
        pass_on!(self.queue.due_count())
    }

    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>, QueueError> {
        let offsets = offsets.to_vec();
        pass_on!(self.queue.due_counts_by(offsets))
    }

    async fn minutes(&self, count: u32) -> Result<Vec<Minute>, QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.minutes(count).await }).await
    }

    async fn hours(&self, count: u32) -> Result<Vec<Hour>, QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.hours(count).await }).await
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError> {
        let ids = ids.to_vec();
        pass_on!(self.queue.locate(ids))
    }
}

#[async_trait]
impl Administration for LinkedQueue {
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.repair_due_times(slack, limit).await }).await
    }

    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64, QueueError> {
        let (queue, lane) = (self.queue.clone(), lane.clone());
        self.call(async move { queue.apply_lane(&lane, slack, limit).await }).await
    }

    async fn sum_hours(&self) -> Result<(), QueueError> {
        let queue = self.queue.clone();
        self.call(async move { queue.sum_hours().await }).await
    }

    async fn pause(&self, reason: Option<&str>) -> Result<(), QueueError> {
        let (queue, reason) = (self.queue.clone(), reason.map(str::to_owned));
        self.call(async move { queue.pause(reason.as_deref()).await }).await
    }
}

#[derive(Debug)]
pub struct LinkedStore {
    pub way: Arc<Way>,
    pub store: Arc<dyn Store>,
}

/// A call of the store at the end of a process's way.
pub async fn call_of_store<T: Send + 'static>(
    way: &Way,
    effect: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let lost = |why| StoreError::Unavailable(format!("{why:?}"));
    way.call(Service::Store, PATIENCE, effect).await.map_err(lost)?
}

impl LinkedStore {
    async fn call<T: Send + 'static>(
        &self,
        effect: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        call_of_store(&self.way, effect).await
    }
}

#[async_trait]
impl Lifecycle for LinkedStore {
    async fn migrate(&self) -> Result<(), StoreError> {
        pass_on!(self.store.migrate())
    }

    async fn check(&self) -> Result<(), StoreError> {
        pass_on!(self.store.check())
    }

    async fn record(
        &self,
        namespace: &str,
        at: Millis,
        way: &store::Way,
        tweets: &[NewItem],
    ) -> Result<RecordCounts, StoreError> {
        let (store, namespace, tweets) = (self.store.clone(), namespace.to_owned(), tweets.to_vec());
        let way = way.clone();
        self.call(async move { store.record(&namespace, at, &way, &tweets).await }).await
    }

    async fn ways(&self, namespace: &str, id: &str) -> Result<Vec<(Millis, store::Way)>, StoreError> {
        self.store.ways(namespace, id).await
    }

    async fn standing(&self, namespace: &str, ids: &[String]) -> Result<Vec<Option<Standing>>, StoreError> {
        let (namespace, ids) = (namespace.to_owned(), ids.to_vec());
        pass_on!(self.store.standing(namespace, ids))
    }

    async fn mark_dead(&self, namespace: &str, at: Millis, ids: &[(String, String)]) -> Result<(), StoreError> {
        let (store, namespace, ids) = (self.store.clone(), namespace.to_owned(), ids.to_vec());
        self.call(async move { store.mark_dead(&namespace, at, &ids).await }).await
    }

    async fn resolve_dead(&self, namespace: &str, at: Millis, tweets: &[DeadResolution]) -> Result<(), StoreError> {
        let (store, namespace, tweets) = (self.store.clone(), namespace.to_owned(), tweets.to_vec());
        self.call(async move { store.resolve_dead(&namespace, at, &tweets).await }).await
    }

    async fn promote(&self, namespace: &str, ids: &[(String, Millis)]) -> Result<(), StoreError> {
        let (store, namespace, ids) = (self.store.clone(), namespace.to_owned(), ids.to_vec());
        self.call(async move { store.promote(&namespace, &ids).await }).await
    }

    async fn page(
        &self,
        namespace: &str,
        of: Listing,
        below: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ListedItem>, StoreError> {
        let (store, namespace, below) = (self.store.clone(), namespace.to_owned(), below.map(str::to_owned));
        self.call(async move { store.page(&namespace, of, below.as_deref(), limit).await }).await
    }

    async fn remove(&self, namespace: &str, which: Expiry, ids: &[String]) -> Result<u64, StoreError> {
        let (store, namespace, ids) = (self.store.clone(), namespace.to_owned(), ids.to_vec());
        self.call(async move { store.remove(&namespace, which, &ids).await }).await
    }

    async fn counts(&self, namespace: &str) -> Result<StateCounts, StoreError> {
        let namespace = namespace.to_owned();
        pass_on!(self.store.counts(namespace))
    }
}

#[async_trait]
impl Posts for LinkedStore {
    async fn changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>, StoreError> {
        self.store.changes(namespace, id).await
    }

    async fn save(&self, namespace: &str, observations: &[Observation]) -> Result<SaveCounts, StoreError> {
        let (namespace, observations) = (namespace.to_owned(), observations.to_vec());
        pass_on!(self.store.save(namespace, observations))
    }

    async fn tweet(&self, namespace: &str, id: &str) -> Result<Option<StoredTweet>, StoreError> {
        let (namespace, id) = (namespace.to_owned(), id.to_owned());
        pass_on!(self.store.tweet(namespace, id))
    }

    async fn history(&self, namespace: &str, id: &str) -> Result<Vec<MetricsAt>, StoreError> {
        let (namespace, id) = (namespace.to_owned(), id.to_owned());
        pass_on!(self.store.history(namespace, id))
    }
}

#[derive(Debug)]
pub struct LinkedLedger {
    pub way: Arc<Way>,
    pub ledger: Arc<dyn Ledger>,
}

impl LinkedLedger {
    async fn call<T: Send + 'static>(
        &self,
        effect: impl Future<Output = Result<T, LedgerError>> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let lost = |why| LedgerError::Unavailable(format!("{why:?}"));
        self.way.call(Service::Ledger, PATIENCE, effect).await.map_err(lost)?
    }
}

#[async_trait]
impl Ledger for LinkedLedger {
    async fn acquire(&self, ask: &PermitRequest<'_>) -> Result<Grant, LedgerError> {
        let PermitRequest { expiry, backlog, .. } = *ask;
        let (names, endpoint, permit) = (ask.names.to_vec(), ask.endpoint.to_owned(), ask.permit.to_owned());
        let fingerprints = ask.fingerprints.to_vec();
        let ledger = self.ledger.clone();
        let acquire = async move {
            let (names, fingerprints) = (&*names, &*fingerprints);
            let ask = PermitRequest { names, fingerprints, endpoint: &endpoint, permit: &permit, expiry, backlog };
            ledger.acquire(&ask).await
        };
        self.call(acquire).await
    }

    async fn record_call(
        &self,
        name: &str,
        endpoint: &str,
        permit: &str,
        used: &CallRecord,
    ) -> Result<(), LedgerError> {
        let [name, endpoint, permit] = [name, endpoint, permit].map(str::to_owned);
        let used = used.clone();
        pass_on!(self.ledger.record_call(name, endpoint, permit, used))
    }

    async fn return_permit(&self, name: &str, endpoint: &str, permit: &str) -> Result<(), LedgerError> {
        let [name, endpoint, permit] = [name, endpoint, permit].map(str::to_owned);
        pass_on!(self.ledger.return_permit(name, endpoint, permit))
    }

    async fn unpark(&self, name: &str, fingerprint: &str) -> Result<bool, LedgerError> {
        let (name, fingerprint) = (name.to_owned(), fingerprint.to_owned());
        pass_on!(self.ledger.unpark(name, fingerprint))
    }

    async fn statuses(
        &self,
        endpoint: &str,
        names: &[String],
        fingerprints: &[String],
    ) -> Result<Vec<CredentialStatus>, LedgerError> {
        let (endpoint, names, fingerprints) = (endpoint.to_owned(), names.to_vec(), fingerprints.to_vec());
        pass_on!(self.ledger.statuses(endpoint, names, fingerprints))
    }

    async fn reserve(&self, call: &str, ids: &[String], budget: &Budget) -> Result<Vec<bool>, LedgerError> {
        let (call, ids, budget) = (call.to_owned(), ids.to_vec(), *budget);
        pass_on!(self.ledger.reserve(call, ids, budget))
    }

    async fn charge(&self, call: &str, charged: &ChargedReads, budget: &Budget) -> Result<(), LedgerError> {
        let (call, charged, budget) = (call.to_owned(), charged.clone(), *budget);
        pass_on!(self.ledger.charge(call, charged, budget))
    }

    async fn counted_reads(&self, per: Period) -> Result<CountedReads, LedgerError> {
        let ledger = self.ledger.clone();
        self.call(async move { ledger.counted_reads(per).await }).await
    }

    async fn forget(&self, ids: &[String]) -> Result<u64, LedgerError> {
        let ids = ids.to_vec();
        pass_on!(self.ledger.forget(ids))
    }
}

#[derive(Debug)]
pub struct LinkedLookup {
    pub way: Arc<Way>,
    pub provider: Arc<Provider>,
    /// How long a call may take.
    pub timeout: Duration,
    /// The process is killed by what it was answered.
    pub killed: Arc<tokio::sync::Notify>,
}

/// An item as the scripted API has it.
pub trait Scripted: Clone + Send + 'static {
    fn of(tweet: Tweet) -> Self;
}

impl Scripted for Tweet {
    fn of(tweet: Tweet) -> Self {
        tweet
    }
}

/// Its followers are the moment at which it was read, its posts are what the post's likes are.
impl Scripted for Account {
    fn of(tweet: Tweet) -> Self {
        let Tweet { id, created_at, metrics, raw, .. } = tweet;
        let counts = AccountCounts {
            followers: metrics.retweet_count,
            posts: metrics.favorite_count,
            ..AccountCounts::default()
        };
        Self { id, created_at, counts, raw, handle: Some("somebody".to_owned()), ..Self::default() }
    }
}

#[async_trait]
impl<T: Scripted> Lookup<T> for LinkedLookup {
    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    fn created_at(&self, id: &str) -> Result<Option<Millis>, BadId> {
        Provider::created_at(id)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<T>, LookupError> {
        self.answer(ids, credential).await.map(|answer| {
            let outcome = |outcome| match outcome {
                Outcome::Found(tweet) => Outcome::Found(T::of(tweet)),
                Outcome::Unavailable => Outcome::Unavailable,
                Outcome::Absent(why) => Outcome::Absent(why),
                Outcome::Emptied(tweet, why) => Outcome::Emptied(T::of(tweet), why),
                Outcome::Broken(why) => Outcome::Broken(why),
            };
            let Answer { outcomes, quota, unsolicited, first_unsolicited } = answer;
            Answer { outcomes: outcomes.into_iter().map(outcome).collect(), quota, unsolicited, first_unsolicited }
        })
    }
}

impl LinkedLookup {
    async fn answer(&self, ids: &[String], credential: &Credential) -> Result<Answer, LookupError> {
        self.answer_with(ids, credential, |_| ()).await.map(|(answer, ())| answer)
    }

    /// The answer, and what is read of the API at the same moment.
    pub async fn answer_with<T: Send + 'static>(
        &self,
        ids: &[String],
        credential: &Credential,
        read: impl FnOnce(&Provider) -> T + Send + 'static,
    ) -> Result<(Answer, T), LookupError> {
        let (provider, asked, name) = (self.provider.clone(), ids.to_vec(), credential.name.clone());
        let process = self.way.process;
        provider.note_call(process, ids);
        let answer = async move { provider.answer(&asked, &name).await.map(|answer| (answer, read(&provider))) };
        match self.way.call(Service::Api, self.timeout, answer).await {
            Ok(_) if self.provider.kills(ids) => {
                self.killed.notify_one();
                std::future::pending().await
            }
            // The process's number makes its failures known in the log.
            Ok(Err(LookupError::Outage(why))) => Err(LookupError::Outage(format!("process {process}: {why}"))),
            Ok(answer) => answer,
            Err(Lost::Refused) => Err(LookupError::Outage(format!("process {process}: connection refused"))),
            Err(why) => Err(LookupError::Outage(format!("process {process}: {why:?}"))),
        }
    }
}

#[async_trait]
impl Accounts for LinkedStore {
    async fn save_accounts(&self, namespace: &str, answers: &[Observation<Account>]) -> Result<SaveCounts, StoreError> {
        let (namespace, answers) = (namespace.to_owned(), answers.to_vec());
        pass_on!(self.store.save_accounts(namespace, answers))
    }

    async fn record_sightings(&self, namespace: &str, sightings: &[Sighting]) -> Result<(), StoreError> {
        let (namespace, sightings) = (namespace.to_owned(), sightings.to_vec());
        pass_on!(self.store.record_sightings(namespace, sightings))
    }

    async fn schedule_inputs(
        &self,
        namespace: &str,
        ids: &[String],
    ) -> Result<Vec<Option<ScheduleInputs>>, StoreError> {
        let (namespace, ids) = (namespace.to_owned(), ids.to_vec());
        pass_on!(self.store.schedule_inputs(namespace, ids))
    }

    async fn post_times(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<Millis>, StoreError> {
        let (store, namespace, id) = (self.store.clone(), namespace.to_owned(), id.to_owned());
        self.call(async move { store.post_times(&namespace, &id, limit).await }).await
    }

    // What people look at is not asked for here.
    async fn newest_posts(&self, namespace: &str, id: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        self.store.newest_posts(namespace, id, limit).await
    }

    async fn account(&self, namespace: &str, id: &str) -> Result<Option<StoredAccount>, StoreError> {
        self.store.account(namespace, id).await
    }

    async fn handle_bearers(&self, namespace: &str, handle: &str) -> Result<Vec<HandleBearer>, StoreError> {
        self.store.handle_bearers(namespace, handle).await
    }

    async fn account_changes(&self, namespace: &str, id: &str) -> Result<Vec<Change>, StoreError> {
        self.store.account_changes(namespace, id).await
    }

    async fn account_counts(&self, namespace: &str, id: &str) -> Result<Vec<CountsAt>, StoreError> {
        self.store.account_counts(namespace, id).await
    }

    async fn account_states(&self, namespace: &str) -> Result<Vec<AccountTotal>, StoreError> {
        self.store.account_states(namespace).await
    }

    async fn store_handles(
        &self,
        namespace: &str,
        handles: &[String],
        at: Millis,
        most: u32,
    ) -> Result<bool, StoreError> {
        self.store.store_handles(namespace, handles, at, most).await
    }

    async fn claim_handles(
        &self,
        namespace: &str,
        now: Millis,
        until: Millis,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.store.claim_handles(namespace, now, until, limit).await
    }

    async fn settle_handles(
        &self,
        namespace: &str,
        now: Millis,
        resolved: &[String],
        refused: &[(String, String)],
    ) -> Result<(), StoreError> {
        self.store.settle_handles(namespace, now, resolved, refused).await
    }

    async fn stored_handle(&self, namespace: &str, handle: &str) -> Result<Option<store::StoredHandle>, StoreError> {
        self.store.stored_handle(namespace, handle).await
    }
}

crate::support::media_store::hand_on_media!(LinkedStore, store, pass_on);

#[async_trait]
impl Budgets for LinkedStore {
    async fn corrections(&self, namespace: &str) -> Result<Option<BudgetCorrections>, StoreError> {
        let namespace = namespace.to_owned();
        pass_on!(self.store.corrections(namespace))
    }

    async fn replace_corrections(
        &self,
        namespace: &str,
        before: Option<Millis>,
        learnt: &BudgetCorrections,
    ) -> Result<bool, StoreError> {
        let (service, namespace, learnt) = (self.store.clone(), namespace.to_owned(), *learnt);
        self.call(async move { service.replace_corrections(&namespace, before, &learnt).await }).await
    }
}
