//! Network policies of every manifest: open rules leave out cloud metadata, and monitoring reaches its own port alone.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::roles::selects;
use super::{documents, list, path, text};
use crate::support::files;

/// Addresses that no rule for "everywhere" may open: metadata services, links, and NAT64, which leads to the IPv4 ones.
const NEVER: [&str; 14] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2:ffff::1",
    "fd20:ce::254",
    "fe80::1",
    "febf::1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::a00:1",
    "64:ff9b:1::a9fe:a9fe",
];
/// Private addresses, which the roles' way to the internet does not need either.
const PRIVATE: [&str; 6] = ["10.0.0.1", "100.64.0.1", "172.16.0.1", "192.168.0.1", "fc00::1", "fdff::1"];

/// Every policy below k8s/, with its file and name.
fn policies() -> Vec<(String, Value)> {
    let files = files::ending_in(&["yaml"], &path("k8s"));
    let all = files.iter().flat_map(|file| {
        let of_file = documents(file).into_iter().filter(|object| object["kind"] == "NetworkPolicy");
        of_file.map(move |policy| (format!("{} {}", file.display(), text(&policy, "/metadata/name")), policy))
    });
    let all: Vec<_> = all.collect();
    assert!(all.len() >= 12, "{}", all.len());
    all
}

/// Returns true if the block, like 10.0.0.0/8, has that address.
fn has(block: &str, address: IpAddr) -> bool {
    let (network, length) = block.split_once('/').unwrap();
    let length: u32 = length.parse().unwrap();
    match (network.parse().unwrap(), address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[test]
fn no_rule_for_everywhere_opens_cloud_metadata() {
    let (mut open, mut checked) = (0, 0);
    for (name, policy) in policies() {
        for rule in list(&policy, "/spec/egress") {
            // A rule without addresses allows all of them.
            assert!(list(rule, "/to").count() > 0, "{name}: an egress rule without `to`");
            let to_the_internet = list(rule, "/ports").any(|port| port["port"] == 443);
            for block in list(rule, "/to").filter_map(|peer| peer.get("ipBlock")) {
                let cidr = text(block, "/cidr");
                open += 1;
                let left_out =
                    |address: IpAddr| list(block, "/except").any(|part| has(part.as_str().unwrap(), address));
                let private = PRIVATE.iter().filter(|_| to_the_internet);
                for address in NEVER.iter().chain(private) {
                    let address: IpAddr = address.parse().unwrap();
                    if has(cidr, address) {
                        assert!(left_out(address), "{name}: {cidr} opens {address}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(open >= 8 && checked >= 4 * (NEVER.len() - 1), "{open} {checked}");
}

#[test]
fn scrapers_reach_the_port_of_metrics_alone() {
    let mut rules = 0;
    for scraper in ["monitoring", "keda"] {
        let (space, pod) = (json!({ "kubernetes.io/metadata.name": scraper }), json!({ "app": "scraper" }));
        for (name, policy) in policies() {
            for rule in list(&policy, "/spec/ingress") {
                assert!(list(rule, "/from").count() > 0, "{name}: an ingress rule without `from`");
                let lets_in = list(rule, "/from").any(|peer| {
                    let is_space = peer.get("namespaceSelector").is_some_and(|spaces| selects(spaces, &space));
                    is_space && peer.get("podSelector").is_none_or(|pods| selects(pods, &pod))
                });
                if lets_in {
                    let ports: Vec<_> = list(rule, "/ports").map(|port| text(port, "/port")).collect();
                    assert_eq!(ports, ["metrics"], "{name}: open to {scraper}");
                    rules += 1;
                }
            }
        }
    }
    assert!(rules >= 3, "{rules}");
}
