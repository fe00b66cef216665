//! Timelines of Twitter API v1.1: search, a user, a list, home.
//!
//! Sources: developer.x.com, the v1.1 pages of each endpoint, and "Working with timelines": `since_id` is exclusive, `max_id` inclusive;
//! `count` is applied before deleted and protected posts are left out, so a page may be short, and the last is empty.

mod refusal;

use async_trait::async_trait;
use reqwest::Url;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use crate::providers::auth::Auth;
use crate::providers::http::{ClientError, HttpClient, parse_base_url};
use crate::providers::lookup::LookupError;
use crate::providers::since::IdLayout;
use crate::providers::source::{
    NetworkTimeline, SourceError, SourceKind, SourceQuery, check_length, check_no_sign, check_number,
};
use crate::providers::timeline::{NextPage, Page, Post, Rules, TimelineRequest, measure_reading, read_posts};
use crate::providers::twitter_v1::{errors, limits, parse_tweet};
use engine::base::clock::Millis;
use engine::quota::Credential;

const DAY_MS: Millis = 86_400_000;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Kind {
    /// Posts of the last seven days that match a query.
    Search {
        /// At most 500 characters.
        query: String,
    },
    /// The newest 3,200 posts of a user, including retweets.
    User {
        /// Handle without `@`.
        #[serde(default)]
        screen_name: Option<String>,
        /// Alternative: number of the account, which stays when the handle changes owners.
        #[serde(default)]
        user_id: Option<String>,
    },
    List {
        /// Id of the list.
        list_id: String,
    },
    /// The newest 800 posts of the accounts that the credential's user follows.
    Home {},
}

impl Kind {
    fn parameters(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Search { query } => vec![("q", query), ("result_type", "recent")],
            Self::User { screen_name, user_id } => {
                let by_name = screen_name.iter().map(|name| ("screen_name", name.as_str()));
                let by_id = user_id.iter().map(|id| ("user_id", id.as_str()));
                by_name.chain(by_id).chain([("include_rts", "true")]).collect()
            }
            Self::List { list_id } => vec![("list_id", list_id), ("include_rts", "true")],
            Self::Home {} => vec![],
        }
    }
}

/// Clones share the connections and the clock offset.
#[derive(Debug, Clone)]
pub struct TwitterApi {
    /// Ends with a slash.
    base: Url,
    auth: Auth,
}

impl TwitterApi {
    pub fn new(http: HttpClient, base_url: &str) -> Result<Self, ClientError> {
        let base = parse_base_url(base_url)?;
        let auth = Auth::new(http, &base, errors::means_bad_token)?;
        Ok(Self { base, auth })
    }
}

impl NetworkTimeline<Kind> {
    fn address(&self, ask: &TimelineRequest) -> Result<Url, LookupError> {
        let path = format!("1.1/{}.json", self.rules.endpoint);
        let mut address = self.api.base.join(&path).map_err(|error| LookupError::Stop(error.to_string()))?;
        let mut query = address.query_pairs_mut();
        query.extend_pairs(self.kind.parameters());
        query.append_pair("count", &ask.count.to_string()).append_pair("tweet_mode", "extended");
        if let Some(since) = ask.since {
            query.append_pair("since_id", &since.to_string());
        }
        if let Some(below) = ask.below {
            query.append_pair("max_id", &below.saturating_sub(1).to_string()); // inclusive
        }
        drop(query);
        Ok(address)
    }
}

#[async_trait]
impl SourceKind for Kind {
    type Api = TwitterApi;

    fn source_query(&self) -> SourceQuery<'_> {
        match self {
            Self::Search { query } => check_length(500, "query", query),
            Self::User { screen_name: Some(name), user_id: None } => check_no_sign('@', "screen_name", name),
            Self::User { screen_name: None, user_id: Some(id) } => check_number("user_id", id),
            Self::User { screen_name: None, .. } => Err(SourceError::missing_field("screen_name")),
            Self::User { .. } => {
                let why = ".user_id does not apply beside screen_name: remove one of them";
                Err(SourceError::Value(why.to_owned()))
            }
            Self::List { list_id } => check_number("list_id", list_id),
            Self::Home {} => Ok(None),
        }
    }

    fn rules(&self, k: Millis) -> Rules {
        let (endpoint, count, depth, window) = match self {
            Self::Search { .. } => ("search/tweets", 100, None, Some(7 * DAY_MS)),
            Self::User { .. } => ("statuses/user_timeline", 200, Some(3_200), None),
            Self::List { .. } => ("lists/statuses", 200, None, None),
            Self::Home {} => ("statuses/home_timeline", 200, Some(800), None),
        };
        // A call costs the same for any number of posts.
        Rules { depth, window, ..Rules::new(endpoint, IdLayout::TWITTER, k, count) }
    }

    async fn page(
        timeline: &NetworkTimeline<Self>,
        ask: &TimelineRequest,
        credential: &Credential,
    ) -> Result<Page, LookupError> {
        let address = timeline.address(ask)?;
        let (reply, reading) =
            measure_reading(timeline.api.auth.get(&address, credential), timeline.rules.behind).await?;
        if reply.status != 200 {
            let error = refusal::decide(&reply, timeline.rules.endpoint);
            timeline.api.auth.store_clock_offset(&error);
            return Err(error);
        }
        let (posts, broken) = read(&reply.body)?;
        Ok(Page { posts, broken, misdated: 0, more: NextPage::Unstated, reading, quota: limits::quota(&reply) })
    }
}

#[derive(Deserialize)]
struct Search<'a> {
    #[serde(borrow)]
    statuses: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Ids {
    id_str: Option<String>,
    id: Option<u64>,
}

/// Reads a page. Returns its posts, and the number of unreadable ones, of which only the ids are known.
///
/// # Errors
/// [`LookupError::BadAnswer`] for a body of another shape, and for a post without an id: skipping the post would lose it.
pub fn read(body: &[u8]) -> Result<(Vec<Post>, usize), LookupError> {
    let bad = |why: &str| LookupError::BadAnswer(why.to_owned());
    let body = String::from_utf8_lossy(body);
    let raws: Vec<&RawValue> = match body.trim_start().as_bytes().first() {
        Some(b'[') => serde_json::from_str(&body).map_err(|_| bad("it is no list of tweets"))?,
        Some(b'{') => {
            let search: Search<'_> = serde_json::from_str(&body).map_err(|_| bad("it has no list of statuses"))?;
            search.statuses
        }
        _ => return Err(bad("it is neither a list of tweets nor an answer to a search")),
    };
    read_posts(raws, parse_tweet, read_id)
}

/// Id of a post object; `None` if it is unreadable.
#[must_use]
pub fn read_id(raw: &str) -> Option<String> {
    let ids: Ids = serde_json::from_str(raw).ok()?;
    ids.id_str.or_else(|| ids.id.map(|id| id.to_string()))
}
