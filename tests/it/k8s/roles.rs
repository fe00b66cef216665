//! What runs: arguments, variables, files, ports, paths, and who may reach whom.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::CommandFactory;
use serde_json::Value;
use twitter_updater::app::cli::Cli;
use twitter_updater::config::{ENVIRONMENT_PREFIX, Settings};

use super::{Kustomization, everything, exists, list, overlays, read, text};
use crate::support::process;

/// A variable as a setting's key.
fn key(variable: &str) -> Option<String> {
    Some(variable.strip_prefix(ENVIRONMENT_PREFIX)?.strip_prefix("__")?.to_lowercase().replace("__", "."))
}

/// The settings that a container runs with.
fn settings(overlay: &Kustomization, container: &Value) -> Settings {
    let mut variables = Vec::new();
    for variable in list(container, "/env") {
        let name = text(variable, "/name");
        let value = match variable.pointer("/valueFrom/secretKeyRef") {
            None => text(variable, "/value"),
            Some(reference) => {
                let secret = &overlay.secrets[text(reference, "/name")];
                match secret.get(text(reference, "/key")) {
                    Some(value) => value,
                    None if reference["optional"] == true => continue,
                    None => panic!("no Secret has what {name} asks for: {reference}"),
                }
            }
        };
        let key = key(name).unwrap_or_else(|| panic!("{name} is nothing that the binary reads"));
        exists(&key, Settings::load_with(&[], None, &[(name, value)]).is_ok());
        variables.push((name, value));
    }
    let files: Vec<&str> = overlay.settings.values().map(String::as_str).collect();
    Settings::load_with(&files, None, &variables).unwrap()
}

#[test]
fn every_container_runs_with_settings_that_load() {
    for (name, overlay) in overlays() {
        assert!(overlay.settings.len() >= 3, "{name}: {:?}", overlay.settings.keys());
        for (_, pod, container) in overlay.ours() {
            let settings = settings(&overlay, container);
            if container["name"] == "simulator" {
                continue; // has no settings file
            }
            assert!(
                settings.masked_toml().contains("backend = \"redis\"")
                    && settings.masked_toml().contains("format = \"json\"")
            );
            let grace = pod.pointer("/spec/terminationGracePeriodSeconds").map_or(30, |grace| grace.as_u64().unwrap());
            assert!(
                Duration::from_secs(grace) > settings.updater.drain_deadline + Duration::from_secs(5),
                "{name}: {grace}s are not enough to stop in"
            );
        }
    }
}

#[test]
fn the_ages_may_be_tuned_alone() {
    for (_, overlay) in overlays() {
        let tuned = Settings::load_with(&[&overlay.settings["20-tweet-age.toml"]], None, &[]).unwrap();
        assert_eq!(tuned.tweet_age.to_string(), Settings::load_with(&[], None, &[]).unwrap().tweet_age.to_string());
    }
}

#[test]
fn files_of_secrets_are_where_they_are_mounted() {
    let overlay = Kustomization::of("overlays/prod").with_secrets_by_hand();
    let (_, pod, updater) = overlay.ours().find(|(name, ..)| *name == "updater").unwrap();
    let settings = settings(&overlay, updater);
    let file = &settings.twitter.bearer_token_file;
    let mount = list(updater, "/volumeMounts").find(|mount| file.starts_with(text(mount, "/mountPath"))).unwrap();
    let volume = list(pod, "/spec/volumes").find(|volume| volume["name"] == mount["name"]).unwrap();
    let key = file.file_name().unwrap().to_str().unwrap();
    assert!(overlay.secrets[text(volume, "/secret/secretName")].contains_key(key), "{file:?} is in no Secret");
    // The simulator of the other overlay asks for none, and gets none.
    let dev = Kustomization::of("overlays/dev");
    assert!(dev.secrets.keys().all(|secret| secret != text(volume, "/secret/secretName")));
    assert_eq!(volume.pointer("/secret/optional"), Some(&Value::Bool(true)));
}

/// Tokens come from mounted files, so that a change of the Secret reaches the process, and none can be guessed.
#[test]
fn tokens_of_clients_are_mounted_and_long_enough() {
    let mut found = Vec::new();
    for (overlay_name, overlay) in overlays() {
        for role in ["starter", "ops"] {
            let (_, pod, container) = overlay.ours().find(|(name, ..)| *name == role).unwrap();
            let settings = settings(&overlay, container);
            let file = match role {
                "starter" => settings.starter.bearer_token_file,
                _ => settings.ops.token_file,
            };
            if file.as_os_str().is_empty() {
                continue;
            }
            let mount = list(container, "/volumeMounts").find(|mount| file.starts_with(text(mount, "/mountPath")));
            let mount = mount.unwrap_or_else(|| panic!("{role}: {file:?} is not mounted"));
            assert_eq!(mount.get("subPath"), None, "{role}: it would never change");
            let volume = list(pod, "/spec/volumes").find(|volume| volume["name"] == mount["name"]).unwrap();
            let path = file.file_name().unwrap().to_str().unwrap();
            let item = list(volume, "/secret/items").find(|item| text(item, "/path") == path).unwrap();
            let token = &overlay.secrets[text(volume, "/secret/secretName")][text(item, "/key")];
            let variable = format!("{ENVIRONMENT_PREFIX}__OPS__TOKEN");
            let with_token = Settings::load_with(&[], None, &[(&*variable, &**token)]).unwrap();
            assert!(with_token.ops_token().unwrap().is_some(), "{overlay_name} {role}");
            found.push(format!("{overlay_name} {role}"));
        }
    }
    assert_eq!(found, ["dev starter", "prod starter", "prod ops"]);
}

/// A secret that everybody may read is warned of by every role that reads it.
#[test]
fn mounted_secrets_are_not_for_everybody() {
    let mut mounted = 0;
    for (name, pod, _) in everything().ours() {
        for volume in list(pod, "/spec/volumes").filter(|volume| volume.get("secret").is_some()) {
            assert!(volume.pointer("/secret/defaultMode").is_some(), "{name}: 0644 is what it has without a mode");
            mounted += 1;
        }
    }
    assert!(mounted >= 2, "{mounted}");
    for file in ["k8s/base/updater.yaml", "k8s/components/poll/poll.yaml"] {
        let manifest = read(&super::path(file));
        let modes: Vec<&str> = manifest.lines().filter_map(|line| line.trim().strip_prefix("defaultMode: ")).collect();
        assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == "0440"), "{file}: {modes:?}");
    }
}

#[test]
fn every_argument_is_one_of_the_command_line() {
    let mut run = BTreeSet::new();
    for (name, _, container) in everything().ours() {
        let arguments: Vec<&str> = list(container, "/args").map(|argument| argument.as_str().unwrap()).collect();
        let command = Cli::command();
        let line = std::iter::once("twitter-updater").chain(arguments.iter().copied());
        command.try_get_matches_from(line).unwrap_or_else(|error| panic!("{name}: {error}"));
        let config = arguments.iter().position(|argument| *argument == "--config").map(|at| arguments[at + 1]);
        let mount = list(container, "/volumeMounts").find(|mount| mount["name"] == "settings");
        assert_eq!(config, mount.map(|mount| text(mount, "/mountPath")), "{name}");
        // A file mounted by itself would never change again.
        assert!(mount.is_none_or(|mount| mount.get("subPath").is_none()), "{name}");
        run.insert(arguments[0].to_owned());
    }
    assert_eq!(run, ["migrate", "ops", "poll", "rebuild", "simulator", "starter", "updater"].map(str::to_owned).into());
}

/// The ports at which a container serves, by the names that the manifests give them.
fn served(container: &Value) -> BTreeSet<(&'static str, u64)> {
    let number = |listen: &str| -> u64 {
        listen.strip_prefix("0.0.0.0:").unwrap_or_else(|| panic!("a probe cannot reach {listen}")).parse().unwrap()
    };
    let variable = |name: &str| {
        let variable = list(container, "/env").find(|variable| variable["name"] == name)?;
        Some(text(variable, "/value"))
    };
    let arguments: Vec<_> = list(container, "/args").collect();
    let option = arguments.windows(2).find(|pair| pair[0] == "--listen").map(|pair| pair[1].as_str().unwrap());
    let http = variable("TWITTER_UPDATER__HTTP__LISTEN").or(option).map(|listen| ("http", number(listen)));
    let metrics = variable("TWITTER_UPDATER__HTTP__METRICS_LISTEN").map(|listen| ("metrics", number(listen)));
    http.into_iter().chain(metrics).collect()
}

/// Whether the sources name it as a route.
fn is_route(path: &str) -> bool {
    let quoted = format!("\"{path}\"");
    crate::support::files::source_files(&["rs"]).iter().any(|file| read(file).contains(&quoted))
}

#[test]
fn probes_ask_paths_that_are_served_at_ports_that_are_open() {
    let mut probed = 0;
    for (name, _, container) in everything().ours() {
        let open = list(container, "/ports").map(|port| (text(port, "/name"), port["containerPort"].as_u64().unwrap()));
        assert_eq!(open.collect::<BTreeSet<_>>(), served(container), "{name}");
        // Each role that is scraped has a port for that alone.
        let is_scraped = ["updater", "poll", "starter", "ops"].contains(&name);
        assert_eq!(served(container).iter().any(|(port, _)| *port == "metrics"), is_scraped, "{name}");
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if let Some(get) = container.pointer(&format!("/{probe}/httpGet")) {
                assert!(served(container).iter().any(|(port, _)| get["port"] == *port), "{name} {probe}");
                exists(text(get, "/path"), is_route(text(get, "/path")));
                probed += 1;
            }
        }
    }
    assert!(probed >= 11, "{probed}");
}

/// Whether a pod carries the labels that a selector asks for.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    wanted.is_none_or(|wanted| wanted.iter().all(|(label, value)| labels.get(label) == Some(value)))
        && list(selector, "/matchExpressions").all(|expression| {
            assert_eq!(expression["operator"], "In");
            list(expression, "/values").any(|value| labels.get(text(expression, "/key")) == Some(value))
        })
}

fn has_port(pod: &Value, name: &Value) -> bool {
    list(pod, "/spec/containers").flat_map(|container| list(container, "/ports")).any(|port| port["name"] == *name)
}

#[test]
fn every_selector_finds_its_pods_and_every_port_is_one_of_theirs() {
    let all = everything();
    let pods: Vec<&Value> = all.pods().map(|(_, pod)| pod).collect();
    let found = |selector: &Value| -> Vec<&Value> {
        pods.iter().copied().filter(|pod| selects(selector, &pod["metadata"]["labels"])).collect()
    };
    for object in ["Deployment", "StatefulSet", "PodDisruptionBudget"].iter().flat_map(|kind| all.of_kind(kind)) {
        assert_eq!(found(&object["spec"]["selector"]).len(), 1, "{object}");
    }
    for service in all.of_kind("Service") {
        let pods = found(&serde_json::json!({ "matchLabels": service["spec"]["selector"] }));
        let ports: Vec<_> = list(service, "/spec/ports").map(|port| &port["targetPort"]).collect();
        assert!(pods.len() == 1 && ports.iter().all(|port| has_port(pods[0], port)), "{service}");
    }
    for policy in all.of_kind("NetworkPolicy") {
        let pods = found(&policy["spec"]["podSelector"]);
        assert!(!pods.is_empty(), "{policy}");
        for rule in list(policy, "/spec/ingress") {
            for port in list(rule, "/ports") {
                assert!(pods.iter().all(|pod| has_port(pod, &port["port"])), "{policy}");
            }
        }
    }
    for scaler in ["HorizontalPodAutoscaler", "ScaledObject"].iter().flat_map(|kind| all.of_kind(kind)) {
        let whom = text(scaler, "/spec/scaleTargetRef/name");
        assert!(all.of_kind("Deployment").any(|it| text(it, "/metadata/name") == whom), "{scaler}");
    }
    for monitor in all.of_kind("PodMonitor") {
        let pods = found(&monitor["spec"]["selector"]);
        assert_eq!(pods.len(), 4, "{monitor}");
        for endpoint in list(monitor, "/spec/podMetricsEndpoints") {
            assert!(pods.iter().all(|pod| has_port(pod, &endpoint["port"])), "{monitor}");
            exists(text(endpoint, "/path"), is_route(text(endpoint, "/path")));
        }
    }
}

#[test]
fn nodes_can_be_drained_while_no_pod_is_ready() {
    let all = everything();
    let budgets: Vec<&Value> = all.of_kind("PodDisruptionBudget").collect();
    assert_eq!(budgets.len(), 3);
    for budget in budgets {
        assert_eq!(text(budget, "/spec/unhealthyPodEvictionPolicy"), "AlwaysAllow", "{budget}");
    }
}

#[test]
fn addresses_name_services_that_there_are() {
    let all = everything();
    let is_served = |host: &str, port: u64| {
        all.of_kind("Service").any(|service| {
            text(service, "/metadata/name") == host && list(service, "/spec/ports").any(|it| it["port"] == port)
        })
    };
    let dev = Kustomization::of("overlays/dev");
    let (_, _, updater) = dev.ours().find(|(name, ..)| *name == "updater").unwrap();
    assert!(settings(&dev, updater).masked_toml().contains("api = \"http://simulator:8080\""));
    assert!(is_served("simulator", 8080));
    assert!(dev.secrets["twitter-updater"]["redis-url"].ends_with("@redis:6379") && is_served("redis", 6379));
    assert!(dev.secrets["twitter-updater"]["postgres-url"].contains("@postgres/") && is_served("postgres", 5432));
    let password = &dev.secrets["postgres"]["password"];
    assert!(dev.secrets["twitter-updater"]["postgres-url"].contains(&format!(":{password}@")));
    let password = &dev.secrets["redis-passwords"]["app"];
    assert!(dev.secrets["twitter-updater"]["redis-url"].contains(&format!("//app:{password}@")));
}

#[test]
fn the_autoscaler_asks_what_status_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let file = file.to_str().unwrap();
    let variables = process::variables(&[("queue.embedded.path", file), ("twitter.api", "http://127.0.0.1:9")]);
    process::run_with_input(&["enqueue", "--no-store"], &variables, b""); // makes the file
    let output = process::run(&["status", "--json"], &variables);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keda = Kustomization::of("components/keda");
    let scaled = keda.of_kind("ScaledObject").next().unwrap();
    let triggers: Vec<&Value> = list(scaled, "/spec/triggers").collect();
    assert_eq!(triggers.len(), 2);
    for trigger in triggers {
        let place = text(trigger, "/metadata/valueLocation");
        assert!(status[place].is_number(), "{place} is not in {status}");
        let (address, namespace) = text(trigger, "/metadata/url").split_once("?namespace=").unwrap();
        assert_eq!((address, &status["namespace"]), ("http://ops.twitter-updater.svc:9090/status", &namespace.into()));
    }
    exists("/status", is_route("/status"));
    let is_asked = |service: &Value| {
        text(service, "/metadata/name") == "ops" && list(service, "/spec/ports").any(|port| port["port"] == 9090)
    };
    assert!(everything().of_kind("Service").any(is_asked));
    assert_eq!(text(scaled, "/spec/scaleTargetRef/name"), "updater");
}
