//! Rules that choose the jobs of the next batch, or the time until one is ready. Pure.
//!
//! `lua/pick.lua` and `lua/claim.lua` do the same in Redis; one contract suite tests both.

use super::super::{Lane, rank, suspect_limit};
use crate::base::clock::Millis;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub key: i64,
    pub id: String,
    pub lane: usize,
    pub due: Millis,
    pub deliveries: u32,
    pub failures: u32,
}

pub(super) struct BatchPicker<'a> {
    pub now: Millis,
    pub limit: usize,
    pub linger: Millis,
    pub lookahead: f64,
    pub early: f64,
    pub lanes: &'a [Lane],
}

impl BatchPicker<'_> {
    fn rank(&self, job: &Candidate) -> (u32, f64) {
        rank(&self.lanes[job.lane], job.due, self.now)
    }

    /// The batch, most urgent first. If none is ready: the time that the oldest due job has waited; `None` if nothing is due.
    /// `candidates` are each lane's first `limit` jobs, in the lane's order.
    pub fn choose_batch(&self, candidates: Vec<Candidate>) -> Result<Vec<Candidate>, Option<Millis>> {
        let mut ranked: Vec<_> = candidates.into_iter().map(|job| (self.rank(&job), job)).collect();
        ranked.sort_by(|((group_a, of_a), a), ((group_b, of_b), b)| {
            group_a.cmp(group_b).then_with(|| of_b.total_cmp(of_a)).then_with(|| a.lane.cmp(&b.lane))
        });
        let mut candidates: Vec<Candidate> = ranked.into_iter().map(|(_, job)| job).collect();
        let due = candidates.iter().filter(|job| job.due <= self.now).count();
        let waited = candidates.iter().map(|job| self.now - job.due).filter(|waited| *waited >= 0).max();
        let mut soon = candidates.split_off(due);
        soon.retain(|job| self.lanes[job.lane].order.counts_lateness());
        let free = self.limit.saturating_sub(due);
        let ahead: Vec<Candidate> = match self.early > 0.0 {
            true => self.early_jobs(soon).take(free).collect(),
            false if free > 0 && waited.is_none_or(|waited| waited < self.linger) => return Err(waited),
            false => self.lookahead_jobs(soon).take(free).collect(),
        };
        candidates.truncate(self.limit);
        candidates.extend(ahead);
        if candidates.is_empty() {
            return Err(None);
        }
        Ok(self.separate_suspects(candidates))
    }

    /// Jobs to take early for idle quota, from lanes that allow it: least early first, in relation to their patience.
    fn early_jobs(&self, soon: Vec<Candidate>) -> impl Iterator<Item = Candidate> {
        soon.into_iter()
            .filter(|job| self.lanes[job.lane].allows_early_claims())
            .take_while(|job| -self.rank(job).1 <= self.early)
    }

    /// Jobs to take early into a batch that is sent anyway, soonest first, up to the first that is too early: the next batch goes
    /// out at its due time.
    fn lookahead_jobs(&self, mut soon: Vec<Candidate>) -> impl Iterator<Item = Candidate> {
        soon.sort_by_key(|job| (job.due, job.lane));
        soon.into_iter().take_while(|job| -self.rank(job).1 <= self.lookahead)
    }

    /// Separates suspects from the others, in batches halved per delivery. The most urgent job decides which of the two this batch has.
    fn separate_suspects(&self, mut picked: Vec<Candidate>) -> Vec<Candidate> {
        let has_suspects = picked.first().is_some_and(|job| job.deliveries > 0);
        picked.retain(|job| (job.deliveries > 0) == has_suspects);
        limit_by_deliveries(picked, self.limit, |job| job.deliveries)
    }
}

/// Keeps the first jobs up to `limit`, halved per delivery of the jobs among them.
pub(super) fn limit_by_deliveries<T>(jobs: Vec<T>, limit: usize, deliveries: impl Fn(&T) -> u32) -> Vec<T> {
    let (mut kept, mut most) = (Vec::with_capacity(jobs.len()), 0);
    for job in jobs {
        most = most.max(deliveries(&job));
        if kept.len() >= suspect_limit(limit, most) {
            break;
        }
        kept.push(job);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn job(id: &str, lane: usize, due: Millis) -> Candidate {
        Candidate { key: 0, id: id.into(), lane, due, deliveries: 0, failures: 0 }
    }

    static LANES: LazyLock<[Lane; 2]> =
        LazyLock::new(|| [("young", 180), ("old", 86_400)].map(|(name, s)| Lane::new(name, Duration::from_secs(s))));

    fn pick() -> BatchPicker<'static> {
        BatchPicker { now: 100_000, limit: 3, linger: 5_000, lookahead: 0.02, early: 0.0, lanes: &*LANES }
    }

    fn ids(batch: &[Candidate]) -> Vec<&str> {
        batch.iter().map(|job| job.id.as_str()).collect()
    }

    #[test]
    fn nothing_due_is_no_batch() {
        assert_eq!(pick().choose_batch(vec![]), Err(None));
        assert_eq!(pick().choose_batch(vec![job("a", 0, 100_001)]), Err(None));
    }

    #[test]
    fn a_few_wait_for_the_linger_and_a_full_batch_does_not() {
        assert_eq!(pick().choose_batch(vec![job("a", 0, 96_000)]), Err(Some(4_000)));
        assert_eq!(ids(&pick().choose_batch(vec![job("a", 0, 95_000)]).unwrap()), ["a"]);
        assert_eq!(pick().choose_batch((0..3).map(|n| job(&n.to_string(), 0, 100_000)).collect()).unwrap().len(), 3);
    }

    #[test]
    fn a_short_batch_is_filled_with_what_is_due_soonest() {
        let soon = vec![
            job("due", 0, 90_000),
            job("young", 0, 102_000),
            job("old", 1, 101_000),
            job("young too", 0, 103_000),
            job("old too", 1, 102_500),
        ];
        assert_eq!(
            ids(&BatchPicker { limit: 4, ..pick() }.choose_batch(soon).unwrap()),
            ["due", "old", "young", "old too"]
        );
    }

    #[test]
    fn a_short_batch_reaches_no_further_than_the_first_that_is_too_early() {
        // 3 s early is 1.7 % of 3 minutes. 4 s is 2.2 %: too early; but 5 s is little for a daily item.
        let soon = vec![
            job("due", 0, 90_000),
            job("3s", 0, 103_000),
            job("4s", 0, 104_000),
            job("old", 1, 103_500),
            job("old, 5s", 1, 105_000),
        ];
        assert_eq!(ids(&BatchPicker { limit: 9, ..pick() }.choose_batch(soon.clone()).unwrap()), ["due", "3s", "old"]);
        assert_eq!(ids(&BatchPicker { limit: 9, lookahead: 0.0, ..pick() }.choose_batch(soon).unwrap()), ["due"]);
    }

    #[test]
    fn suspects_travel_apart_and_halved() {
        let suspect = |id: &str, due, deliveries| Candidate { deliveries, ..job(id, 0, due) };
        let batch = pick().choose_batch(vec![job("a", 0, 1_000), suspect("s", 0, 1), job("b", 0, 2_000)]).unwrap();
        assert_eq!(ids(&batch), ["s"]);
        let batch = pick().choose_batch(vec![job("a", 0, 0), suspect("s", 500, 1), job("b", 0, 2_000)]).unwrap();
        assert_eq!(ids(&batch), ["a", "b"]);
    }

    proptest! {
        /// No id left behind is more urgent than a taken one.
        #[test]
        fn the_most_urgent_go_first(dues in prop::collection::vec((0usize..2, 0i64..100_000), 3..40)) {
            let all: Vec<_> = dues.iter().enumerate().map(|(n, (lane, due))| job(&n.to_string(), *lane, *due)).collect();
            let batch = pick().choose_batch(all.clone()).unwrap();
            let least = batch.iter().map(|job| pick().rank(job).1).fold(f64::INFINITY, f64::min);
            for other in all.iter().filter(|job| !batch.contains(job)) {
                prop_assert!(pick().rank(other).1 <= least);
            }
        }
    }
}
