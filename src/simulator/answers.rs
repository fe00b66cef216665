//! The form of each provider's calls, responses, errors and rate-limit headers. All networks share one set of posts: an id contains the
//! creation time of its post, whatever its form.

use axum::http::HeaderMap;
use axum::response::Response;

use super::bluesky::dialect as bluesky;
use super::call::Call;
use super::dialect::{Dialect, INVALID, NONE, TOO_MANY};
use super::gate::Refused;
use super::mastodon::dialect as mastodon;
use super::render::RenderContext;
use super::reply::Found;
use super::twitter_v1::dialect as twitter_v1;
use super::windows::Window;
use super::x_v2::dialect as x_v2;
use super::x_v2::dialect::{Fields, Unknown};
use crate::base::clock::Millis;
use crate::model::post::TweetId;
use crate::model::provider::Provider;

/// The provider's id of a simulated post of time `at` (ms since the epoch). `sequence` is below 1,000,000; Mastodon keeps
/// 16 bits of it.
#[must_use]
pub fn id_of(provider: &Provider, at: Millis, sequence: u32) -> String {
    match provider {
        Provider::Twitter | Provider::X => TweetId::at(at, sequence).to_string(),
        Provider::Mastodon(_) => mastodon::mastodon_id(at, (sequence & 0xffff) as u16),
        Provider::Bluesky => bluesky::bluesky_uri(at, sequence),
    }
}

impl Dialect {
    /// The requested ids, each once, or the error for invalid ones.
    pub fn parse_ids(self, call: &Call) -> Result<Vec<&str>, Refused> {
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
            // A real instance answers a call without ids with an empty list.
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

    /// The fields that a call requests. Only X takes such a list; it rejects unknown names. `own` are the parameters of the
    /// endpoint itself.
    pub fn fields(self, call: &Call, own: &[&str]) -> Result<Fields, Unknown> {
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

    /// A post at this moment; `None` if it is missing.
    pub fn object(self, id: &str, shown: &RenderContext<'_>) -> Option<String> {
        let tweet_id = self.tweet_id(id)?;
        let tweet = || shown.world.tweet(tweet_id, shown.now);
        Some(match self {
            Self::TwitterV1 => {
                let mut object = String::with_capacity(4096 + shown.padding.len());
                twitter_v1::tweet(&mut object, shown.world, &tweet()?, shown.now, shown.view, shown.padding);
                object
            }
            Self::XV2 | Self::XPost => x_v2::object(shown, &shown.world.version(tweet_id, shown.now)?),
            Self::Mastodon | Self::MastodonStatus => mastodon::object(shown, id, &tweet()?),
            Self::Bluesky => bluesky::object(shown, id, &tweet()?),
        })
    }

    pub fn write(self, found: &Found<'_>) -> String {
        match self {
            Self::TwitterV1 => twitter_v1::write(found),
            Self::XV2 => x_v2::write(found),
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
                x_v2::refusal_of(&("id".to_owned(), "The `id` query parameter value is not valid".to_owned()))
            }
            Self::XV2 | Self::XPost => x_v2::refusal(status, code),
            Self::Mastodon | Self::MastodonStatus => mastodon::refusal(status, code),
            Self::Bluesky => bluesky::refusal(status, code),
        }
    }

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

    /// A post with an id and no other readable field.
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

    /// A post that is not among `ids`, and its id.
    pub fn stranger(self, ids: &[&str]) -> Option<(&'static str, String)> {
        let id = |candidates: [&'static str; 3]| candidates.into_iter().find(|id| !ids.contains(id));
        Some(match self {
            Self::TwitterV1 => {
                let id = id(["20", "21", "22"])?;
                (id, twitter_v1::stranger(id))
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
