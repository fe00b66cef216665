//! The specification's worker as a model: a buffer of its own, sent when it holds 100 ids or when its first
//! one has waited. A due id goes to one of the workers that are free, at random.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::{Millis, millis};
use twitter_updater::engine::schedule::age::AgeTable;

use super::demand::{Demand, Tally, Waiting, created_at, waiting};
use super::load::{LATENCY, Load};

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// It is due, or somebody is free for it.
    Due(Waiting),
    /// The first id of this worker's buffer has waited, if it has sent no more than so many since.
    TimeIsUp(usize, u64),
}

#[derive(Debug, Clone, Default)]
struct Buffer {
    tweets: Vec<Waiting>,
    sent: u64,
    busy_until: Millis,
}

pub fn run(load: Load, ages: &AgeTable) -> Tally {
    let mut rng = StdRng::seed_from_u64(load.workers as u64);
    let demand = Demand::new(ages);
    let start = 1_800_000_000_000;
    let from = start + millis(load.warm_up);
    let end = from + millis(load.measured);
    let all = waiting(&demand, load.rate, start, end - start, load.rate.to_bits());
    let mut events: BinaryHeap<Reverse<(Millis, Event)>> =
        all.into_iter().map(|waiting| Reverse((waiting.due, Event::Due(waiting)))).collect();
    let mut workers = vec![Buffer::default(); load.workers];
    let mut tally = Tally { from, ..Tally::default() };
    while let Some(Reverse((now, event))) = events.pop()
        && now < end
    {
        let worker = match event {
            Event::Due(tweet) => {
                let free: Vec<usize> = (0..workers.len()).filter(|at| workers[*at].busy_until <= now).collect();
                if free.is_empty() {
                    let next = workers.iter().map(|worker| worker.busy_until).min().unwrap_or(now);
                    events.push(Reverse((next, Event::Due(tweet))));
                    continue;
                }
                let at = free[rng.random_range(0..free.len())];
                let buffer = &mut workers[at];
                buffer.tweets.push(tweet);
                if buffer.tweets.len() == 1 {
                    events.push(Reverse((now + millis(load.linger), Event::TimeIsUp(at, buffer.sent))));
                }
                if buffer.tweets.len() < 100 {
                    continue;
                }
                at
            }
            Event::TimeIsUp(at, sent) if workers[at].sent == sent => at,
            Event::TimeIsUp(..) => continue,
        };
        let buffer = &mut workers[worker];
        buffer.sent += 1;
        let saved = now + millis(LATENCY);
        buffer.busy_until = saved;
        let counts = tally.request(now);
        for tweet in buffer.tweets.drain(..) {
            if counts {
                tally.update(&demand, tweet.id, (tweet.due, tweet.interval), now, saved);
            }
            if let Some(lane) = ages.lane(created_at(tweet.id), saved) {
                let next = Waiting { due: saved + lane.patience, id: tweet.id, interval: lane.patience };
                events.push(Reverse((next.due, Event::Due(next))));
            }
        }
    }
    tally
}
