//! The plan against a simulation of what it plans for, and against the age table walked step by step.

mod accounts;
mod checks;
pub mod fill;
mod lists;
mod spend;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::ops::report::plan::{
    self, CredentialCounts, Plan, REDIS_BYTES_PER_ID, RequestFill, TWITTER_CALLS,
};

use crate::support::process::{run, text, variables};

const QUOTA: &str = include_str!("../../docs/quota.md");
const REDIS: &str = include_str!("../../docs/redis.md");
const MEMORY_TEST: &str = include_str!("load/memory.rs");
const SPECIFICATION: &str = "18m: 3m, 60m: 10m, 1d: 1h, 7d: 6h, 30d: 1d";
const SMALL: &str = "10m: 2m, 1h: 8m, 5h: 40m";
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// Requests that go out short are an estimate: the simulated tweets come evenly, which makes more of them.
const SHORT: f64 = 0.15;
const TTL: Duration = Duration::from_secs(5);

fn ages(text: &str) -> AgeTable {
    text.parse().unwrap()
}

/// Requests with so much lookahead and such a buffer.
fn with(lookahead: f64, buffer_ttl: Duration) -> RequestFill {
    RequestFill { limit: 100, buffer_ttl, lookahead, is_metered: true }
}

fn plan(ages: &AgeTable, tweets_per_day: f64) -> Plan {
    Plan::new(ages, tweets_per_day, with(0.02, TTL)).unwrap()
}

/// What a simulated system did per 15 minutes, and what was in it at the end.
struct Seen {
    updates: f64,
    lookups: f64,
    scheduled: f64,
    alive: f64,
    in_lanes: Vec<f64>,
}

/// Tweets come in, each in its own part of the day; a request goes out when 100 ids are due or the
/// oldest has waited `ttl`; each id is rescheduled by its age then. Nothing is measured before `warm`.
fn simulate(ages: &AgeTable, per_day: i64, ttl: i64, warm: i64, measured: i64) -> Seen {
    let end = warm + measured;
    let spacing = DAY as f64 / per_day as f64;
    // Not all at one distance, or updates of different tweets would fall together: spread by the golden ratio.
    let made = |n: i64| ((n as f64 + (n as f64 * 0.618_033_988_749_895).fract()) * spacing) as i64;
    let delay = |created_at, now| ages.update_delay(created_at, now);
    let mut incoming = (0..).map(made).take_while(|made| *made < end).peekable();
    let mut queue: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    let (mut updates, mut lookups) = (0, 0);
    let mut now = 0;
    loop {
        // A claim sees every tweet made by now; the first update of a later one is later still.
        while let Some(made) = incoming.next_if(|made| queue.peek().is_none_or(|Reverse((due, _))| *made <= *due + ttl))
        {
            queue.push(Reverse((made + delay(made, made).unwrap(), made)));
        }
        let Some(&Reverse((oldest, _))) = queue.peek() else { break };
        let mut batch = Vec::new();
        while batch.len() < 100
            && let Some(&Reverse((due, made))) = queue.peek()
            && due <= oldest + ttl
        {
            queue.pop();
            batch.push((due, made));
        }
        let sent = if batch.len() == 100 { batch[99].0 } else { oldest + ttl };
        now = now.max(sent);
        if now >= end {
            batch.into_iter().for_each(|id| queue.push(Reverse(id)));
            break;
        }
        if now >= warm {
            updates += batch.len();
            lookups += 1;
        }
        for (_, made) in batch {
            if let Some(delay) = delay(made, now) {
                queue.push(Reverse((now + delay, made)));
            }
        }
    }
    let in_system: Vec<_> = queue.into_iter().map(|Reverse(id)| id).filter(|(_, made)| *made < end).collect();
    // The lane of an id is the one that gave its delay: that of its age when it was scheduled.
    let in_lane = |at: usize| {
        let (bracket, lower) = (&ages.brackets()[at], if at == 0 { 0 } else { ages.brackets()[at - 1].under });
        let scheduled =
            |(due, made): &&(i64, i64)| (lower..bracket.under).contains(&(due - bracket.lane.patience - made));
        in_system.iter().filter(scheduled).count() as f64
    };
    let windows = measured as f64 / 900_000.0;
    Seen {
        updates: updates as f64 / windows,
        lookups: f64::from(lookups) / windows,
        scheduled: in_system.len() as f64,
        alive: in_system.iter().filter(|(_, made)| end - made < ages.lifetime()).count() as f64,
        in_lanes: (0..ages.brackets().len()).map(in_lane).collect(),
    }
}

fn within(share: f64, what: &str, planned: f64, seen: f64) {
    assert!((planned - seen).abs() <= share * seen, "{what}: planned {planned}, seen {seen}");
}

fn agrees(table: &str, per_day: i64, ttl: i64, warm: i64, measured: i64, lookups_within: f64) {
    let ages = ages(table);
    let seen = simulate(&ages, per_day, ttl, warm, measured);
    let plan = Plan::new(&ages, per_day as f64, with(0.0, Duration::from_millis(ttl as u64))).unwrap();
    within(0.02, "updates", plan.updates_per_15_min, seen.updates);
    within(lookups_within, "lookups", plan.lookups_per_15_min, seen.lookups);
    let short_at_most = 900_000.0 / ttl as f64;
    assert!(seen.lookups <= seen.updates / 100.0 + short_at_most, "{}", seen.lookups);
    within(0.02, "ids scheduled", plan.ids_scheduled, seen.scheduled);
    within(0.02, "tweets alive", plan.tweets_alive, seen.alive);
    for (bracket, in_lane) in plan.brackets.iter().zip(seen.in_lanes) {
        // A lane with a handful of ids shows a moment, not the mean: give or take three.
        let off = (bracket.ids_scheduled - in_lane).abs();
        assert!(off <= 0.02 * in_lane + 3.0, "{}: planned {}, seen {in_lane}", bracket.bracket, bracket.ids_scheduled);
    }
}

#[test]
fn a_small_table_behaves_as_planned_with_short_requests() {
    // 0.6 updates per second: 4 ids a request.
    agrees(SMALL, 3_000, 5_000, 6 * HOUR, 4 * DAY, SHORT);
}

#[test]
fn a_small_table_behaves_as_planned_with_full_requests() {
    // 60 updates per second, three times what fills a request.
    agrees(SMALL, 300_000, 5_000, 6 * HOUR, 12 * HOUR, 0.02);
}

#[test]
fn the_default_table_behaves_as_planned() {
    agrees(SPECIFICATION, 1_000, 5_000, 31 * DAY, 4 * DAY, SHORT);
}

#[test]
fn the_default_table_is_walked_by_hand() {
    let plan = plan(&ages(SPECIFICATION), 1_000.0);
    // 3, 6 … 18 min; 28 … 68 min; 128 … 1,448 min; 1,808 … 10,088 min; 11,528 … 43,208 min.
    assert_eq!(plan.brackets.iter().map(|bracket| bracket.updates_per_tweet).collect::<Vec<_>>(), [6, 5, 23, 24, 23]);
    assert_eq!(plan.updates_per_tweet, 81);
    within(1e-9, "ids until their last update", plan.ids_scheduled, 1_000.0 * 43_208.0 / 1_440.0);
    assert_eq!(plan.tweets_alive, 30_000.0);
}

/// A table from steps between ages and intervals, in ms.
fn any_table() -> impl Strategy<Value = AgeTable> {
    prop::collection::vec((1i64..100_000, 1i64..50_000), 1..7).prop_map(|steps| {
        let mut under = 0;
        let brackets = steps.into_iter().map(|(step, every)| {
            under += step;
            format!("{under}ms: {every}ms")
        });
        ages(&brackets.collect::<Vec<_>>().join(", "))
    })
}

fn any_credentials() -> impl Strategy<Value = CredentialCounts> {
    (0u32..40, 0u32..40)
        .prop_filter("none", |(user, app)| user + app > 0)
        .prop_map(|(user, app)| CredentialCounts { user, app })
}

proptest! {
    #[test]
    fn updates_per_tweet_are_those_of_a_plain_walk(ages in any_table()) {
        let (mut now, mut updates, mut in_queue) = (0, 0, 0);
        while let Some(delay) = ages.update_delay(0, now) {
            now += delay;
            updates += 1;
            in_queue += delay;
        }
        prop_assert_eq!(plan::updates_per_tweet(&ages), updates);
        let plan = plan(&ages, 1e6);
        prop_assert_eq!(plan.updates_per_tweet, updates);
        prop_assert_eq!(plan.brackets.iter().map(|bracket| bracket.updates_per_tweet).sum::<u64>(), updates);
        within(1e-9, "ids", plan.ids_scheduled, 1e6 * in_queue as f64 / DAY as f64);
        within(1e-9, "updates", plan.brackets.iter().map(|bracket| bracket.updates_per_15_min).sum(), plan.updates_per_15_min);
    }

    #[test]
    fn the_largest_is_carried_and_no_more(ages in any_table(), credentials in any_credentials(), ttl_ms in 10u64..20_000) {
        let ttl = Duration::from_millis(ttl_ms);
        let calls = credentials.calls(TWITTER_CALLS);
        let largest = plan::largest_tweets_per_day(&ages, with(0.02, ttl), calls);
        let lookups = |tweets| Plan::new(&ages, tweets, with(0.02, ttl)).unwrap().lookups_per_15_min;
        prop_assert!(lookups(largest) <= calls * (1.0 + 1e-9), "{} > {calls}", lookups(largest));
        // Requests that go out short carry more before there are more of them: not a whole 1 % more.
        prop_assert!(lookups(largest * 1.01) > calls, "{} <= {calls}", lookups(largest * 1.01));
        let enough = |tweets| {
            let plan = Plan::new(&ages, tweets, with(0.02, ttl)).unwrap().with_credentials(&ages, credentials);
            plan.given.unwrap().enough
        };
        prop_assert!(enough(largest) && !enough(largest * 1.01));
    }

    #[test]
    fn the_largest_needs_as_many_credentials_as_there_are(ages in any_table(), count in 1u32..100) {
        let users = CredentialCounts { user: count, app: 0 };
        let apps = CredentialCounts { user: 0, app: count };
        let needs = |credentials: CredentialCounts, factor: f64| {
            plan(&ages, plan::largest_tweets_per_day(&ages, with(0.02, TTL), credentials.calls(TWITTER_CALLS)) * factor)
        };
        prop_assert_eq!(needs(users, 1.0).user_credentials, u64::from(count));
        prop_assert_eq!(needs(users, 1.01).user_credentials, u64::from(count + count / 100 + 1));
        prop_assert_eq!(needs(apps, 1.0).app_credentials, u64::from(count));
        prop_assert_eq!(needs(apps, 1.01).app_credentials, u64::from(count + count / 100 + 1));
        prop_assert_eq!(users.calls(TWITTER_CALLS), f64::from(count * TWITTER_CALLS.user));
        prop_assert_eq!(apps.calls(TWITTER_CALLS), f64::from(count * TWITTER_CALLS.app));
    }
}

#[test]
fn an_interval_of_a_millisecond_over_a_hundred_years_is_planned_at_once() {
    let plan = plan(&ages("100years: 1ms"), 1e12);
    assert_eq!(plan.updates_per_tweet, 3_155_760_000_000);
    assert!(plan::BadTweetsPerDay(2e12).to_string().ends_with("at most 1,000,000,000,000"));
    assert!(plan.redis_bytes.is_finite() && plan.lookups_per_second.is_finite());
    let endless = ages("100years: 100years");
    assert_eq!(plan::updates_per_tweet(&endless), 1);
}

#[test]
fn lookahead_fills_requests_and_bounds_the_updates() {
    let ages = ages(SPECIFICATION);
    let of = |lookahead| Plan::new(&ages, 500.0, with(lookahead, TTL)).unwrap();
    assert_eq!(of(0.0).updates_per_15_min_at_most, of(0.0).updates_per_15_min);
    within(1e-9, "a tenth", of(0.1).updates_per_15_min_at_most * 0.9, of(0.1).updates_per_15_min);
    // Requests that are almost full have few free places.
    within(1e-9, "a half", of(0.5).updates_per_15_min_at_most, 100.0 * of(0.5).lookups_per_15_min);
    assert_eq!(of(0.5).updates_per_15_min, of(0.0).updates_per_15_min);
    assert!(of(0.1).lookups_per_15_min < of(0.0).lookups_per_15_min / 5.0);
    assert!(of(0.3).lookups_per_15_min < of(0.1).lookups_per_15_min);
}

#[test]
fn memory_per_id_is_what_the_document_says_it_was_measured_to_be() {
    assert!(REDIS.contains(&format!("takes {REDIS_BYTES_PER_ID} bytes of Redis memory")));
    let bound = MEMORY_TEST.rsplit_once("each(rescheduled) <= ").unwrap().1.split(')').next().unwrap();
    assert!(f64::from(REDIS_BYTES_PER_ID) <= bound.parse().unwrap(), "{bound}");
}

#[test]
fn the_document_shows_what_the_command_prints() {
    let shown = QUOTA.split_once("## How many credentials?").unwrap().1;
    let (command, output) = {
        let mut blocks = shown.split("```").skip(1).step_by(2);
        (blocks.next().unwrap(), blocks.next().unwrap())
    };
    let arguments: Vec<_> = command.lines().nth(1).unwrap().split_whitespace().skip(1).collect();
    let printed = run(&arguments, &vec![]);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    assert_eq!(output.strip_prefix("text\n"), Some(&*text(&printed.stdout)));
}

#[test]
fn the_document_shows_what_reads_cost() {
    let shown = QUOTA.split_once("## What X charges for").unwrap().1;
    let output = shown.split("```").nth(3).unwrap();
    let printed = run(&["plan", "--provider", "x", "--tweets-per-day", "1000"], &vec![]);
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    let printed = text(&printed.stdout);
    assert!(printed.ends_with(output.strip_prefix("text\n").unwrap()), "{printed}");
    assert!(printed.contains("of 5,000 calls per 15 min, or"), "{printed}");
    // Of no other provider is anything said of reads.
    assert!(!text(&run(&["plan", "--tweets-per-day", "1000"], &vec![]).stdout).contains("reads"));
}

#[test]
fn reads_are_planned_for_the_settings_in_effect() {
    let settings = |more: &[(&str, &str)]| {
        let own = [("tweet_age", "3d: 6h"), ("x.price_per_read", "0.01"), ("x.reads", "100")];
        variables(&[&own, more].concat())
    };
    let plan = |more: &[(&str, &str)]| {
        let output = run(&["plan", "--provider", "x", "--tweets-per-day", "10", "--json"], &settings(more));
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["reads"].clone()
    };
    let monthly = plan(&[]);
    let is = |name: &str, value: f64| {
        let told = monthly[name].as_f64().unwrap();
        assert!((told - value).abs() < 1e-6 * value.max(1.0), "{name}: {told} and not {value}");
    };
    // At 6 h, 12 h and so on to 72 h: in 4 UTC days, and in 3 where the first falls into the next day.
    is("reads_per_tweet", 3.75);
    is("reads_per_month", 37.5 * 365.2425 / 12.0);
    is("dollars_per_month", 0.375 * 365.2425 / 12.0);
    is("reads_allowed_per_month", 100.0);
    is("share_of_budget", 0.375 * 365.2425 / 12.0);
    // A hundred a day are enough.
    let daily = plan(&[("x.reads_per", "1d")]);
    assert!((daily["share_of_budget"].as_f64().unwrap() - 0.375).abs() < 1e-9, "{daily}");
    assert_eq!(plan(&[("x.reads", "0")])["share_of_budget"], Value::Null);
    let too_long = run(&["plan", "--provider", "x", "--tweets-per-day", "1"], &settings(&[("tweet_age", "101y: 1d")]));
    assert_eq!((too_long.status.code(), text(&too_long.stderr).lines().count()), (Some(64), 1));
}

#[test]
fn the_command_plans_for_the_settings_in_effect() {
    let settings = variables(&[("tweet_age", "1d: 1h"), ("updater.buffer_ttl", "1s"), ("updater.lookahead", "0.5")]);
    let output = run(&["plan", "--tweets-per-day", "360000", "--json"], &settings);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    // 24 updates each: 100 per second, all requests full from 99 per second on.
    for (key, value) in [
        ("tweets_per_day", 360_000.0),
        ("lifetime_days", 1.0),
        ("updates_per_tweet", 24.0),
        ("updates_per_second", 100.0),
        ("updates_per_15_min", 90_000.0),
        ("updates_per_15_min_at_most", 90_000.0),
        ("ids_per_lookup", 100.0),
        ("lookups_per_second", 1.0),
        ("lookups_per_15_min", 900.0),
        ("user_credentials", 1.0),
        ("app_credentials", 3.0),
        ("tweets_alive", 360_000.0),
        ("ids_scheduled", 360_000.0),
        ("redis_bytes", 360_000.0 * 126.0),
        ("tweet_rows_per_day", 360_000.0),
        ("history_rows_per_day_at_most", 8_640_000.0),
    ] {
        assert_eq!(plan[key].as_f64(), Some(value), "{key}");
    }
    assert_eq!((&plan["brackets"][0]["bracket"], &plan["brackets"][0]["interval_ms"]), (&"1d".into(), &HOUR.into()));
    assert_eq!(plan["given"], Value::Null);

    let given = |user: &str, app: &str| {
        let arguments =
            ["plan", "--tweets-per-day", "360001", "--user-credentials", user, "--app-credentials", app, "--json"];
        let plan: Value = serde_json::from_slice(&run(&arguments, &settings).stdout).unwrap();
        plan["given"].clone()
    };
    let one = run(&["plan", "--tweets-per-day", "360001", "--app-credentials", "3"], &settings);
    assert!(text(&one.stdout).contains("for up to 360,000 tweets per day: NOT ENOUGH"), "{}", text(&one.stdout));
    let two = given("1", "1");
    assert_eq!((two["user"].as_i64(), two["app"].as_i64()), (Some(1), Some(1)));
    assert_eq!((&two["largest_tweets_per_day"], &two["enough"]), (&480_000.into(), &true.into()));
    assert_eq!(two["calls_per_15_min"].as_f64(), Some(1_200.0));
}

/// Each network has its own batches and limits.
#[test]
fn posts_are_planned_for_the_network_that_was_chosen() {
    let settings = variables(&[("mastodon.instances.social.api", "https://social.example")]);
    let output = run(&["plan", "--provider", "mastodon:social", "--tweets-per-day", "100000"], &settings);
    let said = text(&output.stdout);
    assert!(
        output.status.success() && said.contains("of 20 ids each") && said.contains("of 900 calls per 15 min\n"),
        "{said}"
    );
    let output = run(&["plan", "--provider", "bluesky", "--tweets-per-day", "1000"], &settings);
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout), said.lines().count()),
        (Some(64), String::new(), 1),
        "{said}"
    );
    assert!(said.contains("bluesky publishes no limit of calls") && said.contains("25 posts"), "{said}");
}

#[test]
fn numbers_that_cannot_be_are_one_line() {
    for number in ["0", "-0", "-1", "-1.5", "nan", "NaN", "inf", "1e13"] {
        let output = run(&["plan", "--tweets-per-day", number], &vec![]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(64), 1), "{number}: {said}");
        assert!(said.starts_with("twitter-updater: --tweets-per-day (") && output.stdout.is_empty(), "{said}");
    }
    for arguments in [
        &["plan"][..],
        &["plan", "--tweets-per-day", "many"],
        &["plan", "--tweets-per-day", "1", "--user-credentials", "0"],
        &["plan", "--tweets-per-day", "1", "--app-credentials", "-1"],
    ] {
        let output = run(arguments, &vec![]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(64), String::new()), "{arguments:?}");
    }
}
