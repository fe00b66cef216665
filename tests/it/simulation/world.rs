//! One simulated world: the services and what is put into them.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::{self, Millis};
use twitter_updater::base::random;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::config::VisitOrder;
use twitter_updater::engine::lane::Order;
use twitter_updater::engine::queue::{Jobs, Lane, NewJob, QueueError, ScheduleOutcome};
use twitter_updater::engine::schedule::adaptive::budget::Normaliser;
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::{Adaptive, Options};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::schedule::{Schedule, ScheduledItem, Schedules};
use twitter_updater::engine::worker::ClaimSettings;
use twitter_updater::ingest::{LaneChooser, Rebuild, Refresh, Starter};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::media::schedule::FreshFirstSchedule;
use twitter_updater::pipelines::profiles::schedule::{Intervals, SilenceSchedule};
use twitter_updater::pipelines::refresh::{UNAVAILABLE_LANE, UnavailableSettings};
use twitter_updater::pipelines::relations::schedule::VisitSchedule;
use twitter_updater::providers::unreadable::UnreadableObject;
use twitter_updater::store::{self, Lifecycle, NewItem, StoreError};

use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;

use super::communities::{self, Rows};
use super::files::{self, Files};
use super::link::{LinkedQueue, LinkedStore};
use super::network::{Dice, Network, Way};
use super::provider::{Nature, Provider};
use super::visits::{self, Found};
use super::watch::{Log, WatchedQueue, WatchedStore};

pub const NAMESPACE: &str = "tweet:update";
/// When simulated time begins: 2027-01-15T08:00:00Z.
pub const ORIGIN: Millis = 1_800_000_000_000;

/// What is looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Items {
    #[default]
    Posts,
    Accounts,
    /// Each is fetched once; nothing is looked up again.
    Media,
    /// Lists of followers.
    Lists,
    /// Timelines of followed accounts.
    Visits,
    /// Accounts that may belong to a community.
    Community,
}

/// How the processes of a world are set up.
#[derive(Debug, Clone)]
pub struct Setup {
    pub items: Items,
    pub rules: Rules,
    pub ages: AgeTable,
    /// By what posts show, at the cost of those ages, with these bounds.
    pub adaptive: Option<Options>,
    pub claims: ClaimSettings,
    pub slots: usize,
    pub credentials: usize,
    pub calls_per_window: u32,
    pub lookup_timeout: Duration,
    pub save_timeout: Duration,
    pub max_deliveries: u32,
    pub unavailable: UnavailableSettings,
    /// How much older than what it replaces an answer's content may be, ms.
    pub overlap: Millis,
}

impl Default for Setup {
    /// Intervals of minutes, so that a few of them pass.
    fn default() -> Self {
        Self {
            items: Items::default(),
            rules: Rules::default(),
            ages: "10m: 20s, 1h: 30s, 1d: 60s, 30d: 90s".parse().unwrap(),
            adaptive: None,
            claims: ClaimSettings {
                limit: 8,
                linger: Duration::from_secs(2),
                lookahead: 0.02,
                lease: Duration::from_secs(20),
            },
            slots: 2,
            credentials: 1,
            calls_per_window: 300,
            lookup_timeout: Duration::from_secs(4),
            save_timeout: Duration::from_secs(4),
            max_deliveries: 3,
            unavailable: UnavailableSettings {
                confirm: None,
                forget: false,
                lane: Lane::new(UNAVAILABLE_LANE, Duration::from_secs(30)),
                confirmed_after: 5_000,
                limit: 3,
                after: 60_000,
            },
            overlap: 0,
        }
    }
}

impl Setup {
    /// The adaptive schedule, where it is one.
    pub fn learnt(&self) -> Option<Adaptive> {
        let model = Arc::new(Model::embedded().unwrap());
        self.adaptive.map(|options| Adaptive::new(self.ages.clone(), model, options, Normaliser::default()))
    }

    /// When accounts are due: by minutes of silence, and none later than the oldest posts.
    pub fn by_silence(&self) -> SilenceSchedule {
        let seconds = Duration::from_secs;
        let (active, idle, frozen) = (seconds(30), seconds(60), seconds(90));
        let intervals = Intervals { active, idle, frozen, idle_after: seconds(60), freeze_after: seconds(180) };
        SilenceSchedule::new(intervals, self.confirm())
    }

    /// The lane of accounts that are missing for the first time.
    fn confirm(&self) -> Lane {
        Lane::new("confirm", Duration::from_secs(5)).with_tier(1)
    }

    /// When lists are visited.
    pub fn visits(&self) -> VisitSchedule {
        VisitSchedule { order: VisitOrder::Tiers, revisit: Duration::from_secs(60) }
    }

    /// When the items are due.
    pub fn schedule(&self) -> Arc<dyn Schedules> {
        match (self.items, self.learnt()) {
            (Items::Accounts, _) => Reloadable::new(Arc::new(self.by_silence()) as Arc<dyn Schedule>).into(),
            (Items::Media, _) => {
                let first_delay = files::PAUSES.0;
                Reloadable::new(Arc::new(FreshFirstSchedule { first_delay }) as Arc<dyn Schedule>).into()
            }
            (Items::Lists, _) => Reloadable::new(Arc::new(self.visits()) as Arc<dyn Schedule>).into(),
            (Items::Visits, _) => Reloadable::new(Arc::new(visits::schedule()) as Arc<dyn Schedule>).into(),
            (Items::Community, _) => Reloadable::new(Arc::new(communities::schedule()) as Arc<dyn Schedule>).into(),
            (Items::Posts, Some(adaptive)) => Reloadable::new(adaptive).into(),
            (Items::Posts, None) => self.ages.clone().into(),
        }
    }

    /// The rules for items that are not returned. Accounts and owners of lists come back: their lives never end by it.
    pub fn unavailable(&self) -> UnavailableSettings {
        let of_posts = self.unavailable.clone();
        match self.items {
            Items::Posts | Items::Media | Items::Community => of_posts,
            Items::Accounts => UnavailableSettings {
                lane: of_posts.lane.with_tier(1),
                limit: u32::MAX,
                confirm: Some(self.confirm()),
                ..of_posts
            },
            Items::Visits => UnavailableSettings { lane: of_posts.lane.with_tier(1), limit: u32::MAX, ..of_posts },
            Items::Lists => UnavailableSettings {
                lane: of_posts.lane.with_order(Order::OldestFirst).with_tier(3),
                limit: u32::MAX,
                ..of_posts
            },
        }
    }
}

#[derive(Debug)]
pub struct World {
    pub setup: Setup,
    pub dice: Dice,
    /// The queue's and the ledger's clock, which may be put forward or back.
    pub queue_clock: Arc<ServiceClock>,
    pub log: Arc<Log>,
    pub network: Arc<Network>,
    pub queue: Arc<WatchedQueue>,
    pub store: Arc<WatchedStore>,
    pub ledger: Arc<MemoryLedger>,
    pub provider: Arc<Provider>,
    pub files: Files,
    pub found: Found,
    /// The accounts of a community.
    pub community: Rows,
}

impl World {
    pub fn new(dice: Dice, setup: Setup, print: bool) -> Arc<Self> {
        let clock = ServiceClock::starting_at(ORIGIN);
        let queue_clock = ServiceClock::starting_at(ORIGIN);
        let log = Log::new(clock.clone(), print);
        let store = Arc::new(WatchedStore::new(log.clone(), setup.overlap));
        let queue = MemoryQueue::new(NAMESPACE, queue_clock.clone(), setup.rules);
        Arc::new(Self {
            queue: Arc::new(WatchedQueue::new(queue, store.clone(), log.clone())),
            ledger: Arc::new(MemoryLedger::new(queue_clock.clone())),
            provider: Provider::new(clock, log.clone(), setup.calls_per_window),
            network: Network::new(dice.clone()),
            files: Files::default(),
            found: Found::new(queue_clock.clone()),
            community: Rows::default(),
            store,
            log,
            queue_clock,
            dice,
            setup,
        })
    }

    pub fn now(&self) -> Millis {
        self.provider.now()
    }

    /// A new tweet of that age.
    pub fn tweet(&self, age: Millis, sequence: u32, nature: Nature) -> String {
        let id = TweetId::at(self.now() - age, sequence).to_string();
        self.provider.add(&id, nature);
        id
    }

    /// What brings lookups forward, as the process at the end of that way has it.
    pub fn refresh(&self, way: &Arc<Way>) -> Refresh {
        let lanes = LaneChooser {
            schedule: self.setup.schedule(),
            unavailable: self.setup.unavailable().lane,
            id_date: Arc::new(Provider::created_at),
        };
        let rebuild = Rebuild {
            queue: Arc::new(LinkedQueue { way: way.clone(), queue: self.queue.clone() }),
            store: Arc::new(LinkedStore { way: way.clone(), store: self.store.clone() }),
            lanes,
            lease: self.setup.claims.lease,
            rate: 10_000,
            retry: RetryPolicy::default(),
        };
        Refresh { rebuild }
    }

    /// A starter at the end of that way.
    pub fn starter(&self, way: &Arc<Way>) -> Starter {
        let Rebuild { queue, store, lanes, .. } = self.refresh(way).rebuild;
        Starter::new(queue, Some(store), lanes.schedule, lanes.id_date, |_| Err(UnreadableObject::NotAccepted))
    }

    /// Records and schedules, again and again until both are done, as a starter does.
    pub async fn put_in(&self, ids: &[String], delay: impl Fn(&Lane) -> Millis) {
        match self.setup.items {
            Items::Media => return self.put_in_media(ids).await,
            // The growth puts them into the queue.
            Items::Community => return self.community.appear(ids, self.now()),
            _ => {}
        }
        let way = Way::new(usize::MAX, self.network.clone());
        let store = LinkedStore { way: way.clone(), store: self.store.clone() };
        let queue = LinkedQueue { way, queue: self.queue.clone() };
        while let Err(why) = self.try_put_in(&store, &queue, ids, &delay).await {
            self.log.note(format_args!("put in: {why}"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn try_put_in(
        &self,
        store: &LinkedStore,
        queue: &LinkedQueue,
        ids: &[String],
        delay: &impl Fn(&Lane) -> Millis,
    ) -> Result<(), String> {
        let (now, schedule) = (self.now(), self.setup.schedule().current_schedule());
        let (mut tweets, mut jobs) = (Vec::new(), Vec::new());
        for id in ids {
            let created_at = TweetId::parse(id).unwrap().created_at().unwrap();
            let known = ScheduledItem::new(id, Some(created_at));
            let lane = match self.setup.items {
                Items::Posts => self.setup.ages.lane(created_at, now).cloned(),
                _ => schedule.first(&known, now).map(|(lane, _)| lane),
            };
            let Some(lane) = lane else { continue };
            let delay = delay(&lane);
            tweets.push(NewItem {
                id: id.clone(),
                created_at: Some(created_at),
                next_due: Some(now + delay),
                content: None,
                read_at: None,
            });
            jobs.push(NewJob { id: id.clone(), lane, due: delay.into() });
        }
        let told = |why: StoreError| why.to_string();
        store.record(NAMESPACE, now, &store::Way::new("enqueue"), &tweets).await.map_err(told)?;
        let answers = queue.schedule(&jobs).await.map_err(|why: QueueError| why.to_string())?;
        // Whoever has it may be about to end its life.
        if answers.contains(&ScheduleOutcome::Leased) { Err("a worker has it".to_owned()) } else { Ok(()) }
    }
}

/// Runs a simulation: one thread, a clock that jumps, and all chance out of one seed.
pub fn simulate<T>(seed: u64, run: impl Future<Output = T>) -> T {
    let _replayed = random::replay_seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let _clock = clock::simulate_clock(ORIGIN);
        run.await
    })
}
