//! A disk that is full, under a SQLite file: a worker that cannot write its heartbeat looks like none, so the headline names
//! the disk, and is right again soon after there is room.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::disk::TinyDisk;
use crate::support::process::{Process, Variables, command, text, variables, wrap};
use crate::support::wait::until;

/// Time limit for the headline.
const BOUND: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(2);
/// Without a younger heartbeat, no worker is taken to run.
const OLD_HEARTBEAT_MS: i64 = 12_000;

/// The status, as a process on that disk reads it.
fn status(disk: &TinyDisk, settings: &Variables) -> Value {
    let said = wrap(disk.command(), &command(&["status", "--json"], settings)).output().unwrap();
    let status = serde_json::from_slice(&said.stdout);
    status.unwrap_or_else(|error| panic!("{error}: {}{}", text(&said.stdout), text(&said.stderr)))
}

/// State and sentence of its headline.
fn headline(status: &Value) -> (String, String) {
    let word = |name: &str| status["answer"][name].as_str().unwrap().to_owned();
    (word("state"), word("sentence"))
}

async fn is_named(queue: &str, store: &str) {
    let Some(disk) = TinyDisk::new(Command::new("env"), 48) else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions { calls_per_window: 0, missing_share: 0.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let place = |name: &str| match name.strip_prefix("full/") {
        Some(name) => disk.inside().join(name).display().to_string(),
        None => folder.path().join(name).display().to_string(),
    };
    let (queue, store, keys) = (place(queue), place(store), place("keys"));
    let settings = variables(&[
        ("queue.embedded.path", &*queue),
        ("store.sqlite.path", &*store),
        ("forget.key_file", &*keys),
        ("twitter.api", &api.base_url()),
        ("tweet_age", "30d: 2s"),
        ("updater.buffer_ttl", "200ms"),
    ]);
    let now = wall_ms();
    let ids: Vec<String> = (0..200).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).collect();
    let list = folder.path().join("ids");
    std::fs::write(&list, ids.join("\n")).unwrap();
    let put_in = command(&["enqueue", list.to_str().unwrap()], &settings);
    let put_in = wrap(disk.command(), &put_in).output().unwrap();
    assert!(put_in.status.success(), "{}", text(&put_in.stderr));
    let log = folder.path().join("updater.log");
    let start = |log: &Path| {
        let log = std::fs::File::create(log).unwrap();
        let mut updater = wrap(disk.command(), &command(&["updater"], &settings));
        Process::of(updater.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    };
    let mut updater = start(&log);
    let is = async |what: &str, within: Duration, fits: fn(&str, &str) -> bool| {
        let mut last = (String::new(), String::new());
        let seen = tokio::time::timeout(within, async {
            loop {
                last = headline(&status(&disk, &settings));
                if fits(&last.0, &last.1) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        assert!(seen.await.is_ok(), "not {what} within {within:?}: {last:?}");
    };
    is("fresh", Duration::from_secs(60), |state, _| state == "fresh").await;
    disk.fill();
    let names_the_disk = |state: &str, sentence: &str| {
        state == "stopped"
            && sentence.contains("cannot be written: No space left on device")
            && !sentence.contains("start `")
    };
    is("named", BOUND, names_the_disk).await;
    // Also once the last heartbeat is too old: it cannot be written where the queue's disk is full.
    if queue.starts_with(&disk.inside().display().to_string()) {
        until("the heartbeat is old", 2 * BOUND, async || {
            let age = status(&disk, &settings)["workers"][0]["beat_age_ms"].as_i64().unwrap();
            (age > OLD_HEARTBEAT_MS).then_some(())
        })
        .await;
    }
    is("still named", Duration::from_secs(1), names_the_disk).await;
    assert!(updater.runs());
    disk.clear();
    is("fresh again", BOUND + INTERVAL, |state, _| state == "fresh").await;
    assert!(updater.terminate().success());
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_both_files_is_named() {
    is_named("full/jobs.db", "full/tweets.db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_the_queue_is_named() {
    is_named("full/jobs.db", "tweets.db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_the_store_is_named() {
    is_named("jobs.db", "full/tweets.db").await;
}
