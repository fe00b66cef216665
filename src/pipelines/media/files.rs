//! The folder of files. A file is named by the hash of its bytes, so what a thousand posts show is kept once, and writing it
//! again changes nothing.
//!
//! ```text
//!   FOLDER/parts/<hash of the medium's name>       a file on its way, and beside it its validator
//!   FOLDER/ab/cdef…                                SHA-256 of its bytes, in hexadecimal digits
//! ```
//!
//! A file is written whole, flushed to the disk, and then renamed: who sees a name sees all of its bytes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ring::digest::{Context, SHA256, digest};

/// A part that nobody went on with for so long is removed.
const OLD_PART: Duration = Duration::from_secs(7 * 86_400);

/// Hexadecimal digits of a hash.
#[must_use]
pub fn hex(hash: &[u8]) -> String {
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// A hash of bytes that come one after the other.
#[must_use]
pub fn hash() -> Context {
    Context::new(&SHA256)
}

/// The folder of files.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Bytes that the files may take; 0: as many as the disk has.
    cap: u64,
    /// Bytes of the files, as far as this process knows.
    used: AtomicU64,
    /// Bytes of the parts that this process has in work.
    on_the_way: AtomicU64,
}

/// A part in work: no other process has it.
#[derive(Debug)]
pub struct Part {
    /// Its file.
    pub path: PathBuf,
    /// The lock, for as long as it is open.
    pub file: File,
}

/// Bytes of a part that count as used as long as this lives.
#[derive(Debug)]
pub struct Reserved<'a> {
    folder: &'a Folder,
    bytes: u64,
}

impl Folder {
    /// Opens the folder, and makes it if it is not there. `used` are the bytes of its files.
    ///
    /// # Errors
    /// It cannot be made, or nothing can be written into it.
    pub fn open(root: &Path, cap: u64, used: u64) -> io::Result<Self> {
        let folder = Self { root: root.to_owned(), cap, used: used.into(), on_the_way: AtomicU64::default() };
        make(&folder.parts())?;
        let probe = folder.parts().join(format!(".probe-{}", std::process::id()));
        File::create(&probe)?;
        fs::remove_file(&probe)?;
        folder.remove_old_parts()?;
        Ok(folder)
    }

    fn parts(&self) -> PathBuf {
        self.root.join("parts")
    }

    fn remove_old_parts(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.parts())? {
            let entry = entry?;
            // Another process may have removed it.
            let age = entry.metadata().and_then(|of| of.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > OLD_PART) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, sha256: &str) -> PathBuf {
        let (first, rest) = sha256.split_at_checked(2).unwrap_or(("", sha256));
        self.root.join(first).join(rest)
    }

    /// Notes how many bytes all files take, as the store knows it.
    pub fn set_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the files and of the parts in work.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed).saturating_add(self.on_the_way.load(Ordering::Relaxed))
    }

    /// What to tell a person if there is no room for so many bytes more.
    #[must_use]
    pub fn is_full(&self, more: u64) -> Option<String> {
        let used = self.used();
        (self.cap > 0 && used.saturating_add(more) > self.cap).then(|| {
            format!(
                "the folder of media is full: {:.1} of {:.1} MB; raise media.max_disk_bytes, or remove files",
                used as f64 / 1e6,
                self.cap as f64 / 1e6
            )
        })
    }

    /// Counts nothing yet.
    pub fn reserve(&self) -> Reserved<'_> {
        Reserved { folder: self, bytes: 0 }
    }

    /// Opens the part of a medium; `None` if another process has it in work.
    ///
    /// # Errors
    /// The disk's.
    pub fn part(&self, namespace: &str, id: &str) -> io::Result<Option<Part>> {
        let name = hex(digest(&SHA256, format!("{namespace}\0{id}").as_bytes()).as_ref());
        let path = self.parts().join(name);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Whoever had the lock may have renamed it: then it is a whole file, and must not be touched.
        let is_ours = fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()));
        Ok(is_ours.then_some(Part { path, file }))
    }

    /// Takes a part as the file with that hash. Returns false if the folder has it already.
    ///
    /// # Errors
    /// The disk's.
    pub fn put(&self, part: &Part, sha256: &str, size: u64) -> io::Result<bool> {
        part.file.sync_all()?;
        let path = self.path(sha256);
        if fs::metadata(&path).is_ok_and(|there| there.len() == size) {
            // It is in use again, which who removes files looks at.
            File::options().write(true).open(&path)?.set_modified(part.file.metadata()?.modified()?)?;
            self.discard(part);
            return Ok(false);
        }
        // The root is the parent of a hash that is too short, which none is.
        let folder = path.parent().unwrap_or(&self.root);
        make(folder)?;
        fs::rename(&part.path, &path)?;
        File::open(folder)?.sync_all()?;
        let _ = fs::remove_file(validator_of(&part.path));
        self.used.fetch_add(size, Ordering::Relaxed);
        Ok(true)
    }

    /// Removes a part. If that fails it is removed when it is old.
    pub fn discard(&self, part: &Part) {
        let _ = fs::remove_file(validator_of(&part.path));
        let _ = fs::remove_file(&part.path);
    }

    /// Returns true if the file was neither written nor met again for so long, or is not there.
    #[must_use]
    pub fn is_old(&self, sha256: &str, age: Duration) -> bool {
        let modified = fs::metadata(self.path(sha256)).and_then(|there| there.modified());
        modified.ok().and_then(|at| at.elapsed().ok()).is_none_or(|passed| passed >= age)
    }

    /// Removes a file. One that is not there is removed.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove(&self, sha256: &str) -> io::Result<()> {
        let path = self.path(sha256);
        let size = fs::metadata(&path).map_or(0, |there| there.len());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let less = |used: u64| Some(used.saturating_sub(size));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        Ok(())
    }
}

impl Part {
    /// The validator of its bytes, if it was noted for that URL.
    #[must_use]
    pub fn validator(&self, url: &str) -> Option<String> {
        let noted = fs::read_to_string(validator_of(&self.path)).ok()?;
        let (of, validator) = noted.split_once('\n')?;
        (of == url && !validator.is_empty()).then(|| validator.to_owned())
    }

    /// Notes the validator of the bytes that follow; `None`: they cannot be continued later.
    ///
    /// # Errors
    /// The disk's.
    pub fn note_validator(&self, url: &str, validator: Option<&str>) -> io::Result<()> {
        let path = validator_of(&self.path);
        match validator {
            Some(validator) => fs::write(path, format!("{url}\n{validator}")),
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

impl Reserved<'_> {
    /// Counts so many bytes more.
    pub fn add(&mut self, bytes: u64) {
        self.folder.on_the_way.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.folder.on_the_way.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn validator_of(part: &Path) -> PathBuf {
    part.with_extension("validator")
}

/// Makes a folder that only its owner reads: the files are other people's.
fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn folder(cap: u64) -> (tempfile::TempDir, Folder) {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(&root.path().join("media"), cap, 0).unwrap();
        (root, folder)
    }

    fn put(folder: &Folder, id: &str, content: &[u8]) -> (String, bool) {
        let mut part = folder.part("media:twitter", id).unwrap().unwrap();
        part.file.write_all(content).unwrap();
        let sha256 = hex(digest(&SHA256, content).as_ref());
        let is_new = folder.put(&part, &sha256, content.len() as u64).unwrap();
        (sha256, is_new)
    }

    #[test]
    fn the_same_bytes_are_kept_once() {
        let (_root, folder) = folder(0);
        let (sha256, is_new) = put(&folder, "1", b"abc");
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(is_new && !put(&folder, "2", b"abc").1);
        assert_eq!(fs::read(folder.path(&sha256)).unwrap(), b"abc");
        assert_eq!((folder.used(), fs::read_dir(folder.parts()).unwrap().count()), (3, 0));
        folder.remove(&sha256).unwrap();
        folder.remove(&sha256).unwrap();
        assert_eq!((folder.used(), folder.path(&sha256).exists()), (0, false));
    }

    #[test]
    fn a_part_is_in_one_pair_of_hands() {
        let (_root, folder) = folder(0);
        let part = folder.part("n", "1").unwrap().unwrap();
        assert!(folder.part("n", "1").unwrap().is_none() && folder.part("n", "2").unwrap().is_some());
        part.note_validator("http://h/1", Some("\"tag\"")).unwrap();
        assert_eq!(part.validator("http://h/1").as_deref(), Some("\"tag\""));
        assert_eq!(part.validator("http://h/2"), None, "another file");
        part.note_validator("http://h/1", None).unwrap();
        part.note_validator("http://h/1", None).unwrap();
        assert_eq!(part.validator("http://h/1"), None);
        drop(part);
        assert!(folder.part("n", "1").unwrap().is_some());
    }

    #[test]
    fn a_full_folder_says_so_and_what_to_do() {
        let (_root, folder) = folder(10);
        put(&folder, "1", b"12345678");
        assert_eq!(folder.is_full(2), None);
        let mut reserved = folder.reserve();
        reserved.add(1);
        let why = folder.is_full(2).unwrap();
        assert!(why.contains("is full") && why.contains("raise media.max_disk_bytes"), "{why}");
        drop(reserved);
        assert_eq!(folder.is_full(2), None);
        folder.set_used(11);
        assert!(folder.is_full(0).is_some());
    }

    #[test]
    fn old_parts_are_removed_at_the_start() {
        let (_root, folder) = folder(0);
        let part = folder.part("n", "1").unwrap().unwrap();
        let long_ago = part.file.metadata().unwrap().modified().unwrap() - 2 * OLD_PART;
        part.file.set_modified(long_ago).unwrap();
        let young = folder.part("n", "2").unwrap().unwrap();
        let again = Folder::open(&folder.root, 0, 0).unwrap();
        assert!(!part.path.exists() && young.path.exists());
        drop(again);
    }
}
