//! A faithful fake of each provider's lookup, with its limits, windows and odd responses, and with faults on demand.
//! For the demo, the tests and the benchmarks.
//!
//! | address | what |
//! |---|---|
//! | `GET`, `POST /1.1/statuses/lookup.json` | the endpoint: `id`, `map`, `tweet_mode`, `trim_user`, `include_entities` |
//! | `GET /1.1/statuses/show.json`, `statuses/show/{id}.json` | one tweet, or why it cannot be had |
//! | `GET /1.1/users/show.json`, `users/lookup`, `account/verify_credentials` | users, by `user_id` or `screen_name` |
//! | `GET /1.1/followers/ids.json`, `friends/ids` | lists, by `user_id` or `screen_name`, 5,000 ids a page, with cursors |
//! | `GET /1.1/application/rate_limit_status.json` | the windows as they stand |
//! | `GET /1.1/search/tweets.json`, `statuses/user_timeline`, `lists/statuses`, `statuses/home_timeline` | timelines whose ids become visible out of order |
//! | `GET /2/tweets/search/stream` | a stream of the same posts; `GET /2/tweets/search/stream/rules` |
//! | `POST /oauth2/token` | an application's bearer token, for its keys |
//! | `GET /2/tweets`, `/2/tweets/{id}` | X API v2: `ids`, `tweet.fields` or `post.fields`, `expansions`, `user.fields` |
//! | `GET /2/users`, `/2/users/by`, `/2/users/{id}`, `/2/users/by/username/{username}` | users of X |
//! | `GET /2/users/{id}/followers`, `/2/users/{id}/following` | lists of X: accounts, 1,000 a page, by tokens |
//! | `GET /2/users/me`, `/2/usage/tweets` | who calls, and what was charged |
//! | `GET /2/tweets/search/recent`, `/2/users/{id}/tweets` | X's timelines, by tokens, ids or times; a search is of 7 days, and behind |
//! | `GET /api/v1/statuses`, `/api/v1/statuses/{id}` | Mastodon: `id[]` |
//! | `GET /api/v1/instance`, `/api/v2/instance`, `/api/v1/apps/verify_credentials`, `/accounts/verify_credentials` | the instance, and who calls |
//! | `GET /api/v1/accounts`, `/api/v1/accounts/{id}`, `/api/v1/accounts/lookup` | accounts of the instance: `id[]`, `acct` |
//! | `GET /api/v1/accounts/{id}/followers`, `/following` | lists of the instance: 80 accounts a page, with `Link` |
//! | `GET /api/v1/timelines/public`, `/timelines/tag/{hashtag}`, `/accounts/{id}/statuses` | Mastodon's timelines; cached for callers without a token |
//! | `GET /xrpc/app.bsky.feed.getPosts` | Bluesky: `uris`; `GET /xrpc/_health`, `/xrpc/com.atproto.server.getSession`, `POST …createSession` |
//! | `GET /xrpc/app.bsky.actor.getProfiles`, `/xrpc/app.bsky.actor.getProfile` | accounts of Bluesky: `actors`, `actor`, DIDs or handles |
//! | `GET /xrpc/app.bsky.graph.getFollowers`, `/xrpc/app.bsky.graph.getFollows` | lists of Bluesky: 100 accounts a page |
//! | `GET /xrpc/com.atproto.repo.listRecords` | the follows of an account of Bluesky as records |
//! | `GET /xrpc/app.bsky.feed.getAuthorFeed`, `/xrpc/app.bsky.feed.searchPosts` | Bluesky's timelines; a search wants a token for its cursor |
//! | `GET /simulator/credentials` | how each credential stands: `{"name": "good"}` |
//! | `PUT /simulator/credentials/{name}` | switches it: `"good"`, `"revoked"`, `"locked"`, `"suspended"` |
//! | `GET`, `PUT`, `DELETE /simulator/faults` | the [`Rule`]s in force, as a JSON array |
//! | `GET /simulator/stats` | [`Counters`], as JSON |
//!
//! Reading order: [`World`] decides which posts exist, [`People`] the state of accounts, `timeline` the posts that they write.
//! `text` and `render` write them, [`Replay`] serves recorded ones instead. `gate` admits a `call` (`signature` checks OAuth
//! 1.0a), `windows` limits it, [`faults`] and `faulty` spoil it. `twitter_v1`, `x_v2`, `mastodon` and `bluesky` hold the parts of
//! one provider: its `dialect`, timelines and users. `dialect` names the providers, `answers` picks the form of each, `api` lists
//! the endpoints and has their common part.
//!
//! `docs/simulator.md` lists the differences from the real APIs.

mod answers;
mod api;
mod bits;
mod bluesky;
mod call;
mod dialect;
pub mod faults;
mod faulty;
mod gate;
mod mastodon;
mod options;
mod people;
mod random;
mod render;
mod reply;
mod signature;
mod text;
mod timeline;
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
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::answers::id_of;
use self::api::Api;
pub use self::api::{Counters, StreamCounts};
pub use self::bluesky::dialect::bluesky_uri;
pub use self::faults::{Endpoint, Fault, Faults, Rule};
pub use self::gate::Standing;
pub use self::mastodon::dialect::mastodon_id;
pub use self::options::{MOST_FOLLOWERS, SimulatedCredential, SimulatedKeys, SimulatorOptions};
pub use self::people::{
    Follow, Follows, GROUPS, Group, MOST_ACCOUNTS, MOST_IN_COMMUNITIES, POPULAR, People, Person, ScriptedChange,
};
use self::timeline::Network;
pub use self::timeline::TimelinePost;
pub use self::twitter_v1::replay::Replay;
pub use self::windows::ClosedWindow;
pub use self::world::{SimulatedTweet, Version, World};
use engine::base::clock::Millis;

/// The time that [`Running::stop`] waits for responses in progress.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    #[error("cannot listen at {addr}: {error}; choose another with --listen")]
    Listen { addr: SocketAddr, error: io::Error },
    #[error("cannot read recordings in {dir}: {error}")]
    Recordings { dir: PathBuf, error: io::Error },
    /// The folder has no v1.1 tweet: every post would be missing.
    #[error("no v1.1 tweet is recorded in the *.json files below {0}; give the folder of the recordings with --replay")]
    NothingRecorded(PathBuf),
}

#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    api: Arc<Api>,
    stop: CancellationToken,
    server: Option<JoinHandle<()>>,
}

/// Starts a simulator; port 0 picks a free port ([`Running::addr`] returns it).
pub async fn start(addr: SocketAddr, options: SimulatorOptions) -> Result<Running, SimulatorError> {
    let replay = match &options.replay {
        None => None,
        Some(dir) => Some(load(dir.clone()).await?),
    };
    let listener = TcpListener::bind(addr).await.map_err(|error| SimulatorError::Listen { addr, error })?;
    let addr = listener.local_addr().map_err(|error| SimulatorError::Listen { addr, error })?;
    let stop = CancellationToken::new();
    let api = Arc::new(Api::new(options, replay, stop.clone()));
    // A small response must not wait for the acknowledgement of the previous one.
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
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.api.faults
    }

    pub fn inject(&self, fault: Fault, times: u32) {
        self.api.faults.add(Rule { times: Some(times), ..Rule::from(fault) });
    }

    /// Revokes, locks, suspends or restores a credential; `false` if none has that name.
    pub fn set_standing(&self, name: &str, standing: Standing) -> bool {
        self.api.gate.set(name, standing)
    }

    #[must_use]
    pub fn standings(&self) -> BTreeMap<String, Standing> {
        self.api.gate.standings()
    }

    #[must_use]
    pub fn counters(&self) -> Counters {
        self.api.counters()
    }

    /// The windows that have ended and were followed by another, in the order of their ends.
    #[must_use]
    pub fn closed_windows(&self) -> Vec<ClosedWindow> {
        self.api.windows.closed()
    }

    /// The number of lookups of each id; empty unless [`SimulatorOptions::count_ids`] is on.
    #[must_use]
    pub fn lookups(&self) -> HashMap<String, u64> {
        self.api.lookups()
    }

    #[must_use]
    pub fn world(&self) -> &World {
        &self.api.world
    }

    /// Simulated accounts. They follow the simulated API's clock: this machine's plus [`SimulatorOptions::clock_skew`].
    #[must_use]
    pub fn people(&self) -> &People {
        self.api.world.people()
    }

    #[must_use]
    pub fn replay(&self) -> Option<&Replay> {
        self.api.replay.as_ref()
    }

    /// The posts of a timeline of Twitter or X that were made in a span of time (ms since the epoch) and are not deleted: a poller
    /// must have seen them. Edited posts have their first ids. `target` is the query, or `@` and a user's handle, or a user's id.
    /// For a list it is `list ` and its id, or `list OWNER/SLUG`; for a home timeline, the caller.
    #[must_use]
    pub fn timeline(&self, target: &str, from: Millis, to: Millis) -> Vec<TimelinePost> {
        self.api.posts(Network::Twitter, target, from, to)
    }

    /// Posts of a Mastodon timeline, by ids. `target` is `public`, a hashtag with its `#`, or the account's id.
    #[must_use]
    pub fn statuses(&self, target: &str, from: Millis, to: Millis) -> Vec<String> {
        let posts = self.api.posts(Network::Mastodon, target, from, to);
        posts.iter().map(|post| Network::Mastodon.id(post.id).to_string()).collect()
    }

    /// Posts of a Bluesky timeline, by uris. `target` is the query, or `@` and the actor (for a simulated user, without the domain).
    #[must_use]
    pub fn bluesky_posts(&self, target: &str, from: Millis, to: Millis) -> Vec<String> {
        let posts = self.api.posts(Network::Twitter, target, from, to);
        posts.iter().map(|post| bluesky::timelines::uri(post.id.get())).collect()
    }

    #[must_use]
    pub fn streams(&self) -> StreamCounts {
        self.api.streams.counts()
    }

    /// Stops it: no new connections; responses in progress are finished (those held back by a fault are cut).
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
