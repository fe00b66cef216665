//! What the page costs: a million scheduled ids, fifty workers, an hour of counters.

use std::sync::Arc;
use std::time::Duration;

use redis::InfoDict;
use redis::aio::MultiplexedConnection;
use twitter_updater::base::clock::{Millis, Stopwatch};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::config::Settings;
use twitter_updater::data::dead::DeadItems;
use twitter_updater::engine::health::Health;
use twitter_updater::engine::metrics::{CounterSet, Counters};
use twitter_updater::engine::queue::{
    Claim, HOUR_MS, HOURS_KEPT, Lane, Lateness, MINUTE_MS, NewJob, Queue, RedisQueue,
};
use twitter_updater::ingest::LaneChooser;
use twitter_updater::model::post::TweetId;
use twitter_updater::model::provider::Provider;
use twitter_updater::ops::{
    Access, NoAnswer, PageInputs, Server, Site, Snapshot, SnapshotReader, StoreAccess, WholeQueue,
};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::pipelines::posts::posts_pipeline;
use twitter_updater::pipelines::refresh::UNAVAILABLE_LANE;
use twitter_updater::providers::twitter_v1::CAPABILITIES;
use twitter_updater::quota::{CallRecord, Ledger, Park, PermitRequest, RedisLedger, Window};
use twitter_updater::store::Store;

use crate::support::claim;
use crate::support::memory_store::MemoryStore;
use crate::support::redis::TestRedis;
use crate::support::role::client;

/// Thousands of ids in each lane, the five of the age table and the unavailable: a million.
const THOUSANDS: [u32; 6] = [5, 10, 35, 200, 740, 10];
/// Of each lane, as many as this are overdue, by up to ten minutes.
const OVERDUE: u32 = 500;
const WORKERS: usize = 50;
const CREDENTIALS: usize = 10;
const CLAIMS: usize = 40;
/// Updates of the page that are measured.
const UPDATES: usize = 20;

const TAG: &str = "{tweet:update}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_takes_next_to_nothing_of_a_redis_with_a_million_ids() {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let mut raw = redis.connection().await;
    let settings = Settings::load_with(&[], None, &[]).unwrap();
    let (queue, ledger) =
        (Arc::new(RedisQueue::new(redis.pool(), NAMESPACE)), Arc::new(RedisLedger::new(redis.pool(), "twitter")));
    let mut lanes: Vec<Lane> = settings.tweet_age.brackets().iter().map(|bracket| bracket.lane.clone()).collect();
    lanes.push(Lane::new(UNAVAILABLE_LANE, settings.updater.unavailable_every));
    claim_some(&*queue, &lanes[0]).await;
    fill(&*queue, &lanes, &mut raw).await;
    let names = use_credentials(&*ledger, &mut raw).await;
    let counted = count_an_hour(&mut raw).await;
    beat(&*queue).await;

    let terms = twitter_updater::app::figure_settings(&settings, &posts_pipeline(&Provider::Twitter));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let unavailable = lanes[THOUSANDS.len() - 1].clone();
    let lanes_of_the_dead = LaneChooser {
        schedule: Reloadable::new(terms.schedule.clone()).into(),
        unavailable,
        id_date: Arc::new(TweetId::date_of),
    };
    let dead = DeadItems { queue: queue.clone(), store: store.clone(), lanes: lanes_of_the_dead };
    let archive = StoreAccess::open(move || std::future::ready(Ok(dead.clone()))).await;
    let (provider, health) = ("twitter".to_owned(), Arc::new(Health::default()));
    let terms = Reloadable::new(terms);
    let whole = Arc::new(WholeQueue {
        queue: queue.clone(),
        provider,
        ledger,
        names,
        capabilities: CAPABILITIES,
        terms: terms.clone(),
        budget: None,
        health,
    });
    let reader = Arc::new(SnapshotReader::new(whole.clone(), Reloadable::new(Ok(store)), terms.clone()));
    let running = tokio::spawn({
        let reader = reader.clone();
        async move { reader.run().await }
    });

    let before = now(&mut raw).await;
    let figures = reader.current().await.snapshot.unwrap();
    let after = now(&mut raw).await;
    agrees(&figures, &lanes, (before, after), &mut raw).await;
    for minute in &figures.minutes[..59] {
        let known = counted.iter().find(|(at_ms, _)| *at_ms == minute.at_ms);
        assert_eq!(known.map_or(0, |(_, requests)| *requests), minute.count("requests"), "{minute:?}");
    }

    running.abort();
    let database = Reloadable::new(Err(NoAnswer::Failed("no lists here".to_owned())));
    let site = Site::new(vec![PageInputs { whole, archive, terms, database }], Access::default(), None);
    let server = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = format!("http://{}/", server.addr());
    let serving = tokio::spawn(server.run(site.router(), std::future::pending()));
    let client = client();
    let shown = async || client.get(&address).send().await.unwrap().error_for_status().unwrap().text().await.unwrap();
    assert!(shown().await.contains("id=\"freshness\""));

    // What it does while nobody watches is not the page's.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let resting = Spent::read(&mut raw).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let rest = Spent::read(&mut raw).await.since(&resting);
    assert_eq!(rest.scripts, 0.0, "nobody watches");
    let busy = Spent::read(&mut raw).await;
    let mut took = Vec::new();
    while took.len() < UPDATES {
        tokio::time::sleep(Duration::from_millis(1_200)).await; // its second is over: it reads anew
        let (asked, watch) = (now(&mut raw).await, Stopwatch::start());
        let text = shown().await;
        took.push(watch.elapsed().as_secs_f64() * 1e3);
        let (_, at) = text.split_once("data-at=\"").unwrap();
        let at: Millis = at.split('"').next().unwrap().parse().unwrap();
        assert!(at >= asked && text.contains("1,000,"), "{text}");
    }
    let work = Spent::read(&mut raw).await.since(&busy);
    serving.abort();

    let (per_update, p50) = (UPDATES as f64, percentile(&mut took, 0.5));
    let scripts = work.scripts / per_update;
    let processor = (work.processor - rest.processor / rest.wall * work.wall).max(0.0) / per_update;
    println!("an update of the page: {p50:.1} ms (p50), {:.1} ms (p99); at most 100 ms", percentile(&mut took, 0.99));
    println!(
        "of Redis's time at an update per second: {:.3} % in scripts, {:.3} % of a processor; at most 1 %",
        scripts * 100.0,
        processor * 100.0
    );
    assert!(p50 < 100.0, "{took:?}");
    // A busy machine lets scripts wait, and that counts as theirs.
    assert!(scripts < 0.02, "{scripts}");
    a_month_of_hours(&*queue, &mut raw).await;
}

/// What it costs to add minutes to their hours, to keep a month of them, and to read it once.
async fn a_month_of_hours(queue: &dyn Queue, raw: &mut MultiplexedConnection) {
    let before = Spent::read(raw).await;
    queue.sum_hours().await.unwrap();
    let summed = Spent::read(raw).await.since(&before);
    let this = now(raw).await / HOUR_MS;
    let hour = queue.hours(2).await.unwrap().swap_remove(0);
    let kept = hour.at_ms / HOUR_MS;
    for of in (this - Millis::from(HOURS_KEPT) + 1..=this).filter(|of| *of < kept) {
        let mut copy = redis::pipe();
        for of_hours in ["hour", "hour:lateness"] {
            copy.cmd("COPY").arg(format!("{TAG}:{of_hours}:{kept}")).arg(format!("{TAG}:{of_hours}:{of}"));
        }
        copy.exec_async(raw).await.unwrap();
    }
    let before = Spent::read(raw).await;
    assert!(queue.hours(HOURS_KEPT).await.unwrap().len() >= HOURS_KEPT as usize - 1);
    let read = Spent::read(raw).await.since(&before);
    let mut bytes = 0;
    for of_hours in ["hour", "hour:lateness"] {
        let key = format!("{TAG}:{of_hours}:{kept}");
        bytes += redis::cmd("MEMORY").arg("USAGE").arg(key).query_async::<u64>(raw).await.unwrap();
    }
    println!(
        "an hour of minutes is summed in {:.2} ms of Redis's time; a month of hours is read in {:.1} ms and takes {} KB",
        summed.scripts * 1e3,
        read.scripts * 1e3,
        bytes * u64::from(HOURS_KEPT) / 1_000
    );
}

async fn fill(queue: &dyn Queue, lanes: &[Lane], raw: &mut MultiplexedConnection) {
    let mut number = 1_000_000_000_000_000_000_u64;
    let mut id = || {
        number += 4_194_304;
        number.to_string()
    };
    for (lane, thousands) in lanes.iter().zip(THOUSANDS) {
        for chunk in 0..thousands {
            let due = |of: u32| {
                (lane.patience as f64 * f64::from(chunk * 1_000 + of) / f64::from(thousands * 1_000)) as Millis
            };
            let job = |of| NewJob { id: id(), lane: lane.clone(), due: due(of).into() };
            let late = if chunk == 0 { OVERDUE } else { 0 };
            queue.schedule(&(late..1_000).map(job).collect::<Vec<_>>()).await.unwrap();
        }
        let (now, set) = (now(raw).await, format!("{TAG}:delayed:{}", lane.name));
        let late: Vec<(Millis, String)> = (1..=OVERDUE).map(|n| (now - Millis::from(n) * 1_200, id())).collect();
        redis::pipe().zadd_multiple(set, &late).exec_async(raw).await.unwrap();
    }
}

/// The ids of so many claims of as many workers, and a few dead.
async fn claim_some(queue: &dyn Queue, lane: &Lane) {
    let jobs: Vec<_> =
        (0..CLAIMS * 100).map(|n| NewJob { id: format!("1{n:018}"), lane: lane.clone(), due: 0.into() }).collect();
    queue.schedule(&jobs).await.unwrap();
    for claim in 0..CLAIMS {
        let token = format!("updater-{claim}-0123456789abcdef");
        let lease = Duration::from_secs(3_600);
        let request = claim::at_once(&token, 100, lease);
        assert!(matches!(queue.claim(&request).await.unwrap(), Claim::Batch(batch) if batch.jobs.len() == 100));
    }
}

async fn use_credentials(ledger: &dyn Ledger, raw: &mut MultiplexedConnection) -> Vec<String> {
    let names: Vec<String> = (0..CREDENTIALS).map(|number| format!("user-{number}")).collect();
    let (endpoint, now, minutes) = (CAPABILITIES.endpoint, now(raw).await, 10 * MINUTE_MS);
    for name in &names {
        let ask = PermitRequest {
            names: std::slice::from_ref(name),
            fingerprints: &[],
            endpoint,
            permit: "p",
            expiry: Duration::from_secs(60),
            backlog: 0,
        };
        ledger.acquire(&ask).await.unwrap();
        let window = Window { limit: 900, remaining: 640, reset_at: now + minutes, reset_in: minutes, length: None };
        ledger
            .record_call(name, endpoint, "p", &CallRecord { window: Some(window), ..CallRecord::default() })
            .await
            .unwrap();
    }
    let park = Park { pause: Duration::from_secs(900), why: "its account is locked".to_owned(), everywhere: true };
    ledger
        .record_call(&names[0], endpoint, "", &CallRecord { park: Some(park), ..CallRecord::default() })
        .await
        .unwrap();
    names
}

/// An hour as busy workers leave it; each minute's start, and what it has of one counter.
async fn count_an_hour(raw: &mut MultiplexedConnection) -> Vec<(Millis, i64)> {
    let this = now(raw).await / MINUTE_MS;
    let of_the_queue = ["scheduled", "claims", "claimed", "rescheduled", "finished", "retried", "released", "expired"];
    let counters = Counters::default();
    let names: Vec<&str> = counters.list_with_help().into_iter().map(|(name, ..)| name).chain(of_the_queue).collect();
    let mut counted = Vec::new();
    for minute in this - 60..this {
        let mut hour = redis::pipe();
        for (at, name) in names.iter().enumerate() {
            hour.hset(format!("{TAG}:rate:{minute}"), *name, 1_000 * at as i64 + minute % 60);
        }
        let mut lateness = Lateness::default();
        (0..24).for_each(|power| lateness.add(1 << power, 1_000));
        for (upper, ids) in lateness.bounds() {
            hour.hset(format!("{TAG}:lateness:{minute}"), upper, ids);
        }
        hour.exec_async(raw).await.unwrap();
        let requests = names.iter().position(|name| *name == "requests").unwrap() as i64;
        counted.push((minute * MINUTE_MS, 1_000 * requests + minute % 60));
    }
    counted
}

async fn beat(queue: &dyn Queue) {
    let names = [
        "version",
        "pid",
        "concurrency",
        "requests",
        "late_p99_ms",
        "config_revision",
        "config_refused",
        "config_needs_restart",
    ];
    let fields = names.map(|name| (name, "0123456789".to_owned()));
    for worker in 0..WORKERS {
        queue.heartbeat(&format!("updater-{worker}"), &fields, &[], &Lateness::default()).await.unwrap();
    }
}

/// The queue's clock.
async fn now(raw: &mut MultiplexedConnection) -> Millis {
    let (seconds, micros): (Millis, Millis) = redis::cmd("TIME").query_async(raw).await.unwrap();
    seconds * 1_000 + micros / 1_000
}

/// Every count is what ZCARD and ZCOUNT say at the time it was read, which lies between two moments: what is due by
/// then is due by later, since nothing is claimed.
async fn agrees(figures: &Snapshot, lanes: &[Lane], read: (Millis, Millis), raw: &mut MultiplexedConnection) {
    let stats = &figures.status.stats;
    assert_eq!((stats.delayed, stats.leased, stats.workers.len()), (1_000_000, CLAIMS as u64 * 100, WORKERS));
    assert_eq!((figures.accounts.len(), figures.status.parked.len(), figures.minutes.len()), (CREDENTIALS, 1, 60));
    let mut wide = 0;
    for (at, lane) in lanes.iter().enumerate() {
        let set = format!("{TAG}:delayed:{}", lane.name);
        let lane = figures.freshness.iter().position(|known| known.lane == *lane.name).unwrap();
        let (fresh, coming) = (&figures.freshness[lane], &figures.coming[lane].per_minute);
        let all: u64 = redis::cmd("ZCARD").arg(&set).query_async(raw).await.unwrap();
        assert_eq!((fresh.ids, all), (u64::from(THOUSANDS[at]) * 1_000, all), "{set}");
        assert!(fresh.overdue >= u64::from(OVERDUE) - 10 && coming.len() == 60, "{fresh:?}");
        let mut due_by = fresh.due;
        let mut counts = vec![(-figures.buffer_ttl_ms, fresh.overdue), (0, fresh.due)];
        for (minute, count) in (1..).zip(coming) {
            due_by += count;
            counts.push((minute * MINUTE_MS, due_by));
        }
        for (offset, count) in counts {
            let mut by = async |moment: Millis| -> u64 {
                redis::cmd("ZCOUNT").arg(&set).arg("-inf").arg(moment + offset).query_async(raw).await.unwrap()
            };
            let (least, most) = (by(read.0).await, by(read.1).await);
            assert!((least..=most).contains(&count), "{set} {offset}: {count} is not {least} to {most}");
            wide += most - least;
        }
    }
    assert!(wide < 100_000, "the reading took too long to be compared: {wide}");
}

/// What a Redis has spent since it started, in seconds.
struct Spent {
    /// In scripts, what they call included.
    scripts: f64,
    processor: f64,
    wall: f64,
    at: Stopwatch,
}

impl Spent {
    async fn read(raw: &mut MultiplexedConnection) -> Self {
        let info: InfoDict = redis::cmd("INFO").arg("everything").query_async(raw).await.unwrap();
        let evalsha: String = info.get("cmdstat_evalsha").unwrap();
        let usec = evalsha.split(',').find_map(|part| part.strip_prefix("usec=")).unwrap();
        let cpu = |name: &str| info.get::<f64>(name).unwrap();
        Self {
            scripts: usec.parse::<f64>().unwrap() / 1e6,
            processor: cpu("used_cpu_user_main_thread") + cpu("used_cpu_sys_main_thread"),
            wall: 0.0,
            at: Stopwatch::start(),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            scripts: self.scripts - before.scripts,
            processor: self.processor - before.processor,
            wall: (before.at.elapsed() - self.at.elapsed()).as_secs_f64(),
            at: self.at,
        }
    }
}

/// The value below which so large a share of them lies; sorts them.
fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}
