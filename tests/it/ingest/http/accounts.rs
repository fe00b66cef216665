//! `POST /accounts`: ids and addresses of accounts go the way of tweets, into the pipeline of accounts.

use twitter_updater::app;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::Queue;
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::profiles::profiles_pipeline;
use twitter_updater::providers::registry::read_account_ref;
use twitter_updater::store::{Accounts as _, SqliteStore};

use super::*;

/// A hook that takes accounts of X and of Bluesky, beside the tweets.
struct Doors {
    served: Served,
    x: Arc<WatchedQueue>,
    bluesky: Arc<WatchedQueue>,
    store: Arc<SqliteStore>,
}

impl Doors {
    async fn new() -> Self {
        let world = World::new().await;
        let store = SqliteStore::open(&world.dir.path().join("store.db"), Duration::from_secs(10)).await.unwrap();
        store.migrate().await.unwrap();
        let store = Arc::new(store);
        let (mut doors, mut queues) = (Vec::new(), Vec::new());
        for provider in [Provider::X, Provider::Bluesky] {
            let pipeline = profiles_pipeline(&provider);
            let file = world.dir.path().join(format!("{provider}.db"));
            let queue = EmbeddedQueue::open(&file, &pipeline.namespace(), Duration::from_secs(10)).await.unwrap();
            let queue = Arc::new(WatchedQueue::around(Arc::new(queue)));
            let settings = Settings::load_with(&[], None, &[]).unwrap();
            let schedule = Reloadable::new(pipeline.schedule(&settings));
            let starter = app::starter(&settings, &pipeline, queue.clone(), Some(store.clone()), schedule)
                .with_way(Way::new("http"));
            doors.push(AccountEndpoint { provider: provider.to_string(), starter, read: read_account_ref(&provider) });
            queues.push(queue);
        }
        let served = Served::around(world, None, 1 << 20, doors).await;
        let [x, bluesky] = queues.try_into().unwrap();
        Self { served, x, bluesky, store }
    }

    async fn send(&self, query: &str, body: &str) -> (u16, Value) {
        let address = format!("{}/accounts{query}", self.served.url);
        let request = self.served.client.post(address).header("content-type", "application/x-ndjson");
        self.served.answer(request.body(body.to_owned())).await
    }
}

async fn lane_of(queue: &dyn Queue, id: &str) -> Option<String> {
    match queue.locate(&[id.to_owned()]).await.unwrap().remove(0).pop() {
        Some(Place::Delayed { lane, .. }) => Some(lane.to_string()),
        _ => None,
    }
}

#[tokio::test]
async fn accounts_are_recorded_and_looked_up_first() {
    let doors = Doors::new().await;
    let (status, receipt) = doors.send("", "12\nhttps://x.com/i/user/13\n").await;
    assert_eq!((status, &receipt["scheduled"], &receipt["refused"]), (202, &2.into(), &json!([])), "{receipt}");
    for id in ["12", "13"] {
        assert_eq!(lane_of(&*doors.x, id).await.as_deref(), Some("first"));
        assert!(doors.store.standing("profiles:x", &[id.to_owned()]).await.unwrap()[0].is_some());
    }
    let ways = doors.store.ways("profiles:x", "12").await.unwrap();
    assert_eq!(ways[0].1, Way::new("http"));
    assert_eq!(doors.send("", "[12, \"14\"]").await.1["known"], 1);
    let did = "did:plc:ewvi7nxzyoun6zhxrhs64oiz";
    let (status, receipt) = doors.send("?provider=bluesky", did).await;
    assert_eq!((status, &receipt["scheduled"]), (202, &1.into()), "{receipt}");
    assert_eq!(lane_of(&*doors.bluesky, did).await.as_deref(), Some("first"));
    assert!(doors.served.world.places("12").await.is_empty(), "no account is among the tweets");
    let metrics = doors.served.metrics().await;
    let of = |labels: &str| format!("twitter_updater_starter_accounts_total{{{labels}}}");
    let scheduled = crate::support::role::value(&metrics, &of("provider=\"x\",outcome=\"scheduled\""));
    assert_eq!(scheduled, Some(3.0), "{metrics}");
}

#[tokio::test]
async fn a_handle_is_kept_until_it_is_resolved_and_what_is_none_is_refused() {
    let doors = Doors::new().await;
    let (status, receipt) = doors.send("", "12\n@ann\n\nnot an account\n").await;
    let refused = receipt["refused"].as_array().unwrap();
    assert_eq!((status, &receipt["scheduled"], &receipt["handles"]), (202, &1.into(), &1.into()), "{receipt}");
    assert_eq!((refused.len(), &refused[0]["index"]), (1, &3.into()), "{receipt}");
    // Handles alone, one of them twice.
    let (status, receipt) = doors.send("", "[\"https://x.com/Bea\", \"@ANN\", \"@bea\"]").await;
    assert_eq!((status, &receipt["handles"], &receipt["scheduled"]), (202, &3.into(), &0.into()), "{receipt}");
    let waiting = doors.store.claim_handles("profiles:x", 0, 1, 10).await.unwrap();
    assert_eq!(
        waiting.into_iter().collect::<std::collections::BTreeSet<_>>(),
        ["ann", "bea"].map(str::to_owned).into()
    );
    // There is a bound, and nothing is kept beyond it.
    let many: Vec<String> = (0..99_998).map(|n| format!("h{n}")).collect();
    assert!(doors.store.store_handles("profiles:x", &many, 1, 100_000).await.unwrap());
    let (status, problem) = doors.send("", "@cid\n").await;
    assert_eq!(status, 503);
    assert!(problem["reason"].as_str().unwrap().contains("too many handles wait"), "{problem}");
    assert_eq!(doors.send("?provider=bluesky", "ann.example.org\n").await.1["handles"], 1, "each network has its own");
    let (status, problem) = doors.send("", "not an account\n").await;
    assert_eq!((status, &problem["index"]), (400, &0.into()), "{problem}");
    let (status, problem) = doors.send("?provider=mastodon:social", "12").await;
    assert_eq!((status, &problem["reason"]), (400, &"unknown provider; known here: x, bluesky".into()));
    assert_eq!(doors.send("", " ").await.0, 400);
}

#[tokio::test]
async fn a_body_of_more_handles_than_may_wait_is_refused_whole() {
    let doors = Doors::new().await;
    let handles: Vec<String> = (0..100_000).map(|n| format!("h{n}")).collect();
    let lines = |handles: &[String]| handles.iter().map(|handle| format!("@{handle}\n")).collect::<String>();
    // An id first, and a batch and more of handles: nothing is kept before the last of them is read.
    let (status, problem) = doors.send("", &format!("12\n{}@one_more\n", lines(&handles))).await;
    assert_eq!((status, &problem["index"]), (413, &Value::Null), "{problem}");
    assert!(problem["reason"].as_str().unwrap().contains("send it in parts of at most 100000 handles"), "{problem}");
    assert_eq!(doors.store.standing("profiles:x", &["12".to_owned()]).await.unwrap(), [None]);
    assert_eq!(doors.store.claim_handles("profiles:x", 0, 1, 10).await.unwrap(), [""; 0]);

    // As many as may wait are taken, and those that wait may be sent again, while there is no room for another one.
    assert!(doors.store.store_handles("profiles:x", &handles, 1, 100_000).await.unwrap());
    let (status, receipt) = doors.send("", &lines(&handles)).await;
    assert_eq!((status, &receipt["handles"]), (202, &100_000.into()), "{receipt}");
    assert_eq!(doors.send("", "@H7\n@h8\n").await.1["handles"], 2);
    assert_eq!(doors.send("", "@h7\n@one_more\n").await.0, 503);
}

#[tokio::test]
async fn what_the_queue_did_not_take_is_in_the_store_and_is_sent_again() {
    let doors = Doors::new().await;
    doors.x.fail_schedules.store(1, SeqCst);
    assert_eq!(doors.send("", "12").await.0, 503);
    assert!(doors.store.standing("profiles:x", &["12".to_owned()]).await.unwrap()[0].is_some(), "rebuild finds it");
    assert_eq!(lane_of(&*doors.x, "12").await, None);
    let (status, receipt) = doors.send("", "12").await;
    assert_eq!((status, &receipt["scheduled"]), (202, &1.into()), "{receipt}");
}

#[tokio::test]
async fn without_accounts_it_says_which_setting_is_missing() {
    let served = Served::new().await;
    let request = served.client.post(format!("{}/accounts", served.url)).header("content-type", "application/json");
    let (status, problem) = served.answer(request.body("[12]")).await;
    assert_eq!(status, 404);
    assert!(problem["reason"].as_str().unwrap().contains("accounts.collect = true"), "{problem}");
}
