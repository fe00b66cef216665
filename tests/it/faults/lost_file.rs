//! A SQLite file that somebody deletes while processes have it open: they say so and end, instead of working on in a
//! file that nobody will ever read.

use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::process::{Process, Variables, run_with_input, text, variables};
use crate::support::role::Role;
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const WITHIN: Duration = Duration::from_secs(60);

async fn ends_with_the_reason(file: &str) {
    let folder = tempfile::tempdir().unwrap();
    let options = SimulatorOptions { calls_per_window: 0, missing_share: 0.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    let now = wall_ms();
    let ids: Vec<String> = (0..50).map(|n| TweetId::at(now - 86_400_000 - i64::from(n), n).to_string()).collect();
    let output = run_with_input(&["enqueue", "-"], &world.settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = folder.path().join("updater.log");
    let mut updater = Process::start(&["updater"], &world.settings, &log);
    until_true("it works", WITHIN, async || world.all_fresh(&ids, now).await).await;

    std::fs::remove_file(folder.path().join(file)).unwrap();
    let status = updater.ended(WITHIN).await;
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(status.code().is_some_and(|code| code != 0), "{status}\n{said}");
    let reason = said.lines().rfind(|line| line.contains("was deleted or replaced while it was open"));
    assert!(
        reason.is_some_and(|line| line.contains(&format!("{file} was deleted")) && line.contains("VACUUM INTO")),
        "{said}"
    );
    api.stop().await;
}

/// A role that reads more than it writes, and one that answers requests: in that file there would be nothing new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_role_ends_when_a_file_is_deleted_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), &api.base_url()).await;
    let source = variables(&[("poll.sources.one.kind", "user"), ("poll.sources.one.screen_name", "one")]);
    let settings: Variables = world.settings.iter().cloned().chain(source).collect();
    let (path, aside) = (|file: &str| folder.path().join(file), folder.path().join("aside"));
    for file in ["jobs.db", "tweets.db"] {
        for (is_replaced, what) in [(false, "deleted"), (true, "replaced")] {
            let mut roles = Vec::new();
            for name in ["ops", "starter", "poll", "updater"] {
                let log = path(&format!("{name}-{file}-{what}.log"));
                roles.push((name, Role::start_ready(name, &settings, &log).await, log));
            }
            if is_replaced {
                std::fs::hard_link(path(file), &aside).unwrap();
                std::fs::copy(&aside, path("copy")).unwrap();
                std::fs::rename(path("copy"), path(file)).unwrap();
            } else {
                std::fs::rename(path(file), &aside).unwrap();
            }
            for (name, mut role, log) in roles {
                let status = role.process.ended(WITHIN).await;
                let said = std::fs::read_to_string(&log).unwrap();
                assert!(status.code().is_some_and(|code| code != 0), "{name}, {file} {what}: {status}\n{said}");
                assert!(
                    said.contains(&format!("{file} was {what}")) && said.contains("VACUUM INTO"),
                    "{name}:\n{said}"
                );
            }
            std::fs::rename(&aside, path(file)).unwrap();
        }
    }
    api.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_updater_ends_when_its_queue_is_deleted() {
    ends_with_the_reason("jobs.db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_updater_ends_when_its_store_is_deleted() {
    ends_with_the_reason("tweets.db").await;
}
