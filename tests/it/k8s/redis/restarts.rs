//! A restart of the deployed Redis loses nothing that it had written: the AOF is replayed whole. Redis replays it as
//! the user `default`; scripts are transactions in it, and EXEC checks that user's rights
//! (<https://github.com/redis/redis/issues/14541>).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{
    Claim, Fence, Inspection, Job, Jobs, NewJob, Place, QueueError, RedisQueue, ScheduleOutcome, Verdict,
};
use twitter_updater::pipelines::posts::NAMESPACE;

use super::{Deployed, nobody_gets_in_without_a_password};
use crate::support::claim;
use crate::support::redis::{connect, pool};
use crate::support::wait::until_true;

/// Restarts of each kind, under load and again without.
const ROUNDS: usize = 10;
/// Ids that are there before the first one.
const FIRST: usize = 2_000;
/// Ids that are scheduled, and batches that are settled, between two restarts.
const SCHEDULED: usize = 200;
const SETTLED: usize = 20;
/// No lease ends while the test runs.
const LEASE: Duration = Duration::from_secs(3_600);
const WITHIN: Duration = Duration::from_secs(60);

/// What the queue has acknowledged.
#[derive(Debug, Default, Clone)]
struct Known {
    /// Ids that it was told to schedule, and those of them that it said it had.
    asked: BTreeSet<String>,
    scheduled: BTreeSet<String>,
    dead: BTreeSet<String>,
    /// Claims that nobody settles under load.
    held: Vec<(Fence, Vec<Job>)>,
    settled: usize,
}

/// Tasks that schedule, claim, settle, release and mark dead until the server goes away.
#[derive(Debug, Default, Clone)]
struct Load {
    known: Arc<Mutex<Known>>,
    next: Arc<AtomicU64>,
}

impl Load {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// Ids that nobody has had, some of them due at once.
    fn jobs(&self, count: usize) -> Vec<NewJob> {
        let job = |number: u64| NewJob {
            id: number.to_string(),
            lane: lane(number),
            due: (if number.is_multiple_of(2) { 0 } else { 60_000 + number as i64 }).into(),
        };
        (0..count).map(|_| job(10_000_000 + self.next.fetch_add(1, Ordering::Relaxed))).collect()
    }

    async fn schedule(&self, queue: &RedisQueue, count: usize) -> Result<(), QueueError> {
        let jobs = self.jobs(count);
        self.known().asked.extend(jobs.iter().map(|job| job.id.clone()));
        let answers = queue.schedule(&jobs).await?;
        assert!(answers.iter().all(|answer| *answer == ScheduleOutcome::Scheduled), "{answers:?}");
        self.known().scheduled.extend(jobs.into_iter().map(|job| job.id));
        Ok(())
    }

    /// Claims a batch and does with it what its number says.
    async fn work(&self, queue: &RedisQueue) -> Result<(), QueueError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let token = format!("worker-{number:x}");
        let request = claim::at_once(&token, 20, LEASE);
        let Claim::Batch(batch) = queue.claim(&request).await? else {
            tokio::task::yield_now().await;
            return Ok(());
        };
        match number % 8 {
            0 => self.known().held.push((batch.fence, batch.jobs)),
            1 => {
                queue.release(&batch.fence, &batch.jobs).await?;
            }
            _ => {
                let verdict = |(at, job): (usize, &Job)| match at {
                    0 => (job.clone(), Verdict::MarkDead { reason: "the test buries it".to_owned() }),
                    1 => (job.clone(), Verdict::Retry { after: 0, counted: true }),
                    // Half of them may be claimed again at once.
                    _ => (
                        job.clone(),
                        Verdict::Reschedule { lane: lane(number + at as u64), due: (at as i64 % 2 * 9_999).into() },
                    ),
                };
                let verdicts: Vec<_> = batch.jobs.iter().enumerate().map(verdict).collect();
                let settled = queue.settle(&batch.fence, &verdicts, &[]).await?;
                assert_eq!(settled.lost, 0);
                let mut known = self.known();
                known.dead.insert(batch.jobs[0].id.clone());
                known.settled += 1;
            }
        }
        Ok(())
    }

    fn start(&self, queue: &Arc<RedisQueue>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for task in 0..5 {
            let (load, queue) = (self.clone(), queue.clone());
            tasks.spawn(async move {
                loop {
                    let done = if task < 2 { load.schedule(&queue, 10).await } else { load.work(&queue).await };
                    match done {
                        Ok(()) => {}
                        Err(QueueError::Unavailable(_)) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        tasks
    }
}

fn lane(number: u64) -> Lane {
    let (name, minutes) = [("18m", 3), ("1d", 60), ("7d", 360), ("30d", 1_440)][(number / 2 % 4) as usize];
    Lane::new(name, Duration::from_secs(60 * minutes))
}

/// Every key with all that it holds and when it expires, read as the user who may read.
async fn contents(deployed: &Deployed) -> BTreeMap<String, (Vec<String>, i64)> {
    let mut watcher = connect(&deployed.url("watcher")).await.unwrap();
    let (mut contents, mut cursor) = (BTreeMap::new(), 0_u64);
    loop {
        let (next, keys): (u64, Vec<String>) =
            redis::cmd("SCAN").arg(cursor).arg("COUNT").arg(1_000).query_async(&mut watcher).await.unwrap();
        for key in keys {
            let holds = holds(&mut watcher, &key).await;
            let expires: i64 = redis::cmd("PEXPIRETIME").arg(&key).query_async(&mut watcher).await.unwrap();
            contents.insert(key, (holds, expires));
        }
        cursor = next;
        if cursor == 0 {
            return contents;
        }
    }
}

async fn holds(watcher: &mut MultiplexedConnection, key: &str) -> Vec<String> {
    let kind: String = redis::cmd("TYPE").arg(key).query_async(watcher).await.unwrap();
    let read = match &*kind {
        "zset" => {
            redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query_async::<Vec<String>>(watcher).await
        }
        "hash" => {
            let pairs: BTreeMap<String, String> = redis::cmd("HGETALL").arg(key).query_async(watcher).await.unwrap();
            Ok(pairs.into_iter().flat_map(|(field, value)| [field, value]).collect())
        }
        "string" => redis::cmd("GET").arg(key).query_async::<String>(watcher).await.map(|value| vec![value]),
        "set" => {
            let members: BTreeSet<String> = redis::cmd("SMEMBERS").arg(key).query_async(watcher).await.unwrap();
            Ok(members.into_iter().collect())
        }
        kind => panic!("{key} is a {kind}"),
    };
    read.unwrap()
}

/// Waits until no acknowledged command waits to be written any more: while the kernel flushes the AOF, Redis keeps
/// new commands to itself for up to two seconds (`appendfsync everysec`).
async fn all_written(deployed: &Deployed) {
    let mut app = connect(&deployed.url("app")).await.unwrap();
    until_true("the AOF is written", WITHIN, async || {
        let about: String = redis::cmd("INFO").arg("persistence").query_async(&mut app).await.unwrap();
        about.contains("aof_buffer_length:0\r\n")
    })
    .await;
}

fn queue_of(deployed: &Deployed) -> Arc<RedisQueue> {
    Arc::new(RedisQueue::new(pool(&deployed.url("app")), NAMESPACE))
}

/// Holds the queue to what was acknowledged: each id in one place, the dead among the dead, claims under their leases.
/// The ids of `maybe` are in one place at the most; returns those that are in none.
async fn check(queue: &RedisQueue, known: &Known, maybe: &BTreeSet<String>) -> BTreeSet<String> {
    let held: BTreeMap<&str, i64> =
        known.held.iter().flat_map(|(fence, jobs)| jobs.iter().map(|job| (job.id.as_str(), fence.deadline))).collect();
    let (ids, mut nowhere) = (known.scheduled.union(maybe).cloned().collect::<Vec<_>>(), BTreeSet::new());
    for ids in ids.chunks(1_000) {
        for (id, places) in ids.iter().zip(queue.locate(ids).await.unwrap()) {
            match &places[..] {
                [Place::Dead { .. }] => {}
                [_] if known.dead.contains(id) => panic!("{id} was dead and is in {places:?}"),
                [Place::Leased { fence, .. }] if held.get(id.as_str()).is_none_or(|held| held == fence) => {}
                [Place::Delayed { .. }] if !held.contains_key(id.as_str()) => {}
                [] if !known.scheduled.contains(id) => {
                    nowhere.insert(id.clone());
                }
                _ => panic!("{id} is in {places:?}; held under {:?}", held.get(id.as_str())),
            }
        }
    }
    nowhere
}

/// How the server goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// SIGKILL.
    Killed,
    /// SIGTERM, as Kubernetes stops it.
    Stopped,
}

fn end(deployed: &mut Deployed, how: Ends) {
    match how {
        Ends::Killed => deployed.server.kill(),
        Ends::Stopped => deployed.server.stop(),
    }
}

/// Starts it on the same folder. Its log names no command that was refused while the AOF was read.
fn start_again(deployed: &mut Deployed) {
    deployed.server.start_again();
    let refused: Vec<_> = deployed.server.said().iter().filter(|line| line.contains("NOPERM")).collect();
    assert!(refused.is_empty(), "{} commands of the AOF refused: {}", refused.len(), refused[0]);
    nobody_gets_in_without_a_password(deployed);
}

/// Restarts under load and without, `further` being settings beside those of redis.conf.
async fn restarts(further: &[&str]) {
    let mut deployed = Deployed::start(str::to_owned, further);
    let load = Load::default();
    let mut queue = queue_of(&deployed);
    load.schedule(&queue, FIRST).await.unwrap();
    let mut lost = 0;
    for round in 0..2 * ROUNDS {
        let how = [Ends::Killed, Ends::Stopped][round % 2];

        // Under load.
        let (scheduled, settled) = {
            let known = load.known();
            (known.scheduled.len(), known.settled)
        };
        let mut tasks = load.start(&queue);
        until_true("the queue is in full swing", WITHIN, async || {
            let known = load.known();
            let moved = known.scheduled.len() >= scheduled + SCHEDULED && known.settled >= settled + SETTLED;
            moved && !known.held.is_empty()
        })
        .await;
        let written = load.known().clone();
        all_written(&deployed).await;
        end(&mut deployed, how);
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        start_again(&mut deployed);
        queue = queue_of(&deployed);
        let told = load.known().clone();
        // What was acknowledged after `written` may not have been when the server was killed.
        let certain = if how == Ends::Killed { written } else { told.clone() };
        let nowhere = check(&queue, &certain, &told.asked).await;
        lost += told.scheduled.intersection(&nowhere).count();
        let scheduled = &told.asked - &nowhere;
        *load.known() = Known { asked: scheduled.clone(), scheduled, settled: told.settled, ..certain };

        // Without load everything is as it was.
        let before = contents(&deployed).await;
        all_written(&deployed).await;
        end(&mut deployed, how);
        start_again(&mut deployed);
        queue = queue_of(&deployed);
        let after = contents(&deployed).await;
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "round {round}");
        for (key, holds) in &before {
            assert!(after[key] == *holds, "round {round}: {key} held {holds:?} and holds {:?}", after[key]);
        }
        for name in ["delayed:18m", "delayed:1d", "delayed:7d", "delayed:30d", "leased", "dead"] {
            assert!(after.contains_key(&format!("{{{NAMESPACE}}}:{name}")), "round {round}: {name} is empty");
        }

        // A claim of before both restarts is still its holder's.
        let (fence, jobs) = load.known().held.remove(0);
        let back = |job: &Job| (job.clone(), Verdict::Retry { after: 0, counted: false });
        let settled = queue.settle(&fence, &jobs.iter().map(back).collect::<Vec<_>>(), &[]).await.unwrap();
        assert_eq!((settled.settled, settled.lost), (jobs.len() as u64, 0), "round {round}");
    }
    let (stats, known) = (queue.stats().await.unwrap(), load.known());
    assert_eq!(stats.delayed + stats.leased + stats.dead, known.scheduled.len() as u64);
    println!(
        "{} restarts, {further:?}: {} ids put in; {} scheduled in {} lanes, {} leased, {} dead; {lost} ids that \
         Redis had acknowledged and not written were lost",
        4 * ROUNDS,
        known.scheduled.len(),
        stats.delayed,
        stats.lanes.len(),
        stats.leased,
        stats.dead,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loses_nothing() {
    restarts(&[]).await;
}

/// The AOF is rewritten again and again, which is what 64 MB of it lead to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_amid_rewrites_of_the_aof_loses_nothing() {
    restarts(&["--auto-aof-rewrite-min-size", "64kb", "--auto-aof-rewrite-percentage", "20"]).await;
}

/// What docs/operations.md says of a users.acl whose `default` may do nothing: on most versions the AOF is refused, and
/// with the users of today what was written before and after it comes back together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_user_without_rights_empties_the_queue() {
    let without_rights = |users: &str| {
        let (default, others) = users.split_once('\n').unwrap();
        assert!(default.starts_with("user default off "), "{default}");
        format!("user default on nopass resetchannels resetkeys -@all +ping\n{others}")
    };
    let mut deployed = Deployed::start(without_rights, &[]);
    let load = Load::default();
    load.schedule(&queue_of(&deployed), 300).await.unwrap();
    deployed.server.kill();
    deployed.server.start_again();
    let refused = |deployed: &Deployed| deployed.server.said().iter().filter(|line| line.contains("NOPERM")).count();
    let (queue, is_refused) = (queue_of(&deployed), refused(&deployed) > 0);
    println!("commands of the AOF refused: {}", refused(&deployed));
    assert_eq!(queue.stats().await.unwrap().delayed, if is_refused { 0 } else { 300 });
    load.schedule(&queue, 200).await.unwrap();
    deployed.server.kill();
    deployed.set_users(str::to_owned);
    deployed.server.start_again();
    assert_eq!(refused(&deployed), 0);
    assert_eq!(queue_of(&deployed).stats().await.unwrap().delayed, 500);
}
