use std::io;

/// The storage takes no files; the reason and the fix, in one clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableStorage {
    #[error("the folder of media cannot be written: {0}; check media.folder and its disk")]
    Folder(String),
    #[error("the bucket of media does not take files: {error}; {fix}")]
    Bucket { error: String, fix: &'static str },
}

impl UnusableStorage {
    pub(super) fn folder(error: &io::Error) -> Self {
        Self::Folder(error.to_string())
    }
}

impl From<io::Error> for UnusableStorage {
    fn from(error: io::Error) -> Self {
        Self::folder(&error)
    }
}
