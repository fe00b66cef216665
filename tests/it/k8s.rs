//! The manifests, the image and their document say what the code does: settings, arguments, ports, paths,
//! metrics. What outside tools have to say of them is `make lint`'s.

mod components;
mod docs;
mod image;
mod media;
mod metrics;
mod policies;
mod reach;
mod redis;
mod roles;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Holds a thing that the manifests name to the code.
fn exists(thing: &str, is_there: bool) {
    assert!(is_there, "{thing}: named by the manifests, unknown to the code");
}

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The documents of a YAML file.
fn documents(file: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The entries of a list, or none.
fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer} is no text in {value}"))
}

/// What a kustomization puts together, before its patches: enough to hold names to each other.
#[derive(Default)]
struct Kustomization {
    objects: Vec<Value>,
    /// The files of the ConfigMap with the settings, by their names, which is their order.
    settings: BTreeMap<String, String>,
    /// Secrets by name, each with its keys and values.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Kustomization {
    /// Of a folder below k8s/.
    fn of(folder: &str) -> Self {
        let mut all = Self::default();
        all.add(&path("k8s").join(folder));
        all
    }

    fn add(&mut self, folder: &Path) {
        let [kustomization] = documents(&folder.join("kustomization.yaml")).try_into().unwrap();
        for entry in list(&kustomization, "/resources").chain(list(&kustomization, "/components")) {
            let entry = folder.join(entry.as_str().unwrap());
            if entry.is_dir() {
                self.add(&entry);
            } else {
                self.objects.extend(documents(&entry));
            }
        }
        let settings = |generator: &&Value| text(generator, "/name") == "twitter-updater";
        for generator in list(&kustomization, "/configMapGenerator").filter(settings) {
            assert_eq!(generator.pointer("/options/disableNameSuffixHash"), Some(&Value::Bool(true)), "{folder:?}");
            for file in list(generator, "/files") {
                let file = file.as_str().unwrap();
                let (key, file) = file.split_once('=').unwrap_or((file, file));
                self.settings.insert(key.to_owned(), read(&folder.join(file)));
            }
        }
        for generator in list(&kustomization, "/secretGenerator") {
            let literals =
                list(generator, "/literals").map(|literal| literal.as_str().unwrap().split_once('=').unwrap());
            let secret = literals.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            self.secrets.insert(text(generator, "/name").to_owned(), secret);
        }
    }

    /// With the Secrets that are made by hand, as their example shows them.
    fn with_secrets_by_hand(mut self) -> Self {
        for secret in documents(&path("k8s/base/secret.example.yaml")) {
            let entries = secret["stringData"].as_object().unwrap().iter();
            let entries = entries.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
            self.secrets.insert(text(&secret, "/metadata/name").to_owned(), entries);
        }
        self
    }

    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    /// Every pod's template, with the name of what makes it.
    fn pods(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().filter_map(|object| {
            let template =
                object.pointer("/spec/template").or_else(|| object.pointer("/spec/jobTemplate/spec/template"));
            Some((text(object, "/metadata/name"), template?))
        })
    }

    /// Every container of the image that is ours, with its pod.
    fn ours(&self) -> impl Iterator<Item = (&str, &Value, &Value)> {
        self.pods().flat_map(|(name, pod)| {
            let containers = list(pod, "/spec/containers").filter(|container| container["image"] == "twitter-updater");
            containers.map(move |container| (name, pod, container))
        })
    }
}

/// Those that run by themselves: in the one everything is there, in the other what somebody has.
fn overlays() -> [(&'static str, Kustomization); 2] {
    [("dev", Kustomization::of("overlays/dev")), ("prod", Kustomization::of("overlays/prod").with_secrets_by_hand())]
}

/// Everything once.
fn everything() -> Kustomization {
    let mut all = Kustomization::of("overlays/dev"); // with the Redis
    all.objects.extend(documents(&path("k8s/overlays/prod/hpa.yaml")));
    let components = ["accounts", "community", "keda", "media", "monitoring", "poll", "relations", "visits"];
    for component in components.map(|component| format!("components/{component}")) {
        let component = Kustomization::of(&component);
        all.objects.extend(component.objects);
        all.settings.extend(component.settings);
    }
    all
}
