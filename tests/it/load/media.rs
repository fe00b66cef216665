//! 10,000 media from a host with every fault there is, and a process that is killed twenty times: the right files are there,
//! each once, and nothing else; the memory stays flat.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Jobs, NewJob};
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::pipelines::media::schedule::fresh;
use twitter_updater::store::{MediumSeen, NewTweet, Store, Way};

use crate::media::fetch::sha256;
use crate::media::process::media_settings;
use crate::media::server::{Server, content};
use crate::support::process::{Process, Variables, variables};
use crate::support::wait::until_true;
use crate::support::world::{Backends, World};

const NS: &str = "media:twitter";
const MEDIA: u32 = 10_000;
const KILLS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(120);
/// What a process may take at most, KB: more than it takes when it is idle, and far less than its files together.
const MEMORY_KB: u64 = 160_000;

/// The fault of a number, and the state in which its medium ends.
fn fault(number: u32) -> (&'static str, MediaState) {
    match number % 20 {
        0 => ("slow", MediaState::Stored),
        1 | 2 => ("cut", MediaState::Stored),
        3 => ("whole", MediaState::Stored),
        4 => ("liar", MediaState::Stored),
        5 => ("changed", MediaState::Stored),
        6 => ("moved", MediaState::Stored),
        7 => ("gone", MediaState::Gone),
        8 => ("page", MediaState::Refused),
        9 => (["large", "endless"][number as usize / 20 % 2], MediaState::Refused),
        10 => ("inside", MediaState::Refused),
        11 => ("metadata", MediaState::Refused),
        12 if number % 200 == 12 => ("storm", MediaState::Stored),
        13 => ("shifted", MediaState::Stored),
        _ => ("ok", MediaState::Stored),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_files_are_there_once_whatever_their_host_does_and_whoever_is_killed() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let world = World::new(Backends { redis: false, postgres: false }, folder.path(), "http://127.0.0.1:1").await;
    put_in(&world.store, &server, folder.path()).await;
    let mut settings: Variables = [world.settings.clone(), media_settings(&server, folder.path())].concat();
    settings.extend(variables(&[
        ("media.per_host", "48"),
        ("media.retry", "50ms"),
        ("media.longest_retry", "200ms"),
        ("updater.concurrency", "8"),
        ("updater.buffer_ttl", "20ms"),
        ("updater.lease", "3s"),
    ]));
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
    let queue = EmbeddedQueue::open(&folder.path().join("jobs.db"), NS, PATIENCE).await.unwrap();
    until_true("none is in the queue", PATIENCE, async || {
        let stats = queue.stats().await.unwrap();
        (stats.delayed, stats.leased, stats.dead) == (0, 0, 0)
    })
    .await;
    assert!(updater.terminate().success());
    println!("{MEDIA} media, {KILLS} kills: {:.1} s, at most {most} KB", watch.elapsed().as_secs_f64());
    check(&world.store, folder.path()).await;
    assert_eq!(server.told(), [""; 0], "nobody is told who asks");
    assert!(most < MEMORY_KB, "{most} KB");
}

/// The media as posts bring them: recorded, and in the queue.
async fn put_in(store: &std::sync::Arc<dyn Store>, server: &Server, folder: &Path) {
    let queue = EmbeddedQueue::open(&folder.join("jobs.db"), NS, PATIENCE).await.unwrap();
    let now = wall_ms();
    for chunk in (0..MEDIA).collect::<Vec<_>>().chunks(1_000) {
        let ids: Vec<String> = chunk.iter().map(u32::to_string).collect();
        let new = |id: &String| NewTweet { id: id.clone(), created_at: None, next_due: Some(now), content: None };
        store.record(NS, now, &Way::of("fan_out"), &ids.iter().map(new).collect::<Vec<_>>()).await.unwrap();
        let seen = |number: &u32| {
            let url = server.url(&format!("/{}/{number}", fault(*number).0));
            let medium = Medium { id: number.to_string(), url, kind: MediaKind::Photo };
            MediumSeen { medium, post: "1".to_owned(), at: now }
        };
        store.record_media(NS, &chunk.iter().map(seen).collect::<Vec<_>>()).await.unwrap();
        let jobs: Vec<NewJob> = ids.into_iter().map(|id| NewJob { id, lane: fresh(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.unwrap();
    }
}

/// Each medium is in its state, and the folder has the files of the stored ones, each once, and no other.
async fn check(store: &std::sync::Arc<dyn Store>, folder: &Path) {
    let ids: Vec<String> = (0..MEDIA).map(|number| number.to_string()).collect();
    let media = store.media(NS, &ids).await.unwrap();
    let mut expected = BTreeSet::new();
    for (number, medium) in (0..MEDIA).zip(media) {
        let medium = medium.unwrap();
        assert_eq!(medium.state, fault(number).1, "{medium:?}");
        if medium.state == MediaState::Stored {
            let hash = sha256(&content(number));
            assert_eq!(medium.sha256.as_deref(), Some(&*hash), "{medium:?}");
            expected.insert(hash);
        }
    }
    let mut found = BTreeSet::new();
    for of in std::fs::read_dir(folder.join("media")).unwrap().map(|of| of.unwrap()) {
        let first = of.file_name().into_string().unwrap();
        for file in std::fs::read_dir(of.path()).unwrap().map(|file| file.unwrap()) {
            let name = format!("{first}{}", file.file_name().into_string().unwrap());
            assert!(first != "parts", "a part is left: {name}");
            assert_eq!(sha256(&std::fs::read(file.path()).unwrap()), name);
            found.insert(name);
        }
    }
    assert!(found == expected, "{} files, {} expected", found.len(), expected.len());
}

/// The greatest resident memory of a process so far, KB.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
