//! Owners of lists, as posts name them. An owner that has posted since the last visit of its list is due; a waiting one moves up.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::schedule::VisitSchedule;
use crate::ingest::Starter;
use crate::pipelines::refresh::{Arrival, Mention, QueueChanges, Receiver};
use engine::base::clock::Millis;
use engine::queue::{Due, NewJob};
use engine::schedule::Schedules;
use networks::model::post::ItemState;
use store::{Sighting, Store, StoreError};

/// Posts after which an owner that was never visited is a repeat poster.
const REPEAT_POSTS: u32 = 2;

#[derive(Debug)]
pub struct OwnerReceiver {
    pub namespace: String,
    pub schedule: Arc<dyn Schedules>,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Receiver for OwnerReceiver {
    fn takes(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Author { .. })
    }

    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError> {
        let mut changes = QueueChanges::record_first(starter, mentions).await?;
        // Only one of the orders has a lane for them.
        if self.schedule.current_schedule().lane_for_interval(0) != Some(VisitSchedule::repeat_lane()) {
            return Ok(changes);
        }
        let mut posted = BTreeMap::<&str, Millis>::new();
        for mention in mentions {
            if let Some(at) = mention.arrival.posted_at() {
                let newest = posted.entry(&mention.id).or_insert(at);
                *newest = at.max(*newest);
            }
        }
        let sightings = mentions.iter().filter_map(|mention| {
            Some(Sighting { account: mention.id.clone(), post: mention.from.clone(), at: mention.arrival.posted_at()? })
        });
        self.store.record_sightings(&self.namespace, &sightings.collect::<Vec<_>>()).await?;
        let ids: Vec<String> = posted.keys().map(|id| (*id).to_owned()).collect();
        let known = self.store.standing(&self.namespace, &ids).await?;
        let mut due = Vec::new();
        for ((id, posted), known) in posted.into_iter().zip(known) {
            let Some(known) = known.filter(|known| known.state == ItemState::Live) else { continue };
            let visited = match known.checked_at {
                Some(visited) if posted > visited => visited,
                Some(_) => continue,
                // It waits for its first visit: its second post moves it up.
                None if self.store.newest_posts(&self.namespace, id, REPEAT_POSTS).await?.len()
                    < REPEAT_POSTS as usize =>
                {
                    continue;
                }
                None => 0,
            };
            due.push((id.to_owned(), visited));
        }
        self.store.promote(&self.namespace, &due).await?;
        let job = |(id, visited)| NewJob { id, lane: VisitSchedule::repeat_lane(), due: Due::At(visited) };
        changes.promote.extend(due.into_iter().map(job));
        Ok(changes)
    }
}
