//! `credentials`: what the ledger knows of each, and what the API says of it.

use secrecy::SecretString;
use twitter_updater::simulator::{self, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions, Standing};

use super::*;
use crate::support::port::Port;
use crate::support::process::{Process, parked};
use crate::support::redis::TestRedis;
use crate::support::wait::{until, until_true};

const QUOTA: &str = include_str!("../../../docs/quota.md");
const NAMES: [&str; 3] = ["good", "locked", "revoked"];
const PARTS: [&str; 4] = ["consumer_key", "consumer_secret", "token", "token_secret"];

/// A users' API that knows all three.
async fn api(calls_per_window: u32) -> Running {
    let user = |name: &str| {
        let [consumer_key, consumer_secret, token, token_secret] =
            PARTS.map(|part| SecretString::from(format!("{name}-{part}")));
        let keys = SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret };
        SimulatedCredential { name: name.to_owned(), keys }
    };
    let credentials = Some(NAMES.map(user).into());
    let options = SimulatorOptions { credentials, calls_per_window, ..SimulatorOptions::default() };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

/// Their names, without secrets.
fn named(home: &Home) -> String {
    let lines = NAMES.map(|name| format!("[twitter.credentials.{name}]\nkind = \"user\"\n"));
    home.file("names.toml", lines.concat())
}

/// Their secrets.
fn secrets() -> Variables {
    let part = |name: &str, part: &str| (format!("twitter.credentials.{name}.{part}"), format!("{name}-{part}"));
    let all: Vec<_> = NAMES.iter().flat_map(|name| PARTS.map(|of| part(name, of))).collect();
    variables(&all.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>())
}

fn credentials(arguments: &[&str], file: &str, settings: &Variables, code: i32) -> String {
    let output = run(&[&["--config", file, "credentials"], arguments].concat(), settings);
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn row<'a>(table: &'a str, name: &str) -> &'a str {
    table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {table}"))
}

async fn workers_park_and_a_check_frees(home: &Home, more: &[(&str, &str)]) {
    let api = api(900).await;
    assert!(api.set_standing("locked", Standing::Locked) && api.set_standing("revoked", Standing::Revoked));
    let own = [("twitter.api", &*api.base_url()), ("tweet_age", "1h: 200ms"), ("updater.buffer_ttl", "50ms")];
    // An operator has the names and the queue, and no secret.
    let (file, operator) = (named(home), home.settings(&[&own[..], more].concat()));
    let worker = [operator.clone(), secrets()].concat();
    let ids = home.file("ids.txt", young(20).join("\n"));
    assert!(run(&["enqueue", &ids], &operator).status.success());

    let unknown = credentials(&[], &file, &operator, 0);
    for name in NAMES {
        let cells: Vec<&str> = row(&unknown, name).split_whitespace().collect();
        assert_eq!(cells, [name, "user", "-", "-", "-", "0", "0", "-"]);
    }
    let status = text(&run(&["--config", &file, "status"], &operator).stdout);
    assert!(status.contains("the quota is unknown") && !status.contains("parked credentials"), "{status}");

    let log = home.path("updater.log");
    let mut updater = Process::start(&["--config", &file, "updater"], &worker, &log);
    let parked: Value = until("both are parked, and the third is used", Duration::from_secs(60), async || {
        assert!(updater.runs(), "{}", log_text(&log));
        let all: Value = serde_json::from_str(&credentials(&["--json"], &file, &operator, 0)).unwrap();
        let of = |at: usize| &all["credentials"][at];
        let done = of(0)["limit"] == 900 && [1, 2].iter().all(|at| of(*at)["parked_everywhere"] == true);
        done.then_some(all)
    })
    .await;
    updater.signal("TERM");
    assert!(updater.ended(Duration::from_secs(30)).await.success());
    assert_eq!(parked["endpoint"], "statuses/lookup");
    let [good, locked, revoked] = [0, 1, 2].map(|at| &parked["credentials"][at]);
    assert_eq!((&good["kind"], &good["parked_for_ms"], &good["parked_why"]), (&"user".into(), &0.into(), &Value::Null));
    assert!(locked["parked_why"].as_str().unwrap().contains("locked until its owner logs in"), "{locked}");
    assert!(revoked["parked_why"].as_str().unwrap().contains("invalid or expired (HTTP 401, code 89)"), "{revoked}");
    assert!(good.get("check").is_none(), "nobody was asked");

    let table = credentials(&[], &file, &operator, 0);
    assert!(QUOTA.contains(row(&table, "credential ")), "the document shows another table: {table}");
    assert!(row(&table, "locked").ends_with("logs in on the web (HTTP 403, code 326)"), "{table}");
    assert!(row(&table, "revoked").ends_with(": the token is invalid or expired (HTTP 401, code 89)"), "{table}");
    assert!(row(&table, "good").ends_with("  -") && row(&table, "good").contains("  900  "), "{table}");
    let status = text(&run(&["--config", &file, "status"], &operator).stdout);
    assert!(status.contains("parked credentials") && row(&status, "locked").contains("code 326"), "{status}");
    let status = run(&["--config", &file, "status", "--json"], &operator).stdout;
    let status: Value = serde_json::from_slice(&status).unwrap();
    let supply = status["quota"]["supply_calls_per_15_min"].as_f64().unwrap();
    assert!(
        (890.0..=910.0).contains(&supply) && status["quota"]["usable"] == 1,
        "who is parked is no supply: {status}"
    );
    assert_eq!(status["parked"][1]["name"], "revoked");

    // As it is: two are refused, and stay parked.
    let looked_up = api.counters().requests;
    let checked = credentials(&["--check"], &file, &worker, 69);
    let (table, said) = checked.split_once("\ncheck\n").unwrap();
    assert!(row(said, "good").contains(" of 900 calls left, reset in "), "{said}");
    assert!(row(said, "locked").contains("REFUSED: its account is locked"), "{said}");
    assert!(row(said, "revoked").ends_with("code 89); parked"), "{said}");
    assert!(row(table, "locked").ends_with("code 326)"), "{table}");
    // One is unlocked: it is free again, and the other is not.
    assert!(api.set_standing("locked", Standing::Good));
    let checked: Value = serde_json::from_str(&credentials(&["--check", "--json"], &file, &worker, 69)).unwrap();
    let [good, locked, revoked] = [0, 1, 2].map(|at| &checked["credentials"][at]);
    assert_eq!((&good["check"]["result"], &good["check"]["freed"]), (&"works".into(), &false.into()));
    assert_eq!((&locked["check"]["freed"], &locked["parked_for_ms"]), (&true.into(), &0.into()));
    assert_eq!((&locked["check"]["window"]["remaining"], &locked["check"]["looked_up"]), (&899.into(), &true.into()));
    assert_eq!((&locked["limit"], &locked["remaining"]), (&900.into(), &899.into()), "the ledger was told");
    assert_eq!((&revoked["check"]["result"], &revoked["check"]["parked"]), (&"refused".into(), &true.into()));
    // All is well.
    assert!(api.set_standing("revoked", Standing::Good));
    let well = credentials(&["--check"], &file, &worker, 0);
    assert!(row(well.split_once("\ncheck\n").unwrap().1, "revoked").ends_with("parked before, usable again"), "{well}");
    assert!(!text(&run(&["--config", &file, "status"], &operator).stdout).contains("parked credentials"));
    assert_eq!(api.counters().requests, looked_up + 6, "a check makes one lookup with each credential that works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_park_and_a_check_frees_on_the_embedded_queue() {
    workers_park_and_a_check_frees(&Home::new(), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_park_and_a_check_frees_on_redis() {
    let redis = TestRedis::start(&[]);
    let settings = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
    workers_park_and_a_check_frees(&Home::new(), &settings).await;
}

/// A role with a refused token logs that at its next start, and uses a corrected token at once.
async fn a_corrected_token_is_tried_at_once(role: &str, more: &[(&str, &str)]) {
    let home = Home::new();
    let options = SimulatorOptions {
        bearer_tokens: Some(vec!["right".into()]),
        posts_per_second: 20.0,
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let own = [
        ("twitter.api", &*api.base_url()),
        ("tweet_age", "1h: 200ms"),
        ("updater.buffer_ttl", "50ms"),
        ("poll.sources.a.kind", "user"),
        ("poll.sources.a.screen_name", "a"),
        ("poll.shortest", "1s"),
        ("poll.longest", "2s"),
    ];
    let operator = home.settings(&[&own[..], more].concat());
    let with = |token: &str| [operator.clone(), variables(&[("twitter.bearer_token", token)])].concat();
    if role == "updater" {
        let ids = home.file("ids.txt", young(20).join("\n"));
        assert!(run(&["enqueue", &ids], &operator).status.success());
    }
    let status = |settings: &Variables| text(&run(&["status"], settings).stdout);
    let within = Duration::from_secs(60);
    let log = |life: &str| home.path(&format!("{life}.log"));

    let mut first = Process::start(&[role], &with("wrong"), &log("first"));
    until_true("the wrong token is parked", within, async || {
        assert!(first.runs(), "{}", log_text(&log("first")));
        parked(&with("wrong")).iter().any(|account| account["parked_everywhere"] == true)
    })
    .await;
    assert_eq!(first.terminate().code(), Some(0));

    // A second process with the wrong token logs the pause, and makes no call.
    let calls = api.counters().requests;
    let second = Process::start(&[role], &with("wrong"), &log("second"));
    let says = "a credential is parked after an earlier refusal";
    until_true("the log names the parked credential at the start", within, async || {
        log_text(&log("second")).contains(says)
    })
    .await;
    let line = log_text(&log("second"));
    let line = line.lines().find(|line| line.contains(says)).unwrap();
    for part in ["credential=\"bearer\"", "until=\"20", "code 89"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("wrong"), "{line}");
    assert_eq!(second.terminate().code(), Some(0));
    assert_eq!(api.counters().requests, calls, "a parked credential makes no call");
    let table = status(&with("wrong"));
    assert!(table.contains("parked credentials\nbearer ") && table.contains(", until 20"), "{table}");

    // The corrected token works, without a wait of 15 minutes.
    let third = Process::start(&[role], &with("right"), &log("third"));
    until_true("the corrected token is used", within, async || parked(&with("right")).is_empty()).await;
    assert!(!log_text(&log("third")).contains("is parked"), "{}", log_text(&log("third")));
    assert_eq!(third.terminate().code(), Some(0));
    assert!(!status(&with("right")).contains("parked credentials"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_token_of_an_updater_is_tried_at_once_on_the_embedded_queue() {
    a_corrected_token_is_tried_at_once("updater", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_token_of_a_poller_is_tried_at_once_on_redis() {
    let redis = TestRedis::start(&[]);
    let settings = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
    a_corrected_token_is_tried_at_once("poll", &settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_is_away_parks_nobody() {
    let home = Home::new();
    let port = Port::take();
    let (file, nobody) = (named(&home), format!("http://{}", port.address()));
    let settings = [home.settings(&[("twitter.api", &nobody)]), secrets()].concat();
    let checked = credentials(&["--check"], &file, &settings, 69);
    let (table, said) = checked.split_once("\ncheck\n").unwrap();
    for name in NAMES {
        assert!(row(said, name).contains("NO ANSWER: the API is not available: cannot connect"), "{said}");
        assert!(row(table, name).ends_with("  -"), "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_is_said_so() {
    let home = Home::new();
    let api = api(0).await;
    let (file, settings) = (named(&home), [home.settings(&[("twitter.api", &*api.base_url())]), secrets()].concat());
    let checked = credentials(&["--check"], &file, &settings, 0);
    let (table, said) = checked.split_once("\ncheck\n").unwrap();
    assert!(row(said, "good").ends_with("works: no limit"), "{said}");
    assert!(
        row(table, "good").contains("no limit") && row(table, "good").ends_with("-            0            0  -"),
        "{table}"
    );
    let status = text(&run(&["--config", &file, "status"], &settings).stdout);
    assert!(status.contains("the quota has no limit"), "{status}");
}

#[test]
fn a_check_needs_the_secrets_and_nothing_else_does() {
    let home = Home::new();
    let file = named(&home);
    let settings = home.settings(&[]);
    let output = run(&["--config", &file, "credentials", "--check"], &settings);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(64), NAMES.len() * PARTS.len()), "{said}");
    assert!(said.contains("twitter.credentials.good.consumer_key is missing") && output.stdout.is_empty(), "{said}");
    assert!(run(&["enqueue", &home.file("ids.txt", young(1).join("\n"))], &settings).status.success());
    for command in [&["credentials"][..], &["status"]] {
        let output = run(&[&["--config", &file], command].concat(), &settings);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    // The token of Twitter's own API is known by its name where it is not at hand.
    let table = text(&run(&["credentials"], &home.settings(&[("twitter.api", "https://api.twitter.com")])).stdout);
    assert!(row(&table, "bearer").contains("app-only"), "{table}");
}
