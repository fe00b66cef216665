//! `status` on both backends: figures right after an enqueue, in the words of the keys.

use serde_json::json;
use twitter_updater::simulator::{self, SimulatorOptions};

use super::*;
use crate::support::process::{Process, run_with_input};
use crate::support::redis::TestRedis;
use crate::support::wait::until_true;

fn figures_after_an_enqueue(settings: &Variables) {
    let ages = [MINUTE, 2 * MINUTE, 30 * MINUTE, DAY / 2, 3 * DAY, 20 * DAY, 40 * DAY];
    let ids: Vec<String> = (1..).zip(ages).map(|(number, age)| id_aged(age, number)).collect();
    assert!(run_with_input(&["enqueue", "--first", "interval"], settings, ids.join("\n").as_bytes()).status.success());

    let stats = status(settings);
    let lanes: Vec<_> =
        stats["lanes"].as_array().unwrap().iter().map(|lane| (&lane["lane"], &lane["delayed"])).collect();
    let expected =
        [("18m", 2), ("60m", 1), ("1d", 1), ("7d", 1), ("30d", 1)].map(|(lane, ids)| (json!(lane), json!(ids)));
    assert_eq!(lanes, expected.iter().map(|(lane, ids)| (lane, ids)).collect::<Vec<_>>());
    assert_eq!(stats["lanes"][0]["patience_ms"], 3 * MINUTE);
    assert_eq!(stats["namespace"], "tweet:update");
    assert_eq!(stats["delayed"], 6);
    assert_eq!(stats["counters"]["scheduled"], 6);
    for zero in ["due", "oldest_lateness_ms", "leased", "expired", "dead", "incoming", "incoming_refused"] {
        assert_eq!(stats[zero], 0, "{zero}");
    }
    assert_eq!((&stats["paused"], &stats["workers"]), (&json!(null), &json!([])));
    assert!((stats["now_ms"].as_i64().unwrap() - wall_ms()).abs() < 60_000);

    let table = text(&run(&["status"], settings).stdout);
    let row = |first: &str| -> Vec<&str> {
        let row = table.lines().find(|line| line.split_whitespace().next() == Some(first));
        row.unwrap_or_else(|| panic!("no {first}: {table}")).split_whitespace().collect()
    };
    assert_eq!(row("lane"), ["lane", "interval", "delayed", "due", "oldest", "lateness"]);
    assert_eq!(row("18m")[..4], ["18m", "3m", "2", "0"]);
    assert_eq!(row("7d")[..4], ["7d", "6h", "1", "0"]);
    assert_eq!(row("all")[1..3], ["6", "0"]);
    assert_eq!(row("scheduled"), ["scheduled", "6"]);
    // The words are the keys'.
    let words = ["leased", "expired", "dead", "incoming", "counters", "workers"];
    for word in words {
        assert!(stats.get(word).is_some() && table.contains(word), "{word}: {table}");
    }
    for key in ["lane", "patience_ms", "delayed", "due", "oldest_lateness_ms"] {
        let word = key.trim_end_matches("_ms").replace('_', " ").replace("patience", "interval");
        assert!(stats["lanes"][0].get(key).is_some() && table.contains(&word), "{word}: {table}");
    }
}

#[test]
fn on_the_embedded_queue() {
    let home = Home::new();
    figures_after_an_enqueue(&home.settings(&[]));
}

#[test]
fn on_redis() {
    let redis = TestRedis::start(&[]);
    let home = Home::new();
    figures_after_an_enqueue(&home.settings(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]));
}

/// 2,000 ids once a second are 18,000 calls per 15 minutes; the API allows 900.
async fn demand_by_quota(more: &[(&str, &str)]) {
    let home = Home::new();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let own = [("twitter.api", &*api.base_url()), ("tweet_age", "1h: 1s")];
    let settings = home.settings(&[&own[..], more].concat());
    assert!(
        run_with_input(&["enqueue", "--first", "interval"], &settings, young(2_000).join("\n").as_bytes())
            .status
            .success()
    );
    let before = status(&settings);
    assert_eq!((&before["quota"]["demand_by_quota"], &before["quota"]["unknown"]), (&json!(null), &json!(1)));
    let table = text(&run(&["status"], &settings).stdout);
    assert!(table.contains("\nquota\nthe quota is unknown until the first API response"), "{table}");
    assert!(table.contains("the demand is 18,000 calls per 15 min"), "{table}");

    assert!(run(&["credentials", "--check"], &settings).status.success());
    let told = status(&settings);
    let ratio = told["quota"]["demand_by_quota"].as_f64().unwrap();
    // The end of a window is told in whole seconds.
    assert!((19.9..20.1).contains(&ratio), "{told}");
    assert_eq!(told["quota"]["remedy"]["app_credentials"], 57);
    assert_eq!(told["quota"]["remedy"]["user_credentials"], 19);
    assert_eq!(told["parked"], json!([]));
    let table = text(&run(&["status"], &settings).stdout);
    let line = table.lines().find(|line| line.starts_with("demand ")).unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains(": all intervals grow by that factor. To fix it: 57 more app-only"));
    assert!(
        line.contains("credentials or 19 user credentials, or intervals ") && line.ends_with("(tweet_age)"),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demand_by_the_quota_on_the_embedded_queue() {
    demand_by_quota(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demand_by_the_quota_on_redis() {
    let redis = TestRedis::start(&[]);
    demand_by_quota(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_and_ledger_share_their_connections() {
    let (home, redis) = (Home::new(), TestRedis::start(&[]));
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let settings = home.settings(&[
        ("queue.backend", "redis"),
        ("queue.redis.url", &redis.url),
        ("queue.redis.connections", "1"),
        ("twitter.api", &api.base_url()),
        ("tweet_age", "1h: 100ms"),
        ("updater.buffer_ttl", "50ms"),
    ]);
    assert!(run_with_input(&["enqueue"], &settings, young(20).join("\n").as_bytes()).status.success());
    let log = home.path("updater.log");
    let mut updater = Process::start(&["updater"], &settings, &log);
    // It has asked the ledger, the queue, and both again.
    until_true("tweets are looked up", Duration::from_secs(30), async || {
        assert!(updater.runs(), "{}", log_text(&log));
        api.counters().requests >= 3
    })
    .await;
    let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut redis.connection().await).await.unwrap();
    assert_eq!(clients.lines().count(), 2, "its one, and this test's: {clients}");
    updater.kill();
}
