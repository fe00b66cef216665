//! docs/kubernetes.md names folders, objects and commands that there are.

use clap::CommandFactory;
use serde_json::Value;
use twitter_updater::app::cli::Cli;

use super::{Kustomization, everything, exists, path, read, text};

fn document() -> String {
    read(&path("docs/kubernetes.md"))
}

/// The lines of its code blocks, comments apart.
fn commands(document: &str) -> impl Iterator<Item = &str> {
    let blocks = document.split("```").skip(1).step_by(2).flat_map(str::lines);
    blocks.map(str::trim).filter(|line| !line.starts_with('#'))
}

/// What follows each of these texts, up to the end of the word.
fn after<'a>(document: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    document.split(before).skip(1).map(move |rest| rest.split(|c| !is_part(c)).next().unwrap_or_default())
}

#[test]
fn folders_and_files_exist() {
    let document = document();
    let mut named = 0;
    for place in after(&document, "k8s/") {
        let place = place.trim_end_matches('.');
        assert!(path("k8s").join(place).exists(), "there is no k8s/{place}");
        named += 1;
    }
    assert!(named >= 8, "{named}");
}

#[test]
fn objects_exist() {
    let document = document();
    let all = everything();
    let by_hand = Kustomization::of("overlays/prod").with_secrets_by_hand();
    let mut named = 0;
    for (short, kind) in [
        ("deploy/", "Deployment"),
        ("statefulset/", "StatefulSet"),
        ("service/", "Service"),
        ("job/", "Job"),
        ("cronjob/", "CronJob"),
    ] {
        let words = commands(&document).flat_map(|line| line.split([' ', '=']));
        for name in words.filter_map(|word| word.strip_prefix(short)) {
            let is_it = |object: &&Value| object["kind"] == kind && text(object, "/metadata/name") == name;
            assert!(all.objects.iter().any(|object| is_it(&object)), "there is no {short}{name}");
            named += 1;
        }
    }
    for name in commands(&document).flat_map(|line| after(line, "create secret generic ")) {
        assert!(by_hand.secrets.contains_key(name) || name == "redis-passwords", "nobody reads a Secret {name}");
    }
    assert!(named >= 8, "{named}");
}

#[test]
fn commands_of_the_binary_exist() {
    let document = document();
    let mut named = 0;
    for line in commands(&document).filter(|line| line.contains("-- twitter-updater ")) {
        let command = after(line, "-- twitter-updater ").next().unwrap();
        exists(command, Cli::command().find_subcommand(command).is_some());
        named += 1;
    }
    assert!(named >= 2, "{named}");
}
