//! Outcomes of a fetch, and the failures that lead to them.

use std::io;
use std::time::Duration;

use super::super::files::CompleteFile;
use super::super::unusable_storage::UnusableStorage;
use networks::model::media::MediaState;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchOutcome {
    Stored(StoredFile),
    /// The file no longer exists, or the host denies it; the reason.
    Gone(String),
    /// The file is not wanted; the reason.
    Refused(String),
    /// An answer that a faulty host also gives: retried, and accepted after some time.
    Unconfirmed {
        /// Final state of the medium once the answer is accepted.
        state: MediaState,
        why: String,
    },
    Failed {
        why: String,
        /// True if the host is down: its other files wait, too.
        is_of_host: bool,
        /// Pause that the host requests.
        after: Option<Duration>,
    },
    /// The time ended during the download: the next attempt resumes it.
    Interrupted,
    /// Postponed without a failure; the wait until the next attempt.
    Later(Duration),
    /// No bytes are left, or the storage is down: no file can be fetched. The reason, and the fix.
    StorageUnavailable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    pub file: CompleteFile,
    pub is_new: bool,
    pub is_continued: bool,
    /// Address of the smaller size that was stored; `None`: the medium's own.
    pub smaller: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct PartialFile {
    pub bytes: u64,
    pub validator: String,
    /// Size of the whole file, as stated by the first answer.
    pub total: Option<u64>,
}

pub(super) enum LoadError {
    Ended(FetchOutcome),
    /// The host has no file at this address, or fails; another size may exist.
    NotAtAddress(FetchOutcome),
    /// The partial file does not fit the host's current file.
    Restart,
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self::Ended(storage_failure(&error))
    }
}

pub(super) fn file_failure(why: impl Into<String>) -> FetchOutcome {
    FetchOutcome::Failed { why: why.into(), is_of_host: false, after: None }
}

pub(super) fn host_failure(why: String, after: Option<Duration>) -> FetchOutcome {
    FetchOutcome::Failed { why, is_of_host: true, after }
}

pub(super) fn storage_failure(error: &io::Error) -> FetchOutcome {
    FetchOutcome::StorageUnavailable(UnusableStorage::folder(error).to_string())
}
