//! claim → settle(reschedule), in batches of 100: what the queue gives for everything beyond its floor.
//!
//! The floor is the same two sorted sets and the same client, by the smallest scripts that move a hundred
//! ids there and back. Every id is due all the time, and a reschedule puts it at the end of the line, so each
//! measurement is of one and the same state. Floor and queue take turns, a second each.

mod floor;
mod skip_locked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use twitter_updater::base::clock::{Millis, Stopwatch};
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{Claim, ClaimRequest, EmbeddedQueue, Job, NewJob, Queue, RedisQueue, Verdict};

use self::skip_locked::SkipLocked;
use crate::Size;
use crate::adaptive;
use crate::report::{Report, Table, machine, median};
use crate::servers::{Durability, SETTINGS};
use crate::support::redis::{TestRedis, pool_of};

/// Ids in a batch.
const BATCH: usize = 100;
const LEASE: Duration = Duration::from_secs(60);

/// The `n`-th id: 19 digits, as Snowflakes have.
fn id(n: u64) -> String {
    (1_700_000_000_000_000_000 + n * 7_919_000).to_string()
}

/// Ids per second of so many takers at once, each working in steps until the time is up.
async fn rate<S: AsyncStep>(takers: Vec<S>, seconds: f64) -> f64 {
    let watch = Stopwatch::start();
    let mut all = JoinSet::new();
    for mut taker in takers {
        all.spawn(async move {
            let watch = Stopwatch::start();
            let mut ids = 0;
            while watch.elapsed().as_secs_f64() < seconds {
                ids += taker.step().await;
            }
            ids
        });
    }
    let ids: usize = all.join_all().await.into_iter().sum();
    ids as f64 / watch.elapsed().as_secs_f64()
}

/// One cycle at a time; answers the ids that went round.
trait AsyncStep: Send + 'static {
    fn step(&mut self) -> impl Future<Output = usize> + Send;
}

/// The queue as the worker uses it.
struct Cycle {
    queue: Arc<dyn Queue>,
    lanes: Arc<BTreeMap<Arc<str>, Lane>>,
    delays: Millis,
    worker: usize,
    claims: u64,
}

impl AsyncStep for Cycle {
    async fn step(&mut self) -> usize {
        self.claims += 1;
        let token = format!("bench-{}-{:016x}", self.worker, self.claims);
        let request = ClaimRequest {
            token: &token,
            limit: BATCH,
            linger: Duration::from_secs(5),
            lookahead: 0.02,
            early: 0.0,
            lease: LEASE,
        };
        let Claim::Batch(batch) = self.queue.claim(&request).await.unwrap() else { panic!("all of them are due") };
        let lane = |job: &Job| self.lanes[&job.lane].clone();
        let verdicts: Vec<_> = batch
            .jobs
            .into_iter()
            .zip((0..self.delays).cycle())
            .map(|(job, delay)| {
                let lane = lane(&job);
                (job, Verdict::Reschedule { lane, due: delay.into() })
            })
            .collect();
        let settled = self.queue.settle(&batch.fence, &verdicts, &[]).await.unwrap();
        assert_eq!((settled.settled as usize, settled.lost), (verdicts.len(), 0));
        verdicts.len()
    }
}

/// The lanes that ids are dealt to in turn. They are about equally patient, so each has its share in the batches;
/// not quite, or all that was settled in one millisecond would be equally urgent for ever.
#[derive(Debug, Clone)]
struct Lanes {
    lanes: Vec<Lane>,
    /// The number of different delays in a batch: 0 ms, 1 ms and so on.
    delays: Millis,
}

impl Lanes {
    /// So many lanes with equally many ids.
    fn even(of: usize) -> Self {
        Self::about_equally_patient((0..of).map(|n| format!("{n}d").into()).collect(), 1)
    }

    /// The lanes of the adaptive schedule. Each has as many of the ids as it has of a population's updates: of its ids
    /// it would have the more, the longer its interval is, but batches are made of updates. It gives each id a due time of
    /// its own, which a queue has to be told.
    fn adaptive() -> Self {
        Self::about_equally_patient(adaptive::lanes_of_updates().into_iter().map(|lane| lane.name).collect(), 3)
    }

    fn about_equally_patient(names: Vec<Arc<str>>, delays: Millis) -> Self {
        let mut patiences: BTreeMap<Arc<str>, u64> = names.iter().map(|name| (name.clone(), 0)).collect();
        let steps = patiences.len().saturating_sub(1).max(1) as u64;
        patiences.values_mut().enumerate().for_each(|(n, patience)| *patience = 3_600 + 1_000 * n as u64 / steps);
        let lane = |name| Lane::new(Arc::clone(&name), Duration::from_secs(patiences[&name]));
        Self { lanes: names.into_iter().map(lane).collect(), delays }
    }

    fn by_name(&self) -> Arc<BTreeMap<Arc<str>, Lane>> {
        Arc::new(self.lanes.iter().map(|lane| (lane.name.clone(), lane.clone())).collect())
    }
}

async fn fill(queue: &dyn Queue, ids: u64, Lanes { lanes, .. }: &Lanes) {
    for first in (0..ids).step_by(10_000) {
        let jobs: Vec<NewJob> = (first..ids.min(first + 10_000))
            .map(|n| NewJob { id: id(n), lane: lanes[n as usize % lanes.len()].clone(), due: 0.into() })
            .collect();
        queue.schedule(&jobs).await.unwrap();
    }
}

fn cycles(queues: Vec<Arc<dyn Queue>>, lanes: &Lanes) -> Vec<Cycle> {
    static WORKERS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let worker = || WORKERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let (lanes, delays) = (lanes.by_name(), lanes.delays);
    queues.into_iter().map(|queue| Cycle { queue, lanes: lanes.clone(), delays, worker: worker(), claims: 0 }).collect()
}

const COLUMNS: [&str; 9] = [
    "scheduled",
    "aof",
    "connections",
    "lanes",
    "floor",
    "queue",
    "share of the floor",
    "floor: µs of Redis per batch",
    "queue: µs of Redis per batch",
];

/// What a measurement is about.
struct Plan {
    ids: Vec<u64>,
    connections: &'static [usize],
    rounds: usize,
    seconds: f64,
}

fn plan(size: Size) -> Plan {
    let mut plan = size.pick(
        Plan { ids: vec![100_000, 1_000_000, 10_000_000], connections: &[1, 2, 4, 8], rounds: 5, seconds: 0.5 },
        Plan { ids: vec![1_000], connections: &[1, 4], rounds: 1, seconds: 0.05 },
    );
    // Fewer of them: CYCLE_IDS=100000.
    if let Ok(only) = std::env::var("CYCLE_IDS") {
        plan.ids = only.split(',').map(|ids| ids.parse().unwrap()).collect();
    }
    plan
}

fn about(plan: &Plan) -> Vec<String> {
    vec![
        machine(),
        format!("batches of {BATCH}, all ids due; medians of {}, {} s each, in turn", plan.rounds, plan.seconds),
        "Redis on a unix socket, zset-max-listpack-entries 0, appendfsync everysec where the AOF is on".to_owned(),
        "1 and 5 lanes: equally many ids in each; more lanes: the adaptive schedule's, by its updates".to_owned(),
    ]
}

/// The queue on Redis beside its floor.
pub async fn run(size: Size) -> Report {
    let plan = plan(size);
    let mut redis = Table::new("Redis: ids/s through claim and settle, medians", &COLUMNS);
    for &ids in &plan.ids {
        for aof in ["yes", "no"] {
            on_redis(&plan, ids, aof, &mut redis).await;
        }
    }
    Report { about: about(&plan), tables: vec![redis] }
}

/// The same work elsewhere.
pub async fn elsewhere(size: Size) -> Report {
    let plan = plan(size);
    let mut table = Table::new(
        "The same work elsewhere: ids/s, medians",
        &[
            "scheduled",
            "connections",
            "the floor on Redis",
            "this queue on Redis",
            "PostgreSQL SKIP LOCKED",
            "times",
            "the leanest SKIP LOCKED",
            "times that",
            "this queue embedded",
        ],
    );
    for ids in size.pick(vec![100_000, 1_000_000], vec![1_000]) {
        beside_others(&plan, ids, &mut table).await;
    }
    let mut about = about(&plan);
    let durability = Durability::Behind.settings().join(", ");
    about.push(format!("PostgreSQL on a unix socket: {}, {durability}", SETTINGS.join(", ")));
    Report { about, tables: vec![table] }
}

/// Settings of the servers: no rewrite of the AOF in the middle of a measurement.
fn server(aof: &str) -> TestRedis {
    TestRedis::start(&["--appendonly", aof, "--auto-aof-rewrite-percentage", "0", "--zset-max-listpack-entries", "0"])
}

async fn on_redis(plan: &Plan, ids: u64, aof: &str, table: &mut Table) {
    let server = server(aof);
    floor::fill(&server, ids).await;
    for lanes in [Lanes::even(1), Lanes::even(5), Lanes::adaptive()] {
        let n_lanes = lanes.by_name().len();
        let namespace = format!("bench:{n_lanes}");
        fill(&RedisQueue::new(server.pool(), &namespace), ids, &lanes).await;
        for &connections in plan.connections {
            let pools: Vec<_> = (0..connections).map(|_| pool_of(&server.url, 1)).collect();
            let (mut floors, mut queues, mut shares) = (Vec::new(), Vec::new(), Vec::new());
            let (mut floor_us, mut queue_us) = (Vec::new(), Vec::new());
            for _ in 0..plan.rounds {
                let floor = rate(floor::takers(&pools), plan.seconds).await;
                floor_us.push(scripts_us(&server).await);
                let on_pool = |pool: &_| Arc::new(RedisQueue::new(Clone::clone(pool), &namespace)) as Arc<dyn Queue>;
                let queue = rate(cycles(pools.iter().map(on_pool).collect(), &lanes), plan.seconds).await;
                queue_us.push(scripts_us(&server).await);
                floors.push(floor);
                queues.push(queue);
                shares.push(queue / floor);
            }
            table.row(vec![
                json!(ids),
                json!(aof),
                json!(connections),
                json!(n_lanes),
                json!(median(floors).round()),
                json!(median(queues).round()),
                json!(median(shares)),
                json!(median(floor_us)),
                json!(median(queue_us)),
            ]);
        }
    }
}

/// What Redis spent on two scripts, a claim and a settle, since this was last asked: no client in it.
async fn scripts_us(server: &TestRedis) -> f64 {
    let mut connection = server.connection().await;
    let stats: redis::InfoDict = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    let of_scripts: String = stats.get("cmdstat_evalsha").unwrap();
    let each = of_scripts.split(',').find_map(|field| field.strip_prefix("usec_per_call=")).unwrap();
    let () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.unwrap();
    2.0 * each.parse::<f64>().unwrap()
}

/// PostgreSQL by batches under SKIP LOCKED, and this queue in its file.
async fn beside_others(plan: &Plan, ids: u64, table: &mut Table) {
    let lanes = Lanes::even(1);
    let redis = server("yes");
    floor::fill(&redis, ids).await;
    fill(&RedisQueue::new(redis.pool(), "bench"), ids, &lanes).await;
    let leased = SkipLocked::start(ids, skip_locked::LEASED).await;
    let lean = SkipLocked::start(ids, skip_locked::LEAN).await;
    let folder = tempfile::tempdir().unwrap();
    let embedded: Arc<dyn Queue> =
        Arc::new(EmbeddedQueue::open(&folder.path().join("queue.db"), "bench", Duration::from_secs(20)).await.unwrap());
    fill(&*embedded, ids, &lanes).await;
    for &connections in plan.connections {
        let pools: Vec<_> = (0..connections).map(|_| pool_of(&redis.url, 1)).collect();
        let mut measured: [Vec<f64>; 7] = Default::default();
        for _ in 0..plan.rounds {
            let on_pool = |pool: &_| Arc::new(RedisQueue::new(Clone::clone(pool), "bench")) as Arc<dyn Queue>;
            let floor = rate(floor::takers(&pools), plan.seconds).await;
            let queue = rate(cycles(pools.iter().map(on_pool).collect(), &lanes), plan.seconds).await;
            let leased = rate(leased.takers(connections).await, plan.seconds).await;
            let lean = rate(lean.takers(connections).await, plan.seconds).await;
            let file = rate(cycles(vec![embedded.clone(); connections], &lanes), plan.seconds).await;
            let figures = [floor, queue, leased, queue / leased, lean, queue / lean, file];
            measured.iter_mut().zip(figures).for_each(|(of, figure)| of.push(figure));
        }
        let [floor, queue, leased, times, lean, times_lean, file] = measured.map(median);
        table.row(vec![
            json!(ids),
            json!(connections),
            json!(floor.round()),
            json!(queue.round()),
            json!(leased.round()),
            json!(times),
            json!(lean.round()),
            json!(times_lean),
            json!(file.round()),
        ]);
    }
}
