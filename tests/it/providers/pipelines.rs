//! All providers at once, each with its own namespace, credentials and ledger, on one queue file and in one store:
//! the engine as it is, without a line about any of them.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Jobs, Lane, NewJob};
use twitter_updater::engine::schedule::ScheduledItem;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::worker::{ClaimSettings, HandlerKind, Worker};
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::pipelines::posts::{PostJudge, TweetUpdate};
use twitter_updater::pipelines::refresh::{FailureTracker, UNAVAILABLE_LANE, UnavailableSettings};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::lookup::{Charge, Lookup};
use twitter_updater::quota::{Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing};
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{Lifecycle, Posts, SqliteStore};

use super::all::{ALL, Bounds, Client, Provider};
use crate::support::wait::until_true;

const DAY: i64 = 86_400_000;
const PATIENCE: Duration = Duration::from_secs(20);
/// Ids of each pipeline.
const POSTS: u32 = 60;

fn namespace(provider: Provider) -> &'static str {
    match provider {
        Provider::TwitterV1 => "tweet:update",
        Provider::XV2 => "x:update",
        Provider::Mastodon => "mastodon:update:new.example.org",
        Provider::MastodonStatus => "mastodon:update:old.example.org",
        Provider::Bluesky => "bluesky:update",
    }
}

#[tokio::test]
async fn five_pipelines_share_a_queue_and_a_store() {
    let options = SimulatorOptions { missing_share: 0.2, withheld_share: 0.0, ..SimulatorOptions::default() };
    let running = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.db");
    let store = Arc::new(SqliteStore::open(&folder.path().join("posts.db"), PATIENCE).await.unwrap());
    store.migrate().await.unwrap();
    let (stop, at) = (Stop::new(), wall_ms() - 2 * DAY);
    let mut working = Vec::new();
    for provider in ALL {
        let namespace = namespace(provider);
        let queue = Arc::new(EmbeddedQueue::open(&file, namespace, PATIENCE).await.unwrap());
        let ledger = EmbeddedLedger::open(&file, namespace, PATIENCE).await.unwrap();
        let nobody = Credential { name: "nobody".to_owned(), kind: CredentialKind::Anonymous };
        let lease = Duration::from_secs(60);
        let credentials = Arc::new(Credentials::new(vec![nobody], Arc::new(ledger), Pacing::Auto, lease));
        let client: Arc<dyn Client> = provider.at(&running.base_url(), Bounds::default()).into();
        let lookup: Arc<dyn Lookup> = client;
        let capabilities = lookup.capabilities();
        let metrics = Arc::new(Metrics::new());
        let handler = TweetUpdate {
            items: PipelineStore {
                namespace: namespace.to_owned(),
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
                after: DAY,
            },
            metrics: metrics.clone(),
            wave: Reloadable::new(None),
            fan_out: Vec::new(),
            failure_tracker: FailureTracker::default(),
        };
        let claims = ClaimSettings {
            limit: capabilities.batch_limit,
            linger: Duration::ZERO,
            lookahead: if capabilities.charge == Charge::PerCall { 0.1 } else { 0.0 },
            lease,
        };
        let item = ScheduledItem::new("", Some(at));
        let (lane, _) = handler.schedule.current_schedule().next(&item, wall_ms()).unwrap();
        let jobs: Vec<NewJob> =
            (0..POSTS).map(|n| NewJob { id: provider.id(at, n), lane: lane.clone(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.unwrap();
        let worker = Worker {
            name: format!("worker of {namespace}"),
            queue: queue.clone(),
            handling: HandlerKind::Metered(Arc::new(handler), credentials),
            claims: claims.into(),
            early: 0.0.into(),
            concurrency: 1.into(),
            metrics: metrics.clone(),
            health: Arc::default(),
            stop: stop.clone(),
        };
        working.push((provider, queue, metrics, capabilities.batch_limit, tokio::spawn(worker.run())));
    }
    for (provider, queue, metrics, ..) in &working {
        until_true(namespace(*provider), Duration::from_secs(60), async || {
            let stats = queue.stats().await.unwrap();
            let (due, delayed) =
                stats.lanes.iter().fold((0, 0), |(due, all), lane| (due + lane.due, all + lane.delayed));
            metrics.counters.looked_up.get() >= i64::from(POSTS) && due == 0 && delayed == u64::from(POSTS)
        })
        .await;
    }
    stop.drain();
    for (provider, _, metrics, batch_limit, worker) in working {
        worker.await.unwrap().unwrap();
        let requests = metrics.counters.requests.get();
        assert_eq!(requests, i64::from(POSTS.div_ceil(batch_limit as u32)), "{provider:?}: every call is full");
        let mut here = 0;
        for n in 0..POSTS {
            let stored = store.tweet(namespace(provider), &provider.id(at, n)).await.unwrap().unwrap();
            let truth = running.world().tweet(TweetId::at(at, n), wall_ms());
            assert_eq!((stored.state, stored.misses), (ItemState::Live, i64::from(truth.is_none())));
            if let Some(truth) = truth {
                here += 1;
                assert_eq!(stored.metrics.retweet_count, Some(truth.retweet_count), "{provider:?}");
                assert_eq!(stored.created_at.map(|at| at / 1000), Some(at / 1000), "{provider:?}");
                assert!(stored.text.is_some() && stored.current_id.is_none());
            }
        }
        assert!(here > 30 && here < POSTS);
        let counts = store.counts(namespace(provider)).await.unwrap();
        println!("{:<32} {requests:>3} requests, {here} of {POSTS} there: {counts:?}", namespace(provider));
    }
    running.stop().await;
}
