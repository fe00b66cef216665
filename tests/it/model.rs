//! Every order of events, at a small size: workers that claim, look up, save, settle, give back, crash and
//! come late, over the queue's rules ([`QueueModel`], which `state_machine.rs` compares with the real
//! backends), with replies that get lost and time that passes between any two steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};
use twitter_updater::base::clock::{Millis, Stopwatch};
use twitter_updater::engine::queue::{
    ClaimRequest, Due, Job, Lane, NewJob, Order, Place, PromoteOutcome, ScheduleOutcome, Verdict,
};

use crate::support::queue_model::{Claimed, QueueModel, Rules};

/// A lease lasts so many ticks.
const LEASE: Millis = 2;
/// An id is due again after so many.
const INTERVAL: Millis = 1;

/// What is checked, and how large it may get.
#[derive(Debug, Clone)]
struct Small {
    workers: usize,
    ids: usize,
    /// Time ends here.
    ticks: Millis,
    /// Claims that bring a batch, at the most.
    claims: u8,
    /// Promotes, at the most.
    promotes: u8,
    kinds: Kinds,
    rules: Rules,
    habits: Habits,
    seen: Arc<Seen>,
}

/// The lanes of a pipeline, and how its batches are claimed.
#[derive(Debug, Clone)]
struct Kinds {
    /// Where ids are.
    own: Lane,
    /// Where promoted ids go.
    urgent: Lane,
    /// Ids in a batch, at the most; none: all of them.
    limit: Option<usize>,
    early: f64,
}

impl Kinds {
    fn plain() -> Self {
        Self { own: lane("~only"), urgent: lane("urgent"), limit: None, early: 0.0 }
    }

    fn of(&self, name: &str) -> &Lane {
        if *name == *self.own.name { &self.own } else { &self.urgent }
    }

    /// When an id is due at first, or again: after an interval, or at the age of its data.
    fn due(&self, now: Millis, first: bool) -> Due {
        match self.own.order {
            Order::ByLateness => Due::In(if first { 0 } else { INTERVAL }),
            Order::OldestFirst | Order::NewestFirst => Due::At(if first { 0 } else { now }),
        }
    }
}

/// What the worker does for the invariants' sake; without one of them, one must break.
#[derive(Debug, Clone, Copy)]
struct Habits {
    /// An answer is dated before it is asked for, and inside its lease.
    dated_inside_the_lease: bool,
    /// The store hears of an answer before the queue does.
    saved_first: bool,
    /// A starter asks again while a worker has the id, which may be about to end its life.
    scheduled_when_let_go: bool,
}

const GOOD: Habits = Habits { dated_inside_the_lease: true, saved_first: true, scheduled_when_let_go: true };

/// How often something happened, over all paths: a model in which nothing happens proves nothing.
#[derive(Debug, Default)]
struct Seen {
    batches: AtomicU64,
    batches_answered_again: AtomicU64,
    leases_run_out: AtomicU64,
    late_settles: AtomicU64,
    late_answers: AtomicU64,
    lives_ended: AtomicU64,
    burials: AtomicU64,
    moved: AtomicU64,
    noted: AtomicU64,
    notes_taken: AtomicU64,
    /// Ids that were claimed before they were due.
    early: AtomicU64,
}

fn tick(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: Millis,
    /// Tokens given out.
    tokens: u8,
    queue: QueueModel,
    rows: Vec<Row>,
    /// Ids that are recorded, and not scheduled yet.
    starting: Vec<bool>,
    workers: Vec<Doing>,
    promotes: u8,
    /// When a promoted id is due at the latest, until it is claimed from its lane or leaves the queue.
    asked: Vec<Option<Millis>>,
    /// A step that no rule allows.
    wrong: Option<&'static str>,
}

/// A tweet in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    life: Life,
    /// When its newest answer was given; -1 before the first.
    answered_at: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Life {
    Unknown,
    Live,
    Ended,
    Dead,
}

/// What is said of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Outcome {
    Again,
    Over,
    /// Refused, alone and too often.
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    token: u8,
    deadline: Millis,
    ids: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Doing {
    Idle,
    /// A claim's reply is lost.
    Asked(u8),
    Claimed(Held),
    /// It has been answered, then.
    Answered(Held, Millis, Vec<Outcome>),
    /// The store knows.
    Saved(Held, Vec<Outcome>),
    /// It gives its ids back, whatever it was at.
    Releasing(Held),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    Record(usize),
    Schedule(usize),
    Promote { id: usize, delay: Millis },
    Claim { worker: usize, reply_lost: bool },
    LookUp { worker: usize, outcomes: Vec<Outcome> },
    Save(usize),
    Settle { worker: usize, reply_lost: bool },
    Release { worker: usize, reply_lost: bool },
    Crash(usize),
}

fn name(id: usize) -> String {
    id.to_string()
}

fn lane(name: &str) -> Lane {
    Lane::new(name, Duration::from_millis(1))
}

fn job(id: usize) -> Job {
    Job { id: name(id), lane: lane("~only").name, due: 0, deliveries: 0, failures: 0, order: Default::default() }
}

/// What may be said of so many ids: each lives on or ends; one alone may be bad.
fn outcomes(ids: usize) -> Vec<Vec<Outcome>> {
    let ends = |which: usize, id: usize| if which >> id & 1 == 1 { Outcome::Over } else { Outcome::Again };
    let mut all: Vec<Vec<_>> = (0..1 << ids).map(|which| (0..ids).map(|id| ends(which, id)).collect()).collect();
    if ids == 1 {
        all.push(vec![Outcome::Bad]);
    }
    all
}

impl Small {
    fn claim(&self, state: &mut State, worker: usize, reply_lost: bool) -> bool {
        let token = if let Doing::Asked(token) = state.workers[worker] { token } else { state.tokens };
        let named = token.to_string();
        let request = ClaimRequest {
            token: &named,
            limit: self.kinds.limit.unwrap_or(self.ids),
            linger: Duration::ZERO,
            lookahead: 0.0,
            early: self.kinds.early,
            lease: Duration::from_millis(LEASE as u64),
        };
        let before = state.queue.clone();
        let Claimed::Batch { deadline, jobs, repeated } = state.queue.claim(state.now, &request) else {
            return false;
        };
        tick(if repeated { &self.seen.batches_answered_again } else { &self.seen.batches });
        state.tokens = state.tokens.max(token + 1);
        for job in &jobs {
            match before.place(&job.id) {
                Some(Place::Leased { fence, .. }) if fence > state.now && !repeated => {
                    state.wrong = Some("an id is claimed while another holds it");
                }
                Some(Place::Leased { .. }) if !repeated => tick(&self.seen.leases_run_out),
                Some(Place::Delayed { .. }) => state.asked[job.id.parse::<usize>().unwrap()] = None,
                _ => {}
            }
        }
        if !repeated {
            state.wrong = state.wrong.or(self.out_of_order(&before, state.now, &jobs));
        }
        let others = state.workers.iter().enumerate().filter(|(other, _)| *other != worker);
        if others.filter_map(|(_, doing)| held(doing)).any(|held| held.deadline == deadline) {
            state.wrong = Some("two claims have one fence");
        }
        let ids = jobs.iter().map(|job| job.id.parse().unwrap()).collect();
        state.workers[worker] =
            if reply_lost { Doing::Asked(token) } else { Doing::Claimed(Held { token, deadline, ids }) };
        true
    }

    /// What is wrong with a batch, as to which ids it leaves behind.
    fn out_of_order(&self, before: &QueueModel, now: Millis, jobs: &[Job]) -> Option<&'static str> {
        let waits = |id: usize| match before.place(&name(id)) {
            Some(Place::Delayed { lane, due }) if !before.is_suspect(&name(id)) => Some((self.kinds.of(&lane), due)),
            _ => None,
        };
        if jobs.iter().any(|job| job.deliveries > 0) {
            return None;
        }
        let is_taken = |id: usize| jobs.iter().any(|job| job.id == name(id));
        let taken: Vec<_> = (0..self.ids).filter(|id| is_taken(*id)).filter_map(waits).collect();
        let left: Vec<_> = (0..self.ids).filter(|id| !is_taken(*id)).filter_map(waits).collect();
        let is_before = |(a, due): &(&Lane, Millis), (b, other): &(&Lane, Millis)| {
            let both_newest = a.name == b.name && a.order == Order::NewestFirst;
            *due <= now && (*other > now || a.tier < b.tier || (both_newest && due > other))
        };
        if left.iter().any(|left| taken.iter().any(|taken| is_before(left, taken))) {
            return Some("an id is claimed before one that goes first");
        }
        let ahead = taken.iter().filter(|(_, due)| *due > now);
        for (lane, due) in ahead {
            tick(&self.seen.early);
            if !lane.allows_early_claims() || (due - now) as f64 > self.kinds.early {
                return Some("an id is claimed that is not due");
            }
        }
        None
    }

    /// Stores what was answered, as the store does: the newest answer counts, the dead stay dead.
    fn save(&self, state: &mut State, held: &Held, at: Millis, outcomes: &mut [Outcome]) {
        for (id, outcome) in held.ids.iter().zip(outcomes) {
            let row = &mut state.rows[*id];
            if *outcome == Outcome::Bad {
                row.life = Life::Dead;
                continue;
            }
            if row.life == Life::Dead || row.answered_at > at {
                tick(&self.seen.late_answers);
                // Refused: the store knows better.
                *outcome = match row.life {
                    Life::Dead => Outcome::Bad,
                    _ if *outcome == Outcome::Over && row.life != Life::Ended => Outcome::Again,
                    _ => *outcome,
                };
                continue;
            }
            if row.answered_at < at {
                row.life = if *outcome == Outcome::Over { Life::Ended } else { Life::Live };
            }
            row.answered_at = at;
        }
    }

    fn settle(&self, state: &mut State, held: &Held, outcomes: &[Outcome]) {
        let due = self.kinds.due(state.now, false);
        let verdict = |outcome: &Outcome| match outcome {
            Outcome::Again => Verdict::Reschedule { lane: self.kinds.own.clone(), due },
            Outcome::Over => Verdict::Finish,
            Outcome::Bad => Verdict::MarkDead { reason: String::new() },
        };
        let verdicts: Vec<_> = held.ids.iter().map(|id| job(*id)).zip(outcomes.iter().map(verdict)).collect();
        let applied = state.queue.settle(state.now, held.deadline, &verdicts);
        for ((id, (_, verdict)), applied) in held.ids.iter().zip(&verdicts).zip(applied) {
            match verdict {
                _ if !applied => tick(&self.seen.late_settles),
                Verdict::Finish => {
                    state.asked[*id] = None;
                    tick(&self.seen.lives_ended);
                }
                Verdict::MarkDead { .. } => {
                    state.asked[*id] = None;
                    tick(&self.seen.burials);
                }
                _ => self.gave_back(state, *id, due.moment(state.now)),
            }
        }
    }

    /// An id was given back, with that due: it is due no later.
    fn gave_back(&self, state: &mut State, id: usize, own: Millis) {
        if matches!(state.queue.place(&name(id)), Some(Place::Delayed { due, .. }) if due > own) {
            state.wrong = Some("a note makes an id due later than its verdict");
        }
        if state.asked[id].is_some() {
            tick(&self.seen.notes_taken);
        }
    }

    fn promote(&self, state: &mut State, id: usize, delay: Millis) {
        state.promotes += 1;
        let asked = state.now + delay;
        let before = match state.queue.place(&name(id)) {
            Some(Place::Delayed { due, .. }) => due,
            _ => Millis::MAX,
        };
        match state
            .queue
            .promote(state.now, &NewJob { id: name(id), lane: self.kinds.urgent.clone(), due: delay.into() })
        {
            PromoteOutcome::Moved => tick(&self.seen.moved),
            PromoteOutcome::Noted => tick(&self.seen.noted),
            PromoteOutcome::Dead | PromoteOutcome::Absent => return,
        }
        state.asked[id] = Some(asked.min(before).min(state.asked[id].unwrap_or(Millis::MAX)));
    }

    /// Promoted ids are due when they were promised to be, wherever they have been since.
    fn promises_are_kept(&self, state: &State) -> bool {
        (0..self.ids).all(|id| match (state.asked[id], state.queue.place(&name(id))) {
            (Some(asked), Some(Place::Delayed { lane, due })) => *lane == *self.kinds.urgent.name && due <= asked,
            (Some(_), place) => matches!(place, Some(Place::Leased { .. })),
            (None, _) => true,
        })
    }

    fn each_id_is_somewhere(&self, state: &State) -> bool {
        (0..self.ids).all(|id| {
            let life = state.rows[id].life;
            match state.queue.place(&name(id)) {
                Some(Place::Dead { .. }) => life == Life::Dead,
                Some(_) => true,
                None => state.starting[id] || matches!(life, Life::Unknown | Life::Ended | Life::Dead),
            }
        })
    }
}

fn held(doing: &Doing) -> Option<&Held> {
    match doing {
        Doing::Claimed(held) | Doing::Answered(held, ..) | Doing::Saved(held, _) | Doing::Releasing(held) => Some(held),
        Doing::Idle | Doing::Asked(_) => None,
    }
}

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            tokens: 0,
            queue: QueueModel::with(self.rules),
            rows: vec![Row { life: Life::Unknown, answered_at: -1 }; self.ids],
            starting: vec![false; self.ids],
            workers: vec![Doing::Idle; self.workers],
            promotes: 0,
            asked: vec![None; self.ids],
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.ticks {
            actions.push(Action::Tick);
        }
        for id in 0..self.ids {
            if state.starting[id] {
                actions.push(Action::Schedule(id));
            } else if matches!(state.rows[id].life, Life::Unknown | Life::Ended) {
                actions.push(Action::Record(id));
            }
        }
        if state.promotes < self.promotes {
            let both = |id| [0, 2 * INTERVAL].map(|delay| Action::Promote { id, delay });
            actions.extend((0..self.ids).flat_map(both));
        }
        for (worker, doing) in state.workers.iter().enumerate() {
            if !matches!(doing, Doing::Idle) {
                actions.push(Action::Crash(worker));
            }
            // A call takes a tick: nobody knows its answer before.
            if matches!(doing, Doing::Answered(_, at, _) if *at >= state.now) {
                continue;
            }
            for reply_lost in [false, true] {
                match doing {
                    Doing::Idle if state.tokens >= self.claims => {}
                    Doing::Idle | Doing::Asked(_) => actions.push(Action::Claim { worker, reply_lost }),
                    Doing::Claimed(_) | Doing::Releasing(_) => actions.push(Action::Release { worker, reply_lost }),
                    Doing::Answered(..) if self.habits.saved_first => {
                        actions.push(Action::Release { worker, reply_lost });
                    }
                    Doing::Answered(..) | Doing::Saved(..) => actions.push(Action::Settle { worker, reply_lost }),
                }
            }
            match doing {
                Doing::Claimed(held) => {
                    let all = outcomes(held.ids.len()).into_iter();
                    actions.extend(all.map(|outcomes| Action::LookUp { worker, outcomes }));
                }
                Doing::Answered(..) => actions.push(Action::Save(worker)),
                _ => {}
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.now += 1,
            Action::Record(id) => {
                state.rows[id].life = Life::Live;
                state.starting[id] = true;
            }
            Action::Schedule(id) => {
                let new = NewJob { id: name(id), lane: self.kinds.own.clone(), due: self.kinds.due(state.now, true) };
                let leased = state.queue.schedule(state.now, &new) == ScheduleOutcome::Leased;
                state.starting[id] = leased && self.habits.scheduled_when_let_go;
            }
            Action::Promote { id, delay } => self.promote(&mut state, id, delay),
            Action::Claim { worker, reply_lost } => {
                if !self.claim(&mut state, worker, reply_lost) {
                    return None;
                }
            }
            Action::LookUp { worker, outcomes } => {
                let Doing::Claimed(held) = last.workers[worker].clone() else { return None };
                let latest = if self.habits.dated_inside_the_lease { held.deadline - 1 } else { Millis::MAX };
                state.workers[worker] = Doing::Answered(held, state.now.min(latest), outcomes);
            }
            Action::Save(worker) => {
                let Doing::Answered(held, at, mut outcomes) = last.workers[worker].clone() else { return None };
                self.save(&mut state, &held, at, &mut outcomes);
                let done = Doing::Saved(held, outcomes);
                state.workers[worker] = if self.habits.saved_first { done } else { Doing::Idle };
            }
            Action::Settle { worker, reply_lost } => {
                let (Doing::Saved(held, outcomes) | Doing::Answered(held, _, outcomes)) = last.workers[worker].clone()
                else {
                    return None;
                };
                self.settle(&mut state, &held, &outcomes);
                if !reply_lost && self.habits.saved_first {
                    state.workers[worker] = Doing::Idle;
                }
            }
            Action::Release { worker, reply_lost } => {
                let held = held(&last.workers[worker])?;
                let jobs: Vec<_> = held.ids.iter().map(|id| job(*id)).collect();
                let applied = state.queue.release(state.now, held.deadline, &jobs);
                for (id, _) in held.ids.iter().zip(applied).filter(|(_, applied)| *applied) {
                    self.gave_back(&mut state, *id, 0);
                }
                state.workers[worker] = if reply_lost { Doing::Releasing(held.clone()) } else { Doing::Idle };
            }
            Action::Crash(worker) => state.workers[worker] = Doing::Idle,
        }
        let went_back = |(before, after): (&Row, &Row)| after.answered_at < before.answered_at;
        if last.rows.iter().zip(&state.rows).any(went_back) {
            state.wrong = Some("an answer is overwritten by an older one");
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_PLACE, Self::each_id_is_somewhere),
            Property::always(PROMISES, Self::promises_are_kept),
            Property::always(NO_WRONG_STEP, |_, state: &State| state.wrong.is_none()),
        ]
    }
}

const ONE_PLACE: &str = "each id is in one place, or its life has ended and the store says so";
const NO_WRONG_STEP: &str = "no two hold one id, fences are unique, answers get newer";
const PROMISES: &str = "a promoted id is leased, or in its lane and due no later than asked";

fn small(workers: usize, ids: usize, ticks: Millis, claims: u8) -> Small {
    let kinds = Kinds::plain();
    Small {
        workers,
        ids,
        ticks,
        claims,
        promotes: 0,
        kinds,
        rules: Rules::default(),
        habits: GOOD,
        seen: Arc::default(),
    }
}

/// Checks all there is, and says how much that was.
fn holds(what: &str, model: Small) {
    let (watch, seen, promotes) = (Stopwatch::start(), model.seen.clone(), model.promotes);
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    println!(
        "{what}: {} states, {} of them distinct, up to {} steps deep, in {:?}; on the way {seen:?}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        watch.elapsed()
    );
    let of_leases = [&seen.batches, &seen.batches_answered_again, &seen.leases_run_out, &seen.late_settles];
    let of_answers = [&seen.late_answers, &seen.lives_ended, &seen.burials];
    let of_promotes = [&seen.moved, &seen.noted, &seen.notes_taken];
    let promoting = of_promotes.into_iter().filter(|_| promotes > 0);
    for counter in of_leases.into_iter().chain(of_answers).chain(promoting) {
        assert!(counter.load(Ordering::Relaxed) > 0, "{seen:?}");
    }
}

#[test]
fn two_workers_and_one_id() {
    holds("two workers, one id", small(2, 1, 5, 3));
}

#[test]
fn two_workers_and_one_id_that_is_promoted() {
    holds("two workers, one id, two promotes", Small { promotes: 2, ..small(2, 1, 4, 2) });
}

#[test]
fn three_workers_and_one_id() {
    holds("three workers, one id", small(3, 1, 4, 2));
}

#[test]
fn two_workers_and_two_ids() {
    holds("two workers, two ids", small(2, 2, 3, 2));
}

/// One id at a time, out of two lanes: visits in a later tier, and newcomers before them.
fn tiers() -> Kinds {
    Kinds {
        own: lane("~only").with_order(Order::OldestFirst).with_tier(1),
        urgent: lane("urgent").with_order(Order::NewestFirst),
        limit: Some(1),
        early: 0.0,
    }
}

/// What is due in two ticks may be claimed.
fn early() -> Kinds {
    let urgent = lane("urgent").with_order(Order::NewestFirst);
    Kinds { urgent, limit: Some(1), early: 2.0, ..Kinds::plain() }
}

#[test]
fn two_ids_in_lanes_of_several_kinds() {
    holds("two tiers, oldest and newest first", Small { promotes: 2, kinds: tiers(), ..small(1, 2, 3, 2) });
    let model = Small { promotes: 1, kinds: early(), ..small(1, 2, 3, 3) };
    let seen = model.seen.clone();
    holds("early claims", model);
    assert!(seen.early.load(Ordering::Relaxed) > 0, "{seen:?}");
}

/// The shortest way to break an invariant without one of the rules.
fn breaks(what: &str, property: &'static str, model: Small) {
    let found = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = found.assert_any_discovery(property);
    println!("{what}: {:?}", path.into_actions());
}

#[test]
fn without_one_of_its_rules_an_invariant_breaks() {
    let (well, rules) = (small(2, 1, 4, 3), Rules::default());
    let with = |rules: Rules, habits: Habits| Small { rules, habits, ..well.clone() };
    breaks("the fence is not checked", ONE_PLACE, with(Rules { fence_checked: false, ..rules }, GOOD));
    let dated_when_read = Habits { dated_inside_the_lease: false, ..GOOD };
    breaks("answers are dated when they are read", ONE_PLACE, with(rules, dated_when_read));
    breaks("settled before saved", ONE_PLACE, with(rules, Habits { saved_first: false, ..GOOD }));
    let scheduled_once = Habits { scheduled_when_let_go: false, ..GOOD };
    breaks("leased is taken for scheduled", ONE_PLACE, with(rules, scheduled_once));
    let promoting = |rules: Rules| Small { promotes: 1, ..with(rules, GOOD) };
    let forgetful = Rules { note_outlives_lease: false, ..rules };
    breaks("a note ends with its lease", PROMISES, promoting(forgetful));
    let newer = Rules { earlier_due_wins: false, ..rules };
    breaks("a promote makes a job due later", PROMISES, promoting(newer));
    breaks("a note makes a job due later", NO_WRONG_STEP, promoting(newer));
    let kinds = |kinds: Kinds, rules: Rules| Small { promotes: 2, kinds, rules, ..small(1, 2, 3, 3) };
    breaks("tiers count for nothing", NO_WRONG_STEP, kinds(tiers(), Rules { tiers_are_strict: false, ..rules }));
    breaks("the newest waits", NO_WRONG_STEP, kinds(tiers(), Rules { newest_first: false, ..rules }));
    breaks("any lane lends", NO_WRONG_STEP, kinds(early(), Rules { only_timed_lend: false, ..rules }));
}
