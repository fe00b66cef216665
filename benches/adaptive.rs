//! The adaptive schedule by the default settings, and how a population spreads over its lanes.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::schedule::adaptive::budget::Normaliser;
use twitter_updater::engine::schedule::adaptive::model::Model;
use twitter_updater::engine::schedule::adaptive::{Adaptive, Decision, Options};
use twitter_updater::engine::schedule::history::{Answer, History};

/// Rates of items as multiples of the average one: the middles of ten equal parts of a log-normal population.
pub const MULTIPLIERS: [f64; 10] = [0.19, 0.35, 0.51, 0.68, 0.88, 1.13, 1.47, 1.96, 2.82, 5.18];

pub fn schedule() -> Adaptive {
    let model = Arc::new(Model::embedded().unwrap().with_derived_fields());
    Adaptive::new(crate::fill::ages(), model, Options::default(), Normaliser::default())
}

/// The decision about an item that is answered now; `None` at the end of its life.
pub fn decision(schedule: &Adaptive, created_at: Millis, now: Millis, multiplier: f64) -> Option<Decision> {
    let last = Some(Answer { at: now, count: 0.0 });
    schedule.next_with_multiplier(
        &History { created_at: Some(created_at), last, ..History::default() },
        now,
        Some(multiplier),
    )
}

/// Lanes of a population's updates, in no order, each as often as it has updates; and each lane once more, as a lane
/// that is hardly used costs something, too.
pub fn lanes_of_updates() -> Vec<Lane> {
    let schedule = schedule();
    let mut lanes: Vec<Lane> = schedule.lanes().collect();
    for multiplier in MULTIPLIERS {
        let mut age = 0;
        while let Some(Decision { lane, delay, .. }) = decision(&schedule, 0, age, multiplier) {
            lanes.push(lane);
            age += delay.max(1);
        }
    }
    lanes.shuffle(&mut StdRng::seed_from_u64(1));
    lanes
}
