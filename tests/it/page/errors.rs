//! The last errors: on the overview, each once, also after they are over.

use super::*;

const ROWS: &str = "#errors tbody tr";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_shown_once_with_where_and_when_and_stays_when_it_is_over() {
    let mut stage = Stage::new(&[("ops.token", TOKEN)]).await;
    stage.until_updated().await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    assert_eq!(browser.count(ROWS).await, 0);
    stage.mark_dead(3, "refused (HTTP 400)").await;
    browser.until_text("#errors", "says why they died", |text| text.contains("refused (HTTP 400)")).await;
    assert_eq!((browser.count(ROWS).await, browser.count("#errors tbody a").await), (1, 1), "three of one reason");

    stage.redis.kill();
    browser.until_text("#errors", "says what is out", |text| text.contains("queue")).await;
    let place = browser.text("#errors tbody th").await.unwrap();
    assert_eq!(place, "queue", "the newest first");
    stage.redis.start_again();
    until_true("it is known again", PATIENCE, async || {
        browser.attribute("#answer", "data-state").await.as_deref() != Some("unknown")
    })
    .await;
    let said = browser.text("#errors").await.unwrap();
    assert!(said.contains("queue") && !said.contains(TOKEN), "{said}");

    browser.without_script().await;
    browser.open(&stage.url("/")).await;
    assert!(browser.text("#errors").await.unwrap().contains("queue"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_workers_recorded_are_found_by_their_words_and_stay_text() {
    let stage = Stage::new(&[]).await;
    stage.until_updated().await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    stage.record_error("no answer", "media.example", "HTTP 503").await;
    stage.record_error("no answer", HOSTILE, HOSTILE).await;
    browser
        .until_text("#errors", "shows them", |text| text.contains("HTTP 503") && text.contains("media.example"))
        .await;
    assert_eq!((browser.count(ROWS).await, browser.count("#errors tbody a").await), (2, 2), "with an example each");
    browser.click("#errors p a").await;
    browser.until_text("h1", "is the list", |text| text == "Last errors").await;
    assert_eq!(browser.count(ROWS).await, 2);
    browser.type_into("#filter input", "MEDIA.example").await;
    browser.click("#filter button").await;
    until_true("one of them is found", PATIENCE, async || browser.count(ROWS).await == 1).await;
    assert!(browser.text("#errors").await.unwrap().contains("HTTP 503"));
    browser.open(&stage.url("/errors?text=%3Cscript%3Ewindow.ran%3D1")).await;
    assert_eq!(browser.count(ROWS).await, 1);
    assert_eq!(browser.eval("return window.ran ?? 0", Value::Null).await, 0);
    is_silent(&browser).await;
}
