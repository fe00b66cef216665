//! The keeper of files: room for a file is taken in the store, then the file is put into its place. So the bytes of all
//! processes together stay within their bound, and a file that no medium came to name, since its process died, is found.
//!
//! ```text
//!   take room (store) ─▶ put the file ─▶ (the handler: save the medium that names it)
//!   mark unused files (store) ─▶ remove each ─▶ forget them (store)
//! ```
//!
//! Whoever takes a file that is being removed waits until it is gone; whoever removes files takes none that somebody took
//! lately. Clocks differ, so the store lets no medium name a file that is being removed: it is fetched once more.

use std::sync::Arc;
use std::time::Duration;

use super::files::{Files, Whole};
use super::parts::{Part, Parts};
use crate::base::clock::{millis, wall_ms};
use crate::base::shutdown::Stop;
use crate::store::{Looked, Room, Store, StoreError, Taken};

/// Media or files of a page.
pub(super) const PAGE: u32 = 500;
/// Pause after a page: a million of them take a minute or two, beside other work.
pub(super) const BETWEEN_PAGES: Duration = Duration::from_millis(20);

/// Keeps files.
#[derive(Debug)]
pub struct Keeper {
    /// The files on their way.
    pub parts: Parts,
    /// The place of the others.
    pub files: Arc<dyn Files>,
    /// The store.
    pub store: Arc<dyn Store>,
}

/// Why a file is not kept now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotKept {
    /// It is being removed: it may be kept after that.
    Busy,
    /// There is no room; says what to do.
    Full(String),
    /// The store or the place is out; says why, and what to do.
    Out(String),
}

impl Keeper {
    /// Keeps a part as that file. Returns false if it was there already.
    ///
    /// # Errors
    /// [`NotKept`]; the part of one that is busy, or whose place is out, is where it was.
    pub async fn keep(&self, part: Part, file: &Whole) -> Result<bool, NotKept> {
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
                // Others may have removed files in this moment: there is room, then.
                self.parts.is_full(file.bytes).map_or(Err(NotKept::Busy), |why| Err(NotKept::Full(why)))
            }
        }
    }

    /// Removes the files that nobody took for so long and no stored medium has, and counts the bytes of all files anew.
    ///
    /// # Errors
    /// The store's.
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

    /// Learns how many bytes all updaters keep.
    ///
    /// # Errors
    /// The store's.
    pub async fn learn_used(&self) -> Result<(), StoreError> {
        self.parts.set_used(u64::try_from(self.store.media_bytes().await?).unwrap_or(0));
        Ok(())
    }
}
