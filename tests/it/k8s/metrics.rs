//! Alerts and dashboard name only metrics and labels that there are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{documents, exists, list, path, read, text};

/// What Prometheus puts on by itself.
const OF_PROMETHEUS: &[&str] = &["pod", "le"];

/// What the roles show, as docs/metrics.md has it, which is held to the code: name, type, labels.
fn exposed() -> Vec<(String, String, BTreeSet<String>)> {
    let document = read(&path("docs/metrics.md"));
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), cells[1].to_owned(), words(cells[2]).map(str::to_owned).collect())
    })
    .collect()
}

/// Every name as it stands in a query, with the name it is documented by and its labels.
fn in_queries() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut names = BTreeMap::new();
    for (name, kind, labels) in exposed() {
        let endings = if kind == "histogram" { ["_bucket", "_sum", "_count"].as_slice() } else { &[""] };
        names.extend(endings.iter().map(|ending| (format!("{name}{ending}"), (name.clone(), labels.clone()))));
    }
    assert!(names.len() > 40, "{names:?}");
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
    let names = in_queries();
    let mut known: BTreeSet<&str> = OF_PROMETHEUS.iter().copied().collect();
    let mut named = 0;
    for name in words(query).filter_map(|word| word.strip_prefix("twitter_updater_")) {
        named += 1;
        exists(name, names.contains_key(name));
        known.extend(names[name].1.iter().map(String::as_str));
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
        let rings = ["}", ","].map(|rest| format!("{{alertname=\"{name}\"{rest}"));
        assert!(rings.iter().any(|rings| cases.contains(rings)), "alerts_test.yaml has no case for {name}");
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
    let names = in_queries();
    let shown: BTreeSet<&str> = shown.iter().map(|name| names[name].0.as_str()).collect();
    for (name, ..) in exposed() {
        assert!(shown.contains(&*name) || name == "build_info", "the dashboard does not show {name}");
    }
}
