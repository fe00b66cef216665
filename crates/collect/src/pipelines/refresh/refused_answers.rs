//! Answers that the store refused: late ones, and those about dead items.

use engine::queue::Verdict;
use engine::schedule::ScheduledItem;
use networks::model::post::ItemState;
use store::StoreError;

use super::{Judge, JudgeTerms, JudgedAnswers, Refresher};

impl<J: Judge> Refresher<J> {
    /// Applies the stored state to refused answers: late ones, and those about dead items. (A worker that died before it settled leaves
    /// such a difference, too.)
    pub(super) async fn apply_stored_refusals(&self, judged: &mut JudgedAnswers<J::Item>) -> Result<(), StoreError> {
        let ids: Vec<String> = judged.jobs.iter().map(|job| job.id.clone()).collect();
        let standings = self.items.store.standing(&self.items.namespace, &ids).await?;
        let terms = JudgeTerms {
            schedule: self.schedule.current_schedule(),
            is_alert: self.is_mass_miss_alert(),
            none_found: false,
        };
        for ((verdict, seen), standing) in judged.verdicts.iter_mut().zip(&judged.observations).zip(standings) {
            let Some(known) = standing else {
                // A save makes each missing row, except those of blocked people.
                *verdict = Verdict::Finish;
                continue;
            };
            let is_refused = known.checked_at.is_some_and(|newer| newer > seen.answered_at);
            let item = ScheduledItem::new(&seen.id, self.created_at(&seen.id, Some(&known)));
            let regular = terms.schedule.next(&item, seen.answered_at);
            let interval = regular.as_ref().map_or(self.unavailable.lane.patience, |(lane, _)| lane.patience);
            let slow = || self.next_unavailable_lookup(&terms, interval, known.missing_since, seen.answered_at);
            let (lane, delay) = match known.state {
                ItemState::Dead => {
                    *verdict = Verdict::MarkDead { reason: "dead in the store".to_owned() };
                    continue;
                }
                ItemState::Ended if is_refused => {
                    *verdict = Verdict::Finish;
                    continue;
                }
                ItemState::Live if is_refused => regular.unwrap_or_else(slow),
                ItemState::Unavailable if is_refused => slow(),
                _ => continue,
            };
            *verdict = Verdict::Reschedule { lane, due: delay.into() };
        }
        Ok(())
    }
}
