//! A community grows also where its size cannot be counted.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::config::{CommunitySettings, Settings};
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::EmbeddedQueue;
use twitter_updater::ingest::Starter;
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::community::by_hand::ByHand;
use twitter_updater::pipelines::community::collecting::Collecting;
use twitter_updater::pipelines::community::growth::{Done, Growing};
use twitter_updater::pipelines::community::handler::Rules;
use twitter_updater::pipelines::community::network;
use twitter_updater::pipelines::community::schedule::ByEvidence;
use twitter_updater::pipelines::refresh::Target;
use twitter_updater::store::{Communities, Lifecycle, SqliteStore};

const NAME: &str = "lisboa";
const NAMESPACE: &str = "community:twitter:lisboa";
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_size_that_cannot_be_counted_stops_no_growth_and_is_not_counted_again_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tweets.db");
    let store = Arc::new(SqliteStore::open(&file, PATIENCE).await.unwrap());
    store.migrate().await.unwrap();
    let growing = growing(&store, &folder.path().join("jobs.db")).await;
    let rule = growing.rules.now();
    let step = async |done: &mut Done| growing.step(rule.settings(), rule.version(), done).await.unwrap();
    let mut plain = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let noted = async || store.growth(NAMESPACE, 0, 10).await.unwrap();

    // Sums that do not fit: so does a count fail that takes too long.
    let too_many = "INSERT INTO list_crawl (list, kind, started_at, newest_at, appeared, ended_at) \
         VALUES (1, 'complete', 0, 0, 9223372036854775807, 1), (2, 'complete', 0, 0, 9223372036854775807, 1)";
    plain.execute(too_many).await.unwrap();
    step(&mut Done::default()).await;
    let sizes = noted().await;
    assert_eq!(sizes.iter().map(|size| (size.members, size.posts, size.edges)).collect::<Vec<_>>(), [(1, 0, 0)]);

    // Nothing can be written down at all.
    plain.execute("ALTER TABLE community_growth RENAME TO elsewhere").await.unwrap();
    let mut done = Done::default();
    step(&mut done).await;
    plain.execute("ALTER TABLE elsewhere RENAME TO community_growth").await.unwrap();
    step(&mut done).await;
    assert_eq!(noted().await, sizes, "an hour later, not with the next step");
}

/// The growth of a community of one seed.
async fn growing(store: &Arc<SqliteStore>, queue: &std::path::Path) -> Growing {
    let mut settings = Settings::load_with(&[], None, &[]).unwrap();
    let community = CommunitySettings { seeds: "7".to_owned(), ..CommunitySettings::default() };
    settings.communities.insert(NAME.to_owned(), community);
    let settings = Arc::new(settings);
    let queue = Arc::new(EmbeddedQueue::open(queue, NAMESPACE, PATIENCE).await.unwrap());
    let schedule = Reloadable::new(ByEvidence { again: PATIENCE });
    let ids_only = |_: &str| Err("ids only".to_owned());
    let starter = Starter::new(queue, Some(store.clone()), schedule, Arc::new(|_| Ok(None)), ids_only);
    let collecting = Collecting {
        namespace: NAMESPACE.to_owned(),
        all: vec![NAMESPACE.to_owned()],
        targets: Vec::new(),
        follower: None,
        dropping: None,
        communities: store.clone(),
        within: PATIENCE,
        metrics: Arc::new(Metrics::new()),
    };
    Growing {
        namespace: NAMESPACE.to_owned(),
        network: network(&Provider::Twitter),
        rules: Arc::new(Rules::new(NAME, Arc::new(move || settings.clone())).unwrap()),
        communities: store.clone(),
        own: Target::new(PipelineId::read(NAMESPACE).unwrap(), starter.clone(), None),
        by_hand: ByHand { namespace: NAMESPACE.to_owned(), store: store.clone(), communities: store.clone(), starter },
        lease: PATIENCE,
        collecting: Arc::new(collecting),
        counters: Arc::default(),
    }
}
