//! Waiting for what another process does: a condition that comes true, never a time that passes.

use std::time::Duration;

use twitter_updater::base::clock::Stopwatch;

/// The pause between two questions is a hundredth of the wait so far, within these bounds. Asking all the time would take
/// the processor from what is awaited.
const SHORTEST: Duration = Duration::from_millis(3);
const LONGEST: Duration = Duration::from_millis(30);

/// Asks until there is an answer; fails, naming what was waited for, when there is none in time.
pub async fn until<T>(what: &str, within: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let watch = Stopwatch::start();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(watch.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep((watch.elapsed() / 100).clamp(SHORTEST, LONGEST)).await;
    }
}

/// The same for a condition.
pub async fn until_true(what: &str, within: Duration, mut ask: impl AsyncFnMut() -> bool) {
    until(what, within, async || ask().await.then_some(())).await;
}
