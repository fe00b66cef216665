//! Media of found posts: recorded with the posts that show them, at each answer, since an edit may bring one, and media may have
//! been turned on since. One that is stored, gone or refused is not scheduled again; a removed one is.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ingest::Starter;
use crate::model::media::{MediaState, Medium};
use crate::pipelines::refresh::{Mention, Received, Receiver};
use crate::store::{MediumSeen, Store, StoreError};

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
        let named: BTreeSet<&str> = seen.iter().map(|seen| seen.medium.id.as_str()).collect();
        let ids: Vec<String> = named.iter().map(|id| (*id).to_owned()).collect();
        let known = self.store.media(&self.namespace, &ids).await?;
        let first: BTreeSet<&str> =
            mentions.iter().filter(|mention| mention.is_first).map(|mention| mention.id.as_str()).collect();
        let wanted = named.into_iter().zip(&known).filter(|(id, known)| match known.as_ref().map(|of| of.state) {
            None | Some(MediaState::Removed) => true,
            // It was scheduled when it was named first, unless who did so has died.
            Some(MediaState::Waiting) => first.contains(id),
            Some(_) => false,
        });
        let schedule = starter.record_ids(wanted.map(|(id, _)| id).collect()).await?;
        self.store.record_media(&self.namespace, &seen).await?;
        Ok(Received { schedule, ..Received::default() })
    }
}

fn seen(mention: &Mention) -> Option<MediumSeen> {
    let medium: Medium = serde_json::from_str(mention.object.as_deref()?).ok()?;
    Some(MediumSeen { medium, post: mention.from.clone(), at: mention.answered_at })
}
