//! Random commands to both real backends and to the reference (`QueueModel`): the same answers, the same
//! places, command by command. A failing sequence is shrunk and printed.
//!
//! Real backends have real clocks, so time must not decide: delays are nothing, an hour, or days, moments are long past; each command comes
//! milliseconds after the one before, which orders what is due; all lanes are equally patient; and leases
//! are an hour, or over before the next command. (A short lease after a long one would be stretched, since
//! fences rise: the short ones come first.)

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tokio::runtime::Runtime;
use twitter_updater::base::clock::{Millis, millis};
use twitter_updater::engine::queue::{
    Batch, Claim, ClaimRequest, Due, EmbeddedQueue, Job, Lane, NewJob, Order, Place, PostponeOutcome, PromoteOutcome,
    Queue, RedisQueue, ScheduleOutcome, SettleOutcome, Stats, Verdict,
};

use crate::support::queue_model::{Claimed, QueueModel};
use crate::support::redis::{TestRedis, namespace};

const IDS: usize = 8;
const HOUR: Millis = 3_600_000;
/// The reference's clock begins long after all moments that are long past: what a dead worker held was due a lease before its end.
const START: Millis = 1_000 * HOUR;
/// Between two commands: in the reference, and at the least in truth.
const STEP: (Millis, Duration) = (10, Duration::from_millis(4));

#[derive(Debug, Clone)]
enum Command {
    /// Ids, each with its lane and its delay.
    Schedule(Vec<(usize, usize, Delay)>),
    Promote(Vec<(usize, usize, Delay)>),
    Postpone(Vec<(usize, usize, Delay)>),
    Forget(Vec<usize>),
    /// Brings forward the ids of a lane that wait for longer than its interval. The command does not change the interval itself: a
    /// late settle would restore the old one in SQLite but not in the reference.
    ApplyLane {
        lane: usize,
        limit: usize,
    },
    /// Due times out of bounds; `patient`: with a slack longer than an hour's lease.
    Repair {
        patient: bool,
        limit: usize,
    },
    Claim {
        limit: usize,
        /// Its lease is over before the next command.
        dies: bool,
        /// What is due in an hour may be claimed.
        early: bool,
    },
    /// A claim's reply was lost: once more, under its token.
    ClaimAgain {
        claim: Index,
        limit: usize,
    },
    /// Verdicts for some of a claim's jobs, by position; perhaps a late one, or the same again.
    Settle {
        claim: Index,
        verdicts: Vec<Option<Said>>,
    },
    Release {
        claim: Index,
        which: Vec<bool>,
    },
    Pause(bool),
}

#[derive(Debug, Clone, Copy)]
enum Said {
    Reschedule { lane: usize, delay: Delay },
    Finish,
    Retry { delay: Delay, counted: bool },
    Suspect { delay: Delay },
    Bury,
}

#[derive(Debug, Clone, Copy)]
enum Delay {
    None,
    Hour,
    /// Out of every lane's bounds.
    Days,
    /// A moment, long past.
    At(Millis),
}

impl Delay {
    fn millis(self) -> Millis {
        match self {
            Self::None | Self::At(_) => 0,
            Self::Hour => HOUR,
            Self::Days => 100 * HOUR,
        }
    }

    fn due(self) -> Due {
        if let Self::At(moment) = self { Due::At(moment) } else { Due::In(self.millis()) }
    }
}

fn delays(none: u32) -> impl Strategy<Value = Delay> + Clone {
    prop_oneof![
        none => Just(Delay::None), 2 => Just(Delay::Hour), 1 => Just(Delay::Days),
        3 => (0..4i64).prop_map(Delay::At),
    ]
}

/// What a command answers, without times.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    None,
    Scheduled(Vec<ScheduleOutcome>),
    Promoted(Vec<PromoteOutcome>),
    Postponed(Vec<PostponeOutcome>),
    Repaired(u64),
    /// Ids with their lanes and deliveries, most urgent first; sorted, when they had been claimed before.
    Batch(Vec<(String, String, u32)>),
    Empty {
        paused: bool,
    },
    Settled(SettleOutcome),
}

/// Where an id is, without times.
#[derive(Debug, PartialEq, Eq)]
enum Where {
    Delayed {
        lane: String,
        due: bool,
        beyond: bool,
    },
    /// By which claim.
    Leased(Option<usize>),
    Dead(String),
}

/// A claim as the reference knows it.
#[derive(Debug, Clone)]
struct Known {
    token: usize,
    deadline: Millis,
    jobs: Vec<Job>,
}

#[derive(Debug, Clone)]
struct Reference {
    now: Millis,
    model: QueueModel,
    claims: Vec<Known>,
    tokens: usize,
    /// There has been a lease of an hour.
    long: bool,
    /// The last claim's lease was over at once.
    dies: bool,
    /// The last claim took what is due in an hour.
    early: bool,
    answer: Answer,
}

fn id(number: usize) -> String {
    format!("{}", 100 + number)
}

const LANES: usize = 6;

/// Two that differ in that the first one lends, and one of each other kind; their order by name is not that of their tiers.
fn lane(number: usize) -> Lane {
    let of = |name: &str| Lane::new(name, Duration::from_secs(3_600));
    match number {
        0 => of("~left"),
        1 => of("right"),
        2 => of("middle").with_order(Order::OldestFirst),
        3 => of("newest").with_order(Order::NewestFirst),
        4 => of("behind").with_tier(1),
        _ => of("behind-newest").with_tier(1).with_order(Order::NewestFirst),
    }
}

/// All lanes are known from the start: SQLite writes down also the lane that a settle names which came too late, and
/// what a dead worker held goes to the first of those that are known.
fn all_lanes() -> Vec<NewJob> {
    (0..LANES).map(|of| NewJob { id: format!("{of}"), lane: lane(of), due: Due::At(0) }).collect()
}

fn slack(patient: bool) -> Duration {
    Duration::from_secs(if patient { 7_200 } else { 1 })
}

/// What the lanes hold, without times. An empty lane says nothing: SQLite writes down also the lane that a settle names
/// which came too late.
fn lanes(stats: Stats) -> Vec<(String, u64, u64)> {
    let held = stats.lanes.into_iter().filter(|lane| lane.delayed > 0);
    held.map(|lane| (lane.lane, lane.delayed, lane.beyond)).collect()
}

fn request(token: &str, limit: usize, dies: bool, early: bool) -> ClaimRequest<'_> {
    let early = if early { 2.0 } else { 0.0 };
    let lease = if dies { Duration::from_millis(1) } else { Duration::from_secs(3_600) };
    ClaimRequest { token, limit, linger: Duration::ZERO, lookahead: 0.0, early, lease }
}

fn new_jobs(ids: &[(usize, usize, Delay)]) -> Vec<NewJob> {
    ids.iter().map(|(number, of, delay)| NewJob { id: id(*number), lane: lane(*of), due: delay.due() }).collect()
}

fn said(jobs: &[Job], verdicts: &[Option<Said>]) -> Vec<(Job, Verdict)> {
    let verdict = |said: Said| match said {
        Said::Reschedule { lane: of, delay } => Verdict::Reschedule { lane: lane(of), due: delay.due() },
        Said::Finish => Verdict::Finish,
        Said::Retry { delay, counted } => Verdict::Retry { after: delay.millis(), counted },
        Said::Suspect { delay } => Verdict::Suspect { after: delay.millis() },
        Said::Bury => Verdict::MarkDead { reason: "a test".to_owned() },
    };
    // By id, whatever the order in which a repeated claim answers them.
    let mut jobs = jobs.to_vec();
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    jobs.into_iter().zip(verdicts).filter_map(|(job, said)| Some((job, verdict((*said)?)))).collect()
}

fn some(jobs: &[Job], which: &[bool]) -> Vec<Job> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    jobs.into_iter().zip(which).filter(|(_, which)| **which).map(|(job, _)| job).collect()
}

fn batch(jobs: &[Job], repeated: bool) -> Answer {
    let mut told: Vec<_> = jobs.iter().map(|job| (job.id.clone(), job.lane.to_string(), job.deliveries)).collect();
    if repeated {
        told.sort();
    }
    Answer::Batch(told)
}

fn place(place: Place, now: Millis, claim: impl Fn(Millis) -> Option<usize>) -> Where {
    match place {
        Place::Delayed { lane, due } => Where::Delayed { lane, due: due <= now, beyond: due > now + 3 * HOUR },
        Place::Leased { fence, .. } => Where::Leased(claim(fence)),
        Place::Dead { reason, .. } => Where::Dead(reason),
    }
}

impl Reference {
    fn claim(&mut self, token: usize, limit: usize, dies: bool, early: bool) {
        (self.dies, self.early) = (dies, early);
        let named = token.to_string();
        self.answer = match self.model.claim(self.now, &request(&named, limit, dies, early)) {
            Claimed::Empty { paused, .. } => Answer::Empty { paused: paused.is_some() },
            Claimed::Batch { deadline, jobs, repeated } => {
                let answer = batch(&jobs, repeated);
                if !repeated {
                    self.long |= !dies;
                    self.claims.push(Known { token, deadline, jobs });
                }
                answer
            }
        };
    }

    fn settled(applied: &[bool]) -> Answer {
        let settled = applied.iter().filter(|applied| **applied).count() as u64;
        Answer::Settled(SettleOutcome { settled, lost: applied.len() as u64 - settled })
    }

    fn whereabouts(&self) -> Vec<Option<Where>> {
        let claim = |fence| self.claims.iter().position(|claim| claim.deadline == fence);
        (0..IDS).map(|number| Some(place(self.model.place(&id(number))?, self.now, claim))).collect()
    }
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Command;

    fn init_state() -> BoxedStrategy<Self> {
        let mut model = QueueModel::default();
        for job in all_lanes() {
            model.schedule(START, &job);
            model.forget(&job.id);
        }
        let start = Self {
            now: START,
            model,
            claims: Vec::new(),
            tokens: 0,
            long: false,
            dies: false,
            early: false,
            answer: Answer::None,
        };
        Just(start).boxed()
    }

    fn transitions(state: &Self) -> BoxedStrategy<Command> {
        let said = prop_oneof![
            4 => (0..LANES, delays(3)).prop_map(|(lane, delay)| Said::Reschedule { lane, delay }),
            1 => Just(Said::Finish),
            2 => (delays(3), any::<bool>()).prop_map(|(delay, counted)| Said::Retry { delay, counted }),
            1 => delays(3).prop_map(|delay| Said::Suspect { delay }),
            1 => Just(Said::Bury),
        ];
        // Each id once: of one given twice, Redis does not get to know the second lane.
        let jobs = prop::collection::btree_map(0..IDS, (0..LANES, delays(12)), 1..IDS);
        let jobs =
            jobs.prop_map(|ids| ids.into_iter().map(|(id, (lane, delay))| (id, lane, delay)).collect::<Vec<_>>());
        let limit = 1..12usize;
        let mut dies = prop::bool::weighted(if state.long { 0.0 } else { 0.8 }).boxed();
        if state.long {
            dies = Just(false).boxed();
        }
        let claim = (limit.clone(), dies, prop::bool::weighted(0.3)).prop_map(|(limit, dies, early)| Command::Claim {
            limit,
            dies,
            early,
        });
        let (schedule, promote) = (jobs.clone().prop_map(Command::Schedule), jobs.clone().prop_map(Command::Promote));
        let postpone = jobs.prop_map(Command::Postpone);
        let repair = (any::<bool>(), limit.clone()).prop_map(|(patient, limit)| Command::Repair { patient, limit });
        let apply = (0..LANES, limit.clone()).prop_map(|(lane, limit)| Command::ApplyLane { lane, limit });
        if state.claims.is_empty() {
            return prop_oneof![4 => schedule, 4 => claim, 1 => promote, 1 => postpone, 1 => repair, 1 => apply]
                .boxed();
        }
        let forget =
            prop::collection::btree_set(0..IDS, 1..3).prop_map(|ids| Command::Forget(ids.into_iter().collect()));
        let verdicts = prop::collection::vec(prop::option::weighted(0.8, said), IDS);
        let settle = (any::<Index>(), verdicts).prop_map(|(claim, verdicts)| Command::Settle { claim, verdicts });
        let release = (any::<Index>(), prop::collection::vec(any::<bool>(), IDS))
            .prop_map(|(claim, which)| Command::Release { claim, which });
        let again = (any::<Index>(), limit).prop_map(|(claim, limit)| Command::ClaimAgain { claim, limit });
        let pause = prop::bool::weighted(0.3).prop_map(Command::Pause);
        prop_oneof![
            6 => schedule, 10 => claim, 4 => again, 10 => settle, 4 => release, 2 => pause,
            6 => promote, 4 => postpone, 1 => forget, 2 => repair, 2 => apply,
        ]
        .boxed()
    }

    fn preconditions(state: &Self, command: &Command) -> bool {
        match command {
            Command::Claim { dies, .. } => !(*dies && state.long),
            Command::ClaimAgain { .. } | Command::Settle { .. } | Command::Release { .. } => !state.claims.is_empty(),
            Command::Schedule(_)
            | Command::Promote(_)
            | Command::Postpone(_)
            | Command::Forget(_)
            | Command::Repair { .. }
            | Command::ApplyLane { .. }
            | Command::Pause(_) => true,
        }
    }

    fn apply(mut state: Self, command: &Command) -> Self {
        state.now += STEP.0;
        match command {
            Command::Schedule(ids) => {
                let answers = new_jobs(ids).iter().map(|job| state.model.schedule(state.now, job)).collect();
                state.answer = Answer::Scheduled(answers);
            }
            Command::Promote(ids) => {
                let answers = new_jobs(ids).iter().map(|job| state.model.promote(state.now, job)).collect();
                state.answer = Answer::Promoted(answers);
            }
            Command::Postpone(ids) => {
                let answers = new_jobs(ids).iter().map(|job| state.model.postpone(state.now, job)).collect();
                state.answer = Answer::Postponed(answers);
            }
            Command::Forget(ids) => {
                ids.iter().for_each(|number| state.model.forget(&id(*number)));
                state.answer = Answer::None;
            }
            Command::ApplyLane { lane, limit } => {
                let moved = state.model.apply_lane(state.now, &self::lane(*lane), millis(slack(true)), *limit);
                state.answer = Answer::Repaired(moved);
            }
            Command::Repair { patient, limit } => {
                state.answer =
                    Answer::Repaired(state.model.repair_due_times(state.now, millis(slack(*patient)), *limit));
            }
            Command::Claim { limit, dies, early } => {
                state.tokens += 1;
                state.claim(state.tokens, *limit, *dies, *early);
            }
            Command::ClaimAgain { claim, limit } => {
                let token = claim.get(&state.claims).token;
                // What is claimed anew must not make later short leases impossible.
                let dies = !state.long;
                state.claim(token, *limit, dies, false);
            }
            Command::Settle { claim, verdicts } => {
                let Known { deadline, jobs, .. } = claim.get(&state.claims).clone();
                let applied = state.model.settle(state.now, deadline, &said(&jobs, verdicts));
                state.answer = Self::settled(&applied);
            }
            Command::Release { claim, which } => {
                let Known { deadline, jobs, .. } = claim.get(&state.claims).clone();
                let applied = state.model.release(state.now, deadline, &some(&jobs, which));
                state.answer = Self::settled(&applied);
            }
            Command::Pause(pause) => {
                state.model.pause(pause.then_some("a test"));
                state.answer = Answer::None;
            }
        }
        state
    }
}

/// Connections belong to the runtime that made them: one for all cases.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());

/// A real queue, and the claims made of it, in the reference's order.
struct Real {
    name: &'static str,
    queue: Arc<dyn Queue>,
    claims: Vec<(usize, Batch)>,
}

struct Backends {
    all: Vec<Real>,
    _folder: tempfile::TempDir,
}

impl Real {
    async fn claim(&mut self, reference: &Reference, token: usize, limit: usize) -> Answer {
        let (named, dies) = (token.to_string(), reference.dies);
        match self.queue.claim(&request(&named, limit, dies, reference.early)).await.unwrap() {
            Claim::Empty { paused, .. } => Answer::Empty { paused: paused.is_some() },
            Claim::Batch(claimed) => {
                let repeated = self.claims.iter().any(|(_, known)| known.fence == claimed.fence);
                let answer = batch(&claimed.jobs, repeated);
                if !repeated {
                    if dies {
                        while self.queue.stats().await.unwrap().now_ms < claimed.fence.deadline {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    self.claims.push((token, claimed));
                }
                assert_eq!(self.claims.len(), reference.claims.len(), "{}: {answer:?}", self.name);
                answer
            }
        }
    }

    async fn apply(&mut self, reference: &Reference, command: &Command) -> Answer {
        match command {
            Command::Schedule(ids) => Answer::Scheduled(self.queue.schedule(&new_jobs(ids)).await.unwrap()),
            Command::Postpone(ids) => Answer::Postponed(self.queue.postpone(&new_jobs(ids)).await.unwrap()),
            Command::Promote(ids) => Answer::Promoted(self.queue.promote(&new_jobs(ids)).await.unwrap()),
            Command::Forget(ids) => {
                let ids: Vec<String> = ids.iter().map(|number| id(*number)).collect();
                self.queue.forget(&ids).await.unwrap();
                Answer::None
            }
            Command::ApplyLane { lane, limit } => {
                let moved = self.queue.apply_lane(&self::lane(*lane), slack(true), *limit).await;
                Answer::Repaired(moved.unwrap())
            }
            Command::Repair { patient, limit } => {
                Answer::Repaired(self.queue.repair_due_times(slack(*patient), *limit).await.unwrap())
            }
            Command::Claim { limit, .. } => self.claim(reference, reference.tokens, *limit).await,
            Command::ClaimAgain { claim, limit } => {
                let token = claim.get(&self.claims).0;
                self.claim(reference, token, *limit).await
            }
            Command::Settle { claim, verdicts } => {
                let (_, batch) = claim.get(&self.claims);
                Answer::Settled(self.queue.settle(&batch.fence, &said(&batch.jobs, verdicts), &[]).await.unwrap())
            }
            Command::Release { claim, which } => {
                let (_, batch) = claim.get(&self.claims);
                Answer::Settled(self.queue.release(&batch.fence, &some(&batch.jobs, which)).await.unwrap())
            }
            Command::Pause(pause) => {
                self.queue.pause(pause.then_some("a test")).await.unwrap();
                Answer::None
            }
        }
    }

    async fn whereabouts(&self) -> Vec<Option<Where>> {
        let ids: Vec<_> = (0..IDS).map(id).collect();
        let now = self.queue.stats().await.unwrap().now_ms;
        let claim = |fence| self.claims.iter().position(|(_, batch)| batch.fence.deadline == fence);
        let mut whereabouts = Vec::new();
        for mut places in self.queue.locate(&ids).await.unwrap() {
            assert!(places.len() <= 1, "{}: in several places: {places:?}", self.name);
            whereabouts.push(places.pop().map(|found| place(found, now, claim)));
        }
        whereabouts
    }
}

impl StateMachineTest for Backends {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(_: &Reference) -> Self {
        RUNTIME.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("queue.db");
            let redis: Arc<dyn Queue> = Arc::new(RedisQueue::new(TestRedis::shared().pool(), &namespace()));
            let embedded: Arc<dyn Queue> =
                Arc::new(EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap());
            for queue in [&redis, &embedded] {
                queue.schedule(&all_lanes()).await.unwrap();
                queue.forget(&all_lanes().into_iter().map(|job| job.id).collect::<Vec<_>>()).await.unwrap();
            }
            let real = |(name, queue)| Real { name, queue, claims: Vec::new() };
            Self { all: [("Redis", redis), ("SQLite", embedded)].map(real).into(), _folder: folder }
        })
    }

    fn apply(mut backends: Self, reference: &Reference, command: Command) -> Self {
        RUNTIME.block_on(async {
            tokio::time::sleep(STEP.1).await; // orders what is due
            for real in &mut backends.all {
                let answer = real.apply(reference, &command).await;
                assert_eq!(answer, reference.answer, "{}, not as the reference", real.name);
            }
        });
        backends
    }

    fn check_invariants(backends: &Self, reference: &Reference) {
        RUNTIME.block_on(async {
            for real in &backends.all {
                assert_eq!(real.whereabouts().await, reference.whereabouts(), "{}, not as the reference", real.name);
                let stats = real.queue.stats().await.unwrap();
                assert_eq!(lanes(stats), lanes(reference.model.stats(reference.now)), "{}'s lanes", real.name);
            }
        });
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_backends_do_as_the_reference_does(sequential 5..50 => Backends);
}
