//! The README's first five minutes, as they are pasted.

use super::*;
use crate::support::port::Port;
use crate::support::process::command_of;

const README: &str = include_str!("../../../README.md");

#[test]
fn its_five_minutes_work() {
    let home = Home::new();
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_twitter-updater"), bin.join("twitter-updater")).unwrap();
    let part = README.split_once("## Five minutes").unwrap().1.split_once("\n## ").unwrap().0;
    let blocks: Vec<&str> = part.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0).collect();
    assert_eq!(blocks.len(), 3);
    let port = Port::take();
    let script = format!(
        "set -eu\ntrap 'kill $(jobs -p)' EXIT\n{}\n{}\ntwitter-updater enqueue --once ids.txt\n",
        blocks.concat(),
        "wc -l posts.csv metrics.csv posts.ndjson"
    )
    .replace("8090", &port.address().port().to_string());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut bash = command_of(std::path::Path::new("bash"), &vec![]);
    let output = bash.args(["-c", &script]).current_dir(home.folder.path()).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let lines = |name: &str| std::fs::read_to_string(home.path(name)).unwrap().lines().count();
    // Some of the simulated posts are missing; the others have been looked up.
    assert!(lines("posts.ndjson") > 80, "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(lines("metrics.csv") >= lines("posts.ndjson"));
    assert!(lines("posts.csv") > 100, "each, and the header");
}

/// `make test` installs its services by this script.
#[test]
fn without_apt_get_or_sudo_the_installer_names_the_missing_packages() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    symlink("/bin/bash", folder.path().join("bash")).unwrap();
    let stub = |name: &str, script: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    };
    let install = || {
        let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/install");
        let mut command = std::process::Command::new("/bin/bash");
        let output = command.arg(script).args(["redis-server", "tidy"]).env("PATH", folder.path()).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    stub("id", "echo 1000");
    let remedy = "install these packages of Debian, or their equivalents, and run this again: redis-server tidy\n";
    assert_eq!(install(), (Some(1), format!("there is no apt-get: {remedy}")));
    stub("apt-get", "exit 100");
    assert_eq!(install(), (Some(1), format!("there is no sudo, and only root may install packages: {remedy}")));
    stub("sudo", "exec \"$@\"");
    stub("env", "shift; exec \"$@\"");
    assert_eq!(install(), (Some(1), format!("installing redis-server tidy\napt-get failed: {remedy}")));
    stub("apt-get", "exit 0");
    assert_eq!(install(), (Some(0), "installing redis-server tidy\n".to_owned()));
}
