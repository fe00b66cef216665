//! The updater with all networks at once: each API refuses one post, one account and one list.

use std::collections::BTreeMap;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::ItemState;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, Endpoint, Fault, Rule, Running, SimulatorOptions};
use twitter_updater::store::{Edges, Lifecycle, Posts, SqliteStore};

use crate::providers::all;
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::wait::until_true;

const WITHIN: Duration = Duration::from_secs(90);
const HOUR: i64 = 3_600_000;
/// Number of posts per network, and of accounts with lists to read.
const POSTS: u32 = 12;
const OWNERS: u64 = 4;

/// A network of the settings, and the client that has its ids.
struct Network {
    name: &'static str,
    provider: Provider,
    client: all::Provider,
}

fn networks() -> Vec<Network> {
    let instance = |name: &str| Provider::Mastodon(name.to_owned());
    vec![
        Network { name: "twitter", provider: Provider::Twitter, client: all::Provider::TwitterV1 },
        Network { name: "x", provider: Provider::X, client: all::Provider::XV2 },
        Network { name: "mastodon:many", provider: instance("many"), client: all::Provider::Mastodon },
        Network { name: "mastodon:one", provider: instance("one"), client: all::Provider::MastodonStatus },
        Network { name: "bluesky", provider: Provider::Bluesky, client: all::Provider::Bluesky },
    ]
}

fn settings(api: &Running, folder: &std::path::Path) -> Variables {
    let (api, path) = (api.base_url(), |name: &str| folder.join(name).to_str().unwrap().to_owned());
    variables(&[
        ("providers", "twitter, x, mastodon:many, mastodon:one, bluesky"),
        ("twitter.api", &api),
        ("x.api", &api),
        ("x.reads", "0"),
        ("mastodon.instances.many.api", &api),
        ("mastodon.instances.many.calls", "batch"),
        ("mastodon.instances.one.api", &api),
        ("mastodon.instances.one.calls", "single"),
        ("bluesky.api", &api),
        ("tweet_age", "30d: 1s"),
        ("updater.buffer_ttl", "50ms"),
        ("accounts.collect", "true"),
        ("accounts.from_posts", ""),
        ("accounts.schedule", "silence"),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("relations.collect", "followers"),
        ("relations.from_posts", "false"),
        ("relations.revisit", "1s"),
        ("relations.complete_every", "0s"),
        ("queue.embedded.path", &path("jobs.db")),
        ("store.sqlite.path", &path("tweets.db")),
    ])
}

/// The items of a pipeline; the first one is refused.
struct Items {
    pipeline: String,
    ids: Vec<String>,
    at: Endpoint,
}

fn items(network: &Network, api: &Running) -> Vec<Items> {
    let Network { name, provider, client } = network;
    let people = api.people();
    let accounts: Vec<String> = (0..OWNERS).map(|number| people.id(provider, number)).collect();
    let posts = (0..POSTS).map(|n| client.id(wall_ms() - HOUR, n)).collect();
    let pipeline = |kind: &str| format!("{kind}:{name}");
    vec![
        Items { pipeline: provider.namespace(), ids: posts, at: Endpoint::Lookup },
        Items { pipeline: pipeline("profiles"), ids: accounts.clone(), at: Endpoint::Accounts },
        Items { pipeline: pipeline("followers"), ids: accounts, at: Endpoint::Relations },
    ]
}

impl Items {
    fn refused(&self, answer: &Fault) -> Rule {
        Rule { at: self.at, asked: vec![self.ids[0].clone()], ..Rule::from(answer.clone()) }
    }

    /// Returns true if each of them was answered after that moment.
    async fn are_answered(&self, store: &SqliteStore, ids: &[String], since: i64) -> bool {
        let namespace = &self.pipeline;
        if self.at != Endpoint::Relations {
            let standings = store.standing(namespace, ids).await.unwrap();
            let known = standings.iter().flatten().filter(|known| known.checked_at.is_some_and(|at| at > since));
            return known.count() == ids.len();
        }
        for owner in ids {
            let crawls = store.crawls(namespace, owner, 5).await.unwrap();
            let is_new = |at: Option<i64>| at.is_some_and(|at| at > since);
            if !crawls.iter().any(|crawl| is_new(crawl.ended_at)) {
                return false;
            }
        }
        true
    }
}

async fn one_of_each_delays_no_other(answer: Fault) {
    let options = SimulatorOptions {
        calls_per_window: 0,
        app_calls_per_window: 0,
        x_calls_per_window: 0,
        x_app_calls_per_window: 0,
        mastodon_calls_per_window: 0,
        bluesky_calls_per_window: 0,
        missing_share: 0.0,
        withheld_share: 0.0,
        accounts: 50,
        most_followers: 20,
        lists_hidden: 0.0,
        accounts_gone: 0.0,
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&api, folder.path());
    let (store, log) = (folder.path().join("tweets.db"), folder.path().join("log"));
    let all: Vec<Items> = networks().iter().flat_map(|network| items(network, &api)).collect();
    for items in &all {
        let enqueue = ["enqueue", "--pipeline", items.pipeline.as_str(), "--first", "now", "-"];
        let output = run_with_input(&enqueue, &settings, items.ids.join("\n").as_bytes());
        assert!(output.status.success(), "{}: {}", items.pipeline, text(&output.stderr));
    }
    let updater = Process::start(&["updater"], &settings, &log);
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    until_true("the store is there", WITHIN, async || store.exists()).await;
    let store = SqliteStore::open(&store, WITHIN).await.unwrap();
    let answered = async |ids: &dyn Fn(&Items) -> Vec<String>, since: i64, what: &str| {
        for items in &all {
            let ids = ids(items);
            let is_so = async || items.are_answered(&store, &ids, since).await;
            until_true(&format!("{what}: {}", items.pipeline), WITHIN, is_so).await;
        }
    };
    answered(&|items: &Items| items.ids.clone(), 0, "all are answered").await;
    api.faults().replace(all.iter().map(|items| items.refused(&answer)).collect());
    // Two rounds: a credential that was parked by the first refusal would make no call in the second.
    for _ in 0..2 {
        answered(&|items: &Items| items.ids[1..].to_vec(), wall_ms(), "the others are answered").await;
    }
    let mut misses = BTreeMap::new();
    for items in &all {
        let (namespace, refused) = (items.pipeline.as_str(), &items.ids[0]);
        match items.at {
            Endpoint::Lookup => {
                until_true("its miss is stored", WITHIN, async || {
                    store.tweet(namespace, refused).await.unwrap().is_some_and(|post| post.misses > 0)
                })
                .await;
                let post = store.tweet(namespace, refused).await.unwrap().unwrap();
                assert!(post.state == ItemState::Live && post.text.is_some(), "{namespace}: {post:?}");
                misses.insert(namespace, post.misses);
            }
            Endpoint::Accounts => {
                until_true("its miss is stored", WITHIN, async || {
                    let known = store.standing(namespace, std::slice::from_ref(refused)).await.unwrap();
                    known[0].as_ref().is_some_and(|known| known.misses > 0 && known.state == ItemState::Live)
                })
                .await;
            }
            _ => {
                until_true("its list is hidden", WITHIN, async || {
                    let crawls = store.crawls(namespace, refused, 1).await.unwrap();
                    crawls[0].ended.as_deref() == Some("hidden")
                })
                .await;
            }
        }
    }
    println!("{answer:?}: misses {misses:?}");
    assert!(!logged().contains("the credential is parked"), "{}", logged());
    assert_eq!(updater.terminate().code(), Some(0), "{}", logged());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_item_with_403_delays_no_other() {
    let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
    let body = r#"{"error":"This action is not allowed"}"#.to_owned();
    one_of_each_delays_no_other(Fault::Answer { status: 403, headers, body }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_item_with_401_delays_no_other() {
    one_of_each_delays_no_other(Fault::Status { status: 401, code: None }).await;
}
