//! Redis is away, silent or full for a while, and has lost nothing.

use twitter_updater::pipelines::posts::NAMESPACE;

use super::swing::{Swing, WITHIN, tweets};
use crate::support::process::{Process, command, text};
use crate::support::redis::Cluster;
use crate::support::wait::{until, until_true};
use crate::support::world::World;

/// kill -9 and a start over the same AOF, which is synced every second: whatever it had acknowledged its
/// kernel has, so that nothing is lost but with the whole machine (`lost_writes`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again() {
    let mut swing = Swing::start(true).await;
    for _ in 0..2 {
        let redis = swing.world.redis.as_mut().unwrap();
        redis.kill();
        swing.says("backing off").await;
        swing.world.redis.as_mut().unwrap().start_again();
        swing.goes_on("a kill").await;
    }
    let stats = swing.ends().await;
    println!("expired {:?}, lost {:?}", stats.counters.get("expired"), stats.counters.get("lost"));
}

/// The same with the master of a cluster that has the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_cluster_killed_and_started_again() {
    let mut cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let api = Swing::api().await;
    let world = World::over(Some(&cluster.url), None, folder.path(), &api.base_url()).await;
    let mut swing = Swing::over(world, api, folder).await;
    let at = cluster.master_of(&format!("{{{NAMESPACE}}}:leased")).await;
    cluster.masters[at].kill();
    swing.says("backing off").await;
    cluster.masters[at].start_again();
    swing.goes_on("a kill").await;
    swing.ends().await;
}

/// It answers nobody for longer than anybody waits for an answer. What was asked is done when it wakes up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent() {
    let mut swing = Swing::start(false).await;
    let mut raw = swing.world.redis.as_ref().unwrap().connection().await;
    for kind in ["ALL", "WRITE"] {
        let () = redis::cmd("CLIENT").arg("PAUSE").arg(1_500).arg(kind).query_async(&mut raw).await.unwrap();
        swing.goes_on("a pause").await;
    }
    assert!(swing.logged().contains("backing off"), "nobody noticed:\n{}", swing.logged());
    swing.ends().await;
}

/// Its scripts are forgotten again and again. Nobody waits longer than for the next try: no lease runs out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn script_cache_flushed() {
    let mut swing = Swing::start(false).await;
    let mut raw = swing.world.redis.as_ref().unwrap().connection().await;
    // One flush after the other, until one falls between the load of a script and its call.
    until_true("a call meets a flush", WITHIN, async || {
        for _ in 0..50 {
            let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
        }
        swing.all_run();
        swing.logged().to_lowercase().contains("noscript")
    })
    .await;
    swing.goes_on("a flush of the scripts").await;
    let said = swing.logged();
    assert!(!said.contains("not settled") && !said.contains("Redis refuses"), "{said}");
    let stats = swing.ends().await;
    assert_eq!(stats.counters.get("expired"), None);
}

/// Its memory is used up: updaters go on, nothing new is taken in, and all is as before when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full() {
    let mut swing = Swing::start(false).await;
    let mut raw = swing.world.redis.as_ref().unwrap().connection().await;
    let maxmemory = async |raw: &mut redis::aio::MultiplexedConnection, bytes: u32| {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query_async(raw).await.unwrap();
    };
    maxmemory(&mut raw, 1).await;

    let late = tweets(10_000, 50);
    let file = swing.folder.path().join("late.txt");
    std::fs::write(&file, late.join("\n")).unwrap();
    let arguments = ["enqueue", file.to_str().unwrap()];
    let mut refused = command(&arguments, &swing.quiet()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    swing.goes_on("the memory was used up").await;
    // Another one comes to help.
    swing.joined_by_another().await;
    swing.goes_on("another has come").await;
    let status = until("it gives up", WITHIN, async || refused.try_wait().unwrap()).await;
    let said = refused.wait_with_output().unwrap().stderr;
    let said = text(&said);
    assert_eq!(status.code(), Some(69), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("twitter-updater: ") && said.contains("Redis has reached its maxmemory"), "{said}");

    // One that waits goes on when there is room.
    let log = swing.folder.path().join("enqueue.log");
    let mut waits = Process::start(&arguments, &swing.world.settings, &log);
    until_true("it waits", WITHIN, async || {
        std::fs::read_to_string(&log).unwrap_or_default().contains("could not be handed over yet")
    })
    .await;
    maxmemory(&mut raw, 0).await;
    let status = waits.ended(WITHIN).await;
    assert!(status.success(), "{}", std::fs::read_to_string(&log).unwrap());
    swing.ids.extend(late);
    swing.goes_on("there is room").await;
    let stats = swing.ends().await;
    assert_eq!(stats.counters.get("expired"), None, "claims and settles were not held up");
}
