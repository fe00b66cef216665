//! The seam to an API's stream: new posts over a connection that stays open. The reader is
//! `pipelines::streams`.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::post::{Ingested, Tweet};
use crate::providers::http::StreamBody;
use crate::providers::lookup::LookupError;
use crate::providers::unreadable::UnreadableObject;

#[async_trait]
pub trait Stream: Send + Sync + fmt::Debug {
    /// Connects, and returns once the API has accepted the request. Each error states when to retry.
    async fn connect(&self) -> Result<Box<dyn Chunks>, StreamError>;

    /// Maximum time between two bytes; after it the connection is dead, whatever TCP reports.
    fn read_timeout(&self) -> Duration;

    /// Parses a line that is not blank.
    fn read(&self, line: &str) -> Message;
}

#[async_trait]
pub trait Chunks: Send {
    /// Next bytes; `None` when the API ended the connection. The error states how the connection broke.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, StreamError>;
}

#[async_trait]
impl Chunks for StreamBody {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, StreamError> {
        Self::chunk(self).await.map_err(StreamError::from_failed_call)
    }
}

#[derive(Debug)]
pub enum Message {
    /// A post. If `broken` is set, only its id is known.
    Post {
        post: Box<Ingested>,
        /// Reason why it cannot be read whole.
        broken: Option<String>,
    },
    Notice(String),
    Ended(StreamError),
    Unreadable(String),
}

impl Message {
    /// Reads a post with `parse`; if that fails, keeps only the id that `read_id` finds.
    pub fn from_post(
        raw: &str,
        parse: impl Fn(&str) -> Result<Tweet, UnreadableObject>,
        read_id: impl Fn(&str) -> Option<String>,
    ) -> Self {
        match parse(raw) {
            Ok(tweet) => Self::Post { post: Box::new(tweet.into()), broken: None },
            Err(why) => match read_id(raw) {
                Some(id) => Self::Post { post: Box::new(Ingested::bare(id)), broken: Some(why.to_string()) },
                None => Self::Unreadable(why.to_string()),
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The connection cannot be made, broke, ended or fell silent.
    #[error("{0}")]
    Network(String),
    /// An HTTP error that may pass.
    #[error("the API is not available: {0}")]
    Http(String),
    /// An HTTP error that may pass, with a time to wait (`Retry-After`).
    #[error("the API is not available: {why}")]
    Overloaded {
        why: String,
        /// Minimum wait that the answer stated.
        at_least: Duration,
    },
    /// Too many connections, or too many attempts.
    #[error("rate limited: {why}")]
    RateLimited {
        why: String,
        /// Minimum wait that the answer stated.
        at_least: Duration,
    },
    /// Fatal until a person has fixed the cause.
    #[error("{0}")]
    Refused(String),
}

impl StreamError {
    #[must_use]
    pub fn from_refusal(error: LookupError) -> Self {
        match error {
            LookupError::Outage(why) => Self::Http(why),
            LookupError::BadAnswer(_) | LookupError::Clock(_) | LookupError::QueueClock(_) => {
                Self::Http(error.to_string())
            }
            LookupError::Overloaded { why, pause } => Self::Overloaded { why, at_least: pause },
            LookupError::Throttled { pause, .. } => Self::RateLimited { why: error.to_string(), at_least: pause },
            // A lookup retries some of these with other credentials. A stream has only one.
            LookupError::Credential(_)
            | LookupError::Unready(_)
            | LookupError::BatchTooLarge(_)
            | LookupError::BadRequest(_)
            | LookupError::Stop(_) => Self::Refused(error.to_string()),
        }
    }

    /// Meaning of an unanswered stream request: no answer came, or no token was available.
    #[must_use]
    pub fn from_failed_call(error: LookupError) -> Self {
        match error {
            LookupError::Outage(why) => Self::Network(why),
            LookupError::Unready(_) => Self::Http(error.to_string()),
            other => Self::from_refusal(other),
        }
    }
}
