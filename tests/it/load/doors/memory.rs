//! The memory that hostile texts, answers and bodies take of a process: below its manifest's limit.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::{Client, Url};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::model::post::{ItemState, Tweet, TweetId};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::id_of;
use twitter_updater::store::{Finding, Observation, Posts, SqliteStore};

use super::{connect_from, one_file, taken};
use crate::support::process::{Variables, run, run_with_input, text, variables};
use crate::support::role::{Role, client};
use crate::support::wait::until_true;

/// The limits of `k8s/base`, in MB.
const OPS_MB: u64 = 128;
const UPDATER_MB: u64 = 512;
const STARTER_MB: u64 = 256;

const PATIENCE: Duration = Duration::from_secs(60);

/// Prints the most memory that a process ever had, and compares it with its limit.
fn assert_peak(attack: &str, role: &Role, limit: u64) {
    let (_, peak) = taken(role.process.id());
    println!("{attack}: {peak} MB of {limit} MB");
    assert!(peak < limit, "{attack}: {peak} MB");
}

/// Reads a stream of events up to the next one: its data.
async fn next_event(stream: &mut BufReader<TcpStream>) -> String {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "the stream ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return data.to_owned();
        }
    }
}

/// Asks for a stream of events, from an address of its own.
async fn watch(ops: &Role, id: &str, from: u8) -> TcpStream {
    let mut stream = connect_from([127, 0, 0, from], &ops.url).await;
    let head = format!("GET /events?tweet={id} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_unread_streams_of_a_huge_post_fit_into_ops() {
    let folder = tempfile::tempdir().unwrap();
    let settings = one_file(folder.path());
    assert!(run(&["migrate"], &settings).status.success());
    let store = SqliteStore::open(&folder.path().join("home.db"), PATIENCE).await.unwrap();
    let now = wall_ms();
    let id = TweetId::at(now - 60_000, 1).to_string();
    let huge = "<".repeat(1_000_000);
    let raw = serde_json::json!({ "id_str": id, "full_text": huge }).to_string();
    let tweet = Tweet { id: id.clone(), text: Some(huge.clone()), raw, ..Tweet::default() };
    let answer = Observation::new(&id, now, Finding::Found(tweet), ItemState::Live, Some(now + 600_000));
    store.save(NAMESPACE, &[answer]).await.unwrap();
    // As an older version stored it.
    let file = SqliteConnectOptions::new().filename(folder.path().join("home.db"));
    let mut file = file.connect().await.unwrap();
    sqlx::query("UPDATE tweet SET text = $1").bind(&huge).execute(&mut file).await.unwrap();

    let ops = Role::start_ready("ops", &settings, &folder.path().join("ops.log")).await;
    let mut unread = Vec::new();
    for n in 0..99 {
        unread.push(watch(&ops, &id, n + 2).await);
    }
    let mut reader = BufReader::new(watch(&ops, &id, 200).await);
    assert!(next_event(&mut reader).await.contains("&lt;&lt;"), "the first event has the page's parts");
    for stream in &unread {
        stream.readable().await.unwrap();
    }
    // Each change is another rendering that the unread streams leave where it is.
    for n in 1..=3 {
        let changed = format!("{n}{huge}");
        sqlx::query("UPDATE tweet SET text = $1").bind(&changed).execute(&mut file).await.unwrap();
        let shown = format!(">{n}&lt;");
        while !next_event(&mut reader).await.contains(&shown) {}
    }
    assert_peak("100 unread streams of a post of 1 MB", &ops, OPS_MB);
    let (status, page) = ops.get(&format!("/tweet?id={id}")).await;
    assert_eq!(status, 200);
    let shown = page.matches("&lt;").count();
    assert!((1_000..100_000).contains(&shown) && page.len() < 1_000_000, "{shown} of them, {} bytes", page.len());
}

/// Bytes of a hostile answer, unpacked.
const ANSWER: usize = 15_000_000;

/// An API that answers each call with 15 MB, in another shape each time.
#[derive(Debug, Default)]
struct HostileApi {
    calls: AtomicUsize,
}

impl HostileApi {
    async fn start() -> (Arc<Self>, String) {
        let api = Arc::new(Self::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (api, address)
    }
}

async fn answer(State(api): State<Arc<HostileApi>>, uri: Uri, headers: HeaderMap) -> Response {
    let json = [(CONTENT_TYPE, "application/json")];
    if uri.path().ends_with("/instance") {
        return (json, r#"{"version":"4.3.0"}"#).into_response();
    }
    let call = api.calls.fetch_add(1, Ordering::Relaxed);
    let (before, after) = if uri.path().contains("xrpc") { (r#"{"posts":"#, "}") } else { ("", "") };
    let body = match call % 4 {
        0 => found(&uri),
        1 => ones(),
        2 => format!("[{}{{}}]", "{},".repeat(ANSWER / 3)),
        _ => format!("[{{\"id\":{},\"langs\":{},\"tags\":{}}}]", 1, ones(), ones()),
    };
    let body = format!("{before}{body}{after}");
    let is_packed = headers.get("accept-encoding").is_some() && call % 8 > 3;
    if !is_packed {
        return (json, body).into_response();
    }
    let packed = tokio::task::spawn_blocking(move || {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(body.as_bytes()).unwrap();
        packed.finish().unwrap()
    });
    (json, [(CONTENT_ENCODING, "gzip")], packed.await.unwrap()).into_response()
}

fn ones() -> String {
    format!("[{}1]", "1,".repeat(ANSWER / 2))
}

/// The posts that were asked for, all of them long.
fn found(uri: &Uri) -> String {
    let url = Url::parse(&format!("http://api{uri}")).unwrap();
    let asked = url.query_pairs().filter(|(name, _)| matches!(&**name, "id" | "id[]" | "uris"));
    let ids: Vec<String> = asked.flat_map(|(_, ids)| ids.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
    let long = "<".repeat(ANSWER / ids.len().max(1));
    let object = |id: &String| {
        let common = r#""created_at":"2026-01-01T00:00:00.000Z","account":{"id":"1","acct":"a"}"#;
        let record = format!(r#""record":{{"text":"{long}","createdAt":"2026-01-01T00:00:00.000Z"}}"#);
        match id.starts_with("at://") {
            true => format!(r#"{{"uri":"{id}","author":{{"did":"did:plc:a","handle":"a.test"}},{record}}}"#),
            false if uri.path().contains("1.1") => format!(r#"{{"id_str":"{id}","full_text":"{long}"}}"#),
            false => format!(r#"{{"id":"{id}",{common},"content":"{long}"}}"#),
        }
    };
    format!("[{}]", ids.iter().map(object).collect::<Vec<_>>().join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_networks_that_answer_15_mb_fit_into_the_updater() {
    const CALLS: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = one_file(folder.path());
    let networks = [
        ("twitter", "twitter.api", HostileApi::start().await),
        ("mastodon:near", "mastodon.instances.near.api", HostileApi::start().await),
        ("bluesky", "bluesky.api", HostileApi::start().await),
    ];
    settings.extend(variables(&[
        ("providers", "twitter, mastodon, bluesky"),
        ("twitter.bearer_token", "a-token-of-the-test"),
        ("tweet_age", "30d: 1s"),
        ("updater.buffer_ttl", "100ms"),
    ]));
    for (_, setting, (_, address)) in &networks {
        settings.extend(variables(&[(setting, address)]));
    }
    assert!(run(&["migrate"], &settings).status.success());
    for (name, ..) in &networks {
        enqueue(name, &settings);
    }
    let updater = Role::start("updater", &settings, &folder.path().join("updater.log")).await;
    for (name, _, (api, _)) in &networks {
        let what = format!("{name} answered {CALLS} calls");
        until_true(&what, 3 * PATIENCE, async || api.calls.load(Ordering::Relaxed) >= CALLS).await;
    }
    assert_peak("three networks that answer 15 MB", &updater, UPDATER_MB);
}

/// Puts in posts of that network.
fn enqueue(network: &str, settings: &Variables) {
    let (provider, at) = (network.parse::<Provider>().unwrap(), wall_ms() - 86_400_000);
    let ids: Vec<String> = (0..1_000).map(|n| id_of(&provider, at, n)).collect();
    let output = run_with_input(&["--provider", network, "enqueue"], settings, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{network}: {}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_bodies_of_tiny_elements_fit_into_the_starter() {
    const LARGEST: usize = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let settings = one_file(folder.path());
    assert!(run(&["migrate"], &settings).status.success());
    drop(client());
    let client = Client::builder().no_proxy().build().unwrap();
    // Zeros, which are no ids: of millions of ids each would ask the store.
    let list = |bytes: usize| format!("[{}0]", "0,".repeat((bytes - 4) / 2));
    let page = |bytes: usize| format!("{{\"data\":{}}}", list(bytes - 9));
    let bodies = [
        ("[0,0,…]", list(LARGEST), "application/json"),
        ("[{\"data\":[0,0,…]}]", format!("[{}]", page(LARGEST - 2)), "application/json"),
        ("lines of {\"data\":[0,0,…]}", vec![page(1_000_000); 8].join("\n"), "application/x-ndjson"),
    ];
    for (n, (shape, body, kind)) in bodies.into_iter().enumerate() {
        // A new one each time: the bodies of the round before may still have their room.
        let log = folder.path().join(format!("starter-{n}.log"));
        let starter = Role::start_ready("starter", &settings, &log).await;
        let url = format!("{}/tweets", starter.url);
        let body = axum::body::Bytes::from(body);
        let sending = (0..8).map(|_| client.post(&url).header("content-type", kind).body(body.clone()).send());
        // Two are worked on at once, and the first answer ends the round: the others would be the same again.
        let (answer, ..) = futures::future::select_all(sending.map(Box::pin)).await;
        assert_eq!(answer.unwrap().status().as_u16(), 400, "{shape}");
        assert_peak(&format!("eight bodies {shape} of 8 MiB"), &starter, STARTER_MB);
    }
}
