//! Workers over a queue, with a handler that takes its time and knows no API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{Millis, span};
use twitter_updater::base::random;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{Batch, Job, Lane, NewJob, Queue, Verdict};
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::engine::worker::{BatchOutcome, ClaimSettings, Handler, HandlerKind, Worker};
use twitter_updater::quota::{CallRecord, Credential, CredentialKind, Credentials, Ledger, Pacing, Permit, Window};

use super::demand::{Demand, Tally, Waiting, created_at, waiting};

/// How long an update takes, from the claim to the settle.
pub const LATENCY: Duration = Duration::from_millis(150);

/// One load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Updates per second that the age table demands.
    pub rate: f64,
    /// Each with up to 4 requests in flight.
    pub workers: usize,
    pub lookahead: f64,
    pub linger: Duration,
    /// Before it counts, and while it counts.
    pub warm_up: Duration,
    pub measured: Duration,
}

/// Tweets far from being due. They are put into the queue shortly before, so that a queue in memory stays
/// small; nothing could be done with them before.
#[derive(Debug)]
struct Far {
    /// By interval.
    waiting: Mutex<BTreeMap<Millis, BTreeSet<Waiting>>>,
    load: Load,
    reach: Reach,
}

/// How long before it is due a tweet of that interval has to be there, ms.
pub type Reach = fn(&Load, Millis) -> Millis;

/// How often tweets are put in, ms.
const EVERY: Millis = 500;

impl Far {
    fn is_far(&self, now: Millis, waiting: &Waiting) -> bool {
        waiting.due - now > (self.reach)(&self.load, waiting.interval) + 2 * EVERY
    }

    fn add(&self, tweet: Waiting) {
        self.waiting.lock().unwrap().entry(tweet.interval).or_default().insert(tweet);
    }

    /// Takes out what is no longer far.
    fn near(&self, now: Millis) -> Vec<Waiting> {
        let mut near = Vec::new();
        for waiting in self.waiting.lock().unwrap().values_mut() {
            while let Some(first) = waiting.first().filter(|first| !self.is_far(now, first)).cloned() {
                waiting.remove(&first);
                near.push(first);
            }
        }
        near
    }
}

struct Update {
    ages: AgeTable,
    demand: Demand,
    far: Arc<Far>,
    credentials: Arc<Credentials>,
    tally: Arc<Mutex<Tally>>,
}

#[async_trait]
impl Handler for Update {
    fn endpoint(&self) -> &'static str {
        "lookup"
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        tokio::time::sleep(LATENCY).await;
        self.credentials
            .record_call(permit, CallRecord { window: Some(Window::unmetered()), ..CallRecord::default() })
            .await;
        let now = batch.now.now();
        let mut tally = self.tally.lock().unwrap();
        let counts = tally.request(batch.claimed_at);
        let verdict = |job: &Job| {
            let id: u64 = job.id.parse().unwrap();
            let before = self.ages.brackets().iter().find(|bracket| bracket.lane.name == job.lane).unwrap();
            if counts {
                let due = (job.due, before.lane.patience);
                tally.update(&self.demand, id, due, batch.claimed_at, now);
            }
            let Some(lane) = self.ages.lane(created_at(id), now) else { return (job.clone(), Verdict::Finish) };
            let waiting = Waiting { due: now + lane.patience, id, interval: lane.patience };
            if self.far.is_far(now, &waiting) {
                self.far.add(waiting);
                return (job.clone(), Verdict::Finish);
            }
            (job.clone(), Verdict::Reschedule { lane: lane.clone(), due: lane.patience.into() })
        };
        let verdicts = batch.jobs.iter().map(verdict).collect();
        BatchOutcome { verdicts, ..BatchOutcome::default() }
    }
}

/// What two batches hold has to be there.
pub fn reach(load: &Load, _interval: Millis) -> Millis {
    2_000 + (200_000.0 / load.rate) as Millis
}

/// What may be taken early has to be there, too.
pub fn reach_by_share(load: &Load, interval: Millis) -> Millis {
    10_000 + (interval as f64 * load.lookahead) as Millis
}

/// Runs it. `now` is the queue's clock.
pub async fn run(
    load: Load,
    ages: &AgeTable,
    queue: Arc<dyn Queue>,
    ledger: Arc<dyn Ledger>,
    now: impl Fn() -> Millis,
    reach: Reach,
) -> Tally {
    let start = now();
    let from = start + load.warm_up.as_millis() as Millis;
    let end = from + load.measured.as_millis() as Millis;
    let demand = Demand::new(ages);
    let far = Arc::new(Far { waiting: Mutex::default(), load, reach });
    for tweet in waiting(&demand, load.rate, start, end - start + 600_000, load.rate.to_bits()) {
        far.add(tweet);
    }
    let tally = Arc::new(Mutex::new(Tally { from, ..Tally::default() }));
    let stop = Stop::new();
    feed(&*queue, ages, &far, now()).await;
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..load.workers {
        let anonymous = Credential { name: "anonymous".to_owned(), kind: CredentialKind::Anonymous };
        let lease = Duration::from_secs(60);
        let credentials = Arc::new(Credentials::new(vec![anonymous], ledger.clone(), Pacing::Auto, lease));
        let handler = Update {
            ages: ages.clone(),
            demand: demand.clone(),
            far: far.clone(),
            credentials: credentials.clone(),
            tally: tally.clone(),
        };
        let claims = ClaimSettings { limit: 100, linger: load.linger, lookahead: load.lookahead, lease };
        let worker = Worker {
            name: format!("worker-{worker}"),
            queue: queue.clone(),
            handling: HandlerKind::Metered(Arc::new(handler), credentials),
            claims: claims.into(),
            early: 0.0.into(),
            concurrency: 4.into(),
            metrics: Arc::new(Metrics::new()),
            health: Arc::default(),
            stop: stop.clone(),
        };
        // As they start in life: one by one.
        let after = load.linger.mul_f64(random::fraction());
        workers.spawn(async move {
            tokio::time::sleep(after).await;
            worker.run().await
        });
    }
    while now() < end {
        feed(&*queue, ages, &far, now()).await;
        tokio::time::sleep(span(EVERY)).await;
    }
    stop.drain();
    while let Some(ended) = workers.join_next().await {
        ended.unwrap().unwrap();
    }
    std::mem::take(&mut *tally.lock().unwrap())
}

/// Puts in what is no longer far.
async fn feed(queue: &dyn Queue, ages: &AgeTable, far: &Far, now: Millis) {
    let job = |near: Waiting| {
        assert!(near.due > now - EVERY, "it came too late");
        NewJob {
            id: near.id.to_string(),
            lane: lane(ages, near.interval).clone(),
            due: ((near.due - now).max(0)).into(),
        }
    };
    let jobs: Vec<NewJob> = far.near(now).into_iter().map(job).collect();
    for jobs in jobs.chunks(1_000) {
        queue.schedule(jobs).await.unwrap();
    }
}

/// The lane of that interval.
pub fn lane(ages: &AgeTable, interval: Millis) -> &Lane {
    ages.brackets().iter().map(|bracket| &bracket.lane).find(|lane| lane.patience == interval).unwrap()
}
