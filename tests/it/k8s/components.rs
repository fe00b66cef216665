//! The components that collect more than posts: their settings are good, and what KEDA asks for is there.

use serde_json::Value;
use twitter_updater::config::Settings;
use twitter_updater::pipelines::kind::RegisteredPipeline;
use twitter_updater::pipelines::registry::Registry;

use super::{Kustomization, documents, list, path, text};

/// The settings with that component, and the namespaces of what is collected then.
fn with(component: &str) -> (Settings, Vec<String>) {
    let settings = Kustomization::of(&format!("components/{component}")).settings;
    let files: Vec<&str> = settings.values().map(String::as_str).collect();
    let settings = Settings::load_with(&files, None, &[]).unwrap();
    let pipelines = Registry::default().pipelines(&settings).unwrap();
    let namespaces = pipelines.iter().map(RegisteredPipeline::namespace).collect();
    (settings, namespaces)
}

/// The namespaces that KEDA asks for with that component.
fn asked(component: &str) -> Vec<String> {
    let [scaled] = documents(&path("k8s/components/keda/scaledobject.yaml")).try_into().unwrap();
    let mut addresses: Vec<String> =
        list(&scaled, "/spec/triggers").map(|trigger| text(trigger, "/metadata/url").to_owned()).collect();
    let [kustomization] =
        documents(&path(&format!("k8s/components/{component}/kustomization.yaml"))).try_into().unwrap();
    let of_keda = |patch: &&Value| patch.pointer("/target/kind").is_some_and(|kind| kind == "ScaledObject");
    for patch in list(&kustomization, "/patches").filter(of_keda) {
        assert_eq!(text(patch, "/target/name"), text(&scaled, "/metadata/name"));
        let operations: Value = serde_saphyr::from_str(text(patch, "/patch")).unwrap();
        for operation in operations.as_array().unwrap() {
            assert_eq!((text(operation, "/op"), text(operation, "/path")), ("add", "/spec/triggers/-"));
            addresses.push(text(operation, "/value/metadata/url").to_owned());
        }
    }
    let namespace = |address: &String| address.split_once("/status?namespace=").unwrap().1.to_owned();
    addresses.iter().map(namespace).collect()
}

/// Accounts are looked up in as many calls as posts, so that they scale as well.
#[test]
fn accounts_are_collected_and_keda_asks_for_each_namespace() {
    let (settings, namespaces) = with("accounts");
    assert!(settings.accounts.collect);
    assert_eq!(namespaces, ["tweet:update", "profiles:twitter"]);
    assert_eq!(asked("accounts"), ["tweet:update", "tweet:update", "profiles:twitter"]);
}

/// The others scale nothing: KEDA asks for the posts alone, by name, since there is more than one namespace.
#[test]
fn what_scales_nothing_is_collected_and_keda_asks_for_the_posts() {
    for (component, more) in [
        ("media", &["media:twitter"][..]),
        ("relations", &["followers:twitter"]),
        ("visits", &["visits:twitter"]),
        ("community", &["profiles:twitter", "visits:twitter", "community:twitter:pt-pt"]),
    ] {
        let (settings, namespaces) = with(component);
        assert!(namespaces[0] == "tweet:update" && namespaces[1..] == *more, "{component}: {namespaces:?}");
        assert_eq!(asked(component), ["tweet:update"; 2], "{component}");
        settings.visits.options().unwrap();
    }
}
