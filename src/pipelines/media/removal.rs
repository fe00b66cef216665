//! Removal: a file goes when the last stored post that shows it is removed, or its content is forgotten, since the network
//! has deleted it (`store.on_deleted`) or its time is over (`store.retention`).
//!
//! A file that was written or met again within the last hour stays until the next look: a medium may be on its way into the
//! store that names it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::counters::Fetches;
use super::files::Folder;
use crate::base::clock::{millis, wall_ms};
use crate::base::shutdown::Stop;
use crate::model::media::MediaState;
use crate::store::{MediumTried, Store, StoreError, StoredMedium};

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1_800);
/// Age of uses and files that are looked at.
pub const AGE: Duration = Duration::from_secs(3_600);
/// Media of a page.
const PAGE: u32 = 500;

/// Removes the files of media that no stored post shows.
#[derive(Debug)]
pub struct Removal {
    /// The pipeline of the media.
    pub namespace: String,
    /// The pipeline of the posts.
    pub posts: String,
    /// The folder of the files.
    pub folder: Arc<Folder>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The counters.
    pub counters: Arc<Fetches>,
}

impl Removal {
    /// Works until the process is to stop. A store that is out is asked again the next time.
    pub async fn run(self, stop: Stop) {
        while !stop.is_draining() {
            if let Err(error) = self.look(AGE).await {
                tracing::debug!(%error, "unused media cannot be looked for");
            }
            stop.sleep(LOOK_EVERY).await;
        }
    }

    /// Removes what is unused for so long, and counts the bytes of all files anew; says how many media it removed.
    ///
    /// # Errors
    /// The store's.
    pub async fn look(&self, age: Duration) -> Result<u64, StoreError> {
        let before = wall_ms().saturating_sub(millis(age));
        let mut removed = 0;
        for medium in self.store.unused_media(&self.namespace, &self.posts, before, PAGE).await? {
            removed += u64::from(self.remove(&medium, age).await?);
        }
        self.folder.set_used(u64::try_from(self.store.media_bytes().await?).unwrap_or(0));
        if removed > 0 {
            tracing::info!(namespace = self.namespace, removed, "media removed that no stored post shows");
        }
        Ok(removed)
    }

    /// The store says so first: a file without a medium is harmless, the other way round is not.
    async fn remove(&self, medium: &StoredMedium, age: Duration) -> Result<bool, StoreError> {
        let Some(sha256) = &medium.sha256 else { return Ok(false) };
        if !self.folder.is_old(sha256, age) {
            return Ok(false);
        }
        let removed = MediumTried {
            id: medium.id.clone(),
            at: wall_ms(),
            state: MediaState::Removed,
            attempts: medium.attempts,
            reason: Some("no stored post shows it any more".to_owned()),
            ..MediumTried::default()
        };
        self.store.save_media(&self.namespace, &[removed]).await?;
        self.counters.media_removed.add(1);
        if self.store.is_file_used(sha256).await? || !self.folder.is_old(sha256, age) {
            return Ok(true);
        }
        let (folder, name) = (self.folder.clone(), sha256.clone());
        if let Ok(Err(error)) = spawn_blocking(move || folder.remove(&name)).await {
            tracing::warn!(%error, sha256, "the file of a medium cannot be removed: remove it by hand");
        }
        Ok(true)
    }
}
