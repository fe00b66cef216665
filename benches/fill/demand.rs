//! What the age table demands, and tweets as they are after a long while of it.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::age::AgeTable;
use twitter_updater::model::post::TweetId;

/// The updates that the age table demands of a tweet up to an age: its walk without lookahead and without
/// lateness, a straight line between the ages at which that walk changes its bracket.
#[derive(Debug, Clone)]
pub struct Demand {
    /// An age, the updates up to it, and the interval from there on. The last has no interval.
    corners: Vec<(Millis, f64, Millis)>,
    /// The ages of the walk's updates.
    pub walk: Vec<Millis>,
}

impl Demand {
    pub fn new(ages: &AgeTable) -> Self {
        let (mut corners, mut walk, mut age) = (Vec::<(Millis, f64, Millis)>::new(), Vec::new(), 0);
        while let Some(interval) = ages.update_delay(0, age) {
            if corners.last().is_none_or(|(.., last)| *last != interval) {
                corners.push((age, walk.len() as f64, interval));
            }
            age += interval;
            walk.push(age);
        }
        corners.push((age, walk.len() as f64, Millis::MAX));
        Self { corners, walk }
    }

    /// Updates up to this age.
    pub fn up_to(&self, age: Millis) -> f64 {
        let (from, updates, interval) =
            *self.corners.iter().rev().find(|(from, ..)| *from <= age).unwrap_or(&(0, 0.0, 1));
        updates + (age - from).max(0) as f64 / interval as f64
    }
}

/// A tweet that waits for an update.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    pub due: Millis,
    pub id: u64,
    /// The interval at whose end it is due.
    pub interval: Millis,
}

/// The tweets that are due within `span` from `start` on, those too that are made only then, of a system
/// that has had so many updates per second for longer than a tweet lives. Tweets come at random.
pub fn waiting(demand: &Demand, rate: f64, start: Millis, span: Millis, seed: u64) -> Vec<Waiting> {
    let mut rng = StdRng::seed_from_u64(seed);
    let gap = demand.walk.len() as f64 / rate * 1e3;
    let (mut all, mut sequence, mut before) = (Vec::new(), 0, 0);
    for age in &demand.walk {
        let interval = age - before;
        // Later on it is due for the second time. The newest come all the time.
        let until = if before == 0 { span } else { span.min(interval) };
        let mut at = 0.0;
        loop {
            at += -(1.0 - rng.random::<f64>()).ln() * gap;
            if at >= until as f64 {
                break;
            }
            let due = start + at as Millis;
            sequence += 1;
            all.push(Waiting { due, id: TweetId::at(due - age, sequence).get(), interval });
        }
        before = *age;
    }
    all.sort();
    all
}

pub fn created_at(id: u64) -> Millis {
    TweetId::parse(&id.to_string()).unwrap().created_at().unwrap()
}

/// What a run came to, from a moment on.
#[derive(Debug, Default)]
pub struct Tally {
    pub from: Millis,
    pub requests: u64,
    pub updates: u64,
    /// Updates that the age table demanded of the same tweets in the same time.
    pub demanded: f64,
    /// How late each was, ms; early ones below zero.
    pub lateness: Vec<Millis>,
}

impl Tally {
    pub fn request(&mut self, at: Millis) -> bool {
        let counts = at >= self.from;
        self.requests += u64::from(counts);
        counts
    }

    /// An update taken at `at` of what was due at `due` after `interval`; saved at `saved`.
    pub fn update(&mut self, demand: &Demand, id: u64, (due, interval): (Millis, Millis), at: Millis, saved: Millis) {
        let made = created_at(id);
        self.updates += 1;
        self.demanded += demand.up_to(saved - made) - demand.up_to(due - interval - made);
        self.lateness.push(at - due);
    }

    pub fn ids_per_request(&self) -> f64 {
        self.updates as f64 / self.requests as f64
    }

    /// Requests, as a multiple of what full ones for the demand alone would be.
    pub fn to_ideal(&self) -> f64 {
        self.requests as f64 * 100.0 / self.demanded
    }

    /// In seconds, early ones as 0.
    pub fn late_s(&mut self, percentile: f64) -> f64 {
        self.lateness.sort_unstable();
        let at = (self.lateness.len() as f64 * percentile / 100.0) as usize;
        self.lateness.get(at.min(self.lateness.len().saturating_sub(1))).map_or(0.0, |late| (*late).max(0) as f64 / 1e3)
    }
}
