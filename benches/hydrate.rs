//! The same ids once through twarc, twarc2 and the product, from the same simulated API: what `twarc hydrate` is used for.
//!
//! The others come from PyPI (`.ci/clients install`). They ask by one call at a time and write lines of JSON; the product is
//! given the ids (`enqueue`) and looks each up once (`updater`), and its queue and store are its output.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use twitter_updater::base::clock::Stopwatch;

use crate::Size;
use crate::pipeline::cpu::{Cpu, Served, ended_children};
use crate::pipeline::{Kind, Services, ids, reach, round, succeed};
use crate::report::{Report, Table, machine};
use crate::support::process::{Process, text, variables};

/// See the module.
pub async fn run(size: Size) -> Report {
    let tweets = size.pick(100_000, 1_000);
    let mut table = Table::new(
        "ids hydrated once: processor time, µs a tweet",
        &["client", "tweets/s", "its own", "its services", "enqueue", "sum", "simulator"],
    );
    // The tests fetch nothing from PyPI.
    if size == Size::Full {
        for client in ["twarc", "twarc2"] {
            theirs(client, tweets, &mut table).await;
        }
    }
    for (name, store) in [("this, one SQLite file", Kind::OneFile), ("this, Redis and PostgreSQL", Kind::Postgres)] {
        ours(name, store, tweets, &mut table).await;
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
    let before = Cpu::now(None, simulator.id(), Served::default());
    let api = &services.settings.iter().find(|(name, _)| name.ends_with("TWITTER__API")).unwrap().1;
    let hydrate = Command::new(Path::new("target/clients/bin/python"))
        .args(["benches/hydrate.py", client, api])
        .args([folder.join("ids"), folder.join("out")])
        .output()
        .unwrap();
    assert!(hydrate.status.success(), "{}", text(&hydrate.stderr));
    let said: Value = serde_json::from_slice(&hydrate.stdout).unwrap();
    assert_eq!(said["posts"], tweets);
    let spent = Cpu::now(None, simulator.id(), Served::default()).since(&before);
    let each = |seconds: f64| json!(round(seconds * 1e6 / f64::from(tweets)));
    let [wall, own] = ["wall", "processor"].map(|name| said[name].as_f64().unwrap());
    let rate = json!((f64::from(tweets) / wall).round());
    let (own, simulator) = (each(own), each(spent.simulator));
    table.row(vec![json!(client), rate, own.clone(), Value::Null, Value::Null, own, simulator]);
}

async fn ours(name: &str, store: Kind, tweets: u32, table: &mut Table) {
    let mut services = Services::start(store).await;
    services.settings.extend(variables(&[
        ("tweet_age", "30d: 1d"),
        ("updater.concurrency", "8"),
        ("simulator.latency", "0ms"),
    ]));
    succeed(&["migrate"], &services.settings, b"");
    let simulator = services.simulator();
    let served = services.pids().await;
    let before = Cpu::now(None, simulator.id(), served);
    let children = ended_children();
    let watch = Stopwatch::start();
    succeed(&["enqueue", "-"], &services.settings, ids(tweets).join("\n").as_bytes());
    let (enqueued, enqueue) = (watch.elapsed(), ended_children() - children);
    let watch = Stopwatch::start();
    let updater = Process::start(&["updater"], &services.settings, &services.log());
    reach(&*services.queue, f64::from(tweets)).await;
    let took = enqueued + watch.elapsed();
    let spent = Cpu::now(Some(updater.id()), simulator.id(), served).since(&before);
    let services_took = spent.redis.unwrap_or(0.0) + spent.postgres.unwrap_or(0.0);
    let each = |seconds: f64| json!(round(seconds * 1e6 / f64::from(tweets)));
    table.row(vec![
        json!(name),
        json!((f64::from(tweets) / took.as_secs_f64()).round()),
        each(spent.updater),
        each(services_took),
        each(enqueue),
        each(spent.updater + services_took + enqueue),
        each(spent.simulator),
    ]);
    assert!(updater.terminate().success());
    drop(simulator);
}
