//! A person is forgotten while its posts are looked up and its media are fetched: none of them returns.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::Query;
use axum::{Json, Router};
use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;

use super::process::media_settings;
use super::server::Server;
use crate::support::process::{Variables, run, run_with_input, text, variables};
use crate::support::role::Role;
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const NS: &str = "media:twitter";
const PATIENCE: Duration = Duration::from_secs(90);
const ROUNDS: u32 = 3;
const POSTS: u32 = 120;

/// The number in a post's id; its thousands are its author's.
fn number_of(id: &str) -> u32 {
    u32::try_from(id.parse::<u64>().unwrap() & 0x3f_ffff).unwrap()
}

fn author_of(post: u32) -> u32 {
    1_000 + post / 1_000
}

/// Media that a post shows: two of its own, and three that four neighbours show, too: while one is fetched, others name it.
fn media_of(post: u32) -> Vec<u32> {
    (0..2).map(|n| 1_000_000 + post * 10 + n).chain((0..3).map(|n| 5_000_000 + post / 4 * 10 + n)).collect()
}

async fn api(server: &Server) -> String {
    let host = server.url("");
    let answer = move |Query(query): Query<BTreeMap<String, String>>| async move {
        let photo = |id: u32| json!({"id_str": id.to_string(), "type": "photo", "media_url_https": format!("{host}/slow/{id}")});
        let post = |id: &str| {
            let number = number_of(id);
            let media: Vec<Value> = media_of(number).into_iter().map(photo).collect();
            json!({"id_str": id, "full_text": "look", "user": {"id_str": author_of(number).to_string(), "screen_name": "ann"},
                "created_at": "Wed Aug 27 13:08:45 +0000 2008", "extended_entities": {"media": media}})
        };
        let found: BTreeMap<String, Value> = query["id"].split(',').map(|id| (id.to_owned(), post(id))).collect();
        Json(json!({"id": found}))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn no_medium_of_a_forgotten_person_returns(backends: Backends) {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let world = World::new(backends, folder.path(), &api(&server).await).await;
    let key = folder.path().join("secret-key");
    let own = variables(&[("forget.key_file", key.to_str().unwrap())]);
    let settings: Variables = [world.settings.clone(), media_settings(&server, folder.path()), own].concat();
    let updater = Role::start("updater", &settings, &folder.path().join("updater.log")).await;
    let queues = [world.queue_of(folder.path(), NAMESPACE).await, world.queue_of(folder.path(), NS).await];
    for round in 0..ROUNDS {
        let posts: Vec<u32> = (round * 1_000..round * 1_000 + POSTS).collect();
        let made = wall_ms() - 60_000;
        let ids: Vec<String> = posts.iter().map(|post| TweetId::at(made, *post).to_string()).collect();
        let media: Vec<String> = posts.iter().flat_map(|post| media_of(*post)).map(|id| id.to_string()).collect();
        let enqueued = run_with_input(&["enqueue", "-"], &settings, ids.join("\n").as_bytes());
        assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));
        until_true("some media are fetched", PATIENCE, async || {
            let known = world.store.media(NS, &media).await.unwrap();
            known.iter().flatten().filter(|medium| medium.sha256.is_some()).count() > 10
        })
        .await;
        let account = author_of(posts[0]).to_string();
        let forget = || run(&["forget", "account", &account, "--yes"], &settings);
        let output = forget();
        assert!(output.status.success(), "{}", text(&output.stderr));
        until_true("nothing of it is in the queues", PATIENCE, async || {
            let mut left = 0;
            for queue in &queues {
                let stats = queue.stats().await.unwrap();
                left += stats.delayed + stats.leased + stats.incoming;
            }
            left == 0
        })
        .await;
        let of_media = world.store.standing(NS, &media).await.unwrap();
        assert_eq!(of_media.iter().flatten().count(), 0, "media that returned in round {round}");
        assert_eq!(world.store.media(NS, &media).await.unwrap().iter().flatten().count(), 0, "addresses");
        assert_eq!(world.store.standing(NAMESPACE, &ids).await.unwrap().iter().flatten().count(), 0, "posts");
        let again = forget();
        assert!(text(&again.stdout).contains("removed rows\n  nothing"), "{}", text(&again.stdout));
    }
    assert_eq!(updater.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_medium_of_a_forgotten_person_returns_in_sqlite() {
    no_medium_of_a_forgotten_person_returns(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_medium_of_a_forgotten_person_returns_in_postgres_and_redis() {
    no_medium_of_a_forgotten_person_returns(Backends { redis: true, postgres: true }).await;
}
