//! Lateness and flow of more than the last hour.

use super::*;

const TAG: &str = "{tweet:update}";

/// So many hours ago: 36 requests of 100 ids each, claimed 6 ms late.
async fn plant(stage: &Stage, ago: i64) {
    let hour = wall_ms() / HOUR - ago;
    let counters = [("minutes", 60), ("requests", 36), ("looked_up", 3_600), ("rescheduled", 3_600)];
    let mut hashes = redis::pipe();
    hashes.hset_multiple(format!("{TAG}:hour:{hour}"), &counters);
    hashes.hset(format!("{TAG}:hour:lateness:{hour}"), 6, 3_600);
    hashes.exec_async(&mut stage.redis.connection().await).await.unwrap();
}

async fn shown(browser: &Browser, section: &str) -> String {
    browser.text(&format!("section#{section}")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_is_chosen_and_stays_while_the_figures_go_on() {
    let stage = Stage::new(&[]).await;
    stage.until_updated().await;
    for ago in [2, 3, 30, 24 * 20] {
        plant(&stage, ago).await;
    }
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    assert!(shown(&browser, "flow").await.contains("Last hour"));
    for (range, name, requests) in
        [("24h", "Last 24 hours", 72), ("7d", "Last 7 days", 108), ("30d", "Last 30 days", 144)]
    {
        browser.click(&format!("#flow-{range}")).await;
        browser.until_text("#flow", "is of that range", |text| text.contains(name)).await;
        // The updater adds its own minutes.
        let flow = shown(&browser, "flow").await;
        let said: i64 = flow.split(&format!("{name}: ")).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(said >= requests && said < requests + 36, "{range}: {flow}");
        assert!(shown(&browser, "lateness").await.contains("Median"));
        let chosen = browser.text("#flow .ranges [aria-current]").await.unwrap();
        assert_eq!(chosen, range);
        browser.until_text("#live", "says that it is live", |text| text == "live").await;
        let focus = format!("document.getElementById('lateness-{range}').focus()");
        browser.eval(&focus, Value::Null).await;
        let at = shown_at(&browser).await;
        until_true("newer figures", PATIENCE, async || shown_at(&browser).await > at + 2_000).await;
        assert!(shown(&browser, "flow").await.contains(name), "the figures that follow are of the same range");
        let focused = browser.eval("return document.activeElement.id", Value::Null).await;
        assert_eq!(focused, json!(format!("lateness-{range}")));
    }
    browser.click("#lateness-1h").await;
    browser.until_text("#flow", "is of the hour", |text| text.contains("Last hour")).await;
    is_silent(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_script_it_is_a_link_and_a_range_that_there_is_not_says_so() {
    let stage = Stage::new(&[]).await;
    plant(&stage, 5).await;
    let browser = Browser::start().await;
    browser.without_script().await;
    browser.open(&stage.url("/")).await;
    browser.click("#lateness-24h").await;
    browser
        .until_text("#flow", "is of that range", |text| text.contains("Last 24 hours: 36 requests of 100 ids"))
        .await;
    for (path, says) in
        [("/?range=2y", "The page shows the last hour"), ("/events?range=2y", "?range= with 1h, 24h, 7d or 30d")]
    {
        let answer = stage.ops.client.get(stage.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), 400);
        let text = answer.text().await.unwrap();
        assert!(text.contains(says) && text.contains("Unknown range"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hours_that_cannot_be_read_are_told() {
    let stage = Stage::new(&[]).await;
    stage.until_updated().await;
    let this = wall_ms() / HOUR;
    let mut broken = redis::pipe();
    for hour in this - 1..=this + 1 {
        broken.set(format!("{TAG}:hour:{hour}"), "no hash"); // whatever was there
    }
    broken.exec_async(&mut stage.redis.connection().await).await.unwrap();
    let text = stage.ops.client.get(stage.url("/?range=24h")).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("The last 24 hours cannot be read now"), "{text}");
    assert!(text.contains("id=\"flow-1h\""), "the other ranges can be chosen");
}
