use std::borrow::Cow;
use std::fmt;

/// Reason why an entry of a file, a body or `incoming` is rejected, in one clause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    #[error("{0}")]
    HeaderLine(&'static str),
    /// Not readable: a binary file, another encoding, a truncated or a too long entry.
    #[error("{0}")]
    Unreadable(&'static str),
    /// Input of another kind than expected; the text names it.
    #[error("{0}")]
    OtherKind(Cow<'static, str>),
    /// A row of a table without a usable id.
    #[error("{0}")]
    BadRow(Cow<'static, str>),
    #[error(
        "the first line names the columns, and the accounts are not in the first column: keep only their column ({cut_command})"
    )]
    WrongColumn { cut_command: String },
    #[error(
        "the first column seems to number the lines: keep only the column of the accounts ({cut_command}). If these are ids, write \
         id,name as the first line"
    )]
    NumberedLines { cut_command: String },
    /// The network's reader rejects it.
    #[error("{0}")]
    Rejected(String),
    #[error("{place}: {reason}")]
    Part { place: String, reason: Box<Self> },
    /// The queue's rule for ids.
    #[error("{0}")]
    BadId(&'static str),
    #[error("the id does not contain the date of its post: created_at is needed")]
    NoDate,
    #[error("{0}")]
    BadDate(&'static str),
    #[error("the starter returned no result for this entry")]
    NoAnswer,
}

impl InvalidEntry {
    pub(super) fn rejected(reason: impl fmt::Display) -> Self {
        Self::Rejected(reason.to_string())
    }

    pub(super) fn other_kind(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::OtherKind(reason.into())
    }

    pub(super) fn in_part(self, place: impl Into<String>) -> Self {
        Self::Part { place: place.into(), reason: self.into() }
    }
}
