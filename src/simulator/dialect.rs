//! The providers that the simulator plays, each in its own words: what is asked, how an answer and a refusal read,
//! and how limits are told. The world behind them is one: an id of each form says when its post was made.

use crate::simulator::bluesky::dialect as bluesky;
use crate::simulator::mastodon::dialect as mastodon;
use crate::simulator::x_v2::dialect as x_v2;
use axum::http::HeaderMap;
use axum::response::Response;

use super::SimulatorOptions;
use super::call::Call;
use super::gate::{Pool, Refused};
use super::render::{self, View};
use super::reply::{self, Found, twitter_refusal};
use super::windows::{Limit, Window};
use super::world::World;
use crate::base::clock::{self, Millis};
use crate::model::post::TweetId;
use crate::model::provider::Provider;
pub use crate::simulator::bluesky::dialect::{bluesky_uri, invalid as bluesky_invalid};
pub use crate::simulator::mastodon::dialect::{account as mastodon_account, mastodon_id};
pub use crate::simulator::x_v2::dialect::{
    Fields, Unknown, includes as x_includes, is_hidden, not_there as x_not_there, refusal_of as x_refusal_of,
    users as x_users,
};

/// A provider's lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `statuses/lookup`.
    TwitterV1,
    /// `GET /2/tweets`.
    XV2,
    /// `GET /2/tweets/{id}`.
    XPost,
    /// `GET /api/v1/statuses?id[]=`.
    Mastodon,
    /// `GET /api/v1/statuses/{id}`.
    MastodonStatus,
    /// `app.bsky.feed.getPosts`.
    Bluesky,
}

/// The provider's id of a simulated post made then (ms since the epoch). `sequence` is below 1,000,000; of it Mastodon
/// keeps 16 bits.
#[must_use]
pub fn id_of(provider: &Provider, at: Millis, sequence: u32) -> String {
    match provider {
        Provider::Twitter | Provider::X => TweetId::at(at, sequence).to_string(),
        Provider::Mastodon(_) => mastodon_id(at, (sequence & 0xffff) as u16),
        Provider::Bluesky => bluesky_uri(at, sequence),
    }
}

/// What of a post an answer shows.
pub struct Shown<'a> {
    pub world: &'a World,
    pub now: Millis,
    pub padding: &'a str,
    pub view: View,
    /// Of a post of X.
    pub fields: Fields,
}

impl Dialect {
    /// The network whose addresses begin like this path, which is given without its first `/`.
    pub fn of_path(path: &str) -> Self {
        match path.split('/').next() {
            Some("2") => Self::XV2,
            Some("api") => Self::Mastodon,
            Some("xrpc") => Self::Bluesky,
            _ => Self::TwitterV1,
        }
    }

    /// The window's name.
    pub fn endpoint(self) -> &'static str {
        match self {
            Self::TwitterV1 => "/statuses/lookup",
            Self::XV2 => "/2/tweets",
            Self::XPost => "/2/tweets/:id",
            // One window for every call to an instance.
            Self::Mastodon | Self::MastodonStatus => "/api",
            Self::Bluesky => "/xrpc",
        }
    }

    /// How many calls, and in what window.
    pub fn limit(self, options: &SimulatorOptions, pool: Pool) -> Limit {
        let (calls, length) = match (self, pool) {
            (Self::TwitterV1, Pool::Users) => (options.calls_per_window, options.window),
            (Self::TwitterV1, Pool::Applications) => (options.app_calls_per_window, options.window),
            (Self::XPost, _) => return Self::XV2.limit_of(options, pool, (900, 450)),
            (Self::XV2, Pool::Users) => (options.x_calls_per_window, options.window),
            (Self::XV2, Pool::Applications) => (options.x_app_calls_per_window, options.window),
            (Self::Mastodon | Self::MastodonStatus, _) => (options.mastodon_calls_per_window, options.window / 3),
            (Self::Bluesky, _) => (options.bluesky_calls_per_window, options.window / 3),
        };
        let aligned = matches!(self, Self::Mastodon | Self::MastodonStatus);
        Limit { calls, length: clock::millis(length), aligned }
    }

    /// The limit of an endpoint that has its own figures, for a user and an application: those, or what the settings
    /// allow, where that is below the usual.
    pub fn limit_of(self, options: &SimulatorOptions, pool: Pool, calls: (u32, u32)) -> Limit {
        let limit = self.limit(options, pool);
        let (own, usual) = match (self, pool) {
            (Self::XV2, Pool::Users) => (calls.0, 5_000),
            (Self::XV2, Pool::Applications) => (calls.1, 3_500),
            (_, Pool::Users) => (calls.0, 900),
            (_, Pool::Applications) => (calls.1, 300),
        };
        let is_unlimited = limit.calls == 0 || self.limit(options, Pool::Users).calls == 0;
        let calls = match limit.calls {
            _ if is_unlimited => 0,
            set if set < usual => own.min(set),
            _ => own,
        };
        Limit { calls, ..limit }
    }

    /// The asked ids, each once, or what is wrong with them.
    pub fn asked(self, call: &Call) -> Result<Vec<&str>, Refused> {
        let listed = |name| call.parameter(name).unwrap_or_default().split(',').map(str::trim);
        let is_id = |id: &&str| (1..=19).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::TwitterV1 => bounded(listed("id"), 100, 403),
            Self::XV2 => {
                let ids = bounded(listed("ids"), 100, 400)?;
                if ids.iter().all(is_id) { Ok(ids) } else { Err((400, INVALID)) }
            }
            Self::XPost => {
                let ids: Vec<&str> = call.address.rsplit('/').take(1).collect();
                if ids.iter().all(is_id) { Ok(ids) } else { Err((400, INVALID)) }
            }
            // An instance that is asked for none answers with none.
            Self::Mastodon => match bounded(call.all("id[]"), 20, 422) {
                Err((_, NONE)) => Ok(Vec::new()),
                asked => asked,
            },
            Self::MastodonStatus => bounded(call.address.trim_end_matches('/').rsplit('/').take(1), 1, 404),
            Self::Bluesky => {
                let ids = bounded(call.all("uris"), 25, 400)?;
                if ids.iter().all(|uri| uri.starts_with("at://")) { Ok(ids) } else { Err((400, INVALID)) }
            }
        }
    }

    /// The fields that a call asks for; X alone takes such a list, and refuses an unknown name. `own` are the parameters
    /// of the endpoint itself.
    pub fn fields(self, call: &Call, own: &[&str]) -> Result<Fields, Unknown> {
        if self.is_x() { Fields::read(call, own) } else { Ok(Fields::default()) }
    }

    /// True for X API v2.
    pub fn is_x(self) -> bool {
        matches!(self, Self::XV2 | Self::XPost)
    }

    /// The world's id of a post; `None` where it has none of that form.
    pub fn tweet_id(self, id: &str) -> Option<TweetId> {
        match self {
            Self::TwitterV1 | Self::XV2 | Self::XPost => TweetId::parse(id).ok(),
            Self::Mastodon | Self::MastodonStatus => mastodon::tweet_id(id),
            Self::Bluesky => bluesky::tweet_id(id),
        }
    }

    /// A post as it is now; `None` where it is not there.
    pub fn object(self, id: &str, shown: &Shown<'_>) -> Option<String> {
        let tweet_id = self.tweet_id(id)?;
        let tweet = || shown.world.tweet(tweet_id, shown.now);
        Some(match self {
            Self::TwitterV1 => {
                let mut object = String::with_capacity(4096 + shown.padding.len());
                render::tweet(&mut object, shown.world, &tweet()?, shown.now, shown.view, shown.padding);
                object
            }
            Self::XV2 | Self::XPost => x_v2::object(shown, &shown.world.version(tweet_id, shown.now)?),
            Self::Mastodon | Self::MastodonStatus => mastodon::object(shown, id, &tweet()?),
            Self::Bluesky => bluesky::object(shown, id, &tweet()?),
        })
    }

    /// The body of an answer.
    pub fn write(self, found: &Found<'_>) -> String {
        match self {
            Self::TwitterV1 => found.write_twitter(),
            Self::XV2 => x_v2::write(found),
            Self::XPost => x_v2::write_one(found),
            Self::Mastodon => format!("[{}]", found.present()),
            Self::MastodonStatus => found.present(),
            Self::Bluesky => format!("{{\"posts\":[{}]}}", found.present()),
        }
    }

    /// An error in its words, for Twitter's code of it.
    pub fn refusal(self, status: u16, code: u32) -> Response {
        match self {
            Self::TwitterV1 => twitter_refusal(status, code),
            Self::XPost if code == INVALID => {
                x_v2::refusal_of(&("id".to_owned(), "The `id` query parameter value is not valid".to_owned()))
            }
            Self::XV2 | Self::XPost => x_v2::refusal(status, code),
            Self::Mastodon | Self::MastodonStatus => mastodon::refusal(status, code),
            Self::Bluesky => bluesky::refusal(status, code),
        }
    }

    /// Adds the window's headers.
    pub fn with(self, window: Option<Window>, mut response: Response) -> Response {
        if let Some(window) = window {
            self.tell(window, response.headers_mut());
        }
        response
    }

    fn tell(self, window: Window, headers: &mut HeaderMap) {
        match self {
            Self::TwitterV1 | Self::XV2 | Self::XPost => window.write(headers),
            Self::Mastodon | Self::MastodonStatus => mastodon::tell(window, headers),
            Self::Bluesky => bluesky::tell(window, headers),
        }
    }

    /// A post that has an id and nothing else that can be read.
    pub fn broken(self, id: &str) -> String {
        match self {
            Self::TwitterV1 => {
                format!("{{\"id\":{id},\"id_str\":\"{id}\",\"created_at\":12,\"text\":{{}},\"user\":[]}}")
            }
            Self::XV2 | Self::XPost => format!("{{\"id\":\"{id}\",\"created_at\":12,\"text\":{{}}}}"),
            Self::Mastodon | Self::MastodonStatus => format!("{{\"id\":\"{id}\",\"created_at\":12,\"content\":{{}}}}"),
            Self::Bluesky => format!("{{\"uri\":\"{id}\",\"record\":[]}}"),
        }
    }

    /// Some post that is not among `ids`, and its id.
    pub fn stranger(self, ids: &[&str]) -> Option<(&'static str, String)> {
        let id = |candidates: [&'static str; 3]| candidates.into_iter().find(|id| !ids.contains(id));
        Some(match self {
            Self::TwitterV1 => {
                let id = id(["20", "21", "22"])?;
                (id, reply::stranger(id))
            }
            Self::XV2 | Self::XPost => {
                let id = id(["20", "21", "22"])?;
                (id, format!("{{\"id\":\"{id}\",\"text\":\"just setting up my twttr\"}}"))
            }
            Self::Mastodon | Self::MastodonStatus => {
                let id = id(["1", "2", "3"])?;
                (id, format!("{{\"id\":\"{id}\",\"content\":\"<p>Hello</p>\"}}"))
            }
            Self::Bluesky => {
                let id = id(bluesky::STRANGERS)?;
                (id, format!("{{\"uri\":\"{id}\",\"record\":{{\"text\":\"hello\"}}}}"))
            }
        })
    }
}

/// Our code for "an id is none".
pub const INVALID: u32 = 214;
/// Twitter's for "none is asked for" and "too many are".
pub(crate) const NONE: u32 = 38;
pub(crate) const TOO_MANY: u32 = 18;

fn bounded<'a>(ids: impl Iterator<Item = &'a str>, most: usize, status: u16) -> Result<Vec<&'a str>, Refused> {
    let mut distinct: Vec<&str> = Vec::new();
    for id in ids.filter(|id| !id.is_empty()) {
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    match distinct.len() {
        0 => Err((status, NONE)),
        asked if asked > most => Err((status, TOO_MANY)),
        _ => Ok(distinct),
    }
}

/// Counts that the world does not have, from those it has: none ever goes back.
pub(crate) struct MoreCounts {
    pub(crate) replies: i64,
    pub(crate) quotes: i64,
    pub(crate) bookmarks: i64,
    pub(crate) impressions: i64,
}

impl MoreCounts {
    pub(crate) fn of(retweets: i64, likes: i64) -> Self {
        Self { replies: likes / 4, quotes: retweets / 8, bookmarks: likes / 10, impressions: 40 * (likes + retweets) }
    }
}
