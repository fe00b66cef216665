//! The gauges of polled sources, as `ops` shows them.

use std::collections::BTreeMap;

use crate::timelines::polled;
use twitter_updater::store::{Lifecycle, Positions, SavedPage, SourceGap, SourceTrouble, SqliteStore};

use super::documents::{documented, shown};
use super::*;

const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_that_fail_or_are_quiet_are_counted_and_named() {
    let home = Home::new().await;
    let of = |source: &str, key: &str| format!("poll.sources.{source}.{key}");
    let mut more = vec![("poll.quiet_after".to_owned(), "2h")];
    for name in ["calm", "monthly", "down", "new", "well", "added"] {
        more.extend([(of(name, "kind"), "search"), (of(name, "query"), name)]);
    }
    more.push((of("monthly", "quiet_after"), "60d"));
    let more: Vec<(&str, &str)> = more.iter().map(|(key, value)| (&**key, *value)).collect();
    let settings = home.settings(&more);
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    let (poll, now) = (polled("search/tweets"), wall_ms());
    let gap = SourceGap { from: "1".into(), to: "9".into(), reason: "a test".into(), noted_at: now - HOUR };
    let gaps = [gap];
    let page = |at| SavedPage {
        at,
        position: "{}",
        is_start: false,
        gaps: &gaps,
        has_new_posts: true,
        notes: None,
        followed_at: None,
    };
    for (name, at) in [("calm", now - 3 * HOUR), ("monthly", now - 3 * HOUR), ("down", now), ("well", now)] {
        store.save_page(&poll, name, &page(at)).await.unwrap();
    }
    let error = format!("HTTP 500\n{}", "x".repeat(10_000));
    let trouble = SourceTrouble { since: now, failures: 12, error, at: now + 1 };
    for name in ["down", "new", "in-no-settings"] {
        store.save_trouble(&poll, name, &trouble).await.unwrap();
    }
    let ops = home.role("ops", &settings).await;
    until_true("they are shown", Duration::from_secs(30), async || {
        ops.get("/metrics").await.1.contains("twitter_updater_sources_failing{")
    })
    .await;
    let metrics = ops.get("/metrics").await.1;
    let counted = |name: &str| value(&metrics, &format!("twitter_updater_{name}{{namespace=\"{poll}\"}}"));
    assert_eq!((counted("sources_failing"), counted("sources_quiet")), (Some(2.0), Some(1.0)), "{metrics}");
    let age = counted("sources_last_gap_seconds");
    assert!(age.is_some_and(|seconds| (3_600.0..4_200.0).contains(&seconds)), "{metrics}");
    let of = |metric: &str, name: &str| {
        value(&metrics, &format!("twitter_updater_{metric}{{namespace=\"{poll}\",source=\"{name}\"}}"))
    };
    assert_eq!(["down", "new"].map(|name| of("source_failures", name)), [Some(12.0); 2], "{metrics}");
    assert!(of("source_quiet_seconds", "calm").is_some_and(|seconds| (10_800.0..11_400.0).contains(&seconds)));
    assert_eq!(metrics.matches("source=\"").count(), 3, "{metrics}");
    let sources: BTreeMap<_, _> = shown(&metrics).into_iter().filter(|(name, _)| name.contains("_source")).collect();
    assert_eq!(sources, documented("### Polled sources"));

    // The command says the same, a line each.
    let output = text(&run(&["status"], &settings).stdout);
    let cannot = output.lines().filter(|line| line.starts_with("  cannot be read since ")).collect::<Vec<_>>();
    assert_eq!(cannot.len(), 3, "{output}");
    assert!(cannot.iter().all(|line| line.contains(" (12 times): HTTP 500 xxx") && line.len() < 400), "{cannot:?}");
    assert_eq!(output.matches("\n  brought no new post since ").count(), 1, "{output}");
    assert!(output.lines().any(|line| line.starts_with("new ") && line.contains("no page yet")), "{output}");
    let told: Value = serde_json::from_slice(&run(&["status", "--json"], &settings).stdout).unwrap();
    let all = told["sources"].as_array().unwrap();
    let quiet: Vec<&Value> = all.iter().filter(|one| one["quiet"] == true).map(|one| &one["name"]).collect();
    assert_eq!(quiet, ["calm"], "{told}");
    let added = all.iter().find(|one| one["name"] == "added").unwrap();
    assert_eq!((&added["turn"], &added["namespace"]), (&json!("absent"), &json!(null)), "no poller knows it");
    let new = all.iter().find(|one| one["name"] == "new").unwrap();
    assert_eq!(
        (&new["saved_at"], &new["trouble"]["since"], &new["trouble"]["failures"]),
        (&json!(null), &json!(now), &json!(12))
    );
}
