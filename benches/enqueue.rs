//! How fast tweets get into the queue, and in how much memory: the library's call, and the command.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::base::clock::{Stopwatch, wall_ms};
use twitter_updater::engine::queue::{Inspection, Jobs, NewJob, RedisQueue};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::model::post::TweetId;
use twitter_updater::pipelines::posts::NAMESPACE;

use crate::Size;
use crate::report::{Report, Table, machine, median};
use crate::support::process::{Variables, command, run as run_command, text, variables};
use crate::support::redis::TestRedis;
use crate::support::{postgres, wait};

pub async fn run(size: Size) -> Report {
    let about = vec![
        format!("{}; client and server share it", machine()),
        "Snowflake ids of tweets made evenly over the last 29 days: all five lanes of the default age table."
            .to_owned(),
        "Floor: the same ids by the same client crate, one variadic ZADD NX per call into one sorted set.".to_owned(),
    ];
    Report { about, tables: vec![library(size).await, file(size).await, stores(size).await] }
}

/// Ids of so many tweets, evenly over 29 days, the newest first.
pub fn ids(count: u32) -> impl Iterator<Item = String> {
    let (now, span) = (wall_ms(), 29 * 86_400_000);
    (0..count).map(move |n| TweetId::at(now - span * i64::from(n) / i64::from(count), n).to_string())
}

/// The same as jobs, as the starter makes them.
pub fn jobs(ids: impl Iterator<Item = String>) -> Vec<NewJob> {
    let (now, ages) = (wall_ms(), super::fill::ages());
    ids.map(|id| job(id, &ages, now)).collect()
}

fn job(id: String, ages: &AgeTable, now: i64) -> NewJob {
    let made = TweetId::parse(&id).unwrap().created_at().unwrap();
    let lane = ages.lane(made, now).unwrap().clone();
    NewJob { due: lane.patience.into(), id, lane }
}

/// Deals chunks to so many tasks; ids per second.
async fn deal<F: Future<Output = ()> + Send + 'static>(
    chunks: Vec<Vec<NewJob>>,
    streams: usize,
    hand_over: impl Fn(usize, Vec<Vec<NewJob>>) -> F,
) -> f64 {
    let count: usize = chunks.iter().map(Vec::len).sum();
    let mut hands = vec![Vec::new(); streams];
    for (n, chunk) in chunks.into_iter().enumerate() {
        hands[n % streams].push(chunk);
    }
    let futures: Vec<F> = hands.into_iter().enumerate().map(|(n, hand)| hand_over(n, hand)).collect();
    let watch = Stopwatch::start();
    let mut tasks: tokio::task::JoinSet<()> = futures.into_iter().collect();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    count as f64 / watch.elapsed().as_secs_f64()
}

async fn scheduled(redis: &TestRedis, chunks: Vec<Vec<NewJob>>, streams: usize) -> f64 {
    let queue = Arc::new(RedisQueue::new(redis.pool(), NAMESPACE));
    queue.stats().await.unwrap(); // a connection is there, the scripts are known
    deal(chunks, streams, |_, hand| {
        let queue = queue.clone();
        async move {
            for jobs in hand {
                queue.schedule(&jobs).await.unwrap();
            }
        }
    })
    .await
}

async fn floor(redis: &TestRedis, chunks: Vec<Vec<NewJob>>, streams: usize) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..streams {
        connections.push(redis.connection().await);
    }
    deal(chunks, streams, |n, hand| {
        let mut connection = connections[n].clone();
        async move {
            for jobs in hand {
                let now = wall_ms();
                let mut add = redis::cmd("ZADD");
                add.arg("plain").arg("NX");
                for job in &jobs {
                    add.arg(job.due.moment(now)).arg(&job.id);
                }
                let _: u64 = add.query_async(&mut connection).await.unwrap();
            }
        }
    })
    .await
}

async fn empty(redis: &TestRedis) {
    let () = redis::cmd("FLUSHALL").query_async(&mut redis.connection().await).await.unwrap();
}

async fn library(size: Size) -> Table {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let all = jobs(ids(size.pick(300_000, 4_000)));
    let mut table = Table::new(
        "Queue::schedule, median of five",
        &["ids/call", "connections", "ids/s", "floor ids/s", "share of the floor"],
    );
    for chunk in size.pick(vec![100, 1_000, 5_000], vec![1_000]) {
        for streams in size.pick(vec![1, 4], vec![4]) {
            let chunks = || all.chunks(chunk).map(<[NewJob]>::to_vec).collect::<Vec<_>>();
            let (mut ours, mut floors) = (Vec::new(), Vec::new());
            for _ in 0..size.pick(5, 1) {
                empty(&redis).await;
                ours.push(scheduled(&redis, chunks(), streams).await);
                empty(&redis).await;
                floors.push(floor(&redis, chunks(), streams).await);
            }
            let (ours, floor) = (median(ours), median(floors));
            table.row(vec![json!(chunk), json!(streams), json!(ours), json!(floor), json!(ours / floor)]);
        }
    }
    table
}

/// What `enqueue` of a file came to.
pub struct Enqueued {
    pub ids_per_s: f64,
    pub peak_mb: f64,
}

/// Runs `enqueue` of a file of so many ids, to its end.
pub async fn enqueue(lines: u32, settings: &Variables, options: &[&str]) -> Enqueued {
    let mut file = std::io::BufWriter::new(tempfile::NamedTempFile::new().unwrap());
    for id in ids(lines) {
        writeln!(file, "{id}").unwrap();
    }
    let file = file.into_inner().unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = [&["enqueue", "--json", "--first", "interval", path], options].concat();
    let mut child = command(&arguments, settings).stdout(Stdio::piped()).spawn().unwrap();
    let peak_mb = peak_mb(&mut child).await;
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_str(text(&output.stdout).trim()).unwrap();
    assert_eq!(summary["scheduled"], lines);
    Enqueued { ids_per_s: summary["ids_per_second"].as_f64().unwrap(), peak_mb }
}

/// Waits for the end of a command; the maximum of its memory, MB.
pub async fn peak_mb(child: &mut Child) -> f64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0;
    // The kernel keeps the peak; it is read until there is nothing to read any more.
    wait::until("the command's end", Duration::from_secs(1_800), async || {
        peak_kb = kb(&status, "VmHWM:").unwrap_or(peak_kb);
        child.try_wait().unwrap()
    })
    .await;
    peak_kb as f64 / 1024.0
}

/// A figure of a process's status, in kB.
pub fn kb(status: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().trim_end_matches(" kB").parse().ok())
}

/// The settings of a process that uses this Redis.
pub fn at(redis: &TestRedis, more: &[(&str, &str)]) -> Variables {
    let mut settings = variables(&[("queue.backend", "redis"), ("queue.redis.url", &redis.url)]);
    settings.extend(variables(more));
    settings
}

async fn file(size: Size) -> Table {
    let mut table = Table::new(
        "twitter-updater enqueue --no-store FILE",
        &["lines", "AOF", "ids/s", "peak MB", "floor ids/s", "share of the floor"],
    );
    for lines in size.pick(vec![1_000_000, 10_000_000], vec![10_000]) {
        for aof in ["no", "yes"] {
            let mut ours = BTreeMap::<&str, Vec<f64>>::new();
            for _ in 0..if lines < 5_000_000 { size.pick(5, 1) } else { 1 } {
                let redis = TestRedis::start(&["--appendonly", aof]);
                let enqueued = enqueue(lines, &at(&redis, &[]), &["--no-store"]).await;
                ours.entry("ids/s").or_default().push(enqueued.ids_per_s);
                ours.entry("peak").or_default().push(enqueued.peak_mb);
                let chunks = jobs(ids(lines.min(1_000_000))).chunks(1_000).map(<[NewJob]>::to_vec).collect();
                empty(&redis).await;
                ours.entry("floor").or_default().push(floor(&redis, chunks, 4).await);
            }
            let [speed, peak, floor] = ["ids/s", "peak", "floor"].map(|of| median(ours[of].clone()));
            table.row(vec![json!(lines), json!(aof), json!(speed), json!(peak), json!(floor), json!(speed / floor)]);
        }
    }
    table
}

async fn stores(size: Size) -> Table {
    let mut table = Table::new("twitter-updater enqueue FILE, with a store", &["store", "lines", "ids/s", "peak MB"]);
    let lines = size.pick(200_000, 2_000);
    let folder = tempfile::tempdir().unwrap();
    let database = postgres::database().await;
    let sqlite = folder.path().join("tweets.db");
    let of_postgres = [("store.backend", "postgres"), ("store.postgres.url", &*database)];
    let of_sqlite = [("store.backend", "sqlite"), ("store.sqlite.path", sqlite.to_str().unwrap())];
    for (store, options, settings) in
        [("none", &["--no-store"][..], &[][..]), ("PostgreSQL", &[], &of_postgres), ("SQLite", &[], &of_sqlite)]
    {
        let redis = TestRedis::start(&["--appendonly", "no"]);
        let settings = at(&redis, settings);
        if options.is_empty() {
            let migrated = run_command(&["migrate"], &settings);
            assert!(migrated.status.success(), "{}", text(&migrated.stderr));
        }
        let Enqueued { ids_per_s, peak_mb } = enqueue(lines, &settings, options).await;
        table.row(vec![json!(store), json!(lines), json!(ids_per_s), json!(peak_mb)]);
    }
    table
}
