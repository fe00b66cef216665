//! The updater at instances whose stated version has calls for many statuses: instances that lack these calls, and one that requires
//! a token for every call.

use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::mastodon_id;
use twitter_updater::store::{Lifecycle, Posts, SqliteStore};

use crate::support::http::{Asked, Canned, CannedServer};
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::wait::until_true;

const WITHIN: Duration = Duration::from_secs(60);
const HOUR: i64 = 3_600_000;
const TOKEN: &str = "a-token-of-limited-federation";

/// The answer of the instance to a call for many.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Many {
    NotFound,
    NotAllowed,
    Empty,
    Whole,
}

fn status(id: &str) -> Value {
    json!({
        "id": id, "created_at": "2026-11-20T10:00:00.000Z", "content": "<p>x</p>", "favourites_count": 1,
        "account": { "id": "1", "acct": "ann" },
    })
}

fn account(id: &str) -> Value {
    json!({ "id": id, "acct": format!("user{id}"), "followers_count": 1 })
}

/// Answer of an instance that states Mastodon 4.3; `wants_token`: it requires a token for every call.
fn answer(asked: &Asked, many: Many, wants_token: bool) -> Canned {
    let has_token = asked.header("authorization").is_some_and(|header| header == format!("Bearer {TOKEN}"));
    if wants_token && !has_token {
        return Canned::new(401, r#"{"error":"This method requires an authenticated user"}"#);
    }
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let object = |path: &str, id: &str| if path.contains("accounts") { account(id) } else { status(id) };
    match path {
        "/api/v2/instance" => {
            Canned::new(200, json!({ "domain": "x", "version": "4.3.0 (compatible; Misskey)" }).to_string())
        }
        "/api/v1/statuses" | "/api/v1/accounts" => match many {
            Many::NotFound => Canned::new(404, "<html>").header("content-type", "text/html"),
            Many::NotAllowed => Canned::new(405, ""),
            Many::Empty => Canned::new(200, "[]"),
            Many::Whole => {
                let ids = query.split('&').filter_map(|pair| pair.strip_prefix("id%5B%5D="));
                Canned::new(200, Value::from_iter(ids.map(|id| object(path, id))).to_string())
            }
        },
        _ => match path.rsplit_once('/') {
            Some((of @ ("/api/v1/statuses" | "/api/v1/accounts"), id)) => Canned::new(200, object(of, id).to_string()),
            _ => Canned::new(404, r#"{"error":"Not Found"}"#),
        },
    }
}

fn settings(api: &str, folder: &std::path::Path, token: bool) -> Variables {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let mut settings = variables(&[
        ("providers", "mastodon:s"),
        ("mastodon.instances.s.api", api),
        ("tweet_age", "30d: 1s"),
        ("updater.buffer_ttl", "50ms"),
        ("accounts.collect", "true"),
        ("accounts.from_posts", ""),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("queue.embedded.path", &path("jobs.db")),
        ("store.sqlite.path", &path("tweets.db")),
    ]);
    if token {
        settings.extend(variables(&[("mastodon.instances.s.bearer_token", TOKEN)]));
    }
    settings
}

/// Waits until posts and accounts were looked up twice; returns the requests.
async fn look_up_posts_and_accounts(many: Many, wants_token: bool) -> Vec<Asked> {
    let server = CannedServer::start_with(move |asked| answer(asked, many, wants_token)).await;
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&server.base_url(), folder.path(), wants_token);
    let log = folder.path().join("log");
    let posts: Vec<String> = (0..5).map(|n| mastodon_id(wall_ms() - HOUR, n)).collect();
    let accounts: Vec<String> = (1..6).map(|n| n.to_string()).collect();
    for (pipeline, ids) in [("mastodon:update:s", &posts), ("profiles:mastodon:s", &accounts)] {
        let enqueue = ["enqueue", "--pipeline", pipeline, "--first", "now", "-"];
        let output = run_with_input(&enqueue, &settings, ids.join("\n").as_bytes());
        assert!(output.status.success(), "{pipeline}: {}", text(&output.stderr));
    }
    if wants_token {
        let check = run(&["credentials", "--check"], &settings);
        let said = text(&check.stdout);
        assert!(check.status.success() && said.contains("works"), "{said}");
    }
    let updater = Process::start(&["updater"], &settings, &log);
    until_true("the store is there", WITHIN, async || folder.path().join("tweets.db").exists()).await;
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    let namespace = Provider::Mastodon("s".to_owned()).namespace();
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    for (namespace, ids) in [(&*namespace, &posts), ("profiles:mastodon:s", &accounts)] {
        let since = wall_ms() + 1_000;
        until_true(&format!("{many:?}: all are looked up in {namespace}"), WITHIN, async || {
            let known = store.standing(namespace, ids).await.unwrap();
            known.iter().flatten().filter(|known| known.checked_at.is_some_and(|at| at > since)).count() == ids.len()
        })
        .await;
    }
    for id in &posts {
        let post = store.tweet(&namespace, id).await.unwrap().unwrap();
        assert!(post.text.is_some() && post.misses == 0, "{many:?}: {post:?}");
    }
    assert_eq!(updater.terminate().code(), Some(0), "{}", logged());
    server.asked()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_without_calls_for_many_ids_gets_one_id_per_call() {
    for many in [Many::NotFound, Many::NotAllowed, Many::Empty] {
        let asked = look_up_posts_and_accounts(many, false).await;
        for of in ["statuses", "accounts"] {
            let for_many = asked.iter().filter(|asked| asked.target.starts_with(&format!("/api/v1/{of}?"))).count();
            assert!((1..=2).contains(&for_many), "{many:?}: {for_many} calls for many {of}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_wants_a_token_is_asked_for_its_version_with_it() {
    let asked = look_up_posts_and_accounts(Many::Whole, true).await;
    let is_single = |asked: &Asked| asked.target.starts_with("/api/v1/statuses/");
    assert!(!asked.iter().any(is_single), "the version is known, so each call has many ids");
    assert!(asked.iter().all(|asked| asked.header("authorization").is_some()));
}
