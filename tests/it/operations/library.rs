//! The library of functions: who loads it, which version stays, and what happens where it may not be loaded.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio_util::sync::CancellationToken;
use twitter_updater::app::function_library;
use twitter_updater::engine::redis_functions;

use crate::support::process::{run, text, variables};
use crate::support::redis::{Cluster, TestRedis, namespace, pool};
use crate::support::wait::until_true;

async fn loaded(connection: &mut MultiplexedConnection) -> Option<String> {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(redis_functions::NAME).arg("WITHCODE");
    let libraries: Vec<HashMap<String, redis::Value>> = list.query_async(connection).await.unwrap();
    libraries.first().map(|library| redis::from_redis_value_ref(&library["library_code"]).unwrap())
}

async fn put(connection: &mut MultiplexedConnection, code: &str) {
    let mut load = redis::cmd("FUNCTION");
    let () = load.arg("LOAD").arg("REPLACE").arg(code).query_async(connection).await.unwrap();
}

fn of_version(version: u32) -> String {
    let ours = format!("-- version {}\n", redis_functions::VERSION);
    assert!(function_library().code().contains(&ours));
    function_library().code().replace(&ours, &format!("-- version {version}\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_stays_and_what_is_missing_is_loaded() {
    let redis = TestRedis::start(&[]);
    let (redis_pool, mut raw) = (pool(&redis.url), redis.connection().await);
    let library = function_library();
    let many: Vec<_> = (0..8).map(|_| library.load(&redis_pool)).collect();
    for done in futures::future::join_all(many).await {
        done.unwrap();
    }
    assert_eq!(loaded(&mut raw).await.as_deref(), Some(function_library().code()));
    put(&mut raw, &of_version(0)).await;
    function_library().load(&redis_pool).await.unwrap();
    assert_eq!(loaded(&mut raw).await.as_deref(), Some(function_library().code()));
    // Somebody's own text under our number.
    put(&mut raw, &format!("{}\n-- mine", function_library().code())).await;
    function_library().load(&redis_pool).await.unwrap();
    assert_eq!(loaded(&mut raw).await.as_deref(), Some(function_library().code()));
    let newer = of_version(redis_functions::VERSION + 1);
    put(&mut raw, &newer).await;
    function_library().load(&redis_pool).await.unwrap();
    assert_eq!(loaded(&mut raw).await, Some(newer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_for_long_loads_it_again() {
    let redis = TestRedis::start(&[]);
    let (redis_pool, mut raw) = (pool(&redis.url), redis.connection().await);
    let stop = CancellationToken::new();
    let keeps = tokio::spawn({
        let stop = stop.clone();
        async move { function_library().keep_loaded(&redis_pool, Duration::from_millis(10), stop).await }
    });
    for _ in 0..2 {
        until_true("it is there", Duration::from_secs(20), async || loaded(&mut raw).await.is_some()).await;
        let () = redis::cmd("FUNCTION").arg("FLUSH").query_async(&mut raw).await.unwrap();
    }
    stop.cancel();
    keeps.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_master_of_a_cluster_has_it() {
    let cluster = Cluster::shared().await;
    function_library().load(&pool(&cluster.url)).await.unwrap();
    for master in &cluster.masters {
        assert_eq!(loaded(&mut master.connection().await).await.as_deref(), Some(function_library().code()));
    }
    // One of them lost it.
    let () = redis::cmd("FUNCTION").arg("FLUSH").query_async(&mut cluster.masters[1].connection().await).await.unwrap();
    function_library().load(&pool(&cluster.url)).await.unwrap();
    assert!(loaded(&mut cluster.masters[1].connection().await).await.is_some());

    // Some namespace is not where the credentials are, and says so.
    let there = cluster.master_of("{twitter}:credentials").await;
    let mut elsewhere = namespace();
    while cluster.master_of(&format!("{{{elsewhere}}}:lanes")).await == there {
        elsewhere = namespace();
    }
    let port = cluster.masters[0].host_and_port().split(':').next_back().unwrap();
    let cli = |function: &str, tag: &str| {
        let call = [function, "1", tag];
        let output = Command::new("redis-cli").args(["-c", "-p", port, "FCALL_RO"]).args(call).output().unwrap();
        text(&output.stdout)
    };
    let said = cli("twitter_updater_status", &format!("{{{elsewhere}}}"));
    assert!(said.contains(&format!("{elsewhere} at 20")), "{said}");
    assert!(
        said.contains("in another slot of the cluster: FCALL_RO twitter_updater_credentials 1 {twitter}"),
        "{said}"
    );
    let said = cli("twitter_updater_credentials", "{twitter}");
    assert!(said.contains("no credential was used yet"), "{said}");
}

#[test]
fn where_it_may_not_be_loaded_one_line_says_so() {
    let redis = TestRedis::start(&["--user", "app", "on", "nopass", "~*", "+@all", "-function"]);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}?user=app&pass=x", redis.url);
    let file = folder.path().join("tweets.db");
    let settings = [
        ("queue.backend", "redis"),
        ("queue.redis.url", &*url),
        ("store.sqlite.path", file.to_str().unwrap()),
        ("twitter.api", "http://127.0.0.1:9"),
        // Two queues, one line.
        ("accounts.collect", "true"),
        ("log.level", "warn"),
    ];
    let output = run(&["status"], &variables(&settings));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let lines: Vec<_> = said.lines().filter(|line| line.contains("functions for redis-cli are not loaded")).collect();
    assert!(lines.len() == 1 && lines[0].contains("no permissions"), "{said}");
}
