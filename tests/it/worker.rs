//! The loop: when it claims, how much it has in flight, whom it serves, and how it stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, Stopwatch, wall_ms};
use twitter_updater::engine::health::Health;
use twitter_updater::engine::queue::{Batch, Due, EmbeddedQueue, Job, Lane, NewJob, Place, Queue, Verdict};
use twitter_updater::engine::worker::{BatchOutcome, ClaimSettings, HandlerKind, Outlook, UnmeteredHandler, Worker};
use twitter_updater::quota::AcquireOutcome;
use twitter_updater::simulator::{Fault, SimulatorOptions};

use crate::support::journal::{Call, Event, Trouble};
use crate::support::rig::{DAY, Rig, Setup, eventually};

const HOUR: Duration = Duration::from_secs(3_600);

fn setup(slots: usize, limit: usize, latency_ms: u64) -> Setup {
    let setup = Setup { slots, ..Setup::default() };
    Setup {
        claims: ClaimSettings { limit, ..setup.claims },
        simulator: SimulatorOptions { latency: Duration::from_millis(latency_ms), ..setup.simulator.clone() },
        ..setup
    }
}

fn lingering(setup: Setup, linger: Duration) -> Setup {
    Setup { claims: ClaimSettings { linger, ..setup.claims }, ..setup }
}

fn times(rig: &Rig, which: impl Fn(&Event) -> bool) -> Vec<Millis> {
    rig.journal.events().iter().filter(|(_, event)| which(event)).map(|(at, _)| *at).collect()
}

fn asks(event: &Event) -> bool {
    matches!(event, Event::Claimed(_) | Event::NothingToClaim { .. } | Event::ClaimFailed)
}

async fn another_queue() -> (tempfile::TempDir, Arc<dyn Queue>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "other:update", Duration::from_secs(20)).await.unwrap();
    (folder, Arc::new(queue))
}

/// A batch whose claim was answered so late that its lease may not last is given back untouched, and
/// claimed again with a whole lease.
#[tokio::test]
async fn a_batch_with_little_lease_left_is_given_back() {
    let setup = Setup::default();
    let lease = Duration::from_secs(4);
    let claims = ClaimSettings { lease, linger: Duration::ZERO, ..setup.claims };
    let mut rig = Rig::start(Setup { claims, ..setup }).await;
    let ids = rig.there(10, 3 * DAY);
    rig.schedule(&ids).await;
    rig.journal.trouble(Call::Claim, Trouble::Late(lease * 6 / 10), 1);
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    assert_eq!(rig.journal.count(|event| matches!(event, Event::Released)), 1);
    rig.assert_each_looked_up_once(&ids);
    assert!(rig.journal.claimed().iter().flatten().all(|job| job.deliveries == 0), "nobody is blamed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_wait_for_the_linger_and_go_together() {
    let mut rig = Rig::start(lingering(setup(2, 100, 0), Duration::from_millis(500))).await;
    let ids = rig.there(5, 3 * DAY);
    rig.schedule(&ids[..2]).await;
    rig.schedule_in(&ids[2..], 200).await;
    let dues = rig.dues(&ids).await.unwrap();
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    let calls = times(&rig, |event| matches!(event, Event::LookedUp { .. }));
    assert_eq!(calls.len(), 1);
    let waited = calls[0] - dues.values().min().unwrap();
    assert!(waited >= 500, "sent after {waited} ms");
    rig.assert_each_looked_up_once(&ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_go_at_once() {
    let mut rig = Rig::start(lingering(setup(2, 100, 0), HOUR)).await;
    let ids = rig.there(205, 3 * DAY);
    rig.schedule(&ids).await;
    rig.work();
    eventually("two full batches are stored", async || rig.stored_tweets().await == 200).await;
    eventually("the rest waits", async || {
        let stats = rig.queue.stats().await.unwrap();
        (stats.due, stats.leased) == (5, 0)
    })
    .await;
    rig.drain().await;
    assert_eq!(rig.journal.looked_up().iter().map(Vec::len).collect::<Vec<_>>(), [100, 100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_batches_are_in_flight_and_no_more() {
    let mut rig = Rig::start(setup(4, 10, 1_000)).await;
    let ids = rig.there(100, 3 * DAY);
    rig.schedule(&ids).await;
    rig.work();
    eventually("four calls have arrived and none is answered", async || {
        rig.simulator().counters().requests == 4 && rig.journal.in_flight().0 == 4
    })
    .await;
    assert_eq!(rig.queue.stats().await.unwrap().leased, 40);
    rig.all_updated(&ids).await;
    rig.drain().await;
    assert_eq!(rig.journal.in_flight(), (0, 4));
    rig.assert_each_looked_up_once(&ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raised_concurrency_takes_more_at_once() {
    let mut rig = Rig::start(setup(1, 10, 500)).await;
    let ids = rig.there(200, 3 * DAY);
    rig.schedule(&ids).await;
    let worker = rig.worker("worker");
    let concurrency = worker.concurrency.clone();
    rig.work_as(worker);
    eventually("one is in flight", async || rig.journal.in_flight().0 == 1).await;
    assert_eq!(rig.journal.in_flight(), (1, 1));
    concurrency.set(4);
    eventually("four are", async || rig.journal.in_flight().0 == 4).await;
    rig.all_updated(&ids).await;
    rig.drain().await;
    assert_eq!(rig.journal.in_flight(), (0, 4));
    rig.assert_each_looked_up_once(&ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lowered_concurrency_ends_no_batch_and_begins_none_until_they_are_few() {
    let mut rig = Rig::start(setup(4, 10, 500)).await;
    let ids = rig.there(200, 3 * DAY);
    rig.schedule(&ids).await;
    let worker = rig.worker("worker");
    let concurrency = worker.concurrency.clone();
    rig.work_as(worker);
    eventually("four are in flight", async || rig.journal.in_flight().0 == 4).await;
    concurrency.set(1);
    let before = rig.journal.lookups();
    rig.all_updated(&ids).await;
    // And up again: nothing has to be started anew.
    concurrency.set(2);
    let more = rig.there(60, 3 * DAY);
    rig.schedule(&more).await;
    eventually("two are in flight", async || rig.journal.in_flight().0 == 2).await;
    rig.all_updated(&[&ids[..], &more].concat()).await;
    rig.drain().await;
    rig.assert_each_looked_up_once(&[ids, more].concat());

    let (mut in_flight, mut begun, mut most) = (0, 0, 0);
    for (_, event) in rig.journal.events() {
        match event {
            Event::LookedUp { .. } => {
                (in_flight, begun) = (in_flight + 1, begun + 1);
                // One may have been about to claim when the figure was set; 20 batches are the first ids.
                if begun > before + 1 && begun <= 20 {
                    most = most.max(in_flight);
                }
            }
            Event::Answered { .. } => in_flight -= 1,
            _ => {}
        }
    }
    assert!(before <= 12, "{before} of 20 were begun before it was lowered");
    assert_eq!(most, 1, "one at a time");
}

/// Also one that waits by the old settings: it would be too late for what is due by the new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_buffer_ttl_ends_the_wait() {
    let mut rig = Rig::start(lingering(setup(2, 100, 0), HOUR)).await;
    let ids = rig.there(5, 3 * DAY);
    rig.schedule(&ids).await;
    let worker = rig.worker("worker");
    let claims = worker.claims.clone();
    rig.work_as(worker);
    eventually("it has asked", async || !times(&rig, asks).is_empty()).await;
    claims.set(ClaimSettings { linger: Duration::from_millis(20), ..rig.setup.claims });
    rig.all_updated(&ids).await;
    rig.drain().await;
    rig.assert_each_looked_up_once(&ids);
}

/// Also for tweets of a lane that the new table does not name: they come when they were due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_age_table_counts_from_each_tweets_next_update() {
    let mut rig = Rig::start(setup(1, 100, 0)).await;
    let ids = rig.there(10, 3 * DAY);
    rig.schedule(&ids[..5]).await;
    rig.schedule_in(&ids[5..], 3_600_000).await;
    rig.ages.set("10d: 2h".parse().unwrap());
    rig.work();
    eventually("those that are due are in the new lane", async || {
        let places = rig.queue.locate(&ids[..5]).await.unwrap();
        places.iter().all(|places| matches!(&places[..], [Place::Delayed { lane, .. }] if lane == "10d"))
    })
    .await;
    rig.drain().await;
    for id in &ids[5..] {
        let (lane, due) = rig.lane(id).await;
        assert!(lane == "7d" && due < wall_ms() + 3_600_000, "the others wait as they did");
    }
    let stats = rig.queue.stats().await.unwrap();
    let lanes: Vec<_> = stats.lanes.iter().map(|lane| (&*lane.lane, lane.patience_ms, lane.delayed)).collect();
    assert_eq!(lanes, [("10d", 2 * 3_600_000, 5), ("7d", 6 * 3_600_000, 5)]);
}

/// A suspect that is alone in its batch is asked about when nothing else is in flight: if the process ends
/// then, nobody else can be why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_is_tried_alone() {
    let mut rig = Rig::start(setup(4, 10, 300)).await;
    let ids = rig.there(31, 3 * DAY);
    let (suspect, others) = ids.split_at(1);
    rig.schedule(suspect).await;
    let batch = rig.claim(1).await;
    rig.schedule(others).await;
    // Due after the others: three batches of theirs are on their way when it is claimed.
    let verdict = [(batch.jobs[0].clone(), Verdict::Suspect { after: 20 })];
    assert_eq!(rig.queue.settle(&batch.fence, &verdict, &[]).await.unwrap().settled, 1);
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;

    let mut in_flight = BTreeSet::new();
    let (mut alone, mut together) = (None, 0);
    for (_, event) in rig.journal.events() {
        match event {
            Event::LookedUp { call, ids } => {
                in_flight.insert(call);
                if ids == suspect {
                    assert_eq!(in_flight.len(), 1, "others are in flight");
                    alone = Some(call);
                } else {
                    assert!(alone.is_none_or(|call| !in_flight.contains(&call)), "something was begun beside it");
                    together = together.max(in_flight.len());
                }
            }
            Event::Answered { call } => drop(in_flight.remove(&call)),
            _ => {}
        }
    }
    assert_eq!(together, 3, "the others went together");
    assert!(alone.is_some(), "it was asked about");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_asks_once_per_linger_however_many_its_loops() {
    let mut rig = Rig::start(lingering(setup(8, 100, 0), Duration::from_millis(100))).await;
    rig.work();
    eventually("it asked six times", async || times(&rig, asks).len() >= 6).await;
    rig.drain().await;
    let asked = times(&rig, asks);
    let span = asked[5] - asked[0];
    assert!(span >= 5 * 99, "six times in {span} ms");
    assert_eq!(rig.journal.lookups(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_namespace_is_left_alone_until_it_is_resumed() {
    let mut rig = Rig::start(setup(2, 10, 0)).await;
    let ids = rig.there(20, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await;
    rig.queue.pause(Some("the test says so")).await.unwrap();
    rig.work();
    eventually("it was told so a few times", async || {
        times(&rig, |event| matches!(event, Event::NothingToClaim { paused: true })).len() >= 4
    })
    .await;
    assert_eq!((rig.journal.lookups(), rig.dues(&ids).await), (0, dues));
    rig.queue.pause(None).await.unwrap();
    rig.all_updated(&ids).await;
    rig.drain().await;
}

/// Finds its service out, whatever it gets.
struct Out;

#[async_trait]
impl UnmeteredHandler for Out {
    async fn handle(&self, batch: &Batch) -> BatchOutcome {
        BatchOutcome::released(batch, Outlook::Outage("it is out".to_owned()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_whose_service_is_out_keeps_no_other_from_its_work() {
    let mut rig = Rig::start(setup(1, 10, 0)).await;
    let (_folder, other) = another_queue().await;
    let lane = Lane::new("7d", HOUR);
    let jobs: Vec<_> = (0..60).map(|n| NewJob { id: n.to_string(), lane: lane.clone(), due: 0.into() }).collect();
    other.schedule(&jobs).await.unwrap();
    let health = Arc::new(Health::default());
    let out = Worker {
        queue: other.clone(),
        handling: HandlerKind::Unmetered(Arc::new(Out)),
        health: health.clone(),
        ..rig.worker("worker")
    };
    let out = tokio::spawn(out.run());
    eventually("one is out", async || health.trouble().is_some()).await;
    let ids = rig.there(50, 3 * DAY);
    rig.schedule(&ids).await;
    rig.work();
    rig.all_updated(&ids).await;
    assert!(health.trouble().is_some());
    rig.drain().await;
    out.await.unwrap().unwrap();
    assert_eq!(other.stats().await.unwrap().due, 60);
}

/// Has so many pages, one at a time.
struct Pages(AtomicU32, Lane);

#[async_trait]
impl UnmeteredHandler for Pages {
    async fn handle(&self, batch: &Batch) -> BatchOutcome {
        let is_last = self.0.fetch_sub(1, Ordering::Relaxed) == 1;
        let verdict = |job: &Job| match is_last {
            true => Verdict::Finish,
            false => Verdict::Reschedule { lane: self.1.clone(), due: Due::At(job.due) },
        };
        BatchOutcome {
            verdicts: batch.jobs.iter().map(|job| (job.clone(), verdict(job))).collect(),
            ..BatchOutcome::default()
        }
    }
}

/// The loops that find nothing due wait for seconds; what a batch leaves due at once ends that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_at_once_is_taken_at_once_however_many_loops_wait() {
    let rig = Rig::start(setup(4, 1, 0)).await;
    let (_folder, queue) = another_queue().await;
    let lane = Lane::new("pages", HOUR);
    queue.schedule(&[NewJob { id: "1".to_owned(), lane: lane.clone(), due: 0.into() }]).await.unwrap();
    let pages = Arc::new(Pages(100.into(), lane));
    let worker =
        Worker { queue: queue.clone(), handling: HandlerKind::Unmetered(pages.clone()), ..rig.worker("worker") };
    let stop = worker.stop.clone();
    let watch = Stopwatch::start();
    let running = tokio::spawn(worker.run());
    eventually("all pages are read", async || pages.0.load(Ordering::Relaxed) == 0).await;
    // A wait for each page would be eight minutes.
    println!("{} pages in {} ms", 100, watch.elapsed_ms());
    stop.drain();
    running.await.unwrap().unwrap();
}

/// Settles all it gets.
struct Settles(Lane);

#[async_trait]
impl UnmeteredHandler for Settles {
    async fn handle(&self, batch: &Batch) -> BatchOutcome {
        let verdict = Verdict::Reschedule { lane: self.0.clone(), due: 3_600_000.into() };
        let verdicts = batch.jobs.iter().map(|job| (job.clone(), verdict.clone())).collect();
        BatchOutcome { verdicts, ..BatchOutcome::default() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_without_a_quota_works_while_the_quota_is_used_up() {
    let limited = setup(2, 10, 0);
    let simulator = SimulatorOptions { calls_per_window: 1, app_calls_per_window: 1, ..limited.simulator.clone() };
    let mut rig = Rig::start(Setup { simulator, ..limited }).await;
    let ids = rig.there(20, 3 * DAY);
    rig.schedule(&ids).await;
    let (_folder, free) = another_queue().await;
    let lane = Lane::new("media", HOUR);
    let handling = HandlerKind::Unmetered(Arc::new(Settles(lane.clone())));
    let settling = Worker { queue: free.clone(), handling, ..rig.worker("worker") };
    let settling = tokio::spawn(settling.run());
    rig.work();
    eventually("the only call is made", async || rig.stored_tweets().await == 10).await;
    eventually("the quota is used up", async || matches!(rig.leave().await, AcquireOutcome::Wait(_))).await;

    let jobs: Vec<_> = (0..30).map(|n| NewJob { id: n.to_string(), lane: lane.clone(), due: 0.into() }).collect();
    free.schedule(&jobs).await.unwrap();
    eventually("all is settled that needs no quota", async || {
        free.stats().await.unwrap().counters.get("rescheduled") == Some(&30)
    })
    .await;
    assert_eq!(rig.queue.due_count().await.unwrap(), 10, "these wait for the quota");
    rig.drain().await;
    settling.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_finishes_what_is_in_flight_and_takes_nothing_new() {
    let mut rig = Rig::start(setup(2, 10, 500)).await;
    let ids = rig.there(60, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await.unwrap();
    rig.work();
    eventually("two are in flight", async || rig.journal.in_flight().0 == 2).await;
    rig.stop.drain();
    rig.ended().await.unwrap();
    assert_eq!(rig.journal.claimed().len(), 2);
    assert_eq!(rig.stored_tweets().await, 20);
    assert_eq!(rig.journal.count(|event| matches!(event, Event::Released)), 0);
    let asked: BTreeSet<String> = rig.journal.looked_up().into_iter().flatten().collect();
    for (id, due) in rig.dues(&ids).await.unwrap() {
        assert_eq!(due == dues[&id], !asked.contains(&id), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_stops_at_once() {
    let mut rig = Rig::start(lingering(setup(4, 100, 0), HOUR)).await;
    rig.work();
    eventually("it sleeps", async || times(&rig, asks).len() == 1).await;
    let watch = Stopwatch::start();
    rig.drain().await;
    assert!(watch.elapsed() < Duration::from_secs(10), "{:?}", watch.elapsed());
}

/// Abandoned, it gives back at once what is in flight, whoever keeps it waiting.
async fn abandons(mut rig: Rig, in_flight: impl AsyncFn(&Rig) -> bool) {
    let ids = rig.there(60, 3 * DAY);
    rig.schedule(&ids).await;
    let dues = rig.dues(&ids).await;
    rig.work();
    eventually("both are in flight", async || in_flight(&rig).await).await;
    assert_eq!(rig.queue.stats().await.unwrap().leased, 20);
    let watch = Stopwatch::start();
    rig.stop.abandon();
    rig.ended().await.unwrap();
    assert!(watch.elapsed() < Duration::from_secs(10), "{:?}", watch.elapsed());
    assert_eq!(rig.dues(&ids).await, dues, "given back as they were");
    assert_eq!(rig.stored_tweets().await, 0);
    assert!(rig.claim(100).await.jobs.iter().all(|job| job.deliveries == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoning_gives_back_what_is_being_looked_up() {
    let rig = Rig::start(setup(2, 10, 0)).await;
    rig.api_fails(Fault::Timeout);
    abandons(rig, async |rig| rig.journal.in_flight().0 == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoning_gives_back_what_is_being_saved() {
    let rig = Rig::start(setup(2, 10, 0)).await;
    rig.journal.trouble(Call::Save, Trouble::Hangs, u32::MAX);
    let answered = |event: &Event| matches!(event, Event::Answered { .. });
    abandons(rig, async |rig| rig.journal.count(answered) == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lateness_is_noted() {
    let mut rig = Rig::start(setup(1, 100, 0)).await;
    assert_eq!(rig.metrics.lateness_percentile(50.0), 0);
    let ids = rig.there(10, 3 * DAY);
    let watch = Stopwatch::start();
    rig.schedule_late(&ids, 600_000).await;
    rig.work();
    rig.all_updated(&ids).await;
    rig.drain().await;
    // Kept to two digits: within 1 %.
    let (late, most) = (rig.metrics.lateness_percentile(50.0), (600_000 + watch.elapsed_ms()) * 101 / 100);
    assert!((600_000..=most).contains(&late), "{late} ms");
}

/// A container that is started again has its predecessor's name, and so have replicas that share one
/// configuration: still each claim is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_of_one_name_share_no_batch() {
    let mut rig = Rig::start(setup(2, 10, 100)).await;
    let ids = rig.there(200, 3 * DAY);
    rig.schedule(&ids).await;
    let second = rig.worker("worker");
    rig.work();
    let second = tokio::spawn(second.run());
    rig.all_updated(&ids).await;
    rig.stop.drain();
    second.await.unwrap().unwrap();
    rig.ended().await.unwrap();
    rig.assert_each_looked_up_once(&ids);
}
