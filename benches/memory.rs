//! What a scheduled id costs Redis, beside a plain sorted set of the same ids and scores; and what the
//! processes hold.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Inspection, Jobs, NewJob, Place, RedisQueue};
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::Size;
use crate::adaptive;
use crate::enqueue::{self, at, enqueue, jobs, kb};
use crate::report::{Report, Table, machine};
use crate::support::postgres;
use crate::support::process::{Process, command, run as run_command};
use crate::support::redis::TestRedis;

pub async fn run(size: Size) -> Report {
    let about = vec![
        machine(),
        "A server each, same settings (AOF off), filled in the same order, 1,000 ids a call; bytes are the growth of"
            .to_owned(),
        "INFO's used_memory. The plain set has the very scores that the queue gave.".to_owned(),
    ];
    let mut of_redis = Table::new(
        "Redis, bytes per scheduled id",
        &[
            "ids",
            "lanes",
            "queue",
            "plain sorted set",
            "ratio",
            "MEMORY USAGE of the lanes",
            "of the plain set",
            "encoding",
        ],
    );
    let (thousand, million) = (1_000, 1_000_000);
    let full = vec![
        (100 * thousand, Spread::One),
        (100 * thousand, Spread::AgeTable),
        (100 * thousand, Spread::Adaptive),
        (million, Spread::One),
        (million, Spread::AgeTable),
        (million, Spread::Adaptive),
        (10 * million, Spread::AgeTable),
    ];
    for (count, spread) in size.pick(full, vec![(2 * thousand, Spread::AgeTable), (2 * thousand, Spread::Adaptive)]) {
        of_redis.row(redis_bytes(count, spread).await);
    }
    Report { about, tables: vec![of_redis, processes(size).await] }
}

async fn used(redis: &TestRedis) -> u64 {
    let info: redis::InfoDict =
        redis::cmd("INFO").arg("memory").query_async(&mut redis.connection().await).await.unwrap();
    info.get("used_memory").unwrap()
}

async fn of_key<T: redis::FromRedisValue>(redis: &TestRedis, command: [&str; 2], key: &str, more: &[&str]) -> T {
    let mut asked = redis::cmd(command[0]);
    asked.arg(command[1]).arg(key).arg(more);
    asked.query_async(&mut redis.connection().await).await.unwrap()
}

/// The lanes that ids are in.
#[derive(Clone, Copy)]
enum Spread {
    One,
    /// Those of the default age table.
    AgeTable,
    /// Those of the adaptive schedule, for a population of all rates.
    Adaptive,
}

/// A chunk of so many tweets at a time: ten million of them as jobs would be gigabytes.
fn chunks(count: u32, spread: Spread) -> impl Iterator<Item = Vec<NewJob>> {
    let oldest = crate::fill::ages().brackets()[4].lane.clone();
    let schedule = adaptive::schedule();
    let mut ids = enqueue::ids(count);
    std::iter::from_fn(move || {
        let (mut chunk, now) = (jobs(ids.by_ref().take(1_000)), wall_ms());
        for (job, multiplier) in chunk.iter_mut().zip(adaptive::MULTIPLIERS.into_iter().cycle()) {
            match spread {
                Spread::One => job.lane = oldest.clone(),
                Spread::AgeTable => {}
                Spread::Adaptive => {
                    let created_at = TweetId::parse(&job.id).unwrap().created_at().unwrap();
                    let decision = adaptive::decision(&schedule, created_at, now, multiplier).unwrap();
                    (job.lane, job.due) = (decision.lane, decision.delay.into());
                }
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    })
}

async fn redis_bytes(count: u32, spread: Spread) -> Vec<serde_json::Value> {
    let settings = ["--appendonly", "no"];
    let ours = TestRedis::start(&settings);
    let queue = RedisQueue::new(ours.pool(), NAMESPACE);
    let plain = TestRedis::start(&settings);
    let mut connection = plain.connection().await;
    let (mut before, mut lanes) = (None, BTreeSet::new());
    for jobs in chunks(count + 1_000, spread) {
        lanes.extend(jobs.iter().map(|job| job.lane.name.clone()));
        queue.schedule(&jobs).await.unwrap();
        let ids: Vec<String> = jobs.into_iter().map(|job| job.id).collect();
        let mut add = redis::cmd("ZADD");
        add.arg("plain");
        for (id, places) in ids.iter().zip(queue.locate(&ids).await.unwrap()) {
            let [Place::Delayed { due, .. }] = &places[..] else { panic!("{id} is in {places:?}") };
            add.arg(*due).arg(id);
        }
        let _: u64 = add.query_async(&mut connection).await.unwrap();
        if before.is_none() {
            // Scripts and connections are there, and as large as they get.
            before = Some((used(&ours).await, used(&plain).await));
        }
    }
    let (before, plain_before) = before.unwrap();
    settled(&ours).await;
    settled(&plain).await;
    let each = |bytes: u64| bytes as f64 / f64::from(count);
    let of_all = |bytes: u64| bytes as f64 / f64::from(count + 1_000);
    let (queue_each, plain_each) = (each(used(&ours).await - before), each(used(&plain).await - plain_before));
    let mut in_lanes = 0;
    let mut encodings = Vec::<String>::new();
    for lane in &lanes {
        let key = format!("{{{NAMESPACE}}}:delayed:{lane}");
        in_lanes += of_key::<u64>(&ours, ["MEMORY", "USAGE"], &key, &["SAMPLES", "0"]).await;
        encodings.push(of_key(&ours, ["OBJECT", "ENCODING"], &key, &[]).await);
    }
    encodings.sort();
    encodings.dedup();
    let in_plain: u64 = of_key(&plain, ["MEMORY", "USAGE"], "plain", &["SAMPLES", "0"]).await;
    vec![
        json!(count),
        json!(lanes.len()),
        json!(queue_each),
        json!(plain_each),
        json!(queue_each / plain_each),
        json!(of_all(in_lanes)),
        json!(of_all(in_plain)),
        json!(encodings.join(", ")),
    ]
}

/// Until the growing of hash tables is done: it goes on in the background.
async fn settled(redis: &TestRedis) {
    let mut before = 0;
    loop {
        let now = used(redis).await;
        if now.abs_diff(before) < 4_096 {
            return;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(250)).await; // between two looks
    }
}

async fn processes(size: Size) -> Table {
    let mut table = Table::new("processes, MB", &["process", "with", "resident", "peak"]);
    let folder = tempfile::tempdir().unwrap();
    let sqlite = folder.path().join("tweets.db");
    let database = postgres::database().await;
    let of_sqlite = [("store.backend", "sqlite"), ("store.sqlite.path", sqlite.to_str().unwrap())];
    let of_postgres = [("store.backend", "postgres"), ("store.postgres.url", &*database)];
    for (store, settings) in [("SQLite", &of_sqlite), ("PostgreSQL", &of_postgres)] {
        let redis = TestRedis::start(&["--appendonly", "no"]);
        let options = SimulatorOptions { calls_per_window: 0, ..SimulatorOptions::default() };
        let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
        let mut settings = at(&redis, settings);
        settings.extend(at(&redis, &[("twitter.api", &api.base_url())]));
        assert!(run_command(&["migrate"], &settings).status.success());
        // Enough to be busy all the time.
        let queue = RedisQueue::new(redis.pool(), NAMESPACE);
        let due = |mut job: NewJob| {
            job.due = 0.into();
            job
        };
        let all: Vec<NewJob> = jobs(enqueue::ids(size.pick(400_000, 2_000))).into_iter().map(due).collect();
        for chunk in all.chunks(1_000) {
            queue.schedule(chunk).await.unwrap();
        }
        let child = command(&["updater"], &settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let mut updater = Process::of(child);
        tokio::time::sleep(Duration::from_secs(size.pick(60, 3))).await; // the minute that it is about
        assert!(updater.runs());
        let [resident, peak] = ["VmRSS:", "VmHWM:"].map(|name| kb(&status, name).unwrap() as f64 / 1024.0);
        let done = api.counters().ids;
        assert!(done > 0);
        let seconds = size.pick(60, 3);
        let with = format!("{store}, after {seconds} s and {done} updates, 4 requests in flight");
        table.row(vec![json!("updater"), json!(with), json!(resident), json!(peak)]);
    }
    for lines in size.pick(vec![1_000_000, 10_000_000], vec![10_000]) {
        let redis = TestRedis::start(&["--appendonly", "no"]);
        let peak = enqueue(lines, &at(&redis, &[]), &["--no-store"]).await.peak_mb;
        table.row(vec![
            json!("enqueue"),
            json!(format!("a file of {lines} lines, no store")),
            json!(null),
            json!(peak),
        ]);
    }
    table
}
