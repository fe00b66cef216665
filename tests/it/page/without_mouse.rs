//! Keys are enough, and so are ears.

use super::*;
use crate::support::browser::{ENTER, TAB};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_reach_everything_and_the_focus_is_seen() {
    let stage = Stage::new(&[]).await;
    stage.until_updated().await;
    stage.mark_dead(1, "refused (HTTP 400)").await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    let mut reached = Vec::new();
    let inputs = "a[href], button, input:not([type=hidden]), summary";
    let mut expected = browser.count(inputs).await;
    for _ in 0..10 * expected {
        browser.press(&[TAB]).await;
        // What is shown changes meanwhile: a post that is up to date again leaves the list of the late.
        expected = expected.min(browser.count(inputs).await);
        let focus = browser.eval(include_str!("focus.js"), Value::Null).await;
        let Some(name) = focus["name"].as_str() else {
            if reached.len() as u64 >= expected {
                break; // past the last one
            }
            continue; // what had it is shown no more: the next key goes on from there
        };
        assert_eq!(focus["visible"], true, "the focus is not to be seen on {focus}");
        if reached.first().is_some_and(|first| first == name) {
            break; // round
        }
        reached.push(name.to_owned());
    }
    assert!(reached.len() as u64 >= expected, "{} of {expected}: {reached:?}", reached.len());
    assert!(
        reached.iter().any(|name| name == "input id") && reached.iter().any(|name| name == "a /dead"),
        "{reached:?}"
    );
    assert!(reached[0].starts_with("a #"), "the way to skip to the content comes first: {reached:?}");

    browser.open(&stage.url("/")).await;
    let focus_on = "before = document.querySelector('#dead a:not([id])'); before.focus()";
    browser.eval(focus_on, Value::Null).await;
    stage.mark_dead(2, "refused (HTTP 400)").await;
    until_true("an update puts another in place of the link", PATIENCE, async || {
        browser.eval("return !document.contains(before)", Value::Null).await == true
    })
    .await;
    let kept = "return document.activeElement.getAttribute('href') === before.getAttribute('href')";
    assert_eq!(browser.eval(kept, Value::Null).await, true, "a link keeps the focus");

    browser.open(&stage.url("/")).await;
    until_true("the search has the focus", PATIENCE, async || {
        browser.press(&[TAB]).await;
        browser.eval(include_str!("focus.js"), Value::Null).await["name"] == "input id"
    })
    .await;
    let id: Vec<char> = stage.ids[3].chars().chain([ENTER]).collect();
    browser.press(&id).await;
    browser.until_text("h1", "is that of the tweet", |text| text.contains(&stage.ids[3])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ears_find_names_headings_and_landmarks() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    stage.until_updated().await;
    stage.mark_dead(2, "refused (HTTP 400)").await;
    let browser = Browser::start().await;
    for path in [
        "/".to_owned(),
        format!("/tweet?id={}", stage.ids[0]),
        "/tweet?id=x".to_owned(),
        "/dead".to_owned(),
        "/errors".to_owned(),
    ] {
        browser.open(&stage.url(&path)).await;
        let problems = browser.eval(include_str!("structure.js"), Value::Null).await;
        assert_eq!(problems, json!([]), "{path}");
        let controls = "a[href], button, input:not([type=hidden]), summary, meter, progress, svg[role=img], [role=region], section";
        for (role, name) in browser.names(controls).await {
            // What is closed now has no role.
            assert!(role == "none" || !name.trim().is_empty(), "{path}: a {role} without a name");
        }
        let field = browser.names("form[role=search] input[name=id]").await;
        assert!(matches!(&*field[0].0, "textbox" | "searchbox"), "{field:?}");
    }
    // What changes by itself is told, and not every second.
    browser.open(&stage.url("/")).await;
    let spoken = "return document.querySelector('#spoken[role=status]').textContent";
    browser.until_text("#live", "is live", |text| text == "live").await;
    assert_eq!(browser.eval(spoken, Value::Null).await, "", "it is told what it can read");
    let late = "document.querySelector('#spoken').dataset.state = 'late'";
    browser.eval(late, Value::Null).await;
    until_true("the answer is told once it is another", PATIENCE, async || {
        let said = browser.eval(spoken, Value::Null).await;
        said.as_str().is_some_and(|said| said.contains("up to date"))
    })
    .await;
}
