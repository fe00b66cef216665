//! Jobs of a promote, each id once.

use std::collections::HashMap;

use super::{Lane, NewJob};
use crate::base::clock::Millis;

/// A job to promote.
pub(super) struct Wish<'a> {
    pub id: &'a str,
    pub lane: &'a Lane,
    /// How long from now until it is due at the latest, ms.
    pub delay: Millis,
}

/// Distinct jobs, and which of them each given one is.
pub(super) struct Wishes<'a> {
    pub distinct: Vec<Wish<'a>>,
    places: Vec<usize>,
}

impl<'a> Wishes<'a> {
    /// An id given twice has the earlier due and the later lane, as if one promote followed the other.
    pub fn of(jobs: &'a [NewJob]) -> Self {
        let mut distinct: Vec<Wish<'a>> = Vec::with_capacity(jobs.len());
        let mut known: HashMap<&str, usize> = HashMap::with_capacity(jobs.len());
        let place = |job: &'a NewJob| {
            let delay = job.delay.max(0);
            let place = *known.entry(&job.id).or_insert(distinct.len());
            match distinct.get_mut(place) {
                Some(wish) => (wish.lane, wish.delay) = (&job.lane, wish.delay.min(delay)),
                None => distinct.push(Wish { id: &job.id, lane: &job.lane, delay }),
            }
            place
        };
        let places = jobs.iter().map(place).collect();
        Self { distinct, places }
    }

    /// The answers to the distinct jobs as answers to the given ones.
    pub fn answers<T: Copy>(&self, of_distinct: &[T]) -> Vec<T> {
        self.places.iter().filter_map(|place| of_distinct.get(*place).copied()).collect()
    }
}
