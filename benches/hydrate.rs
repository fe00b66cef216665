//! The same ids once through twarc, twarc2 and the product, from the same simulated API: what `twarc hydrate` is used for.
//!
//! The others come from PyPI (`.ci/clients install`). They ask by one call at a time and write lines of JSON; the product is
//! given the ids (`enqueue`) and looks each up once (`updater`), and its queue and store are its output.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::base::clock::Stopwatch;

use crate::Size;
use crate::pipeline::cpu::Cpu;
use crate::pipeline::{Kind, Services, ids, reach, round, succeed};
use crate::report::{Report, Table, machine};
use crate::servers::{self, Postgres};
use crate::support::process::{Process, text, variables};

/// Between `enqueue` and the first look-up: the interval, which is over before the updater starts.
const INTERVAL: Duration = Duration::from_secs(60);

/// See the module.
pub async fn run(size: Size) -> Report {
    let tweets = size.pick(100_000, 1_000);
    let mut table = Table::new(
        "ids hydrated once: processor time, µs a tweet",
        &["client", "tweets/s", "its own", "its services", "enqueue", "sum", "simulator"],
    );
    // What PyPI has is not asked for by the tests.
    if size == Size::Full {
        for client in ["twarc", "twarc2"] {
            theirs(client, tweets, &mut table).await;
        }
    }
    for (name, store) in [("this, one SQLite file", Kind::OneFile), ("this, Redis and PostgreSQL", Kind::Postgres)] {
        ours(name, store, size, tweets, &mut table).await;
    }
    let about = vec![
        format!(
            "{}; {tweets} tweets in no order, objects of 4 KB, no limit of calls, everything on this machine",
            machine()
        ),
        "The others: one call at a time, into a file; this: 8 calls at a time (`updater.concurrency`).".to_owned(),
    ];
    Report { about, tables: vec![table] }
}

async fn theirs(client: &str, tweets: u32, table: &mut Table) {
    assert!(Command::new(".ci/clients").arg("install").status().unwrap().success());
    let mut services = Services::start(Kind::OneFile).await;
    services.settings.extend(variables(&[("simulator.latency", "0ms")]));
    let simulator = services.simulator();
    let folder = services.folder.path();
    std::fs::write(folder.join("ids"), ids(tweets).join("\n")).unwrap();
    let before = Cpu::now(simulator.id(), simulator.id(), None, None);
    let api = &services.settings.iter().find(|(name, _)| name.ends_with("TWITTER__API")).unwrap().1;
    let hydrate = Command::new(Path::new("target/clients/bin/python"))
        .args(["benches/hydrate.py", client, api])
        .args([folder.join("ids"), folder.join("out")])
        .output()
        .unwrap();
    assert!(hydrate.status.success(), "{}", text(&hydrate.stderr));
    let said: Value = serde_json::from_slice(&hydrate.stdout).unwrap();
    assert_eq!(said["posts"], tweets);
    let spent = Cpu::now(simulator.id(), simulator.id(), None, None).since(&before);
    let each = |seconds: f64| json!(round(seconds * 1e6 / f64::from(tweets)));
    let [wall, own] = ["wall", "processor"].map(|name| said[name].as_f64().unwrap());
    let rate = json!((f64::from(tweets) / wall).round());
    let (own, simulator) = (each(own), each(spent.simulator));
    table.row(vec![json!(client), rate, own.clone(), Value::Null, Value::Null, own, simulator]);
}

async fn ours(name: &str, store: Kind, size: Size, tweets: u32, table: &mut Table) {
    let mut services = Services::start(store).await;
    let interval = size.pick(INTERVAL, Duration::from_secs(1));
    services.settings.extend(variables(&[
        ("tweet_age", &format!("30d: {}s", interval.as_secs())),
        ("updater.concurrency", "8"),
        ("simulator.latency", "0ms"),
    ]));
    succeed(&["migrate"], &services.settings, b"");
    let simulator = services.simulator();
    let redis = match &services.redis {
        Some(redis) => Some(servers::redis_pid(redis).await),
        None => None,
    };
    let postgres = services.postgres.as_ref().map(Postgres::pid);
    // Those of a process that has not started are the simulator's, and left out.
    let processes = |updater: u32| Cpu::now(updater, simulator.id(), redis, postgres);
    let before = processes(simulator.id());
    let children = children();
    let watch = Stopwatch::start();
    succeed(&["enqueue", "-"], &services.settings, ids(tweets).join("\n").as_bytes());
    let (enqueued, enqueue) = (watch.elapsed(), self::children() - children);
    tokio::time::sleep(interval).await;
    let watch = Stopwatch::start();
    let updater = Process::start(&["updater"], &services.settings, &services.log());
    reach(&*services.queue, f64::from(tweets)).await;
    let took = enqueued + watch.elapsed();
    let after = processes(updater.id());
    let served = |now: Option<f64>, before: Option<f64>| now.zip(before).map_or(0.0, |(now, before)| now - before);
    let services_took = served(after.redis, before.redis) + served(after.postgres, before.postgres);
    let each = |seconds: f64| json!(round(seconds * 1e6 / f64::from(tweets)));
    table.row(vec![
        json!(name),
        json!((f64::from(tweets) / took.as_secs_f64()).round()),
        each(after.updater),
        each(services_took),
        each(enqueue),
        each(after.updater + services_took + enqueue),
        each(after.simulator - before.simulator),
    ]);
    assert!(updater.terminate().success());
    drop(simulator);
}

/// Seconds of processor time of this process's children that have ended.
fn children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[13..15].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
