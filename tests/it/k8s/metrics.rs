//! Alerts and dashboard name only metrics and labels that there are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use twitter_updater::metrics::Counters;

use super::{documents, exists, list, path, read, text};

/// What is exposed beside the counters, with its labels; a histogram's name is without its endings.
const GAUGES: &[(&str, &[&str])] = &[
    ("in_flight", &[]),
    ("queue_up", &[]),
    ("delayed", &["namespace", "lane"]),
    ("due", &["namespace", "lane"]),
    ("oldest_lateness_seconds", &["namespace", "lane"]),
    ("leased", &["namespace"]),
    ("expired", &["namespace"]),
    ("dead", &["namespace"]),
    ("incoming", &["namespace"]),
    ("paused", &["namespace"]),
    ("workers", &["namespace", "version", "config_revision"]),
    ("quota_remaining", &["credential", "endpoint"]),
    ("quota_limit", &["credential", "endpoint"]),
    ("quota_reset_seconds", &["credential", "endpoint"]),
    ("credential_parked", &["credential", "endpoint"]),
];
const COUNTERS: &[(&str, &[&str])] =
    &[("queue_events", &["namespace", "event"]), ("starter_tweets", &["outcome"]), ("starter_requests", &["status"])];
const HISTOGRAMS: &[&str] =
    &["lateness_seconds", "batch_ids", "lookup_seconds", "save_seconds", "settle_seconds", "starter_request_seconds"];

/// What Prometheus puts on by itself.
const OF_PROMETHEUS: &[&str] = &["pod", "le"];

/// Every name as it stands in a query, with its labels.
fn exposed() -> BTreeMap<String, &'static [&'static str]> {
    let mut names: BTreeMap<String, &'static [&'static str]> = BTreeMap::new();
    names.extend(GAUGES.iter().map(|(name, labels)| ((*name).to_owned(), *labels)));
    names.extend(COUNTERS.iter().map(|(name, labels)| (format!("{name}_total"), *labels)));
    let counters = Counters::default();
    names.extend(counters.all().map(|(name, _)| (format!("{name}_total"), &[][..])));
    for ending in ["bucket", "sum", "count"] {
        names.extend(HISTOGRAMS.iter().map(|name| (format!("{name}_{ending}"), &[][..])));
    }
    names
}

/// The words of a text: names, and what is not a part of one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The labels that a query groups or joins by, and those it selects by.
fn labels(query: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let inside = |opening: &str, closing: char| -> Vec<&str> {
        query.split(opening).skip(1).map(|rest| rest.split(closing).next().unwrap()).collect()
    };
    let grouped = ["by (", "on ("].iter().flat_map(|opening| inside(opening, ')')).flat_map(words).collect();
    let matchers = inside("{", '}').into_iter().flat_map(|matchers| matchers.split(','));
    let selected = matchers.filter_map(|matcher| words(matcher).next()).collect();
    (grouped, selected)
}

/// Holds a query to what is exposed.
fn check(query: &str) {
    let exposed = exposed();
    let mut known: BTreeSet<&str> = OF_PROMETHEUS.iter().copied().collect();
    let mut named = 0;
    for name in words(query).filter_map(|word| word.strip_prefix("twitter_updater_")) {
        named += 1;
        exists(name.strip_suffix("_total").unwrap_or(name), exposed.contains_key(name));
        known.extend(exposed.get(name).copied().unwrap_or_default());
    }
    assert!(named > 0, "{query} asks for nothing of ours");
    let (grouped, selected) = labels(query);
    for label in grouped.iter().chain(&selected) {
        assert!(known.contains(label), "{query}: no metric in it has a label {label}");
    }
}

fn alerts() -> Vec<Value> {
    let [rules] = documents(&path("k8s/components/monitoring/alerts.yaml")).try_into().unwrap();
    list(&rules, "/spec/groups").flat_map(|group| list(group, "/rules")).cloned().collect()
}

#[test]
fn alerts_ask_for_metrics_that_there_are() {
    for alert in alerts() {
        let query = text(&alert, "/expr");
        check(query);
        let (grouped, _) = labels(query);
        for (_, words_for_people) in alert["annotations"].as_object().unwrap() {
            for rest in words_for_people.as_str().unwrap().split("$labels.").skip(1) {
                let label = words(rest).next().unwrap();
                assert!(grouped.contains(label), "{}: its series have no label {label}", text(&alert, "/alert"));
            }
        }
    }
}

#[test]
fn every_alert_has_a_case_in_which_it_rings() {
    let cases = read(&path("k8s/components/monitoring/alerts_test.yaml"));
    let alerts = alerts();
    assert!(alerts.len() >= 15, "{}", alerts.len());
    for alert in alerts {
        let name = text(&alert, "/alert");
        assert!(cases.contains(&format!("{{alertname=\"{name}\"}}")), "alerts_test.yaml has no case for {name}");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard: Value = serde_json::from_str(&read(&path("k8s/components/monitoring/dashboard.json"))).unwrap();
    let mut shown = BTreeSet::new();
    for panel in list(&dashboard, "/panels") {
        for target in list(panel, "/targets") {
            let query = text(target, "/expr");
            check(query);
            shown.extend(words(query).filter_map(|word| word.strip_prefix("twitter_updater_")).map(str::to_owned));
        }
    }
    // Whatever is exposed can be seen.
    let whole = |name: &str| HISTOGRAMS.iter().find(|histogram| name.starts_with(**histogram)).copied();
    let shown: BTreeSet<String> = shown.iter().map(|name| whole(name).unwrap_or(name).to_owned()).collect();
    for name in exposed().keys().map(|name| whole(name).unwrap_or(name)) {
        assert!(shown.contains(name), "the dashboard does not show {name}");
    }
}
