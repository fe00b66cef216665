//! 10,000 media from a host with every fault there is, and a process that is killed twenty times: the right files are there,
//! each once, and nothing else; the memory stays flat. `MEDIA_IN_BUCKET=1`: the files are in a bucket whose server has faults,
//! too.

use std::time::Duration;

use twitter_updater::base::clock::Stopwatch;
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection};

use crate::media::process::media_settings;
use crate::media::server::Server;
use crate::media::whole::{Kept, NS, check, put_in};
use crate::support::process::{Process, Variables, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const MEDIA: u32 = 10_000;
const KILLS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(120);
/// What a process may take at most, KB: more than it takes when it is idle, and far less than its files together.
const MEMORY_KB: u64 = 120_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_files_are_there_once_whatever_their_host_does_and_whoever_is_killed() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), "http://127.0.0.1:1").await;
    let queue = EmbeddedQueue::open(&folder.path().join("jobs.db"), NS, PATIENCE).await.unwrap();
    put_in(&*world.store, &queue, &server, 0..MEDIA).await;
    let mut settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
    settings.extend(variables(&[
        ("media.per_host", "48"),
        ("media.retry", "50ms"),
        ("media.longest_retry", "200ms"),
        ("updater.concurrency", "8"),
        ("updater.buffer_ttl", "20ms"),
        ("updater.lease", "3s"),
    ]));
    let kept = if std::env::var_os("MEDIA_IN_BUCKET").is_some() { Kept::start().await } else { Kept::Folder };
    settings.extend(kept.settings());
    let (log, watch) = (folder.path().join("updater.log"), Stopwatch::start());
    let settled = async || -> u64 {
        let totals = world.store.media_totals(NS).await.unwrap();
        totals.iter().filter(|total| total.state.is_final()).map(|total| total.media as u64).sum()
    };
    let mut most = 0;
    for kill in 0..KILLS {
        let updater = Process::start(&["updater"], &settings, &log);
        let enough = (kill + 1) * u64::from(MEDIA) * 3 / 4 / KILLS;
        until_true("it gets on", PATIENCE, async || settled().await >= enough).await;
        most = most.max(peak_kb(updater.id()));
        updater.kill();
    }
    let updater = Process::start(&["updater"], &settings, &log);
    until_true("all are settled", PATIENCE, async || settled().await == u64::from(MEDIA)).await;
    most = most.max(peak_kb(updater.id()));
    until_true("none is in the queue", PATIENCE, async || {
        let stats = queue.stats().await.unwrap();
        (stats.delayed, stats.leased, stats.dead) == (0, 0, 0)
    })
    .await;
    assert!(updater.terminate().success());
    println!("{MEDIA} media, {KILLS} kills: {:.1} s, at most {most} KB", watch.elapsed().as_secs_f64());
    check(&*world.store, &kept.files(&folder.path().join("media")), 0..MEDIA).await;
    assert_eq!(server.told(), [""; 0], "nobody is told who asks");
    assert!(most < MEMORY_KB, "{most} KB");
}

/// The greatest resident memory of a process so far, KB.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
