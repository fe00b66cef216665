//! A worker, its queue and its ledger in a file, and the simulated API of X, which knows what it charges for.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, span, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Jobs, Lane, NewJob, Stats};
use twitter_updater::engine::schedule::ScheduledItem;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::worker::{ClaimSettings, HandlerKind, PermanentFailure, Worker};
use twitter_updater::model::post::TweetId;
use twitter_updater::ops::report::plan::RequestFill;
use twitter_updater::ops::report::status::{Status, render_table};
use twitter_updater::pipelines::kind::ItemWords;
use twitter_updater::pipelines::posts::{PostJudge, TweetUpdate};
use twitter_updater::pipelines::refresh::{FailureTracker, UNAVAILABLE_LANE, UnavailableSettings};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::lookup::Lookup;
use twitter_updater::providers::x_v2::{CAPABILITIES, XV2, XV2Options};
use twitter_updater::quota::{
    Budget, BudgetStatus, Credential, CredentialKind, Credentials, DAY_MS, EmbeddedLedger, Period,
};
use twitter_updater::simulator::{self, Fault, Running, SimulatorOptions};
use twitter_updater::store::{Lifecycle, SqliteStore};

use crate::support::rig::{MINUTE, eventually};

const NAMESPACE: &str = "x:update";
const PATIENCE: Duration = Duration::from_secs(20);
/// Clocks on one machine do not differ; a call is over in no time.
const MARGIN: Millis = 2_000;

struct World {
    api: Running,
    queue: Arc<EmbeddedQueue>,
    store: Arc<SqliteStore>,
    credentials: Arc<Credentials>,
    budget: Reloadable<Budget>,
    metrics: Arc<Metrics>,
    stop: Stop,
    working: tokio::task::JoinHandle<Result<(), PermanentFailure>>,
    _folder: tempfile::TempDir,
}

impl World {
    /// So many posts are due, and a worker has begun.
    async fn start(posts: u32, missing_share: f64, budget: Budget) -> Self {
        // A midnight in the middle would count twice what X charges once.
        let since = wall_ms().rem_euclid(DAY_MS);
        let until = if since > DAY_MS - 60_000 { DAY_MS + MARGIN } else { MARGIN };
        tokio::time::sleep(span((until - since).max(0))).await;
        let options = SimulatorOptions {
            missing_share,
            withheld_share: 0.0,
            calls_per_window: 0,
            app_calls_per_window: 0,
            ..SimulatorOptions::default()
        };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.db");
        let queue = Arc::new(EmbeddedQueue::open(&file, NAMESPACE, PATIENCE).await.unwrap());
        let ledger = EmbeddedLedger::open(&file, "x", PATIENCE).await.unwrap();
        let store = Arc::new(SqliteStore::open(&folder.path().join("posts.db"), PATIENCE).await.unwrap());
        store.migrate().await.unwrap();
        let nobody = Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
        let (lease, budget) = (Duration::from_secs(60), Reloadable::new(budget));
        let credentials = Credentials::new(vec![nobody], Arc::new(ledger), Default::default(), lease);
        let credentials = Arc::new(credentials.with_budget(budget.clone()));
        let options = XV2Options { base_url: api.base_url(), ..XV2Options::default() };
        let lookup: Arc<dyn Lookup> = Arc::new(XV2::new(options).unwrap());
        let metrics = Arc::new(Metrics::new());
        let handler = TweetUpdate {
            items: PipelineStore {
                namespace: NAMESPACE.to_owned(),
                store: store.clone(),
                save_timeout: PATIENCE,
                max_deliveries: 2,
            },
            lookup,
            judge: PostJudge::default(),
            credentials: credentials.clone(),
            call_timeout: PATIENCE,
            schedule: "7d: 6h, 30d: 1d".parse::<AgeTable>().unwrap().into(),
            unavailable: UnavailableSettings {
                confirm: None,
                forget: false,
                lane: Lane::new(UNAVAILABLE_LANE, Duration::from_secs(14_400)),
                confirmed_after: 10 * 60_000,
                limit: 3,
                after: DAY_MS,
            },
            metrics: metrics.clone(),
            wave: Reloadable::new(None),
            fan_out: Vec::new(),
            failure_tracker: FailureTracker::default(),
        };
        let made_at = wall_ms() - 2 * DAY_MS;
        let item = ScheduledItem::new("", Some(made_at));
        let (lane, _) = handler.schedule.current_schedule().next(&item, wall_ms()).unwrap();
        let ids = (0..posts).map(|n| TweetId::at(made_at + i64::from(n), n).to_string());
        let jobs: Vec<NewJob> = ids.map(|id| NewJob { id, lane: lane.clone(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.unwrap();
        let claims = ClaimSettings { limit: 100, linger: Duration::ZERO, lookahead: 0.0, lease };
        let stop = Stop::new();
        let worker = Worker {
            name: "worker".to_owned(),
            queue: queue.clone(),
            handling: HandlerKind::Metered(Arc::new(handler), credentials.clone()),
            claims: claims.into(),
            early: 0.0.into(),
            concurrency: 4.into(),
            metrics: metrics.clone(),
            health: Arc::default(),
            stop: stop.clone(),
        };
        let working = tokio::spawn(worker.run());
        Self { api, queue, store, credentials, budget, metrics, stop, working, _folder: folder }
    }

    async fn reads(&self) -> BudgetStatus {
        self.credentials.budget_status().await.unwrap().unwrap()
    }

    /// Posts that X charges for.
    /// Posts that were found, each once.
    fn found(&self) -> u64 {
        self.metrics.counters.found.get().unsigned_abs()
    }

    fn charged(&self) -> u64 {
        self.api.counters().charged
    }

    /// Waits until so many are stored as read.
    async fn saved(&self, count: u64) {
        eventually("they are saved, and given back what was not read", async || {
            let counts = self.store.counts(NAMESPACE).await.unwrap();
            counts.live + counts.unavailable == count && self.queue.stats().await.unwrap().leased == 0
        })
        .await;
    }

    async fn end(self) {
        self.stop.drain();
        self.working.await.unwrap().unwrap();
        assert_eq!(self.queue.stats().await.unwrap().leased, 0);
        self.api.stop().await;
    }
}

fn monthly(reads: u64) -> Budget {
    Budget { reads, per: Period::Month { from_day: 1 }, margin: MARGIN, price_per_read: 0.005 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reads_are_a_thousand_and_more_when_it_is_raised() {
    let world = World::start(1_330, 0.0, monthly(1_000)).await;
    world.saved(1_000).await;
    let reads = world.reads().await;
    assert_eq!((reads.reads, reads.spent, reads.has_room, world.charged()), (1_000, true, false, 1_000));
    assert_eq!((reads.today, reads.dollars), (1_000, 5.0));
    // What was not read has its old due time, and was blamed for nothing.
    let stats = world.queue.stats().await.unwrap();
    assert_eq!((stats.due, stats.delayed, stats.dead), (330, 1_330, 0));
    let accounts = world.credentials.statuses(CAPABILITIES.endpoint).await.unwrap();
    assert_eq!(accounts[0].parked_for_ms, 0, "no credential rests for it");
    let fill = RequestFill::new(CAPABILITIES, Duration::from_secs(5), 0.1);
    let status = Status::new(stats, accounts, fill, ItemWords::POSTS);
    let status = render_table(&Status { budget: Some(reads), ..status });
    assert!(status.contains("SPENT, nothing is read until the reset: 1,000 of 1,000 posts read since"), "{status}");
    // No call goes out while it is spent: a worker asks the ledger, and that is all.
    let calls = world.api.counters().requests;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(world.api.counters().requests, calls);

    world.budget.set(monthly(1_200));
    world.saved(1_200).await;
    assert_eq!((world.reads().await.reads, world.charged()), (1_200, 1_200));
    // Without a bound, the rest.
    world.budget.set(monthly(0));
    world.saved(1_330).await;
    assert_eq!((world.reads().await.reads, world.charged()), (1_330, 1_330));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_on_after_the_reset_until_all_are_read() {
    const PERIOD: Millis = 3_000;
    let per = Period::Every(PERIOD);
    let begun = wall_ms();
    let world = World::start(500, 0.0, Budget { per, ..monthly(200) }).await;
    world.saved(500).await;
    // 200 in each: no less than three periods.
    assert!(wall_ms().div_euclid(PERIOD) - begun.div_euclid(PERIOD) >= 2);
    assert_eq!((world.charged(), world.reads().await.today), (500, 500));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_costs_nothing() {
    let world = World::start(400, 0.3, monthly(300)).await;
    eventually("the budget is spent, or all are asked for", async || {
        let before = world.queue.stats().await.unwrap();
        let is_over = world.reads().await.spent || before.due == 0;
        let after = world.queue.stats().await.unwrap();
        // A batch on its way has reserved what it may cost: then it only looks spent.
        let claims = |stats: &Stats| (stats.leased, stats.counters.get("claims").copied());
        is_over && before.leased == 0 && claims(&before) == claims(&after)
    })
    .await;
    let (reads, charged) = (world.reads().await, world.charged());
    assert!(reads.reads >= charged && reads.reads <= 300, "{reads:?}, {charged} charged");
    let counts = world.store.counts(NAMESPACE).await.unwrap();
    let found = world.found();
    assert_eq!((charged, reads.reads), (found, found), "what was missing was given back");
    assert!(counts.live > 300 && counts.live > found, "and its room was used: {counts:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_cost_nothing_and_lost_answers_stay_counted() {
    let world = World::start(100, 0.0, monthly(1_000)).await;
    world.saved(100).await;
    assert_eq!((world.reads().await.reads, world.charged()), (100, 100));
    let more = |from: u32| {
        let lane = Lane::new("30d", Duration::from_secs(86_400));
        let made_at = wall_ms() - 20 * DAY_MS - MINUTE;
        (from..from + 50)
            .map(|n| NewJob { id: TweetId::at(made_at, n).to_string(), lane: lane.clone(), due: 0.into() })
            .collect::<Vec<_>>()
    };
    world.api.inject(Fault::Status { status: 400, code: None }, 1);
    world.queue.schedule(&more(0)).await.unwrap();
    world.saved(150).await;
    assert_eq!((world.reads().await.reads, world.charged()), (150, 150));
    // The body was on its way: X has charged it. The same posts again are free, here and there.
    world.api.inject(Fault::CutBody, 1);
    world.queue.schedule(&more(50)).await.unwrap();
    world.saved(200).await;
    assert_eq!((world.reads().await.reads, world.charged()), (200, 200));
    world.end().await;
}
