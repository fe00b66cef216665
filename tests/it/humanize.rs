//! The figures of the page: read for who watches, never shown as newer than they are.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;
use twitter_updater::base::reload::Reloadable;
use twitter_updater::config::Settings;
use twitter_updater::engine::health::Health;
use twitter_updater::engine::queue::{
    Administration, Claim, EmbeddedQueue, Inspection, Jobs, Lane, Lateness, MINUTE_MS, NewJob, Queue, RedisQueue,
    Verdict, Workers,
};
use twitter_updater::model::provider::Provider;
use twitter_updater::ops::{
    FigureSettings, FreshnessState, Headline, LatestReading, NoAnswer, OpenedStore, Snapshot, SnapshotReader,
    WholeQueue,
};
use twitter_updater::pipelines::posts::posts_pipeline;
use twitter_updater::providers::twitter_v1::CAPABILITIES;
use twitter_updater::quota::Ledger;
use twitter_updater::store::{Lifecycle, NewItem, Store, Way};

use crate::support::claim;
use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::memory_store::MemoryStore;
use crate::support::queue_model::Rules;
use crate::support::redis::{TestRedis, namespace};
use crate::support::watched_queue::WatchedQueue;

fn terms() -> FigureSettings {
    let settings = Settings::load_with(&[], None, &[]).unwrap();
    twitter_updater::app::figure_settings(&settings, &posts_pipeline(&Provider::Twitter))
}

fn reader_of(queue: Arc<dyn Queue>, store: OpenedStore) -> Arc<SnapshotReader> {
    let whole = Arc::new(WholeQueue {
        queue,
        provider: "twitter".to_owned(),
        ledger: Arc::new(MemoryLedger::new(ServiceClock::right())) as Arc<dyn Ledger>,
        names: vec!["main".to_owned()],
        capabilities: CAPABILITIES,
        terms: Reloadable::new(terms()),
        budget: None,
        health: Arc::new(Health::default()),
    });
    Arc::new(SnapshotReader::new(whole, store, Reloadable::new(terms())))
}

/// A queue and a store in memory, and who reads them, while time is simulated.
struct Watch {
    queue: Arc<WatchedQueue>,
    store: Arc<MemoryStore>,
    at_hand: OpenedStore,
    reader: Arc<SnapshotReader>,
    running: JoinHandle<()>,
}

impl Watch {
    fn new() -> Self {
        let memory = MemoryQueue::new("tweet:update", ServiceClock::right(), Rules::default());
        let queue = Arc::new(WatchedQueue::around(Arc::new(memory)));
        let store = Arc::new(MemoryStore::default());
        let at_hand = Reloadable::new(Ok(store.clone() as Arc<dyn Store>));
        let reader = reader_of(queue.clone(), at_hand.clone());
        let running = tokio::spawn({
            let reader = reader.clone();
            async move { reader.run().await }
        });
        Self { queue, store, at_hand, reader, running }
    }

    /// How often it read.
    fn looks(&self) -> u64 {
        self.queue.looks.load(SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// The next thing that is seen.
async fn next(seen: &mut Receiver<LatestReading>) -> LatestReading {
    seen.changed().await.unwrap();
    seen.borrow_and_update().clone()
}

fn at_ms(seen: &LatestReading) -> i64 {
    seen.snapshot.as_ref().unwrap().at_ms()
}

#[tokio::test(start_paused = true)]
async fn it_reads_once_a_second_for_all_who_watch_and_not_at_all_for_nobody() {
    let watch = Watch::new();
    seconds(100).await;
    assert_eq!(watch.looks(), 0);
    let (mut one, two) = (watch.reader.watch(), watch.reader.watch());
    assert!(!one.borrow().is_read());
    next(&mut one).await;
    assert_eq!(watch.looks(), 1);
    for second in 2..=10 {
        next(&mut one).await;
        assert_eq!(watch.looks(), second);
    }
    assert_eq!(at_ms(&one.borrow()), at_ms(&two.borrow()));
    drop((one, two));
    seconds(100).await;
    assert_eq!(watch.looks(), 10, "nobody watches");
    // Who comes now does not see what was seen then.
    let before = watch.reader.watch();
    assert!(!before.borrow().is_read());
    drop(before);
    let seen = watch.reader.current().await;
    let now = watch.queue.stats().await.unwrap().now_ms;
    assert!((now - 1_000..=now).contains(&at_ms(&seen)), "{now}");
    // One more for whoever looks within the second.
    let looks = watch.looks();
    let again = watch.reader.current().await;
    assert_eq!((at_ms(&again), watch.looks()), (at_ms(&seen), looks));
}

#[tokio::test(start_paused = true)]
async fn minutes_that_are_over_are_not_read_again() {
    let watch = Watch::new();
    let mut seen = watch.reader.watch();
    next(&mut seen).await;
    assert_eq!(*watch.queue.minutes_asked.lock().unwrap(), [2, 60]);
    watch.queue.minutes_asked.lock().unwrap().clear();
    for minute in 0..5 {
        for _ in 0..60 {
            watch.queue.heartbeat("w", &[], &[("requests", 1)], &Lateness::default()).await.unwrap();
            next(&mut seen).await;
        }
        let figures = seen.borrow().snapshot.clone().unwrap();
        assert_eq!(figures.minutes, watch.queue.minutes(60).await.unwrap(), "{minute}");
        assert_eq!(watch.queue.minutes_asked.lock().unwrap().pop(), Some(60), "our own");
    }
    let asked = watch.queue.minutes_asked.lock().unwrap().clone();
    assert!(asked.len() == 300 && asked.iter().all(|count| *count == 2), "{asked:?}");
    // Whoever comes back later misses some.
    drop(seen);
    seconds(180).await;
    let figures = watch.reader.current().await.snapshot.unwrap();
    assert_eq!(figures.minutes, watch.queue.minutes(60).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_out_leaves_the_last_figures_with_the_reason() {
    let watch = Watch::new();
    watch.queue.fail_looks.store(true, SeqCst);
    let seen = watch.reader.current().await;
    assert!(seen.snapshot.is_none() && seen.outage.is_some(), "nothing is known yet, but that");
    watch.queue.fail_looks.store(false, SeqCst);
    let mut seen = watch.reader.watch();
    let well = loop {
        let seen = next(&mut seen).await;
        if seen.snapshot.is_some() {
            break seen;
        }
    };
    assert_eq!((well.outage.clone(), Headline::from_reading(&well).state), (None, FreshnessState::Stopped));
    watch.queue.fail_looks.store(true, SeqCst);
    let first = next(&mut seen).await;
    for _ in 0..20 {
        let out = next(&mut seen).await;
        assert_eq!(at_ms(&out), at_ms(&well), "the last figures");
        assert_eq!(out.outage, first.outage, "since when");
        let answer = Headline::from_reading(&out);
        assert!(
            answer.state == FreshnessState::Unknown && answer.sentence.contains("the test took it away"),
            "{answer:?}"
        );
    }
    watch.queue.fail_looks.store(false, SeqCst);
    let again = next(&mut seen).await;
    assert!(again.outage.is_none() && at_ms(&again) >= at_ms(&well) + 21_000);
}

/// A large file: nothing is counted twice at a time, and what took long before is no outage.
#[tokio::test(start_paused = true)]
async fn a_count_that_takes_long_is_waited_for() {
    let watch = Watch::new();
    watch.queue.look_takes.store(30, SeqCst);
    let mut seen = watch.reader.watch();
    let first = next(&mut seen).await;
    assert_eq!((first.snapshot.is_none(), Headline::from_reading(&first).state), (true, FreshnessState::Unknown));
    seen.wait_for(|seen| seen.outage.is_none()).await.unwrap();
    let figures = at_ms(&seen.borrow_and_update());
    assert_eq!(watch.looks(), 1);
    // A tenth of the time.
    seconds(290).await;
    assert_eq!(watch.looks(), 1);
    // What comes in now is told by the next count.
    let lane = Lane::new("1d", Duration::from_secs(3_600));
    watch.queue.schedule(&[NewJob { id: "1".to_owned(), lane, due: 3_600_000.into() }]).await.unwrap();
    let counted =
        |seen: &LatestReading| seen.snapshot.as_ref().is_some_and(|figures| figures.status.stats.delayed == 1);
    let again = seen.wait_for(|seen| seen.outage.is_some() || counted(seen)).await.unwrap().clone();
    assert_eq!((watch.looks(), again.outage.is_none()), (2, true));
    assert!(at_ms(&again) >= figures + 300_000);
}

/// Between two counts of a large file, and during the second, the headline is as quick as ever.
#[tokio::test(start_paused = true)]
async fn what_is_quick_to_tell_does_not_wait_for_a_count_that_takes_long() {
    let watch = Watch::new();
    let beat = async || watch.queue.heartbeat("w", &[], &[], &Lateness::default()).await.unwrap();
    watch.queue.look_takes.store(60, SeqCst);
    beat().await;
    let mut seen = watch.reader.watch();
    seen.wait_for(|seen| seen.snapshot.is_some()).await.unwrap();
    for _ in 0..4 {
        beat().await;
        seconds(5).await;
        assert_eq!(Headline::from_reading(&seen.borrow()).state, FreshnessState::Fresh);
    }
    seconds(10).await;
    let answer = Headline::from_reading(&seen.borrow());
    assert!(answer.sentence.starts_with("Stopped: no worker heartbeat for 1"), "{answer:?}");
    assert_eq!(watch.looks(), 1);
    // By now it counts again.
    seconds(590).await;
    assert_eq!(watch.looks(), 2);
    watch.queue.pause(Some("the database moves")).await.unwrap();
    seconds(2).await;
    assert_eq!(Headline::from_reading(&seen.borrow()).sentence, "Stopped: it is paused: the database moves");
    watch.store.set_down(Some("no route"));
    seconds(10).await;
    let answer = Headline::from_reading(&seen.borrow());
    assert!(answer.sentence.contains("the store does not answer"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_of_what_the_store_has_is_not_fresh() {
    let watch = Watch::new();
    let mut seen = watch.reader.watch();
    let beats: JoinHandle<()> = tokio::spawn({
        let queue = watch.queue.clone();
        async move {
            loop {
                queue.heartbeat("w", &[], &[], &Lateness::default()).await.unwrap();
                seconds(1).await;
            }
        }
    });
    next(&mut seen).await;
    let lane = Lane::new("1d", Duration::from_secs(3_600));
    let new = NewItem { id: "1".to_owned(), created_at: None, next_due: Some(0), content: None, read_at: None };
    let now = watch.queue.stats().await.unwrap().now_ms;
    watch.store.record("tweet:update", now, &Way::new("enqueue"), &[new]).await.unwrap();
    seconds(3).await;
    assert_eq!(Headline::from_reading(&seen.borrow()).sentence, "No posts are scheduled", "it may be on its way");
    watch.queue.schedule(&[NewJob { id: "1".to_owned(), lane, due: 3_600_000.into() }]).await.unwrap();
    seconds(60).await;
    assert_eq!(Headline::from_reading(&seen.borrow()).sentence, "The only post waits for its first lookup");
    watch.queue.forget(&["1".to_owned()]).await.unwrap();
    seconds(2).await;
    let lost = "Stopped: the queue is empty, and the store has live posts; run `twitter-updater rebuild`";
    assert_eq!(Headline::from_reading(&seen.borrow()).sentence, lost);
    beats.abort();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_out_is_told_and_the_figures_go_on() {
    let watch = Watch::new();
    watch.at_hand.set(Err(NoAnswer::Failed("its tables are not there".to_owned())));
    let mut seen = watch.reader.watch();
    let out = |seen: &LatestReading| seen.snapshot.as_ref().unwrap().store_out.clone();
    assert_eq!(out(&next(&mut seen).await).unwrap().why, "its tables are not there");
    watch.at_hand.set(Ok(watch.store.clone()));
    let within = async |seen: &mut Receiver<LatestReading>, is_out: bool| {
        for _ in 0..7 {
            let seen = next(seen).await;
            if out(&seen).is_some() == is_out {
                return seen;
            }
        }
        panic!("not noticed: {:?}", out(&seen.borrow()));
    };
    within(&mut seen, false).await;
    watch.store.set_down(Some("no route"));
    let first = within(&mut seen, true).await;
    let answer = Headline::from_reading(&first);
    assert!(answer.state == FreshnessState::Stopped && answer.sentence.contains("no route"), "{answer:?}");
    seconds(20).await;
    let later = next(&mut seen).await;
    assert_eq!(out(&later), out(&first), "since it was noticed");
    assert!(at_ms(&later) > at_ms(&first));
    watch.store.set_down(None);
    within(&mut seen, false).await;
}

/// What the page would show of that queue, read once.
async fn figures_of(queue: Arc<dyn Queue>) -> Arc<Snapshot> {
    let reader = reader_of(queue, Reloadable::new(Ok(Arc::new(MemoryStore::default()) as Arc<dyn Store>)));
    let seen = tokio::select! {
        seen = reader.current() => seen,
        () = reader.run() => unreachable!("it runs for ever"),
    };
    seen.snapshot.unwrap_or_else(|| panic!("{:?}", seen.outage))
}

async fn figures_are_those_of_the_queue(queue: Arc<dyn Queue>) {
    let (young, old) = (Lane::new("18m", Duration::from_secs(180)), Lane::new("1d", Duration::from_secs(3_600)));
    let job = |id: String, lane: &Lane, delay: i64| NewJob { id, lane: lane.clone(), due: delay.into() };
    queue.schedule(&(0..5).map(|n| job(format!("1{n}"), &young, 0)).collect::<Vec<_>>()).await.unwrap();
    let request = |limit| claim::at_once("w-1", limit, Duration::from_secs(60));
    let Claim::Batch(mut batch) = queue.claim(&request(5)).await.unwrap() else { panic!("five are due") };
    // Two are updated, two are given back as if a minute late, one stays with its worker.
    let again = Verdict::Reschedule { lane: old.clone(), due: 90_000.into() };
    let verdicts: Vec<_> = batch.jobs.drain(..2).map(|job| (job, again.clone())).collect();
    queue.settle(&batch.fence, &verdicts, &[]).await.unwrap();
    batch.jobs.truncate(2);
    batch.jobs.iter_mut().for_each(|job| job.due = batch.claimed_at - MINUTE_MS);
    queue.release(&batch.fence, &batch.jobs).await.unwrap();
    queue.schedule(&[job("20".to_owned(), &old, 0), job("21".to_owned(), &old, 3_590_000)]).await.unwrap();
    let mut late = Lateness::default();
    late.add(700, 5);
    queue.heartbeat("w", &[], &[("requests", 2), ("looked_up", 150)], &late).await.unwrap();

    let figures = figures_of(queue.clone()).await;
    let stats = queue.stats().await.unwrap();
    assert_eq!((figures.status.stats.delayed, figures.status.stats.leased, stats.delayed), (6, 1, 6));
    let fresh: Vec<_> = figures
        .freshness
        .iter()
        .map(|lane| (lane.lane.as_str(), lane.interval_ms, lane.ids, lane.due, lane.overdue))
        .collect();
    assert_eq!(fresh, [("18m", 180_000, 2, 2, 2), ("1d", 3_600_000, 4, 1, 0)]);
    assert!(figures.freshness[0].oldest_lateness_ms >= MINUTE_MS);
    // Within the first two minutes, and just before the end of the hour: the last minute, or already the one before.
    let coming: Vec<u64> = figures.coming[1].per_minute.clone();
    assert_eq!((coming.len(), coming.iter().sum::<u64>(), coming[0] + coming[1]), (60, 3, 2), "{coming:?}");
    assert_eq!(coming[58] + coming[59], 1, "{coming:?}");
    assert_eq!(figures.coming[0].per_minute, [0; 60]);
    assert_eq!((figures.minutes.len(), figures.accounts.len()), (60, 1));
    let counted = |counter: &str| figures.minutes.iter().map(|minute| minute.count(counter)).sum::<i64>();
    assert_eq!(
        ["scheduled", "claimed", "rescheduled", "released", "requests", "looked_up"].map(counted),
        [7, 5, 2, 2, 2, 150]
    );
    let mut lateness = Lateness::default();
    figures.minutes.iter().for_each(|minute| lateness.merge(&minute.lateness));
    assert_eq!((lateness.ids(), lateness.quantile(0.99)), (5, Some(768)));
    assert!(figures.forecast.is_none() && figures.load.is_burst() && figures.load.arrived == 7, "{:?}", figures.load);
    assert!(figures.store_out.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_those_of_a_redis() {
    let redis = TestRedis::shared();
    figures_are_those_of_the_queue(Arc::new(RedisQueue::new(redis.pool(), &namespace()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_those_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    figures_are_those_of_the_queue(Arc::new(queue)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_is_an_outage_and_comes_back() {
    let mut redis = TestRedis::start(&["--appendonly", "yes"]);
    let queue = Arc::new(RedisQueue::new(redis.pool(), &namespace()));
    let reader = reader_of(queue, Reloadable::new(Ok(Arc::new(MemoryStore::default()) as Arc<dyn Store>)));
    let running = tokio::spawn({
        let reader = reader.clone();
        async move { reader.run().await }
    });
    let mut seen = reader.watch();
    let until = async |seen: &mut Receiver<LatestReading>, is_out: bool| {
        let read = seen.wait_for(|seen| seen.is_read() && seen.outage.is_some() == is_out);
        tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap().clone()
    };
    let well = until(&mut seen, false).await;
    redis.kill();
    let out = until(&mut seen, true).await;
    assert!(at_ms(&out) >= at_ms(&well) && Headline::from_reading(&out).state == FreshnessState::Unknown);
    redis.start_again();
    let again = until(&mut seen, false).await;
    assert!(at_ms(&again) > at_ms(&out));
    running.abort();
}
