//! Redis comes back with less than it had acknowledged. What a lost write means for a tweet:
//! - its settle: it is due again, under a lease that runs out or in its lane, and is looked up once more;
//! - its claim: it is due, and the worker that thinks to hold it changes nothing;
//! - its scheduling: it is nowhere in the queue, while the store knows it. It is put in again from there.

use std::path::PathBuf;

use twitter_updater::pipelines::posts::NAMESPACE;

use super::swing::{Swing, WITHIN, tweets};
use crate::support::postgres;
use crate::support::redis::{TestRedis, Watched};
use crate::support::wait::until_true;
use crate::support::world::World;

/// The part of the AOF that grows.
fn increments(redis: &TestRedis) -> PathBuf {
    let files = std::fs::read_dir(redis.folder().join("appendonlydir")).unwrap();
    files.map(|file| file.unwrap().path()).find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap()
}

/// The machine ended with the last second unsynced: the AOF ends in the middle of a command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_off_tail() {
    let mut swing = Swing::start(false).await;
    let early = swing.ids.clone();
    let late = tweets(10_000, 50);
    swing.enqueue(late.clone());
    let redis = swing.world.redis.as_mut().unwrap();
    redis.stop();
    let file = increments(redis);
    let bytes = std::fs::read(&file).unwrap();
    let late_at = late
        .iter()
        .filter_map(|id| bytes.windows(id.len()).position(|window| window == id.as_bytes()))
        .min()
        .expect("it was written");
    std::fs::File::options().write(true).open(&file).unwrap().set_len(late_at as u64 + 10).unwrap();
    redis.start_again();
    println!("{} of {} bytes cut off", bytes.len() - late_at - 10, bytes.len());

    // Those that were there before are looked after, whatever of theirs was cut off.
    swing.ids = early.clone();
    swing.goes_on("a cut").await;
    assert_eq!((swing.nowhere(&early).await, swing.nowhere(&late).await), (0, late.len()));
    swing.enqueue(late);
    swing.goes_on("they were put in again").await;
    swing.ends().await;
}

/// FLUSHALL while workers hold tweets: what they say then changes nothing and puts nothing anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_data_set() {
    let mut swing = Swing::start(false).await;
    let mut raw = swing.world.redis.as_ref().unwrap().connection().await;
    let held = "local held = redis.call('ZCARD', KEYS[1])\nif held > 0 then redis.call('FLUSHALL') end\nreturn held";
    let leased = format!("{{{NAMESPACE}}}:leased");
    let mut flushed: i64 = 0;
    until_true("it is emptied while something is held", WITHIN, async || {
        flushed = redis::cmd("EVAL").arg(held).arg(1).arg(&leased).query_async(&mut raw).await.unwrap();
        flushed > 0
    })
    .await;
    until_true("those who held it have said theirs", WITHIN, async || {
        swing.all_run();
        swing.world.queue.stats().await.unwrap().counters.get("lost").is_some_and(|lost| *lost >= flushed)
    })
    .await;
    let stats = swing.world.queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased, stats.dead), (0, 0, 0));
    assert_eq!(swing.nowhere(&swing.ids).await, swing.ids.len());

    swing.enqueue(swing.ids.clone());
    swing.goes_on("they were put in again").await;
    swing.ends().await;
}

/// A failover to a replica that has missed the last writes, announced by Sentinels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_a_replica_that_lags() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = Watched::start().await;
    let api = Swing::api().await;
    let world = World::over(Some(&redis.url), Some(postgres::database().await), folder.path(), &api.base_url()).await;
    let mut swing = Swing::over(world, api, folder).await;
    let early = swing.ids.clone();

    redis.cut_off().await;
    let late = tweets(10_000, 50);
    swing.enqueue(late.clone());
    swing.goes_on("the replica was cut off").await;
    redis.master.kill();

    swing.ids = early.clone();
    swing.goes_on("a failover").await;
    assert_eq!((swing.nowhere(&early).await, swing.nowhere(&late).await), (0, late.len()));
    // The old master comes back, as a replica of the new one, which hands over to it in order.
    redis.master.start_again();
    redis.back_to_the_first().await;
    swing.enqueue(late);
    swing.goes_on("they were put in again").await;
    swing.ends().await;
}
