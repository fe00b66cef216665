//! A population in simulated time: items come at a steady rate, are refreshed by a policy under a quota, and leave.
//! The queue is the reference, the one that the contract's tests hold both backends to: claims of up to 100 ids, by its
//! rules, and every answer settled at the moment of the claim.
//!
//! So that the population is stationary, items come evenly for a lifetime and the normaliser's days before the
//! measured ones, and for a lifetime after them. The measured ones are the test half, each once (small sets: some
//! times, so that there are a thousand items), in a shuffled order over ten days; the others are the same cascades
//! again, in orders of their own. What is missed is summed for the measured ones alone, to the end of their horizon;
//! calls are counted over all items, from the first measured one's coming to the last one's end.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::{ClaimRequest, Due, Job, NewJob, Verdict};
use twitter_updater::engine::schedule::adaptive::budget::{Normaliser, Spending};
use twitter_updater::engine::schedule::adaptive::train::Cascade;
use twitter_updater::engine::schedule::history::{Answer, History};

use super::data::Set;
use super::policy::Policy;
use crate::support::queue_model::{Claimed, QueueModel};

const DAY: Millis = 86_400_000;
/// Days over which the measured items come.
pub const MEASURED_DAYS: Millis = 10;
/// Days before them, beside a lifetime.
const NORMALISER_DAYS: Millis = 10;
/// Items that come in those days, at least.
const FEWEST: usize = 1_000;
/// The longest time without a claim, ms.
const TICK: Millis = 5_000;
/// A quota's window: what was not used within it is lost.
const WINDOW: Millis = 15 * 60_000;
/// Ids in a claim at most.
pub const BATCH: usize = 100;
/// `buffer_ttl`, by default.
const LINGER: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(60);

/// Terms on which calls are made.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Ids a day at most.
    pub quota: Option<f64>,
    /// The number of ids that the quota must permit before the next claim.
    pub fewest: usize,
    /// The queue's lookahead while there is no quota.
    pub lookahead: f64,
    /// Each item comes so many times as often as [`FEWEST`] asks for.
    pub times: usize,
    /// Only the measured items come, within one day: a campaign, or an import of new ones.
    pub is_cohort: bool,
}

/// Under a hard quota a claim may take ids so early, as a share of their lane's patience.
const EARLY: f64 = 0.25;

impl Terms {
    /// A claim for each id that comes due: no lookahead, and no waiting for a quota to permit a hundred.
    pub const ONE_BY_ONE: Self = Self { quota: None, fewest: 1, lookahead: 0.0, times: 1, is_cohort: false };

    pub fn with(self, quota: Option<f64>) -> Self {
        Self { quota, ..self }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Missed interactions per measured item and moment.
    pub missed: f64,
    /// Calls per day in the measured time, all items: ids that were looked up.
    pub calls: f64,
    /// Ids in a claim.
    pub per_claim: f64,
    /// The normaliser at the end.
    pub normaliser: Normaliser,
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
    queue: QueueModel,
    claims: u64,
    claimed: usize,
    calls: f64,
    missed: f64,
    day: Spending,
}

/// How often each cascade comes in ten days: so often that there are a thousand of them, as a quota shared by a
/// handful of items would be a matter of luck.
fn copies(set: &Set, times: usize) -> usize {
    FEWEST.div_ceil(set.cascades.len().max(1)) * times
}

/// When a cascade comes, ms, which one, and whether it is measured.
type Arrival = (Millis, usize, bool);

/// Who comes when; and from when to when calls count.
fn arrivals(set: &Set, terms: Terms, random: &mut StdRng) -> (Vec<Arrival>, (Millis, Millis)) {
    let count = set.cascades.len() * copies(set, terms.times);
    if terms.is_cohort {
        let mut all: Vec<Arrival> =
            (0..count).map(|at| (random.random_range(0..DAY), at % set.cascades.len(), true)).collect();
        all.sort_unstable();
        return (all, (0, DAY + set.horizon));
    }
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

/// Lives a population by that policy.
pub fn replay(set: &Set, policy: &mut Policy, terms: Terms) -> Outcome {
    let mut random = StdRng::seed_from_u64(5);
    let (arrivals, measured) = arrivals(set, terms, &mut random);
    let mut run = Run {
        cascades: &set.cascades,
        horizon: set.horizon,
        measured,
        items: Vec::with_capacity(arrivals.len()),
        queue: QueueModel::default(),
        claims: 0,
        claimed: 0,
        calls: 0.0,
        missed: 0.0,
        day: Spending::default(),
    };
    let per_ms = terms.quota.map(|quota| quota / DAY as f64);
    let most = per_ms.map_or(f64::INFINITY, |per_ms| (per_ms * WINDOW as f64).max(terms.fewest as f64));
    let mut permits = per_ms.map_or(f64::INFINITY, |_| 0.0);
    let mut coming = arrivals.into_iter().peekable();
    let mut now = 0;
    while now < measured.1 {
        while let Some((at, cascade, is_measured)) = coming.next_if(|next| next.0 <= now) {
            run.come(policy, at, cascade, is_measured);
        }
        let mut wait = TICK;
        while permits >= terms.fewest as f64 {
            let limit = (permits as usize).min(BATCH);
            match run.claim(policy, now, limit, terms) {
                Ok(ids) => {
                    permits -= ids as f64;
                    // A short claim leaves nothing behind.
                    if ids < limit {
                        break;
                    }
                }
                Err(until) => {
                    wait = until;
                    break;
                }
            }
        }
        let mut next = now + wait.min(TICK);
        if terms.quota.is_none() {
            // Until then there is nothing to claim.
            let arrival = coming.peek().map_or(measured.1, |next| next.0);
            next = next.max(run.queue.next_due().map_or(arrival, |due| due.min(arrival)));
        }
        permits = per_ms.map_or(permits, |per_ms| (permits + per_ms * (next - now) as f64).min(most));
        if next.div_euclid(DAY) > now.div_euclid(DAY) {
            policy.day_ends(&run.day);
            run.day = Spending::default();
        }
        now = next;
    }
    run.end();
    let days = (measured.1 - measured.0) as f64 / DAY as f64;
    let moments = (set.cascades.len() * copies(set, terms.times)) as f64 * set.horizon as f64 / 1e3;
    Outcome {
        missed: run.missed / moments,
        calls: run.calls / days,
        per_claim: run.claimed as f64 / run.claims as f64,
        normaliser: policy.normaliser(),
    }
}

impl Run<'_> {
    fn come(&mut self, policy: &Policy, at: Millis, cascade: usize, is_measured: bool) {
        let history = History { created_at: Some(at), ..History::default() };
        let item = self.items.len();
        if let Some((lane, interval, recent)) = policy.next(cascade, &history, at) {
            self.queue.schedule(at, &NewJob { id: item.to_string(), lane, due: Due::In(interval) });
            self.items.push(Item { cascade, is_measured, history: History { recent, ..history }, since: at });
        }
    }

    /// Claims a batch, looks it up and settles it, all in one moment; the number of its ids, or how long to wait.
    fn claim(&mut self, policy: &Policy, now: Millis, limit: usize, terms: Terms) -> Result<usize, Millis> {
        let early = if terms.quota.is_some() { EARLY } else { 0.0 };
        let token = self.claims.to_string();
        let lookahead = terms.lookahead;
        let request = ClaimRequest { token: &token, limit, linger: LINGER, lookahead, early, lease: LEASE };
        let (deadline, jobs) = match self.queue.claim(now, &request) {
            Claimed::Batch { deadline, jobs, .. } => (deadline, jobs),
            Claimed::Empty { wait, .. } => return Err(wait),
        };
        self.claims += 1;
        self.claimed += jobs.len();
        let verdicts: Vec<(Job, Verdict)> =
            jobs.into_iter().map(|job| (job.clone(), self.refresh(policy, &job, now))).collect();
        assert!(self.queue.settle(now, deadline, &verdicts).into_iter().all(|settled| settled));
        Ok(verdicts.len())
    }

    fn refresh(&mut self, policy: &Policy, job: &Job, now: Millis) -> Verdict {
        let (horizon, measured) = (self.horizon, self.measured);
        self.calls += f64::from(u8::from(now >= measured.0 && now < measured.1));
        let item = &mut self.items[job.id.parse::<usize>().unwrap()];
        let created_at = item.history.created_at.unwrap_or(0);
        let cascade = &self.cascades[item.cascade];
        if item.is_measured {
            self.missed += cascade.loss(item.since - created_at, (now - created_at).min(horizon));
        }
        item.since = now;
        item.history.before = item.history.last;
        item.history.last = Some(Answer { at: now, count: cascade.count(now - created_at) });
        if let Some(schedule) = policy.adaptive_schedule() {
            self.day = self.day.plus(schedule.spending(&item.history, Some(job.due)));
        }
        let Some((lane, interval, recent)) = policy.next(item.cascade, &item.history, now) else {
            return Verdict::Finish;
        };
        item.history.recent = recent;
        Verdict::Reschedule { lane, due: Due::In(interval) }
    }

    /// What was never looked at again is missed up to the horizon.
    fn end(&mut self) {
        for item in self.items.iter().filter(|item| item.is_measured) {
            let created_at = item.history.created_at.unwrap_or(0);
            let from = item.since - created_at;
            if from < self.horizon {
                self.missed += self.cascades[item.cascade].loss(from, self.horizon);
            }
        }
    }
}
