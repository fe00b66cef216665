//! Parts of a batch: the ids of one call.

use engine::base::random;
use engine::queue::Job;

#[derive(Default)]
pub(super) struct BatchPart {
    pub jobs: Vec<Job>,
    pub tries: usize,
    /// Calls for some of them failed at least twice before.
    pub failed_before: bool,
}

impl BatchPart {
    /// Splits it in half, in random order, so that the same bad ids do not use up all tries; no half exceeds `limit`, that of a call.
    pub(super) fn halve(mut self, limit: usize, parts: &mut Vec<BatchPart>) {
        if self.jobs.len() > 2 * limit {
            parts.extend(self.split(limit));
            return;
        }
        let jobs = self.jobs.split_off(self.jobs.len() / 2);
        let second = BatchPart { jobs, failed_before: self.failed_before, ..BatchPart::default() };
        let first = BatchPart { jobs: self.jobs, failed_before: self.failed_before, ..BatchPart::default() };
        parts.extend(if random::fraction() < 0.5 { [first, second] } else { [second, first] });
    }

    pub(super) fn split(self, limit: usize) -> impl Iterator<Item = BatchPart> {
        let BatchPart { mut jobs, tries, failed_before } = self;
        std::iter::from_fn(move || {
            let rest = jobs.split_off(limit.max(1).min(jobs.len()));
            let jobs = std::mem::replace(&mut jobs, rest);
            (!jobs.is_empty()).then_some(BatchPart { jobs, tries, failed_before })
        })
    }
}
