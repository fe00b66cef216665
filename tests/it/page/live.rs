//! It stays up to date by itself, says when it does not, and needs no script to show what was.

use super::*;

/// All that the sections show, each as one text.
async fn shown(browser: &Browser) -> Vec<String> {
    let mut shown = Vec::new();
    for section in SECTIONS {
        let text = browser.text(&format!("section#{section}")).await;
        shown.push(text.unwrap_or_else(|| panic!("no section {section}")));
    }
    shown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_follows_the_queue_without_being_loaded_again() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    let (at, before) = (shown_at(&browser).await, shown(&browser).await);
    assert!(before.iter().all(|text| !text.trim().is_empty()), "{before:#?}");
    browser.eval("window.same = true", Value::Null).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    until_true("newer figures", PATIENCE, async || shown_at(&browser).await > at + 2_000).await;
    until_true("the worker shows", PATIENCE, async || shown(&browser).await[5].contains("worker-1")).await;
    until_true("the flow goes on", PATIENCE, async || shown(&browser).await[3] != before[3]).await;
    browser.until_text("#answer", "is an answer", |text| !text.trim().is_empty()).await;
    until_true("all is fresh", PATIENCE, async || {
        browser.attribute("#answer", "data-state").await.as_deref() == Some("fresh")
    })
    .await;
    // The youngest tweets, of which each is a way to its own page.
    let lookups = async || browser.text("#tweets tbody tr:first-child td.lesser").await.unwrap_or_default();
    until_true("a tweet is shown", PATIENCE, async || !lookups().await.is_empty()).await;
    let first = lookups().await;
    until_true("it is looked up again", PATIENCE, async || lookups().await != first).await;
    assert_eq!(browser.eval("return window.same", Value::Null).await, true);
    browser.click("#tweets tbody tr:last-child a").await;
    browser.until_text("#place", "says where the tweet is", |text| !text.trim().is_empty()).await;
    is_silent(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_or_typed_meanwhile_stays_as_it_is() {
    let stage = Stage::new(&[]).await;
    stage.until_updated().await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    browser.type_into("form[role=search] input[name=id]", "146032").await;
    let opened = "document.querySelectorAll('main details').forEach((one) => { one.open = true; });
        return document.querySelectorAll('main details').length";
    let opened = browser.eval(opened, Value::Null).await;
    let at = shown_at(&browser).await;
    until_true("newer figures", PATIENCE, async || shown_at(&browser).await > at + 2_000).await;
    assert_eq!(browser.eval("return document.activeElement.name", Value::Null).await, "id");
    assert_eq!(browser.eval("return document.activeElement.value", Value::Null).await, "146032");
    assert_eq!(browser.count("main details[open]").await, opened.as_u64().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_is_told_and_one_that_comes_back_is_followed() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    let address = stage.ops.url.strip_prefix("http://").unwrap().to_owned();
    stage.ops.process.signal("KILL");
    browser.until_text("#live", "says that it reconnects", |text| text.contains("reconnecting")).await;
    let at = shown_at(&browser).await;
    let again = Role::start_at(&address, "ops", &stage.world.settings, &stage.log("again.log")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    until_true("newer figures", PATIENCE, async || shown_at(&browser).await > at).await;
    assert_eq!(again.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_out_is_never_shown_as_fresh() {
    let mut stage = Stage::new(&[]).await;
    stage.until_updated().await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    let state = async || browser.attribute("#answer", "data-state").await.unwrap();
    until_true("all is fresh", PATIENCE, async || state().await == "fresh").await;
    stage.redis.kill();
    until_true("the answer is unknown", PATIENCE, async || state().await == "unknown").await;
    // Also for who comes now, and without a blank page.
    browser.open(&stage.url("/")).await;
    assert_eq!(state().await, "unknown");
    assert_eq!(shown(&browser).await.len(), SECTIONS.len());
    stage.redis.start_again();
    until_true("it is known again", PATIENCE, async || state().await != "unknown").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_script_it_shows_the_figures_once() {
    let stage = Stage::new(&[]).await;
    stage.until_updated().await;
    let browser = Browser::start().await;
    browser.without_script().await;
    browser.open(&stage.url("/")).await;
    assert!(shown_at(&browser).await > wall_ms() - MINUTE);
    assert!(shown(&browser).await.iter().all(|text| !text.trim().is_empty()));
    let live = browser.text("#live").await.unwrap_or_default();
    assert_ne!(live, "live", "nothing is live without a script");
    browser.type_into("form[role=search] input[name=id]", &format!("{}\u{E007}", stage.ids[0])).await;
    browser.until_text("h1", "is that of the tweet", |text| text.contains(&stage.ids[0])).await;
    assert_eq!(browser.count("#tweet #place").await, 1);
}
