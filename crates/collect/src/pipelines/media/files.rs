//! Storage of files. A file's name is the hash of its bytes: storing it again changes nothing.
//!
//! ```text
//!   FOLDER/ab/cdef…                        SHA-256 of its bytes, in hexadecimal digits
//!   s3://BUCKET/PREFIX/ab/cdef…            the same in a bucket
//! ```

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use super::partial_files::{LockedPart, create_private_folder};
use super::unusable_storage::UnusableStorage;
use engine::base::private_file::check_planted;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteFile {
    pub sha256: String,
    pub bytes: u64,
    /// Type by its first bytes: `image/jpeg`.
    pub kind: &'static str,
}

/// Storage of all files, shared by all processes.
#[async_trait]
pub trait FileStorage: Send + Sync + Debug {
    /// Stores a part as that file, whole or not at all, and durable; the part is then gone. Returns false if the file exists already.
    /// After an error the part is unchanged, and the call may be repeated.
    async fn store(&self, part: LockedPart, file: &CompleteFile) -> Result<bool, UnusableStorage>;

    /// Succeeds if the file does not exist.
    async fn remove(&self, sha256: &str) -> Result<(), UnusableStorage>;
}

/// `ab/cdef…`.
pub(super) fn relative_path(sha256: &str) -> String {
    let (first, rest) = sha256.split_at_checked(2).unwrap_or(("", sha256));
    format!("{first}/{rest}")
}

/// A file is flushed to disk before its rename, so a visible name always has all of its bytes.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    #[must_use]
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.root.join(relative_path(sha256))
    }

    fn move_into_place(&self, part: &LockedPart, file: &CompleteFile) -> io::Result<bool> {
        part.file.sync_all()?;
        let path = self.path(&file.sha256);
        if fs::metadata(&path).is_ok_and(|there| there.len() == file.bytes) {
            part.discard();
            return Ok(false);
        }
        // Every name has a folder.
        let folder = path.parent().unwrap_or(&self.root);
        create_private_folder(folder)?;
        check_planted(folder)?;
        fs::rename(&part.path, &path)?;
        File::open(folder)?.sync_all()?;
        part.discard();
        Ok(true)
    }
}

#[async_trait]
impl FileStorage for Folder {
    async fn store(&self, part: LockedPart, file: &CompleteFile) -> Result<bool, UnusableStorage> {
        let (folder, file) = (self.clone(), file.clone());
        let put = spawn_blocking(move || folder.move_into_place(&part, &file)).await;
        Ok(put.unwrap_or_else(|error| Err(io::Error::other(error)))?)
    }

    async fn remove(&self, sha256: &str) -> Result<(), UnusableStorage> {
        match tokio::fs::remove_file(self.path(sha256)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ring::digest::{SHA256, digest};

    use super::super::hash::hex;
    use super::super::partial_files::PartialFiles;
    use super::*;

    #[tokio::test]
    async fn the_same_bytes_are_kept_once() {
        let root = tempfile::tempdir().unwrap();
        let (parts, folder) = (PartialFiles::open(root.path(), 0, 0).unwrap(), Folder::new(root.path()));
        let sha256 = hex(digest(&SHA256, b"abc").as_ref());
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let file = CompleteFile { sha256: sha256.clone(), bytes: 3, kind: "image/png" };
        for (id, is_new) in [("1", true), ("2", false)] {
            let mut part = parts.lock_part("media:twitter", id).unwrap().unwrap();
            part.file.write_all(b"abc").unwrap();
            assert_eq!(folder.store(part, &file).await, Ok(is_new));
        }
        assert_eq!(fs::read(folder.path(&sha256)).unwrap(), b"abc");
        assert_eq!(fs::read_dir(root.path().join("parts")).unwrap().count(), 0);
        for _ in 0..2 {
            folder.remove(&sha256).await.unwrap();
        }
        assert!(!folder.path(&sha256).exists());
    }
}
