//! A slot of a cluster that moves to another node while its namespace is worked on.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use twitter_updater::quota::{Ledger, RedisLedger};

use super::*;
use crate::support::wait::until_true;

const WITHIN: Duration = Duration::from_secs(120);
const IDS: u64 = 3_000;

/// A node of the cluster: its number in it, a connection, and where it is.
struct Node {
    id: String,
    raw: MultiplexedConnection,
    host: String,
    port: u16,
}

impl Node {
    async fn of(redis: &TestRedis) -> Self {
        let mut raw = redis.connection().await;
        let id = redis::cmd("CLUSTER").arg("MYID").query_async(&mut raw).await.unwrap();
        let (host, port) = redis.host_and_port().split_once(':').unwrap();
        Self { id, raw, host: host.to_owned(), port: port.parse().unwrap() }
    }

    async fn set_slot(&mut self, slot: u16, word: &str, node: &str) {
        let mut set = redis::cmd("CLUSTER");
        let () = set.arg("SETSLOT").arg(slot).arg(word).arg(node).query_async(&mut self.raw).await.unwrap();
    }

    async fn keys(&mut self, slot: u16) -> BTreeSet<String> {
        let mut keys = redis::cmd("CLUSTER");
        keys.arg("GETKEYSINSLOT").arg(slot).arg(1_000).query_async(&mut self.raw).await.unwrap()
    }

    async fn migrate(&mut self, to: &Node, key: &str) {
        let mut migrate = redis::cmd("MIGRATE");
        let moved: redis::RedisResult<String> =
            migrate.arg(&to.host).arg(to.port).arg(key).arg(0).arg(5_000).query_async(&mut self.raw).await;
        assert!(moved.as_ref().is_ok_and(|said| said == "OK" || said == "NOKEY"), "{key}: {moved:?}");
    }
}

/// What the workers have done, and who holds what.
#[derive(Default)]
struct Works {
    stop: AtomicBool,
    settled: AtomicU64,
    refused: AtomicU64,
    held: Mutex<HashMap<String, Millis>>,
}

impl Works {
    /// The same call until it is not refused any more, as the worker's loop does.
    async fn insist<T>(&self, call: impl AsyncFn() -> Result<T, QueueError>) -> T {
        let watch = Stopwatch::start();
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(QueueError::Unavailable(why)) => {
                    self.refused.fetch_add(u64::from(why.contains("resharding")), Ordering::Relaxed);
                    assert!(watch.elapsed() < WITHIN, "still: {why}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Claims and settles until it is stopped.
    async fn work(&self, queue: &RedisQueue, name: &str) {
        for n in 0.. {
            let token = format!("{name}-{n}");
            let request = ClaimRequest { limit: 50, linger: Duration::from_millis(5), ..request(&token) };
            match self.insist(async || queue.claim(&request).await).await {
                Claim::Batch(batch) => {
                    for job in &batch.jobs {
                        let other = self.held.lock().unwrap().insert(job.id.clone(), batch.fence.deadline);
                        assert_eq!(other, None, "{} is claimed twice", job.id);
                    }
                    let (given_back, done) = batch.jobs.split_at(batch.jobs.len() / 10);
                    let verdict = Verdict::Reschedule { lane: old(), due: 1.into() };
                    let verdicts: Vec<_> = done.iter().map(|job| (job.clone(), verdict.clone())).collect();
                    for job in &batch.jobs {
                        self.held.lock().unwrap().remove(&job.id);
                    }
                    let settled = self.insist(async || queue.settle(&batch.fence, &verdicts, &[]).await).await;
                    assert_eq!((settled.settled, settled.lost), (done.len() as u64, 0));
                    let released = self.insist(async || queue.release(&batch.fence, given_back).await).await;
                    assert_eq!(released.lost, 0);
                    self.settled.fetch_add(settled.settled, Ordering::Relaxed);
                }
                Claim::Empty { .. } => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Puts ids in, each of them again and again.
    async fn ingest(&self, queue: &RedisQueue) {
        for n in (0..IDS).cycle() {
            let job = NewJob { id: n.to_string(), lane: young(), due: 0.into() };
            self.insist(async || queue.schedule(std::slice::from_ref(&job)).await).await;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Waits until so many more calls have met the slot on its way.
    async fn refused_more(&self, more: u64) {
        let before = self.refused.load(Ordering::Relaxed);
        let is_more = async || self.refused.load(Ordering::Relaxed) >= before + more;
        until_true("calls meet the slot on its way", WITHIN, is_more).await;
    }

    /// Waits until so many more ids are done.
    async fn settled_more(&self, more: u64) {
        let before = self.settled.load(Ordering::Relaxed);
        let is_more = async || self.settled.load(Ordering::Relaxed) >= before + more;
        until_true("work goes on", WITHIN, is_more).await;
    }
}

/// A namespace whose slot is among a node's first: these are what redis-cli moves.
async fn early_slot(raw: &mut MultiplexedConnection) -> (String, u16) {
    let names: Vec<String> = (0..4_000).map(|n| format!("moves:{n}")).collect();
    let mut ask = redis::pipe();
    for name in &names {
        ask.cmd("CLUSTER").arg("KEYSLOT").arg(name);
    }
    let slots: Vec<u16> = ask.query_async(raw).await.unwrap();
    names.into_iter().zip(slots).min_by_key(|(_, slot)| *slot).unwrap()
}

/// Every call that is not a script of its own, too.
async fn no_call_runs(queue: &RedisQueue, ledger: &RedisLedger) {
    let ids = ["1".to_owned()];
    let job = |id: &str| NewJob { id: id.to_owned(), lane: young(), due: 0.into() };
    let incoming = [Incoming { member: "7".into(), created_at: 0 }];
    let names = ["a".to_owned()];
    let ask = one_call(&names);
    let refused = [
        queue.schedule(&[job("new")]).await.err(),
        queue.promote(&[job("1")]).await.err(),
        queue.forget(&ids).await.err(),
        queue.list_dead(RowRange::new(0, 10)).await.err(),
        queue.locate(&ids).await.err(),
        queue.sample(10).await.err(),
        queue.stats().await.err(),
        queue.add_incoming(&incoming).await.err(),
        queue.read_incoming("w", 10).await.err(),
        queue.accept_incoming(&ids).await.err(),
        queue.refuse_incoming(&[("x".into(), "y".into())]).await.err(),
        queue.heartbeat("w", &[("version", "1".into())], &[], &Lateness::default()).await.err(),
        queue.deregister("w").await.err(),
        queue.pause(Some("why")).await.err(),
        queue.pause(None).await.err(),
        ledger.acquire(&ask).await.err(),
    ];
    for (at, error) in refused.into_iter().enumerate() {
        let why = error.unwrap_or_else(|| panic!("call {at} ran on a part of the keys")).to_string();
        assert!(why.contains("resharding"), "call {at}: {why}");
    }
}

/// Moves the slot key by key, with calls in between.
async fn by_hand(works: &Works, nodes: &mut [Node], slot: u16, (from, to): (usize, usize), half_way: impl AsyncFn()) {
    let ids: Vec<String> = nodes.iter().map(|node| node.id.clone()).collect();
    nodes[to].set_slot(slot, "IMPORTING", &ids[from]).await;
    nodes[from].set_slot(slot, "MIGRATING", &ids[to]).await;
    works.refused_more(4).await;
    let keys = nodes[from].keys(slot).await;
    assert_eq!(nodes[to].keys(slot).await, BTreeSet::new());
    for (at, key) in keys.iter().enumerate() {
        let [source, target] = nodes.get_disjoint_mut([from, to]).unwrap();
        source.migrate(target, key).await;
        if at == keys.len() / 2 {
            works.refused_more(4).await;
            half_way().await;
            let moved: BTreeSet<String> = keys.iter().take(at + 1).cloned().collect();
            // Records of claims may have expired.
            assert!(target.keys(slot).await.is_subset(&moved), "a call wrote beside the keys that were moved");
        }
    }
    assert_eq!(nodes[from].keys(slot).await, BTreeSet::new(), "a call wrote on the node that the keys have left");
    works.refused_more(4).await;
    for at in [to, from].into_iter().chain(0..nodes.len()) {
        nodes[at].set_slot(slot, "NODE", &ids[to]).await;
    }
}

/// Moves all slots up to this one with redis-cli.
async fn with_redis_cli(nodes: &[Node], slot: u16, from: usize, to: usize) {
    let mut reshard = Command::new("redis-cli");
    reshard.args(["--cluster", "reshard", &format!("{}:{}", nodes[from].host, nodes[from].port)]);
    reshard.args(["--cluster-from", &nodes[from].id, "--cluster-to", &nodes[to].id, "--cluster-yes"]);
    reshard.args(["--cluster-slots", &(slot + 1).to_string(), "--cluster-pipeline", "1"]);
    let done = tokio::task::spawn_blocking(move || reshard.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && !said.contains("ERR") && !said.contains("BUSYKEY"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_to_and_fro_and_no_id_is_lost_or_doubled() {
    let cluster = Cluster::start().await;
    let mut nodes = Vec::new();
    for master in &cluster.masters {
        nodes.push(Node::of(master).await);
    }
    let (namespace, slot) = early_slot(&mut nodes[0].raw).await;
    let queue = RedisQueue::new(pool(&cluster.url), &namespace);
    let ledger = RedisLedger::new(pool(&cluster.url), &namespace);
    let all: Vec<NewJob> = (0..IDS).map(|n| NewJob { id: n.to_string(), lane: young(), due: 0.into() }).collect();
    queue.schedule(&all).await.unwrap();

    let works = Works::default();
    let scenario = async {
        works.settled_more(IDS).await;
        for (from, to) in [(0, 1), (1, 0)] {
            by_hand(&works, &mut nodes, slot, (from, to), async || no_call_runs(&queue, &ledger).await).await;
            works.settled_more(IDS).await;
            cluster.serves().await;
        }
        for (from, to) in [(0, 1), (1, 0)] {
            with_redis_cli(&nodes, slot, from, to).await;
            works.settled_more(IDS).await;
            cluster.serves().await;
        }
        works.stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(
        works.work(&queue, "a"),
        works.work(&queue, "b"),
        works.work(&queue, "c"),
        works.ingest(&queue),
        scenario
    );

    let ids: Vec<String> = (0..IDS).map(|n| n.to_string()).collect();
    for (id, places) in ids.iter().zip(queue.locate(&ids).await.unwrap()) {
        assert!(matches!(&places[..], [Place::Delayed { .. }]), "{id}: {places:?}");
    }
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased, stats.incoming, stats.paused), (IDS, 0, 0, None));
    println!("{} calls met a slot on its way", works.refused.load(Ordering::Relaxed));
}
