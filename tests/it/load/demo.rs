//! What a new user sees first has to hold: the demo, twenty seconds, five thousand tweets.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use twitter_updater::config::{DEMO, Settings};

use crate::support::process::{run, text};

const SECONDS: i64 = 20;

#[tokio::test]
async fn the_demo_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let span = format!("{SECONDS}s");
    let output = run(&["demo", "--for", &span, "--tweets", "5000", "--ops", "off", "--json", "--dir", dir], &vec![]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let summary: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    println!("{summary}");
    let settings = Settings::load_with(&[DEMO], None, &[]).unwrap();
    let ttl_ms = settings.updater.buffer_ttl.as_millis() as i64;

    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["doubled"], 0);
    assert!(summary["scheduled"].as_u64() >= Some(5_000), "those of the beginning, and new ones");
    assert!(summary["ids_per_request"].as_f64().unwrap() >= 95.0);
    assert!(summary["late_p99_ms"].as_i64().unwrap() < ttl_ms + 1_000);
    assert!(summary["unavailable"].as_i64().unwrap() > 0 && summary["ended"].as_i64().unwrap() > 0);

    // Every live tweet, one by one: updated at least ⌊time ÷ (interval + buffer TTL + 1 s)⌋ times, by
    // the longest interval it had meanwhile.
    let file = SqliteConnectOptions::new().filename(folder.path().join("demo.db")).read_only(true);
    let rows = sqlx::query("SELECT created_at, first_seen, checked_at, lookups FROM tweet WHERE state = 'live'")
        .fetch_all(&SqlitePool::connect_with(file).await.unwrap())
        .await
        .unwrap();
    assert!(rows.len() > 4_000, "{} live tweets", rows.len());
    let start: i64 = rows.iter().map(|row| row.get::<i64, _>("first_seen")).min().unwrap();
    let mut least: Option<(i64, i64)> = None;
    for row in &rows {
        let (created_at, first_seen, lookups): (i64, i64, i64) =
            (row.get("created_at"), row.get("first_seen"), row.get("lookups"));
        let end = start + SECONDS * 1_000;
        // About to end: still in the last bracket when it was last looked up.
        let last = settings.tweet_age.lifetime() - 1;
        let interval = settings.tweet_age.update_delay(created_at.max(end - last), end).unwrap();
        let due = (end - first_seen) / (interval + ttl_ms + 1_000);
        assert!(lookups >= due, "a tweet with an interval of {interval} ms was updated {lookups} times of {due}");
        if least.is_none_or(|(slack, _)| lookups - due < slack) {
            least = Some((lookups - due, interval));
        }
    }
    println!("live tweets: {}; closest to its bound: {least:?} (updates above it, interval ms)", rows.len());
}
