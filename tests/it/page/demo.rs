//! What a new user sees: the demo's page, where its first line says, with counts that grow.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demos_page_shows_counts_that_grow() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let arguments = ["demo", "--tweets", "300", "--ops", "127.0.0.1:0"];
    let (mut demo, said) = Process::start_announced(&arguments, &Variables::new(), &log);
    let url = said.strip_prefix("the page is at ").unwrap_or_else(|| panic!("{said:?}")).trim_end();
    let browser = Browser::start().await;
    browser.open(url).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    let flow = browser.text("#flow").await.unwrap();
    browser.until_text("#flow", "goes on", |text| text != flow).await;
    is_silent(&browser).await;
    demo.signal("TERM");
    assert_eq!(demo.ended(Duration::from_secs(30)).await.code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());
}
