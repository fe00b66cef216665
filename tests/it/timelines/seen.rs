//! What a person is shown of polled sources: by `status` and by `GET /status`, over both kinds of services.

use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::simulator::{self, Running, SimulatorOptions};
use twitter_updater::store::{Positions, PostgresStore, SavedPage, SourceGap, SourceTrouble, SqliteStore};

use crate::support::postgres;
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::role::Role;
use crate::support::wait::until;
use crate::support::world::World;
use crate::timelines::polled;

const WITHIN: Duration = Duration::from_secs(60);

fn told(settings: &Variables, options: &[&str], code: i32) -> Value {
    let output = run(&[options, &["status", "--json"]].concat(), settings);
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn with(settings: &Variables, more: &[(&str, &str)]) -> Variables {
    settings.iter().cloned().chain(variables(more)).collect()
}

async fn simulated() -> Running {
    let options = SimulatorOptions { posts_per_second: 20.0, missing_share: 0.0, ..SimulatorOptions::default() };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Settings that poll a source named `one` often, and more.
fn beside_one(settings: &Variables, more: &[(&str, &str)]) -> Variables {
    let one = [
        ("poll.shortest", "1s"),
        ("poll.longest", "2s"),
        ("poll.sources.one.kind", "user"),
        ("poll.sources.one.screen_name", "one"),
    ];
    with(settings, &[&one[..], more].concat())
}

/// A world of those services, and the store of it that knows positions.
async fn world(servers: bool, folder: &std::path::Path, api: &str) -> (World, Box<dyn Positions>) {
    if !servers {
        let world = World::over(None, None, folder, api).await;
        let store = SqliteStore::open(&folder.join("tweets.db"), WITHIN).await.unwrap();
        return (world, Box::new(store));
    }
    let redis = crate::support::redis::TestRedis::start(&[]);
    let url = postgres::database().await;
    let world = World::over(Some(&redis.url), Some(url.clone()), folder, api).await;
    let store = PostgresStore::connect(&url.into(), 2, WITHIN).await.unwrap();
    (World { redis: Some(redis), ..world }, Box::new(store))
}

/// A source that no page was ever read of, and why.
async fn fails_from_its_first_poll_on(polling: &Variables, positions: &dyn Positions) {
    let trouble =
        SourceTrouble { since: 1_700_000_000_000, failures: 12, error: "HTTP 500\n\0<b>".to_owned(), at: wall_ms() };
    positions.save_trouble(&polled("search/tweets"), "two", &trouble).await.unwrap();
    let failing = told(polling, &[], 0);
    let two = failing["sources"].as_array().unwrap().iter().find(|one| one["name"] == "two").unwrap();
    assert_eq!((&two["saved_at"], &two["trouble"]["failures"]), (&json!(null), &json!(12)), "{failing}");
    let shown = text(&run(&["status"], polling).stdout);
    assert!(shown.contains("\n  cannot be read since 2023-11-14T22:13:20Z (12 times): HTTP 500 "), "{shown}");
    assert!(shown.contains("no page yet") && shown.contains("never"), "{shown}");
}

async fn seen(servers: bool) {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated().await;
    let (world, positions) = world(servers, folder.path(), &api.base_url()).await;
    let polling =
        beside_one(&world.settings, &[("poll.sources.two.kind", "search"), ("poll.sources.two.query", "two")]);
    // Who has none sees nothing of them; who names some is told that they were never polled.
    let none = told(&world.settings, &[], 0);
    assert!(none.get("sources").is_none() && none.get("sources_error").is_none(), "{none}");
    let table = |settings: &Variables| text(&run(&["status"], settings).stdout);
    assert!(!table(&world.settings).contains("sources"));
    let named = told(&polling, &[], 0);
    assert_eq!((&named["sources"][1]["name"], &named["sources"][1]["saved_at"]), (&json!("two"), &json!(null)));
    assert!(table(&polling).contains("\nsources\n") && table(&polling).contains("never"));

    fails_from_its_first_poll_on(&polling, &*positions).await;
    let log = folder.path().join("poll.log");
    let poller = Process::start(&["poll"], &polling, &log);
    let begun = wall_ms();
    let both = until("both are polled, and wait", WITHIN, async || {
        let status = told(&polling, &[], 0);
        let sources = status["sources"].as_array()?.clone();
        sources.iter().all(|one| one["newest_id"].is_string() && one["turn"] == "delayed").then_some(sources)
    })
    .await;
    let of = |name: &str| both.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(both.len(), 2, "{both:#?}");
    let endpoints = [of("one"), of("two")].map(|one| one["endpoint"].as_str().unwrap());
    assert_eq!(endpoints, ["statuses/user_timeline", "search/tweets"]);
    assert_eq!((&of("two")["provider"], &of("two")["namespace"]), (&json!("twitter"), &json!(polled("search/tweets"))));
    for source in &both {
        // Posts are made all the time, so the newest is of now; it is due within the longest interval.
        let at = |field: &str| source[field].as_i64().unwrap_or_else(|| panic!("no {field}: {source}"));
        assert!((begun - 60_000..=wall_ms() + 1_000).contains(&at("newest_at")), "{source}");
        assert!((begun..=wall_ms()).contains(&at("saved_at")), "{source}");
        assert!((begun..=at("saved_at")).contains(&at("brought_at")), "{source}");
        assert_eq!((&source["trouble"], &source["quiet"]), (&json!(null), &json!(false)));
        assert!((-10_000..=2_000).contains(&at("due_in_ms")), "{source}");
        assert_eq!((&source["gaps"], &source["last_gap"]), (&json!(0), &json!(null)));
    }
    assert_eq!(poller.terminate().code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap_or_default());

    // One that nobody polls any more, with what was missing of it; also where the settings name none.
    let gap = |from: &str, noted_at| SourceGap {
        from: from.to_owned(),
        to: "99".to_owned(),
        reason: "only the newest 3,200 can be had".to_owned(),
        noted_at,
    };
    let gaps = [gap("7", 1_700_000_000_000), gap("8", 1_700_000_001_000)];
    let page = SavedPage {
        at: wall_ms(),
        position: r#"{"latest":"20"}"#,
        is_start: false,
        gaps: &gaps,
        has_new_posts: true,
        notes: None,
        followed_at: None,
    };
    positions.save_page(&polled("lists/statuses"), "old", &page).await.unwrap();
    let status = told(&world.settings, &[], 0);
    let sources = status["sources"].as_array().unwrap();
    let old = sources.iter().find(|one| one["name"] == "old").unwrap_or_else(|| panic!("{status}"));
    assert_eq!((&old["turn"], &old["gaps"], &old["newest_id"]), (&json!("absent"), &json!(2), &json!("20")));
    let last = json!({"from": "8", "to": "99", "reason": gaps[1].reason, "noted_at": 1_700_000_001_000_i64});
    assert_eq!(old["last_gap"], last);
    let shown = table(&world.settings);
    assert!(shown.contains("gap 8 to 99, noted 2023-11-14T22:13:21Z: only the newest 3,200 can be had\n"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("old ") && line.contains("in no queue")), "{shown}");

    // The same by HTTP, of one namespace and of several.
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let several = with(&world.settings, &[("providers", "twitter, bluesky"), ("bluesky.api", &api.base_url())]);
    for (settings, name) in [(&world.settings, "one.log"), (&several, "several.log")] {
        let ops = Role::start_ready("ops", settings, &folder.path().join(name)).await;
        let by_http: Value = serde_json::from_str(&ops.get("/status").await.1).unwrap();
        let by_command = told(settings, &[], 0);
        assert_eq!(keys(&by_http), keys(&by_command));
        let lasting = |status: &Value| {
            let mut sources = status["sources"].clone();
            sources.as_array_mut().unwrap().iter_mut().for_each(|one| one["due_in_ms"] = json!(null));
            sources
        };
        assert_eq!(lasting(&by_http), lasting(&by_command));
        assert_eq!(ops.stopped().await, Some(0));
    }
    let all = told(&several, &[], 0);
    assert_eq!(keys(&all), ["namespaces", "sources"]);
    let names: Vec<&Value> = all["namespaces"].as_array().unwrap().iter().map(|one| &one["namespace"]).collect();
    assert_eq!(names, ["tweet:update", "bluesky:update"]);
    assert_eq!(told(&several, &["--provider", "bluesky"], 0)["namespace"], "bluesky:update");
    let shown = table(&several);
    let places = ["tweet:update\n", "\nbluesky:update\n", "\nsources\n"].map(|what| shown.find(what));
    assert!(places[0] == Some(0) && places.is_sorted() && places.iter().all(Option::is_some), "{shown}");
    if let Some(mut redis) = world.redis {
        one_that_is_out(&mut redis, &several).await;
    }
}

/// Of several, one that is out hides no other; and it is an error when all are.
async fn one_that_is_out(redis: &mut crate::support::redis::TestRedis, several: &Variables) {
    let mut raw = redis.connection().await;
    // Somebody's mistake: a key of another type in that namespace.
    let key = "{bluesky:update}:lanes";
    let () = redis::cmd("DEL").arg(key).query_async(&mut raw).await.unwrap();
    let () = redis::cmd("SET").arg(key).arg("text").query_async(&mut raw).await.unwrap();
    let status = told(several, &[], 0);
    let [twitter, bluesky] = &status["namespaces"].as_array().unwrap()[..] else { panic!("{status}") };
    assert!(twitter["delayed"].as_u64() > Some(0) && twitter.get("error").is_none(), "{status}");
    assert_eq!(bluesky["namespace"], "bluesky:update");
    assert!(bluesky["error"].as_str().is_some_and(|why| !why.is_empty() && !why.contains('\n')), "{status}");
    assert!(status["sources"].is_array(), "{status}");
    let output = run(&["status"], several);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("\nbluesky:update\nOUT: "), "{}", text(&output.stdout));
    // By itself it is an error, as ever.
    assert_eq!(run(&["--provider", "bluesky", "status"], several).status.code(), Some(69));

    redis.kill();
    let status = told(several, &[], 69);
    assert!(status["namespaces"].as_array().unwrap().iter().all(|one| one["error"].is_string()), "{status}");
    // What the store knows is told all the same; when they are due, nobody knows.
    assert_eq!(status["sources"][0]["turn"], "unknown", "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_files() {
    seen(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_servers() {
    seen(true).await;
}

#[test]
fn a_store_that_is_out_hides_no_queue_and_is_told_of_where_sources_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (jobs, nowhere) = (folder.path().join("jobs.db"), folder.path().join("no/tweets.db"));
    let settings = variables(&[
        ("twitter.api", "http://127.0.0.1:9"),
        ("queue.embedded.path", jobs.to_str().unwrap()),
        ("store.sqlite.path", nowhere.to_str().unwrap()),
    ]);
    // Who only looks makes no file: the queue's is made by somebody who puts nothing in.
    assert_eq!(run_with_input(&["enqueue", "--no-store"], &settings, b"").status.code(), Some(65));
    let status = told(&settings, &[], 0);
    assert!(status["delayed"] == 0 && status.get("sources_error").is_none(), "{status}");
    let named = with(&settings, &[("poll.sources.home.kind", "home")]);
    let status = told(&named, &[], 0);
    let why = status["sources_error"].as_str().unwrap_or_else(|| panic!("{status}"));
    assert!(why.contains("store.sqlite.path is ") && status["delayed"] == 0, "{status}");
    assert!(!nowhere.exists(), "who only looks makes no file");
    assert!(text(&run(&["status"], &named).stdout).contains("\nsources\nunknown: "));
}

/// As its users see it: a poller, a source that can be read and one that never could.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_the_api_refuses_is_named_with_its_error_and_the_other_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let api = simulated().await;
    let (world, _) = world(false, folder.path(), &api.base_url()).await;
    let polling = beside_one(
        &world.settings,
        &[("poll.sources.gone.kind", "user"), ("poll.sources.gone.screen_name", "missing")],
    );
    let log = folder.path().join("poll.log");
    let begun = wall_ms();
    let poller = Process::start(&["poll"], &polling, &log);
    let status = until("it is said to be in trouble, and the other is read", WITHIN, async || {
        let status = told(&polling, &[], 0);
        let of = |name: &str| status["sources"].as_array()?.iter().find(|one| one["name"] == name).cloned();
        let is_seen = of("gone")?["trouble"]["failures"].as_u64()? > 0 && of("one")?["newest_id"].is_string();
        is_seen.then_some(status)
    })
    .await;
    let gone = status["sources"].as_array().unwrap().iter().find(|one| one["name"] == "gone").unwrap();
    let trouble = &gone["trouble"];
    assert!(trouble["error"].as_str().unwrap().contains("it does not exist, is not visible to us"), "{trouble}");
    assert!((begun..=wall_ms()).contains(&trouble["since"].as_i64().unwrap()) && gone["saved_at"].is_null(), "{gone}");
    let shown = text(&run(&["status"], &polling).stdout);
    assert!(shown.contains("\n  cannot be read since "), "{shown}");
    assert_eq!(poller.terminate().code(), Some(0));
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("a source cannot be read") && logged.contains("gone"), "{logged}");
}
