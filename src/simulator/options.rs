//! The settings of the simulator.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::text::AUTHORS;
use crate::base::clock::Millis;

/// The options of the simulator: `[simulator]`, and others for tests.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatorOptions {
    /// Every answer takes this long,
    #[serde(with = "humantime_serde")]
    pub latency: Duration,
    /// and up to this much longer.
    #[serde(with = "humantime_serde")]
    pub jitter: Duration,
    /// Same seed, same tweets, same dice.
    pub seed: u64,
    /// Calls of a user per window and endpoint, and of whoever shows no credential; 0 is without limit
    /// (and without the headers).
    pub calls_per_window: u32,
    /// The same of an application: of whoever shows a bearer token.
    pub app_calls_per_window: u32,
    /// The same of X API v2, for users,
    pub x_calls_per_window: u32,
    /// and for applications.
    pub x_app_calls_per_window: u32,
    /// The same of a Mastodon instance, for anybody, in windows a third as long that begin with the clock's.
    pub mastodon_calls_per_window: u32,
    /// The same of Bluesky, for anybody, in windows a third as long.
    pub bluesky_calls_per_window: u32,
    /// What the Mastodon instance says it runs: before 4.3 it gives one status a call.
    #[serde(skip)]
    pub mastodon_version: String,
    /// The length of a window.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// Serve the tweets recorded in the `*.json` files below this folder, and no others.
    #[serde(skip)]
    pub replay: Option<PathBuf>,
    /// True if the settings' own credentials are the ones that are good, and no others.
    pub check_credentials: bool,
    /// The bearer tokens that are good, besides those issued to `credentials`. Where both are `None`,
    /// anything is taken, also none at all.
    #[serde(skip)]
    pub bearer_tokens: Option<Vec<SecretString>>,
    /// The credentials that are good, users' and applications'.
    #[serde(skip)]
    pub credentials: Option<Vec<SimulatedCredential>>,
    /// With `bearer_tokens` or `credentials`: Mastodon and Bluesky answer whoever shows none, as public servers do.
    #[serde(skip)]
    pub public: bool,
    /// Compresses answers for clients that take gzip.
    pub gzip: bool,
    /// Their clock minus ours, in ms.
    #[serde(skip)]
    pub clock_skew: Millis,
    /// The share of tweets, 0 to 1, that are gone or will be: half were never there, the others are
    /// deleted at a mean age of six hours.
    pub missing_share: f64,
    /// The share of tweets, 0 to 1, whose text is withheld.
    pub withheld_share: f64,
    /// The share of tweets, 0 to 1, that are retweets.
    pub retweet_share: f64,
    /// The share of posts of X, 0 to 1, that are edited, one to five times within the first hour; retweets never are.
    /// Each version has an id of its own: [`World::history`](crate::simulator::World::history) says which. Above 0, ids whose 22 lower bits are above
    /// 524287 are those of later versions, and of nothing else.
    pub edited_share: f64,
    /// The time constant of the counts' growth.
    #[serde(with = "humantime_serde")]
    pub growth: Duration,
    /// Extra bytes in every object but X's, which has the fields that are asked for: real ones are 2 to 6 KB, unpadded ones about 2.5.
    #[serde(skip)]
    pub body_padding: usize,
    /// Posts a second in each timeline, 0.001 to 500.
    #[serde(skip)]
    pub posts_per_second: f64,
    /// Accounts post by hours and rates of their own, in days that last this long; zero: each posts evenly. `posts_per_second` is
    /// then the most that an account posts in its busiest hours.
    #[serde(skip)]
    pub posting_day: Duration,
    /// A post of a timeline is visible this long after it was made, at the most.
    #[serde(skip)]
    pub posts_late: Duration,
    /// A search of X shows nothing younger than this.
    #[serde(skip)]
    pub x_search_behind: Duration,
    /// X takes the token of a page no longer than this; zero: none at all.
    #[serde(skip)]
    pub x_tokens_last: Duration,
    /// An answer of a Mastodon timeline to whoever shows no token is kept on the way for so long.
    #[serde(skip)]
    pub mastodon_kept: Duration,
    /// Interval between the blank lines of a stream without posts.
    #[serde(skip)]
    pub keep_alive: Duration,
    /// The rules of the stream: each is a timeline's target.
    #[serde(skip)]
    pub stream_rules: Vec<String>,
    /// The number of accounts, up to 1,048,576. The first 32,768 write the posts.
    #[serde(skip)]
    pub accounts: u64,
    /// Accounts are of planted groups: their profiles, posts, mentions and follows show which. There are then at most 32,768
    /// accounts, and all of them write posts.
    #[serde(skip)]
    pub communities: bool,
    /// The mean time between two changes of an account's profile; zero: accounts never change.
    #[serde(skip)]
    pub account_changes: Duration,
    /// The share of accounts, 0 to 0.5, that are suspended or deactivated at a time.
    #[serde(skip)]
    pub accounts_gone: f64,
    /// The mean time for which an account is away.
    #[serde(skip)]
    pub account_away: Duration,
    /// The share of absences, 0 to 1, that are for good: the account is deleted.
    #[serde(skip)]
    pub accounts_deleted: f64,
    /// The moment from which on accounts change and are away, ms since the epoch: simulators that are to agree have the same.
    #[serde(skip)]
    pub accounts_since: Millis,
    /// The mean time between two new followers of an account; zero: nobody follows or unfollows. As many end their follows.
    /// Accounts with very long lists get new followers more often.
    #[serde(skip)]
    pub follow_changes: Duration,
    /// The most followers of an account, up to 300,000, and up to half of the accounts.
    #[serde(skip)]
    pub most_followers: u64,
    /// Profiles state the numbers of followers and friends that the lists have, and not made-up ones.
    #[serde(skip)]
    pub count_follows: bool,
    /// Lists take a cursor no longer than this; zero: always.
    #[serde(skip)]
    pub cursors_last: Duration,
    /// The share of accounts, 0 to 1, whose lists give the cursor of their second page again and again.
    #[serde(skip)]
    pub cursors_repeat: f64,
    /// The share of accounts, 0 to 1, that hide their lists (Mastodon).
    #[serde(skip)]
    pub lists_hidden: f64,
    /// The share of accounts, 0 to 1, that are of another server, which shows half of their follows (Mastodon).
    #[serde(skip)]
    pub accounts_remote: f64,
    /// Bluesky lists the records of follows, as a personal data server does; the AppView has none.
    #[serde(skip)]
    pub bluesky_records: bool,
    /// Count the lookups of every single id (memory grows with the ids).
    #[serde(skip)]
    pub count_ids: bool,
}

/// The most followers of an account.
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

/// A credential that the simulated API knows.
#[derive(Debug, Clone)]
pub struct SimulatedCredential {
    /// What it is called when it is switched. Its calls have windows of their own.
    pub name: String,
    /// Its secrets.
    pub keys: SimulatedKeys,
}

/// The secrets of a credential.
#[derive(Debug, Clone)]
pub enum SimulatedKeys {
    /// A user's: signs its calls (OAuth 1.0a, HMAC-SHA1).
    User {
        /// The application's key.
        consumer_key: SecretString,
        /// The application's secret.
        consumer_secret: SecretString,
        /// The user's token.
        token: SecretString,
        /// The user's secret.
        token_secret: SecretString,
    },
    /// An application's: gets a bearer token from `/oauth2/token`.
    App {
        /// The application's key.
        consumer_key: SecretString,
        /// The application's secret.
        consumer_secret: SecretString,
    },
}
