//! A million old tweets due at once do not starve the young: every lane is late by the same share of
//! its interval, and whoever is later goes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::config::Settings;
use twitter_updater::engine::queue::{Claim, ClaimRequest, NewJob, Queue, RedisQueue, Verdict};
use twitter_updater::model::post::TweetId;

use crate::support::redis::TestRedis;

const OLD: u32 = 1_000_000;
/// Requests made, one after the other: an API quota far below what is due.
const BATCHES: usize = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_old_ones_due_at_once_do_not_starve_the_young() {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let queue: Arc<dyn Queue> = Arc::new(RedisQueue::new(redis.pool(), "tweet:update"));
    let ages = Settings::load_with(&[], None, &[]).unwrap().tweet_age;
    let (young, old) = (ages.brackets()[0].lane.clone(), ages.brackets()[3].lane.clone());
    let now = wall_ms();
    for chunk in (0..OLD).collect::<Vec<_>>().chunks(10_000) {
        let jobs: Vec<_> = chunk
            .iter()
            .map(|n| NewJob {
                id: TweetId::at(now - 2 * 86_400_000 - i64::from(*n), *n).to_string(),
                lane: old.clone(),
                due: 0.into(),
            })
            .collect();
        queue.schedule(&jobs).await.unwrap();
    }

    // Young ones come in all the while, due at once as if their three minutes had passed.
    let done = Arc::new(AtomicBool::new(false));
    let ingest = tokio::spawn({
        let (queue, young, done) = (queue.clone(), young.clone(), done.clone());
        async move {
            let mut put = 0;
            while !done.load(Ordering::Relaxed) {
                let job =
                    NewJob { id: TweetId::at(wall_ms() + 1_000, put).to_string(), lane: young.clone(), due: 0.into() };
                queue.schedule(&[job]).await.unwrap();
                put += 1;
                tokio::time::sleep(Duration::from_millis(2)).await; // the rate of the ingest
            }
            put
        }
    });

    let (mut of_young, mut of_old) = (Vec::new(), Vec::new());
    // Of the claim before: when it was, and how late the least late of its jobs was.
    let (mut last_claim, mut least) = (0, f64::INFINITY);
    for round in 0..BATCHES {
        // The last quarter shows that nothing young is left behind when no more come.
        done.store(round > BATCHES * 3 / 4, Ordering::Relaxed);
        let request = ClaimRequest {
            token: &round.to_string(),
            limit: 100,
            linger: Duration::from_secs(5),
            lookahead: 0.02,
            early: 0.0,
            lease: Duration::from_secs(60),
        };
        let Claim::Batch(batch) = queue.claim(&request).await.unwrap() else { panic!("a million are due") };
        assert_eq!(batch.jobs.len(), 100, "every request is full");
        let (claimed_at, mut latest_young, mut least_of_batch) = (batch.claimed_at, 0.0_f64, f64::INFINITY);
        for job in &batch.jobs {
            let is_young = *job.lane == *young.name;
            let (shares, lane) = if is_young { (&mut of_young, &young) } else { (&mut of_old, &old) };
            let share = (claimed_at - job.due) as f64 / lane.patience as f64;
            shares.push(share);
            least_of_batch = least_of_batch.min(share);
            if is_young {
                latest_young = latest_young.max(share);
            }
        }
        // A young one was passed over only for a hundred that were later by their intervals, and has got later
        // since by the time between the two claims (and a millisecond, to which both are rounded).
        let since = (claimed_at - last_claim + 1) as f64 / young.patience as f64;
        assert!(
            latest_young <= least + since,
            "a young one was late by {latest_young:.5} of its interval, {since:.5} after a claim that took what was \
             late by {least:.5}"
        );
        (last_claim, least) = (claimed_at, least_of_batch);
        let again = Verdict::Reschedule { lane: old.clone(), due: old.patience.into() };
        let verdicts: Vec<_> = batch.jobs.into_iter().map(|job| (job, again.clone())).collect();
        queue.settle(&batch.fence, &verdicts, &[]).await.unwrap();
    }
    let put = ingest.await.unwrap();
    let waiting = queue.stats().await.unwrap().lanes[0].due;

    let (young_p99, old_p99) = (percentile(&mut of_young, 0.99), percentile(&mut of_old, 0.99));
    println!(
        "young: {put} put in, {} updated, {waiting} waiting; late by {:.5} of their interval (p99), {:.5} at most",
        of_young.len(),
        young_p99,
        of_young.last().unwrap()
    );
    println!(
        "old: {} updated; late by {:.5} of their interval (p99), {:.5} at most",
        of_old.len(),
        old_p99,
        of_old.last().unwrap()
    );
    assert!(of_young.len() > 100 && of_old.len() > 100_000, "both were served");
    assert_eq!((of_young.len(), waiting), (usize::try_from(put).unwrap(), 0), "a young one is still waiting");
}

/// The value below which so large a share of them lies; sorts them.
fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}
