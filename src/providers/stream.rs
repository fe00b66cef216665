//! The seam to an API's stream: new posts over a connection that stays open. Whoever reads one is
//! [`pipelines::streams`](crate::pipelines::streams).

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::post::{Ingested, Tweet};
use crate::providers::http::OpenBody;
use crate::providers::lookup::LookupError;

/// One API's stream, in the name of one credential.
#[async_trait]
pub trait Stream: Send + Sync + fmt::Debug {
    /// Connects. Answers once the API has taken the request.
    ///
    /// # Errors
    /// Not connected; each variant says when to retry.
    async fn connect(&self) -> Result<Box<dyn Chunks>, Broken>;

    /// A connection on which no byte came for so long is dead, whatever TCP says.
    fn silence(&self) -> Duration;

    /// Parses a line that is not blank.
    fn read(&self, line: &str) -> Message;
}

/// A connection's bytes.
#[async_trait]
pub trait Chunks: Send {
    /// The next ones; `None` when the API ended it.
    ///
    /// # Errors
    /// The connection broke; says how.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, String>;
}

#[async_trait]
impl Chunks for OpenBody {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        Self::chunk(self).await
    }
}

/// The content of a line.
#[derive(Debug)]
pub enum Message {
    /// A post. Where `broken` says why it cannot be read, its id is all there is of it.
    Post {
        /// The post.
        post: Box<Ingested>,
        /// Why it cannot be read whole.
        broken: Option<String>,
    },
    /// The API has something to say about the stream.
    Notice(String),
    /// The API ends the connection.
    Ended(Broken),
    /// Nothing we know; says what is wrong with it.
    Unreadable(String),
}

impl Message {
    /// A post, which `parse` reads; by the id that `id_of` finds, where it cannot be read.
    pub fn post(
        raw: &str,
        parse: impl Fn(&str) -> Result<Tweet, String>,
        id_of: impl Fn(&str) -> Option<String>,
    ) -> Self {
        match parse(raw) {
            Ok(tweet) => Self::Post { post: Box::new(tweet.into()), broken: None },
            Err(why) => match id_of(raw) {
                Some(id) => Self::Post { post: Box::new(Ingested::bare(id)), broken: Some(why) },
                None => Self::Unreadable(why),
            },
        }
    }
}

/// Why there is no connection, or no longer one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The connection: it cannot be made, broke, ended or fell silent.
    #[error("{0}")]
    Network(String),
    /// An HTTP error that may pass.
    #[error("the API is not available: {0}")]
    Http(String),
    /// An HTTP error that may pass, with a time to wait (`Retry-After`).
    #[error("the API is not available: {why}")]
    Overloaded {
        /// The API's answer.
        why: String,
        /// The minimum wait, as the answer stated.
        at_least: Duration,
    },
    /// Too many connections, or attempts.
    #[error("rate limited: {why}")]
    RateLimited {
        /// The API's answer.
        why: String,
        /// The minimum wait, as the answer stated.
        at_least: Duration,
    },
    /// It cannot work before a person has fixed the cause.
    #[error("{0}")]
    Refused(String),
}

impl Broken {
    /// What it means that a stream's request was answered like this.
    #[must_use]
    pub fn refused(error: LookupError) -> Self {
        match error {
            LookupError::Outage(why) => Self::Http(why),
            LookupError::BadAnswer(_) | LookupError::Clock(_) | LookupError::QueueClock(_) => {
                Self::Http(error.to_string())
            }
            LookupError::Overloaded { why, pause } => Self::Overloaded { why, at_least: pause },
            LookupError::Throttled { pause, .. } => Self::RateLimited { why: error.to_string(), at_least: pause },
            // A lookup takes some of these for passing, since other credentials may fare better. A stream has one.
            LookupError::Credential(_)
            | LookupError::Unready(_)
            | LookupError::BatchTooLarge(_)
            | LookupError::BadRequest(_)
            | LookupError::Stop(_) => Self::Refused(error.to_string()),
        }
    }

    /// What it means that there was no answer to a stream's request: none came, or no token was to be had for it.
    #[must_use]
    pub fn unanswered(error: LookupError) -> Self {
        match error {
            LookupError::Outage(why) => Self::Network(why),
            LookupError::Unready(_) => Self::Http(error.to_string()),
            other => Self::refused(other),
        }
    }
}
