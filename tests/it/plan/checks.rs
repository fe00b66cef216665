//! The cost of `store.longest_unchecked`, as `plan` states it: the difference between two plans.

use serde_json::Value;

use super::accounts::{close, plan};
use crate::support::process::{run, text, variables};

const DAY: i64 = 86_400_000;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn accounts_cost_what_the_shorter_intervals_add() {
    let arguments = ["--accounts", "100000"];
    let providers = [("providers", "x"), ("x.price_per_read", "0.01")];
    let free = plan(&arguments, &providers);
    assert!(free["networks"][0]["checks"].is_null(), "nothing is bounded while deletions change nothing");
    for (bound, ms) in [("1d", DAY), ("2d", 2 * DAY)] {
        let settings = [&providers[..], &[("store.on_deleted", "blank"), ("store.longest_unchecked", bound)]].concat();
        let bounded = plan(&arguments, &settings);
        for lane in bounded["lanes"].as_array().unwrap() {
            assert!(lane["interval_ms"].as_i64().unwrap() <= ms, "{lane}");
        }
        let (with, without) = (&bounded["networks"][0], &free["networks"][0]);
        let checks = &with["checks"];
        assert_eq!(checks["longest_unchecked_ms"], ms);
        close(&checks["calls_per_15_min"], number(&with["calls_per_15_min"]) - number(&without["calls_per_15_min"]));
        let dollars = |network: &Value| number(&network["reads"]["dollars_per_month"]);
        close(&checks["dollars_per_month"], dollars(with) - dollars(without));
        assert!(
            number(&checks["calls_per_15_min"]) > 1.0 && number(&checks["dollars_per_month"]) > 1_000.0,
            "{checks}"
        );
        let said = text(&run(&["plan", "--accounts", "100000"], &variables(&settings)).stdout);
        assert!(said.contains("longest unchecked") && said.contains("store.longest_unchecked adds"), "{said}");
    }
}

#[test]
fn tweets_cost_what_the_shorter_intervals_add() {
    let arguments = ["--tweets-per-day", "100000"];
    let of = |settings: &[(&str, &str)]| plan(&arguments, &[&[("providers", "x")], settings].concat());
    let weekly = ("tweet_age", "1d: 1h, 90d: 7d");
    let free = of(&[weekly]);
    assert!(free["checks"].is_null());
    let bounded = of(&[weekly, ("store.on_deleted", "remove")]);
    let checks = &bounded["checks"];
    close(&checks["calls_per_15_min"], number(&bounded["lookups_per_15_min"]) - number(&free["lookups_per_15_min"]));
    let dollars = |plan: &Value| number(&plan["reads"]["dollars_per_month"]);
    close(&checks["dollars_per_month"], dollars(&bounded) - dollars(&free));
    assert!(number(&checks["calls_per_15_min"]) > 100.0, "{checks}");
    // The default table is short enough; the adaptive schedule would let quiet tweets wait for longer.
    let blank = ("store.on_deleted", "blank");
    close(&of(&[blank])["checks"]["calls_per_15_min"], 0.0);
    let adaptive = of(&[blank, ("schedule", "adaptive")]);
    assert!(number(&adaptive["checks"]["calls_per_15_min"]) > 100.0, "{}", adaptive["checks"]);
    let said = run(&["plan", "--tweets-per-day", "1000"], &variables(&[blank, ("schedule", "adaptive")]));
    assert!(text(&said.stdout).contains("takes these calls from busy tweets"), "{}", text(&said.stdout));
}

#[test]
fn the_adaptive_schedule_states_its_own_updates_and_charged_days() {
    let of = |settings: &[(&str, &str)]| plan(&["--tweets-per-day", "1000"], settings);
    let (x, adaptive) = (("providers", "x"), ("schedule", "adaptive"));
    assert!(of(&[x])["adaptive"].is_null(), "only where that schedule is used");
    let free = of(&[x, adaptive, ("x.price_per_read", "0.01")]);
    let (updates, reads) = (&free["adaptive"]["updates_per_tweet"], number(&free["adaptive"]["reads_per_tweet"]));
    assert!((number(updates) / number(&free["updates_per_tweet"]) - 1.0).abs() < 0.03, "the table's calls: {updates}");
    assert!(reads < 0.95 * number(&free["reads"]["reads_per_tweet"]) && reads > 10.0, "on fewer days: {reads}");
    close(&free["adaptive"]["dollars_per_month"], reads * 1_000.0 * 0.01 * 365.2425 / 12.0);
    // A daily check of each tweet is a daily charge.
    let checked = of(&[x, adaptive, ("store.on_deleted", "blank")]);
    assert!(number(&checked["adaptive"]["reads_per_tweet"]) > 30.0, "{}", checked["adaptive"]);
    assert!(number(&checked["adaptive"]["updates_per_tweet"]) > number(updates), "{}", checked["adaptive"]);
    let uncharged = of(&[adaptive]);
    assert!(uncharged["adaptive"]["reads_per_tweet"].is_null() && !uncharged["adaptive"].is_null());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.toml");
    let shipped =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/engine/models/freshness.toml")).unwrap();
    let old: Vec<&str> = shipped.lines().filter(|line| !line.starts_with("population")).collect();
    std::fs::write(&file, old.join("\n")).unwrap();
    let old = [adaptive, ("adaptive.model_file", file.to_str().unwrap())];
    assert!(of(&old)["adaptive"].is_null());
    let said = run(&["plan", "--tweets-per-day", "1000"], &variables(&old));
    assert!(text(&said.stdout).contains("unknown: train adaptive.model_file again"), "{}", text(&said.stdout));
}
