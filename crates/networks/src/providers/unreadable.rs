//! Reasons why an object is unreadable. Their texts are clauses, and quote at most 40 characters of the object.

use serde_json::Error;
use serde_json::error::Category;

use crate::model::post::BadId;

/// Reason why an object of an answer, a stream or an ingest is unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableObject {
    #[error("not JSON, at column {column}")]
    NotJson { column: usize },
    #[error("not JSON, at column {column} of its line {line}")]
    NotJsonInLine { line: usize, column: usize },
    /// Another kind of value than the named one.
    #[error("not {0}")]
    Not(&'static str),
    #[error("no {0}")]
    Missing(&'static str),
    #[error("neither full_text nor text")]
    NoText,
    #[error("the {0} is not a string")]
    NotAString(&'static str),
    #[error("the {0} is not an object")]
    NotAnObject(&'static str),
    #[error("{field} \"{text}\" is not a date")]
    NotADate { field: &'static str, text: String },
    #[error("{0}: {1}")]
    BadId(&'static str, BadId),
    /// The place takes no objects.
    #[error("only ids can be put in here")]
    NotAccepted,
}

impl UnreadableObject {
    /// Keeps only the position: serde_json's text would quote the input.
    #[must_use]
    pub fn from_json_error(error: &Error) -> Self {
        match (error.classify(), error.line(), error.column()) {
            (Category::Data, ..) => Self::Not("a JSON object"),
            (_, 1, column) => Self::NotJson { column },
            (_, line, column) => Self::NotJsonInLine { line, column },
        }
    }
}
