//! The providers, as the contract sees them: how to build one, what its ids look like, and how its API writes a post.

use std::time::Duration;

use serde_json::{Value, json};
use twitter_updater::model::account::Account;
use twitter_updater::model::post::TweetId;
use twitter_updater::providers::bluesky::{self, Bluesky, BlueskyOptions};
use twitter_updater::providers::handles::Handles;
use twitter_updater::providers::http::HttpOptions;
use twitter_updater::providers::lookup::Api;
use twitter_updater::providers::lookup::Lookup;
use twitter_updater::providers::mastodon::{self, Calls, Mastodon, MastodonOptions};
use twitter_updater::providers::relations::Relations;
use twitter_updater::providers::twitter_v1::{self, TwitterV1, TwitterV1Options};
use twitter_updater::providers::x_v2::{self, XV2, XV2Options};
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

/// A provider that has been built.
enum Built {
    TwitterV1(TwitterV1),
    XV2(XV2),
    Mastodon(Mastodon),
    Bluesky(Bluesky),
}

impl Provider {
    pub fn at(self, base_url: &str, bounds: Bounds) -> Box<dyn Client> {
        match self.build(base_url, bounds) {
            Built::TwitterV1(twitter) => Box::new(twitter),
            Built::XV2(x) => Box::new(x),
            Built::Mastodon(instance) => Box::new(instance),
            Built::Bluesky(bluesky) => Box::new(bluesky),
        }
    }

    /// The lookup of accounts.
    pub fn accounts_at(self, base_url: &str, bounds: Bounds) -> Box<dyn Lookup<Account>> {
        match self.build(base_url, bounds) {
            Built::TwitterV1(twitter) => Box::new(twitter_v1::account::Accounts(twitter)),
            Built::XV2(x) => Box::new(x_v2::account::Accounts(x)),
            Built::Mastodon(instance) => Box::new(mastodon::account::Accounts(instance)),
            Built::Bluesky(bluesky) => Box::new(bluesky::account::Accounts(bluesky)),
        }
    }

    /// The lookup of accounts by handle.
    pub fn handles_at(self, base_url: &str, bounds: Bounds) -> Box<dyn Handles> {
        match self.build(base_url, bounds) {
            Built::TwitterV1(twitter) => Box::new(twitter_v1::account::Accounts(twitter)),
            Built::XV2(x) => Box::new(x_v2::account::Accounts(x)),
            Built::Mastodon(instance) => Box::new(mastodon::account::Accounts(instance)),
            Built::Bluesky(bluesky) => Box::new(bluesky::account::Accounts(bluesky)),
        }
    }

    /// The lists of followers and friends.
    pub fn relations_at(self, base_url: &str, bounds: Bounds) -> Box<dyn Relations> {
        match self.build(base_url, bounds) {
            Built::TwitterV1(twitter) => Box::new(twitter_v1::relations::Follows(twitter)),
            Built::XV2(x) => Box::new(x_v2::relations::Follows(x)),
            Built::Mastodon(instance) => Box::new(mastodon::relations::Follows(instance)),
            Built::Bluesky(bluesky) => Box::new(bluesky::relations::Follows::new(bluesky)),
        }
    }

    fn build(self, base_url: &str, Bounds { timeout, max_body_bytes }: Bounds) -> Built {
        let base_url = base_url.to_owned();
        let http = HttpOptions { timeout, max_body_bytes, ..HttpOptions::default() };
        match self {
            Self::TwitterV1 => {
                let options = TwitterV1Options { base_url, http, ..TwitterV1Options::default() };
                Built::TwitterV1(TwitterV1::new(options).unwrap())
            }
            Self::XV2 => {
                let options = XV2Options { base_url, http, ..XV2Options::default() };
                Built::XV2(XV2::new(options).unwrap())
            }
            Self::Mastodon | Self::MastodonStatus => {
                let calls = if self == Self::Mastodon { Calls::Batch } else { Calls::Single };
                let options = MastodonOptions { calls, http, ..MastodonOptions::new(&base_url) };
                Built::Mastodon(Mastodon::new(options).unwrap())
            }
            Self::Bluesky => {
                Built::Bluesky(Bluesky::new(BlueskyOptions { base_url, http, ..BlueskyOptions::default() }).unwrap())
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

    /// The id of an account.
    pub fn account_id(self, number: u32) -> String {
        match self {
            Self::Bluesky => format!("did:plc:{number:024}"),
            _ => (1_145_936_974_064_177_152 + u64::from(number)).to_string(),
        }
    }

    /// An account as its API writes it, with no more than it needs.
    pub fn account(self, id: &str, handle: &str) -> Value {
        match self {
            Self::TwitterV1 => json!({ "id_str": id, "screen_name": handle }),
            Self::XV2 => json!({ "id": id, "username": handle }),
            Self::Mastodon | Self::MastodonStatus => json!({ "id": id, "acct": handle }),
            Self::Bluesky => json!({ "did": id, "handle": handle }),
        }
    }

    /// An answer of these accounts.
    pub fn body_of_accounts(self, accounts: &[Value]) -> String {
        match self {
            Self::Bluesky => json!({ "profiles": accounts }).to_string(),
            _ => self.body(accounts),
        }
    }
}
