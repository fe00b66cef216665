//! Partial files, each locked by the process that downloads it.
//!
//! ```text
//!   FOLDER/parts/<hash of the medium's name>       received bytes; their validator is in a second file
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::digest::{SHA256, digest};

use super::hash::hex;
use super::unusable_storage::UnusableStorage;
use engine::base::clock::Stopwatch;
use engine::base::private_file;

const MAX_PART_AGE: Duration = Duration::from_secs(7 * 86_400);
/// First and longest pause of all downloads after a file could not be stored. Each further failure doubles it.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

#[derive(Debug)]
pub struct PartialFiles {
    root: PathBuf,
    /// Byte limit of all files; 0: only the disk limits them.
    cap: u64,
    /// Bytes of the stored files, as known to this process.
    used: AtomicU64,
    /// Bytes of the parts that this process works on.
    in_progress: AtomicU64,
    /// True once the folder exists and a write into it succeeded.
    is_ready: AtomicBool,
    pause: Mutex<Option<Pause>>,
}

#[derive(Debug)]
struct Pause {
    since: Stopwatch,
    length: Duration,
    /// Bytes of the file that could not be stored.
    needed: u64,
    /// Free bytes at that time.
    free: u64,
    /// True once a download was admitted during the pause.
    is_probed: bool,
    why: String,
}

#[derive(Debug)]
pub struct LockedPart {
    pub path: PathBuf,
    /// Holds the lock.
    pub file: File,
    /// True while a write may continue after its caller gave up.
    is_written: AtomicBool,
    /// Stated bytes of the whole file; 0 if its host states none.
    size: AtomicU64,
}

/// Bytes of a part that count as used until this is dropped.
#[derive(Debug)]
pub struct ReservedBytes<'a> {
    parts: &'a PartialFiles,
    bytes: u64,
    received: u64,
}

impl PartialFiles {
    /// Uses the folder `parts` in `folder`; [`PartialFiles::prepare`] creates both. `used`: bytes of the stored files.
    #[must_use]
    pub fn new(folder: &Path, cap: u64, used: u64) -> Self {
        Self {
            root: folder.join("parts"),
            cap,
            used: used.into(),
            in_progress: AtomicU64::default(),
            is_ready: AtomicBool::default(),
            pause: Mutex::default(),
        }
    }

    pub fn open(folder: &Path, cap: u64, used: u64) -> io::Result<Self> {
        let parts = Self::new(folder, cap, used);
        parts.prepare()?;
        Ok(parts)
    }

    /// Creates missing folders and tests that they can be written. Does nothing after its first success.
    pub fn prepare(&self) -> io::Result<()> {
        if self.is_ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        create_private_folder(&self.root)?;
        for folder in [self.root.parent().unwrap_or(&self.root), &self.root] {
            private_file::check_planted(folder)?;
        }
        let probe = self.root.join(format!(".probe-{}", std::process::id()));
        private_file::replace(&probe, b"")?;
        fs::remove_file(&probe)?;
        self.remove_old()?;
        self.is_ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Removes old parts: their media were given up elsewhere, or are forgotten.
    pub fn remove_old(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            // Another process may have removed it.
            let age = entry.metadata().and_then(|of| of.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_none_or(|age| age <= MAX_PART_AGE) {
                continue;
            }
            let (path, part) = (entry.path(), entry.path().with_extension(""));
            if path != part {
                // A validator is removed with its part.
                if !part.exists() {
                    let _ = fs::remove_file(path);
                }
            } else if let Ok(Some(part)) = lock_part_at(path) {
                part.discard();
            }
        }
        Ok(())
    }

    pub fn set_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    #[must_use]
    pub fn cap(&self) -> u64 {
        self.cap
    }

    /// Bytes of stored files and of parts in progress.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed).saturating_add(self.in_progress.load(Ordering::Relaxed))
    }

    /// Returns a message for people if fewer than `more` bytes are left; `None` otherwise.
    #[must_use]
    pub fn no_room_message(&self, more: u64) -> Option<String> {
        let used = self.used();
        (self.cap > 0 && used.saturating_add(more) > self.cap).then(|| {
            format!(
                "there is no room for media: {:.1} of {:.1} MB are used; raise media.max_disk_bytes",
                used as f64 / 1e6,
                self.cap as f64 / 1e6
            )
        })
    }

    fn free_bytes(&self) -> u64 {
        let cap = if self.cap == 0 { u64::MAX } else { self.cap };
        cap.saturating_sub(self.used()).min(self.free_disk_bytes())
    }

    fn free_disk_bytes(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.root).ok().filter(|disk| disk.f_blocks > 0);
        disk.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// Reason that no file can be downloaded now: an unwritable folder, no free bytes, or a pause after a failed store. `None` admits a
    /// download: after the pause, or once more bytes are free, a single one until its result is known.
    #[must_use]
    pub fn blocked_reason(&self) -> Option<String> {
        if let Err(error) = self.prepare() {
            return Some(UnusableStorage::folder(&error).to_string());
        }
        if let Some(why) = self.no_room_message(0) {
            return Some(why);
        }
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pause.as_mut()?;
        let free = self.free_bytes();
        let has_room = free > known.free && free >= known.needed;
        if !has_room && known.since.elapsed() < known.length {
            return Some(known.why.clone());
        }
        // The others wait for the result.
        (known.since, known.free, known.is_probed) = (Stopwatch::start(), free, true);
        None
    }

    /// Starts or doubles the pause of all downloads, after a file of `needed` bytes could not be stored.
    pub fn pause(&self, needed: u64, why: &str) {
        let free = self.free_bytes();
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let length = match &*pause {
            // The failed download was in flight when the pause started.
            Some(known) if !known.is_probed => return,
            Some(known) => known.length.saturating_mul(2).min(PAUSE.1),
            None => PAUSE.0,
        };
        *pause = Some(Pause { since: Stopwatch::start(), length, needed, free, is_probed: false, why: why.to_owned() });
    }

    pub fn end_pause(&self) {
        *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn new_reservation(&self) -> ReservedBytes<'_> {
        ReservedBytes { parts: self, bytes: 0, received: 0 }
    }

    /// `None` if another process works on the part.
    pub fn lock_part(&self, namespace: &str, id: &str) -> io::Result<Option<LockedPart>> {
        let name = hex(digest(&SHA256, format!("{namespace}\0{id}").as_bytes()).as_ref());
        lock_part_at(self.root.join(name))
    }
}

fn lock_part_at(path: PathBuf) -> io::Result<Option<LockedPart>> {
    let file = private_file::open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The previous lock holder may have renamed it: then it is a whole file, and must not be touched.
    let is_ours = fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()));
    Ok(is_ours.then(|| LockedPart { path, file, is_written: AtomicBool::new(false), size: AtomicU64::default() }))
}

impl LockedPart {
    /// Returns a second handle for a separate writer. Until [`end_writing`](Self::end_writing), the lock lasts as long as either handle.
    pub fn begin_writing(&self) -> io::Result<File> {
        self.is_written.store(true, Ordering::Relaxed);
        self.file.try_clone()
    }

    pub fn end_writing(&self) {
        self.is_written.store(false, Ordering::Relaxed);
    }

    pub fn note_size(&self, bytes: u64) {
        self.size.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the whole file, or received bytes if the host states no size.
    #[must_use]
    pub fn size(&self) -> u64 {
        let received = self.file.metadata().map_or(0, |file| file.len());
        self.size.load(Ordering::Relaxed).max(received)
    }

    /// Removes the part. If that fails, it is removed when it is old.
    pub fn discard(&self) {
        let _ = fs::remove_file(validator_of(&self.path));
        let _ = fs::remove_file(&self.path);
    }

    /// Validator of the received bytes if they are from that URL, and the stated size of the whole file.
    #[must_use]
    pub fn validator(&self, url: &str) -> Option<(String, Option<u64>)> {
        let noted = String::from_utf8(private_file::read(&validator_of(&self.path)).ok()?).ok()?;
        let mut lines = noted.splitn(3, '\n');
        let (of, validator) = (lines.next()?, lines.next()?);
        let total = lines.next().and_then(|total| total.parse().ok());
        (of == url && !validator.is_empty()).then(|| (validator.to_owned(), total))
    }

    /// Notes the size of the whole file, and the validator of the bytes that follow. `None`: they cannot be resumed later.
    pub fn note_validator(&self, url: &str, validator: Option<&str>, total: Option<u64>) -> io::Result<()> {
        let path = validator_of(&self.path);
        let total = total.map(|total| total.to_string()).unwrap_or_default();
        match validator {
            Some(validator) => private_file::replace(&path, format!("{url}\n{validator}\n{total}").as_bytes()),
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

impl Drop for LockedPart {
    fn drop(&mut self) {
        // A process that starts at this moment has a copy of every open file: closing ours would not release the lock.
        if !*self.is_written.get_mut() {
            let _ = self.file.unlock();
        }
    }
}

impl ReservedBytes<'_> {
    /// Reserves bytes of an announced file; `missing` of them are not on the disk yet. Returns a message for people if too few are free.
    pub fn reserve_announced(&mut self, bytes: u64, missing: u64) -> Option<String> {
        let why = self.parts.no_room_message(bytes).or_else(|| {
            let left = self.parts.free_disk_bytes();
            (missing > left).then(|| {
                format!(
                    "there is no room for media: {:.1} MB are free on the disk of media.folder, and a file needs {:.1} MB; free some space",
                    left as f64 / 1e6,
                    missing as f64 / 1e6
                )
            })
        });
        self.count(bytes);
        why
    }

    /// Counts received bytes, unless they were reserved.
    pub fn add_received(&mut self, bytes: u64) {
        self.received += bytes;
        self.count(self.received.saturating_sub(self.bytes));
    }

    fn count(&mut self, bytes: u64) {
        self.parts.in_progress.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for ReservedBytes<'_> {
    fn drop(&mut self) {
        self.parts.in_progress.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn validator_of(part: &Path) -> PathBuf {
    part.with_extension("validator")
}

/// Creates a folder that only its owner can read: the files belong to other people.
pub(super) fn create_private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(cap: u64, used: u64) -> (tempfile::TempDir, PartialFiles) {
        let root = tempfile::tempdir().unwrap();
        let parts = PartialFiles::open(&root.path().join("media"), cap, used).unwrap();
        (root, parts)
    }

    #[test]
    fn a_part_is_in_one_pair_of_hands() {
        let (_root, parts) = parts(0, 0);
        let part = parts.lock_part("n", "1").unwrap().unwrap();
        assert!(parts.lock_part("n", "1").unwrap().is_none() && parts.lock_part("n", "2").unwrap().is_some());
        for total in [None, Some(7)] {
            part.note_validator("http://h/1", Some("\"tag\""), total).unwrap();
            assert_eq!(part.validator("http://h/1"), Some(("\"tag\"".to_owned(), total)));
        }
        assert_eq!(part.validator("http://h/2"), None, "another file");
        part.note_validator("http://h/1", None, None).unwrap();
        part.note_validator("http://h/1", None, None).unwrap();
        assert_eq!(part.validator("http://h/1"), None);
        drop(part);
        assert!(parts.lock_part("n", "1").unwrap().is_some());
    }

    #[test]
    fn a_lock_ends_with_its_part_and_not_before_what_is_written() {
        let (_root, parts) = parts(0, 0);
        let part = parts.lock_part("n", "1").unwrap().unwrap();
        let _copy = part.file.try_clone().unwrap(); // as a process that is being started has it
        drop(part);
        let part = parts.lock_part("n", "1").unwrap().unwrap();
        let writer = part.begin_writing().unwrap();
        drop(part);
        assert!(parts.lock_part("n", "1").unwrap().is_none(), "something may be written still");
        drop(writer);
        let part = parts.lock_part("n", "1").unwrap().unwrap();
        let _writer = part.begin_writing().unwrap();
        part.end_writing();
        drop(part);
        assert!(parts.lock_part("n", "1").unwrap().is_some());
    }

    #[test]
    fn a_lack_of_room_is_reported_with_its_remedy() {
        let (_root, parts) = parts(10, 8);
        assert_eq!(parts.no_room_message(2), None);
        let mut reserved = parts.new_reservation();
        reserved.add_received(1);
        let why = parts.no_room_message(2).unwrap();
        assert!(why.contains("no room for media") && why.contains("raise media.max_disk_bytes"), "{why}");
        drop(reserved);
        assert_eq!(parts.no_room_message(2), None);
        parts.set_used(11);
        assert!(parts.no_room_message(0).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_without_room_and_end_with_room() {
        let (_root, parts) = parts(100, 90);
        let let_through = || parts.blocked_reason().is_none();
        assert!(let_through());
        // Sixteen downloads were in flight.
        (0..16).for_each(|_| parts.pause(20, "no room"));
        let mut seconds = Vec::new();
        for _ in 0..9 {
            assert_eq!(parts.blocked_reason().as_deref(), Some("no room"));
            let since = Stopwatch::start();
            while !let_through() {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            assert!(!let_through(), "one at a time");
            seconds.push(since.elapsed().as_secs());
            parts.pause(20, "no room");
        }
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        // A little more room is not enough.
        parts.set_used(85);
        assert!(!let_through());
        parts.set_used(80);
        assert!(let_through() && !let_through());
        parts.end_pause();
        assert!(let_through() && let_through());
        parts.pause(20, "no room");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(let_through(), "it starts over after a success");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_made_later() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("media");
        fs::write(&folder, "in the way").unwrap();
        let parts = PartialFiles::new(&folder, 0, 0);
        assert!(parts.blocked_reason().unwrap().starts_with("the folder of media cannot be written: "));
        fs::remove_file(&folder).unwrap();
        assert_eq!(parts.blocked_reason(), None);
        assert!(folder.join("parts").is_dir());
    }

    #[test]
    fn old_parts_that_are_not_in_use_are_removed() {
        let (root, parts) = parts(0, 0);
        let part = parts.lock_part("n", "1").unwrap().unwrap();
        part.note_validator("http://h/1", Some("\"tag\""), None).unwrap();
        let long_ago = part.file.metadata().unwrap().modified().unwrap() - 2 * MAX_PART_AGE;
        part.file.set_modified(long_ago).unwrap();
        let young = parts.lock_part("n", "2").unwrap().unwrap();
        young.note_validator("http://h/2", Some("\"tag\""), None).unwrap();
        let noted = File::options().write(true).open(validator_of(&young.path)).unwrap();
        noted.set_modified(long_ago).unwrap();
        parts.remove_old().unwrap();
        assert!(part.path.exists(), "it is in work");
        let path = part.path.clone();
        drop(part);
        let again = PartialFiles::open(&root.path().join("media"), 0, 0).unwrap();
        assert!(!path.exists() && !validator_of(&path).exists());
        assert!(young.path.exists() && young.validator("http://h/2").is_some());
        drop(again);
    }
}
