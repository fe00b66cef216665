//! The same for the pipeline of media, whose lines lead to the queue, to the store, and to a host of files that has faults of
//! its own: the right files are there once, and nothing is lost.

use std::time::Duration;

use twitter_updater::engine::queue::{Inspection, RedisQueue};

use super::*;
use crate::media::process::media_settings;
use crate::media::server::Server;
use crate::media::whole::{NS, check, files_in, put_in};
use crate::support::redis::pool;

/// Media that posts bring after every third fault.
const EACH: u32 = 20;

/// So many faults on the lines to these services and, with `of_files`, on the one to the host.
async fn files_survive(services: &[Service], of_files: bool, faults: usize) {
    let seed = std::env::var("NETWORK_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("media, {services:?}, host of files {of_files}: again with NETWORK_SEED={seed}");
    let mut lots = StdRng::seed_from_u64(seed);
    let (mut server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let mut world = World::new(Backends { redis: true, postgres: true }, folder.path(), "http://127.0.0.1:1").await;
    let queue = RedisQueue::new(pool(&world.redis.as_ref().unwrap().url), NS);
    let mut lines: Vec<(String, Line)> = Vec::new();
    if of_files {
        let line = Line::to(Upstream::Tcp(server.address.parse().unwrap())).await;
        // The addresses of all files lead through it.
        server.address = line.addr.to_string();
        lines.push(("host of files".to_owned(), line));
    }
    for service in services {
        lines.push((format!("{service:?}"), line(*service, &mut world.settings).await));
    }
    world.settings.extend(media_settings(&server, folder.path()));
    world.settings.extend(variables(&[
        ("media.per_host", "8"),
        ("media.retry", "50ms"),
        ("media.longest_retry", "200ms"),
        ("updater.buffer_ttl", "20ms"),
        ("queue.redis.response_timeout", "800ms"),
        ("queue.redis.connect_timeout", "800ms"),
        ("store.postgres.statement_timeout", "800ms"),
    ]));
    let log = folder.path().join("updater.log");
    let logged = || std::fs::read_to_string(&log).unwrap();
    put_in(&*world.store, &queue, &server, 0..EACH).await;
    let mut processes: Vec<Process> =
        (0..PROCESSES).map(|_| Process::start(&["updater"], &world.settings, &log)).collect();
    let settled = async || -> u32 {
        let totals = world.store.media_totals(NS).await.unwrap();
        totals.iter().filter(|total| total.state.is_final()).map(|total| total.media as u32).sum()
    };
    until_true("all is well at first", WITHIN, async || settled().await == EACH).await;

    let mut all = EACH;
    for fault in 0..faults {
        if fault % 3 == 0 {
            put_in(&*world.store, &queue, &server, all..all + EACH).await;
            all += EACH;
        }
        let pause = Duration::from_millis(lots.random_range(5..120));
        lines[lots.random_range(0..lines.len())].1.befall(&mut lots);
        tokio::time::sleep(pause).await;
    }
    let quiet = wall_ms();
    for (name, line) in &lines {
        let happened = line.happened();
        println!("{name}: {happened:?}");
        assert!(happened["in flight"] > 0, "{name}: no fault met a request");
    }
    until_true("every medium is settled in the quiet after it", WITHIN, async || {
        for process in &mut processes {
            assert!(process.runs(), "{}", logged());
        }
        let stats = queue.stats().await.unwrap();
        settled().await == all && (stats.delayed, stats.leased, stats.dead) == (0, 0, 0)
    })
    .await;
    println!("{all} media are settled {} ms after the last fault", wall_ms() - quiet);
    for process in processes {
        let status = process.terminate();
        assert!(status.success(), "{status}\n{}", logged());
    }
    assert!(!logged().contains("panicked"), "{}", logged());
    assert_eq!(world.store.counts(NS).await.unwrap().ended, u64::from(all), "a life that is over, and not saved");
    check(&*world.store, &files_in(&folder.path().join("media")), 0..all).await;
    println!("{:?}", queue.stats().await.unwrap().counters);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_media_and_their_hosts() {
    files_survive(&[], true, 80).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_media_and_everything() {
    files_survive(&[Redis, Postgres], true, 200).await;
}
