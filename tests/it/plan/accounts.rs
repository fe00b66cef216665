//! The plan for accounts: reckoned by hand, and by the formula of `status`.

use std::time::Duration;

use serde_json::Value;
use twitter_updater::engine::queue::LaneStats;
use twitter_updater::model::provider::Provider;
use twitter_updater::ops::report::plan::{
    ACCOUNT_CALLS, AccountsPlan, Network, Population, READS_PER_ACCOUNT, RequestFill,
};
use twitter_updater::ops::report::quota_load::QuotaLoad;
use twitter_updater::providers::lookup::Lookup;
use twitter_updater::providers::registry::accounts;
use twitter_updater::providers::x_v2::{XV2, XV2Options, account};
use twitter_updater::quota::CredentialStatus;

use crate::support::process::{run, text, variables};

const DAY: i64 = 86_400_000;

pub fn plan(arguments: &[&str], settings: &[(&str, &str)]) -> Value {
    let all = [&["plan", "--json"], arguments].concat();
    let output = run(&all, &variables(settings));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn close(told: &Value, value: f64) {
    let number = told.as_f64().unwrap_or_else(|| panic!("{told} is no number"));
    assert!((number - value).abs() <= 1e-9 * value.max(1.0), "{number} and not {value}");
}

#[test]
fn a_round_takes_all_accounts_in_full_calls_of_the_quota() {
    let told = plan(&["--accounts", "90000"], &[]);
    let shares: Vec<f64> =
        told["lanes"].as_array().unwrap().iter().map(|lane| lane["share"].as_f64().unwrap()).collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12 && shares[..2] == [0.2, 0.2], "{shares:?}");
    let [twitter] = &told["networks"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!((&twitter["network"], &twitter["ids_per_call"]), (&"twitter".into(), &100.into()));
    // 900 calls: a window of a user's token, three of an app's.
    close(&twitter["calls_per_round"], 900.0);
    close(&twitter["rounds"][0]["seconds"], 900.0);
    close(&twitter["rounds"][1]["seconds"], 2_700.0);
    let two = plan(&["--accounts", "90000", "--user-credentials", "2", "--app-credentials", "3"], &[]);
    close(&two["networks"][0]["rounds"][2]["seconds"], 900.0 * 900.0 / 2_700.0);
    assert_eq!(two["networks"][0]["rounds"][2]["user"], 2);

    let providers =
        [("providers", "x, bluesky, mastodon:social"), ("mastodon.instances.social.api", "https://social.example.org")];
    let told = plan(&["--accounts", "90000", "--active", "1", "--idle", "0"], &providers);
    let of = |name: &str| {
        let all = told["networks"].as_array().unwrap();
        all.iter().find(|one| one["network"] == name).cloned().unwrap_or_else(|| panic!("{name}: {told}"))
    };
    let (x, mastodon, bluesky) = (of("x"), of("mastodon:social"), of("bluesky"));
    for (one, ids) in [(&x, 100), (&mastodon, 40), (&bluesky, 25)] {
        assert_eq!(one["ids_per_call"], ids);
        close(&one["calls_per_round"], (90_000.0 / f64::from(ids)).ceil());
    }
    // 2,250 calls at 300 in five minutes; one kind of credential.
    close(&mastodon["rounds"][0]["seconds"], 2_250.0);
    assert_eq!(mastodon["rounds"].as_array().unwrap().len(), 1);
    // Bluesky publishes no quota: unknown, and not nought.
    assert_eq!((&bluesky["rounds"], &bluesky["user_credentials"]), (&Value::Array(vec![]), &Value::Null));
    assert!(x["reads"].is_object() && mastodon["reads"].is_null() && bluesky["reads"].is_null());
    let told = |settings: &[(&str, &str)]| text(&run(&["plan", "--accounts", "90000"], &variables(settings)).stdout);
    assert!(told(&[("accounts.schedule", "adaptive")]).contains("The adaptive schedule makes about as many lookups"));
    let text = told(&providers);
    assert!(!text.contains("adaptive"), "{text}");
    for says in ["bluesky, 25 ids per call", "the network does not publish its quota", "cost of one round, $"] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn an_account_costs_two_reads_of_x_once_in_a_day() {
    let api = XV2::new(XV2Options::default()).unwrap();
    assert_eq!(Lookup::read_keys(&account::Accounts(api), "12").len() as f64, READS_PER_ACCOUNT);
    let of = |active: &str, settings: &[(&str, &str)]| {
        let own = [("providers", "x"), ("x.price_per_read", "0.01"), ("x.reads", "1000000")];
        let arguments = ["--accounts", "1000", "--active", active, "--idle", "0"];
        plan(&arguments, &[&own, settings].concat())["networks"][0]["reads"].clone()
    };
    let month = 365.2425 / 12.0;
    let daily = of("1", &[]);
    close(&daily["reads_per_month"], 2_000.0 * month);
    close(&daily["dollars_per_month"], 20.0 * month);
    close(&daily["dollars_per_round"], 20.0);
    close(&daily["share_of_budget"], 2_000.0 * month / 1e6);
    // More often in a day costs no more, and a frozen account once in thirty days.
    assert_eq!(of("1", &[("accounts.active", "1h")]), daily);
    close(&of("0", &[])["reads_per_month"], 2_000.0 * month / 30.0);
}

#[test]
fn the_demand_is_that_of_status() {
    let (count, shares, days) = (600_000.0, [0.5, 0.3, 0.2], [1, 7, 30]);
    for provider in [Provider::Twitter, Provider::X, Provider::Mastodon("social".to_owned())] {
        let fill = RequestFill::new(accounts(&provider).capabilities, Duration::from_secs(5), 0.1);
        let lanes = [("active", DAY, shares[0]), ("idle", 7 * DAY, shares[1]), ("frozen", 30 * DAY, shares[2])];
        let population = Population::new(count, lanes).unwrap();
        let network = Network { name: provider.to_string(), calls: Some(ACCOUNT_CALLS), reads: None };
        let planned = AccountsPlan::new(population, &[(network, fill)], None).networks.remove(0);
        let in_lanes: Vec<LaneStats> = shares
            .iter()
            .zip(days)
            .map(|(share, days)| LaneStats {
                patience_ms: days * DAY,
                delayed: (count * share).round() as u64,
                ..LaneStats::default()
            })
            .collect();
        // The quota is unknown, so that requests are as full as they come.
        let shown = QuotaLoad::new(&in_lanes, &[CredentialStatus::default()], fill).demand_calls_per_15_min;
        assert!((planned.calls_per_15_min - shown).abs() < 1e-6 * shown, "{provider}: {planned:?}, {shown}");
        assert!(shown > 1.0);
    }
}

#[test]
fn shares_and_numbers_that_cannot_be_are_one_line() {
    for arguments in [
        &["--accounts", "0"][..],
        &["--accounts", "nan"],
        &["--accounts", "1e13"],
        &["--accounts", "10", "--active", "0.9", "--idle", "0.2"],
        &["--accounts", "10", "--active=-0.1"],
        &["--accounts", "10", "--tweets-per-day", "5"],
        &["--tweets-per-day", "5", "--active", "0.5"],
    ] {
        let output = run(&[&["plan"], arguments].concat(), &vec![]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(64), String::new()), "{arguments:?}");
        assert!(!text(&output.stderr).contains("panicked"), "{arguments:?}");
    }
}
