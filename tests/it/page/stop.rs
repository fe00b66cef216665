//! A page that is open holds nobody.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_does_not_keep_the_process() {
    let mut stage = Stage::new(&[("updater.drain_deadline", "50s")]).await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.until_text("#live", "says that it is live", |text| text == "live").await;
    stage.ops.process.signal("TERM");
    assert_eq!(stage.ops.process.ended(Duration::from_secs(40)).await.code(), Some(0));
    let log = std::fs::read_to_string(stage.log("ops.log")).unwrap();
    assert!(log.contains("stopped") && !log.contains("cut off") && !log.contains("deadline has passed"), "{log}");
    browser.until_text("#live", "says that it reconnects", |text| text.contains("reconnecting")).await;
}
