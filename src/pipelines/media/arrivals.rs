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
        // One that waits is in the queue, unless the queue did not take it: a post that was found before is done with then
        // all the same, and its next answer makes up for it.
        let is_wanted = |state| matches!(state, None | Some(MediaState::Removed | MediaState::Waiting));
        let wanted = named.into_iter().zip(&known).filter(|(_, known)| is_wanted(known.as_ref().map(|of| of.state)));
        let schedule = starter.record_ids(wanted.map(|(id, _)| id).collect()).await?;
        self.store.record_media(&self.namespace, &seen).await?;
        Ok(Received { schedule, ..Received::default() })
    }
}

fn seen(mention: &Mention) -> Option<MediumSeen> {
    let medium: Medium = serde_json::from_str(mention.object.as_deref()?).ok()?;
    Some(MediumSeen { medium, post: mention.from.clone(), at: mention.answered_at })
}
