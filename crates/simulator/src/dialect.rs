//! The providers that the simulator plays: their addresses, windows and limits, and the codes of call errors.

use super::options::SimulatorOptions;
use super::windows::{Limit, Pool};
use engine::base::clock;

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

impl Dialect {
    /// The network whose addresses begin like this path; `path` has no leading `/`.
    pub fn of_path(path: &str) -> Self {
        match path.split('/').next() {
            Some("2") => Self::XV2,
            Some("api") => Self::Mastodon,
            Some("xrpc") => Self::Bluesky,
            _ => Self::TwitterV1,
        }
    }

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

    /// Limit of an endpoint with its own figures (`calls`: for a user and an application). A lower setting lowers it.
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

    pub fn is_x(self) -> bool {
        matches!(self, Self::XV2 | Self::XPost)
    }
}

pub const INVALID: u32 = 214;
/// Twitter's codes for "no id is requested" and "too many ids are requested".
pub const NONE: u32 = 38;
pub(crate) const TOO_MANY: u32 = 18;
