//! Errors of calls to an API, by what a caller decides from them.

use std::fmt::Display;

pub trait CallError: Display {
    /// Returns true if the API gave no usable response. Returns false for a refusal: the API did respond.
    fn is_outage(&self) -> bool;

    /// Kind of the recorded error. `None` for an expected error, and if only the caller finds the cause (an item, the credential).
    fn kind(&self) -> Option<ErrorKind>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The API or another host is down, unreachable or too slow.
    NoAnswer,
    /// A response cannot be parsed.
    BadAnswer,
    /// The API rejects calls that its quota allowed.
    RateLimit,
    Credential,
    Refused,
    Clock,
    /// A service that the worker needs is down: the store, the ledger, the disk.
    Outage,
    Queue,
    Dead,
    /// The pipeline can never work with its configuration.
    Stopped,
    Restart,
}

impl ErrorKind {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoAnswer => "no answer",
            Self::BadAnswer => "unusable answer",
            Self::RateLimit => "rate limit",
            Self::Credential => "credential refused",
            Self::Refused => "request refused",
            Self::Clock => "wrong clock",
            Self::Outage => "outage",
            Self::Queue => "queue",
            Self::Dead => "dead",
            Self::Stopped => "stopped",
            Self::Restart => "restart",
        }
    }
}
