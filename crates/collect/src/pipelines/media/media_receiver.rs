//! Receives media of found posts. Each answer records its media: an edit may add one, and media may have been turned on since. Removed
//! media are scheduled again, and media that were given up at least a day ago, if their post shows another address.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;

use crate::ingest::Starter;
use crate::pipelines::refresh::{Arrival, Mention, QueueChanges, Receiver};
use networks::model::post::ItemState;
use store::{MediumSighting, Standing, Store, StoreError, StoredMedium};

#[derive(Debug)]
pub struct MediaReceiver {
    pub namespace: String,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Receiver for MediaReceiver {
    fn takes(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Medium { .. })
    }

    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<QueueChanges, StoreError> {
        let seen: Vec<MediumSighting> = mentions.iter().filter_map(|mention| medium_sighting(mention)).collect();
        // Makes the rows. Media of a forgotten person get none, and are not scheduled.
        self.store.record_media(&self.namespace, &self.filter_admitted(starter, &seen).await?).await?;
        let to_fetch = self.find_ids_to_fetch(&seen).await?;
        let schedule = starter.record_ids(to_fetch.iter().map(String::as_str).collect()).await?;
        Ok(QueueChanges { schedule, ..QueueChanges::default() })
    }
}

impl MediaReceiver {
    /// Returns media whose ids the starter admits, and known media.
    async fn filter_admitted(
        &self,
        starter: &Starter,
        seen: &[MediumSighting],
    ) -> Result<Vec<MediumSighting>, StoreError> {
        let refused: Vec<String> =
            medium_ids(seen).into_iter().filter(|id| !starter.is_admissible(id)).map(str::to_owned).collect();
        let known = self.store.media(&self.namespace, &refused).await?;
        let unknown: BTreeSet<&String> =
            refused.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(id, _)| id).collect();
        Ok(seen.iter().filter(|seen| !unknown.contains(&seen.medium.id)).cloned().collect())
    }

    /// Reads the rows after they were made: another worker may have stored a file meanwhile.
    async fn find_ids_to_fetch(&self, seen: &[MediumSighting]) -> Result<BTreeSet<String>, StoreError> {
        let ids: Vec<String> = medium_ids(seen).into_iter().map(str::to_owned).collect();
        let known = self.store.media(&self.namespace, &ids).await?;
        let known: HashMap<&String, &Option<StoredMedium>> = ids.iter().zip(&known).collect();
        let medium = |seen: &MediumSighting| known.get(&seen.medium.id).and_then(|known| known.as_ref());
        let mut to_fetch: BTreeSet<String> =
            seen.iter().filter(|seen| seen.needs_fetch(medium(seen))).map(|seen| seen.medium.id.clone()).collect();
        // A process may have recorded an id again after its file was stored, and died before it scheduled the id. Its row is then live
        // and in no lane. Once it is scheduled, one check of its file ends it.
        let settled: Vec<String> = ids.iter().filter(|id| !to_fetch.contains(*id)).cloned().collect();
        let rows = self.store.standing(&self.namespace, &settled).await?;
        let is_live = |row: &Option<Standing>| row.as_ref().is_some_and(|row| row.state == ItemState::Live);
        to_fetch.extend(settled.into_iter().zip(&rows).filter(|(_, row)| is_live(row)).map(|(id, _)| id));
        Ok(to_fetch)
    }
}

fn medium_ids(seen: &[MediumSighting]) -> BTreeSet<&str> {
    seen.iter().map(|seen| &*seen.medium.id).collect()
}

fn medium_sighting(mention: &Mention) -> Option<MediumSighting> {
    let Arrival::Medium { medium, author } = mention.arrival.clone() else { return None };
    Some(MediumSighting { medium, post: mention.from.clone(), author, at: mention.answered_at })
}
