//! A hard quota under the adaptive schedule: real worker loops over the reference queue and ledger, in simulated time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::{Millis, span};
use twitter_updater::base::random;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::metrics::Metrics;
use twitter_updater::engine::queue::{Batch, Jobs, NewJob, Verdict};
use twitter_updater::engine::schedule::Budgeted;
use twitter_updater::engine::schedule::adaptive::budget::Normaliser;
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::{Adaptive, Options};
use twitter_updater::engine::schedule::budgeted::Spend;
use twitter_updater::engine::schedule::history::{Answer, History};
use twitter_updater::engine::worker::{BatchOutcome, ClaimSettings, Handler, HandlerKind, Worker};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::quota::{CallRecord, Credential, CredentialKind, Credentials, Pacing, Permit, Window};

use super::{SPECIFICATION, ages};
use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;

const DAY: Millis = 86_400_000;
const POSTS: u64 = 6_000;
/// Ages of the posts, from new to this.
const OLDEST: Millis = 10 * DAY;
/// The last posts that reach their end do not matter here.
const RUN: Millis = DAY / 2;
/// Until due times have settled.
const WARM_UP: Millis = DAY / 4;
const WINDOW: Millis = 15 * 60_000;
/// Ids a call.
const LIMIT: usize = 10;
const LATENCY: Duration = Duration::from_millis(150);
const ORIGIN: Millis = 1_800_000_000_000;

/// One post: when it was made, how many times as busy as others it is, and what is known of it.
struct Post {
    created_at: Millis,
    busy: f64,
    history: History,
    /// The interval to its next update.
    interval: Millis,
}

/// An API with a window that opens with a call, and the posts.
struct Api {
    clock: Arc<ServiceClock>,
    schedule: Adaptive,
    credentials: Arc<Credentials>,
    calls_per_window: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    posts: HashMap<String, Post>,
    /// The window: when it ends, and how many calls were made in it.
    window: (Millis, u32),
    /// When calls were made.
    calls: Vec<Millis>,
    /// The least share of an interval that was over at an update.
    earliest: f64,
}

impl Api {
    /// Next lane and delay of a post after an answer.
    fn answer(&self, post: &mut Post, now: Millis) -> Option<Verdict> {
        let model = Model::embedded().unwrap();
        let count = post.busy * model.curve.events(0.0, (now - post.created_at) as f64 / 1e3);
        post.history.before = post.history.last;
        post.history.last = Some(Answer { at: now, count });
        let decision = self.schedule.next(&post.history, now)?;
        (post.history.recent, post.interval) = (decision.recent, decision.interval);
        Some(Verdict::Reschedule { lane: decision.lane, due: decision.delay.into() })
    }

    /// Counts a call, and tells the window as an API does.
    fn called(&self, state: &mut State, now: Millis) -> Window {
        let (ends, made) = state.window;
        state.window = if now >= ends { (now + WINDOW, 1) } else { (ends, made + 1) };
        state.calls.push(now);
        let (reset_at, made) = state.window;
        assert!(made <= self.calls_per_window, "a call that the quota has not");
        let remaining = self.calls_per_window - made;
        Window { limit: self.calls_per_window, remaining, reset_at, reset_in: reset_at - now, length: None }
    }
}

#[async_trait]
impl Handler for Api {
    fn endpoint(&self) -> &'static str {
        "lookup"
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        let (window, verdicts) = {
            let (mut state, now) = (self.state.lock().unwrap(), self.clock.now());
            let window = self.called(&mut state, now);
            let mut verdicts = Vec::new();
            for job in &batch.jobs {
                let post = state.posts.get_mut(&job.id).unwrap();
                let last = post.history.last.unwrap().at;
                let share = (batch.claimed_at - last) as f64 / post.interval as f64;
                verdicts.push((job.clone(), self.answer(post, now).unwrap_or(Verdict::Finish)));
                state.earliest = state.earliest.min(share);
            }
            (window, verdicts)
        };
        tokio::time::sleep(LATENCY).await;
        self.credentials.record_call(permit, CallRecord { window: Some(window), ..CallRecord::default() }).await;
        BatchOutcome { verdicts, ..BatchOutcome::default() }
    }
}

/// What came of it.
struct Outcome {
    /// Calls, as a share of the quota.
    used: f64,
    /// The longest time without a call, as a multiple of the mean one.
    longest_gap: f64,
    /// The least share of an interval that was over at an update.
    earliest: f64,
}

fn schedule(options: Options) -> Adaptive {
    Adaptive::new(ages(SPECIFICATION), Arc::new(Model::embedded().unwrap()), options, Normaliser::default())
}

/// Half a day with so many calls in a window. `share`: the budget, as a multiple of the age table's.
async fn live(calls_per_window: u32, spend: Spend, share: f64) -> Outcome {
    let _replayed = random::replay_seed(7);
    let clock = ServiceClock::starting_at(ORIGIN);
    let queue = Arc::new(MemoryQueue::new(NAMESPACE, clock.clone(), Rules::default()));
    let ledger = Arc::new(MemoryLedger::new(clock.clone()));
    let anonymous = Credential { name: "anonymous".to_owned(), kind: CredentialKind::Anonymous };
    let lease = Duration::from_secs(60);
    let credentials = Arc::new(Credentials::new(vec![anonymous], ledger, Pacing::Auto, lease));
    let state = Mutex::new(State { earliest: f64::MAX, ..State::default() });
    let schedule = schedule(Options { spend, share, ..Options::default() });
    let early = schedule.quota_use().max_earliness;
    let api =
        Arc::new(Api { clock: clock.clone(), schedule, credentials: credentials.clone(), calls_per_window, state });
    let mut dice = StdRng::seed_from_u64(3);
    let mut jobs = Vec::new();
    for at in 0..POSTS {
        // Seen once before, some time of its interval ago.
        let created_at = ORIGIN - OLDEST * at as Millis / POSTS as Millis;
        let history = History { created_at: Some(created_at), ..History::default() };
        let mut post = Post { created_at, busy: (dice.random::<f64>() * 6.0 - 3.0).exp2(), history, interval: 0 };
        let seen = ORIGIN - ((ORIGIN - created_at) as f64 * 0.1 * dice.random::<f64>()) as Millis;
        let Some(Verdict::Reschedule { lane, .. }) = api.answer(&mut post, seen) else { panic!("it is young") };
        let due = (seen + post.interval - ORIGIN).max(0).into();
        jobs.push(NewJob { id: at.to_string(), lane, due });
        api.state.lock().unwrap().posts.insert(at.to_string(), post);
    }
    queue.schedule(&jobs).await.unwrap();
    let stop = Stop::new();
    let worker = Worker {
        name: "worker".to_owned(),
        queue,
        handling: HandlerKind::Metered(api.clone(), credentials),
        claims: ClaimSettings { limit: LIMIT, linger: Duration::from_secs(5), lookahead: 0.0, lease }.into(),
        early: early.into(),
        concurrency: 4.into(),
        metrics: Arc::new(Metrics::new()),
        health: Arc::default(),
        stop: stop.clone(),
    };
    let working = tokio::spawn(worker.run());
    tokio::time::sleep(span(RUN)).await;
    stop.drain();
    working.await.unwrap().unwrap();
    let state = api.state.lock().unwrap();
    let from = ORIGIN + WARM_UP;
    let calls: Vec<Millis> = state.calls.iter().copied().filter(|at| (from..ORIGIN + RUN).contains(at)).collect();
    let gap = WINDOW as f64 / f64::from(calls_per_window);
    let longest = calls.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    let used = calls.len() as f64 * gap / (RUN - WARM_UP) as f64;
    Outcome { used, longest_gap: longest as f64 / gap, earliest: state.earliest }
}

fn run(calls_per_window: f64, spend: Spend, share: f64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(live(calls_per_window.round() as u32, spend, share))
}

#[test]
fn a_quota_that_is_to_be_spent_is_used_up_evenly_and_no_post_is_updated_too_early() {
    const PLENTY: f64 = 1_000.0;
    let plenty = run(PLENTY, Spend::Demand, 1.0);
    let demand = plenty.used * PLENTY;
    assert!(demand < PLENTY / 2.0 && plenty.earliest >= 0.999, "{demand} {}", plenty.earliest);
    let runs = [
        // Too few calls: in the queue's order. Little is due at first: then alone can an update be early.
        (0.5, Spend::Demand, false),
        (0.5, Spend::Quota, true),
        // To spare: on the first day by early updates alone, later by a lower price, too.
        (1.2, Spend::Quota, false),
        (2.0, Spend::Quota, true),
        (4.0, Spend::Quota, true),
    ];
    for (quota, spend, corrected) in runs {
        let options = Options { spend, ..Options::default() };
        let share = if corrected { schedule(options).quota_use().call_share(Some(quota)) } else { 1.0 };
        let Outcome { used, longest_gap, earliest } = run(demand * quota, spend, share);
        println!(
            "quota {quota} × demand, {spend:?}, share {share:.2}: {:.2} % used, longest gap {longest_gap:.2} of the mean, \
             earliest after {earliest:.2} of an interval",
            used * 100.0
        );
        // Of so much, there are moments when nothing may be updated any earlier.
        let least = if quota < 4.0 { 0.99 } else { 0.98 };
        assert!((least..=1.01).contains(&used), "{quota} {spend:?}: {used}");
        assert!(longest_gap < 5.0 || spend == Spend::Demand, "{quota}: {longest_gap}");
        assert!(earliest >= if spend == Spend::Quota { 0.499 } else { 0.999 }, "{quota}: {earliest}");
        assert!(earliest < 0.95 || quota < 1.0, "{quota}: nothing was early");
    }
}
