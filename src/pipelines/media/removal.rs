//! Removes a file after the last stored post that shows it is removed, or forgotten because the network deleted it (`store.on_deleted`)
//! or its time is over (`store.retention`).
//!
//! The medium is removed first. A file that was stored or found again within the last hour stays: its medium may be about to be stored.

use std::sync::Arc;
use std::time::Duration;

use super::counters::Fetches;
use super::keeper::{BETWEEN_PAGES, Keeper, PAGE};
use crate::base::clock::{millis, wall_ms};
use crate::base::shutdown::Stop;
use crate::engine::queue::Queue;
use crate::model::media::MediaState;
use crate::store::{MediumTried, Store, StoreError, StoredMedium};

const LOOK_EVERY: Duration = Duration::from_secs(1_800);
/// Minimum age of the uses and files that a check considers.
pub const AGE: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub struct Removal {
    pub namespace: String,
    pub posts: String,
    pub queue: Arc<dyn Queue>,
    pub worker: String,
    pub keeper: Arc<Keeper>,
    pub store: Arc<dyn Store>,
    pub counters: Arc<Fetches>,
}

impl Removal {
    /// Runs until `stop` drains. If the store is down, the next check retries.
    pub async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.look(AGE, &stop).await {
                tracing::debug!(%error, "unused media cannot be looked for");
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Removes data that was unused for `age`. Returns the number of removed media. Only the leading worker reads all media.
    pub async fn look(&self, age: Duration, stop: &Stop) -> Result<u64, StoreError> {
        // The folder may be local to this machine, so each worker does this.
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
