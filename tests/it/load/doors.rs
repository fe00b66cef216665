//! What somebody who means no good can take of a server: connections, time, memory.

mod memory;

use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Lifecycle, PostgresStore};

use crate::support::postgres;
use crate::support::process::{Variables, run, text, variables};
use crate::support::redis::TestRedis;
use crate::support::role::{Role, client};
use crate::support::wait::until;

const HALF_A_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
const FORM_HEAD: &str =
    "POST /dead/retry HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n";
const TOKEN: &str = "a-token-of-ops-16";
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

/// Held by tests that open hundreds of connections: they take turns, since a process may have as few as 1,024 descriptors.
static MANY_CONNECTIONS: Mutex<()> = Mutex::const_new(());

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
    let _turn = MANY_CONNECTIONS.lock().await;
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
    let peak = taken(ops.process.id()).1;
    // On a busy machine it may still be closing some; the held ones would stay open for half a minute.
    let open = until("it holds its 512 connections and no more", Duration::from_secs(10), async || {
        Some(taken(ops.process.id()).0).filter(|open| *open < 640)
    })
    .await;
    println!("20,000 half-open requests: {open} descriptors, {peak} MB at the most, /live within {slowest:?}");
    assert!(peak < 128, "{peak} MB");
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
    // Each of them is being answered.
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(watch_from([127, 0, 0, 1], &ops, "").await);
    }
    is_alive(&ops, [127, 0, 0, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_forms_lock_nobody_out() {
    let _turn = MANY_CONNECTIONS.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = one_file(folder.path());
    settings.extend(variables(&[("ops.token", TOKEN)]));
    let ops = Role::start_ready("ops", &settings, &folder.path().join("ops.log")).await;
    let mut held = Vec::new();
    for _ in 0..512 {
        let mut stream = connect_from([127, 0, 0, 1], &ops.url).await;
        // The first ones may be given up by then.
        drop(stream.write_all(format!("{FORM_HEAD}content-length: 100\r\n\r\nid=").as_bytes()).await);
        held.push(stream);
    }
    // The same address: a proxy or a forwarded port has all clients.
    let slowest = is_alive(&ops, [127, 0, 0, 1]).await;
    let mut own = connect_from([127, 0, 0, 1], &ops.url).await;
    let form = format!("reason=because&token={TOKEN}");
    let head = FORM_HEAD.replace("/dead/retry", "/pause");
    let request = format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{form}", form.len());
    own.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    own.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    println!("512 unfinished forms from one address: /live from the same one within {slowest:?}");
    // The server does not wait for a form as long as it waits for the body of a starter.
    let watch = Stopwatch::start();
    let mut answer = String::new();
    drop(held.pop().unwrap().read_to_string(&mut answer).await);
    assert!(answer.starts_with("HTTP/1.1 408") && watch.elapsed().as_secs() < 20, "{:?}: {answer}", watch.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_is_not_read_without_a_token_to_compare_or_if_it_is_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let read_only = one_file(folder.path());
    let mut settings = one_file(folder.path());
    settings.extend(variables(&[("ops.token", TOKEN)]));
    for (name, settings, bytes, status) in [("read-only", &read_only, 100, 403), ("large", &settings, 17 << 10, 413)] {
        let ops = Role::start_ready("ops", settings, &folder.path().join(format!("{name}.log"))).await;
        let mut stream = connect_from([127, 0, 0, 1], &ops.url).await;
        // Without a byte of the body.
        let head = format!("{FORM_HEAD}connection: close\r\ncontent-length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        let watch = Stopwatch::start();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(std::str::from_utf8(&answer).unwrap(), format!("HTTP/1.1 {status}"));
        assert!(watch.elapsed().as_secs() < 4, "it did not wait for the body");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_lock_nobody_out() {
    const CONNECTIONS: usize = 32;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = one_file(folder.path());
    settings.extend(variables(&[("http.connections", &CONNECTIONS.to_string())]));
    let ops = Role::start_ready("ops", &settings, &folder.path().join("ops.log")).await;
    let stalled = (0..CONNECTIONS).map(async |_| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(ops.url.strip_prefix("http://").unwrap().parse().unwrap()).await.unwrap();
        // Until the server reads no more, since it cannot write.
        let requests = "GET /page.css HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
        while tokio::time::timeout(Duration::from_secs(2), stream.write_all(requests.as_bytes())).await.is_ok() {}
        stream
    });
    let held = futures::future::join_all(stalled).await;
    is_alive(&ops, [127, 0, 0, 1]).await;
    drop(held);
}

/// A stream of `/events`, after its first event.
async fn watch_from(from: [u8; 4], ops: &Role, headers: &str) -> TcpStream {
    let mut stream = connect_from(from, &ops.url).await;
    stream.write_all(format!("GET /events HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").as_bytes()).await.unwrap();
    let seen = next_event(&mut stream).await;
    assert!(seen.starts_with("HTTP/1.1 200") && seen.contains("event: figures"), "{seen}");
    stream
}

/// What comes until the next event has begun; without one if the stream ends.
async fn next_event(stream: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut buffer)).await.expect("an event");
        let read = read.unwrap_or(0);
        seen.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&seen);
        if text.contains("event: figures") || read == 0 {
            return text.into_owned();
        }
    }
}

/// Waits for the end of a stream.
async fn ends(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the stream goes on");
}

/// An address with 100 streams shares with others; each client is told apart by `from` or by `headers`.
async fn watchers_share(ops: &Role, client: impl Fn(u8) -> ([u8; 4], String)) {
    let watch = async |of: u8| {
        let (from, headers) = client(of);
        watch_from(from, ops, &headers).await
    };
    // The oldest stream is not that of the greediest address.
    let mut small = watch(2).await;
    let mut many = std::collections::VecDeque::new();
    for _ in 0..100 {
        many.push_back(watch(1).await);
    }
    ends(many.pop_front().unwrap()).await;
    let mut other = watch(3).await;
    ends(many.pop_front().unwrap()).await;
    // The same address has a further stream, too.
    let mut last = watch(1).await;
    ends(many.pop_front().unwrap()).await;
    for stream in [&mut small, &mut other, &mut last, many.back_mut().unwrap()] {
        assert!(next_event(stream).await.contains("event: figures"), "it goes on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_viewers_of_one_address_lock_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let ops = Role::start_ready("ops", &one_file(folder.path()), &folder.path().join("ops.log")).await;
    // An invented address of a client that is no trusted proxy means nothing.
    watchers_share(&ops, |of| ([127, 0, 0, of], format!("x-forwarded-for: 198.51.100.{}\r\n", u8::MAX - of))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_proxy_names_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = one_file(folder.path());
    settings.extend(variables(&[("http.trusted_proxies", "127.0.0.0/8, 2001:db8::/32")]));
    let ops = Role::start_ready("ops", &settings, &folder.path().join("ops.log")).await;
    // Each client sends an address of its own invention, and a second proxy of ours appends the true one.
    let forwarded = |of: u8| format!("x-forwarded-for: 192.0.2.9, 198.51.100.{of}\r\nx-forwarded-for: 127.0.0.9\r\n");
    watchers_share(&ops, |of| ([127, 0, 0, 1], forwarded(of))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_a_trusted_proxy_count_for_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = one_file(folder.path());
    settings.extend(variables(&[("http.connections", "16"), ("http.trusted_proxies", "127.0.0.1")]));
    let ops = Role::start_ready("ops", &settings, &folder.path().join("ops.log")).await;
    let ask = async |stream: &mut TcpStream, of: u8| {
        let head = format!("GET /live HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 198.51.100.{of}\r\n\r\n");
        let mut answer = Vec::new();
        stream.write_all(head.as_bytes()).await.unwrap();
        while !answer.ends_with(b"yes\n") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "it is closed");
        }
    };
    // Idle, and the oldest.
    let mut small = connect_from([127, 0, 0, 1], &ops.url).await;
    ask(&mut small, 2).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = connect_from([127, 0, 0, 1], &ops.url).await;
        ask(&mut stream, 1).await;
        held.push(stream);
    }
    ask(&mut small, 2).await;
    ends(held.swap_remove(0)).await;
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
