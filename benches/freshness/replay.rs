//! A population in simulated time: items come at a steady rate, are refreshed by a policy under a quota, and leave.
//!
//! So that the population is stationary, items come evenly for a lifetime and the normaliser's days before the
//! measured ones, and for a lifetime after them. The measured ones are the test half, each once (small sets: some
//! times, so that there are a thousand items), in a shuffled order over ten days; the others are the same cascades
//! again, in orders of their own. What is missed is summed for the measured ones alone, to the end of their horizon;
//! calls are counted over all items, from the first measured one's coming to the last one's end.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::adaptive::budget::{Normaliser, Spending};
use twitter_updater::engine::schedule::adaptive::train::Cascade;
use twitter_updater::engine::schedule::history::{Answer, History};

use super::data::Set;
use super::policy::Policy;

const DAY: Millis = 86_400_000;
/// Days over which the measured items come.
pub const MEASURED_DAYS: Millis = 10;
/// Days before them, beside a lifetime.
const NORMALISER_DAYS: Millis = 10;
/// Items that come in those days, at least.
const FEWEST: usize = 1_000;
/// How often a quota is looked at, ms.
const TICK: Millis = 15_000;
/// A quota's window: what was not used within it is lost.
const WINDOW: Millis = 15 * 60_000;

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Missed interactions per measured item and moment.
    pub missed: f64,
    /// Calls per day in the measured time, all items.
    pub calls: f64,
    /// The normaliser at the end.
    pub normaliser: Normaliser,
}

/// A queue as the house's: due times by lane, and who goes first by (now − due) ÷ patience. The seam where another
/// one may be put.
pub trait Queue {
    /// Puts an item in.
    fn put(&mut self, patience: Millis, due: Millis, item: usize);
    /// Takes the due item that has waited for most of its patience.
    fn take(&mut self, now: Millis) -> Option<(usize, Millis)>;
    /// With calls to spare: takes the item that is nearest to its due time by its patience, if not more than half of
    /// that is left.
    fn take_early(&mut self, now: Millis) -> Option<(usize, Millis)>;
}

/// The simplest one.
#[derive(Debug, Default)]
pub struct Lanes(BTreeMap<Millis, BTreeSet<(Millis, usize)>>);

impl Queue for Lanes {
    fn put(&mut self, patience: Millis, due: Millis, item: usize) {
        self.0.entry(patience.max(1)).or_default().insert((due, item));
    }

    fn take(&mut self, now: Millis) -> Option<(usize, Millis)> {
        let heads = self.0.iter().filter_map(|(patience, jobs)| jobs.first().map(|head| (*patience, *head)));
        let waited = |(patience, head): &(Millis, (Millis, usize))| (now - head.0) as f64 / *patience as f64;
        let (patience, head) =
            heads.filter(|(_, head)| head.0 <= now).max_by(|one, other| waited(one).total_cmp(&waited(other)))?;
        self.0.get_mut(&patience)?.remove(&head);
        Some((head.1, head.0))
    }

    fn take_early(&mut self, now: Millis) -> Option<(usize, Millis)> {
        let heads = self.0.iter().filter_map(|(patience, jobs)| jobs.first().map(|head| (*patience, *head)));
        let left = |(patience, head): &(Millis, (Millis, usize))| (head.0 - now) as f64 / *patience as f64;
        let (patience, head) = heads.min_by(|one, other| left(one).total_cmp(&left(other)))?;
        (left(&(patience, head)) <= 0.5).then(|| self.0.get_mut(&patience).map(|jobs| jobs.remove(&head)))?;
        Some((head.1, head.0))
    }
}

struct Item {
    cascade: usize,
    is_measured: bool,
    history: History,
    /// The time of the last answer, or of its coming.
    since: Millis,
}

struct Run<'a> {
    cascades: &'a [Cascade],
    horizon: Millis,
    /// Calls count from here to there.
    measured: (Millis, Millis),
    items: Vec<Item>,
    queue: Lanes,
    calls: f64,
    missed: f64,
    day: Spending,
}

/// How often each cascade comes in ten days: so often that there are a thousand of them, as a quota shared by a
/// handful of items would be a matter of luck.
fn copies(set: &Set) -> usize {
    FEWEST.div_ceil(set.cascades.len().max(1))
}

/// When a cascade comes, ms, which one, and whether it is measured.
type Arrival = (Millis, usize, bool);

/// Who comes when; and from when to when calls count.
fn arrivals(set: &Set, random: &mut StdRng) -> (Vec<Arrival>, (Millis, Millis)) {
    let copies = copies(set);
    let count = set.cascades.len() * copies;
    let before = (set.horizon / DAY + NORMALISER_DAYS) / MEASURED_DAYS + 1;
    let after = set.horizon / DAY / MEASURED_DAYS + 1;
    let cycle = MEASURED_DAYS * DAY;
    let mut all = Vec::new();
    for turn in 0..=before + after {
        let mut order: Vec<usize> = (0..count).map(|at| at % set.cascades.len()).collect();
        order.shuffle(random);
        for (at, cascade) in order.into_iter().enumerate() {
            let share = (at as f64 + random.random::<f64>()) / count as f64;
            all.push((turn * cycle + (share * cycle as f64) as Millis, cascade, turn == before));
        }
    }
    all.sort_unstable();
    let start = before * cycle;
    (all, (start, start + cycle + set.horizon))
}

/// Lives a population by that policy. `quota`: calls a day at most, if any.
pub fn replay(set: &Set, policy: &mut Policy, quota: Option<f64>) -> Outcome {
    let mut random = StdRng::seed_from_u64(5);
    let (arrivals, measured) = arrivals(set, &mut random);
    let mut run = Run {
        cascades: &set.cascades,
        horizon: set.horizon,
        measured,
        items: Vec::with_capacity(arrivals.len()),
        queue: Lanes::default(),
        calls: 0.0,
        missed: 0.0,
        day: Spending::default(),
    };
    let per_tick = quota.map(|quota| quota * TICK as f64 / DAY as f64);
    let mut permits = 0.0f64;
    let mut coming = arrivals.into_iter().peekable();
    let mut now = 0;
    while now < measured.1 {
        while let Some((at, cascade, is_measured)) = coming.next_if(|next| next.0 <= now) {
            run.come(policy, at, cascade, is_measured);
        }
        permits = per_tick.map_or(f64::INFINITY, |more| (permits + more).min((more * (WINDOW / TICK) as f64).max(1.0)));
        while permits >= 1.0 {
            // Without a quota a call is made at its due time, which the tick only follows; with one, none is left
            // unused.
            let mut next = run.queue.take(now);
            if next.is_none() && quota.is_some() {
                next = run.queue.take_early(now);
            }
            let Some((item, due)) = next else { break };
            run.refresh(policy, item, due, if quota.is_some() { now } else { due });
            permits -= 1.0;
        }
        let next = now + TICK;
        if next.div_euclid(DAY) > now.div_euclid(DAY) {
            policy.day_ends(&run.day);
            run.day = Spending::default();
        }
        now = next;
    }
    run.end();
    let days = (measured.1 - measured.0) as f64 / DAY as f64;
    let moments = (set.cascades.len() * copies(set)) as f64 * set.horizon as f64 / 1e3;
    Outcome { missed: run.missed / moments, calls: run.calls / days, normaliser: policy.normaliser() }
}

impl Run<'_> {
    fn come(&mut self, policy: &Policy, at: Millis, cascade: usize, is_measured: bool) {
        let history = History { created_at: Some(at), ..History::default() };
        let item = self.items.len();
        if let Some((patience, interval, recent)) = policy.next(cascade, &history, at) {
            self.queue.put(patience, at + interval, item);
            self.items.push(Item { cascade, is_measured, history: History { recent, ..history }, since: at });
        }
    }

    fn refresh(&mut self, policy: &Policy, at: usize, due: Millis, now: Millis) {
        let (horizon, measured) = (self.horizon, self.measured);
        self.calls += f64::from(u8::from(now >= measured.0 && now < measured.1));
        let item = &mut self.items[at];
        let created_at = item.history.created_at.unwrap_or(0);
        let cascade = &self.cascades[item.cascade];
        if item.is_measured {
            self.missed += cascade.missed(item.since - created_at, (now - created_at).min(horizon));
        }
        item.since = now;
        item.history.before = item.history.last;
        item.history.last = Some(Answer { at: now, count: cascade.count(now - created_at) });
        if let Some(schedule) = policy.adaptive_schedule() {
            self.day = self.day.plus(schedule.spending(&item.history, Some(due)));
        }
        if let Some((patience, interval, recent)) = policy.next(item.cascade, &item.history, now) {
            item.history.recent = recent;
            self.queue.put(patience, now + interval, at);
        }
    }

    /// What was never looked at again is missed up to the horizon.
    fn end(&mut self) {
        for item in self.items.iter().filter(|item| item.is_measured) {
            let created_at = item.history.created_at.unwrap_or(0);
            let from = item.since - created_at;
            if from < self.horizon {
                self.missed += self.cascades[item.cascade].missed(from, self.horizon);
            }
        }
    }
}
