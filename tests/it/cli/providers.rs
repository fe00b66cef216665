//! Several providers: one process serves them all, and what is wrong with one is nobody else's trouble.

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Jobs, Place};
use twitter_updater::model::provider::Provider;
use twitter_updater::simulator::{self, SimulatorOptions, id_of};
use twitter_updater::store::{Lifecycle, SqliteStore};

use super::*;
use crate::support::http::{Canned, CannedServer};
use crate::support::process::{Process, run_with_input};
use crate::support::role::Role;
use crate::support::wait::until_true;

const PATIENCE: Duration = Duration::from_secs(30);
const POSTS: u32 = 120;
const DAY: i64 = 86_400_000;

fn named(name: &str) -> Provider {
    name.parse().unwrap()
}

fn ids(provider: &Provider) -> Vec<String> {
    let at = wall_ms() - 2 * DAY;
    (0..POSTS).map(|n| id_of(provider, at, n)).collect()
}

/// Puts posts in as their user does, and answers their ids.
fn put_in(provider: &str, settings: &Variables) -> Vec<String> {
    let ids = ids(&named(provider));
    let output = run_with_input(&["--provider", provider, "enqueue"], settings, ids.join("\n").as_bytes());
    assert_eq!(output.status.code(), Some(0), "{provider}: {}", text(&output.stderr));
    ids
}

async fn answered(store: &SqliteStore, provider: &str, ids: &[String]) -> usize {
    let standings = store.standing(&named(provider).namespace(), ids).await.unwrap();
    standings.iter().flatten().filter(|known| known.checked_at.is_some()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_serves_them_all_and_stops_with_none_of_them() {
    let options = SimulatorOptions { missing_share: 0.1, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    // An API that is no longer there, for ever, and an instance that is out.
    let gone = CannedServer::start(Canned::new(410, r#"{"title":"Gone","type":"about:blank","status":410}"#)).await;
    let home = Home::new();
    let at = api.base_url();
    let settings = home.settings(&[
        ("providers", "twitter, mastodon, bluesky, x"),
        ("tweet_age", "30d: 2s"),
        ("updater.buffer_ttl", "100ms"),
        ("twitter.api", &at),
        ("bluesky.api", &at),
        ("x.api", &gone.base_url()),
        ("mastodon.instances.near.api", &at),
        ("mastodon.instances.old.api", &at),
        ("mastodon.instances.old.calls", "single"),
        ("mastodon.instances.out.api", "http://127.0.0.1:9"),
    ]);
    let refused = run(&["enqueue"], &settings);
    says_one_line(&refused, 64, "select one with --provider: twitter, mastodon:near, mastodon:old, mastodon:out");

    let served = ["twitter", "mastodon:near", "mastodon:old", "bluesky"];
    let posts: Vec<(&str, Vec<String>)> = served.iter().map(|name| (*name, put_in(name, &settings))).collect();
    let waiting: Vec<(&str, Vec<String>)> =
        ["x", "mastodon:out"].iter().map(|name| (*name, put_in(name, &settings))).collect();
    let log = home.path("updater.log");
    let updater = Process::start(&["updater"], &settings, &log);
    let store = SqliteStore::open(&home.path("home.db"), PATIENCE).await.unwrap();
    for (name, ids) in &posts {
        until_true(&format!("{name}: all are answered"), PATIENCE, async || {
            answered(&store, name, ids).await == ids.len()
        })
        .await;
    }
    until_true("it says whose end it is", PATIENCE, async || {
        log_text(&log)
            .lines()
            .any(|line| line.contains("the pipeline stopped for good; the others continue") && line.contains("=x"))
    })
    .await;
    // Those of the other two wait in their queues, and none was answered.
    for (name, ids) in &waiting {
        assert_eq!(answered(&store, name, ids).await, 0, "{name}");
    }
    // Each has its own quota: what one asks is counted for it alone.
    for name in served {
        let output = run(&["--provider", name, "status", "--json"], &settings);
        let status: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(status["namespace"], named(name).namespace());
        let lanes = status["lanes"].as_array().unwrap().iter();
        let delayed: u64 = lanes.map(|lane| lane["delayed"].as_u64().unwrap()).sum();
        let leased = status["leased"].as_u64().unwrap();
        assert_eq!(delayed + leased, u64::from(POSTS), "{name}: {status}");
    }
    assert_eq!(updater.terminate().code(), Some(69), "one can never work: {}", log_text(&log));
    for (name, ids) in &waiting {
        let queue = EmbeddedQueue::open(&home.path("home.db"), &named(name).namespace(), PATIENCE).await.unwrap();
        let places = queue.locate(ids).await.unwrap();
        assert!(places.iter().all(|of| matches!(of[..], [Place::Delayed { .. }])), "{name}: nothing is lost");
    }
}

#[test]
fn a_provider_on_the_command_line_goes_over_the_setting() {
    let home = Home::new();
    let settings = home.settings(&[("providers", "x, bluesky"), ("x.api", "http://127.0.0.1:9")]);
    let shown = |options: &[&str]| {
        let output = run(&[options, &["check", "--json"]].concat(), &settings);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_str::<Value>(&text(&output.stdout)).unwrap()["settings"]["providers"].clone()
    };
    assert_eq!(shown(&[]), "x, bluesky");
    assert_eq!(shown(&["--provider", "bluesky"]), "bluesky");
    let output = run(&["--provider", "myspace", "status"], &settings);
    says_one_line(&output, 64, "\"myspace\" is no provider: there are twitter, x, mastodon:INSTANCE and bluesky");
    let output = run(&["--provider", "mastodon:social", "status"], &settings);
    says_one_line(&output, 64, "add [mastodon.instances.social], with its api");
}

#[test]
fn an_id_of_another_provider_is_refused_by_its_line() {
    let home = Home::new();
    let settings = home.settings(&[]);
    let input = format!("{}\n1460323737035677698\n", id_of(&Provider::Bluesky, wall_ms() - DAY, 1));
    let output = run_with_input(&["--provider", "bluesky", "enqueue", "--json"], &settings, input.as_bytes());
    assert_eq!(output.status.code(), Some(65), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("line 2: "), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(summary["scheduled"], 1, "{summary}");
}

#[tokio::test]
async fn the_starter_takes_posts_of_each() {
    let home = Home::new();
    let settings = home.settings(&[("providers", "twitter, bluesky")]);
    let starter = Role::start_ready("starter", &settings, &home.path("starter.log")).await;
    let post = async |query: &str, id: String| {
        let to = format!("{}/tweets{query}", starter.url);
        let body = serde_json::json!([id]).to_string();
        let answer =
            starter.client.post(to).header("content-type", "application/json").body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap())
    };
    let at = wall_ms() - DAY;
    for (query, provider) in [("", Provider::Twitter), ("?provider=bluesky", Provider::Bluesky)] {
        let (status, receipt) = post(query, id_of(&provider, at, 1)).await;
        assert_eq!((status, &receipt["scheduled"]), (202, &1.into()), "{query}: {receipt}");
        let queue = EmbeddedQueue::open(&home.path("home.db"), &provider.namespace(), PATIENCE).await.unwrap();
        let places = queue.locate(&[id_of(&provider, at, 1)]).await.unwrap();
        assert!(matches!(places[0][..], [Place::Delayed { .. }]), "{query}: {places:?}");
    }
    let (status, problem) = post("?provider=x", id_of(&Provider::X, at, 1)).await;
    assert_eq!(status, 400);
    assert!(problem.to_string().contains("unknown provider; known here: twitter, bluesky"), "{problem}");
    // A tweet's id is none of Bluesky's, and is refused with the reason.
    let (status, problem) = post("?provider=bluesky", id_of(&Provider::Twitter, at, 2)).await;
    assert!(status == 400 && problem.to_string().contains("at://"), "{problem}");
    assert_eq!(starter.process.terminate().code(), Some(0));
}

#[tokio::test]
async fn rebuild_goes_through_all_of_them() {
    let home = Home::new();
    let settings = home.settings(&[("providers", "bluesky, twitter")]);
    let all: Vec<(&str, Vec<String>)> =
        ["twitter", "bluesky"].iter().map(|name| (*name, put_in(name, &settings))).collect();
    for (name, ids) in &all {
        let queue = EmbeddedQueue::open(&home.path("home.db"), &named(name).namespace(), PATIENCE).await.unwrap();
        queue.forget(ids).await.unwrap();
    }
    let output = run(&["rebuild", "--json"], &settings);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let done: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<(&str, u64)> =
        done.iter().map(|one| (one["namespace"].as_str().unwrap(), one["put_back"].as_u64().unwrap())).collect();
    assert_eq!(said, [("bluesky:update", u64::from(POSTS)), ("tweet:update", u64::from(POSTS))]);
    let output = run(&["rebuild"], &settings);
    assert!(text(&output.stdout).lines().all(|line| line.contains(":update: ")), "{}", text(&output.stdout));
}

/// Refusals without a usable time to wait, at each network: two updaters that share a queue share the growing pauses, and continue
/// soon after the first answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_become_rarer_while_every_network_refuses_them() {
    const CALLS: usize = 4;
    let home = Home::new();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let zero = Canned::new(429, "{}").header("retry-after", "0");
    let past = |prefix: &str| {
        let past = (wall_ms() / 1_000 - 5).to_string();
        [("limit", "900"), ("remaining", "0"), ("reset", &*past)]
            .into_iter()
            .fold(Canned::new(429, "{}"), |answer, (name, value)| answer.header(&format!("{prefix}-{name}"), value))
    };
    let servers = [
        ("twitter", CannedServer::start(past("x-rate-limit")).await),
        ("x", CannedServer::start(zero).await),
        ("mastodon:near", CannedServer::start(past("x-ratelimit")).await),
        ("bluesky", CannedServer::start(Canned::new(503, "busy").header("retry-after", "0")).await),
    ];
    let urls = servers.each_ref().map(|(_, server)| server.base_url());
    let settings = |urls: &[String; 4]| {
        home.settings(&[
            ("providers", "twitter, x, mastodon, bluesky"),
            ("tweet_age", "30d: 1s"),
            ("updater.buffer_ttl", "100ms"),
            ("twitter.api", &urls[0]),
            ("x.api", &urls[1]),
            ("mastodon.instances.near.api", &urls[2]),
            ("mastodon.instances.near.calls", "batch"),
            ("bluesky.api", &urls[3]),
        ])
    };
    let settings_refused = settings(&urls);
    let posts = servers.each_ref().map(|(name, _)| (*name, put_in(name, &settings_refused)));
    let logs = ["one.log", "other.log"].map(|name| home.path(name));
    let updaters = logs.each_ref().map(|log| Process::start(&["updater"], &settings_refused, log));
    let watch = std::sync::Mutex::new(std::collections::BTreeMap::new());
    until_true("each network is called often enough", PATIENCE, async || {
        let mut seen = watch.lock().unwrap();
        for (name, server) in &servers {
            let (at, calls) = (wall_ms(), server.asked().len());
            if calls > 0 {
                seen.entry((*name, 1)).or_insert(at);
            }
            if calls >= CALLS {
                seen.entry((*name, CALLS)).or_insert(at);
            }
        }
        servers.iter().all(|(_, server)| server.asked().len() >= CALLS)
    })
    .await;
    let seen = watch.into_inner().unwrap();
    for (name, _) in &servers {
        let span = seen[&(*name, CALLS)] - seen[&(*name, 1)];
        // 1 + 2 + 4 s.
        assert!(span >= 6_000, "{name}: {CALLS} calls in {span} ms");
    }
    for updater in updaters {
        assert_eq!(updater.terminate().code(), Some(0));
    }
    // Restarted against an API that answers, an updater waits for the rest of the pause only.
    let well = settings(&urls.map(|_| api.base_url()));
    let updater = Process::start(&["updater"], &well, &home.path("well.log"));
    let store = SqliteStore::open(&home.path("home.db"), PATIENCE).await.unwrap();
    for (name, ids) in &posts {
        until_true(&format!("{name}: all are answered"), PATIENCE, async || {
            answered(&store, name, ids).await == ids.len()
        })
        .await;
    }
    assert_eq!(updater.terminate().code(), Some(0));
}
