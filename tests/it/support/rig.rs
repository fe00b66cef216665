//! An updater in one piece: the simulated API over loopback, a queue, a store, the handler, and a
//! worker that can be started and stopped. All durations are short.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio::task::JoinHandle;
use twitter_updater::base::clock::{Millis, millis, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::Settings;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{
    Batch, Claim, ClaimRequest, EmbeddedQueue, Job, Lane, NewJob, Place, Queue, RedisQueue, ScheduleOutcome,
};
use twitter_updater::engine::schedule::Schedules;
use twitter_updater::engine::schedule::adaptive::budget::Normaliser;
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::{Adaptive, Options};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::worker::{BatchOutcome, ClaimSettings, Handler, HandlerKind, PermanentFailure, Worker};
use twitter_updater::ingest::Starter;
use twitter_updater::model::account::Role;
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::post::{ItemState, Metrics as Counts, Tweet, TweetId};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::kind::PipelineKind;
use twitter_updater::pipelines::posts::{PeopleReader, PostJudge, TweetUpdate};
use twitter_updater::pipelines::profiles::{PROFILES, Profiles};
use twitter_updater::pipelines::refresh::{
    Arrival, FailureTracker, FanOutTarget, Mention, QueueChanges, Receiver, UNAVAILABLE_LANE, UnavailableSettings,
};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::registry;
use twitter_updater::providers::twitter_v1::{TwitterV1, TwitterV1Options};
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::quota::{
    AcquireOutcome, AppToken, CallRecord, Credential, CredentialKind, Credentials, EmbeddedLedger, Ledger, Pacing,
    Permit, RedisLedger, Window,
};
use twitter_updater::simulator::{self, Fault, Rule, Running, SimulatorOptions};
use twitter_updater::store::{Finding, Observation, PostgresStore, SqliteStore, Store, StoreError, StoredTweet, Way};

use super::journal::{Journal, JournalledLookup, JournalledQueue, JournalledStore};
use super::redis::{TestRedis, namespace};

pub const MINUTE: Millis = 60_000;
pub const HOUR: Millis = 60 * MINUTE;
pub const DAY: Millis = 24 * HOUR;

/// How long something that has to happen may take: far more than it does, on a loaded machine too.
const DEADLINE: Duration = Duration::from_secs(60);

/// Takes accounts by their ids alone.
#[derive(Debug)]
pub struct IdsOnly;

#[async_trait]
impl Receiver for IdsOnly {
    fn takes(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Account { .. })
    }

    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError> {
        QueueChanges::record_first(starter, mentions).await
    }
}

/// Waits until something is so. What another task does in a service of ours has no event to wait for.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let so = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, so).await.is_ok(), "it never happened: {what}");
}

/// Where a rig keeps its jobs and tweets.
pub enum Backends {
    /// One file each.
    Embedded,
    /// The Redis that all tests share, and the PostgreSQL database of this url.
    Servers(String),
}

pub struct Setup {
    pub backends: Backends,
    pub simulator: SimulatorOptions,
    pub slots: usize,
    pub claims: ClaimSettings,
    pub ages: &'static str,
    /// By what posts show, at the cost of those ages.
    pub adaptive: bool,
    pub unavailable_after: Duration,
    pub unavailable_every: Duration,
    pub unavailable_limit: u32,
    pub unavailable_for: Duration,
    pub forget: bool,
    pub max_deliveries: u32,
    pub lookup_timeout: Duration,
    pub save_timeout: Duration,
    /// Bearer tokens, one credential each; none: one without a token.
    pub tokens: Vec<&'static str>,
    /// An application's keys: one credential more, that comes first, and fetches its token.
    pub app: Option<(&'static str, &'static str)>,
    /// The queue of the accounts that wrote the posts.
    pub authors: Option<Arc<dyn Queue>>,
}

impl Default for Setup {
    /// Every tweet is there, calls are not limited, nothing is due twice in a test.
    fn default() -> Self {
        Self {
            backends: Backends::Embedded,
            simulator: SimulatorOptions {
                calls_per_window: 0,
                app_calls_per_window: 0,
                missing_share: 0.0,
                withheld_share: 0.0,
                retweet_share: 0.0,
                body_padding: 0,
                ..SimulatorOptions::default()
            },
            slots: 1,
            claims: ClaimSettings {
                limit: 100,
                linger: Duration::from_millis(20),
                lookahead: 0.0,
                lease: Duration::from_secs(60),
            },
            ages: "18m: 1h, 60m: 2h, 1d: 3h, 7d: 6h, 30d: 1d",
            adaptive: false,
            unavailable_after: Duration::from_secs(600),
            unavailable_every: Duration::from_secs(4 * 3_600),
            unavailable_limit: 3,
            unavailable_for: Duration::ZERO,
            forget: false,
            max_deliveries: 2,
            lookup_timeout: Duration::from_secs(20),
            save_timeout: Duration::from_secs(20),
            tokens: Vec::new(),
            app: None,
            authors: None,
        }
    }
}

/// The adaptive schedule at the cost of those ages, by the model that comes with the program.
pub fn adaptive(ages: &AgeTable) -> Adaptive {
    let model = Arc::new(Model::embedded().unwrap());
    Adaptive::new(ages.clone(), model, Options::default(), Normaliser::default())
}

/// What came of one batch.
pub struct Round {
    pub batch: Batch,
    pub handled: BatchOutcome,
}

pub struct Rig {
    pub setup: Setup,
    pub simulator: Option<Running>,
    address: SocketAddr,
    /// The queue and the store themselves: what a test does to them is not noted.
    pub queue: Arc<dyn Queue>,
    pub store: Arc<dyn Store>,
    pub journal: Journal,
    /// The age table in force.
    pub ages: Reloadable<AgeTable>,
    pub handler: Arc<TweetUpdate>,
    pub credentials: Arc<Credentials>,
    pub metrics: Arc<Metrics>,
    pub stop: Stop,
    worker: Option<JoinHandle<Result<(), PermanentFailure>>>,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub async fn start(setup: Setup) -> Self {
        let simulator = simulator::start(([127, 0, 0, 1], 0).into(), setup.simulator.clone()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (queue, store, ledger): (Arc<dyn Queue>, Arc<dyn Store>, Arc<dyn Ledger>) = match &setup.backends {
            Backends::Embedded => {
                let patience = Duration::from_secs(20);
                let [queue, store] = ["queue.db", "tweets.db"].map(|file| folder.path().join(file));
                let queue = EmbeddedQueue::open(&queue, "tweet:update", patience).await.unwrap();
                let store = SqliteStore::open(&store, patience).await.unwrap();
                let ledger = EmbeddedLedger::open(&folder.path().join("queue.db"), "twitter", patience).await.unwrap();
                (Arc::new(queue), Arc::new(store), Arc::new(ledger))
            }
            Backends::Servers(postgres) => {
                let queue = RedisQueue::new(TestRedis::shared().pool(), &namespace());
                let url = SecretString::from(postgres.as_str());
                let store = PostgresStore::connect(&url, 8, Duration::from_secs(20)).await.unwrap();
                let ledger = RedisLedger::new(TestRedis::shared().pool(), &namespace());
                (Arc::new(queue), Arc::new(store), Arc::new(ledger))
            }
        };
        store.migrate().await.unwrap();
        let credential = |token: &&str| Credential {
            name: format!("of {token}"),
            kind: CredentialKind::Bearer((*token).to_owned().into()),
        };
        let anonymous = || Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
        let app = setup.app.map(|(key, secret)| Credential {
            name: "app".to_owned(),
            kind: CredentialKind::App(AppToken::new(key.into(), secret.into())),
        });
        let mut all: Vec<_> = app.into_iter().chain(setup.tokens.iter().map(credential)).collect();
        if all.is_empty() {
            all.push(anonymous());
        }
        let credentials = Arc::new(Credentials::new(all, ledger.clone(), Pacing::Auto, setup.claims.lease));
        // A simulator without limits is known to be one: no call has to find out first, alone.
        if setup.simulator.calls_per_window == 0 && setup.simulator.app_calls_per_window == 0 {
            for credential in credentials.all() {
                let used = CallRecord { window: Some(Window::unmetered()), ..CallRecord::default() };
                let endpoint = "statuses/lookup";
                ledger.record_call(&credential.name, endpoint, "none", &used).await.unwrap();
            }
        }
        let (journal, metrics) = (Journal::default(), Arc::new(Metrics::new()));
        let lookup = TwitterV1::new(TwitterV1Options {
            base_url: simulator.base_url(),
            http: HttpOptions { timeout: setup.lookup_timeout, ..HttpOptions::default() },
            ..TwitterV1Options::default()
        });
        let wave = Reloadable::new(None);
        let ages: Reloadable<AgeTable> = Reloadable::new(setup.ages.parse().unwrap());
        let schedule: Arc<dyn Schedules> = match setup.adaptive {
            true => Reloadable::new(adaptive(&ages.load())).into(),
            false => ages.clone().into(),
        };
        let accounts = PipelineId::items(&Provider::Twitter, PROFILES);
        let profiles = Profiles.schedule(&accounts, &Settings::load_with(&[], None, &[]).unwrap());
        let target = |authors: &Arc<dyn Queue>| {
            let queue = JournalledQueue { inner: authors.clone(), journal: journal.clone() };
            let ids_only = |_: &str| Err(UnreadableObject::NotAccepted);
            let schedules: Arc<dyn Schedules> = Reloadable::new(profiles.clone()).into();
            let starter =
                Starter::new(Arc::new(queue), Some(store.clone()), schedules, Arc::new(|_| Ok(None)), ids_only);
            FanOutTarget::new(accounts.clone(), starter.with_way(Way::new("fan_out")), Some(Arc::new(IdsOnly)))
        };
        let people = PeopleReader { people: registry::people(&Provider::Twitter), roles: vec![Role::Author] };
        let handler = TweetUpdate {
            items: PipelineStore {
                namespace: queue.namespace().to_owned(),
                store: Arc::new(JournalledStore { inner: store.clone(), journal: journal.clone() }),
                save_timeout: setup.save_timeout,
                max_deliveries: setup.max_deliveries,
            },
            lookup: Arc::new(JournalledLookup {
                inner: Arc::new(lookup.unwrap()),
                journal: journal.clone(),
                batch_limit: setup.claims.limit,
            }),
            judge: PostJudge { people: setup.authors.is_some().then_some(people), ..PostJudge::default() },
            credentials: credentials.clone(),
            call_timeout: setup.lookup_timeout,
            schedule,
            unavailable: UnavailableSettings {
                confirm: None,
                forget: setup.forget,
                lane: Lane::new(UNAVAILABLE_LANE, setup.unavailable_every),
                confirmed_after: millis(setup.unavailable_after),
                limit: setup.unavailable_limit,
                after: millis(setup.unavailable_for),
            },
            metrics: metrics.clone(),
            wave: wave.clone(),
            fan_out: setup.authors.iter().map(target).collect(),
            failure_tracker: FailureTracker::default(),
        };
        Self {
            address: simulator.addr(),
            simulator: Some(simulator),
            queue,
            store,
            journal,
            handler: Arc::new(handler),
            ages,
            credentials,
            metrics,
            stop: Stop::new(),
            worker: None,
            _folder: folder,
            setup,
        }
    }

    pub fn simulator(&self) -> &Running {
        self.simulator.as_ref().expect("it runs")
    }

    /// The next `times` calls of the API go wrong.
    pub fn inject(&self, fault: Fault, times: u32) {
        self.simulator().inject(fault, times);
    }

    /// All calls of the API go wrong until [`Rig::api_is_well`].
    pub fn api_fails(&self, fault: Fault) {
        self.simulator().faults().add(Rule::from(fault));
    }

    pub fn api_is_well(&self) {
        self.simulator().faults().clear();
    }

    pub async fn stop_api(&mut self) {
        self.simulator.take().expect("it runs").stop().await;
    }

    /// On the address it had.
    pub async fn restart_api(&mut self) {
        self.simulator = Some(simulator::start(self.address, self.setup.simulator.clone()).await.unwrap());
    }

    pub fn ages(&self) -> Arc<AgeTable> {
        self.ages.load()
    }

    /// New ids of tweets of that age which the simulated world has, for an hour more at least.
    pub fn there(&self, count: usize, age: Millis) -> Vec<String> {
        self.picked(count, age, true)
    }

    /// New ids of that age which the simulated world does not have.
    pub fn gone(&self, count: usize, age: Millis) -> Vec<String> {
        self.picked(count, age, false)
    }

    fn picked(&self, count: usize, age: Millis, there: bool) -> Vec<String> {
        static SEQUENCE: AtomicU32 = AtomicU32::new(0);
        let now = wall_ms();
        std::iter::from_fn(|| Some(TweetId::at(now - age, SEQUENCE.fetch_add(1, Ordering::Relaxed))))
            .take(100_000)
            .filter(|id| {
                let at = |when| self.simulator().world().tweet(*id, when).is_some();
                if there { at(now) && at(now + HOUR) } else { !at(now) }
            })
            .take(count)
            .map(|id| id.to_string())
            .collect()
    }

    /// Puts ids into the lane of their age, due now.
    pub async fn schedule(&self, ids: &[String]) {
        self.schedule_in(ids, 0).await;
    }

    /// Puts ids into the lane of their age, due in `delay` ms.
    pub async fn schedule_in(&self, ids: &[String], delay: Millis) {
        let lane = |id: &str| {
            let made = TweetId::parse(id).unwrap().created_at();
            let lane = made.and_then(|made| self.ages().lane(made, wall_ms()).cloned());
            lane.unwrap_or_else(|| self.handler.unavailable.lane.clone())
        };
        let jobs: Vec<_> = ids.iter().map(|id| NewJob { id: id.clone(), lane: lane(id), due: delay.into() }).collect();
        for answer in self.queue.schedule(&jobs).await.unwrap() {
            assert_eq!(answer, ScheduleOutcome::Scheduled);
        }
    }

    /// Puts ids into the queue as if they had been due `late` ms ago. Nothing else may be due.
    pub async fn schedule_late(&self, ids: &[String], late: Millis) {
        self.schedule(ids).await;
        let batch = self.claim(ids.len()).await;
        assert_eq!(batch.jobs.len(), ids.len());
        let jobs: Vec<_> = batch.jobs.iter().map(|job| Job { due: batch.claimed_at - late, ..job.clone() }).collect();
        self.queue.release(&batch.fence, &jobs).await.unwrap();
    }

    /// Takes what is due; waits for something to be.
    pub async fn claim(&self, limit: usize) -> Batch {
        static TOKEN: AtomicU32 = AtomicU32::new(0);
        let token = format!("test-{}", TOKEN.fetch_add(1, Ordering::Relaxed));
        let ClaimSettings { lookahead, lease, .. } = self.setup.claims;
        let request = ClaimRequest { token: &token, limit, linger: Duration::ZERO, lookahead, early: 0.0, lease };
        let claimed = async {
            loop {
                match self.queue.claim(&request).await.unwrap() {
                    Claim::Batch(batch) => return batch,
                    Claim::Empty { wait, .. } => tokio::time::sleep(wait.max(Duration::from_millis(1))).await,
                }
            }
        };
        tokio::time::timeout(DEADLINE, claimed).await.expect("something is due")
    }

    pub async fn permit(&self) -> Permit {
        match self.leave().await {
            AcquireOutcome::Granted(permit) => permit,
            AcquireOutcome::Wait(wait) => panic!("no permit for {wait:?}"),
        }
    }

    pub async fn leave(&self) -> AcquireOutcome {
        self.credentials.acquire(self.handler.endpoint(), 0).await.unwrap()
    }

    /// One step of a worker, without one: claim all that is due, handle, settle.
    pub async fn round(&self) -> Round {
        let batch = self.claim(100).await;
        self.round_of(batch).await
    }

    pub async fn round_of(&self, batch: Batch) -> Round {
        let handled = self.handler.handle(&batch, self.permit().await).await;
        let settled = self.queue.settle(&batch.fence, &handled.verdicts, &handled.tally).await.unwrap();
        assert_eq!(settled.lost, 0);
        let released = self.queue.release(&batch.fence, &handled.release).await.unwrap();
        assert_eq!(released.lost, 0);
        Round { batch, handled }
    }

    /// A worker over this rig's services.
    pub fn worker(&self, name: &str) -> Worker {
        let queue = JournalledQueue { inner: self.queue.clone(), journal: self.journal.clone() };
        Worker {
            name: name.to_owned(),
            queue: Arc::new(queue),
            handling: HandlerKind::Metered(self.handler.clone(), self.credentials.clone()),
            claims: self.setup.claims.into(),
            early: 0.0.into(),
            concurrency: self.setup.slots.into(),
            metrics: self.metrics.clone(),
            health: Arc::default(),
            stop: self.stop.clone(),
        }
    }

    /// Starts a worker.
    pub fn work(&mut self) {
        let worker = self.worker("worker");
        self.work_as(worker);
    }

    pub fn work_as(&mut self, worker: Worker) {
        assert!(self.worker.is_none(), "it works already");
        self.worker = Some(tokio::spawn(worker.run()));
    }

    /// Waits for the worker's end and says how it ended. Nothing may be left leased.
    pub async fn ended(&mut self) -> Result<(), PermanentFailure> {
        let worker = self.worker.take().expect("it works");
        let ended = tokio::time::timeout(DEADLINE, worker).await.expect("the worker ends").unwrap();
        assert_eq!(self.queue.stats().await.unwrap().leased, 0, "a worker that ended has nothing");
        ended
    }

    /// Waits for the worker's end; what it had stays leased, perhaps.
    pub async fn forsaken(&mut self) {
        let worker = self.worker.take().expect("it works");
        tokio::time::timeout(DEADLINE, worker).await.expect("the worker ends").unwrap().unwrap();
    }

    /// Stops the worker in the first way: it finishes what it has.
    pub async fn drain(&mut self) {
        self.stop.drain();
        self.ended().await.unwrap();
    }

    /// A tweet as it is stored.
    pub async fn stored(&self, id: &str) -> StoredTweet {
        self.find(id).await.unwrap_or_else(|| panic!("{id} is not stored"))
    }

    pub async fn find(&self, id: &str) -> Option<StoredTweet> {
        self.store.tweet(&self.handler.items.namespace, id).await.unwrap()
    }

    /// Tweets that are stored, in whatever state.
    pub async fn stored_tweets(&self) -> u64 {
        let counts = self.store.counts(&self.handler.items.namespace).await.unwrap();
        counts.live + counts.unavailable + counts.ended + counts.dead
    }

    /// Stores that an answer `ago` ms ago showed this.
    pub async fn seen(&self, id: &str, ago: Millis, finding: Finding, state: ItemState) {
        self.save(vec![observation(id, ago, finding, state)]).await;
    }

    /// Stores that each was found two minutes ago: before anything else that a test stores of it, since an answer of the same
    /// millisecond is taken for this one again.
    pub async fn lived(&self, ids: &[String]) {
        let found = |id: &String| observation(id, 2 * MINUTE, Finding::Found(tweet_before(id)), ItemState::Live);
        self.save(ids.iter().map(found).collect()).await;
    }

    async fn save(&self, observations: Vec<Observation>) {
        let saved = self.store.save(&self.handler.items.namespace, &observations).await.unwrap();
        assert_eq!(saved.saved, observations.len() as u64);
    }

    /// Where an id is: one place at the most.
    pub async fn place(&self, id: &str) -> Option<Place> {
        let mut places = self.queue.locate(&[id.to_owned()]).await.unwrap().remove(0);
        assert!(places.len() <= 1, "{id} is in several places: {places:?}");
        places.pop()
    }

    /// The lane of an id, and when it is due.
    pub async fn lane(&self, id: &str) -> (String, Millis) {
        match self.place(id).await {
            Some(Place::Delayed { lane, due }) => (lane, due),
            elsewhere => panic!("{id} is in no lane: {elsewhere:?}"),
        }
    }

    /// When each is due; `None` while one of them is in no lane.
    pub async fn dues(&self, ids: &[String]) -> Option<BTreeMap<String, Millis>> {
        let places = self.queue.locate(ids).await.unwrap();
        let due = |(id, places): (&String, &Vec<Place>)| match &places[..] {
            [Place::Delayed { due, .. }] => Some((id.clone(), *due)),
            _ => None,
        };
        ids.iter().zip(&places).map(due).collect()
    }

    /// Waits until every id has been answered and is in a lane again.
    pub async fn all_updated(&self, ids: &[String]) {
        eventually("every tweet is stored and in a lane", async || {
            self.stored_tweets().await == ids.len() as u64
                && self.dues(ids).await.is_some_and(|dues| dues.values().all(|due| *due > wall_ms()))
        })
        .await;
    }

    /// Every id of these has been asked for once; says so of no other.
    pub fn assert_each_looked_up_once(&self, ids: &[String]) {
        let asked: Vec<String> = self.journal.looked_up().into_iter().flatten().collect();
        assert_eq!(asked.len(), ids.len(), "some were asked for twice, or never");
        assert_eq!(asked.into_iter().collect::<BTreeSet<_>>(), ids.iter().cloned().collect());
    }
}

fn observation(id: &str, ago: Millis, finding: Finding, state: ItemState) -> Observation {
    let answered_at = wall_ms() - ago;
    let next_due = (state != ItemState::Ended).then_some(answered_at + HOUR);
    Observation { id: id.to_owned(), answered_at, finding, state, next_due, follow: None, forget: false, recent: None }
}

/// What was stored of a tweet earlier: nothing the simulator says.
pub fn tweet_before(id: &str) -> Tweet {
    Tweet {
        id: id.to_owned(),
        created_at: None,
        text: Some("what it said before".to_owned()),
        author_id: Some("1".to_owned()),
        author_name: Some("before".to_owned()),
        metrics: Counts { retweet_count: Some(-1), ..Counts::default() },
        raw: "{}".to_owned(),
        ..Tweet::default()
    }
}
