//! Media of found posts. Each answer records its media: an edit may add one, and media may have been turned on since. Removed media are
//! scheduled again, and so are media that were given up at least a day ago, if their post shows another address.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;

use crate::ingest::Starter;
use crate::model::media::Medium;
use crate::model::post::ItemState;
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::store::{MediumSeen, Standing, Store, StoreError, StoredMedium};

#[derive(Debug)]
pub struct Arrivals {
    pub namespace: String,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Receiver for Arrivals {
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError> {
        let seen: Vec<MediumSeen> = mentions.iter().filter_map(|mention| parse_mention(mention)).collect();
        // Makes the rows. Media of a forgotten person get none, and are not scheduled.
        self.store.record_media(&self.namespace, &self.admitted(starter, &seen).await?).await?;
        let sought = self.sought(&seen).await?;
        let schedule = starter.record_ids(sought.iter().map(String::as_str).collect()).await?;
        Ok(Received { schedule, ..Received::default() })
    }
}

impl Arrivals {
    /// Media whose ids the starter admits, and media that are known already.
    async fn admitted(&self, starter: &Starter, seen: &[MediumSeen]) -> Result<Vec<MediumSeen>, StoreError> {
        let refused: Vec<String> =
            ids_of(seen).into_iter().filter(|id| !starter.admits(id)).map(str::to_owned).collect();
        let known = self.store.media(&self.namespace, &refused).await?;
        let unknown: BTreeSet<&String> =
            refused.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(id, _)| id).collect();
        Ok(seen.iter().filter(|seen| !unknown.contains(&seen.medium.id)).cloned().collect())
    }

    /// Ids to fetch. Read after the rows were made: another worker may have stored a file meanwhile.
    async fn sought(&self, seen: &[MediumSeen]) -> Result<BTreeSet<String>, StoreError> {
        let ids: Vec<String> = ids_of(seen).into_iter().map(str::to_owned).collect();
        let known = self.store.media(&self.namespace, &ids).await?;
        let known: HashMap<&String, &Option<StoredMedium>> = ids.iter().zip(&known).collect();
        let medium = |seen: &MediumSeen| known.get(&seen.medium.id).and_then(|known| known.as_ref());
        let mut sought: BTreeSet<String> =
            seen.iter().filter(|seen| seen.is_sought(medium(seen))).map(|seen| seen.medium.id.clone()).collect();
        // A process may have recorded an id again after its file was stored, and died before it scheduled the id. Its row is then live
        // and in no lane. Once it is scheduled, one check of its file ends it.
        let settled: Vec<String> = ids.iter().filter(|id| !sought.contains(*id)).cloned().collect();
        let rows = self.store.standing(&self.namespace, &settled).await?;
        let is_live = |row: &Option<Standing>| row.as_ref().is_some_and(|row| row.state == ItemState::Live);
        sought.extend(settled.into_iter().zip(&rows).filter(|(_, row)| is_live(row)).map(|(id, _)| id));
        Ok(sought)
    }
}

fn ids_of(seen: &[MediumSeen]) -> BTreeSet<&str> {
    seen.iter().map(|seen| &*seen.medium.id).collect()
}

fn parse_mention(mention: &Mention) -> Option<MediumSeen> {
    let medium: Medium = serde_json::from_str(mention.object.as_deref()?).ok()?;
    Some(MediumSeen { medium, post: mention.from.clone(), author: mention.author.clone(), at: mention.answered_at })
}
