//! The reasons that X states for missing posts, by a real updater: stored, exported, and what `store.on_deleted` makes of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;

use crate::support::http::{Asked, Canned, CannedServer};
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);
const X: &str = "x:update";

fn post(id: &str) -> Value {
    json!({
        "id": id, "text": "words", "author_id": "7", "edit_history_tweet_ids": [id],
        "public_metrics": { "retweet_count": 1, "like_count": 2, "reply_count": 3, "quote_count": 4 },
    })
}

/// A problem in the form of the recordings.
fn problem(id: &str, title: &str, kind: &str, detail: &str) -> Value {
    json!({
        "parameter": "ids", "resource_id": id, "value": id, "resource_type": "tweet", "title": title,
        "type": format!("https://api.twitter.com/2/problems/{kind}"), "detail": format!("{detail}: [{id}]."),
    })
}

/// Answers with all posts; when they are `gone`, with the one at the first place, and a reason for each other, by its place.
fn answer(asked: &Asked, ids: &[String], gone: bool) -> Canned {
    let (mut data, mut errors) = (Vec::new(), Vec::new());
    for (place, id) in ids.iter().enumerate().filter(|(_, id)| asked.target.contains(id.as_str())) {
        match place {
            _ if place == 0 || !gone => data.push(post(id)),
            1 => errors.push(problem(id, "Not Found Error", "resource-not-found", "Could not find tweet with ids")),
            2 => errors.push(problem(
                id,
                "Authorization Error",
                "not-authorized-for-resource",
                "Sorry, you are not authorized to see the Tweet with ids",
            )),
            _ => errors.push(problem(id, "Forbidden", "resource-not-found", "User has been suspended")),
        }
    }
    let body = match data.is_empty() {
        true => json!({ "errors": errors }),
        false => json!({ "data": data, "errors": errors }),
    };
    Canned::new(200, body.to_string())
}

/// Rows of a table, as JSON, by id.
fn exported(settings: &Variables, arguments: &[&str]) -> Vec<Value> {
    let output = run(&[&["export"], arguments, &["--format", "ndjson"]].concat(), settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(rows: &'a [Value], id: &str) -> &'a Value {
    rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id} is not in {rows:#?}"))
}

async fn world(backends: Backends, api: &CannedServer, folder: &tempfile::TempDir) -> World {
    let mut world = World::new(backends, folder.path(), &api.base_url()).await;
    world.settings.extend(variables(&[
        ("x.api", &api.base_url()),
        ("providers", "x"),
        ("store.on_deleted", "blank"),
        ("updater.unavailable_after", "1s"),
    ]));
    world
}

fn enqueue(settings: &Variables, arguments: &[&str], ids: &[String]) {
    let output = run_with_input(&[&["enqueue"], arguments, &["-"]].concat(), settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn made(sequence: std::ops::Range<u32>) -> Vec<String> {
    let at = wall_ms() - 2 * 86_400_000;
    sequence.map(|n| TweetId::at(at, n).to_string()).collect()
}

async fn each_reason_is_stored_and_decides(backends: Backends) {
    let (ids, gone) = (made(0..4), Arc::<AtomicBool>::default());
    let (there, is_gone) = (ids.clone(), gone.clone());
    let api = CannedServer::start_with(move |asked| answer(asked, &there, is_gone.load(Ordering::SeqCst))).await;
    let folder = tempfile::tempdir().unwrap();
    let world = world(backends, &api, &folder).await;
    enqueue(&world.settings, &["--first", "now"], &ids);
    let updater = Process::start(&["updater"], &world.settings, &folder.path().join("updater.log"));
    let rows = async || {
        let mut rows = Vec::new();
        for id in &ids {
            rows.push(world.store.tweet(X, id).await.unwrap().unwrap());
        }
        rows
    };
    until_true("all are found", WITHIN, async || rows().await.iter().all(|row| row.text.is_some())).await;
    gone.store(true, Ordering::SeqCst);
    until_true("two are erased", WITHIN, async || rows().await.iter().filter(|row| row.raw.is_none()).count() == 2)
        .await;
    let misses = rows().await[2].misses;
    until_true("the other one is missing for longer", WITHIN, async || rows().await[2].misses > misses + 1).await;
    assert!(updater.terminate().success());
    let posts = exported(&world.settings, &["posts"]);
    let seen: Vec<_> = ids
        .iter()
        .map(|id| of(&posts, id))
        .map(|post| (post["state"].as_str().unwrap(), post["missing_reason"].as_str(), post["text"].as_str()))
        .collect();
    let expected = [
        ("live", None, Some("words")),
        ("unavailable", Some("not_found"), None),
        // It is not deleted.
        ("unavailable", Some("not_authorized"), Some("words")),
        ("unavailable", Some("suspended"), None),
    ];
    assert_eq!(seen, expected);
    let unavailable = exported(&world.settings, &["unavailable"]);
    assert_eq!(unavailable.len(), 3);
    assert_eq!(of(&unavailable, &ids[3])["missing_reason"], "suspended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reason_is_stored_and_decides_over_files() {
    each_reason_is_stored_and_decides(Backends { redis: false, postgres: false }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reason_is_stored_and_decides_over_servers() {
    each_reason_is_stored_and_decides(Backends { redis: true, postgres: true }).await;
}

/// What is looked up once has ended after it, found or missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lookup_once_tells_the_found_from_the_missing() {
    let ids = made(0..3);
    let there = ids.clone();
    let api = CannedServer::start_with(move |asked| answer(asked, &there, true)).await;
    let folder = tempfile::tempdir().unwrap();
    let mut world = world(Backends { redis: false, postgres: false }, &api, &folder).await;
    world.settings.extend(variables(&[("updater.unavailable_after", "100ms")]));
    enqueue(&world.settings, &["--once"], &ids);
    let updater = Process::start(&["updater"], &world.settings, &folder.path().join("updater.log"));
    until_true("all have ended", WITHIN, async || {
        let known = world.store.standing(X, &ids).await.unwrap();
        known.iter().flatten().all(|known| known.lookups > 0 && known.state.as_str() == "ended")
    })
    .await;
    assert!(updater.terminate().success());
    let posts = exported(&world.settings, &["posts"]);
    let states: Vec<_> = ids.iter().map(|id| of(&posts, id)["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ended", "missing", "missing"]);
    for (state, expected) in [("ended", &ids[..1]), ("missing", &ids[1..])] {
        let rows = exported(&world.settings, &["ids", "--state", state]);
        let mut found: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{state}");
    }
}
