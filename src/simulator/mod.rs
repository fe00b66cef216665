//! A faithful fake of each provider's lookup, with its limits, its windows, its odd answers, and faults on demand.
//! For the demo, the tests and the benchmarks.
//!
//! | address | what |
//! |---|---|
//! | `GET`, `POST /1.1/statuses/lookup.json` | the endpoint: `id`, `map`, `tweet_mode`, `trim_user`, `include_entities` |
//! | `GET /1.1/statuses/show.json`, `statuses/show/{id}.json` | one tweet, or why it cannot be had |
//! | `GET /1.1/users/show.json`, `users/lookup`, `account/verify_credentials` | users, by `user_id` or `screen_name` |
//! | `GET /1.1/application/rate_limit_status.json` | the windows as they stand |
//! | `GET /1.1/search/tweets.json`, `statuses/user_timeline`, `lists/statuses`, `statuses/home_timeline` | timelines whose ids become visible out of order |
//! | `GET`, `POST /1.1/statuses/filter.json`, `GET /2/tweets/search/stream` | streams of the same posts; `GET /2/tweets/search/stream/rules` |
//! | `POST /oauth2/token` | an application's bearer token, for its keys |
//! | `GET /2/tweets`, `/2/tweets/{id}` | X API v2: `ids`, `tweet.fields` or `post.fields`, `expansions`, `user.fields` |
//! | `GET /2/users`, `/2/users/by`, `/2/users/{id}`, `/2/users/by/username/{username}` | users of X |
//! | `GET /2/users/me`, `/2/usage/tweets` | who calls, and what was charged |
//! | `GET /2/tweets/search/recent`, `/2/users/{id}/tweets` | X's timelines, by tokens, ids or times; a search is of 7 days, and behind |
//! | `GET /api/v1/statuses`, `/api/v1/statuses/{id}` | Mastodon: `id[]` |
//! | `GET /api/v1/instance`, `/api/v2/instance`, `/api/v1/apps/verify_credentials`, `/api/v1/accounts/{id}`, `/accounts/verify_credentials` | the instance, who calls, and accounts |
//! | `GET /api/v1/timelines/public`, `/timelines/tag/{hashtag}`, `/accounts/{id}/statuses` | Mastodon's timelines; kept on the way for whoever shows no token |
//! | `GET /xrpc/app.bsky.feed.getPosts` | Bluesky: `uris`; `GET /xrpc/_health`, `/xrpc/com.atproto.server.getSession`, `POST …createSession` |
//! | `GET /xrpc/app.bsky.feed.getAuthorFeed`, `/xrpc/app.bsky.feed.searchPosts` | Bluesky's timelines; a search wants a token for its cursor |
//! | `GET /simulator/credentials` | how each credential stands: `{"name": "good"}` |
//! | `PUT /simulator/credentials/{name}` | switches it: `"good"`, `"revoked"`, `"locked"`, `"suspended"` |
//! | `GET`, `PUT`, `DELETE /simulator/faults` | the [`Rule`]s in force, as a JSON array |
//! | `GET /simulator/stats` | [`Counters`], as JSON |
//!
//! Reading order: [`World`] decides what tweets there are, `text` and `render` write them, [`Replay`]
//! serves recorded ones instead; `api` answers calls in the forms of `reply`, or in another `dialect`; `gate` lets in who may call
//! (`signature` checks OAuth 1.0a), `windows` limits them, [`faults`] and `faulty` spoil them.
//!
//! Where it differs from the real APIs is in `docs/simulator.md`.

mod api;
mod bluesky;
mod call;
mod dialect;
pub mod faults;
mod faulty;
mod gate;
mod mastodon;
mod render;
mod replay;
mod reply;
mod signature;
mod text;
mod twitter_v1;
mod windows;
mod world;
mod x_v2;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::api::Api;
pub use self::api::{Counters, StreamCounts, TimelinePost};
pub use self::dialect::{bluesky_uri, id_of, mastodon_id};
pub use self::faults::{Endpoint, Fault, Faults, Rule};
pub use self::gate::{SimulatedCredential, SimulatedKeys, Standing};
pub use self::replay::Replay;
pub use self::windows::ClosedWindow;
pub use self::world::{SimulatedTweet, Version, World};
use crate::base::clock::Millis;

/// How long [`Running::stop`] waits for answers under way.
const DRAIN: Duration = Duration::from_secs(5);

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// Every answer takes this long,
    pub latency: Duration,
    /// and up to this much longer.
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
    pub mastodon_version: String,
    /// The length of a window.
    pub window: Duration,
    /// Serve the tweets recorded in the `*.json` files below this folder, and no others.
    pub replay: Option<PathBuf>,
    /// The bearer tokens that are good, besides those issued to `credentials`. Where both are `None`,
    /// anything is taken, also none at all.
    pub bearer_tokens: Option<Vec<SecretString>>,
    /// The credentials that are good, users' and applications'.
    pub credentials: Option<Vec<SimulatedCredential>>,
    /// With `bearer_tokens` or `credentials`: Mastodon and Bluesky answer whoever shows none, as public servers do.
    pub public: bool,
    /// Compresses answers for clients that take gzip.
    pub gzip: bool,
    /// Their clock minus ours, in ms.
    pub clock_skew: Millis,
    /// The share of tweets, 0 to 1, that are gone or will be: half were never there, the others are
    /// deleted at a mean age of six hours.
    pub missing_share: f64,
    /// The share of tweets, 0 to 1, whose text is withheld.
    pub withheld_share: f64,
    /// The share of tweets, 0 to 1, that are retweets.
    pub retweet_share: f64,
    /// The share of posts of X, 0 to 1, that are edited, one to five times within the first hour; retweets never are.
    /// Each version has an id of its own: [`World::history`] says which. Above 0, ids whose 22 lower bits are above
    /// 524287 are those of later versions, and of nothing else.
    pub edited_share: f64,
    /// The time constant of the counts' growth.
    pub growth: Duration,
    /// Extra bytes in every object but X's, which has the fields that are asked for: real ones are 2 to 6 KB, unpadded ones about 2.5.
    pub body_padding: usize,
    /// Posts a second in each timeline, 0.001 to 500.
    pub posts_per_second: f64,
    /// A post of a timeline is visible this long after it was made, at the most.
    pub posts_late: Duration,
    /// A search of X shows nothing younger than this.
    pub x_search_behind: Duration,
    /// X takes the token of a page no longer than this; zero: none at all.
    pub x_tokens_last: Duration,
    /// An answer of a Mastodon timeline to whoever shows no token is kept on the way for so long.
    pub mastodon_kept: Duration,
    /// How often a stream that has nothing to say sends a blank line, v1.1's
    pub keep_alive: Duration,
    /// and v2's.
    pub x_keep_alive: Duration,
    /// The rules of v2's stream: each is a timeline's target.
    pub stream_rules: Vec<String>,
    /// Count the lookups of every single id (memory grows with the ids).
    pub count_ids: bool,
}

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
            posts_late: Duration::from_secs(1),
            x_search_behind: Duration::from_secs(30),
            x_tokens_last: Duration::from_secs(3_600),
            mastodon_kept: Duration::from_secs(15),
            keep_alive: Duration::from_secs(30),
            x_keep_alive: Duration::from_secs(20),
            stream_rules: vec!["rust lang".to_owned()],
            count_ids: false,
        }
    }
}

/// Why a simulator did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// The address is taken or not ours.
    #[error("cannot listen at {addr}: {error}; choose another with --listen")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The recordings' folder cannot be read.
    #[error("cannot read recordings in {dir}: {error}")]
    Recordings {
        /// The folder.
        dir: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// There is no v1.1 tweet in the folder: everything would be missing.
    #[error("no v1.1 tweet is recorded in the *.json files below {0}; give the folder of the recordings with --replay")]
    NothingRecorded(PathBuf),
}

/// A running simulator. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    api: Arc<Api>,
    stop: CancellationToken,
    server: Option<JoinHandle<()>>,
}

/// Starts a simulator; port 0 picks a free port ([`Running::addr`] says which).
///
/// # Errors
/// The address is taken, or there is nothing to replay.
pub async fn start(addr: SocketAddr, options: SimulatorOptions) -> Result<Running, SimulatorError> {
    let replay = match &options.replay {
        None => None,
        Some(dir) => Some(load(dir.clone()).await?),
    };
    let listener = TcpListener::bind(addr).await.map_err(|error| SimulatorError::Listen { addr, error })?;
    let addr = listener.local_addr().map_err(|error| SimulatorError::Listen { addr, error })?;
    let stop = CancellationToken::new();
    let api = Arc::new(Api::new(options, replay, stop.clone()));
    // A small answer must not wait for the acknowledgement of the one before it.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the simulator cannot set TCP_NODELAY");
        }
    });
    let serve = axum::serve(listener, api::router(api.clone())).with_graceful_shutdown(stop.clone().cancelled_owned());
    let server = tokio::spawn(async move {
        if let Err(error) = serve.await {
            tracing::error!(%error, "the simulator stopped serving");
        }
    });
    Ok(Running { addr, api, stop, server: Some(server) })
}

async fn load(dir: PathBuf) -> Result<Replay, SimulatorError> {
    let place = dir.clone();
    let loaded = tokio::task::spawn_blocking(move || Replay::load(&place)).await;
    let replay = loaded
        .unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
        .map_err(|error| SimulatorError::Recordings { dir: dir.clone(), error })?;
    for (file, why) in &replay.skipped {
        tracing::warn!(file = %file.display(), why, "skipped a recording");
    }
    if replay.is_empty() {
        return Err(SimulatorError::NothingRecorded(dir));
    }
    tracing::info!(tweets = replay.len(), skipped_files = replay.skipped.len(), "replaying recorded tweets");
    Ok(replay)
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What to give a client as `base_url`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The faults in force, to be changed at any time.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.api.faults
    }

    /// Adds a fault for the next `times` lookups.
    pub fn inject(&self, fault: Fault, times: u32) {
        self.api.faults.add(Rule { times: Some(times), ..Rule::from(fault) });
    }

    /// Revokes, locks, suspends or restores a credential; `false` where none has that name.
    pub fn set_standing(&self, name: &str, standing: Standing) -> bool {
        self.api.gate.set(name, standing)
    }

    /// How each credential stands, by name.
    #[must_use]
    pub fn standings(&self) -> BTreeMap<String, Standing> {
        self.api.gate.standings()
    }

    /// What was asked so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.api.counters()
    }

    /// The windows that have ended and were followed by another, in the order of their ends.
    #[must_use]
    pub fn closed_windows(&self) -> Vec<ClosedWindow> {
        self.api.windows.closed()
    }

    /// How often each id was looked up; empty unless [`SimulatorOptions::count_ids`] is on.
    #[must_use]
    pub fn lookups(&self) -> HashMap<String, u64> {
        self.api.lookups()
    }

    /// The simulated tweets: what the truth is.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.api.world
    }

    /// The recorded tweets it serves, when it replays.
    #[must_use]
    pub fn replay(&self) -> Option<&Replay> {
        self.api.replay.as_ref()
    }

    /// Stops: no new connections, answers under way are finished (those held back by a fault are cut).
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(mut server) = self.server.take()
            && tokio::time::timeout(DRAIN, &mut server).await.is_err()
        {
            server.abort();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
