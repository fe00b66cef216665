//! Owners of lists, as posts name them. An owner that has posted since the last visit of its list is due; a waiting one moves up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::schedule::Visits;
use crate::base::clock::Millis;
use crate::engine::queue::{Due, NewJob};
use crate::engine::schedule::Schedules;
use crate::ingest::Starter;
use crate::model::post::ItemState;
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::store::{Sighting, Store, StoreError};

/// Posts after which an owner that was never visited is a repeat poster.
const REPEATED: u32 = 2;

#[derive(Debug)]
pub struct Owners {
    pub namespace: String,
    pub schedule: Arc<dyn Schedules>,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Receiver for Owners {
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError> {
        let named: BTreeSet<&str> = mentions.iter().map(|mention| mention.id.as_str()).collect();
        let mut received = Received { schedule: starter.record_ids(named).await?, ..Received::default() };
        // Only one of the orders has a lane for them.
        if self.schedule.in_force().lane_of(0) != Some(Visits::repeat()) {
            return Ok(received);
        }
        let mut posted = BTreeMap::<&str, Millis>::new();
        for mention in mentions {
            if let Some(at) = mention.acted_at {
                let newest = posted.entry(&mention.id).or_insert(at);
                *newest = at.max(*newest);
            }
        }
        let sightings = mentions.iter().filter_map(|mention| {
            Some(Sighting { account: mention.id.clone(), post: mention.from.clone(), at: mention.acted_at? })
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
                None if self.store.posts_of(&self.namespace, id, REPEATED).await?.len() < REPEATED as usize => continue,
                None => 0,
            };
            due.push((id.to_owned(), visited));
        }
        self.store.promote(&self.namespace, &due).await?;
        let job = |(id, visited)| NewJob { id, lane: Visits::repeat(), due: Due::At(visited) };
        received.promote.extend(due.into_iter().map(job));
        Ok(received)
    }
}
