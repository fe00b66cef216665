//! The buffer is shared by all workers, so how full a request goes out does not depend on how many
//! they are: with 64 the quota lasts as long as with one.

use std::time::Duration;

use twitter_updater::base::clock::{Stopwatch, millis, wall_ms};
use twitter_updater::config::Settings;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{Inspection, Jobs, NewJob, RedisQueue};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::plan::fill::load::Load;
use crate::plan::fill::{OF_CRON, real};
use crate::support::process::{Process, variables};
use crate::support::redis::TestRedis;
use crate::support::wait::until;

/// The load of the requirement: 20 tweets/s, a buffer TTL of 5 s, each tweet updated every 10 minutes.
const TWEETS_PER_S: u32 = 20;
const BUFFER_TTL: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(600);
const WORKERS: [usize; 4] = [1, 4, 16, 64];

/// So many times faster, everything: the same batches, told apart in less time. At 1 the run takes five
/// minutes: `FILL_SPEED=1 cargo test --test it load::fill -- --nocapture`.
const SPEED: u32 = 5;
/// Requests whose rate is measured, per run.
const REQUESTS: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_do_not_grow_with_the_workers() {
    let speed = std::env::var("FILL_SPEED").map_or(SPEED, |speed| speed.parse().unwrap());
    let runs = futures::future::join_all(WORKERS.map(|workers| requests_per_minute(workers, speed))).await;
    // Demand without lookahead ÷ 100.
    let ideal = f64::from(TWEETS_PER_S * speed) * 60.0 / 100.0;
    let mut rates = Vec::new();
    for (workers, (rate, ids)) in WORKERS.into_iter().zip(runs) {
        println!(
            "{workers:>2} workers: {rate:.2} requests per minute, {:.3} of the ideal, {ids:.1} ids each",
            rate / ideal
        );
        rates.push(rate);
    }
    let (least, most) =
        rates.iter().fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    println!("{speed} times as fast as in real time; ideal {ideal}, the rates are within {:.3}", most / least);
    assert!(most / least <= 1.05, "{rates:?}");
    for rate in rates {
        assert!((0.95..=1.05).contains(&(rate / ideal)), "{rate} ÷ {ideal}");
    }
}

/// So many updater processes at one queue: their requests per minute together, and ids per request.
async fn requests_per_minute(workers: usize, speed: u32) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let options = SimulatorOptions { calls_per_window: 0, missing_share: 0.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();

    // As after a long while at that rate: due times spread evenly over the interval.
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    let interval = INTERVAL / speed;
    let lane = Lane::new("30d", interval);
    let (now, tweets) = (wall_ms(), TWEETS_PER_S * u32::try_from(INTERVAL.as_secs()).unwrap());
    let jobs: Vec<NewJob> = (0..tweets)
        .map(|n| NewJob {
            id: TweetId::at(now - 86_400_000 - i64::from(n), n).to_string(),
            lane: lane.clone(),
            due: (millis(interval) * i64::from(n) / i64::from(tweets)).into(),
        })
        .collect();
    queue.schedule(&jobs).await.unwrap();

    let log = folder.path().join("updaters.log");
    let mut updaters: Vec<Process> = (0..workers)
        .map(|worker| {
            let settings = variables(&[
                ("queue.backend", "redis"),
                ("queue.redis.url", &redis.url),
                ("queue.redis.connections", "2"),
                ("store.sqlite.path", folder.path().join("tweets.db").to_str().unwrap()),
                ("twitter.api", &api.base_url()),
                ("tweet_age", &format!("30d: {}ms", interval.as_millis())),
                ("updater.buffer_ttl", &format!("{}ms", (BUFFER_TTL / speed).as_millis())),
                ("updater.name", &format!("updater-{worker}")),
            ]);
            Process::start(&["updater"], &settings, &log)
        })
        .collect();

    // All of them at work, and what was due meanwhile made up for; then from request to request, so that
    // no part of one is counted.
    until("all workers are there", Duration::from_secs(120), async || {
        let stats = queue.stats().await.unwrap();
        (stats.workers.len() == workers && stats.due < 100).then_some(())
    })
    .await;
    let next = async |from: u64| {
        until("the request", Duration::from_secs(600), async || {
            let counters = api.counters();
            (counters.requests > from).then_some(counters)
        })
        .await
    };
    let first = next(api.counters().requests).await;
    let watch = Stopwatch::start();
    let last = next(first.requests + REQUESTS - 1).await;
    let minutes = watch.elapsed().as_secs_f64() / 60.0;
    for updater in &mut updaters {
        assert!(updater.runs(), "{}", std::fs::read_to_string(&log).unwrap());
    }
    // The answer of the last one may be on its way.
    let requests = (last.requests - first.requests) as f64;
    (requests / minutes, (last.ids - first.ids) as f64 / requests)
}

/// 20,000 posts by the default age table, at sixty times the speed: an hour is a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_system_makes_fewer_calls_than_a_cron_job_for_each_bracket() {
    const FASTER: u32 = 60;
    let ages = "18s: 3s, 60s: 10s, 24m: 1m, 168m: 6m, 12h: 24m".parse().unwrap();
    let load = Load {
        rate: 0.62 * f64::from(FASTER),
        workers: 1,
        lookahead: Settings::load_with(&[], None, &[]).unwrap().updater.lookahead,
        linger: BUFFER_TTL / FASTER,
        warm_up: Duration::from_secs(20),
        measured: Duration::from_secs(60),
    };
    let tally = real::processes(load, &ages).await;
    let a_day = tally.requests as f64 * 86_400.0 / (load.measured.as_secs_f64() * f64::from(FASTER));
    println!("{a_day:.0} calls a day of {:.1} ids; a cron job for each bracket: {OF_CRON}", tally.ids_per_request());
    assert!(a_day <= OF_CRON, "{a_day} calls a day");
    assert!(tally.updates as f64 > 0.9 * tally.demanded, "{} of {} updates", tally.updates, tally.demanded);
}
