//! `statuses/filter` of Twitter API v1.1.
//!
//! Sources: developer.twitter.com, "Filter realtime Tweets" (v1.1), "Connecting to a streaming endpoint", "Consuming
//! streaming data", "Streaming message types".

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::providers::auth::Auth;
use crate::providers::http::{HttpClient, Opened, base, below, cannot_build};
use crate::providers::stream::{Broken, Chunks, Message, Stream};
use crate::providers::twitter_v1::timeline::id_of;
use crate::providers::twitter_v1::{errors, parse_tweet};
use crate::quota::Credential;

const ENDPOINT: &str = "statuses/filter";
const PATH: &str = "1.1/statuses/filter.json";

/// A blank line comes every 30 s; documented: give up when three are missing.
const SILENCE: Duration = Duration::from_secs(90);

/// The API's own streams are at a host of their own.
const API_HOST: &str = "api.twitter.com";
const STREAM_HOST: &str = "stream.twitter.com";

/// The filter of a stream: posts that match any part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Phrases, comma separated: at most 400, of up to 60 bytes.
    pub track: String,
    /// Users' ids, comma separated: at most 5,000.
    pub follow: String,
    /// Boxes, four numbers each, comma separated: at most 25.
    pub locations: String,
}

/// The stream.
#[derive(Debug)]
pub struct FilterStream {
    http: HttpClient,
    address: Url,
    auth: Auth,
    filter: Filter,
    credential: Arc<Credential>,
}

/// The address of the streams of the API at that address.
fn streams_of(base: &Url) -> Result<Url, String> {
    let mut address = below(base, PATH)?;
    if base.host_str() == Some(API_HOST) {
        address.set_host(Some(STREAM_HOST)).map_err(|error| format!("the stream's host cannot be named: {error}"))?;
    }
    Ok(address)
}

impl FilterStream {
    /// A stream of the API at that address, like `https://api.twitter.com`; makes no call yet.
    ///
    /// # Errors
    /// Not a valid address, in words for the user.
    pub fn new(http: HttpClient, base_url: &str, filter: Filter, credential: Arc<Credential>) -> Result<Self, String> {
        let base = base(base_url)?;
        let auth = Auth::new(http.clone(), &base, errors::means_bad_token)?;
        Ok(Self { http, address: streams_of(&base)?, auth, filter, credential })
    }
}

#[async_trait]
impl Stream for FilterStream {
    async fn connect(&self) -> Result<Box<dyn Chunks>, Broken> {
        let Filter { track, follow, locations } = &self.filter;
        let given = [("track", track), ("follow", follow), ("locations", locations)];
        let given =
            given.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.as_str()));
        let form: Vec<(&str, &str)> = given.chain([("stall_warnings", "true")]).collect();
        // As a form, since a long list fits into no address.
        let request = || self.http.client().post(self.address.clone()).form(&form).build().map_err(cannot_build);
        match self.auth.open(&request, &self.credential).await.map_err(Broken::unanswered)? {
            Opened::Open(body) => Ok(Box::new(body)),
            Opened::Refused(reply) => {
                let error = errors::decide(&reply, ENDPOINT);
                self.auth.heed(&error);
                Err(Broken::refused(error))
            }
        }
    }

    fn silence(&self) -> Duration {
        SILENCE
    }

    fn read(&self, line: &str) -> Message {
        read(line)
    }
}

#[derive(Deserialize)]
struct Limit {
    track: u64,
}

#[derive(Deserialize)]
struct Disconnect {
    code: u32,
}

#[derive(Deserialize)]
struct Warning<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    percent_full: Option<u32>,
}

/// Messages that do not concern new posts, or that belong to other kinds of streams.
const OTHERS: [&str; 9] = [
    "delete",
    "scrub_geo",
    "status_withheld",
    "user_withheld",
    "friends",
    "friends_str",
    "event",
    "for_user",
    "control",
];

/// Reads a line of it.
#[must_use]
pub fn read(line: &str) -> Message {
    let object: HashMap<Cow<'_, str>, &RawValue> = match serde_json::from_str(line) {
        Ok(object) => object,
        // serde_json's own text may quote the line.
        Err(error) => return Message::Unreadable(format!("it is no JSON object, at column {}", error.column())),
    };
    let part = |name: &str| object.get(name).map(|raw| raw.get());
    if object.contains_key("id_str") || object.contains_key("id") {
        return Message::post(line, parse_tweet, id_of);
    }
    if let Some(limit) = part("limit").and_then(|raw| serde_json::from_str::<Limit>(raw).ok()) {
        return Message::Limited(limit.track);
    }
    if let Some(end) = part("disconnect") {
        return Message::Ended(ended(serde_json::from_str::<Disconnect>(end).ok().map(|of| of.code)));
    }
    if let Some(warning) = part("warning").and_then(|raw| serde_json::from_str::<Warning<'_>>(raw).ok()) {
        let Warning { code, percent_full } = warning;
        // Our words where the code is known: a stranger's text goes into no log.
        return Message::Notice(match (&*code, percent_full) {
            ("FALLING_BEHIND", Some(full)) => format!("read too slowly: {full} % of the API's buffer are used"),
            ("FALLING_BEHIND", None) => "read too slowly".to_owned(),
            ("FOLLOWS_OVER_LIMIT", _) => "more is followed than a stream takes".to_owned(),
            _ => "one that we do not know".to_owned(),
        });
    }
    if OTHERS.iter().any(|other| object.contains_key(*other)) {
        return Message::Other;
    }
    Message::Unreadable("it is neither a post nor a message we know".to_owned())
}

/// The meaning of a disconnect message's code.
fn ended(code: Option<u32>) -> Broken {
    match code {
        // 2: a second stream of the same name; 7: "the same credentials were used to connect a new stream and the
        // oldest was disconnected". Coming back at once would end that one, and so on for ever.
        Some(code @ (2 | 7)) => Broken::Refused(format!(
            "another stream of the same account was connected, and the API ended this one (disconnect code {code}): \
             find who else uses its credential"
        )),
        Some(6) => Broken::Refused("the credential was revoked (disconnect code 6)".to_owned()),
        // 1 shutdown, 3 control, 4 we were too slow, 5 and 10 to 12 the API's own, 9 too many messages.
        Some(code) => Broken::Network(format!("the API ended the connection (disconnect code {code})")),
        None => Broken::Network("the API ended the connection".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twitter_streams_from_another_host_and_an_emulator_from_its_own() {
        let address = |api: &str| streams_of(&base(api).unwrap()).unwrap().to_string();
        assert_eq!(address("https://api.twitter.com"), "https://stream.twitter.com/1.1/statuses/filter.json");
        assert_eq!(address("http://127.0.0.1:8/api"), "http://127.0.0.1:8/api/1.1/statuses/filter.json");
    }
}
