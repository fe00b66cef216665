//! `demo`: its summary, and its end. What it promises about the tweets, the load tests see.

use super::*;
use crate::support::process::Process;
use crate::support::wait::until_true;

const KEYS: [&str; 9] =
    ["scheduled", "updates", "requests", "ids_per_request", "unavailable", "ended", "lost", "doubled", "late_p99_ms"];

#[test]
fn its_last_line_is_a_summary() {
    let short = variables(&[("tweet_age", "20s: 300ms, 30m: 1s")]);
    let output = run(&["demo", "--for", "2s", "--tweets", "200", "--json"], &short);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let summary: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    for key in KEYS {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    assert_eq!((&summary["scheduled"], &summary["lost"]), (&200.into(), &0.into()));
    assert!(summary["requests"].as_i64() >= Some(1) && summary["updates"].as_i64() >= Some(1), "{summary}");

    let output = run(&["demo", "--for", "1s", "--tweets", "20"], &vec![]);
    let printed = text(&output.stdout);
    let row = |word: &str| printed.lines().find_map(|line| line.strip_prefix(word)?.split_whitespace().next());
    assert_eq!((row("scheduled"), row("lost")), (Some("20"), Some("0")), "{printed}");
}

#[tokio::test]
async fn it_ends_at_ctrl_c_and_keeps_its_file() {
    let home = Home::new();
    let dir = home.path("kept");
    let (dir, log) = (dir.to_str().unwrap(), home.path("log"));
    let mut demo = Process::start(&["demo", "--tweets", "100", "--dir", dir], &home.settings(&[]), &log);
    let file = home.path("kept").join("demo.db");
    let kept = variables(&[("queue.embedded.path", file.to_str().unwrap()), ("twitter.api", "http://127.0.0.1:9")]);
    until_true("all are scheduled", Duration::from_secs(20), async || {
        file.exists() && status(&kept)["counters"]["scheduled"] == 100
    })
    .await;
    demo.signal("INT");
    assert_eq!(demo.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", log_text(&log));
    assert_eq!(status(&kept)["leased"], 0);
}
