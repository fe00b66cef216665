//! The checks see what is wrong: on a page that does everything wrong.

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::Html;
use axum::routing::get;
use tokio::net::TcpListener;

use super::*;
use crate::support::browser::TAB;

/// Serves it; its address.
async fn wrong() -> String {
    let html = async || ([(CONTENT_SECURITY_POLICY, "default-src 'self'")], Html(include_str!("wrong.html")));
    let css = async || ([(CONTENT_TYPE, "text/css")], include_str!("wrong.css"));
    let router =
        Router::new().route("/", get(html)).route("/wrong.css", get(css)).fallback(async || StatusCode::NO_CONTENT);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_does_everything_wrong_is_told_so() {
    let server = wrong().await;
    let browser = Browser::start().await;
    let ask = async |check: &str| browser.eval(check, Value::Null).await.to_string();
    for dark in [false, true] {
        browser.looks(360, dark).await;
        browser.open(&server).await;
        let contrast = ask(include_str!("contrast.js")).await;
        let low = ["grey on white", "in a chart", "half hidden", "a placeholder"];
        assert!(low.iter().all(|text| contrast.contains(text)), "{contrast}");
        assert!(!contrast.contains("black on white") && !contrast.contains("not shown"), "{contrast}");
        assert_eq!(contrast.contains("only in the dark"), dark, "{contrast}");
    }
    let overflow = ask(include_str!("overflow.js")).await;
    assert!(overflow.contains(r#""wide":true"#) && overflow.contains("P#wide."), "{overflow}");
    assert!(!overflow.contains("#scrolls"), "{overflow}");

    let problems = ask(include_str!("structure.js")).await;
    for problem in [
        "no language",
        "no title",
        "2 h1",
        "h3 after h1",
        "0 main",
        "no header",
        "id twice twice",
        "a chart without a name",
        "a table without a name",
        "th without scope",
        "aria-labelledby nowhere leads nowhere",
        "#none leads nowhere",
        "section #unnamed without a name",
    ] {
        assert!(problems.contains(problem), "{problem}: {problems}");
    }

    browser.press(&[TAB, TAB]).await; // a box that scrolls takes the focus first
    let focus = browser.eval(include_str!("focus.js"), Value::Null).await;
    assert_eq!(focus, json!({"name": "input unlabelled", "visible": false}));
    assert_eq!(browser.names("button").await, [("button".to_owned(), String::new())]);

    // The script that is inline, and the picture of another site.
    let console = browser.console().await.join("\n");
    assert!(
        console.matches("Content Security Policy").count() >= 2 && console.contains("elsewhere.example"),
        "{console}"
    );
    assert_eq!(ask("return window.ran ?? null").await, "null");
}
