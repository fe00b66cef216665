//! Recorded errors: of several workers, read by processes that start later.

use twitter_updater::engine::queue::{EmbeddedQueue, Queue, RecordedError, RedisQueue};

use super::*;
use crate::support::http::{CANARY, Canned, CannedServer};
use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::role::Role;
use crate::support::wait::until_true;

const PATIENCE: Duration = Duration::from_secs(60);

/// The recorded errors that contain these words.
fn errors(settings: &Variables, words: &str) -> Vec<RecordedError> {
    let output = run(&["status", "--json", "--errors", words], settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["unread"], serde_json::json!([]), "{report}");
    serde_json::from_value(report["errors"].clone()).unwrap()
}

fn count(errors: &[RecordedError], kind: &str) -> u64 {
    errors.iter().filter(|error| error.kind == kind).map(|error| error.count).sum()
}

/// An API that answers nothing usable, with a secret in each part of its answer.
async fn broken_api() -> CannedServer {
    let body = format!(r#"{{"errors":[{{"code":131,"message":"{CANARY}"}}]}}"#);
    CannedServer::start(Canned::new(503, body).header("x-said", CANARY)).await
}

fn failing<'a>(api: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let own = [
        ("twitter.api", api),
        ("twitter.bearer_token", CANARY),
        ("tweet_age", "1h: 1s"),
        ("updater.buffer_ttl", "50ms"),
        ("log.level", "debug"),
    ];
    [&own[..], more].concat()
}

async fn errors_of_two_workers(more: &[(&str, &str)]) {
    let (home, api) = (Home::new(), broken_api().await);
    let base = api.base_url();
    let settings = home.settings(&failing(&base, more));
    let ids = young(20);
    assert!(run(&["enqueue", &home.file("ids.txt", ids.join("\n"))], &settings).status.success());
    assert_eq!(errors(&settings, ""), []);
    let mut logs = Vec::new();
    let mut counted = 0;
    // Two at once, then one more: counts add up over processes and restarts.
    for names in [&["one", "two"][..], &["three"]] {
        let start = |name: &&str| {
            let log = home.path(&format!("{name}.log"));
            logs.push(log.clone());
            let named = [&settings[..], &variables(&[("updater.name", name)])].concat();
            Process::start(&["updater"], &named, &log)
        };
        let workers: Vec<Process> = names.iter().map(start).collect();
        let before = counted;
        until_true("errors are recorded", PATIENCE, async || {
            // While workers start on a busy machine, a queue may answer too late.
            let output = run(&["status", "--json"], &settings);
            let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
            let failed = seen["counters"]["requests_failed"].as_i64().unwrap_or(0);
            failed >= i64::try_from(before).unwrap() + 4 && count(&errors(&settings, ""), "no answer") > before
        })
        .await;
        workers.into_iter().for_each(|worker| assert!(worker.terminate().success()));
        counted = count(&errors(&settings, ""), "no answer");
        assert_eq!(status(&settings)["counters"]["requests_failed"], counted, "each failed call counts once");
    }
    let all = errors(&settings, "");
    let [error] = &all[..] else { panic!("one kind at one place: {all:?}") };
    assert_eq!((&*error.pipeline, &*error.host, &*error.endpoint), ("tweet:update", "127.0.0.1", "statuses/lookup"));
    assert!(error.message.contains("HTTP 503") && error.first_ms < error.last_ms, "{error:?}");
    assert!(error.example.as_ref().is_some_and(|id| ids.contains(id)), "{error:?}");
    assert_eq!((errors(&settings, "STATUSES/lookup").len(), errors(&settings, "nowhere").len()), (1, 0));
    let table = text(&run(&["status", "--errors"], &settings).stdout);
    assert!(table.contains("tweet:update 127.0.0.1 statuses/lookup\n  the API is not available: HTTP 503"), "{table}");

    let log = home.path("ops.log");
    let ops = Role::start_ready("ops", &settings, &log).await;
    let (code, found) = ops.get("/errors?text=http+503").await;
    assert_eq!(code, 200, "{found}");
    let example = error.example.as_deref().unwrap();
    assert!(found.contains("statuses/lookup") && found.contains(&format!("/tweet?id={example}")), "{found}");
    assert!(found.contains("value=\"http 503\""), "{found}");
    let (_, none) = ops.get("/errors?text=%3Cscript%3Enowhere").await;
    assert!(none.contains("No errors with these words") && !none.contains("<script>nowhere"), "{none}");
    let front = ops.get("/").await.1;
    assert!(front.contains("HTTP 503") && front.contains("href=\"/errors\""), "{front}");
    logs.push(log);
    assert_eq!(ops.stopped().await, Some(0));
    let logged = logs.iter().map(|log| log_text(log)).collect::<String>();
    for said in [&found, &front, &table, &logged, &format!("{all:?}")] {
        assert!(!said.contains(CANARY), "a secret of an answer");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_workers_on_the_embedded_queue() {
    errors_of_two_workers(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_workers_on_redis() {
    let redis = TestRedis::start(&[]);
    errors_of_two_workers(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_wait_for_a_queue_that_is_out() {
    let (home, api) = (Home::new(), broken_api().await);
    let mut redis = TestRedis::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (base, url) = (api.base_url(), redis.url.clone());
    let settings = home.settings(&failing(&base, &[("queue.backend", "redis"), ("queue.redis.url", &url)]));
    assert!(run(&["enqueue", &home.file("ids.txt", young(5).join("\n"))], &settings).status.success());
    let log = home.path("log");
    let mut updater = Process::start(&["updater"], &settings, &log);
    until_true("calls failed", PATIENCE, async || {
        assert!(updater.runs(), "{}", log_text(&log));
        count(&errors(&settings, ""), "no answer") > 0
    })
    .await;
    redis.kill();
    until_true("it could not record errors", PATIENCE, async || {
        log_text(&log).contains("cannot record errors in the queue: the next heartbeat retries")
    })
    .await;
    let output = run(&["status", "--errors"], &settings);
    assert_eq!(output.status.code(), Some(69), "{}", text(&output.stdout));
    redis.start_again();
    until_true("the outage is recorded", PATIENCE, async || {
        assert!(updater.runs(), "{}", log_text(&log));
        count(&errors(&settings, ""), "queue") > 0
    })
    .await;
    assert!(updater.terminate().success());
    let failed = status(&settings)["counters"]["requests_failed"].as_u64().unwrap();
    assert!(count(&errors(&settings, ""), "no answer") >= failed, "none is lost");
}

/// Errors about a post of account 12, a post of account 13, and account 12 itself; account 12 is forgotten.
async fn forget_a_person(home: &Home, settings: &Variables, posts: &dyn Queue, profiles: &dyn Queue) {
    let ids = young(2);
    let post = |id: &str, author: &str| {
        format!(r#"{{"id_str":"{id}","text":"t","user":{{"id_str":"{author}","screen_name":"n{author}"}}}}"#)
    };
    let file = home.file("posts.jsonl", [post(&ids[0], "12"), post(&ids[1], "13")].join("\n"));
    assert!(run(&["enqueue", &file], settings).status.success());
    let error = |host: &str, example: &str, message: &str| RecordedError {
        host: host.to_owned(),
        count: 1,
        last_ms: wall_ms(),
        example: Some(example.to_owned()),
        message: message.to_owned(),
        ..RecordedError::default()
    };
    let of_posts =
        [error("a", &ids[0], "HTTP 500"), error("b", &ids[1], "HTTP 500"), error("c", "x", "user 12 is out")];
    posts.record_errors(&of_posts).await.unwrap();
    profiles.record_errors(&[error("a", "12", "HTTP 500")]).await.unwrap();
    let output = run(&["forget", "account", "12", "--yes"], settings);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut left = posts.errors(10).await.unwrap();
    left.sort_by(|a, b| a.host.cmp(&b.host));
    let left: Vec<_> = left.iter().map(|error| (error.example.as_deref(), &*error.message)).collect();
    assert_eq!(left, [(None, "HTTP 500"), (Some(&*ids[1]), "HTTP 500"), (Some("x"), "")]);
    assert_eq!(profiles.errors(10).await.unwrap()[0].example, None);
    posts.record_errors(&of_posts[..1]).await.unwrap();
    let again = posts.errors(10).await.unwrap().into_iter().find(|error| error.host == "a").unwrap();
    assert_eq!((again.count, again.example), (2, None), "a worker had it already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_person_leaves_the_embedded_queue() {
    let home = Home::new();
    let open = async |namespace: &str| {
        EmbeddedQueue::open(&home.path("home.db"), namespace, Duration::from_secs(20)).await.unwrap()
    };
    let (posts, profiles) = (open("tweet:update").await, open("profiles:twitter").await);
    forget_a_person(&home, &home.settings(&[]), &posts, &profiles).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_person_leaves_redis() {
    let (home, redis) = (Home::new(), TestRedis::start(&[]));
    let settings = home.settings(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]);
    let open = |namespace: &str| RedisQueue::new(redis.pool(), namespace);
    forget_a_person(&home, &settings, &open("tweet:update"), &open("profiles:twitter")).await;
}
