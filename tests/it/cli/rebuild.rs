//! `rebuild`: what it prints, how it ends, how it goes on.

use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Jobs};
use twitter_updater::pipelines::posts::NAMESPACE;

use super::*;
use crate::support::postgres;
use crate::support::process::Process;
use crate::support::wait::until_true;

async fn open(home: &Home) -> EmbeddedQueue {
    EmbeddedQueue::open(&home.path("home.db"), NAMESPACE, Duration::from_secs(20)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_what_it_did() {
    let (home, ids) = (Home::new(), young(30));
    let file = home.file("ids.txt", ids.join("\n"));
    assert!(home.run(&["enqueue", &file]).status.success());
    let queue = open(&home).await;
    queue.forget(&ids[..20]).await.unwrap();
    let output = home.run(&["rebuild"]);
    let said = text(&output.stdout);
    assert!(output.status.success() && said.starts_with("30 rows in "), "{said}{}", text(&output.stderr));
    assert!(said.ends_with("10 in the queue already, 20 put back, 0 leased, 0 dead, 0 withdrawn\n"), "{said}");
    assert_eq!(said.lines().count(), 1);
    assert_eq!(home.status()["delayed"], 30);

    queue.forget(&ids[..5]).await.unwrap();
    let output = home.run(&["rebuild", "--json", "--rate", "1000000"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let numbers: Vec<_> = ["rows", "known", "put_back", "leased", "dead", "withdrawn", "refused", "buried"]
        .map(|name| said[name].as_u64().unwrap())
        .into();
    assert_eq!(numbers, [30, 25, 5, 0, 0, 0, 0, 0]);
    assert_eq!((&said["complete"], &said["down_to"]), (&Value::from(true), &Value::Null));
    assert!(!text(&output.stderr).contains('['), "no bar where there is no terminal: {}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_it_where_it_is() {
    let (home, ids) = (Home::new(), young(3));
    let file = home.file("ids.txt", ids.join("\n"));
    assert!(home.run(&["enqueue", &file]).status.success());
    let queue = open(&home).await;
    queue.forget(&ids).await.unwrap();
    // One row a second: it is stopped in the pause after the first, long before the last.
    let out = home.path("out");
    let mut command = crate::support::process::command(&["rebuild", "--rate", "1"], &home.settings(&[]));
    command.stdout(std::fs::File::create(&out).unwrap());
    let mut running = Process::of(command.spawn().unwrap());
    until_true("the first is back", Duration::from_secs(20), async || queue.stats().await.unwrap().delayed > 0).await;
    running.signal("TERM");
    assert_eq!(running.ended(Duration::from_secs(20)).await.code(), Some(0));
    let said = std::fs::read_to_string(out).unwrap();
    assert!(said.starts_with("stopped before the end, down to id ") && said.contains("run it again"), "{said}");
    assert_eq!(queue.stats().await.unwrap().leased, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_so_often_it_puts_back_what_was_lost_meanwhile() {
    let (home, ids) = (Home::new(), young(3));
    let file = home.file("ids.txt", ids.join("\n"));
    assert!(home.run(&["enqueue", &file]).status.success());
    let queue = open(&home).await;
    let log = home.path("log");
    let mut running = Process::start(&["rebuild", "--every", "1s"], &home.settings(&[]), &log);
    for _ in 0..2 {
        queue.forget(&ids).await.unwrap();
        let back = async || queue.stats().await.unwrap().delayed == 3;
        until_true("they are back", Duration::from_secs(30), back).await;
    }
    running.signal("TERM");
    assert_eq!(running.ended(Duration::from_secs(20)).await.code(), Some(0), "{}", log_text(&log));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_that_meets_an_outage_is_given_up_and_the_next_tries_again() {
    let (home, ids) = (Home::new(), young(3));
    let mut server = postgres::own();
    let url = server.url("postgres");
    let settings = home.settings(&[("store.backend", "postgres"), ("store.postgres.url", &url)]);
    let file = home.file("ids.txt", ids.join("\n"));
    for arguments in [&["migrate"][..], &["enqueue", &file]] {
        assert!(run(arguments, &settings).status.success());
    }
    let queue = open(&home).await;
    let log = home.path("log");
    let mut running = Process::start(&["rebuild", "--every", "1s"], &settings, &log);
    queue.forget(&ids).await.unwrap();
    let back = async || queue.stats().await.unwrap().delayed == 3;
    until_true("they are back", Duration::from_secs(30), back).await;
    server.stop();
    let given_up =
        async || log_text(&log).contains("rebuild: a round failed, and the next round tries again") || !running.runs();
    until_true("a round is given up", Duration::from_secs(90), given_up).await;
    queue.forget(&ids).await.unwrap();
    server.start();
    until_true("they are back again", Duration::from_secs(90), back).await;
    running.signal("TERM");
    assert_eq!(running.ended(Duration::from_secs(30)).await.code(), Some(0), "{}", log_text(&log));
}
