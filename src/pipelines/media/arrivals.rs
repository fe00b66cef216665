//! Media of found posts: recorded with the posts that show them, at each answer, since an edit may bring one, and media may have
//! been turned on since. One that is stored is not scheduled again; a removed one is, and so is one that was given up a day ago or
//! earlier, when its post shows another address.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;

use crate::ingest::Starter;
use crate::model::media::Medium;
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::store::{MediumSeen, Store, StoreError, StoredMedium};

/// Receives the media of posts.
#[derive(Debug)]
pub struct Arrivals {
    /// The pipeline of the media.
    pub namespace: String,
    /// The store.
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl Receiver for Arrivals {
    async fn receive(&self, starter: &Starter, mentions: &[&Mention]) -> Result<Received, StoreError> {
        let seen: Vec<MediumSeen> = mentions.iter().filter_map(|mention| seen(mention)).collect();
        let ids: BTreeSet<&String> = seen.iter().map(|seen| &seen.medium.id).collect();
        let ids: Vec<String> = ids.into_iter().cloned().collect();
        let known = self.store.media(&self.namespace, &ids).await?;
        // Also one that waits: a post that was found before is done with, whether the queue took its media or not, and its next
        // answer makes up for it.
        let known: HashMap<&String, &Option<StoredMedium>> = ids.iter().zip(&known).collect();
        let is_sought =
            |seen: &&MediumSeen| seen.is_sought(known.get(&seen.medium.id).and_then(|known| known.as_ref()));
        let sought: BTreeSet<&str> = seen.iter().filter(is_sought).map(|seen| seen.medium.id.as_str()).collect();
        let is_fit = |seen: &&MediumSeen| {
            known.get(&seen.medium.id).is_some_and(|known| known.is_some()) || starter.admits(&seen.medium.id)
        };
        let fit: Vec<MediumSeen> = seen.iter().filter(is_fit).cloned().collect();
        // It makes the rows: those of a forgotten person's post have none afterwards, and are not scheduled.
        self.store.record_media(&self.namespace, &fit).await?;
        let schedule = starter.record_ids(sought.into_iter().collect()).await?;
        Ok(Received { schedule, ..Received::default() })
    }
}

fn seen(mention: &Mention) -> Option<MediumSeen> {
    let medium: Medium = serde_json::from_str(mention.object.as_deref()?).ok()?;
    Some(MediumSeen { medium, post: mention.from.clone(), author: mention.author.clone(), at: mention.answered_at })
}
