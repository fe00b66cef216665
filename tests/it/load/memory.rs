//! What a scheduled id costs Redis.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Claim, Lane, NewJob, Queue, RedisQueue, Verdict};
use twitter_updater::model::post::TweetId;

use crate::support::claim;
use crate::support::redis::TestRedis;

const IDS: u32 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_scheduled_ids_take_135_bytes_each() {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let queue: Arc<dyn Queue> = Arc::new(RedisQueue::new(redis.pool(), "tweet:update"));
    let (first, second) = (Lane::new("18m", Duration::from_secs(180)), Lane::new("60m", Duration::from_secs(600)));
    queue.stats().await.unwrap();
    let before = used_memory(&redis).await;

    let now = wall_ms();
    for chunk in (0..IDS).collect::<Vec<_>>().chunks(10_000) {
        let jobs: Vec<_> = chunk
            .iter()
            // 19 digits, as of today; a tweet a millisecond.
            .map(|n| NewJob {
                id: TweetId::at(now - i64::from(*n), *n).to_string(),
                lane: first.clone(),
                due: 0.into(),
            })
            .collect();
        queue.schedule(&jobs).await.unwrap();
    }
    let enqueued = used_memory(&redis).await;

    // Claimed and rescheduled, every one of them, as updaters do.
    let mut claimers = tokio::task::JoinSet::new();
    for claimer in 0..4 {
        let (queue, second) = (queue.clone(), second.clone());
        claimers.spawn(async move {
            for round in 0.. {
                let token = format!("{claimer}-{round}");
                let request = claim::at_once(&token, 100, Duration::from_secs(60));
                let Claim::Batch(batch) = queue.claim(&request).await.unwrap() else { break };
                let again = Verdict::Reschedule { lane: second.clone(), due: 600_000.into() };
                let verdicts: Vec<_> = batch.jobs.into_iter().map(|job| (job, again.clone())).collect();
                assert_eq!(queue.settle(&batch.fence, &verdicts, &[]).await.unwrap().lost, 0);
            }
        });
    }
    while let Some(done) = claimers.join_next().await {
        done.unwrap();
    }
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.due, stats.leased), (u64::from(IDS), 0, 0));
    let rescheduled = used_memory(&redis).await;

    let each = |used: u64| (used - before) as f64 / f64::from(IDS);
    println!("Redis memory per id: enqueued {:.1} bytes, rescheduled {:.1} bytes", each(enqueued), each(rescheduled));
    assert!(each(enqueued) <= 135.0 && each(rescheduled) <= 135.0);
}

/// Bytes.
pub(super) async fn used_memory(redis: &TestRedis) -> u64 {
    let info: redis::InfoDict =
        redis::cmd("INFO").arg("memory").query_async(&mut redis.connection().await).await.unwrap();
    info.get("used_memory").unwrap()
}
