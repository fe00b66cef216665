//! The component of visits: its settings are good, and KEDA asks for a namespace that there is.

use twitter_updater::config::Settings;
use twitter_updater::pipelines::kind::Registered;
use twitter_updater::pipelines::registry::Registry;

use super::{Kustomization, documents, list, path, text};

#[test]
fn followed_accounts_are_visited_and_keda_asks_for_one_namespace() {
    let settings = Kustomization::of("components/visits").settings;
    let files: Vec<&str> = settings.values().map(String::as_str).collect();
    let settings = Settings::load_with(&files, None, &[]).unwrap();
    assert!(settings.visits.collect);
    settings.visits.options().unwrap();
    let pipelines = Registry::default().pipelines(&settings).unwrap();
    let namespaces: Vec<String> = pipelines.iter().map(Registered::namespace).collect();
    assert_eq!(namespaces, ["tweet:update", "visits:twitter"]);
    let [kustomization] = documents(&path("k8s/components/visits/kustomization.yaml")).try_into().unwrap();
    for patch in list(&kustomization, "/patches") {
        let operations: serde_json::Value = serde_saphyr::from_str(text(patch, "/patch")).unwrap();
        for operation in operations.as_array().unwrap() {
            let (_, namespace) = operation["value"].as_str().unwrap().split_once("?namespace=").unwrap();
            assert!(namespaces.iter().any(|name| name == namespace), "{namespace}");
        }
    }
}
