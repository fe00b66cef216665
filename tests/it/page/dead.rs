//! The dead are seen by everybody, and brought back or ended by who has the token.

use super::*;
use crate::support::browser::{ENTER, TAB};

const FORMS: &str = "main form[method=post], main input[name=token], main button[formaction]";

/// Sends what the form of that id would.
async fn post(stage: &Stage, path: &str, id: &str, token: &str) -> u16 {
    let request = stage.ops.client.post(stage.url(path)).form(&[("id", id), ("token", token)]);
    request.send().await.unwrap().status().as_u16()
}

async fn dead(stage: &Stage) -> u64 {
    stage.world.queue.stats().await.unwrap().dead
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_they_can_only_be_read() {
    let stage = Stage::new(&[]).await;
    let ids = stage.mark_dead(3, "refused (HTTP 400)").await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/dead")).await;
    let shown = browser.text("main").await.unwrap();
    assert!(ids.iter().all(|id| shown.contains(id)) && shown.contains("refused (HTTP 400)"), "{shown}");
    assert_eq!(browser.count(FORMS).await, 0);
    for path in ["/dead/retry", "/dead/drop"] {
        for token in ["", "anything"] {
            assert_eq!(post(&stage, path, &ids[0], token).await, 403, "{path} {token:?}");
        }
    }
    assert_eq!(dead(&stage).await, 3);
    is_silent(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_token_they_are_retried_and_dropped() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    let ids = stage.mark_dead(3, "refused (HTTP 400)").await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/dead")).await;
    for (button, id) in [("button:not([formaction])", &ids[0]), ("button[formaction='/dead/drop']", &ids[1])] {
        let before = dead(&stage).await;
        for (token, answer, left) in [("not it", "#problem", before), (TOKEN, "#notice", before - 1)] {
            browser.open(&stage.url("/dead")).await;
            let row = format!("tr:has(input[name=id][value='{id}'])");
            browser.click(&format!("{row} summary")).await;
            browser.type_into(&format!("{row} input[name=token]"), token).await;
            browser.click(&format!("{row} {button}")).await;
            browser.until_text(answer, "says what was done", |text| text.trim().lines().count() == 1).await;
            assert_eq!(dead(&stage).await, left, "{button} with {token:?}");
            // The token is nowhere to be read.
            let page = browser.eval("return document.documentElement.outerHTML + location.href", Value::Null).await;
            assert!(!page.as_str().unwrap().contains(TOKEN), "{page}");
        }
    }
    browser.open(&stage.url("/dead")).await;
    let shown = browser.text("main").await.unwrap();
    assert!(!shown.contains(&ids[0]) && !shown.contains(&ids[1]) && shown.contains(&ids[2]), "{shown}");
    assert_eq!(post(&stage, "/dead/drop", &stage.ids[0], TOKEN).await, 409, "one that is not dead");
    let log = std::fs::read_to_string(stage.log("ops.log")).unwrap();
    assert!(!log.contains(TOKEN), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_another_site_does_nothing() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    let ids = stage.mark_dead(1, "refused (HTTP 400)").await;
    for (header, value) in [("origin", "https://elsewhere.example"), ("sec-fetch-site", "cross-site")] {
        let form = [("id", ids[0].as_str()), ("token", TOKEN)];
        let request = stage.ops.client.post(stage.url("/dead/drop")).header(header, value).form(&form);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{header}");
    }
    assert_eq!(dead(&stage).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_paged() {
    let stage = Stage::new(&[]).await;
    let ids = stage.mark_dead(450, "refused (HTTP 400)").await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/dead")).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..ids.len() {
        let shown = browser.text("main").await.unwrap();
        seen.extend(ids.iter().filter(|id| shown.contains(*id)).cloned());
        if browser.count("a[rel=next]").await == 0 {
            break;
        }
        browser.click("a[rel=next]").await;
    }
    assert_eq!(seen.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_to_the_next_page_leads_to_more() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/dead")).await;
    assert_eq!(browser.count("nav.pages").await, 0, "none are dead");
    // As many as a page has.
    stage.mark_dead(50, "refused (HTTP 400)").await;
    browser.open(&stage.url("/dead")).await;
    assert_eq!((browser.count("#dead tbody tr").await, browser.count("a[rel=next]").await), (50, 0));
    assert_eq!(browser.count("nav.pages").await, 0);
    stage.mark_dead(1, "refused (HTTP 400)").await;
    browser.open(&stage.url("/dead")).await;
    browser.click("a[rel=next]").await;
    assert_eq!((browser.count("#dead tbody tr").await, browser.count("a[rel=next]").await), (1, 0));
    browser.click("nav.pages a").await;
    assert_eq!(browser.url().await, stage.url("/dead"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_of_a_reason_are_retried_or_dropped_at_once() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    let all = stage.mark_each_dead(&["refused (HTTP 400)"; 3]).await;
    let others = stage.mark_each_dead(&["the API's answer <cannot> be read"; 60]).await;
    let browser = Browser::start().await;
    browser.without_script().await;
    browser.open(&stage.url("/dead")).await;
    browser.type_into("#filter input", "http 400\u{E007}").await;
    until_true("the list is filtered", PATIENCE, async || browser.url().await.contains("reason=")).await;
    let shown = browser.text("#dead tbody").await.unwrap();
    assert!(all.iter().all(|id| shown.contains(id)) && !others.iter().any(|id| shown.contains(id)), "{shown}");
    assert_eq!(browser.count("a[rel=next]").await, 0);
    // Without the box nothing is sent; a program that does so is refused.
    let unsure = [("words", "HTTP 400"), ("token", TOKEN)];
    let request = stage.ops.client.post(stage.url("/dead/drop-all")).form(&unsure);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 400);
    assert_eq!(dead(&stage).await, 63);

    // By keys alone, from the summary on.
    browser.focus("#many summary").await;
    browser.press(&[ENTER, TAB, ' ', TAB]).await;
    browser.press(&TOKEN.chars().chain([TAB, TAB, ENTER]).collect::<Vec<_>>()).await;
    browser.until_text("#notice", "says how many", |text| text == "3 posts dropped.").await;
    assert_eq!(dead(&stage).await, 60);
    browser.open(&stage.url("/dead?reason=%3Ccannot%3E")).await;
    assert_eq!((browser.count("#dead tbody tr").await, browser.count("a[rel=next]").await), (50, 1));
    browser.click("#many summary").await;
    browser.click("#many input[name=sure]").await;
    browser.click("#many button:not([formaction])").await;
    browser.until_text("#notice", "says how many", |text| text == "60 posts due now.").await;
    assert_eq!(dead(&stage).await, 0);
    let log = std::fs::read_to_string(stage.log("ops.log")).unwrap();
    assert_eq!(log.matches("dead posts changed in bulk on the page").count(), 2, "{log}");
    assert!(log.contains("http 400") && !log.contains(TOKEN), "{log}");
}
