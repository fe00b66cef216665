//! Pictures of v1.1 and X as a process fetches them: in the next size if the original one fails, and of X those that came with
//! the ingest's object.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use axum::extract::Query;
use axum::{Json, Router};
use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::media::MediaState;
use twitter_updater::model::post::TweetId;
use twitter_updater::store::StoredMedium;

use super::process::media_settings;
use super::server::Server;
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
const DATE: &str = "2026-11-01T00:00:00.000Z";

/// Answers a lookup of v1.1 with a picture at that address in each post, and one of X with the keys of pictures alone.
async fn api(picture: String) -> String {
    let answer = move |Query(query): Query<BTreeMap<String, String>>| async move {
        if let Some(ids) = query.get("ids") {
            let posts = ids.split(',').map(|id| x_post(id, None));
            return Json(json!({ "data": posts.collect::<Vec<Value>>() }));
        }
        let post = |id: &str| {
            let media = json!([{ "id_str": "7", "type": "photo", "media_url_https": picture }]);
            json!({"id_str": id, "full_text": "look", "user": {"id_str": "12", "screen_name": "ann"},
                "created_at": "Sun Nov 01 00:00:00 +0000 2026", "extended_entities": {"media": media}})
        };
        let found: BTreeMap<&str, Value> = query["id"].split(',').map(|id| (id, post(id))).collect();
        Json(json!({ "id": found }))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    address
}

/// A post of X that shows the media 3_1 and 7_2, with those `included`.
fn x_post(id: &str, included: Option<&Value>) -> Value {
    let attachments = json!({ "media_keys": ["3_1", "7_2"] });
    let mut post =
        json!({ "id": id, "text": "look", "author_id": "12", "created_at": DATE, "attachments": attachments });
    if let Some(media) = included {
        post["includes"] = json!({ "media": media });
    }
    post
}

async fn stored(world: &World, namespace: &str, ids: &[&str]) -> Vec<StoredMedium> {
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let mut media: Vec<StoredMedium> = Vec::new();
    until_true("the media are stored", WITHIN, async || {
        media = world.store.media(namespace, &ids).await.unwrap().into_iter().flatten().collect();
        media.len() == ids.len() && media.iter().all(|of| of.state == MediaState::Stored)
    })
    .await;
    media
}

fn enqueue(settings: &Variables, options: &[&str], input: &str) {
    let output = run_with_input(&[options, &["enqueue", "-"]].concat(), settings, input.as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

async fn fetched(backends: Backends, folder: &Path) {
    let server = Server::start().await;
    let api = api(server.url("/orig-504/20?name=orig")).await;
    let mut world = World::new(backends, folder, &api).await;
    world.settings.extend(media_settings(&server, folder));
    world.settings.extend(variables(&[("providers", "twitter, x"), ("x.api", &api)]));
    let ids: Vec<String> = (0..4).map(|n| TweetId::at(wall_ms() - 60_000, n).to_string()).collect();
    enqueue(&world.settings, &["--provider", "twitter"], &ids[0]);
    // An object with its media inside, an answer with them beside its posts, and a flattened post.
    let included = json!([
        {"media_key": "3_1", "type": "photo", "url": server.url("/orig-404/21?name=orig")},
        {"media_key": "7_2", "type": "video", "variants":
            [{"content_type": "video/mp4", "bit_rate": 1, "url": server.url("/ok/22")}]},
        {"media_key": "3_9", "type": "photo", "url": server.url("/ok/29")}]);
    let x: &[&str] = &["--provider", "x"];
    enqueue(&world.settings, x, &x_post(&ids[1], Some(&included)).to_string());
    let answer = json!({ "data": [x_post(&ids[2], None)], "includes": { "media": included }, "meta": {} });
    enqueue(&world.settings, x, &answer.to_string());
    let mut flattened = x_post(&ids[3], None);
    flattened["attachments"]["media"] = included.clone();
    enqueue(&world.settings, x, &flattened.to_string());

    let updater = Process::start(&["updater"], &world.settings, &folder.join("updater.log"));
    let [medium] = &stored(&world, "media:twitter", &["7"]).await[..] else { panic!() };
    assert_eq!(medium.url, server.url("/orig-504/20?name=4096x4096"));
    assert!(medium.attempts >= 2, "the original was requested more than once: {medium:?}");
    let [picture, video] = &stored(&world, "media:x", &["3_1", "7_2"]).await[..] else { panic!() };
    assert_eq!((&*picture.kind, &*picture.url), ("photo", &*server.url("/orig-404/21?name=4096x4096")));
    assert_eq!((&*video.kind, &*video.url), ("video", &*server.url("/ok/22")));
    for medium in [picture, video] {
        until_true("each post shows it", WITHIN, async || {
            let uses = world.store.media_uses("media:x", &medium.id, 9).await.unwrap();
            let uses: Vec<String> = uses.into_iter().map(|(post, _)| post).collect();
            ids[1..].iter().all(|id| uses.contains(id))
        })
        .await;
    }
    let other = world.store.media("media:x", &["3_9".to_owned()]).await.unwrap();
    assert_eq!(other, [None], "no post shows it");
    assert_eq!(updater.terminate().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_come_in_the_next_size_and_from_ingested_objects_over_files() {
    fetched(Backends { redis: false, postgres: false }, tempfile::tempdir().unwrap().path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_come_in_the_next_size_and_from_ingested_objects_over_servers() {
    fetched(Backends { redis: true, postgres: true }, tempfile::tempdir().unwrap().path()).await;
}
