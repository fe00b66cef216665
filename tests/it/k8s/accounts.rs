//! The components of accounts and of lists: their settings, and what KEDA asks for with it.

use serde_json::Value;
use twitter_updater::config::Settings;
use twitter_updater::pipelines::kind::Registered;
use twitter_updater::pipelines::registry::Registry;

use super::{Kustomization, documents, list, path, text};

/// The namespaces that KEDA asks for with that component.
fn asked(component: &str) -> Vec<String> {
    let [kustomization] =
        documents(&path(&format!("k8s/components/{component}/kustomization.yaml"))).try_into().unwrap();
    let [scaled] = documents(&path("k8s/components/keda/scaledobject.yaml")).try_into().unwrap();
    let mut asked = Vec::new();
    for patch in list(&kustomization, "/patches") {
        assert_eq!(
            (text(patch, "/target/kind"), text(patch, "/target/name")),
            ("ScaledObject", text(&scaled, "/metadata/name"))
        );
        let operations: Value = serde_saphyr::from_str(text(patch, "/patch")).unwrap();
        for operation in operations.as_array().unwrap() {
            let place = text(operation, "/path");
            let is_there = scaled.pointer(place.trim_end_matches("/-")).is_some();
            assert!(is_there, "{place}: the ScaledObject has no such place");
            let url = operation["value"].as_str().unwrap_or_else(|| text(operation, "/value/metadata/url"));
            let before = text(&scaled, "/spec/triggers/0/metadata/url");
            asked.push(url.strip_prefix(before).and_then(|rest| rest.strip_prefix("?namespace=")).unwrap().to_owned());
        }
    }
    asked
}

#[test]
fn accounts_are_collected_and_keda_asks_for_each_namespace() {
    let settings = Kustomization::of("components/accounts").settings;
    let files: Vec<&str> = settings.values().map(String::as_str).collect();
    let settings = Settings::load_with(&files, None, &[]).unwrap();
    assert!(settings.accounts.collect);
    let pipelines = Registry::default().pipelines(&settings).unwrap();
    let mut namespaces: Vec<String> = pipelines.iter().map(Registered::namespace).collect();

    let mut asked = asked("accounts");
    // Both triggers of the posts, and one of the accounts.
    assert_eq!(asked.len(), 3, "{asked:?}");
    asked.sort();
    asked.dedup();
    namespaces.sort();
    assert_eq!(asked, namespaces);
}

/// Lists scale nothing: KEDA asks for the posts alone.
#[test]
fn lists_are_collected_and_keda_asks_for_the_posts() {
    let settings = Kustomization::of("components/relations").settings;
    let files: Vec<&str> = settings.values().map(String::as_str).collect();
    let settings = Settings::load_with(&files, None, &[]).unwrap();
    let pipelines = Registry::default().pipelines(&settings).unwrap();
    let namespaces: Vec<String> = pipelines.iter().map(Registered::namespace).collect();
    assert_eq!(namespaces, ["tweet:update", "followers:twitter"]);
    assert_eq!(asked("relations"), ["tweet:update"; 2]);
}

/// A community scales nothing either.
#[test]
fn a_community_has_what_it_needs_and_keda_asks_for_the_posts() {
    let settings = Kustomization::of("components/community").settings;
    let files: Vec<&str> = settings.values().map(String::as_str).collect();
    let settings = Settings::load_with(&files, None, &[]).unwrap();
    let pipelines = Registry::default().pipelines(&settings).unwrap();
    let namespaces: Vec<String> = pipelines.iter().map(Registered::namespace).collect();
    assert_eq!(namespaces, ["tweet:update", "profiles:twitter", "visits:twitter", "community:twitter:pt-pt"]);
    assert_eq!(asked("community"), ["tweet:update"; 2]);
}
