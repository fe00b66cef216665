//! `status` on both backends: figures right after an enqueue, in the words of the keys.

use serde_json::json;

use super::*;
use crate::support::process::run_with_input;
use crate::support::redis::TestRedis;

fn figures_after_an_enqueue(settings: &Variables) {
    let ages = [MINUTE, 2 * MINUTE, 30 * MINUTE, DAY / 2, 3 * DAY, 20 * DAY, 40 * DAY];
    let ids: Vec<String> = (1..).zip(ages).map(|(number, age)| id_aged(age, number)).collect();
    assert!(run_with_input(&["enqueue"], settings, ids.join("\n").as_bytes()).status.success());

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
    assert_eq!(row("lane"), ["lane", "patience", "delayed", "due", "oldest", "lateness"]);
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
        let word = key.trim_end_matches("_ms").replace('_', " ");
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
