//! Timelines of X API v2: recent search, and a user's posts.
//!
//! Sources: docs.x.com (x-api/posts/search/integrate/paginate, x-api/posts/timelines), its OpenAPI documents: `since_id` and `until_id`
//! are exclusive. Posts are filtered after paging, so a page may be short or empty with another one after it; the last has no
//! `next_token`. A `since_id` older than a search's seven days is refused (rooteco/tweetscape#421).
//!
//! **Tokens.** A token belongs to the parameters of the page that returned it, so `PageCursor` keeps both. A refused token is dropped, and
//! the round continues below the last post that it had.
//!
//! **A search lags.** It shows nothing younger than 30 seconds (`end_time` in the reference), so the moment of its reading is 30
//! seconds before the request.

mod body;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;

pub use self::body::read;
use crate::providers::auth::Auth;
use crate::providers::http::{ClientError, HttpClient, Reply, parse_base_url};
use crate::providers::lookup::LookupError;
use crate::providers::since::IdLayout;
use crate::providers::source::{NetworkTimeline, SourceKind, SourceQuery, check_length, check_number};
use crate::providers::timeline::{NextPage, Page, Rules, TimelineRequest, measure_reading, target_error};
use crate::providers::x_v2::{Fields, errors};
use engine::base::clock::Millis;
use engine::quota::Credential;

const DAY_MS: Millis = 86_400_000;

const SEARCH_BEHIND: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Kind {
    /// Posts of the last seven days that match a query.
    Search {
        /// At most 4,096 characters; most plans take 512.
        query: String,
    },
    /// The newest 3,200 posts of a user, including reposts.
    User {
        /// Id of the user: a number, not the handle.
        user_id: String,
    },
}

/// Clones share the connections and the clock offset.
#[derive(Debug, Clone)]
pub struct XApi {
    /// Ends with a slash.
    base: Url,
    fields: Fields,
    auth: Auth,
}

impl XApi {
    pub fn new(http: HttpClient, base_url: &str, fields: Fields) -> Result<Self, ClientError> {
        let base = parse_base_url(base_url)?;
        let auth = Auth::new(http, &base, |reply| reply.status == 401)?;
        Ok(Self { base, fields, auth })
    }
}

impl NetworkTimeline<Kind> {
    fn address(&self, cursor: &PageCursor, count: u32) -> Result<Url, LookupError> {
        let (segments, token_name) = match &self.kind {
            Kind::Search { .. } => (["tweets", "search", "recent"], "next_token"),
            Kind::User { user_id } => (["users", user_id, "tweets"], "pagination_token"),
        };
        let mut address = self.api.base.join("2/").map_err(|error| LookupError::Stop(error.to_string()))?;
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        let mut query = address.query_pairs_mut();
        if let Kind::Search { query: text } = &self.kind {
            query.append_pair("query", text);
        }
        query.append_pair("max_results", &count.to_string()).extend_pairs(self.api.fields.parameters());
        if let Some(since) = cursor.since {
            query.append_pair("since_id", &since.to_string());
        }
        if let Some(below) = cursor.below {
            query.append_pair("until_id", &below.to_string());
        }
        if let Some(token) = &cursor.token {
            query.append_pair(token_name, token);
        }
        drop(query);
        Ok(address)
    }

    fn refusal_error(&self, reply: &Reply, credential: &Credential) -> LookupError {
        use LookupError::{BadRequest, BatchTooLarge, Outage};

        match self.api.auth.record_refusal(errors::decide(reply), credential) {
            BadRequest(said) | BatchTooLarge(said) => target_error(&said),
            // No such user, in the API's own words.
            Outage(said) if reply.status == 404 && body::is_problem(&reply.body) => target_error(&said),
            other => other,
        }
    }
}

#[async_trait]
impl SourceKind for Kind {
    type Api = XApi;

    fn source_query(&self) -> SourceQuery<'_> {
        match self {
            Self::Search { query } => check_length(4_096, "query", query),
            Self::User { user_id } => check_number("user_id", user_id),
        }
    }

    fn rules(&self, k: Millis) -> Rules {
        let (endpoint, depth, window, behind) = match self {
            Self::Search { .. } => ("tweets/search/recent", None, Some(7 * DAY_MS), SEARCH_BEHIND),
            Self::User { .. } => ("users/tweets", Some(3_200), None, Duration::ZERO),
        };
        // The API marks the last page, and each post costs: no known post is requested.
        Rules { anchored: false, depth, window, behind, ..Rules::new(endpoint, IdLayout::TWITTER, k, 100) }
    }

    async fn page(
        timeline: &NetworkTimeline<Self>,
        ask: &TimelineRequest,
        credential: &Credential,
    ) -> Result<Page, LookupError> {
        let cursor = PageCursor::for_request(ask);
        let address = timeline.address(&cursor, ask.count)?;
        let (reply, reading) =
            measure_reading(timeline.api.auth.get(&address, credential), timeline.rules.behind).await?;
        let quota = errors::quota(&reply);
        if reply.status == 400 && ask.cursor.is_some() {
            // Any other cause shows without the token, too.
            tracing::info!("the API refused the token of a page; the poller continues by ids");
            return Ok(Page {
                posts: Vec::new(),
                broken: 0,
                misdated: 0,
                more: NextPage::CursorExpired,
                reading,
                quota,
            });
        }
        let reply = reply.require_json(|reply| timeline.refusal_error(reply, credential))?;
        let body::ParsedPage { posts, broken, next_token } = read(&reply.body)?;
        let more = next_token.map_or(NextPage::No, |token| NextPage::Cursor(cursor.next(token).to_string()));
        Ok(Page { posts, broken, misdated: 0, more, reading, quota })
    }
}

/// Parameters of a page: a token with the ids for which it was returned, or only ids.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageCursor {
    since: Option<u64>,
    below: Option<u64>,
    token: Option<String>,
}

impl PageCursor {
    /// Uses the token's own ids if there is a token, not the current ones of `ask`.
    fn for_request(ask: &TimelineRequest) -> Self {
        let by_ids = Self { since: ask.since, below: ask.below, token: None };
        ask.cursor.as_deref().and_then(Self::read).unwrap_or(by_ids)
    }

    fn next(&self, token: String) -> Self {
        Self { token: Some(token), ..self.clone() }
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let mut id = || Some(parts.next()?.parse::<u64>().ok()).map(|id| id.filter(|id| *id > 0));
        let (since, below) = (id()?, id()?);
        Some(Self { since, below, token: Some(parts.next()?.to_owned()) })
    }
}

impl std::fmt::Display for PageCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (since, below) = (self.since.unwrap_or(0), self.below.unwrap_or(0));
        write!(f, "{since} {below} {}", self.token.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_with_what_it_was_given_for() {
        let ask = |cursor: Option<String>| TimelineRequest { since: Some(7), below: Some(90), cursor, count: 100 };
        let first = PageCursor { since: Some(5), below: None, token: None };
        let next = first.next("b26 v8".to_owned());
        assert_eq!(PageCursor::for_request(&ask(Some(next.to_string()))), next, "not with 7 and 90");
        let alone = PageCursor { since: Some(7), below: Some(90), token: None };
        assert_eq!(PageCursor::for_request(&ask(None)), alone);
        assert_eq!(PageCursor::for_request(&ask(Some("another version's".to_owned()))), alone);
    }
}
