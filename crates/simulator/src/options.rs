//! The settings of the simulator.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::text::AUTHORS;
use engine::base::clock::Millis;

#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// Minimum duration of a response.
    pub latency: Duration,
    /// Largest random extra duration of a response.
    pub jitter: Duration,
    /// The same seed gives the same posts and the same random choices.
    pub seed: u64,
    /// Calls per window and endpoint, for a user and for callers without a credential. 0: no limit (and no headers).
    pub calls_per_window: u32,
    /// Calls per window and endpoint for an application, that is, with a bearer token.
    pub app_calls_per_window: u32,
    /// Calls per window and endpoint for a user of X API v2.
    pub x_calls_per_window: u32,
    /// Calls per window and endpoint for an application at X API v2.
    pub x_app_calls_per_window: u32,
    /// Calls per window for each caller of a Mastodon instance. Its windows are a third as long and aligned to the clock.
    pub mastodon_calls_per_window: u32,
    /// Calls per window for each caller of Bluesky. Its windows are a third as long.
    pub bluesky_calls_per_window: u32,
    /// The version that the Mastodon instance states. Before 4.3 it returns one status per call.
    pub mastodon_version: String,
    pub window: Duration,
    /// Serve only the posts recorded in the `*.json` files below this folder.
    pub replay: Option<PathBuf>,
    /// True if only the credentials in the settings are valid.
    pub check_credentials: bool,
    /// The valid bearer tokens, besides those issued to `credentials`. If both are `None`, every call is admitted, even
    /// without a token.
    pub bearer_tokens: Option<Vec<SecretString>>,
    /// The valid credentials of users and applications.
    pub credentials: Option<Vec<SimulatedCredential>>,
    /// With `bearer_tokens` or `credentials`: Mastodon and Bluesky also admit callers without one, as public servers do.
    pub public: bool,
    /// Compresses responses for clients that accept gzip.
    pub gzip: bool,
    /// The API's clock minus ours, in ms.
    pub clock_skew: Millis,
    /// Share of the posts, 0 to 1, that are missing or will be. Half of them never existed; the others are deleted at a mean
    /// age of six hours.
    pub missing_share: f64,
    /// Share of the posts, 0 to 1, whose text is withheld.
    pub withheld_share: f64,
    /// Share of the posts, 0 to 1, that are retweets.
    pub retweet_share: f64,
    /// Share of the posts of X, 0 to 1, that are edited, one to five times within the first hour; retweets never are. Each
    /// version has its own id, as [`World::history`](crate::World::history) lists them. Above 0, ids whose 22 lower
    /// bits are above 524287 always belong to later versions.
    pub edited_share: f64,
    /// The time constant of the counts' growth.
    pub growth: Duration,
    /// Extra bytes in every object except X's, which has only requested fields. Real objects are 2 to 6 KB, unpadded ones about 2.5.
    pub body_padding: usize,
    /// Posts per second in each timeline, 0.001 to 500.
    pub posts_per_second: f64,
    /// Length of a day in which accounts post at their own hours and rates; zero: each posts evenly. `posts_per_second` is then
    /// the highest rate of an account, in its busiest hours.
    pub posting_day: Duration,
    /// Longest time from a post's creation to its visibility in a timeline.
    pub posts_late: Duration,
    /// Minimum age of the posts in a search of X.
    pub x_search_behind: Duration,
    /// Time for which X accepts the token of a page; zero: never.
    pub x_tokens_last: Duration,
    /// Time for which a cache keeps a response of a Mastodon timeline to a call without a token.
    pub mastodon_kept: Duration,
    /// Interval between the blank lines of a stream without posts.
    pub keep_alive: Duration,
    /// The rules of the stream: each is a timeline's target.
    pub stream_rules: Vec<String>,
    /// The number of accounts, up to 1,048,576. The first 32,768 write the posts.
    pub accounts: u64,
    /// Divides the accounts into fixed communities; profiles, posts, mentions and follows show the community of an account. There are
    /// then at most 32,768 accounts, and all of them write posts.
    pub communities: bool,
    /// The mean time between two changes of an account's profile; zero: accounts never change.
    pub account_changes: Duration,
    /// Share of the accounts, 0 to 0.5, that are suspended or deactivated at a time.
    pub accounts_gone: f64,
    /// Mean duration of an absence.
    pub account_away: Duration,
    /// Share of the absences, 0 to 1, that are permanent: the account is deleted.
    pub accounts_deleted: f64,
    /// Start of changes and absences of accounts, ms since the epoch. Simulators with the same value agree.
    pub accounts_since: Millis,
    /// The mean time between two new followers of an account; zero: no account follows or unfollows. The same number of follows
    /// end. Accounts with very long lists get new followers more often.
    pub follow_changes: Duration,
    /// Largest number of followers of an account: up to 300,000, and up to half of the accounts.
    pub most_followers: u64,
    /// Profiles state the real lengths of the lists of followers and friends, and not made-up numbers.
    pub count_follows: bool,
    /// Time for which lists accept a cursor; zero: always.
    pub cursors_last: Duration,
    /// Share of the accounts, 0 to 1, whose lists return the cursor of their second page for ever.
    pub cursors_repeat: f64,
    /// Share of the accounts, 0 to 1, that hide their lists (Mastodon).
    pub lists_hidden: f64,
    /// Share of the accounts, 0 to 1, that are on another server, which shows half of their follows (Mastodon).
    pub accounts_remote: f64,
    /// Bluesky lists the records of follows, as a personal data server does; the AppView has none.
    pub bluesky_records: bool,
    /// Count the lookups of every single id (memory grows with the ids).
    pub count_ids: bool,
}

pub const MOST_FOLLOWERS: u64 = 300_000;

/// 2026-01-01T00:00:00Z, in ms since the epoch.
const ACCOUNTS_SINCE: Millis = 1_767_225_600_000;

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            seed: 1,
            // Twitter's figures.
            calls_per_window: 900,
            app_calls_per_window: 300,
            x_calls_per_window: 5_000,
            x_app_calls_per_window: 3_500,
            mastodon_calls_per_window: 300,
            bluesky_calls_per_window: 3_000,
            mastodon_version: "4.3.8".to_owned(),
            window: Duration::from_secs(15 * 60),
            replay: None,
            check_credentials: false,
            bearer_tokens: None,
            credentials: None,
            public: false,
            gzip: false,
            clock_skew: 0,
            missing_share: 0.03,
            withheld_share: 0.002,
            retweet_share: 0.3,
            edited_share: 0.0,
            growth: Duration::from_secs(18 * 60),
            body_padding: 1_500,
            posts_per_second: 1.0,
            posting_day: Duration::ZERO,
            posts_late: Duration::from_secs(1),
            x_search_behind: Duration::from_secs(30),
            x_tokens_last: Duration::from_secs(3_600),
            mastodon_kept: Duration::from_secs(15),
            keep_alive: Duration::from_secs(20),
            stream_rules: vec!["rust lang".to_owned()],
            accounts: AUTHORS,
            communities: false,
            account_changes: Duration::ZERO,
            accounts_gone: 0.0,
            account_away: Duration::from_secs(86_400),
            accounts_deleted: 0.0,
            accounts_since: ACCOUNTS_SINCE,
            follow_changes: Duration::ZERO,
            most_followers: MOST_FOLLOWERS,
            count_follows: false,
            cursors_last: Duration::ZERO,
            cursors_repeat: 0.0,
            lists_hidden: 0.0,
            accounts_remote: 0.0,
            bluesky_records: true,
            count_ids: false,
        }
    }
}

#[derive(Debug, Clone)]
pub struct SimulatedCredential {
    /// The name for switching it, and for its own windows.
    pub name: String,
    pub keys: SimulatedKeys,
}

#[derive(Debug, Clone)]
pub enum SimulatedKeys {
    /// Keys of a user, which sign its calls (OAuth 1.0a, HMAC-SHA1).
    User {
        /// The application's key.
        consumer_key: SecretString,
        consumer_secret: SecretString,
        /// The user's token.
        token: SecretString,
        token_secret: SecretString,
    },
    /// Keys of an application, which gets a bearer token from `/oauth2/token`.
    App {
        /// The application's key.
        consumer_key: SecretString,
        consumer_secret: SecretString,
    },
}
