//! What somebody who means no good can take of a server: connections, time, memory.

use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Lifecycle, PostgresStore};

use crate::support::postgres;
use crate::support::process::{Variables, run, text, variables};
use crate::support::redis::TestRedis;
use crate::support::role::{Role, client};

const HALF_A_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
/// The manifest's limit of a starter.
const MEMORY_LIMIT_MB: u64 = 256;

/// Of a process: file descriptors at this moment, and the most memory that it ever had, in MB.
fn taken(pid: u32) -> (usize, u64) {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    (open, peak.unwrap() / 1024)
}

/// The raised soft limit of this process.
fn open_files_limit() -> usize {
    twitter_updater::app::raise_open_files_limit();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    row.split_whitespace().next().unwrap().parse().unwrap()
}

async fn connect_from(from: [u8; 4], url: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(url.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap()
}

/// `GET /live` on a new connection, and how long it took.
async fn is_alive(role: &Role, from: [u8; 4]) -> Duration {
    let watch = Stopwatch::start();
    let mut stream = connect_from(from, &role.url).await;
    stream.write_all(b"GET /live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    watch.elapsed()
}

fn one_file(folder: &std::path::Path) -> Variables {
    let file = folder.join("home.db");
    let file = file.to_str().unwrap();
    variables(&[("queue.embedded.path", file), ("store.sqlite.path", file)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_half_open_requests_silence_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let ops = Role::start_ready("ops", &one_file(folder.path()), &folder.path().join("ops.log")).await;
    let (mut held, mut slowest) = (std::collections::VecDeque::new(), Duration::ZERO);
    // More than the 512 connections of the server; other tests of this process need descriptors, too.
    let at_once = (open_files_limit() * 6 / 10).min(10_000);
    for n in 0..20_000 {
        let mut stream = connect_from([127, 0, 0, 1], &ops.url).await;
        drop(stream.write_all(HALF_A_HEAD).await); // it may be closed by then
        held.push_back(stream);
        if held.len() > at_once {
            held.pop_front();
        }
        if n % 2_000 == 0 {
            slowest = slowest.max(is_alive(&ops, [127, 0, 0, 1]).await);
        }
    }
    let (open, peak) = taken(ops.process.id());
    println!("20,000 half-open requests: {open} descriptors, {peak} MB at the most, /live within {slowest:?}");
    assert!(open < 640 && peak < 128, "{open} descriptors, {peak} MB");
    // Half a head is waited for, and not for ever.
    let mut slow = connect_from([127, 0, 0, 2], &ops.url).await;
    slow.write_all(HALF_A_HEAD).await.unwrap();
    let watch = Stopwatch::start();
    let mut answer = Vec::new();
    drop(slow.read_to_end(&mut answer).await);
    let waited = watch.elapsed().as_secs();
    assert!((25..45).contains(&waited), "closed after {waited} s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_cannot_take_all_connections_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = one_file(folder.path());
    settings.extend(variables(&[("http.connections", "64")]));
    let ops = Role::start_ready("ops", &settings, &folder.path().join("ops.log")).await;
    // Each of them is being answered: its body trickles in.
    let head = b"POST /dead/retry HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
                 content-length: 100\r\n\r\nid=";
    let mut held = Vec::new();
    for _ in 0..64 {
        let mut stream = connect_from([127, 0, 0, 1], &ops.url).await;
        stream.write_all(head).await.unwrap();
        held.push(stream);
    }
    is_alive(&ops, [127, 0, 0, 2]).await;
    // A body that does not come is waited for, and not for ever.
    let watch = Stopwatch::start();
    let mut answer = String::new();
    // Neither the first, which made room, nor the last, whose head may not have been read by then.
    drop(held.swap_remove(32).read_to_string(&mut answer).await);
    let waited = watch.elapsed().as_secs();
    assert!((30..60).contains(&waited), "given up after {waited} s: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_bodies_of_the_largest_size_fit_into_the_manifests_memory() {
    const BODIES: u32 = 8;
    const TWEETS: u32 = 1_900;
    let folder = tempfile::tempdir().unwrap();
    let (redis, database) = (TestRedis::start(&["--appendonly", "no"]), postgres::database().await);
    let settings = variables(&[
        ("queue.backend", "redis"),
        ("queue.redis.url", &redis.url),
        ("store.backend", "postgres"),
        ("store.postgres.url", &database),
    ]);
    assert!(run(&["migrate"], &settings).status.success());
    let starter = Role::start_ready("starter", &settings, &folder.path().join("starter.log")).await;
    let now = wall_ms();
    // Objects of 4.3 KB, as they are on average.
    let padding = "x".repeat(4_200);
    let body = |of: u32| {
        let object = |n: u32| {
            let id = TweetId::at(now - 60_000 - i64::from(n), of * TWEETS + n).to_string();
            serde_json::json!({ "id_str": id, "full_text": "A post", "padding": padding }).to_string()
        };
        (0..TWEETS).map(object).collect::<Vec<_>>().join("\n")
    };
    let (client, url) = (client(), format!("{}/tweets", starter.url));
    for _round in 0..3 {
        let sending = (0..BODIES).map(|of| {
            let request = client.post(&url).header("content-type", "application/x-ndjson").body(body(of));
            async move {
                let answer = request.send().await.unwrap();
                (answer.status().as_u16(), answer.text().await.unwrap())
            }
        });
        for (status, said) in futures::future::join_all(sending).await {
            assert_eq!(status, 202, "{said}");
        }
    }
    let store = PostgresStore::connect(&SecretString::from(database), 1, Duration::from_secs(10)).await.unwrap();
    assert_eq!(store.counts(NAMESPACE).await.unwrap().live, u64::from(BODIES * TWEETS));
    let (_, peak) = taken(starter.process.id());
    println!("8 bodies of {} KB at once, three times: {peak} MB at the most", body(0).len() >> 10);
    assert!(peak < MEMORY_LIMIT_MB, "{peak} MB: {}", text(&run(&["status"], &settings).stdout));
}
