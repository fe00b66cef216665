//! The place where files are kept. A file is named by the hash of its bytes, so what a thousand posts show is kept once, and
//! putting it there again changes nothing.
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

use super::parts::{Part, make, unusable};
use crate::base::private_file::check_planted;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The hash of its bytes.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Its type, by its first bytes: `image/jpeg`.
    pub kind: &'static str,
}

/// The place of all files, shared by all processes. An error says in one clause why, and what to do.
#[async_trait]
pub trait Files: Send + Sync + Debug {
    /// Keeps a part as that file, whole or not at all, and safe when this returns; the part is gone then. Returns false if
    /// the file is there already. After an error the part is where it was, and the same may be asked again.
    ///
    /// # Errors
    /// The place does not take it.
    async fn put(&self, part: Part, file: &Whole) -> Result<bool, String>;

    /// Removes a file. One that is not there is removed.
    ///
    /// # Errors
    /// The place does not do it.
    async fn remove(&self, sha256: &str) -> Result<(), String>;
}

/// The name of a file below the place: `ab/cdef…`.
pub(super) fn name(sha256: &str) -> String {
    let (first, rest) = sha256.split_at_checked(2).unwrap_or(("", sha256));
    format!("{first}/{rest}")
}

/// A folder. A file is flushed to the disk and then renamed: who sees a name sees all of its bytes.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// A folder that is there, or is made with the first file.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The path of a file.
    #[must_use]
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.root.join(name(sha256))
    }

    fn take(&self, part: &Part, file: &Whole) -> io::Result<bool> {
        part.file.sync_all()?;
        let path = self.path(&file.sha256);
        if fs::metadata(&path).is_ok_and(|there| there.len() == file.bytes) {
            part.discard();
            return Ok(false);
        }
        // Every name has a folder.
        let folder = path.parent().unwrap_or(&self.root);
        make(folder)?;
        check_planted(folder)?;
        fs::rename(&part.path, &path)?;
        File::open(folder)?.sync_all()?;
        part.discard();
        Ok(true)
    }
}

#[async_trait]
impl Files for Folder {
    async fn put(&self, part: Part, file: &Whole) -> Result<bool, String> {
        let (folder, file) = (self.clone(), file.clone());
        let put = spawn_blocking(move || folder.take(&part, &file)).await;
        put.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| unusable(&error))
    }

    async fn remove(&self, sha256: &str) -> Result<(), String> {
        match tokio::fs::remove_file(self.path(sha256)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(&error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ring::digest::{SHA256, digest};

    use super::super::hash::hex;
    use super::super::parts::Parts;
    use super::*;

    #[tokio::test]
    async fn the_same_bytes_are_kept_once() {
        let root = tempfile::tempdir().unwrap();
        let (parts, folder) = (Parts::open(root.path(), 0, 0).unwrap(), Folder::new(root.path()));
        let sha256 = hex(digest(&SHA256, b"abc").as_ref());
        assert_eq!(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let file = Whole { sha256: sha256.clone(), bytes: 3, kind: "image/png" };
        for (id, is_new) in [("1", true), ("2", false)] {
            let mut part = parts.part("media:twitter", id).unwrap().unwrap();
            part.file.write_all(b"abc").unwrap();
            assert_eq!(folder.put(part, &file).await, Ok(is_new));
        }
        assert_eq!(fs::read(folder.path(&sha256)).unwrap(), b"abc");
        assert_eq!(fs::read_dir(root.path().join("parts")).unwrap().count(), 0);
        for _ in 0..2 {
            folder.remove(&sha256).await.unwrap();
        }
        assert!(!folder.path(&sha256).exists());
    }
}
