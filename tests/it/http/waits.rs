//! A role that is told to wait begins before its services do.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_waits_for_its_services_and_not_for_ever() {
    let home = Home::new().await;
    let mut redis = TestRedis::start(&["--appendonly", "no"]);
    redis.kill();
    let settings = home.on(&redis, &[("queue.redis.connect_timeout", "500ms")]);
    let given_up = run(&["starter", "--listen", "127.0.0.1:0", "--wait", "2s"], &settings);
    let said = text(&given_up.stderr);
    assert_eq!(given_up.status.code(), Some(69), "{said}");
    assert!(said.contains("waits for a service") && said.contains("queue.redis.url"), "{said}");

    let log = home.path("starter.log");
    let starting = Role::start_with(&["--wait", "60s"], "starter", &settings, &log);
    let there = async {
        until_true("it waits", Duration::from_secs(30), async || {
            home.log("starter.log").contains("waits for a service")
        })
        .await;
        redis.start_again();
    };
    let (starter, ()) = tokio::join!(starting, there);
    starter.until("/ready", 200).await;
    assert_eq!(post(&starter, &young(2)).await.0, 202);
    assert_eq!(starter.stopped().await, Some(0));
}

#[test]
fn whoever_waits_is_stopped_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        variables(&[("store.backend", "postgres"), ("store.postgres.url", "postgres://me@127.0.0.1:9/nowhere")]);
    let log = folder.path().join("log");
    let mut waiting = Process::start(&["migrate", "--wait", "1h"], &settings, &log);
    let watch = twitter_updater::base::clock::Stopwatch::start();
    while !std::fs::read_to_string(&log).unwrap_or_default().contains("waits for a service") {
        assert!(waiting.runs() && watch.elapsed() < Duration::from_secs(30), "it waits");
        std::thread::yield_now();
    }
    let watch = twitter_updater::base::clock::Stopwatch::start();
    let ended = waiting.terminate();
    assert!(watch.elapsed() < Duration::from_secs(10) && ended.code() == Some(1), "{ended:?}");
}
