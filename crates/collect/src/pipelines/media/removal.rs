//! Removes files that no stored post shows any more (`store.on_deleted`, `store.retention`).
//!
//! The medium is removed first. A file that was stored or found again within the last hour stays: its medium may be about to be stored.

use std::sync::Arc;
use std::time::Duration;

use super::counters::FetchCounters;
use super::storage::{MediaStorage, PAGE_ROWS, PAUSE_BETWEEN_PAGES};
use engine::base::clock::{millis, wall_ms};
use engine::base::shutdown::Stop;
use engine::queue::Queue;
use networks::model::media::MediaState;
use store::{FetchAttempt, Store, StoreError, StoredMedium};

const CHECK_INTERVAL: Duration = Duration::from_secs(1_800);
/// Minimum age of the uses and files that a check considers.
pub const MIN_UNUSED_AGE: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub struct UnusedMediaRemoval {
    pub namespace: String,
    pub posts: String,
    pub queue: Arc<dyn Queue>,
    pub worker: String,
    pub storage: Arc<MediaStorage>,
    pub store: Arc<dyn Store>,
    pub counters: Arc<FetchCounters>,
}

impl UnusedMediaRemoval {
    pub async fn run(self: Arc<Self>, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.remove_unused(MIN_UNUSED_AGE, &stop).await {
                tracing::debug!(%error, "unused media could not be removed; the next check retries");
            }
            stop.sleep(CHECK_INTERVAL).await;
        }
    }

    /// Removes data that was unused for `age`. Returns the number of removed media. Only the leading worker checks all media.
    pub async fn remove_unused(&self, age: Duration, stop: &Stop) -> Result<u64, StoreError> {
        // The folder may be local to this machine, so each worker does this.
        if let Err(error) = self.storage.parts.remove_old() {
            tracing::debug!(%error, "old partial files of media could not be removed; the next check retries");
        }
        if !self.queue.brief_stats().await.is_ok_and(|stats| stats.is_first_worker(&self.worker)) {
            self.storage.refresh_used_bytes().await?;
            return Ok(0);
        }
        let before = wall_ms().saturating_sub(millis(age));
        let (mut removed, mut after) = (0, Some(String::new()));
        while let Some(from) = after.filter(|_| !stop.is_draining()) {
            let page = self.store.unused_media(&self.namespace, &self.posts, before, &from, PAGE_ROWS).await?;
            let removed_media: Vec<FetchAttempt> = page.unused.iter().map(removal_record).collect();
            let removed_media = self.store.save_media(&self.namespace, &removed_media).await?;
            self.counters.media_removed.add(removed_media.len());
            removed += removed_media.len() as u64;
            stop.sleep(PAUSE_BETWEEN_PAGES).await;
            after = page.next;
        }
        if removed > 0 {
            tracing::info!(namespace = self.namespace, removed, "removed media that no stored post shows");
        }
        self.storage.remove_unused(age, stop).await?;
        Ok(removed)
    }
}

/// Result to store for a medium whose file was removed.
fn removal_record(medium: &StoredMedium) -> FetchAttempt {
    FetchAttempt {
        id: medium.id.clone(),
        at: wall_ms(),
        state: MediaState::Removed,
        attempts: medium.attempts,
        reason: Some("no stored post shows it any more".to_owned()),
        ..FetchAttempt::default()
    }
}
