//! The port for monitoring alone: what it serves, and what the other one no longer does.

use super::*;

/// The address that the log gives for metrics.
async fn metrics_at(home: &Home, role: &str) -> String {
    until("it says where its metrics are", Duration::from_secs(30), async || {
        let log = home.log(&format!("{role}.log"));
        let (_, rest) = log.split_once("serves metrics")?.1.split_once("127.0.0.1:")?;
        rest.find(|c: char| !c.is_ascii_digit()).map(|end| format!("http://127.0.0.1:{}", &rest[..end]))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_a_port_of_their_own_which_serves_no_page_and_takes_no_tweet() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.metrics_listen", "127.0.0.1:0")]);
    for name in ROLES {
        let role = home.role(name, &settings).await;
        let own = metrics_at(&home, name).await;
        let status = async |path: &str| role.client.get(format!("{own}{path}")).send().await.unwrap().status().as_u16();
        assert_eq!(role.get("/metrics").await.0, 404, "{name}");
        for path in ["/live", "/ready"] {
            assert_eq!((role.get(path).await.0, status(path).await), (200, 200), "{name} {path}");
        }
        let metrics = role.client.get(format!("{own}/metrics")).send().await.unwrap();
        assert_eq!(metrics.status(), 200, "{name}");
        assert!(metrics.text().await.unwrap().contains("twitter_updater_build_info"), "{name}");
        for path in ["/", "/dead", "/tweet?id=20", "/events", "/page.js", "/openapi.json", "/tweets"] {
            assert_eq!(status(path).await, 404, "{name} {path}");
        }
        let post =
            role.client.post(format!("{own}/tweets")).header("content-type", "application/json").body("[\"20\"]");
        assert_eq!(post.send().await.unwrap().status(), 404, "{name}");
        if name == "ops" {
            assert_eq!((role.get("/status").await.0, status("/status").await), (200, 200));
            assert!(!role.get("/").await.1.contains("/metrics"), "the page names no address that it does not serve");
        }
        assert_eq!(role.stopped().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_other_endpoints_serves_that_port_alone() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.metrics_listen", "127.0.0.1:0")]);
    let mut updater = Process::start(&["updater"], &settings, &home.path("updater.log"));
    let own = metrics_at(&home, "updater").await;
    let answer = crate::support::role::client().get(format!("{own}/metrics")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(!home.log("updater.log").contains("serves HTTP"));
    updater.signal("TERM");
    assert_eq!(updater.ended(Duration::from_secs(20)).await.code(), Some(0));
}

#[test]
fn an_address_that_is_taken_is_reported_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("home.db");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let settings = variables(&[
        ("queue.embedded.path", file.to_str().unwrap()),
        ("store.sqlite.path", file.to_str().unwrap()),
        ("http.metrics_listen", &address),
    ]);
    assert!(run(&["migrate"], &settings).status.success(), "the file is there");
    let ended = run(&["ops", "--listen", "127.0.0.1:0"], &settings);
    let said = text(&ended.stderr);
    assert!(!ended.status.success() && said.contains("choose another with http.metrics_listen"), "{said}");
}
