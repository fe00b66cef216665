//! People in simulated time: who is visited when, and how long their posts waited.
//!
//! A week before the measured half begins each person has a first visit, which shows all that came before, and is visited
//! by the policy from then on; what happens after the split counts. Posts that no visit found count up to the end.

use std::time::Duration;

use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::{ClaimRequest, Due, NewJob, Verdict};
use twitter_updater::engine::schedule::adaptive::budget::{Normaliser, Spending};
use twitter_updater::engine::schedule::visits::Visits;
use twitter_updater::engine::schedule::visits::coefficients::Coefficients;
use twitter_updater::engine::schedule::visits::forecast::Forecast;
use twitter_updater::engine::schedule::visits::rhythm::{DAY, Rhythm};
use twitter_updater::engine::schedule::{Budgeted, Schedule, ScheduledItem};

use super::data::{Person, Set};
use crate::support::queue_model::{Claimed, QueueModel};

/// Days that a policy runs before it is measured.
const WARM_UP: Millis = 7 * DAY;

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// From post to visit, hours.
    pub mean_h: f64,
    pub p95_h: f64,
    /// Visits of a person and day.
    pub calls: f64,
    /// Posts of a visit.
    pub per_call: f64,
    /// Share of the quota that was used, where there was one.
    pub used: f64,
    /// Share of the posts that were the newest at a visit: what an API that shows one post of a person collects; and its
    /// mean over people.
    pub newest: [f64; 2],
}

#[derive(Debug, Default)]
struct Sums {
    delays: Vec<Millis>,
    visits: f64,
    days: f64,
    newest: f64,
    shares: Vec<f64>,
}

impl Sums {
    fn outcome(mut self) -> Outcome {
        let count = self.delays.len().max(1);
        let mean = self.delays.iter().map(|delay| *delay as f64).sum::<f64>() / count as f64;
        let at = (count * 95 / 100).min(self.delays.len().saturating_sub(1));
        let p95 = if self.delays.is_empty() { 0 } else { *self.delays.select_nth_unstable(at).1 };
        Outcome {
            mean_h: mean / 3_600_000.0,
            p95_h: p95 as f64 / 3_600_000.0,
            calls: self.visits / self.days,
            per_call: self.delays.len() as f64 / self.visits,
            used: 1.0,
            newest: [self.newest / count as f64, self.shares.iter().sum::<f64>() / self.shares.len().max(1) as f64],
        }
    }
}

/// One person under visits.
struct Visited<'a> {
    person: &'a Person,
    rhythm: Rhythm,
    id: String,
    seen: Millis,
    newest: usize,
}

impl<'a> Visited<'a> {
    fn new(at: usize, person: &'a Person) -> Self {
        let rhythm = Rhythm::new(person.observed.from);
        Self { person, rhythm, id: at.to_string(), seen: person.observed.from, newest: 0 }
    }

    fn start(&self) -> Millis {
        (self.person.split - WARM_UP).max(self.person.observed.from)
    }

    fn visit(&mut self, now: Millis, visits: &Visits, sums: &mut Sums) {
        let Person { observed, split, .. } = self.person;
        let found = observed.events_between(self.seen, now);
        if now >= *split {
            sums.visits += 1.0;
            let measured = found.iter().filter(|event| *event >= split);
            sums.delays.extend(measured.map(|event| now - event));
            self.newest += usize::from(found.last().is_some_and(|last| last >= split));
        }
        self.rhythm.record_visit(found, now, &visits.options().classes);
        self.seen = now;
    }

    fn known(&self) -> ScheduledItem<'_> {
        ScheduledItem { rhythm: Some(&self.rhythm), ..ScheduledItem::new(&self.id, None) }
    }

    fn end(self, sums: &mut Sums) {
        let Person { observed, split, .. } = self.person;
        let rest = observed.events_between(self.seen.max(*split), observed.until + 1);
        sums.delays.extend(rest.iter().map(|event| observed.until - event));
        sums.days += (observed.until - split) as f64 / DAY as f64;
        sums.newest += self.newest as f64;
        let all = observed.events_between(*split, observed.until + 1).len();
        if all > 0 {
            sums.shares.push(self.newest as f64 / all as f64);
        }
    }
}

/// The next visit by the true rates.
fn by_truth(certain: &Coefficients, visits: &Visits, person: &Person, now: Millis) -> Millis {
    let (rate, hours) = person.truth.unwrap();
    let options = visits.options();
    Forecast::from_rate(certain, &hours, rate, now).interval(visits.price(), options.shortest, options.longest)
}

/// A part of an interval, the same for each person: people do not start at the same moment.
fn phase(at: usize) -> f64 {
    (at as f64 * 0.618_033_988_75).fract()
}

/// Each person alone, without a quota. `certain`: by the true rates.
pub fn alone(set: &Set, visits: &Visits, certain: Option<&Coefficients>) -> Outcome {
    let mut sums = Sums::default();
    for (at, person) in set.people.iter().enumerate() {
        let mut one = Visited::new(at, person);
        let mut now = one.start() + (phase(at) * visits.options().every.min(WARM_UP) as f64) as Millis;
        while now < person.observed.until {
            one.visit(now, visits, &mut sums);
            now += match certain {
                Some(certain) => by_truth(certain, visits, person, now),
                None => visits.next(&one.known(), now).unwrap().1.max(1),
            };
        }
        one.end(&mut sums);
    }
    sums.outcome()
}

/// The price at which `per_day` visits of a person and day are made, as a multiple of the schedule's own, and what comes of it.
pub fn at_calls(set: &Set, visits: &Visits, per_day: f64, certain: Option<&Coefficients>) -> (f64, Outcome) {
    let at = |price: f64| alone(set, &visits.clone().with_normaliser(Normaliser { price, level: 1.0 }), certain);
    let (mut price, mut outcome) = (1.0, at(1.0));
    for _ in 0..8 {
        let off = outcome.calls / per_day;
        if (off - 1.0).abs() < 0.003 {
            break;
        }
        price *= off.powi(2).clamp(0.05, 20.0);
        outcome = at(price);
    }
    (price, outcome)
}

/// A quota's window: what was not used within it is lost.
const WINDOW: Millis = 15 * 60_000;
const LEASE: Duration = Duration::from_secs(60);

/// A hard quota of `per_day` visits of a person and day, spread evenly over time. The queue is the reference
/// (`tests/it/support/queue_model.rs`), the price is corrected each day as in the product.
pub fn at_quota(set: &Set, visits: &Visits, per_day: f64) -> Outcome {
    let mut people: Vec<Visited<'_>> = set.people.iter().enumerate().map(|(at, one)| Visited::new(at, one)).collect();
    let mut order: Vec<usize> = (0..people.len()).collect();
    order.sort_by_key(|at| people[*at].start());
    let mut coming = order.into_iter().peekable();
    let end = set.people.iter().map(|person| person.observed.until).max().unwrap_or(0);
    let mut now = coming.peek().map_or(0, |at| people[*at].start());
    let (mut sums, mut queue, mut day) = (Sums::default(), QueueModel::default(), Spending::default());
    let (mut visits, mut normaliser) = (visits.clone(), Normaliser::default());
    let mut present: Vec<usize> = Vec::new();
    let (mut given, mut used, mut owed, mut turn) = (0.0, 0.0, 0.0, 0u64);
    while now < end {
        while let Some(at) = coming.next_if(|at| people[*at].start() <= now) {
            let (lane, _) = visits.first(&people[at].known(), now).unwrap();
            let due = Due::In((phase(at) * visits.options().every.min(WARM_UP) as f64) as Millis);
            queue.schedule(now, &NewJob { id: at.to_string(), lane, due });
            present.push(at);
        }
        present.retain(|at| {
            let stays = people[*at].person.observed.until > now;
            if !stays {
                queue.forget(&at.to_string());
            }
            stays
        });
        owed += present.len() as f64 * per_day * WINDOW as f64 / DAY as f64;
        let permits = owed.floor();
        owed -= permits;
        for permit in 0..permits as u64 {
            let at = now + (WINDOW as f64 * (permit as f64 + 0.5) / permits) as Millis;
            let is_measured = present.first().is_some_and(|first| at >= people[*first].person.split);
            given += f64::from(u8::from(is_measured));
            turn += 1;
            let token = turn.to_string();
            let early = visits.quota_use().max_earliness;
            let request =
                ClaimRequest { token: &token, limit: 1, linger: Duration::ZERO, lookahead: 0.0, early, lease: LEASE };
            let Claimed::Batch { deadline, jobs, .. } = queue.claim(at, &request) else { continue };
            let settled = jobs.into_iter().map(|job| {
                let one = &mut people[job.id.parse::<usize>().unwrap()];
                one.visit(at, &visits, &mut sums);
                day = day.plus(visits.spending(&one.known(), job.due).unwrap_or_default());
                let (lane, delay) = visits.next(&one.known(), at).unwrap();
                (job, Verdict::Reschedule { lane, due: Due::In(delay) })
            });
            let verdicts: Vec<_> = settled.collect();
            used += f64::from(u8::from(is_measured));
            assert!(queue.settle(at, deadline, &verdicts).into_iter().all(|settled| settled));
        }
        if (now + WINDOW).div_euclid(DAY) > now.div_euclid(DAY) {
            normaliser = normaliser.after_day(&day, 1.0);
            day = Spending::default();
            visits = visits.with_normaliser(normaliser);
        }
        now += WINDOW;
    }
    people.into_iter().for_each(|one| one.end(&mut sums));
    Outcome { used: used / given, ..sums.outcome() }
}
