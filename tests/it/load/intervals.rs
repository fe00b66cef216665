//! Measures a shorter interval for a million waiting posts while workers claim: its duration, and the waits of claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use twitter_updater::base::clock::Stopwatch;
use twitter_updater::engine::queue::{
    Claim, DUE_SLACK, EmbeddedQueue, Lane, NewJob, PAGE_LIMIT, Queue, RedisQueue, Verdict,
};

use crate::support::claim;
use crate::support::redis::{TestRedis, namespace};

const POSTS: u32 = 1_000_000;
const LEASE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// `leaves_room`: as updaters do, with a pause between two pages as long as the page took.
async fn measured(backend: &str, queue: Arc<dyn Queue>, leaves_room: bool) {
    let (before, after) = (Lane::new("7d", 6 * HOUR), Lane::new("7d", HOUR));
    let busy = Lane::new("busy", Duration::from_secs(1));
    // Ids and due times are in different orders.
    let id = |n: u32| n.wrapping_mul(2_654_435_761).to_string();
    for from in (0..POSTS).step_by(10_000) {
        let due = |n: u32| (2_000_000 + i64::from(n.wrapping_mul(40_503) % 19_000_000)).into();
        let jobs: Vec<_> =
            (from..from + 10_000).map(|n| NewJob { id: id(n), lane: before.clone(), due: due(n) }).collect();
        queue.schedule(&jobs).await.unwrap();
    }
    let jobs: Vec<_> = (0..1_000).map(|n| NewJob { id: format!("b{n}"), lane: busy.clone(), due: 0.into() }).collect();
    queue.schedule(&jobs).await.unwrap();
    // Claims and settles without a pause, like a busy worker.
    let ends = Arc::new(AtomicBool::new(false));
    let claiming = tokio::spawn({
        let (queue, ends) = (queue.clone(), ends.clone());
        async move {
            let (mut slowest, mut claims) = (Duration::ZERO, 0_u64);
            while !ends.load(Ordering::Relaxed) {
                let (watch, token) = (Stopwatch::start(), format!("t{claims}"));
                let claimed = queue.claim(&claim::at_once(&token, 100, LEASE)).await.unwrap();
                slowest = slowest.max(watch.elapsed());
                claims += 1;
                if let Claim::Batch(batch) = claimed {
                    let again = Verdict::Reschedule { lane: busy.clone(), due: 0.into() };
                    let again: Vec<_> = batch.jobs.iter().map(|job| (job.clone(), again.clone())).collect();
                    queue.settle(&batch.fence, &again, &[]).await.unwrap();
                }
            }
            (slowest, claims)
        }
    });
    let watch = Stopwatch::start();
    let mut moved = 0;
    loop {
        let page = Stopwatch::start();
        let count = queue.apply_lane(&after, DUE_SLACK, PAGE_LIMIT).await.unwrap();
        moved += count;
        if count < PAGE_LIMIT as u64 {
            break;
        }
        if leaves_room {
            tokio::time::sleep(page.elapsed()).await;
        }
    }
    let took = watch.elapsed();
    ends.store(true, Ordering::Relaxed);
    let (slowest, claims) = claiming.await.unwrap();
    let pauses = if leaves_room { "with pauses" } else { "without pauses" };
    println!(
        "{backend}, {pauses}: {moved} of {POSTS} posts in {took:.1?}; {claims} claims beside it, the slowest took {slowest:.1?}"
    );
    assert!(moved > u64::from(POSTS) * 8 / 10, "{moved}");
    let stats = queue.stats().await.unwrap();
    assert_eq!(stats.lanes.iter().map(|lane| lane.beyond).sum::<u64>(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes some minutes of the whole machine: run it with --ignored"]
async fn a_million_waiting_posts_are_brought_forward() {
    for leaves_room in [true, false] {
        let redis = TestRedis::start(&[]);
        measured("Redis", Arc::new(RedisQueue::new(redis.pool(), &namespace())), leaves_room).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let queue = EmbeddedQueue::open(&file, "tweet:update", Duration::from_secs(60)).await.unwrap();
        measured("SQLite", Arc::new(queue), leaves_room).await;
    }
}
