//! Jobs of a promote, each id once.

use std::collections::HashMap;

use super::{Due, Lane, NewJob};
use crate::base::clock::Millis;

pub(super) struct Promote<'a> {
    pub id: &'a str,
    pub lane: &'a Lane,
    /// Maximum delay from now, ms; `None` if only a moment was given.
    pub delay: Option<Millis>,
    /// Latest due time, ms since the epoch; `None` if only a delay was given.
    pub moment: Option<Millis>,
}

/// Distinct jobs, and the position of each given job among them.
pub(super) struct DistinctPromotes<'a> {
    pub distinct: Vec<Promote<'a>>,
    places: Vec<usize>,
}

impl Promote<'_> {
    /// The earlier of its due times, at the time `now`; ms since the epoch.
    pub fn due(&self, now: Millis) -> Millis {
        let delayed = self.delay.map(|delay| now.saturating_add(delay));
        delayed.into_iter().chain(self.moment).min().unwrap_or(now)
    }

    fn bring_forward(&mut self, due: Due) {
        let (known, given) = match due {
            Due::In(delay) => (&mut self.delay, delay.max(0)),
            Due::At(moment) => (&mut self.moment, moment.max(0)),
        };
        *known = Some(known.map_or(given, |known| known.min(given)));
    }
}

impl<'a> DistinctPromotes<'a> {
    /// An id given twice gets the earlier due time and the last lane, as if one promote followed the other.
    pub fn from_jobs(jobs: &'a [NewJob]) -> Self {
        let mut distinct: Vec<Promote<'a>> = Vec::with_capacity(jobs.len());
        let mut known: HashMap<&str, usize> = HashMap::with_capacity(jobs.len());
        let place = |job: &'a NewJob| {
            let place = *known.entry(&job.id).or_insert(distinct.len());
            if place == distinct.len() {
                distinct.push(Promote { id: &job.id, lane: &job.lane, delay: None, moment: None });
            }
            distinct[place].lane = &job.lane;
            distinct[place].bring_forward(job.due);
            place
        };
        let places = jobs.iter().map(place).collect();
        Self { distinct, places }
    }

    /// The answers of the distinct jobs, repeated for the given ones.
    pub fn expand<T: Copy>(&self, of_distinct: &[T]) -> Vec<T> {
        self.places.iter().filter_map(|place| of_distinct.get(*place).copied()).collect()
    }
}
