//! `store.longest_unchecked`, by the processes: after its lookup every quiet post and frozen account is due within it, on both backends.

use std::sync::Arc;

use secrecy::SecretString;
use twitter_updater::base::clock::Millis;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{Listing, PostgresStore, SqliteStore, Store};

use super::*;
use crate::support::postgres;
use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::wait::until;

const PROFILES: &str = "profiles:twitter";
const PATIENCE: Duration = Duration::from_secs(120);
const POSTS: u32 = 30;

/// Times from each lookup to the next one, longest first, once every item was looked up.
async fn waits(store: &dyn Store, namespace: &str, least: usize) -> Vec<Millis> {
    until("each was looked up", PATIENCE, async || {
        let page = store.page(namespace, Listing::Tracked, None, 1_000).await.ok()?;
        let waits: Option<Vec<Millis>> = page.iter().map(|row| Some(row.next_due? - row.checked_at?)).collect();
        let mut waits = waits.filter(|waits| waits.len() >= least)?;
        waits.sort_by(|a, b| b.cmp(a));
        Some(waits)
    })
    .await
}

/// The longest waits of posts and of accounts.
async fn longest(home: &Home, on: &[(&str, &str)], more: &[(&str, &str)], store: Arc<dyn Store>) -> [Millis; 2] {
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let own = [
        ("twitter.api", &*api.base_url()),
        ("schedule", "adaptive"),
        ("accounts.collect", "true"),
        ("accounts.from_posts", "author"),
        // Every account has been silent for longer, so it is frozen at once.
        ("accounts.idle_after", "1s"),
        ("accounts.freeze_after", "1s"),
        ("updater.buffer_ttl", "100ms"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let own: Vec<(&str, &str)> = own.iter().map(|(key, value)| (&**key, &**value)).collect();
    let settings = home.settings(&[&own, on, more].concat());
    let ids: Vec<String> = (0..POSTS).map(|number| id_aged(20 * DAY, number)).collect();
    let enqueued = run(&["enqueue", "--first", "now", &home.file("ids.txt", ids.join("\n"))], &settings);
    assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));
    let updater = Process::start(&["updater"], &settings, &home.path("updater.log"));
    let posts = waits(&*store, NAMESPACE, ids.len()).await;
    let accounts = waits(&*store, PROFILES, 1).await;
    drop(updater);
    [posts[0], accounts[0]]
}

async fn on_files(more: &[(&str, &str)]) -> [Millis; 2] {
    let home = Home::new();
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    twitter_updater::store::Lifecycle::migrate(&store).await.unwrap();
    longest(&home, &[], more, Arc::new(store)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_item_waits_longer_than_the_bound_on_files() {
    let [posts, accounts] = on_files(&[("store.on_deleted", "keep")]).await;
    assert!(posts > DAY && accounts > 7 * DAY, "without the bound they wait longer: {posts} {accounts}");
    for (bound, longest) in [("1d", DAY), ("6h", DAY / 4)] {
        let waits = on_files(&[("store.on_deleted", "blank"), ("store.longest_unchecked", bound)]).await;
        assert!(waits.iter().all(|wait| *wait <= longest), "{bound}: {waits:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_item_waits_longer_than_the_bound_on_servers() {
    let (home, redis, url) = (Home::new(), TestRedis::start(&[]), postgres::database().await);
    let servers = [
        ("queue.backend", "redis"),
        ("queue.redis.url", &*redis.url),
        ("store.backend", "postgres"),
        ("store.postgres.url", &*url),
    ];
    let store = PostgresStore::connect(&SecretString::from(&*url), 2, Duration::from_secs(20)).await.unwrap();
    twitter_updater::store::Lifecycle::migrate(&store).await.unwrap();
    let waits = longest(&home, &servers, &[("store.on_deleted", "remove")], Arc::new(store)).await;
    assert!(waits.iter().all(|wait| *wait <= DAY), "{waits:?}");
}
