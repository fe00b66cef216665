//! Reserves room in the store, then puts a file into storage: all processes together stay within the limit, and an unnamed file can be
//! found.
//!
//! ```text
//!   take room (store) ─▶ put the file ─▶ (the handler: save the medium that names it)
//!   mark unused files (store) ─▶ remove each ─▶ forget them (store)
//! ```
//!
//! A process that needs a file during its removal waits for the end. The removal skips files that were taken lately. Clocks differ, so
//! the store lets no medium name a file during its removal: it is fetched once more.

use std::sync::Arc;
use std::time::Duration;

use super::files::{Files, Whole};
use super::parts::{LockedPart, Parts};
use crate::base::clock::{millis, wall_ms};
use crate::base::shutdown::Stop;
use crate::store::{Looked, Room, Store, StoreError, Taken};

pub(super) const PAGE: u32 = 500;
/// Pause after a page: a million entries take a minute or two, beside other work.
pub(super) const BETWEEN_PAGES: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Keeper {
    pub parts: Parts,
    pub files: Arc<dyn Files>,
    pub store: Arc<dyn Store>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotKept {
    /// The file is being removed; it may be stored after that.
    Busy,
    /// There is no room; the text has the fix.
    Full(String),
    /// The store or the storage is down; the text has the reason and the fix.
    Out(String),
}

impl Keeper {
    /// Stores a part as that file. Returns false if the file exists already. The part stays after `Busy` and `Out`.
    pub async fn keep(&self, part: LockedPart, file: &Whole) -> Result<bool, NotKept> {
        let bytes = i64::try_from(file.bytes).unwrap_or(i64::MAX);
        let cap = i64::try_from(self.parts.cap()).unwrap_or(i64::MAX);
        let room = self.store.take_file(&file.sha256, bytes, wall_ms(), cap).await;
        let Room { taken, used } = room.map_err(|error| NotKept::Out(error.to_string()))?;
        self.parts.set_used(u64::try_from(used).unwrap_or(0));
        match taken {
            Taken::New | Taken::Known => self.files.put(part, file).await.map_err(NotKept::Out),
            Taken::Busy => Err(NotKept::Busy),
            Taken::Full => {
                part.discard();
                // Another process may have removed files at this moment: then there is room.
                self.parts.is_full(file.bytes).map_or(Err(NotKept::Busy), |why| Err(NotKept::Full(why)))
            }
        }
    }

    /// Removes files that were not taken within `age` and that no stored medium has. Recounts the bytes of all files.
    pub async fn remove_unused(&self, age: Duration, stop: &Stop) -> Result<(), StoreError> {
        let mut after = Some(String::new());
        while let Some(from) = after.filter(|_| !stop.is_draining()) {
            let now = wall_ms();
            let Looked { unused, next } =
                self.store.unused_files(now.saturating_sub(millis(age)), now, &from, PAGE).await?;
            let mut removed = Vec::new();
            for sha256 in unused {
                match self.files.remove(&sha256).await {
                    Ok(()) => removed.push(sha256),
                    Err(why) => {
                        tracing::warn!(why, sha256, "the file of a medium cannot be removed: it is tried again later");
                    }
                }
            }
            if !removed.is_empty() {
                self.store.forget_files(&removed, now).await?;
            }
            stop.sleep(BETWEEN_PAGES).await;
            after = next;
        }
        self.learn_used().await
    }

    /// Reads the number of bytes that all updaters store.
    pub async fn learn_used(&self) -> Result<(), StoreError> {
        self.parts.set_used(u64::try_from(self.store.media_bytes().await?).unwrap_or(0));
        Ok(())
    }
}
