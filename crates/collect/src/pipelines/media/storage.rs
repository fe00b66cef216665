//! Reserves bytes in the store, then stores a file: all processes together stay within the limit, and an unnamed file can be found.
//!
//! ```text
//!   reserve bytes (store) ─▶ store the file ─▶ (the handler: save the medium that names it)
//!   mark unused files (store) ─▶ remove each ─▶ forget them (store)
//! ```
//!
//! A process that needs a file during its removal waits for the end. The removal skips recently reserved files. Clocks differ, so the
//! store lets no medium name a file during its removal: it is fetched once more.

use std::sync::Arc;
use std::time::Duration;

use super::files::{CompleteFile, FileStorage};
use super::partial_files::{LockedPart, PartialFiles};
use engine::base::clock::{millis, wall_ms};
use engine::base::shutdown::Stop;
use store::{FileReservation, ReservationOutcome, Store, StoreError, UnusedPage};

pub(super) const PAGE_ROWS: u32 = 500;
/// Pause after a page: a million entries take a minute or two, beside other work.
pub(super) const PAUSE_BETWEEN_PAGES: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct MediaStorage {
    pub parts: PartialFiles,
    pub files: Arc<dyn FileStorage>,
    pub store: Arc<dyn Store>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageError {
    /// The file is being removed.
    Busy,
    /// No bytes are left; the text has the fix.
    Full(String),
    /// The store or the storage is down; the text has the reason and the fix.
    Unavailable(String),
}

impl MediaStorage {
    /// Stores a part as that file. Returns false if the file exists already. The part stays after `Busy` and `Unavailable`.
    pub async fn store_file(&self, part: LockedPart, file: &CompleteFile) -> Result<bool, StorageError> {
        let bytes = i64::try_from(file.bytes).unwrap_or(i64::MAX);
        let cap = i64::try_from(self.parts.cap()).unwrap_or(i64::MAX);
        let room = self.store.reserve_file(&file.sha256, bytes, wall_ms(), cap).await;
        let FileReservation { taken, used } = room.map_err(|error| StorageError::Unavailable(error.to_string()))?;
        self.parts.set_used(u64::try_from(used).unwrap_or(0));
        match taken {
            ReservationOutcome::New | ReservationOutcome::Known => {
                let stored = self.files.store(part, file).await;
                stored.map_err(|error| StorageError::Unavailable(error.to_string()))
            }
            ReservationOutcome::Busy => Err(StorageError::Busy),
            ReservationOutcome::Full => {
                part.discard();
                // Another process may have removed files at this moment: then there is room.
                self.parts
                    .no_room_message(file.bytes)
                    .map_or(Err(StorageError::Busy), |why| Err(StorageError::Full(why)))
            }
        }
    }

    /// Removes files without a medium that were not reserved within `age`. Recounts the bytes of all files.
    pub async fn remove_unused(&self, age: Duration, stop: &Stop) -> Result<(), StoreError> {
        let mut after = Some(String::new());
        while let Some(from) = after.filter(|_| !stop.is_draining()) {
            let now = wall_ms();
            let UnusedPage { unused, next } =
                self.store.unused_files(now.saturating_sub(millis(age)), now, &from, PAGE_ROWS).await?;
            let mut removed = Vec::new();
            for sha256 in unused {
                match self.files.remove(&sha256).await {
                    Ok(()) => removed.push(sha256),
                    Err(why) => {
                        tracing::warn!(
                            why = why.to_string(),
                            sha256,
                            "the file of a medium could not be removed; the next check retries"
                        );
                    }
                }
            }
            if !removed.is_empty() {
                self.store.forget_files(&removed, now).await?;
            }
            stop.sleep(PAUSE_BETWEEN_PAGES).await;
            after = next;
        }
        self.refresh_used_bytes().await
    }

    /// Reads the bytes of all stored files from the store.
    pub async fn refresh_used_bytes(&self) -> Result<(), StoreError> {
        self.parts.set_used(u64::try_from(self.store.media_bytes().await?).unwrap_or(0));
        Ok(())
    }
}
