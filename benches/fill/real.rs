//! Points of the matrix in real time: updater processes over Redis, a simulated API and SQLite; and worker
//! loops in this process over Redis.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use twitter_updater::base::clock::{Millis, millis, wall_ms};
use twitter_updater::engine::queue::{Inspection, Jobs, NewJob, RedisQueue};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::quota::RedisLedger;
use twitter_updater::simulator::{self, Counters, SimulatorOptions};

use super::demand::{Demand, Tally, Waiting, created_at, waiting};
use super::load::{self, Load, lane};
use crate::support::process::{Process, variables};
use crate::support::redis::TestRedis;
use crate::support::wait::until;

/// The worker loops of this process.
pub async fn in_process(load: Load, ages: &AgeTable) -> Tally {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let queue = Arc::new(RedisQueue::new(redis.pool(), NAMESPACE));
    let ledger = Arc::new(RedisLedger::new(redis.pool(), "bench"));
    load::run(load, ages, queue, ledger, wall_ms, load::reach).await
}

/// Processes. Their tally has requests and updates by the API's count, what the age table demanded of the same
/// tweets in that time, and each batch's lateness as that of its latest tweet: no tweet is taken for less
/// late than it was.
pub async fn processes(load: Load, ages: &AgeTable) -> Tally {
    let folder = tempfile::tempdir().unwrap();
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let options = SimulatorOptions { calls_per_window: 0, missing_share: 0.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    let log = folder.path().join("updaters.log");
    let mut updaters: Vec<Process> = (0..load.workers)
        .map(|worker| {
            let settings = variables(&[
                ("queue.backend", "redis"),
                ("queue.redis.url", &redis.url),
                ("queue.redis.connections", "2"),
                ("store.sqlite.path", folder.path().join("tweets.db").to_str().unwrap()),
                ("twitter.api", &api.base_url()),
                ("tweet_age", &ages.to_string()),
                ("updater.lookahead", &load.lookahead.to_string()),
                ("updater.buffer_ttl", &format!("{}ms", load.linger.as_millis())),
                ("updater.name", &format!("updater-{worker}")),
                ("log.format", "json"),
            ]);
            Process::start(&["updater"], &settings, &log)
        })
        .collect();
    until("all workers are there", Duration::from_secs(120), async || {
        (queue.stats().await.unwrap().workers.len() == load.workers).then_some(())
    })
    .await;

    let (demand, start) = (Demand::new(ages), wall_ms());
    let span = millis(load.warm_up + load.measured) + 60_000;
    let all = waiting(&demand, load.rate, start, span, load.rate.to_bits());
    for tweets in all.chunks(1_000) {
        let now = wall_ms();
        let job = |tweet: &Waiting| NewJob {
            id: tweet.id.to_string(),
            lane: lane(ages, tweet.interval).clone(),
            due: (tweet.due - now).into(),
        };
        queue.schedule(&tweets.iter().map(job).collect::<Vec<_>>()).await.unwrap();
    }

    // From request to request, so that no part of one is counted.
    let next = async |from: u64| {
        until("the request", Duration::from_secs(600), async || {
            let counters = api.counters();
            (counters.requests > from).then(|| (wall_ms(), counters))
        })
        .await
    };
    tokio::time::sleep(load.warm_up).await;
    let first = next(api.counters().requests).await;
    let noted = std::fs::metadata(&log).unwrap().len();
    tokio::time::sleep(load.measured).await;
    let last = next(api.counters().requests).await;
    for updater in &mut updaters {
        assert!(updater.runs(), "{}", std::fs::read_to_string(&log).unwrap());
    }
    tally(&demand, &all, first, last, &log, noted)
}

fn tally(
    demand: &Demand,
    all: &[Waiting],
    first: (Millis, Counters),
    last: (Millis, Counters),
    log: &Path,
    noted: u64,
) -> Tally {
    let demanded: u64 = all.iter().map(|tweet| demand.updates_between(tweet, first.0, last.0)).sum();
    let log = std::fs::read(log).unwrap();
    let lines = String::from_utf8_lossy(&log[noted as usize..]).into_owned();
    let batches = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lateness = batches
        .filter_map(|line| Some((line["ids"].as_u64()?, line["late_max_ms"].as_i64()?)))
        .flat_map(|(ids, late)| std::iter::repeat_n(late, ids as usize));
    Tally {
        from: first.0,
        requests: last.1.requests - first.1.requests,
        updates: last.1.ids - first.1.ids,
        demanded: demanded as f64,
        lateness: lateness.collect(),
    }
}

impl Demand {
    /// The updates that the age table demands of a waiting tweet in that time: its walk, each update when it
    /// is due.
    fn updates_between(&self, tweet: &Waiting, from: Millis, until: Millis) -> u64 {
        let made = created_at(tweet.id);
        let walk = self.walk.iter().map(|age| made + age);
        walk.filter(|due| *due >= tweet.due && *due > from && *due <= until).count() as u64
    }
}
