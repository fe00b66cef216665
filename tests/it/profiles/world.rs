//! The world of these tests: accounts that follow a script, an API with windows, and workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use twitter_updater::base::clock::Millis;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::Settings;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::schedule::{Schedule, Schedules};
use twitter_updater::engine::worker::{ClaimSettings, HandlerKind, PermanentFailure, Worker};
use twitter_updater::ingest::{LaneChooser, Queued, Rebuild, Starter};
use twitter_updater::model::account::{Absence, Account, AccountCounts, AccountState};
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::post::{BadId, Ingested};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::kind::{Intake, PipelineKind};
use twitter_updater::pipelines::profiles::profile_receiver::ProfileReceiver;
use twitter_updater::pipelines::profiles::schedule::{Intervals, SilenceSchedule};
use twitter_updater::pipelines::profiles::{ProfileJudge, Profiles, profiles_pipeline};
use twitter_updater::pipelines::refresh::{FailureTracker, Receiver, Refresher};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::lookup::{
    Answer, Capabilities, Charge, Lookup, LookupError, Outcome, UnsolicitedObjects,
};
use twitter_updater::providers::registry;
use twitter_updater::quota::{Credential, CredentialKind, Credentials, Pacing, Window};
use twitter_updater::store::Way;

use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model::Rules;

pub const NS: &str = "profiles:twitter";
pub const MINUTE: Millis = 60_000;
pub const HOUR: Millis = 60 * MINUTE;
pub const DAY: Millis = 24 * HOUR;
/// A day at 12:00 UTC.
pub const ORIGIN: Millis = 1_800_014_400_000;
pub const WINDOW: Millis = 15 * MINUTE;
const LATENCY: Duration = Duration::from_millis(200);
const CAPABILITIES: Capabilities = Capabilities { batch_limit: 100, charge: Charge::PerCall, endpoint: "users/lookup" };

/// One thing that happens to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its handle.
    Handle(String),
    /// Its place.
    Location(String),
    /// Its state, as the network knows it.
    State(AccountState),
    /// It posts.
    Post,
}

/// A call that was made.
pub struct Call {
    pub at: Millis,
    pub credential: String,
    pub ids: Vec<String>,
}

/// The API: accounts by script, and windows that open with a call.
#[derive(Default)]
pub struct Network {
    scripts: BTreeMap<String, Vec<(Millis, Event)>>,
    windows: BTreeMap<String, (Millis, u32)>,
    pub calls: Vec<Call>,
    /// True: it says why an account is not returned.
    pub tells_why: bool,
}

pub struct World {
    pub clock: Arc<ServiceClock>,
    pub queue: Arc<MemoryQueue>,
    pub store: Arc<MemoryStore>,
    pub network: Mutex<Network>,
    pub credentials: Arc<Credentials>,
    pub calls_per_window: u32,
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
    stop: Stop,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl Network {
    /// What it would return at `now`: the account, or its absence.
    fn account(&self, id: &str, now: Millis) -> Result<Account, AccountState> {
        let Some(script) = self.scripts.get(id) else { return Err(AccountState::Deleted) };
        let (mut handle, mut location, mut state) = (format!("user{id}"), String::new(), AccountState::Live);
        let (mut posts, mut last) = (0, None);
        for (at, event) in script.iter().filter(|(at, _)| *at <= now) {
            match event {
                Event::Handle(new) => handle.clone_from(new),
                Event::Location(new) => location.clone_from(new),
                Event::State(new) => state = *new,
                Event::Post => (posts, last) = (posts + 1, Some(*at)),
            }
        }
        match state {
            AccountState::Live | AccountState::Protected => Ok(Account {
                id: id.to_owned(),
                handle: Some(handle),
                location: Some(location),
                protected: Some(state == AccountState::Protected),
                counts: AccountCounts { posts: Some(posts), followers: Some(7), ..AccountCounts::default() },
                last_post_at: last,
                state,
                raw: format!(r#"{{"id_str":"{id}"}}"#),
                ..Account::default()
            }),
            gone => Err(gone),
        }
    }

    /// The whole script of an account.
    pub fn script(&self, id: &str) -> &[(Millis, Event)] {
        &self.scripts[id]
    }

    fn called(&mut self, credential: &str, ids: &[String], now: Millis, limit: u32) -> Window {
        let window = self.windows.entry(credential.to_owned()).or_insert((0, 0));
        *window = if now >= window.0 { (now + WINDOW, 1) } else { (window.0, window.1 + 1) };
        assert!(window.1 <= limit, "a call that the quota has not");
        let (reset_at, made) = *window;
        self.calls.push(Call { at: now, credential: credential.to_owned(), ids: ids.to_vec() });
        Window { limit, remaining: limit - made, reset_at, reset_in: reset_at - now, length: None }
    }
}

#[async_trait]
impl Lookup<Account> for World {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn created_at(&self, _: &str) -> Result<Option<Millis>, BadId> {
        Ok(None)
    }

    async fn look_up(&self, ids: &[String], credential: &Credential) -> Result<Answer<Account>, LookupError> {
        let (window, outcomes) = {
            let (mut network, now) = (self.network.lock().unwrap(), self.clock.now());
            let window = network.called(&credential.name, ids, now, self.calls_per_window);
            let outcome = |id: &String| match network.account(id, now) {
                Ok(account) => Outcome::Found(account),
                Err(AccountState::Suspended) if network.tells_why => Outcome::Absent(Absence::Suspended),
                Err(AccountState::Unknown) if network.tells_why => Outcome::Absent(Absence::Protected),
                Err(_) if network.tells_why => Outcome::Absent(Absence::NotFound),
                Err(_) => Outcome::Unavailable,
            };
            (window, ids.iter().map(outcome).collect())
        };
        tokio::time::sleep(LATENCY).await;
        Ok(Answer::new(outcomes, Some(window), UnsolicitedObjects::default()))
    }
}

/// Settings, by their variables without the prefix.
pub fn settings(variables: &[(&str, &str)]) -> Settings {
    let all = [("ACCOUNTS__COLLECT", "true")].iter().chain(variables);
    let named: Vec<(String, &str)> = all.map(|(name, value)| (format!("TWITTER_UPDATER__{name}"), *value)).collect();
    let named: Vec<(&str, &str)> = named.iter().map(|(name, value)| (&**name, *value)).collect();
    Settings::load_with(&[], None, &named).unwrap()
}

impl World {
    pub fn new(settings: Settings, credentials: usize, calls_per_window: u32) -> Arc<Self> {
        let clock = ServiceClock::starting_at(ORIGIN);
        let ledger = Arc::new(MemoryLedger::new(clock.clone()));
        let named = |n| Credential { name: format!("c{n}"), kind: CredentialKind::Anonymous };
        let all = (0..credentials).map(named).collect();
        let credentials = Arc::new(Credentials::new(all, ledger, Pacing::Auto, settings.updater.lease));
        Arc::new(Self {
            queue: Arc::new(MemoryQueue::new(NS, clock.clone(), Rules::default())),
            clock,
            store: Arc::default(),
            network: Mutex::default(),
            credentials,
            calls_per_window,
            settings,
            metrics: Arc::new(Metrics::new()),
            stop: Stop::new(),
        })
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// An account, and what happens to it; moments are ms since [`ORIGIN`].
    pub fn add(&self, id: &str, script: impl IntoIterator<Item = (Millis, Event)>) {
        let script = script.into_iter().map(|(at, event)| (ORIGIN + at, event)).collect();
        self.network.lock().unwrap().scripts.insert(id.to_owned(), script);
    }

    fn id(&self) -> PipelineId {
        PipelineId::items(&Provider::Twitter, "profiles")
    }

    fn schedule(&self) -> Arc<dyn Schedule> {
        profiles_pipeline(&Provider::Twitter).schedule(&self.settings)
    }

    pub fn schedules(&self) -> Arc<dyn Schedules> {
        Reloadable::new(self.schedule()).into()
    }

    pub fn starter(&self) -> Starter {
        let Intake { id_date, parse } = Profiles.intake(&self.id());
        Starter::new(self.queue.clone(), Some(self.store.clone()), self.schedules(), id_date, parse)
            .with_way(Way::new("fan_out"))
    }

    /// Puts back what the queue has lost.
    pub fn rebuild(&self) -> Rebuild {
        let id_date = Profiles.intake(&self.id()).id_date;
        let unavailable = Profiles.terms(&self.settings).unavailable.lane;
        Rebuild {
            queue: self.queue.clone(),
            store: self.store.clone(),
            lanes: LaneChooser { schedule: self.schedules(), unavailable, id_date },
            lease: self.settings.updater.lease,
            rate: 1_000_000,
            retry: RetryPolicy::default(),
        }
    }

    pub fn receiver(&self) -> Arc<dyn Receiver> {
        let parse = registry::accounts(&Provider::Twitter).parse;
        let (namespace, schedule, store) = (self.id().to_string(), self.schedules(), self.store.clone());
        Arc::new(ProfileReceiver { namespace, parse, schedule, store })
    }

    /// Puts accounts in.
    pub async fn put_in(&self, ids: &[String]) {
        for ids in ids.chunks(1_000) {
            let ingested = ids.iter().map(Ingested::bare).collect();
            let queued = self.starter().queue_tweets(ingested).await.unwrap();
            assert!(queued.iter().all(|queued| *queued == Queued::Scheduled), "{queued:?}");
        }
    }

    /// Workers, each as a process has them.
    pub fn start(self: &Arc<Self>, workers: usize) -> Vec<JoinHandle<Result<(), PermanentFailure>>> {
        let worker = |n| {
            let accounts = &self.settings.accounts;
            let intervals = Intervals {
                active: accounts.active,
                idle: accounts.idle,
                frozen: accounts.frozen,
                idle_after: accounts.idle_after,
                freeze_after: accounts.freeze_after,
            };
            let unavailable = Profiles.terms(&self.settings).unavailable;
            let schedule = SilenceSchedule::new(intervals, unavailable.confirm.clone().unwrap());
            let updater = &self.settings.updater;
            let handler = Refresher {
                items: PipelineStore::new(NS.to_owned(), self.store.clone(), updater),
                lookup: self.clone() as Arc<dyn Lookup<Account>>,
                judge: ProfileJudge { schedule },
                fan_out: Vec::new(),
                credentials: self.credentials.clone(),
                schedule: self.schedules(),
                unavailable,
                wave: Reloadable::new(None),
                call_timeout: self.settings.lookup.timeout,
                metrics: self.metrics.clone(),
                failure_tracker: FailureTracker::default(),
            };
            let claims = ClaimSettings { limit: 100, linger: updater.buffer_ttl, lookahead: 0.0, lease: updater.lease };
            Worker {
                name: format!("w{n}"),
                queue: self.queue.clone(),
                handling: HandlerKind::Metered(Arc::new(handler), self.credentials.clone()),
                claims: claims.into(),
                early: 0.0.into(),
                concurrency: 2.into(),
                metrics: self.metrics.clone(),
                health: Arc::default(),
                stop: self.stop.clone(),
            }
        };
        (0..workers).map(|n| tokio::spawn(worker(n).run())).collect()
    }

    pub async fn end(&self, working: Vec<JoinHandle<Result<(), PermanentFailure>>>) {
        self.stop.drain();
        for worker in working {
            worker.await.unwrap().unwrap();
        }
    }

    /// Calls that were made, each with its moment, ms since [`ORIGIN`], and how many ids it carried.
    pub fn calls_for(&self, id: &str) -> Vec<(Millis, usize)> {
        let network = self.network.lock().unwrap();
        let with = network.calls.iter().filter(|call| call.ids.iter().any(|of| of == id));
        with.map(|call| (call.at - ORIGIN, call.ids.len())).collect()
    }
}

/// Runs a test in simulated time.
pub fn simulated(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(test);
}
