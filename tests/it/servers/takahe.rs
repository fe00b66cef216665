//! Takahē: the `acct` of a local account has the instance's name in it, and an unknown handle is a 404 with a page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::store::{Accounts, Edges, SqliteStore};

use super::Recorded;
use crate::support::http::{Asked, Canned, CannedServer};
use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::wait::until_true;

const WITHIN: Duration = Duration::from_secs(60);
const OWNER: &str = "649691405472012370";
/// A friend of the owner, on the second page of the list.
const FRIEND: &str = "649691414830703138";

fn settings(api: &str, folder: &std::path::Path) -> Variables {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    variables(&[
        ("providers", "mastodon:takahe"),
        ("mastodon.instances.takahe.api", api),
        ("mastodon.instances.takahe.bearer_token", "a-token-of-takahe"),
        ("updater.buffer_ttl", "50ms"),
        ("accounts.collect", "true"),
        ("accounts.from_posts", ""),
        ("accounts.active", "1s"),
        ("accounts.idle", "1s"),
        ("accounts.frozen", "1s"),
        ("accounts.from_lists", "0"),
        ("relations.collect", "friends"),
        ("relations.from_posts", "false"),
        ("relations.revisit", "1s"),
        ("relations.complete_every", "0s"),
        ("relations.shrink", "1"),
        ("queue.embedded.path", &path("jobs.db")),
        ("store.sqlite.path", &path("tweets.db")),
    ])
}

/// The answers of the instance; `unfollows`: the owner no longer follows that friend.
fn answer(recorded: &Recorded, asked: &Asked, unfollows: bool) -> Canned {
    let Some(mut canned) = recorded.answer(asked) else {
        // Its own 404.
        return recorded.get("/api/v1/accounts/lookup?acct=nobody%40takahe.test").unwrap();
    };
    if unfollows && asked.target.contains("/following") {
        let page: Vec<Value> = serde_json::from_slice(&canned.body).unwrap();
        let rest = page.into_iter().filter(|account| account["id"] != FRIEND);
        canned.body = Value::from_iter(rest).to_string().into_bytes();
    }
    canned
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_of_a_local_account_is_complete_and_an_unfollow_is_seen() {
    let (recorded, unfollows) = (Recorded::of("takahe"), Arc::new(AtomicBool::new(false)));
    let seen = unfollows.clone();
    let server = CannedServer::start_with(move |asked| answer(&recorded, asked, seen.load(Ordering::Relaxed))).await;
    let folder = tempfile::tempdir().unwrap();
    let (settings, log) = (settings(&server.base_url(), folder.path()), folder.path().join("log"));
    let provider = Provider::Mastodon("takahe".to_owned());
    let [lists, profiles] = ["friends", "profiles"].map(|kind| PipelineId::items(&provider, kind).to_string());
    let enqueue = |pipeline: &str| {
        let output =
            run_with_input(&["enqueue", "--pipeline", pipeline, "--first", "now", "-"], &settings, OWNER.as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let updater = Process::start(&["updater"], &settings, &log);
    until_true("the store is there", WITHIN, async || folder.path().join("tweets.db").exists()).await;
    let store = SqliteStore::open(&folder.path().join("tweets.db"), WITHIN).await.unwrap();
    enqueue(&profiles);
    until_true("its handle is known", WITHIN, async || {
        let account = store.account(&profiles, OWNER).await.ok().flatten();
        account.is_some_and(|account| account.handle.as_deref() == Some("user0@takahe.test"))
    })
    .await;
    enqueue(&lists);
    let newest = async || store.crawls(&lists, OWNER, 1).await.unwrap().into_iter().next();
    until_true("the list is read", WITHIN, async || newest().await.is_some_and(|crawl| crawl.ended.is_some())).await;
    let first = newest().await.unwrap();
    assert_eq!((first.ended.as_deref(), first.found), (Some("complete"), 6));
    unfollows.store(true, Ordering::Relaxed);
    until_true("the unfollow is seen", WITHIN, async || {
        store.crawls(&lists, OWNER, 9).await.unwrap().iter().any(|crawl| crawl.vanished == 1)
    })
    .await;
    assert_eq!(updater.terminate().code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_handle_ends_no_file() {
    let recorded = Recorded::of("takahe");
    let server = CannedServer::start_with(move |asked| answer(&recorded, asked, false)).await;
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&server.base_url(), folder.path());
    let file = "nobody@takahe.test\nuser1@takahe.test\n";
    let enqueue = ["enqueue", "--accounts", "-"];
    let output = run_with_input(&enqueue, &settings, file.as_bytes());
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(65), "a line is refused: {said} {errors}");
    assert!(errors.contains("no account is returned for the handle"), "{said} {errors}");
    assert!(said.contains("scheduled   1"), "{said} {errors}");
}
