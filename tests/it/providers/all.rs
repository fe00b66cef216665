//! The providers, as the contract sees them: how to build one, what its ids look like, and how its API writes a post.

use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::model::post::TweetId;
use twitter_updater::providers::bluesky::{Bluesky, BlueskyOptions};
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::lookup::Api;
use twitter_updater::providers::lookup::Lookup;
use twitter_updater::providers::mastodon::{Calls, Mastodon, MastodonOptions};
use twitter_updater::providers::twitter_v1::{TwitterV1, TwitterV1Options};
use twitter_updater::providers::x_v2::{XV2, XV2Options};
use twitter_updater::simulator::{bluesky_uri, mastodon_id};

/// What differs from test to test.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub timeout: Duration,
    pub max_body_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), max_body_bytes: 1 << 20 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    TwitterV1,
    XV2,
    Mastodon,
    MastodonStatus,
    Bluesky,
}

pub const ALL: [Provider; 5] =
    [Provider::TwitterV1, Provider::XV2, Provider::Mastodon, Provider::MastodonStatus, Provider::Bluesky];

/// All that is asked of a provider.
pub trait Client: Lookup + Api {}

impl<T: Lookup + Api> Client for T {}

impl Provider {
    pub fn at(self, base_url: &str, Bounds { timeout, max_body_bytes }: Bounds) -> Box<dyn Client> {
        let base_url = base_url.to_owned();
        let http = HttpOptions { timeout, max_body_bytes, ..HttpOptions::default() };
        match self {
            Self::TwitterV1 => {
                let options = TwitterV1Options { base_url, http, ..TwitterV1Options::default() };
                Box::new(TwitterV1::new(options).unwrap())
            }
            Self::XV2 => {
                let options = XV2Options { base_url, http, ..XV2Options::default() };
                Box::new(XV2::new(options).unwrap())
            }
            Self::Mastodon | Self::MastodonStatus => {
                let calls = if self == Self::Mastodon { Calls::Batch } else { Calls::Single };
                let options = MastodonOptions { calls, http, ..MastodonOptions::of(&base_url) };
                Box::new(Mastodon::new(options).unwrap())
            }
            Self::Bluesky => {
                let options = BlueskyOptions { base_url, http };
                Box::new(Bluesky::new(options).unwrap())
            }
        }
    }

    /// The id of a post made then; the simulated one is `TweetId::at` the same.
    pub fn id(self, at: i64, sequence: u32) -> String {
        match self {
            Self::TwitterV1 | Self::XV2 => TweetId::at(at, sequence).to_string(),
            Self::Mastodon | Self::MastodonStatus => mastodon_id(at, sequence.try_into().unwrap()),
            Self::Bluesky => bluesky_uri(at, sequence),
        }
    }

    /// Whether an answer is a list, in which there may be more than was asked for.
    pub fn lists(self) -> bool {
        self != Self::MastodonStatus
    }

    /// A post as its API writes it.
    pub fn post(self, id: &str, text: &str) -> Value {
        match self {
            Self::TwitterV1 => json!({ "id_str": id, "full_text": text }),
            Self::XV2 => json!({ "id": id, "text": text }),
            Self::Mastodon | Self::MastodonStatus => json!({ "id": id, "content": text }),
            Self::Bluesky => json!({ "uri": id, "record": { "text": text } }),
        }
    }

    /// An answer of these posts.
    pub fn body(self, posts: &[Value]) -> String {
        match self {
            Self::TwitterV1 | Self::Mastodon => Value::from(posts.to_vec()).to_string(),
            Self::XV2 => json!({ "data": posts }).to_string(),
            Self::MastodonStatus => posts[0].to_string(),
            Self::Bluesky => json!({ "posts": posts }).to_string(),
        }
    }
}
