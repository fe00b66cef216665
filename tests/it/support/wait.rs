//! Waiting for what another process does: a condition that comes true, never a time that passes.

use std::time::Duration;

use twitter_updater::base::clock::Stopwatch;

/// Asks until there is an answer; fails, naming what was waited for, when there is none in time.
pub async fn until<T>(what: &str, within: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(watch.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// The same for a condition.
pub async fn until_true(what: &str, within: Duration, mut ask: impl AsyncFnMut() -> bool) {
    until(what, within, async || ask().await.then_some(())).await;
}
