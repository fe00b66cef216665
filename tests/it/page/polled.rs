//! The polled sources: shown where there are any, live, and asked for only while somebody looks.

use std::sync::atomic::Ordering;

use twitter_updater::model::provider::Provider;
use twitter_updater::ops::NoAnswer;
use twitter_updater::ops::report::sources::ConfiguredSource;
use twitter_updater::store::{Positions, SavedPage, SourceGap, SourceTrouble, SqliteStore};

use super::looks::{faults, invalid, looks};
use super::namespaces::Two;
use super::*;
use crate::support::role::value;
use crate::timelines::polled;

const ROWS: &str = "#sources tbody tr";

fn gap(reason: &str, noted_at: i64) -> SourceGap {
    let [from, to] = [HOUR, MINUTE].map(|ago| TweetId::at(wall_ms() - ago, 0).to_string());
    SourceGap { from, to, reason: reason.to_owned(), noted_at }
}

/// Two sources, one of them with gaps.
async fn some(store: &SqliteStore) {
    let newest = TweetId::at(wall_ms() - MINUTE, 7);
    let position = json!({"latest": newest.get().to_string(), "since": "1"}).to_string();
    let gaps = [gap(HOSTILE, wall_ms() - MINUTE)];
    let page = SavedPage {
        at: wall_ms(),
        position: &position,
        is_start: false,
        gaps: &gaps,
        has_new_posts: true,
        notes: None,
        followed_at: None,
    };
    store.save_page(&polled("search/tweets"), "rust", &page).await.unwrap();
    let page = SavedPage { position: "{}", is_start: false, gaps: &[], ..page };
    store.save_page(&polled("lists/statuses"), "a-list-with-a-long-name", &page).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_appear_with_the_first_poll_and_go_on() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.eval("window.same = true", Value::Null).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    assert_eq!((browser.count("section#sources").await, browser.count("#sources[hidden]").await), (0, 1));

    let mut polling = stage.world.settings.clone();
    polling.extend(variables(&[
        ("poll.shortest", "1s"),
        ("poll.longest", "2s"),
        ("poll.sources.rust.kind", "search"),
        ("poll.sources.rust.query", "rust"),
    ]));
    let poller = Process::start(&["poll"], &polling, &stage.log("poll.log"));
    browser.until_text("#sources", "shows the source", |text| text.contains("search/tweets")).await;
    let newest = async || browser.text(&format!("{ROWS} td.id")).await.unwrap_or_default();
    until_true("its newest post is shown", PATIENCE, async || newest().await.parse::<u64>().is_ok()).await;
    let first = newest().await;
    until_true("a newer one", PATIENCE, async || newest().await != first).await;
    assert_eq!(poller.terminate().code(), Some(0));

    // A gap that is noted meanwhile.
    let store = SqliteStore::open(&stage.log("tweets.db"), PATIENCE).await.unwrap();
    let of = polled("search/tweets");
    let position = store.saved_source(&of, "rust").await.unwrap().position.unwrap();
    let gaps = [gap("only 7 days can be had", wall_ms())];
    let page = SavedPage {
        at: wall_ms(),
        position: &position,
        is_start: false,
        gaps: &gaps,
        has_new_posts: true,
        notes: None,
        followed_at: None,
    };
    store.save_page(&of, "rust", &page).await.unwrap();
    browser.until_text("#sources", "says what is missing", |text| text.contains("only 7 days can be had")).await;
    assert!(browser.text("#sources .lead").await.unwrap().contains("1 with gaps: posts may be missing"));
    assert_eq!(browser.eval("return window.same", Value::Null).await, true, "it was never loaded again");
    is_silent(&browser).await;

    browser.without_script().await;
    browser.open(&stage.url("/")).await;
    assert!(browser.text("#sources").await.unwrap().contains("only 7 days can be had"));
    let wrong = invalid(&stage.ops.get("/").await.1);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_namespaces_the_overview_shows_them_and_they_fit() {
    let two = Two::new().await;
    some(&two.store).await;
    let _worker = two.works(0).await;
    let browser = Browser::start().await;
    let problems = looks(&browser, "sources", &two.url("/")).await;
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(browser.eval(include_str!("structure.js"), Value::Null).await, json!([]));
    let wrong = invalid(&two.get("/").await.1);
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (role, name) in browser.names("#sources, #sources-box, #sources table, #sources th").await {
        assert!(role == "none" || !name.trim().is_empty(), "a {role} without a name");
    }
    assert_eq!(browser.count(ROWS).await, 3, "two sources and a gap");
    assert_eq!(browser.eval("return window.ran", Value::Null).await, Value::Null, "what is written stays text");
    let says = browser.text("#sources").await.unwrap();
    assert!(says.contains("in no queue") && says.contains("{{7*7}}"), "{says}");
    browser.open(&two.url(&format!("/n/{NAMESPACE}/"))).await;
    assert_eq!(browser.count("#sources").await, 0, "not once more on the page of each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_out_breaks_nothing_and_nobody_is_asked_for_nobody() {
    let two = Two::new().await;
    let _workers = [two.works(0).await, two.works(1).await];
    some(&two.store).await;
    let asked = || two.asked.load(Ordering::Relaxed);
    assert_eq!(asked(), 0, "nobody has looked yet");
    let browser = Browser::start().await;
    browser.open(&two.url("/")).await;
    assert_eq!(browser.count(ROWS).await, 3);
    let watching = asked();
    let begun = wall_ms();
    until_true("they are read again", PATIENCE, async || asked() >= watching + 3).await;
    let (times, for_so_long) = (asked() - watching, wall_ms() - begun);
    assert!(for_so_long >= 2_900 * (i64::from(times) - 1), "{times} times in {for_so_long} ms");

    let why = "the store cannot be used (no <route>)";
    let open = two.positions.load();
    two.positions.set(Err(NoAnswer::Failed(why.to_owned())));
    browser.until_text("#sources", "says why", |text| text.contains(why)).await;
    assert_eq!(browser.count(ROWS).await, 0, "what is old is not shown as new");
    let at = shown_at(&browser).await;
    until_true("all else goes on", PATIENCE, async || shown_at(&browser).await > at + 2_000).await;
    let said: Value = serde_json::from_str(&two.get("/status").await.1).unwrap();
    assert!(said["sources_error"] == why && said["namespaces"][0]["delayed"] == 234, "{said}");
    two.positions.set(open.as_ref().clone());
    browser.until_text("#sources", "shows them again", |text| text.contains("search/tweets")).await;

    browser.open("about:blank").await;
    // The stream ends with the page's connection; what was asked until then is over within a second or two.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = asked();
    tokio::time::sleep(Duration::from_secs(7)).await; // that nothing happens cannot be awaited
    assert_eq!(asked(), before);
}

/// A source that cannot be read from the first poll on, and one that could; what was answered is hostile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_and_what_is_quiet_is_in_the_headline_live_and_stays_text() {
    let of = polled("search/tweets");
    let named = ["calm", "down"].map(|name| ConfiguredSource {
        name: name.to_owned(),
        provider: Provider::Twitter,
        namespace: of.clone(),
        quiet_after: Some(Duration::from_secs(3_600)),
        longest: Duration::from_secs(900),
    });
    let two = Two::with_sources(named.to_vec()).await;
    let _workers = [two.works(0).await, two.works(1).await, two.polls(&of, &["calm", "down"]).await];
    let page = |at| SavedPage {
        at,
        position: "{}",
        is_start: false,
        gaps: &[],
        has_new_posts: true,
        notes: None,
        followed_at: None,
    };
    for name in ["calm", "down"] {
        two.store.save_page(&of, name, &page(wall_ms())).await.unwrap();
    }
    let browser = Browser::start().await;
    browser.open(&two.url("/")).await;
    browser.eval("window.same = true", Value::Null).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    let verdict = "#namespace-0 .verdict";
    let is = async |state: &str| browser.attribute(verdict, "data-state").await.as_deref() == Some(state);
    until_true("all is fresh", PATIENCE, async || is("fresh").await).await;

    let error = format!("HTTP 500\r\n{HOSTILE}{}", "x".repeat(10_000));
    let since = wall_ms() - HOUR;
    let trouble = SourceTrouble { since, failures: 1_234, error, at: wall_ms() + MINUTE };
    for name in ["down", "new"] {
        two.store.save_trouble(&of, name, &trouble).await.unwrap();
    }
    let says = "new posts are not collected: source down cannot be read since ";
    browser.until_text(verdict, "names the source", |text| text.contains(says)).await;
    assert!(is("late").await);
    browser.until_text("#sources", "says why", |text| text.contains("new cannot be read since")).await;
    let shown = browser.text("#sources").await.unwrap();
    for says in ["2 cannot be read", "no page yet", "(1,234 times): HTTP 500 <script>", "{{7*7}}"] {
        assert!(shown.contains(says), "{says}: {shown}");
    }
    assert!(shown.len() < 2_000, "{} bytes", shown.len());
    let mut problems = Vec::new();
    for (width, dark) in [(360, true), (1280, false)] {
        browser.looks(width, dark).await;
        problems.extend(faults(&browser, &format!("sources at {width} px")).await);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let said: Value = serde_json::from_str(&two.get("/status").await.1).unwrap();
    let new = said["sources"].as_array().unwrap().iter().find(|source| source["name"] == "new").unwrap();
    assert_eq!((&new["saved_at"], &new["trouble"]["failures"]), (&Value::Null, &json!(1_234)), "{said}");
    assert!(new["trouble"]["error"].as_str().is_some_and(|error| error.len() < 400 && !error.contains('\n')), "{said}");

    // It is read again; the other one has brought nothing for longer than it may.
    two.store.save_page(&of, "down", &page(wall_ms())).await.unwrap();
    until_true("all is fresh again", PATIENCE, async || is("fresh").await).await;
    two.store.save_page(&of, "calm", &page(since - MINUTE)).await.unwrap();
    two.store.save_page(&of, "calm", &SavedPage { has_new_posts: false, ..page(wall_ms()) }).await.unwrap();
    let says = "source calm brought no new post since ";
    browser.until_text(verdict, "names the quiet one", |text| text.contains(says)).await;
    browser.until_text("#sources", "says so, too", |text| text.contains("calm brought no new post since")).await;
    let metrics = two.get("/metrics").await.1;
    let of = |name: &str| value(&metrics, &format!("twitter_updater_{name}{{namespace=\"{of}\"}}"));
    assert_eq!((of("sources_failing"), of("sources_quiet")), (Some(0.0), Some(1.0)), "{metrics}");
    assert_eq!(browser.eval("return window.same", Value::Null).await, true, "it was never loaded again");
    assert_eq!(browser.eval("return window.ran", Value::Null).await, Value::Null, "what is written stays text");
    let wrong = invalid(&two.get("/").await.1);
    assert!(wrong.is_empty(), "{wrong:#?}");
    is_silent(&browser).await;

    // Where the store does not answer, nothing is known of them.
    two.positions.set(Err(NoAnswer::Failed("it is out".to_owned())));
    until_true("they are absent", PATIENCE, async || !two.get("/metrics").await.1.contains("sources_")).await;
}
