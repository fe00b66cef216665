//! History of an item, for a schedule that compares answers: this answer, and the stored one before.

use super::Refresher;
use super::judge::{Item, Judge};
use engine::base::clock::Millis;
use engine::schedule::history::{Answer, History};
use store::LastAnswer;

impl<J: Judge> Refresher<J> {
    /// History of an item that was found at `at`, ms since the epoch. The stored value replaces a count that this answer leaves out.
    pub(super) fn history(
        &self,
        item: &J::Item,
        created_at: Option<Millis>,
        before: Option<&LastAnswer>,
        at: Millis,
    ) -> History {
        let stored = before.map(|before| before.metrics).unwrap_or_default();
        let last = self.judge.weigh(&item.metrics().or(stored)).map(|count| Answer { at, count });
        // After a miss, the stored counts are not of the newest answer, and their date is unknown.
        let known = before.filter(|before| before.misses == 0);
        let before = known.and_then(|known| Some(Answer { at: known.checked_at?, count: self.judge.weigh(&stored)? }));
        History { created_at, last, before, recent: known.and_then(|known| known.recent) }
    }
}
