//! What may reach what, as the network policies have it, beside what each role connects to.

use std::collections::BTreeSet;

use serde_json::Value;

use super::roles::selects;
use super::{Kustomization, everything, list, text};

/// Of a pod: who it is, its labels, and what it opens.
struct Place<'a> {
    name: &'a str,
    labels: &'a Value,
    pod: &'a Value,
}

impl Place<'_> {
    /// The number of a port that a policy names, or gives.
    fn port(&self, port: &Value) -> Option<u64> {
        port.as_u64().or_else(|| self.ports().find(|(name, _)| port == *name).map(|(_, number)| number))
    }

    fn ports(&self) -> impl Iterator<Item = (&Value, u64)> {
        let ports = list(self.pod, "/spec/containers").flat_map(|container| list(container, "/ports"));
        ports.map(|port| (&port["name"], port["containerPort"].as_u64().unwrap()))
    }
}

/// Whether policies let that pod talk to the other one, in that direction, at that port of whoever listens.
fn lets(all: &Kustomization, way: &str, of: &Place<'_>, other: &Place<'_>, listener: &Place<'_>, port: u64) -> bool {
    let (kind, peers) = if way == "Ingress" { ("/spec/ingress", "/from") } else { ("/spec/egress", "/to") };
    let mut policies = all
        .of_kind("NetworkPolicy")
        .filter(|policy| selects(&policy["spec"]["podSelector"], of.labels))
        .filter(|policy| list(policy, "/spec/policyTypes").any(|kind| kind == way))
        .peekable();
    assert!(policies.peek().is_some(), "{}: no policy is about its {way}", of.name);
    let is_peer = |peer: &Value| {
        // An address of a pod is private, and those are left out of every block.
        let is_block = peer.get("ipBlock").is_some();
        let here = serde_json::json!({ "kubernetes.io/metadata.name": "twitter-updater" });
        let is_here = peer.get("namespaceSelector").is_none_or(|spaces| selects(spaces, &here));
        !is_block && is_here && peer.get("podSelector").is_none_or(|pods| selects(pods, other.labels))
    };
    policies.any(|policy| {
        list(policy, kind).any(|rule| {
            let at_port = rule.get("ports").is_none()
                || list(rule, "/ports").any(|allowed| listener.port(&allowed["port"]) == Some(port));
            at_port && (rule.get(&peers[1..]).is_none() || list(rule, peers).any(is_peer))
        })
    })
}

/// What a container connects to: by its variables, and the API where it calls it.
fn needs(name: &str, container: &Value) -> BTreeSet<String> {
    let variables: Vec<&str> = list(container, "/env").map(|variable| text(variable, "/name")).collect();
    let mut needs = BTreeSet::new();
    for (variable, service) in [
        ("TWITTER_UPDATER__QUEUE__REDIS__URL", "redis:6379"),
        ("TWITTER_UPDATER__STORE__POSTGRES__URL", "postgres:5432"),
    ] {
        if variables.contains(&variable) {
            needs.insert(service.to_owned());
        }
    }
    if ["updater", "poll"].contains(&name) {
        needs.insert("simulator:8080".to_owned());
    }
    needs
}

#[test]
fn each_role_reaches_what_it_connects_to_and_nothing_else() {
    let all = everything();
    let places: Vec<Place<'_>> =
        all.pods().map(|(name, pod)| Place { name, labels: &pod["metadata"]["labels"], pod }).collect();
    let mut table = BTreeSet::new();
    for from in &places {
        for to in &places {
            for (_, port) in to.ports() {
                if lets(&all, "Egress", from, to, to, port) && lets(&all, "Ingress", to, from, to, port) {
                    table.insert(format!("{} → {}:{port}", from.name, to.name));
                }
            }
        }
    }
    let mut wanted = BTreeSet::new();
    for (name, _, container) in all.ours() {
        wanted.extend(needs(name, container).iter().map(|service| format!("{name} → {service}")));
    }
    println!("{table:#?}");
    assert!(wanted.len() >= 12, "{wanted:?}");
    assert_eq!(table, wanted);
}
