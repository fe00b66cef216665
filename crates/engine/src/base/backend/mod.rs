//! The services under the queue, the quota ledger and stores: a Redis, and SQLite files.

pub mod loopback;
pub mod redis;
pub mod sqlite;

use std::io;
use std::path::PathBuf;

/// Error of a call to the queue's service. Each variant is a decision for the caller.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The outcome is unknown. Every call may be repeated.
    #[error("the queue is not available: {0}")]
    Unavailable(String),
    /// The queue's memory is full. Nothing can be scheduled; claims and settles still drain it.
    #[error("the queue is full: {0}")]
    Full(String),
    /// Its file was deleted or replaced. Nothing is written any more, and the process has to stop.
    #[error("{0}")]
    Gone(String),
    /// It can never work like this: the server's version or settings, or a bug.
    #[error("{0}")]
    Refused(String),
}

/// A service that answers, but accepts no writes.
#[derive(Debug, thiserror::Error)]
pub enum RefusedWrites {
    #[error("{} cannot be written: {error}; {remedy}", .path.display())]
    Disk { path: PathBuf, error: io::Error, remedy: &'static str },
    #[error("Redis accepts no writes: {0}")]
    Redis(String),
}

impl BackendError {
    /// Returns true if the same call may succeed later without a change.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_))
    }
}
