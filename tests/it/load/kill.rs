//! kill -9, twenty times over: nothing is lost, nothing is doubled, and the dead worker's tweets are
//! taken over in time.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::engine::queue::{Inspection, RedisQueue};
use twitter_updater::model::post::{ItemState, TweetId};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{Lifecycle, PostgresStore};

use crate::support::process::{Process, run_with_input, text, variables};
use crate::support::wait::until_true;
use crate::support::{postgres, redis::TestRedis};

const KILLS: usize = 20;
const TWEETS: u32 = 2_000;
const LEASE_MS: i64 = 3_000;
const BUFFER_TTL_MS: i64 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let redis = TestRedis::start(&["--appendonly", "yes"]);
    let database = postgres::database().await;
    let options = SimulatorOptions {
        latency: Duration::from_millis(150), // most kills hit a request in flight
        jitter: Duration::from_millis(100),
        calls_per_window: 0,
        missing_share: 0.0,
        ..SimulatorOptions::default()
    };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let settings = |name: &str| {
        variables(&[
            ("queue.backend", "redis"),
            ("queue.redis.url", &redis.url),
            ("store.backend", "postgres"),
            ("store.postgres.url", &database),
            ("twitter.api", &api.base_url()),
            ("lookup.timeout", "1s"),
            ("updater.save_timeout", "1500ms"),
            ("updater.lease", &format!("{LEASE_MS}ms")),
            ("updater.buffer_ttl", &format!("{BUFFER_TTL_MS}ms")),
            ("updater.name", name),
            ("tweet_age", "1h: 2s, 30d: 5s"),
        ])
    };

    // Through the front door: ids in a file, half of them young and half a day old.
    let migrated = run_with_input(&["migrate"], &settings("starter"), b"");
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    let now = wall_ms();
    let ids: Vec<String> = (0..TWEETS)
        .map(|n| TweetId::at(now - if n % 2 == 0 { 60_000 } else { 86_400_000 } - i64::from(n), n).to_string())
        .collect();
    let enqueued =
        run_with_input(&["enqueue", "--first", "interval", "-"], &settings("starter"), ids.join("\n").as_bytes());
    assert!(enqueued.status.success(), "{}", text(&enqueued.stderr));

    let log = folder.path().join("updaters.log");
    let start = |number: usize| {
        let name = format!("updater-{number}");
        (name.clone(), Process::start(&["updater"], &settings(&name), &log))
    };
    let mut updaters: Vec<_> = (0..3).map(&start).collect();
    let queue = RedisQueue::new(redis.pool(), NAMESPACE);
    let store =
        PostgresStore::connect(&SecretString::from(database.clone()), 2, Duration::from_secs(10)).await.unwrap();
    let mut connection = redis.connection().await;

    // In full swing: the first answers are in, and all three have batches in flight.
    until_true("the first are updated", Duration::from_secs(30), async || {
        queue.stats().await.unwrap().counters.get("rescheduled").is_some_and(|done| *done >= 300)
    })
    .await;

    // What each victim held at its death, and when that was.
    let mut victims: Vec<(i64, Vec<String>)> = Vec::new();
    for kill in 0..KILLS {
        // A victim that holds something, so that every kill hits.
        let watch = Stopwatch::start();
        let (name, victim) = loop {
            let (name, process) = updaters.remove(0);
            if !held(&mut connection, &name).await.is_empty() {
                break (name, process);
            }
            updaters.push((name, process));
            assert!(
                watch.elapsed() < Duration::from_secs(30),
                "nobody holds anything:\n{}",
                std::fs::read_to_string(&log).unwrap()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        victim.kill();
        let died = wall_ms();
        victims.push((died, held(&mut connection, &name).await));
        updaters.push(start(3 + kill));
    }
    let held: usize = victims.iter().map(|(_, ids)| ids.len()).sum();
    println!("{KILLS} kills, {held} tweets in the hands of the dead");
    assert!(held > 0, "no kill hit anything");

    // Each victim's tweets were updated within lease + buffer TTL + 1 s of its death.
    let bound = LEASE_MS + BUFFER_TTL_MS + 1_000;
    let deadline = victims.last().unwrap().0 + bound;
    while wall_ms() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (died, ids) in &victims {
        for ids in ids.chunks(1_000) {
            for standing in store.standing(NAMESPACE, ids).await.unwrap() {
                let checked_at = standing.unwrap().checked_at.unwrap_or(0);
                assert!(checked_at > *died, "a tweet of a dead worker was not updated within {bound} ms");
            }
        }
    }

    // A clean stop: everything is settled or given back, no lease is left to run out.
    for (name, mut updater) in updaters {
        assert!(updater.runs(), "{name} died:\n{}", std::fs::read_to_string(&log).unwrap());
        assert!(updater.terminate().success());
    }
    let mut places = HashMap::new();
    for (id, found) in ids.iter().zip(queue.locate(&ids).await.unwrap()) {
        let state = store.standing(NAMESPACE, std::slice::from_ref(id)).await.unwrap().remove(0).unwrap().state;
        assert!(found.len() + usize::from(state == ItemState::Ended) == 1, "{id}: {found:?}, {state}");
        *places.entry(state).or_insert(0) += 1;
    }
    println!("at the end: {places:?}");
    let stats = queue.stats().await.unwrap();
    assert_eq!(stats.delayed + stats.leased + stats.dead, u64::from(TWEETS), "nothing but what was put in");
    assert_eq!(stats.dead, 0, "nobody is to blame for a kill");
    println!(
        "claims {}, expired {}, lost verdicts {}",
        stats.counters["claims"],
        stats.counters.get("expired").unwrap_or(&0),
        stats.counters.get("lost").unwrap_or(&0)
    );
    api.stop().await;
}

/// The ids in the claims of that worker, as the queue's own records tell.
async fn held(connection: &mut redis::aio::MultiplexedConnection, worker: &str) -> Vec<String> {
    let mut ids = BTreeSet::new();
    let pattern = format!("{{{NAMESPACE}}}:claim:{worker}-*");
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(connection).await.unwrap();
    for key in keys {
        let record: Option<String> = redis::cmd("GET").arg(key).query_async(connection).await.unwrap();
        let record = record.unwrap_or_default();
        // "lane patience deliveries failures id due id due …"
        ids.extend(record.lines().skip(1).flat_map(|run| run.split(' ').skip(4).step_by(2)).map(str::to_owned));
    }
    ids.into_iter().collect()
}
