//! Removal: a file goes when the last stored post that shows it is removed, or its content is forgotten, since the network
//! has deleted it (`store.on_deleted`) or its time is over (`store.retention`).
//!
//! A medium comes first, then its file: one that was put there or met again within the last hour stays until the next look,
//! since a medium may be on its way into the store that names it.

use std::sync::Arc;
use std::time::Duration;

use super::counters::Fetches;
use super::keeper::{BETWEEN_PAGES, Keeper, PAGE};
use crate::base::clock::{millis, wall_ms};
use crate::base::shutdown::Stop;
use crate::engine::queue::Queue;
use crate::model::media::MediaState;
use crate::store::{MediumTried, Store, StoreError, StoredMedium};

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1_800);
/// Age of uses and files that are looked at.
pub const AGE: Duration = Duration::from_secs(3_600);

/// Removes the files of media that no stored post shows.
#[derive(Debug)]
pub struct Removal {
    /// The pipeline of the media.
    pub namespace: String,
    /// The pipeline of the posts.
    pub posts: String,
    /// The queue of the media.
    pub queue: Arc<dyn Queue>,
    /// The worker's name.
    pub worker: String,
    /// Keeps the files.
    pub keeper: Arc<Keeper>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The counters.
    pub counters: Arc<Fetches>,
}

impl Removal {
    /// Works until the process is to stop. A store that is out is asked again the next time.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.look(AGE, &stop).await {
                tracing::debug!(%error, "unused media cannot be looked for");
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Removes what is unused for so long; says how many media that is. The worker that leads reads all media for the others.
    ///
    /// # Errors
    /// The store's.
    pub async fn look(&self, age: Duration, stop: &Stop) -> Result<u64, StoreError> {
        // In a folder of this machine, perhaps, so each does it.
        if let Err(error) = self.keeper.parts.remove_old() {
            tracing::debug!(%error, "old parts of media cannot be removed");
        }
        if !self.queue.brief().await.is_ok_and(|stats| stats.is_first(&self.worker)) {
            self.keeper.learn_used().await?;
            return Ok(0);
        }
        let before = wall_ms().saturating_sub(millis(age));
        let (mut removed, mut after) = (0, Some(String::new()));
        while let Some(from) = after.filter(|_| !stop.is_draining()) {
            let page = self.store.unused_media(&self.namespace, &self.posts, before, &from, PAGE).await?;
            let outlived: Vec<MediumTried> = page.unused.iter().map(outlived).collect();
            let outlived = self.store.save_media(&self.namespace, &outlived).await?;
            self.counters.media_removed.add(outlived.len());
            removed += outlived.len() as u64;
            stop.sleep(BETWEEN_PAGES).await;
            after = page.next;
        }
        if removed > 0 {
            tracing::info!(namespace = self.namespace, removed, "media removed that no stored post shows");
        }
        self.keeper.remove_unused(age, stop).await?;
        Ok(removed)
    }
}

fn outlived(medium: &StoredMedium) -> MediumTried {
    MediumTried {
        id: medium.id.clone(),
        at: wall_ms(),
        state: MediaState::Removed,
        attempts: medium.attempts,
        reason: Some("no stored post shows it any more".to_owned()),
        ..MediumTried::default()
    }
}
