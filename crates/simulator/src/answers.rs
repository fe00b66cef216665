//! Calls, responses, errors and rate-limit headers in the form of each provider. All networks share one set of posts.

use axum::http::HeaderMap;
use axum::response::Response;

use super::bluesky::dialect as bluesky;
use super::call::Call;
use super::dialect::{Dialect, INVALID, NONE, TOO_MANY};
use super::gate::Rejection;
use super::mastodon::dialect as mastodon;
use super::render::RenderContext;
use super::reply::Found;
use super::twitter_v1::dialect as twitter_v1;
use super::windows::Window;
use super::x_v2::dialect as x_v2;
use super::x_v2::dialect::{Fields, UnknownParameter};
use engine::base::clock::Millis;
use networks::model::post::TweetId;
use networks::model::provider::Provider;

/// Id of a simulated post of time `at` (ms since the epoch). `sequence` is below 1,000,000; Mastodon keeps 16 bits of it.
#[must_use]
pub fn id_of(provider: &Provider, at: Millis, sequence: u32) -> String {
    match provider {
        Provider::Twitter | Provider::X => TweetId::at(at, sequence).to_string(),
        Provider::Mastodon(_) => mastodon::mastodon_id(at, (sequence & 0xffff) as u16),
        Provider::Bluesky => bluesky::bluesky_uri(at, sequence),
    }
}

impl Dialect {
    pub fn parse_ids(self, call: &Call) -> Result<Vec<&str>, Rejection> {
        let listed = |name| call.parameter(name).unwrap_or_default().split(',').map(str::trim);
        let is_id = |id: &&str| (1..=19).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::TwitterV1 => check_ids(listed("id"), 100, 403),
            Self::XV2 => {
                let ids = check_ids(listed("ids"), 100, 400)?;
                if ids.iter().all(is_id) { Ok(ids) } else { Err((400, INVALID)) }
            }
            Self::XPost => {
                let ids: Vec<&str> = call.address.rsplit('/').take(1).collect();
                if ids.iter().all(is_id) { Ok(ids) } else { Err((400, INVALID)) }
            }
            // A real instance answers a call without ids with an empty list.
            Self::Mastodon => match check_ids(call.all("id[]"), 20, 422) {
                Err((_, NONE)) => Ok(Vec::new()),
                asked => asked,
            },
            Self::MastodonStatus => check_ids(call.address.trim_end_matches('/').rsplit('/').take(1), 1, 404),
            Self::Bluesky => {
                let ids = check_ids(call.all("uris"), 25, 400)?;
                if ids.iter().all(|uri| uri.starts_with("at://")) { Ok(ids) } else { Err((400, INVALID)) }
            }
        }
    }

    /// Fields that a call requests. Only X takes them, and rejects unknown names. `own` are the parameters of the endpoint itself.
    pub fn fields(self, call: &Call, own: &[&str]) -> Result<Fields, UnknownParameter> {
        if self.is_x() { Fields::read(call, own) } else { Ok(Fields::default()) }
    }

    /// The world's id of a post; `None` if the id has another form.
    pub fn tweet_id(self, id: &str) -> Option<TweetId> {
        match self {
            Self::TwitterV1 | Self::XV2 | Self::XPost => TweetId::parse(id).ok(),
            Self::Mastodon | Self::MastodonStatus => mastodon::tweet_id(id),
            Self::Bluesky => bluesky::tweet_id(id),
        }
    }

    /// JSON of a post in this dialect; `None` if the post does not exist.
    pub fn object(self, id: &str, context: &RenderContext<'_>) -> Option<String> {
        let tweet_id = self.tweet_id(id)?;
        let tweet = || context.world.tweet(tweet_id, context.now);
        Some(match self {
            Self::TwitterV1 => {
                let mut object = String::with_capacity(4096 + context.padding.len());
                twitter_v1::write_tweet(
                    &mut object,
                    context.world,
                    &tweet()?,
                    context.now,
                    context.view,
                    context.padding,
                );
                object
            }
            Self::XV2 | Self::XPost => x_v2::object(context, &context.world.version(tweet_id, context.now)?),
            Self::Mastodon | Self::MastodonStatus => mastodon::object(context, id, &tweet()?),
            Self::Bluesky => bluesky::object(context, id, &tweet()?),
        })
    }

    pub fn write_body(self, found: &Found<'_>) -> String {
        match self {
            Self::TwitterV1 => twitter_v1::write_body(found),
            Self::XV2 => x_v2::write_body(found),
            Self::XPost => x_v2::write_one(found),
            Self::Mastodon => format!("[{}]", found.present()),
            Self::MastodonStatus => found.present(),
            Self::Bluesky => format!("{{\"posts\":[{}]}}", found.present()),
        }
    }

    /// The provider's form of an error that has this code at Twitter.
    pub fn refusal(self, status: u16, code: u32) -> Response {
        match self {
            Self::TwitterV1 => twitter_v1::refusal(status, code),
            Self::XPost if code == INVALID => {
                x_v2::refuse_parameter(&("id".to_owned(), "The `id` query parameter value is not valid".to_owned()))
            }
            Self::XV2 | Self::XPost => x_v2::refusal(status, code),
            Self::Mastodon | Self::MastodonStatus => mastodon::refusal(status, code),
            Self::Bluesky => bluesky::refusal(status, code),
        }
    }

    pub fn with_window(self, window: Option<Window>, mut response: Response) -> Response {
        if let Some(window) = window {
            self.write_window(window, response.headers_mut());
        }
        response
    }

    fn write_window(self, window: Window, headers: &mut HeaderMap) {
        match self {
            Self::TwitterV1 | Self::XV2 | Self::XPost => window.write_headers(headers),
            Self::Mastodon | Self::MastodonStatus => mastodon::write_window(window, headers),
            Self::Bluesky => bluesky::write_window(window, headers),
        }
    }

    pub fn broken_post(self, id: &str) -> String {
        match self {
            Self::TwitterV1 => {
                format!("{{\"id\":{id},\"id_str\":\"{id}\",\"created_at\":12,\"text\":{{}},\"user\":[]}}")
            }
            Self::XV2 | Self::XPost => format!("{{\"id\":\"{id}\",\"created_at\":12,\"text\":{{}}}}"),
            Self::Mastodon | Self::MastodonStatus => format!("{{\"id\":\"{id}\",\"created_at\":12,\"content\":{{}}}}"),
            Self::Bluesky => format!("{{\"uri\":\"{id}\",\"record\":[]}}"),
        }
    }

    /// Id and object of a fixed post that is not in `ids`; `None` if `ids` has all of them.
    pub fn unrequested_post(self, ids: &[&str]) -> Option<(&'static str, String)> {
        let id = |candidates: [&'static str; 3]| candidates.into_iter().find(|id| !ids.contains(id));
        Some(match self {
            Self::TwitterV1 => {
                let id = id(["20", "21", "22"])?;
                (id, twitter_v1::unrequested_post(id))
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
                let id = id(bluesky::UNREQUESTED_POSTS)?;
                (id, format!("{{\"uri\":\"{id}\",\"record\":{{\"text\":\"hello\"}}}}"))
            }
        })
    }
}

fn check_ids<'a>(ids: impl Iterator<Item = &'a str>, most: usize, status: u16) -> Result<Vec<&'a str>, Rejection> {
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
