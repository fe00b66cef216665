//! Requests that the roles accept: by which name, from which page, and with what.

use reqwest::header::HOST;
use reqwest::{Method, RequestBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use twitter_updater::ingest::OPENAPI;

const TOKEN: &str = "a-token-of-the-starter";

async fn status(request: RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

fn with(request: RequestBuilder, headers: &[(&'static str, &str)]) -> RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_not_theirs_reads_and_writes_nothing() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.hosts", "tweets.example.org")]);
    for name in ["starter", "ops"] {
        let role = home.role(name, &settings).await;
        let path = if name == "starter" { "/openapi.json" } else { "/" };
        let get = |host: &str| role.client.get(format!("{}{path}", role.url)).header(HOST, host);
        for own in ["localhost:8080", "tweets.example.org", "starter.twitter-updater.svc:8080"] {
            assert_eq!(status(get(own)).await.0, 200, "{name} as {own}");
        }
        let (code, said) = status(get("rebound.example.com:8080")).await;
        assert_eq!(code, 421, "{said}");
        assert_eq!(said, "rebound.example.com is no name of this server: add it to http.hosts\n");
    }
    let ids = young(1);
    let starter = Role::start_ready("starter", &settings, &home.path("again.log")).await;
    let post = starter.client.post(format!("{}/tweets", starter.url)).header("content-type", "application/json");
    let post = post.body(json!(ids).to_string()).header(HOST, "rebound.example.com");
    assert_eq!(status(post).await.0, 421);
    assert!(text(&run(&["status"], &settings).stdout).contains("delayed"), "the queue is there");
    let said: Value = serde_json::from_slice(&run(&["status", "--json"], &settings).stdout).unwrap();
    assert_eq!(said["delayed"], 0, "{said}");
}

/// The status of the answer to these bytes.
async fn status_of(role: &Role, request: &str) -> u16 {
    let mut stream = TcpStream::connect(role.url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.strip_prefix("HTTP/1.1 ").or(answer.strip_prefix("HTTP/1.0 ")).and_then(|rest| rest.get(..3));
    status.unwrap_or_else(|| panic!("{request}: {answer}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_one_well_formed_host() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.hosts", "printer.local")]);
    for name in ["starter", "ops"] {
        let role = home.role(name, &settings).await;
        let of = async |target: &str, version: &str, hosts: &[&str]| {
            let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
            status_of(&role, &format!("GET {target} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n")).await
        };
        for own in ["localhost", "[::1]:80", "a.svc.cluster.local.", "PRINTER.local:8080", "starter_1:80"] {
            assert_eq!(of("/live", "1.1", &[own]).await, 200, "{name}: {own}");
        }
        for unknown in ["laptop.local", "evil.cluster.local", "example.org", "1.2"] {
            assert_eq!(of("/live", "1.1", &[unknown]).await, 421, "{name}: {unknown}");
        }
        for odd in [
            "",
            "a b",
            "me@localhost",
            "localhost:",
            "localhost:0",
            "localhost:99999",
            "localhost:80:80",
            "a..b",
            ".localhost",
            "localhost/x",
            "[::1",
            "[localhost]",
            "::1",
            "localhost,localhost",
            "-",
            "loc%61lhost",
        ] {
            assert_eq!(of("/live", "1.1", &[odd]).await, 400, "{name}: {odd:?}");
        }
        assert_eq!(of("/live", "1.1", &["localhost", "localhost"]).await, 400, "{name}: twice");
        assert_eq!(of("/live", "1.1", &["localhost", "evil.example"]).await, 400, "{name}: two");
        assert_eq!(of("/live", "1.1", &[]).await, 400, "{name}: none");
        assert_eq!(of("/live", "1.0", &[]).await, 200, "{name}: none, in HTTP/1.0");
        assert_eq!(of("http://evil.example/live", "1.1", &["localhost"]).await, 400, "{name}: a mismatch");
        assert_eq!(of("http://evil.example/live", "1.1", &["evil.example"]).await, 421, "{name}: a foreign address");
        assert_eq!(of("http://localhost/live", "1.1", &["localhost"]).await, 200, "{name}: a whole address");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_of_another_site_shows_an_answer_in_a_frame() {
    let home = Home::new().await;
    for name in ["starter", "ops"] {
        let role = home.role(name, &home.settings(&[])).await;
        let path = if name == "starter" { "/openapi.json" } else { "/dead?from=1" };
        let shown_in = async |site: &str, place: &str| {
            let get = role.client.get(format!("{}{path}", role.url));
            let headers = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", place)];
            status(with(get, &headers)).await.0
        };
        assert_eq!(shown_in("cross-site", "document").await, 200, "{name}: a link");
        for place in ["iframe", "frame", "embed", "object", "fencedframe"] {
            for site in ["cross-site", "same-site"] {
                assert_eq!(shown_in(site, place).await, 403, "{name}: {site} {place}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_forbids_copies_guesses_and_frames() {
    let home = Home::new().await;
    let settings = home.settings(&[("starter.bearer_token", TOKEN)]);
    for name in ["starter", "ops"] {
        let role = home.role(name, &settings).await;
        let (get, post) = (Method::GET, Method::POST);
        let mut requests = vec![
            (&get, "/live", "localhost", 200),
            (&get, "/ready", "localhost", 200),
            (&get, "/metrics", "localhost", 200),
            (&get, "/none", "localhost", 404),
            (&get, "/live", "a b", 400),
            (&get, "/live", "example.org", 421),
            (&post, "/live", "localhost", 405),
        ];
        requests.extend(match name {
            "starter" => vec![(&get, "/openapi.json", "localhost", 200), (&post, "/tweets", "localhost", 401)],
            _ => vec![
                (&get, "/status", "localhost", 200),
                (&get, "/status?namespace=none", "localhost", 404),
                (&get, "/", "localhost", 200),
                (&get, "/tweet?id=x", "localhost", 400),
                (&get, "/events", "localhost", 200),
                (&get, "/events?range=x", "localhost", 400),
                (&post, "/dead/retry", "localhost", 403),
            ],
        });
        for (method, path, host, code) in requests {
            let request = role.client.request(method.clone(), format!("{}{path}", role.url)).header(HOST, host);
            let response = request.send().await.unwrap();
            assert_eq!(response.status().as_u16(), code, "{name} {path} {host}");
            if name == "starter" {
                assert!(is_described(method, path, code), "{method} {path}: {code}");
            }
            let of = |header: &str| response.headers().get(header).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(of("x-content-type-options").as_deref(), Some("nosniff"), "{name} {path} {host}");
            assert_eq!(of("cache-control").as_deref(), Some("no-store"), "{name} {path} {host}");
            assert_eq!(of("x-frame-options").as_deref(), Some("DENY"), "{name} {path} {host}");
            assert!(of("content-security-policy").unwrap().contains("frame-ancestors 'none'"), "{name} {path} {host}");
        }
    }
}

/// Returns true if openapi.json describes this answer, or has no such operation.
fn is_described(method: &Method, path: &str, code: u16) -> bool {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let operation = &document["paths"][path][method.as_str().to_lowercase()];
    operation.is_null() || operation["responses"][code.to_string()].is_object()
}

#[test]
fn every_operation_of_the_starter_describes_the_answers_of_the_door() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for code in ["400", "403", "421", "500"] {
                let mut answer = &operation["responses"][code];
                if let Some(name) = answer["$ref"].as_str() {
                    answer = document.pointer(name.strip_prefix('#').unwrap()).unwrap_or(&Value::Null);
                }
                assert!(answer["content"]["text/plain"].is_object(), "{method} {path}: {code}");
            }
        }
    }
}

#[test]
fn an_invalid_trusted_proxy_is_one_line() {
    for (proxies, why) in [
        ("10.0.0.0/33", "is not an IP address or network"),
        ("127.0.0.1,proxy", "\"proxy\" is not an IP address or network"),
        ("10.1.2.3/8", "write 10.0.0.0/8"),
        ("0.0.0.0/0", "contains every address"),
    ] {
        let refused = run(&["ops", "--listen", "127.0.0.1:0"], &variables(&[("http.trusted_proxies", proxies)]));
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(64), "{said}");
        assert!(said.lines().count() == 1 && said.contains("http.trusted_proxies: ") && said.contains(why), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_posts_nothing_and_text_needs_a_token() {
    let home = Home::new().await;
    let open = home.settings(&[]);
    let starter = home.role("starter", &open).await;
    let id = young(1).remove(0);
    let post = |role: &Role, kind: &str| {
        role.client.post(format!("{}/tweets", role.url)).header("content-type", kind).body(id.clone())
    };
    let ndjson = "application/x-ndjson";
    for headers in [
        &[("origin", "https://elsewhere.example")][..],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")],
    ] {
        let (code, said) = status(with(post(&starter, ndjson), headers)).await;
        assert_eq!(code, 403, "{headers:?}: {said}");
    }
    let (code, said) = status(post(&starter, "text/plain")).await;
    assert!(code == 415 && said.contains("text needs a token"), "{code}: {said}");
    let unnamed = starter.client.post(format!("{}/tweets", starter.url)).body(id.clone().into_bytes());
    assert_eq!(status(unnamed).await.0, 415);
    assert_eq!(status(post(&starter, ndjson)).await.0, 202);

    let closed = home.settings(&[("starter.bearer_token", TOKEN)]);
    let starter = Role::start_ready("starter", &closed, &home.path("closed.log")).await;
    assert_eq!(status(post(&starter, "text/plain")).await.0, 401);
    assert_eq!(status(post(&starter, "text/plain").bearer_auth(TOKEN)).await.0, 202);
}

#[test]
fn a_starter_without_a_token_listens_on_the_loopback_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("home.db");
    let settings =
        variables(&[("queue.embedded.path", file.to_str().unwrap()), ("store.sqlite.path", file.to_str().unwrap())]);
    let refused = run(&["starter", "--listen", "0.0.0.0:0"], &settings);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("starter.bearer_token_file") && last.contains("starter.without_token"), "{said}");
    assert!(!file.exists(), "nothing was begun");
    let mut open = settings.clone();
    open.extend(variables(&[("starter.without_token", "anybody")]));
    let log = folder.path().join("log");
    let mut starter = Process::start(&["starter", "--listen", "0.0.0.0:0"], &open, &log);
    let watch = twitter_updater::base::clock::Stopwatch::start();
    while !std::fs::read_to_string(&log).unwrap_or_default().contains("serves HTTP") {
        assert!(starter.runs() && watch.elapsed() < Duration::from_secs(30));
        std::thread::yield_now();
    }
    assert!(starter.terminate().success());
}
