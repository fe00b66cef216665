//! Media of found posts: recorded with the posts that show them. One that is stored, gone or refused is not scheduled again
//! because another post shows it, too.

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
        let settled = known.iter().flatten().filter(|medium| is_settled(medium.state));
        let settled: BTreeSet<&str> = settled.map(|medium| medium.id.as_str()).collect();
        let schedule = starter.record_ids(named.into_iter().filter(|id| !settled.contains(id)).collect()).await?;
        self.store.record_media(&self.namespace, &seen).await?;
        Ok(Received { schedule, ..Received::default() })
    }
}

/// Returns true if a further post changes nothing. A removed file is fetched again.
fn is_settled(state: MediaState) -> bool {
    state.is_final() && state != MediaState::Removed
}

fn seen(mention: &Mention) -> Option<MediumSeen> {
    let medium: Medium = serde_json::from_str(mention.object.as_deref()?).ok()?;
    Some(MediumSeen { medium, post: mention.from.clone(), at: mention.answered_at })
}
