//! The binary, as its users meet it: what it prints and where, what it exits with, how it stops.

mod check;
mod clear_text;
mod command_line;
mod configuration;
mod credentials;
mod dead;
mod demo;
mod errors;
mod export;
mod files;
mod forget;
mod hangup;
mod hidden;
mod incoming;
mod masked;
mod networks;
mod one_core;
mod pause;
mod providers;
mod prune;
mod readme;
mod rebuild;
mod refresh;
mod schedule;
mod secrets;
mod services;
mod shared_folder;
mod simulator;
mod status;
mod steering;
mod stop;
mod stopped;
mod tuning;
mod unchecked;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;

use crate::support::process::{Variables, run, text, variables};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// A folder with everything in one embedded file.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with this in it, which may be a secret; its path as an argument.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn settings(&self, more: &[(&str, &str)]) -> Variables {
        let file = self.path("home.db");
        let file = file.to_str().unwrap();
        // The API is not Twitter's, so nothing needs a credential.
        let own = [("queue.embedded.path", file), ("store.sqlite.path", file), ("twitter.api", "http://127.0.0.1:9")];
        variables(&[&own, more].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(arguments, &self.settings(&[]))
    }

    fn status(&self) -> Value {
        status(&self.settings(&[]))
    }
}

fn status(settings: &Variables) -> Value {
    let output = run(&["status", "--json"], settings);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A tweet's id, made so long ago; never one that ends in 00.
fn id_aged(age: i64, number: u32) -> String {
    let id = TweetId::at(wall_ms() - age, 2 * number).to_string();
    if id.ends_with("00") { TweetId::at(wall_ms() - age, 2 * number + 1).to_string() } else { id }
}

/// So many ids of young tweets, all different.
fn young(count: u32) -> Vec<String> {
    let made = wall_ms() - MINUTE;
    (0..count).map(|number| TweetId::at(made, number).to_string()).collect()
}

/// Everything it said is one line, which holds this.
fn says_one_line(output: &Output, code: i32, holds: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("twitter-updater: ") && said.contains(holds), "{holds:?} is not in: {said}");
}

/// The log so far.
fn log_text(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}
