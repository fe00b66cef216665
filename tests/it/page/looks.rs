//! How it looks, at four widths, light and dark: pictures for people, and what a machine can tell by itself.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::*;

/// What Debian's tidy (5.6) says of a page that is right: it knows neither the attributes that SVG has of its own,
/// nor those of WAI-ARIA 1.1.
const FALSE_ALARMS: [&str; 6] = [
    r#"<svg> proprietary attribute "fill""#,
    r#"<svg> proprietary attribute "focusable""#,
    r#"<svg> proprietary attribute "stroke""#,
    r#"<svg> proprietary attribute "stroke-linecap""#,
    r#"<svg> proprietary attribute "stroke-linejoin""#,
    r#"<a> proprietary attribute "aria-current""#,
];

/// Without the groups in lists of terms, `<dl><div><dt>…</dd></div></dl>`, which HTML 5.2 brought and tidy refuses.
fn ungrouped(html: &str) -> String {
    let mut lists = html.split("<dl");
    let mut all = lists.next().unwrap().to_owned();
    for list in lists {
        let (terms, rest) = list.split_once("</dl>").expect("a list that does not end");
        all += &format!("<dl{}</dl>{rest}", terms.replace("<div>", "").replace("</div>", ""));
    }
    all
}

/// Where pictures are put, for people.
static PICTURES: LazyLock<PathBuf> =
    LazyLock::new(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/page"));

/// What tidy says of it, but for false alarms.
pub fn invalid(html: &str) -> Vec<String> {
    let mut tidy = Command::new("tidy")
        .args(["-errors", "-quiet", "-utf8"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidy did not start: `make services` installs it");
    tidy.stdin.take().unwrap().write_all(ungrouped(html).as_bytes()).unwrap();
    let said = text(&tidy.wait_with_output().unwrap().stderr);
    let is_true = |line: &&str| !FALSE_ALARMS.iter().any(|alarm| line.ends_with(alarm));
    said.lines().filter(is_true).map(str::to_owned).collect()
}

/// What sticks out of the page as it is now, or can hardly be read.
pub async fn faults(browser: &Browser, name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let overflow = browser.eval(include_str!("overflow.js"), Value::Null).await;
    if overflow != json!({"wide": false, "out": []}) {
        faults.push(format!("{name} sticks out: {overflow}"));
    }
    let contrast = browser.eval(include_str!("contrast.js"), Value::Null).await;
    assert!(contrast["seen"].as_u64() > Some(3), "{name}: {contrast}");
    if contrast["low"] != json!([]) {
        faults.push(format!("{name}: too little contrast: {:#}", contrast["low"]));
    }
    // All that can be opened is open by now.
    let opened = browser.eval(include_str!("overflow.js"), Value::Null).await;
    if opened != json!({"wide": false, "out": []}) {
        faults.push(format!("{name} sticks out when opened: {opened}"));
    }
    faults
}

/// Each kind of page: its name and where it is.
async fn pages(stage: &Stage) -> Vec<(&'static str, String)> {
    let id = stage.grown(4).await;
    let dead = stage.mark_dead(12, "its request failed eight times alone: HTTP 500").await;
    stage.record_error("credential refused", &"host-".repeat(20), &"no-answer-at-all-".repeat(17)).await;
    vec![
        ("front", "/".to_owned()),
        ("errors", "/errors".to_owned()),
        ("front-week", "/?range=7d".to_owned()),
        ("tweet", format!("/tweet?id={id}")),
        ("problem", "/tweet?id=nonsense".to_owned()),
        ("dead", "/dead".to_owned()),
        ("dead-tweet", format!("/tweet?id={}", dead[0])),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_fits_and_can_be_read_at_four_widths_light_and_dark() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    let browser = Browser::start().await;
    let mut problems = Vec::new();
    for (name, path) in pages(&stage).await {
        problems.extend(looks(&browser, name, &stage.url(&path)).await);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Names as long as they may be, without a place to break, and a store that is out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_names_empty_lists_and_what_is_out_fit_too() {
    let browser = Browser::start().await;
    let empty = Stage::new(&[]).await;
    let mut problems = looks(&browser, "empty-dead", &empty.url("/dead")).await;
    let mut long = Stage::new(&[("updater.name", &"worker-".repeat(20)), ("ops.token", TOKEN)]).await;
    long.until_updated().await;
    let dead = long.mark_dead(2, &"a-reason-without-any-space-".repeat(8)).await;
    browser.open(&long.url("/")).await;
    browser.until_text("#workers", "shows the worker", |text| text.contains("worker-worker")).await;
    let filtered = format!("/dead?reason={}", "a-reason-without-any-space-".repeat(6));
    for (name, path) in [("long-front", "/"), ("long-dead", "/dead"), ("long-filter", &filtered)] {
        problems.extend(looks(&browser, name, &long.url(path)).await);
    }
    assert!(browser.text("#dead").await.unwrap().contains(&dead[0]), "the filter lets it through");
    long.redis.kill();
    browser.open(&long.url("/")).await;
    browser.until_text("#errors", "says what is out", |text| text.contains("queue")).await;
    problems.extend(looks(&browser, "out-front", &long.url("/")).await);
    problems.extend(looks(&browser, "out-dead", &long.url("/dead")).await);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Takes a picture at each width, light and dark; what is wrong with them.
pub async fn looks(browser: &Browser, name: &str, url: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for width in [360, 390, 768, 1280] {
        for dark in [false, true] {
            browser.looks(width, dark).await;
            browser.open(url).await;
            let scheme = if dark { "dark" } else { "light" };
            browser.picture(&PICTURES.join(format!("{name}-{width}-{scheme}.png"))).await;
            if width < 600 {
                let hidden = browser.eval(include_str!("hidden.js"), Value::Null).await;
                assert_eq!(hidden, json!([]), "{name} at {width} px: a text is off the screen");
            }
            problems.extend(faults(browser, &format!("{name} at {width} px, {scheme}")).await);
        }
    }
    problems
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_comes_from_here_and_the_console_is_silent() {
    let stage = Stage::new(&[]).await;
    let browser = Browser::start().await;
    for (name, path) in pages(&stage).await {
        browser.open(&stage.url(&path)).await;
        let loaded = "return performance.getEntries().map((entry) => entry.name).filter((name) => name.includes(':'))";
        // The browser notes what it loaded a moment after that was there.
        let loaded: Vec<String> = until(&format!("{name}: its style is loaded"), PATIENCE, async || {
            let loaded: Vec<String> = serde_json::from_value(browser.eval(loaded, Value::Null).await).unwrap();
            loaded.iter().any(|url| url.contains("/page.css")).then_some(loaded)
        })
        .await;
        assert!(loaded.iter().all(|url| url.starts_with(&stage.url("/"))), "{name}: {loaded:?}");
        if name != "problem" {
            is_silent(&browser).await;
        }
        // Nothing inline that the policy would have to allow.
        assert_eq!(browser.count("[style], style, script:not([src])").await, 0, "{name}");
        browser.console().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_html_is_valid() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    for (name, path) in pages(&stage).await {
        let (_, html) = stage.ops.get(&path).await;
        let wrong = invalid(&html);
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}
