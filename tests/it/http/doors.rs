//! Requests that the roles accept: by which name, from which page, and with what.

use reqwest::RequestBuilder;
use reqwest::header::HOST;

use super::*;

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
