//! A tweet is found by its id and by its address; whatever else is typed is told in one line.

use super::*;

const FIELD: &str = "form[role=search] input[name=id]";

/// Types it on the front page and sends it.
async fn search(browser: &Browser, stage: &Stage, typed: &str) {
    browser.open(&stage.url("/")).await;
    browser.type_into(FIELD, &format!("{typed}\u{E007}")).await;
    until_true("another page", PATIENCE, async || browser.url().await.contains("/tweet?")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tweet_is_found_with_its_place_and_its_counts() {
    let stage = Stage::new(&[]).await;
    let id = &stage.grown(2).await;
    let browser = Browser::start().await;
    for typed in [
        id.clone(),
        format!(" {id} "),
        format!("https://twitter.com/someone/status/{id}"),
        format!("https://x.com/i/web/status/{id}?s=20"),
        format!("mobile.twitter.com/someone/status/{id}/photo/1"),
    ] {
        search(&browser, &stage, &typed).await;
        assert_eq!(browser.count("#tweet").await, 1, "{typed:?}: {:?}", browser.text("main").await);
        assert!(browser.text("h1").await.is_some_and(|title| title.contains(id)), "{typed:?}");
    }
    let place = browser.text("#place").await.unwrap();
    assert!(["waiting", "due", "leased"].iter().any(|word| place.contains(word)), "{place}");
    let stored = stage.world.store.tweet(NAMESPACE, id).await.unwrap().unwrap();
    let shown = browser.text("#text").await.unwrap();
    let first_word = stored.text.unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(shown.contains(&first_word), "{first_word}: {shown}");
    assert!(browser.count("#counts svg[role=img]").await >= 1);
    // The same for those who cannot see a chart.
    browser.eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })", Value::Null).await;
    assert!(browser.count("#counts table tbody tr").await >= 2);
    is_silent(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tweets_page_leads_to_its_network_and_shows_the_newest_object() {
    let stage = Stage::new(&[]).await;
    let id = &stage.grown(1).await;
    let browser = Browser::start().await;
    browser.without_script().await;
    browser.open(&stage.url(&format!("/tweet?id={id}"))).await;
    let at_network = browser.attribute("#original", "href").await;
    assert_eq!(at_network, Some(format!("https://x.com/i/web/status/{id}")));
    assert_eq!(browser.attribute("#original", "rel").await.as_deref(), Some("noreferrer noopener"));
    browser.click("#object summary").await;
    let shown = browser.text("#object-box").await.unwrap();
    assert!(shown.lines().count() > 5, "a line for each value: {shown}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(&shown["id_str"], id);
    let stored = stage.world.store.tweet(NAMESPACE, id).await.unwrap().unwrap();
    let stored: Value = serde_json::from_str(&stored.raw.unwrap()).unwrap();
    assert_eq!(shown["created_at"], stored["created_at"]);
    is_silent(&browser).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_found_is_no_alarm() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    let edge = "return getComputedStyle(document.querySelector('#problem')).borderLeftColor";
    let red = "return (() => { const of = document.createElement('i'); of.style.color = 'var(--bad)';
        document.body.append(of); return getComputedStyle(of).color; })()";
    for typed in ["1460323737035677698", "hello"] {
        browser.open(&stage.url(&format!("/tweet?id={typed}"))).await;
        assert_ne!(browser.eval(edge, Value::Null).await, browser.eval(red, Value::Null).await, "{typed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_tweet_is_one_line_and_stays_in_the_field() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    for (typed, status) in [
        ("1460323737035677698", 404), // not ours
        ("0", 400),
        ("-5", 400),
        ("hello", 400),
        ("1.46E+18", 400),
        ("9223372036854775808", 400),
        ("99999999999999999999999999999999999999999999", 400),
        ("https://twitter.com/someone", 400),
        ("https://elsewhere.example/a/status/1460323737035677698x", 400),
        ("{tweet:update}:leased", 400),
        ("١٢٣", 400),
        (HOSTILE, 400),
    ] {
        search(&browser, &stage, typed).await;
        let problem = browser.text("#problem[role=alert]").await.unwrap_or_else(|| panic!("{typed:?}: no problem"));
        assert_eq!(problem.trim().lines().count(), 1, "{typed:?}: {problem}");
        let kept = browser.eval("return document.querySelector(arguments[0]).value", FIELD).await;
        assert_eq!(kept, typed);
        assert_eq!(browser.count("#tweet").await, 0, "{typed:?}");
        assert_eq!(browser.eval("return window.ran ?? null", Value::Null).await, Value::Null, "{typed:?}");
        let url = browser.url().await;
        let answer = stage.ops.client.get(&url).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{typed:?}");
    }
    // The browser tells of a status over 399; nothing else is to be told.
    let said = browser.console().await;
    assert!(said.iter().all(|line| line.contains("the server responded with a status of 40")), "{said:#?}");
    // What no form sends.
    let long = format!("/tweet?id={}", "1".repeat(20_000));
    for path in ["/tweet", "/tweet?id=", "/tweet?id=%00", "/tweet?id=%FF", "/tweet?id=1&id=2", &long] {
        let (status, _) = stage.ops.get(path).await;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
}
