//! The Dockerfile agrees with the crate and with the manifests.

use std::collections::BTreeMap;

use clap::CommandFactory;
use twitter_updater::app::cli::Cli;

use super::{Kustomization, exists, list, path, read};

/// The value of an instruction in the last stage, lines that go on joined.
fn instructions() -> BTreeMap<String, String> {
    let text = read(&path("Dockerfile")).replace("\\\n", " ");
    let last = text.rsplit_once("FROM scratch").unwrap().1;
    let lines = last.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()))
        .collect()
}

#[test]
fn the_version_is_the_crates() {
    let dockerfile = read(&path("Dockerfile"));
    assert!(dockerfile.contains(&format!("ARG VERSION={}\n", env!("CARGO_PKG_VERSION"))));
    let (_, rest) = dockerfile.split_once("library/rust:1.").unwrap();
    let minor: u32 = rest.split('-').next().unwrap().parse().unwrap();
    let needed: u32 = env!("CARGO_PKG_RUST_VERSION").split('.').nth(1).unwrap().parse().unwrap();
    assert!(minor >= needed, "Rust 1.{minor} cannot compile what needs 1.{needed}");
}

#[test]
fn it_runs_as_the_manifests_run_it() {
    let instructions = instructions();
    let user = instructions["USER"].split(':').next().unwrap().parse::<u64>().unwrap();
    for (name, pod, _) in Kustomization::of("base").ours() {
        assert_eq!(pod.pointer("/spec/securityContext/runAsUser").unwrap().as_u64(), Some(user), "{name}");
    }
    let port: u64 = instructions["EXPOSE"].parse().unwrap();
    for (name, _, container) in Kustomization::of("base").ours() {
        assert!(list(container, "/ports").all(|open| open["containerPort"] == port), "{name}");
    }
    assert_eq!(instructions["VOLUME"], instructions["WORKDIR"]);
    let (_, listen) = instructions["ENV"].split_once("TWITTER_UPDATER__HTTP__LISTEN=").unwrap();
    assert_eq!(listen, format!("0.0.0.0:{port}"));
}

#[test]
fn the_health_check_is_a_command_of_the_binary() {
    let (_, check) =
        instructions()["HEALTHCHECK"].split_once("CMD").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let words: Vec<String> = serde_json::from_str(check.trim()).unwrap();
    let entry: Vec<String> = serde_json::from_str(&instructions()["ENTRYPOINT"]).unwrap();
    assert_eq!(words[..1], entry);
    exists(&words[1], Cli::command().find_subcommand(&words[1]).is_some());
}
