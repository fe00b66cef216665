//! What others wrote stays text, wherever it is shown.

use super::*;

/// Nothing of it became an element, and nothing ran.
async fn is_text(browser: &Browser) {
    let ran = browser.eval("return window.ran ?? null", Value::Null).await;
    assert_eq!(ran, Value::Null, "a script of a tweet ran at {}", browser.url().await);
    let foreign = "script:not([src^='/']), img, [onerror], [onload], textarea, iframe";
    assert_eq!(browser.count(foreign).await, 0, "{}", browser.url().await);
    let said = browser.console().await;
    assert!(said.is_empty(), "{said:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tweet_stays_text() {
    let stage = Stage::new(&[]).await;
    let id = stage.says(HOSTILE, HOSTILE);
    let browser = Browser::start().await;
    browser.open(&stage.url(&format!("/tweet?id={id}"))).await;
    let said = browser.eval("return document.querySelector('#text').textContent", Value::Null).await;
    assert!(said.as_str().unwrap().contains(HOSTILE), "{said}");
    is_text(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reason_a_workers_name_and_a_pause_stay_text() {
    let stage = Stage::new(&[("updater.name", HOSTILE)]).await;
    stage.until_updated().await;
    let ids = stage.mark_dead(3, HOSTILE).await;
    let mut redis = stage.redis.connection().await;
    let () = redis::AsyncCommands::set(&mut redis, "{tweet:update}:paused", HOSTILE).await.unwrap();
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    for selector in ["#answer", "#workers", "#dead"] {
        let what = format!("{selector} holds it");
        until_true(&what, PATIENCE, async || {
            let shown = browser.eval("return document.querySelector(arguments[0])?.textContent ?? ''", selector).await;
            shown.as_str().unwrap().contains("<img src=x onerror=")
        })
        .await;
    }
    is_text(&browser).await;
    for path in ["/dead".to_owned(), format!("/tweet?id={}", ids[0])] {
        browser.open(&stage.url(&path)).await;
        let shown = browser.eval("return document.querySelector('main').textContent", Value::Null).await;
        assert!(shown.as_str().unwrap().contains("<img src=x onerror="), "{path}: {shown}");
        is_text(&browser).await;
    }
}
