//! The plan for lists, reckoned by hand.

use serde_json::Value;

use super::accounts::{close, plan};
use crate::support::process::{run, text, variables};

const PROVIDERS: [(&str, &str); 4] = [
    ("providers", "twitter, x, bluesky, mastodon:social"),
    ("mastodon.instances.social.api", "https://social.example.org"),
    ("x.price_per_read", "0.005"),
    ("x.reads", "1000000"),
];

fn of(told: &Value, name: &str) -> Value {
    let all = told["networks"].as_array().unwrap();
    all.iter().find(|one| one["network"] == name).cloned().unwrap_or_else(|| panic!("{name}: {told}"))
}

#[test]
fn a_round_takes_the_pages_of_all_lists_and_x_takes_money_for_each_member() {
    let told = plan(&["--followers", "1000", "--list-sizes", "0,26378"], &PROVIDERS);
    let (twitter, x, mastodon) = (of(&told, "twitter"), of(&told, "x"), of(&told, "mastodon:social"));
    // An empty list takes a call, the other one 6, 27 and 330.
    for (one, pages) in [(&twitter, 3.5), (&x, 14.0), (&mastodon, 165.5)] {
        close(&one["pages_per_list"], pages);
        close(&one["calls_per_round"], 1_000.0 * pages);
        // Visited once in 30 days, always as a whole.
        close(&one["calls_per_day"], 1_000.0 * pages / 30.0);
    }
    // 15 calls in 15 minutes, with either credential; 300; 300 in 5 minutes.
    let days = |one: &Value, at: usize| one["rounds"][at]["days"].as_f64().unwrap();
    let is = |days: f64, expected: f64| assert!((days - expected).abs() < 1e-9, "{days} and not {expected}");
    is(days(&twitter, 0), 3_500.0 / 1_440.0);
    is(days(&twitter, 1), 3_500.0 / 1_440.0);
    is(days(&x, 0), 14_000.0 / 28_800.0);
    is(days(&mastodon, 0), 165_500.0 / 86_400.0);
    assert_eq!((&of(&told, "bluesky")["rounds"], twitter["reads"].is_null()), (&Value::Array(vec![]), true));
    // $264 for the longer list, and nothing for an empty one; $10 for a first page of 1,000.
    close(&x["reads"]["dollars_per_round"], 500.0 * 263.78);
    close(&x["reads"]["dollars_per_short_visit"], 500.0 * 10.0);
    let month = 365.2425 / 12.0;
    close(&x["reads"]["dollars_per_month"], 500.0 * 263.78 / 30.0 * month);
    close(&x["reads"]["share_of_budget"], 500.0 * 26_378.0 * 2.0 / 30.0 * month / 1e6);
    // Both kinds of credentials are lanes of their own.
    let more = ["--followers", "1000", "--list-sizes", "0,26378", "--user-credentials", "1", "--app-credentials", "1"];
    is(days(&of(&plan(&more, &PROVIDERS), "twitter"), 2), 3_500.0 / 2_880.0);
}

#[test]
fn short_visits_between_whole_ones_take_a_call_each() {
    let often = [("relations.revisit", "1d"), ("relations.complete_every", "10d")];
    let told = plan(&["--followers", "100", "--list-sizes", "50000, 50000"], &often);
    let twitter = of(&told, "twitter");
    close(&twitter["calls_per_day"], 100.0 * (10.0 * 0.1 + 0.9));
    assert_eq!(twitter["rounds"][0]["enough"], true);
    // A cap cuts each list; a page of 100 makes many; without a known tail each visit is complete.
    let capped = [("relations.longest", "1000"), ("relations.page", "100"), ("relations.known_tail", "0")];
    let told = plan(&["--followers", "100", "--list-sizes", "50000"], &[&often[..], &capped].concat());
    let twitter = of(&told, "twitter");
    close(&twitter["pages_per_list"], 10.0);
    close(&twitter["calls_per_day"], 1_000.0);
    let output = run(&["plan", "--followers", "100000", "--list-sizes", "50000"], &variables(&often));
    let text = text(&output.stdout);
    for says in ["lists", "10d  (relations.complete_every)", "5,000 members per page", "NOT ENOUGH"] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn numbers_that_cannot_be_are_one_line() {
    for arguments in [
        &["--followers", "0", "--list-sizes", "1"][..],
        &["--followers", "10"],
        &["--list-sizes", "10", "--tweets-per-day", "5"],
        &["--followers", "10", "--list-sizes=-1"],
        &["--followers", "10", "--list-sizes", "nan"],
        &["--followers", "10", "--list-sizes", "1", "--accounts", "5"],
        &["--followers", "10", "--list-sizes", "1", "--active", "0.5"],
    ] {
        let output = run(&[&["plan"], arguments].concat(), &vec![]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(64), String::new()), "{arguments:?}");
        assert!(!text(&output.stderr).contains("panicked"), "{arguments:?}");
    }
}
