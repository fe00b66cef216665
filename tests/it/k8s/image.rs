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
        let mut main = list(container, "/ports").filter(|open| open["name"] == "http");
        assert!(main.all(|open| open["containerPort"] == port), "{name}");
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

/// `make lint` compares the whole file with what `cargo metadata` says, and the image with its list.
#[test]
fn the_list_of_parts_is_of_these_crates_and_comes_with_the_image() {
    let parts: serde_json::Value = serde_json::from_str(&read(&path("licenses/sbom.cdx.json"))).unwrap();
    assert_eq!((&parts["bomFormat"], &parts["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let locked: toml::Table = read(&path("Cargo.lock")).parse().unwrap();
    let packages = locked["package"].as_array().unwrap().iter();
    let checksum = |package: &toml::Value| package.get("checksum").map(|sum| sum.as_str().unwrap().to_owned());
    let of = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
    let packages: BTreeMap<_, _> =
        packages.map(|package| ((of(package, "name"), of(package, "version")), checksum(package))).collect();
    let (mut names, licences) = (Vec::new(), read(&path("licenses/third-party.txt")));
    for part in list(&parts, "/components") {
        let (name, version) = (text(&part["name"]), text(&part["version"]));
        let sum = packages.get(&(name.clone(), version.clone())).unwrap_or_else(|| panic!("{name} {version}"));
        assert_eq!(*sum, Some(text(&part["hashes"][0]["content"])), "{name}: run .ci/sbom");
        let licence = text(&part["licenses"][0]["expression"]);
        assert!(licences.contains(&format!("{name} {version}: {licence}\n")), "{name}: run .ci/sbom");
        names.push(name);
    }
    for compiled_in in ["tokio", "rustls", "parquet", "object_store"] {
        assert!(names.iter().any(|name| name == compiled_in), "{compiled_in}");
    }
    assert!(!names.iter().any(|name| name == "proptest"), "a crate of tests");
    assert_eq!(instructions()["COPY"], "licenses LICENSE-APACHE LICENSE-MIT /usr/share/doc/twitter-updater/");
}

#[test]
fn the_image_of_a_release_needs_a_base_with_a_digest() {
    for base in ["", "docker.io/library/rust:1.95-slim-bookworm", "rust@sha256:12", "rust:1.95@sha256:"] {
        let output = std::process::Command::new(path(".ci/release-image")).args([base, "tag"]).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{base}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("name the base by its digest"), "{base}");
    }
}

#[test]
fn each_tool_of_another_registry_is_pinned_by_a_hash() {
    for file in std::fs::read_dir(path(".ci/requirements")).unwrap() {
        let text = read(&file.unwrap().path());
        let entries: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
        assert!(!entries.is_empty());
        for entry in entries {
            assert!(entry.contains("==") && entry.ends_with('\\'), "{entry}: its hashes follow");
        }
        assert!(text.contains("    --hash=sha256:"));
    }
    for tools in ["npm", "bluesky"] {
        let locked: serde_json::Value =
            serde_json::from_str(&read(&path(&format!(".ci/{tools}/package-lock.json")))).unwrap();
        for (name, package) in locked["packages"].as_object().unwrap().iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-")), "{name}");
        }
    }
    // Each script installs from these lists alone.
    for script in std::fs::read_dir(path(".ci")).unwrap() {
        let script = script.unwrap().path();
        if script.is_file() && script.file_name().unwrap() != "venv" {
            let text = read(&script);
            assert!(!text.contains("pip install") && !text.contains("npm install"), "{}", script.display());
        }
    }
}
