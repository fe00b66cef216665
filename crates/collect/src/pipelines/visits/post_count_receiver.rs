//! Receives accounts whose profile shows more posts than before, and visits them at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ingest::Starter;
use crate::pipelines::refresh::{Arrival, Mention, QueueChanges, Receiver};
use engine::queue::{Due, NewJob};
use engine::schedule::{ScheduledItem, Schedules};
use networks::model::post::ItemState;
use store::{Store, StoreError};

#[derive(Debug)]
pub struct PostCountReceiver {
    pub namespace: String,
    pub schedule: Arc<dyn Schedules>,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Receiver for PostCountReceiver {
    fn takes(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::NewPosts)
    }

    /// Ignores accounts that are not followed.
    async fn receive(&self, _: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError> {
        let ids: BTreeSet<&str> = mentions.iter().map(|mention| mention.id.as_str()).collect();
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        let Some(now) = mentions.iter().map(|mention| mention.answered_at).max() else {
            return Ok(QueueChanges::default());
        };
        let schedule = self.schedule.current_schedule();
        let mut due = Vec::new();
        for (id, known) in ids.iter().zip(self.store.standing(&self.namespace, &ids).await?) {
            let waits = known.is_some_and(|known| match known.state {
                // If it was visited since the lookup, its posts are read already.
                ItemState::Live => known.checked_at.is_some_and(|visited| visited < now),
                // An account that could not be read may be open again, and may never have been read before.
                ItemState::Unavailable => known.checked_at.is_none_or(|visited| visited < now),
                ItemState::Ended | ItemState::Dead => false,
            });
            if let Some((lane, _)) = schedule.first(&ScheduledItem::new(id, None), now).filter(|_| waits) {
                due.push(NewJob { id: id.clone(), lane, due: Due::At(now) });
            }
        }
        let dates: Vec<_> = due.iter().map(|job| (job.id.clone(), now)).collect();
        self.store.promote(&self.namespace, &dates).await?;
        Ok(QueueChanges { promote: due, ..QueueChanges::default() })
    }
}
