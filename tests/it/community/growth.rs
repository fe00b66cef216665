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
use twitter_updater::pipelines::community::collector::Collector;
use twitter_updater::pipelines::community::evidence_receiver::EvidenceReceiver;
use twitter_updater::pipelines::community::growth::{GrowthProgress, GrowthTask};
use twitter_updater::pipelines::community::handler::LiveRule;
use twitter_updater::pipelines::community::manual_decisions::ManualDecisions;
use twitter_updater::pipelines::community::network_namespaces;
use twitter_updater::pipelines::community::schedule::JudgementSchedule;
use twitter_updater::pipelines::refresh::{AccountEvidence, Arrival, FanOutTarget, Mention, Receiver};
use twitter_updater::providers::unreadable::UnreadableObject;
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
    let rule = growing.live_rule.current();
    let step = async |done: &mut GrowthProgress| growing.step(rule.settings(), rule.version(), done).await.unwrap();
    let mut plain = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let noted = async || store.past_sizes(NAMESPACE, 0, 10).await.unwrap();

    // Sums that do not fit: so does a count fail that takes too long.
    let too_many = "INSERT INTO list_crawl (list, kind, started_at, newest_at, appeared, ended_at) \
         VALUES (1, 'complete', 0, 0, 9223372036854775807, 1), (2, 'complete', 0, 0, 9223372036854775807, 1)";
    plain.execute(too_many).await.unwrap();
    step(&mut GrowthProgress::default()).await;
    let sizes = noted().await;
    assert_eq!(sizes.iter().map(|size| (size.members, size.posts, size.edges)).collect::<Vec<_>>(), [(1, 0, 0)]);

    // Nothing can be written down at all.
    plain.execute("ALTER TABLE community_growth RENAME TO elsewhere").await.unwrap();
    let mut done = GrowthProgress::default();
    step(&mut done).await;
    plain.execute("ALTER TABLE elsewhere RENAME TO community_growth").await.unwrap();
    step(&mut done).await;
    assert_eq!(noted().await, sizes, "an hour later, not with the next step");
}

/// A list of three pages arrives page by page; a community that wants 3 of its members takes 3, however many another one wants.
#[tokio::test]
async fn of_a_list_a_community_takes_its_newest_members_and_not_those_of_each_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("tweets.db"), PATIENCE).await.unwrap());
    store.migrate().await.unwrap();
    let growing = growing(&store, &folder.path().join("jobs.db")).await;
    let rule = growing.live_rule.current();
    growing.step(rule.settings(), rule.version(), &mut GrowthProgress::default()).await.unwrap();
    let mut settings = Settings::load_with(&[], None, &[]).unwrap();
    let community = CommunitySettings { seeds: "7".to_owned(), from_lists: 3, ..CommunitySettings::default() };
    settings.communities.insert(NAME.to_owned(), community);
    let settings = Arc::new(settings);
    let receiver = EvidenceReceiver {
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        posts: "tweet:update".to_owned(),
        in_force: Arc::new(move || settings.clone()),
        store: store.clone(),
        communities: store.clone(),
    };
    let queue = Arc::new(EmbeddedQueue::open(&folder.path().join("jobs.db"), NAMESPACE, PATIENCE).await.unwrap());
    let schedule = Reloadable::new(JudgementSchedule { interval: PATIENCE });
    let ids_only = |_: &str| Err(UnreadableObject::NotAccepted);
    let starter = Starter::new(queue, Some(store.clone()), schedule, Arc::new(|_| Ok(None)), ids_only);
    for (listed_before, members) in [(0, ["101", "102"]), (2, ["103", "104"]), (4, ["105", "106"])] {
        let followers = members.map(str::to_owned).to_vec();
        let evidence = AccountEvidence { followers, listed_before, ..AccountEvidence::default() };
        let mention = Mention { answered_at: 1_000, ..Mention::new("7", Arrival::Evidence(evidence)) };
        receiver.receive(&starter, &[&mention]).await.unwrap();
    }
    for (account, is_seen) in [("101", true), ("102", true), ("103", true), ("104", false), ("105", false)] {
        let seen = store.community_account(NAMESPACE, account).await.unwrap();
        assert_eq!(seen.is_some(), is_seen, "{account}");
    }
}

/// The growth of a community of one seed.
async fn growing(store: &Arc<SqliteStore>, queue: &std::path::Path) -> GrowthTask {
    let mut settings = Settings::load_with(&[], None, &[]).unwrap();
    let community = CommunitySettings { seeds: "7".to_owned(), ..CommunitySettings::default() };
    settings.communities.insert(NAME.to_owned(), community);
    let settings = Arc::new(settings);
    let queue = Arc::new(EmbeddedQueue::open(queue, NAMESPACE, PATIENCE).await.unwrap());
    let schedule = Reloadable::new(JudgementSchedule { interval: PATIENCE });
    let ids_only = |_: &str| Err(UnreadableObject::NotAccepted);
    let starter = Starter::new(queue, Some(store.clone()), schedule, Arc::new(|_| Ok(None)), ids_only);
    let collecting = Collector {
        namespace: NAMESPACE.to_owned(),
        all: vec![NAMESPACE.to_owned()],
        targets: Vec::new(),
        follower: None,
        post_remover: None,
        communities: store.clone(),
        save_timeout: PATIENCE,
        metrics: Arc::new(Metrics::new()),
    };
    GrowthTask {
        namespace: NAMESPACE.to_owned(),
        network: network_namespaces(&Provider::Twitter),
        live_rule: Arc::new(LiveRule::new(NAME, Arc::new(move || settings.clone())).unwrap()),
        communities: store.clone(),
        own: FanOutTarget::new(PipelineId::parse(NAMESPACE).unwrap(), starter.clone(), None),
        by_hand: ManualDecisions {
            namespace: NAMESPACE.to_owned(),
            store: store.clone(),
            communities: store.clone(),
            starter,
        },
        lease: PATIENCE,
        collector: Arc::new(collecting),
        counters: Arc::default(),
    }
}
