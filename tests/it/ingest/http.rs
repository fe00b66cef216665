//! The hook: what it takes, what it answers, and that it answers for nothing it has not done.

mod accounts;

use axum::Router;
use reqwest::{Client, RequestBuilder, Response};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use twitter_updater::base::token::AccessToken;
use twitter_updater::engine::health::Health;
use twitter_updater::ingest::{AccountEndpoint, IngestApi, OPENAPI};
use twitter_updater::ops::{self, Server};

use super::*;
use crate::support::role::client;
use crate::support::wait::until;

/// A hook over a world of its own, on the loopback.
struct Served {
    world: World,
    url: String,
    client: Client,
    health: Arc<Health>,
    _end: tokio_util::sync::DropGuard,
}

impl Served {
    async fn new() -> Self {
        Self::with(World::new().await, None, 1 << 20).await
    }

    async fn with(world: World, token: Option<&str>, max_body_bytes: usize) -> Self {
        Self::around(world, token, max_body_bytes, Vec::new()).await
    }

    async fn around(world: World, token: Option<&str>, max_body_bytes: usize, doors: Vec<AccountEndpoint>) -> Self {
        let health = Arc::new(Health::default());
        let token = token.map(|token| AccessToken::new(&SecretString::from(token)));
        let starters = vec![("twitter".to_owned(), world.starter.clone())];
        let hook = IngestApi::new(starters, token, max_body_bytes, health.clone()).with_accounts(doors);
        let hook = Arc::new(hook);
        let mut registry = ops::base_registry();
        hook.register(&mut registry);
        let router: Router = hook.router().merge(ops::probe_router(&health)).merge(ops::metrics_router(registry));
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let url = format!("http://{}", server.addr());
        let end = CancellationToken::new();
        tokio::spawn(server.run(router, end.clone().cancelled_owned()));
        Self { world, url, client: client(), health, _end: end.drop_guard() }
    }

    fn post(&self, body: impl Into<Vec<u8>>) -> RequestBuilder {
        self.post_as("application/json", body)
    }

    fn post_as(&self, kind: &str, body: impl Into<Vec<u8>>) -> RequestBuilder {
        self.client.post(format!("{}/tweets", self.url)).header("content-type", kind).body(body.into())
    }

    /// The answer, held to its description.
    async fn answer(&self, request: RequestBuilder) -> (u16, Value) {
        let response = request.send().await.unwrap();
        described(response).await
    }

    async fn take(&self, body: impl Into<Vec<u8>>) -> Value {
        let (status, receipt) = self.answer(self.post(body)).await;
        assert_eq!(status, 202, "{receipt}");
        receipt
    }

    async fn metrics(&self) -> String {
        self.client.get(format!("{}/metrics", self.url)).send().await.unwrap().text().await.unwrap()
    }
}

/// An answer is one that `openapi.json` describes.
async fn described(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let described = &document["paths"][response.url().path()]["post"]["responses"][status.to_string()];
    assert!(described.is_object(), "{status} is not described");
    for (name, _) in described["headers"].as_object().into_iter().flatten() {
        assert!(response.headers().contains_key(name), "{status} has no {name}");
    }
    let retry = response.headers().contains_key("retry-after");
    assert_eq!(retry, described["headers"]["Retry-After"].is_object(), "{status}");
    let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    conforms(&document, &described["content"]["application/json"]["schema"], &body, "");
    (status, body)
}

/// Holds a value to a schema, which may use these words and no others.
fn conforms(document: &Value, schema: &Value, value: &Value, at: &str) {
    for (word, says) in schema.as_object().unwrap() {
        match word.as_str() {
            "$ref" => {
                let target = document.pointer(says.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
                conforms(document, target, value, at);
            }
            "type" => {
                let is = match value {
                    Value::Object(_) => "object",
                    Value::Array(_) => "array",
                    Value::String(_) => "string",
                    Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
                    _ => "something else",
                };
                assert_eq!(says, is, "{at}: {value}");
            }
            "required" => {
                for name in says.as_array().unwrap() {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing in {value}");
                }
            }
            "properties" => {
                for (name, value) in value.as_object().unwrap() {
                    let schema = says.get(name).unwrap_or_else(|| panic!("{at}: {name} is not described"));
                    conforms(document, schema, value, &format!("{at}/{name}"));
                }
            }
            "items" => {
                for (index, value) in value.as_array().unwrap().iter().enumerate() {
                    conforms(document, says, value, &format!("{at}/{index}"));
                }
            }
            "minimum" => assert!(value.as_i64().unwrap() >= says.as_i64().unwrap(), "{at}: {value}"),
            "additionalProperties" => assert_eq!(says, false, "with `properties` above"),
            "description" => {}
            other => panic!("{other}: this test does not know it"),
        }
    }
}

fn receipt(scheduled: u64, known: u64) -> Value {
    let (zero, none): (u64, [u64; 0]) = (0, []);
    json!({ "scheduled": scheduled, "known": known, "leased": zero, "dead": zero, "too_old": zero, "handles": zero,
        "refused": none, "refused_unnamed": zero })
}

#[tokio::test]
async fn an_object_an_array_and_lines_are_taken() {
    let served = Served::new().await;
    let tweet = |n: u32| format!(r#"{{"id_str":"{}","text":"hello","retweet_count":3}}"#, id(n));
    assert_eq!(served.take(tweet(1)).await, receipt(1, 0));
    assert_eq!(served.take(format!("[{}, {}]", tweet(1), tweet(2))).await, receipt(1, 1));
    assert_eq!(served.take(format!("[{}, \"{}\"]", id(3), id(4))).await, receipt(2, 0));
    assert_eq!(served.take("[]").await, receipt(0, 0));
    let lines = format!("{}\n\n{}\r\n", tweet(5), tweet(1));
    let ndjson = served.post_as("application/x-ndjson", lines);
    assert_eq!(served.answer(ndjson).await, (202, receipt(1, 1)));
    let ids = served.post_as("application/jsonl; charset=utf-8", format!("{}\n\"{}\"\n", id(6), id(7)));
    assert_eq!(served.answer(ids).await, (202, receipt(2, 0)));
    for n in 1..=7 {
        assert_eq!(served.world.places(&id(n)).await.len(), 1);
        let stored = served.world.store.tweet(NAMESPACE, &id(n)).await.unwrap().unwrap();
        let whole = [1, 2, 5].contains(&n);
        assert_eq!(stored.text.as_deref(), whole.then_some("hello"), "{n}");
    }
    let metrics = served.metrics().await;
    for line in [
        r#"twitter_updater_starter_tweets_total{provider="twitter",outcome="scheduled"} 7"#,
        r#"twitter_updater_starter_tweets_total{provider="twitter",outcome="known"} 2"#,
        r#"twitter_updater_starter_requests_total{status="202"} 6"#,
        r#"twitter_updater_starter_requests_total{status="503"} 0"#,
        "twitter_updater_starter_request_seconds_count 6",
    ] {
        assert!(metrics.lines().any(|is| is == line), "{line} is not in {metrics}");
    }
}

#[tokio::test]
async fn each_tweet_is_answered_for() {
    let served = Served::with(World::with_ages("1h: 1ms, 30d: 1d").await, None, 1 << 20).await;
    let (old, leased, dead) = (id_aged(31 * DAY, 1), id(1), id_aged(DAY, 2));
    served.take(&*leased).await;
    served.world.claim_all().await;
    served.world.store.mark_dead(NAMESPACE, clock::wall_ms(), &[(dead.clone(), "a test".to_owned())]).await.unwrap();
    let body = format!("[{}, 12, \"x\", {leased}, {dead}, {old}, null, {}]", id(2), id(2));
    let receipt = served.take(body).await;
    for (outcome, count) in [("scheduled", 1), ("known", 1), ("leased", 1), ("dead", 1), ("too_old", 1)] {
        assert_eq!(receipt[outcome], count, "{outcome}: {receipt}");
    }
    let refused = receipt["refused"].as_array().unwrap();
    assert_eq!(refused.iter().map(|of| of["index"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 6]);
    assert!(receipt["refused"][0]["reason"].as_str().unwrap().contains("created_at is needed"), "{receipt}");
    // What a worker has may be about to end: it lives again when it is let go.
    let waiting = served.world.queue.read_incoming("test", 10).await.unwrap();
    assert_eq!(waiting.iter().map(|of| &of.member).collect::<Vec<_>>(), [&leased]);
}

/// A column of ids with an empty cell is float64 in pandas and R.
#[tokio::test]
async fn ids_of_float64_are_taken_with_a_warning() {
    let served = Served::new().await;
    let rounded = |count: u32| {
        let ids = (0..10 * count).map(|n| (id(10_000 * n + 1).parse::<u64>().unwrap() as f64 as u64).to_string());
        let ids: std::collections::BTreeSet<String> = ids.collect();
        let ids: Vec<String> = ids.into_iter().filter(|id| !id.ends_with("00")).take(count as usize).collect();
        assert_eq!(ids.len(), count as usize);
        ids.join("\n")
    };
    let few = served.take(rounded(19)).await;
    assert_eq!(few.get("warning"), None, "{few}");
    let all = served.take(rounded(20)).await;
    assert!(all["warning"].as_str().is_some_and(|warning| warning.contains("float64")), "{all}");
    let mixed = served.take(format!("{}\n{}", rounded(20), id(7))).await;
    assert_eq!(mixed.get("warning"), None, "{mixed}");
}

#[tokio::test]
async fn a_body_of_which_nothing_can_be_used_is_refused_with_its_place() {
    let served = Served::new().await;
    for (body, index, says) in [
        (&b""[..], 0, "empty"),
        (b"{\"id\":", 0, "not JSON"),
        (b"[\"1460323737035677698\", {\"id\":", 1, "not JSON, at line 1"),
        (b"\n\nhello\n", 2, "not a digit"),
        (b"{\"text\":\"no id\"}", 0, "no id_str and no id"),
        (b"[null]", 0, "neither a tweet object nor an id"),
        (b"\x1f\x8b\x08\x00", 0, "gzip"),
        (b"20\n21\n", 0, "created_at is needed"),
    ] {
        let (status, problem) = served.answer(served.post(body)).await;
        assert_eq!((status, &problem["index"]), (400, &json!(index)), "{problem}");
        assert!(problem["reason"].as_str().unwrap().contains(says), "{problem}");
    }
    assert_eq!(served.world.queue.stats().await.unwrap().delayed, 0);
    // The good part of a body is done.
    let (status, some) = served.answer(served.post(format!("x\n{}\n", id(1)))).await;
    assert_eq!((status, &some["scheduled"], &some["refused"][0]["index"]), (202, &json!(1), &json!(0)));
}

#[tokio::test]
async fn any_number_of_tweets_is_taken_and_a_thousand_refusals_are_named() {
    let served = Served::new().await;
    let bad = |n: usize| format!("bad {n}\n");
    let lines: String = (0..2_500).map(|n| id(n) + "\n").chain((0..1_500).map(bad)).collect();
    let receipt = served.take(lines).await;
    assert_eq!((&receipt["scheduled"], &receipt["refused_unnamed"]), (&json!(2_500), &json!(500)));
    let refused = receipt["refused"].as_array().unwrap();
    assert_eq!((refused.len(), &refused[999]["index"]), (1_000, &json!(3_499)));
    assert_eq!(served.world.queue.stats().await.unwrap().delayed, 2_500);
    assert_eq!(served.world.store.counts(NAMESPACE).await.unwrap().live, 2_500);
}

#[tokio::test]
async fn what_follows_a_megabyte_of_old_tweets_is_taken() {
    let served = Served::with(World::new().await, None, 8 << 20).await;
    let old = |n: u32| format!(r#"{{"id_str":"{}","text":"{}"}}"#, id_aged(31 * DAY, n), "x".repeat(8_000));
    let lines: Vec<String> = (0..400).map(old).chain((0..5).map(id)).collect();
    let receipt = served.take(lines.join("\n")).await;
    assert_eq!((&receipt["too_old"], &receipt["scheduled"]), (&json!(400), &json!(5)), "{receipt}");
    assert_eq!(served.world.queue.stats().await.unwrap().delayed, 5);
}

#[tokio::test]
async fn a_service_that_is_out_promises_nothing_and_the_body_is_sent_again() {
    let served = Served::new().await;
    served.health.record_success();
    let both = format!("[{}, {}]", id(1), id(2));
    served.world.store.set_down(Some("secret words of the store"));
    let (status, problem) = served.answer(served.post(&*both)).await;
    assert_eq!((status, problem["reason"].as_str()), (503, Some("the store is down: send the whole body again")));
    assert!(served.health.check_ready().unwrap_err().to_string().contains("a service is unavailable"));
    assert_eq!(served.world.queue.stats().await.unwrap().delayed, 0);

    served.world.store.set_down(None);
    served.world.queue.fail_schedules.store(1, SeqCst);
    let (status, problem) = served.answer(served.post(&*both)).await;
    assert_eq!((status, problem["reason"].as_str()), (503, Some("the queue is down: send the whole body again")));
    // One of two batches is done, and nobody is told that.
    let many: String = (0..1_500).map(|n| id(n) + "\n").collect();
    *served.world.queue.fail_id.lock().unwrap() = Some(id(1_200));
    let (status, _) = served.answer(served.post(&*many)).await;
    assert_eq!((status, served.world.queue.stats().await.unwrap().delayed), (503, 1_000));
    *served.world.queue.fail_id.lock().unwrap() = None;
    assert_eq!(served.take(many).await, receipt(500, 1_000));
    assert_eq!(served.take(both).await, receipt(0, 2));
    assert!(served.health.check_ready().is_ok());
}

#[tokio::test]
async fn whoever_has_no_token_is_kept_out() {
    let served = Served::with(World::new().await, Some("a-token"), 1 << 20).await;
    for sent in [
        None,
        Some("Bearer a-toke"),
        Some("Bearer a-tokenx"),
        Some("Bearer b-token"),
        Some("Basic a-token"),
        Some("a-token"),
        Some("Bearer"),
    ] {
        let request = served.post(id(1));
        let request = match sent {
            Some(sent) => request.header("authorization", sent),
            None => request,
        };
        let (status, problem) = served.answer(request).await;
        assert_eq!(status, 401, "{sent:?}: {problem}");
    }
    assert_eq!(served.world.places(&id(1)).await, []);
    for sent in ["Bearer a-token", "bearer a-token"] {
        assert_eq!(served.answer(served.post(id(1)).header("authorization", sent)).await.0, 202);
    }
    let limited = until("too many wrong ones came", Duration::from_secs(30), async || {
        let (status, problem) = served.answer(served.post(id(1)).bearer_auth("b-token")).await;
        assert!(status == 401 || status == 429, "{status}: {problem}");
        (status == 429).then_some(problem)
    });
    assert!(limited.await["reason"].as_str().unwrap().contains("too many wrong ones"));
    assert_eq!(served.answer(served.post(id(1)).bearer_auth("a-token")).await.0, 202);
    // What describes it, and what watches it, needs none.
    for open in ["/openapi.json", "/live", "/metrics"] {
        assert!(served.client.get(format!("{}{open}", served.url)).send().await.unwrap().status().is_success());
    }
}

#[tokio::test]
async fn what_is_no_body_of_tweets_is_refused_by_its_head() {
    let served = Served::with(World::new().await, None, 1_000).await;
    for kind in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ""] {
        assert_eq!(served.answer(served.post_as(kind, id(1))).await.0, 415, "{kind}");
    }
    assert_eq!(served.answer(served.post(id(1)).header("content-encoding", "gzip")).await.0, 415);
    assert_eq!(served.answer(served.post(vec![b' '; 1_001])).await.0, 413);
    // One that does not say how long it is.
    let mut stream = begun(&served.url, "transfer-encoding: chunked").await;
    for _ in 0..11 {
        stream.write_all(format!("64\r\n{:100}\r\n", "").as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    assert!(answer_on(stream).await.starts_with("HTTP/1.1 413"));
    let response = served.client.get(format!("{}/tweets", served.url)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["allow"].to_str().unwrap()), (405, "POST"));
    assert_eq!(served.client.post(format!("{}/tweet", served.url)).send().await.unwrap().status(), 404);
    assert_eq!(served.take(format!("   {}", id(1))).await, receipt(1, 0));
}

/// A request whose body is still to come, of the length that the header says.
async fn begun(url: &str, length: &str) -> TcpStream {
    let addr = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let head = format!(
        "POST /tweets HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\n{length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn answer_on(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn more_than_the_memory_allows_is_sent_elsewhere() {
    const LARGEST: usize = 50_000;
    let served = Served::with(World::new().await, None, LARGEST).await;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(begun(&served.url, &format!("content-length: {LARGEST}")).await);
    }
    let busy = until("all places are taken", Duration::from_secs(20), async || {
        let (status, problem) = served.answer(served.post(id(1))).await;
        (status == 503).then_some(problem)
    })
    .await;
    assert_eq!(busy["reason"], "too many bodies are in progress: send it again later");
    // Whoever was let in is served.
    for (n, mut stream) in (10..).zip(waiting) {
        let body = format!("{:<LARGEST$}", id(n));
        stream.write_all(body.as_bytes()).await.unwrap();
        assert!(answer_on(stream).await.starts_with("HTTP/1.1 202"));
        assert_eq!(served.world.places(&id(n)).await.len(), 1);
    }
    served.take(id(1)).await;
}

#[test]
fn the_document_names_the_routes_there_are() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let sources =
        [include_str!("../../../crates/collect/src/ingest/http.rs"), include_str!("../../../src/ops/probes.rs")];
    let mut routes = std::collections::BTreeSet::new();
    for (at, word) in sources.iter().flat_map(|text| text.match_indices(".route(\"").map(move |(at, _)| (at, text))) {
        let rest = &word[at + ".route(\"".len()..];
        let (path, rest) = rest.split_once("\", ").unwrap();
        routes.insert((path.to_owned(), rest.split('(').next().unwrap().to_owned()));
    }
    let mut documented = std::collections::BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        documented.extend(methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())));
    }
    assert_eq!(documented, routes);
    assert_eq!(routes.len(), 6);
}
