//! The filtered stream of X API v2, `GET /2/tweets/search/stream`: posts that match one of the account's rules.
//!
//! The rules are between the account and X (`POST /2/tweets/search/stream/rules`): this file reads them, and never writes them.
//! Sources: docs.x.com (x-api/posts/filtered-stream, x-api/fundamentals/handling-disconnections).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::providers::auth::Auth;
use crate::providers::http::{ClientError, HttpClient, StreamReply, endpoint_url, parse_base_url, request_build_error};
use crate::providers::lookup::LookupError;
use crate::providers::stream::{Chunks, Message, Stream, StreamError};
use crate::providers::x_v2::{Fields, errors, parse_post, read_id};
use engine::quota::Credential;

const STREAM_PATH: &str = "2/tweets/search/stream";
const RULES_PATH: &str = "2/tweets/search/stream/rules";

/// Longest silence of the stream: X sends a blank line at least every 20 s, and a quarter more allows for delays behind a burst.
const READ_TIMEOUT: Duration = Duration::from_secs(25);

#[derive(Debug)]
pub struct SearchStream {
    http: HttpClient,
    stream: Url,
    rules: Url,
    auth: Auth,
    credential: Arc<Credential>,
}

impl SearchStream {
    /// Prepares a stream of the API at an address like `https://api.x.com`, without a call. An error is in words for the user.
    pub fn new(
        http: HttpClient,
        base_url: &str,
        fields: &Fields,
        credential: Arc<Credential>,
    ) -> Result<Self, ClientError> {
        let base = parse_base_url(base_url)?;
        let (mut stream, rules) = (endpoint_url(&base, STREAM_PATH)?, endpoint_url(&base, RULES_PATH)?);
        stream.query_pairs_mut().extend_pairs(fields.parameters());
        let auth = Auth::new(http.clone(), &base, |reply| reply.status == 401)?;
        Ok(Self { http, stream, rules, auth, credential })
    }

    /// Checks that there are rules: a stream without one connects, and stays silent for ever.
    async fn check_rules(&self) -> Result<(), StreamError> {
        let reply = self.auth.get(&self.rules, &self.credential).await.map_err(StreamError::from_failed_call)?;
        if reply.status != 200 {
            return Err(self.refusal_error(errors::decide(&reply)));
        }
        let rules: Value = serde_json::from_slice(&reply.body)
            .map_err(|_| StreamError::Http(format!("it does not list the stream's rules: {}", reply.describe())))?;
        match rules["data"].as_array().map_or(0, Vec::len) {
            0 => Err(StreamError::Refused(
                "the account has no rules, so the stream has no posts: add a rule with POST /2/tweets/search/stream/rules"
                    .to_owned(),
            )),
            count => {
                tracing::debug!(count, "rules of a stream");
                Ok(())
            }
        }
    }

    fn refusal_error(&self, error: LookupError) -> StreamError {
        self.auth.store_clock_offset(&error);
        StreamError::from_refusal(error)
    }
}

#[async_trait]
impl Stream for SearchStream {
    async fn connect(&self) -> Result<Box<dyn Chunks>, StreamError> {
        self.check_rules().await?;
        let request = || self.http.client().get(self.stream.clone()).build().map_err(request_build_error);
        match self.auth.open_stream(&request, &self.credential).await.map_err(StreamError::from_failed_call)? {
            StreamReply::Open(body) => Ok(Box::new(body)),
            StreamReply::Refused(reply) => Err(self.refusal_error(errors::decide(&reply))),
        }
    }

    fn read_timeout(&self) -> Duration {
        READ_TIMEOUT
    }

    fn read(&self, line: &str) -> Message {
        read(line)
    }
}

/// Line: a post with the rules that it matches, or errors. With a post, the errors concern resources that it refers to.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(default)]
    errors: Vec<Value>,
}

#[must_use]
pub fn read(line: &str) -> Message {
    let parts: Line<'_> = match serde_json::from_str(line) {
        Ok(parts) => parts,
        // serde_json's own text may quote the line.
        Err(error) => return Message::Unreadable(format!("it is not a JSON object, at column {}", error.column())),
    };
    if let Some(data) = parts.data.map(RawValue::get) {
        return Message::from_post(data, parse_post, read_id);
    }
    let Some(error) = parts.errors.first() else {
        return Message::Unreadable("it has neither a post nor errors".to_owned());
    };
    // `"title": "operational-disconnect", "disconnect_type": "UpstreamOperationalDisconnect"`, and
    // `"title": "ConnectionException", "connection_issue": "TooManyConnections"`.
    if error["connection_issue"] == "TooManyConnections" {
        return Message::Ended(StreamError::RateLimited {
            why: "too many connections".to_owned(),
            at_least: Duration::ZERO,
        });
    }
    let is_end = error["disconnect_type"].is_string()
        || error["type"].as_str().is_some_and(|kind| kind.ends_with("operational-disconnect"));
    match is_end {
        true => {
            Message::Ended(StreamError::Network("the API ended the connection (operational-disconnect)".to_owned()))
        }
        false => Message::Notice("an error without a post".to_owned()),
    }
}
