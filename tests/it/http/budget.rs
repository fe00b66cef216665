//! The budget of reads, as processes: it stops, says so everywhere, and goes on after the reset.

use std::collections::BTreeMap;

use twitter_updater::base::clock::{Millis, span};
use twitter_updater::engine::queue::{Inspection, Jobs, Lane, NewJob};
use twitter_updater::quota::DAY_MS;

use super::documents::{documented, shown};
use super::*;

const POSTS: u32 = 1_150;
const PERIOD: Millis = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reads_end_at_a_thousand_are_shown_and_go_on_after_the_reset() {
    let home = Home::new().await;
    let redis = TestRedis::start(&[]);
    let api = home.api.base_url();
    let own = [
        ("providers", "x"),
        ("x.api", &*api),
        ("x.reads", "1000"),
        ("x.reads_per", "20s"),
        ("tweet_age", "30d: 1d"),
        ("lookup.timeout", "5s"),
    ];
    let settings = home.on(&redis, &own);
    let ops = home.role("ops", &settings).await;
    let updater = home.role("updater", &settings).await;
    // The first of the period is a whole one; no midnight lies in the two (an id would count for both days).
    let now = wall_ms();
    let to_midnight = DAY_MS - now.rem_euclid(DAY_MS);
    let quiet = 15_000 + 3 * PERIOD;
    if to_midnight < quiet || to_midnight > DAY_MS - 15_000 {
        tokio::time::sleep(span((to_midnight + 16_000) % DAY_MS)).await;
    }
    tokio::time::sleep(span(PERIOD - wall_ms().rem_euclid(PERIOD) + 50)).await;
    let began = wall_ms().div_euclid(PERIOD);
    let queue = RedisQueue::new(redis.pool(), "x:update");
    let lane = Lane::new("30d", Duration::from_secs(86_400));
    let made_at = wall_ms() - 10 * DAY_MS;
    let job = |n| NewJob { id: TweetId::at(made_at, n).to_string(), lane: lane.clone(), due: 0.into() };
    queue.schedule(&(0..POSTS).map(job).collect::<Vec<_>>()).await.unwrap();
    let spent = "twitter_updater_budget_spent{namespace=\"x:update\"}";
    until_true("the budget is spent", Duration::from_secs(15), async || {
        value(&ops.get("/metrics").await.1, spent) == Some(1.0)
    })
    .await;
    until_true("what was not read is given back", Duration::from_secs(5), async || {
        queue.stats().await.unwrap().leased == 0
    })
    .await;
    let (metrics, status) = (ops.get("/metrics").await.1, ops.get("/status").await.1);
    let (page, told) = (ops.get("/").await.1, home.api.counters());
    assert_eq!(wall_ms().div_euclid(PERIOD), began, "it took a whole period: too slow a machine to see anything");
    assert_eq!(told.charged, 1_000, "what X charges for is what is allowed");
    let of = |name: &str| value(&metrics, &format!("twitter_updater_budget_{name}{{namespace=\"x:update\"}}"));
    assert_eq!((of("reads"), of("limit"), of("cost_dollars")), (Some(1_000.0), Some(1_000.0), Some(5.0)));
    assert!(of("reset_seconds").is_some_and(|left| left > 0.0 && left <= 20.0));
    let budget: BTreeMap<_, _> = shown(&metrics).into_iter().filter(|(name, _)| name.contains("_budget_")).collect();
    assert_eq!(budget, documented("### Charged reads"));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["budget"]["reads"], &status["budget"]["spent"]), (&1_000.into(), &true.into()), "{status}");
    assert!(status["parked"].as_array().unwrap().is_empty(), "{status}");
    assert!(page.contains("the budget of reads is spent, 1,000 of 1,000; calls continue at the reset in"), "{page}");
    assert!(home.log("updater.log").contains("the budget of reads is spent"), "{}", home.log("updater.log"));

    until_true("it goes on, and reads the rest", Duration::from_secs(60), async || {
        home.api.counters().charged == u64::from(POSTS)
    })
    .await;
    assert!(wall_ms().div_euclid(PERIOD) > began);
    until_true("that is shown, too", Duration::from_secs(10), async || {
        value(&ops.get("/metrics").await.1, spent) == Some(0.0)
    })
    .await;
    let log = home.log("updater.log");
    assert_eq!(log.matches("the budget of reads is spent").count(), 1, "once: {log}");
    assert_eq!(log.matches("the budget of reads has room again").count(), 1, "once: {log}");
    assert_eq!(updater.stopped().await, Some(0));

    // What X says itself, beside ours.
    let status = text(&run(&["status"], &settings).stdout);
    assert!(status.contains("budget of reads\n") && status.contains(" posts read since "), "{status}");
    let checked = run(&["credentials", "--check"], &settings);
    let said = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{said}{}", text(&checked.stderr));
    assert!(said.contains("the API itself has counted 1,150 of 2,000,000, its month begins on day 1"), "{said}");
    let checked: Value = serde_json::from_slice(&run(&["credentials", "--check", "--json"], &settings).stdout).unwrap();
    assert_eq!((&checked["usage"]["posts"], &checked["budget"]["today"]), (&1_150.into(), &1_150.into()), "{checked}");
}
