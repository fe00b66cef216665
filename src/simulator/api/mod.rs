//! The simulated endpoints.

mod last;
mod single;
mod streams;
pub mod timelines;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post, put};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

pub use self::streams::StreamCounts;
use self::streams::Streams;
pub use self::timelines::TimelinePost;
use super::call::Call;
use super::dialect::{Dialect, Fields, Shown, x_includes, x_refusal_of};
use super::faults::{Drawn, Endpoint, Fault, Faults, Rule};
use super::gate::{Caller, Gate, Pool, Standing};
use super::render::{self, View};
use super::replay::Replay;
use super::reply::{Found, success, twitter_refusal};
use super::windows::{Limit, Window, Windows};
use super::world::{Salt, Version, World, mix, unit};
use super::{SimulatorOptions, faulty};
use crate::base::clock::{self, Millis};

const STATUS: &str = "/application/rate_limit_status";

/// Calls of `rate_limit_status` per window.
const STATUS_CALLS: u32 = 180;

/// Everything the endpoints share.
#[derive(Debug)]
pub struct Api {
    pub options: SimulatorOptions,
    pub world: World,
    pub replay: Option<Replay>,
    pub faults: Faults,
    pub gate: Gate,
    padding: String,
    pub windows: Windows,
    pub streams: Arc<Streams>,
    requests: AtomicU64,
    exchanges: AtomicU64,
    ids: AtomicU64,
    throttled: AtomicU64,
    faulted: AtomicU64,
    lookups: Mutex<HashMap<String, u64>>,
    /// Posts of X that were returned, and on which UTC day: each is charged once.
    charged: Mutex<HashSet<(String, Millis)>>,
    pub kept: timelines::Kept,
    pub stop: CancellationToken,
}

/// What was asked so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Lookups, whatever came of them.
    pub requests: u64,
    /// Calls of `oauth2/token`, whatever came of them.
    pub exchanges: u64,
    /// Ids in calls that were answered with tweets, also with broken or missing ones.
    pub ids: u64,
    /// Calls refused because their window was used up.
    pub throttled: u64,
    /// Calls spoiled by a fault.
    pub faulted: u64,
    /// Posts that X charges for: those it returned, each once in a UTC day.
    pub charged: u64,
}

/// The addresses and what answers them.
pub fn router(api: Arc<Api>) -> Router {
    let lookup = |dialect: Dialect| {
        async move |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
            Ok(call) => api.lookup(dialect, &call).await,
            Err(refused) => refused,
        }
    };
    let check = |dialect: Dialect| {
        async move |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
            Ok(call) => api.check(dialect, &call),
            Err(refused) => refused,
        }
    };
    let status = async |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
        Ok(call) => api.rate_limit_status(&call),
        Err(refused) => refused,
    };
    let token = async |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
        Ok(call) => api.token(&call).await,
        Err(refused) => refused,
    };
    let rules = async |State(api): State<Arc<Api>>| Json(api.faults.rules());
    let set_rules = async |State(api): State<Arc<Api>>, Json(rules): Json<Vec<Rule>>| {
        api.faults.replace(rules);
        StatusCode::NO_CONTENT
    };
    let no_rules = async |State(api): State<Arc<Api>>| {
        api.faults.clear();
        StatusCode::NO_CONTENT
    };
    let standings = async |State(api): State<Arc<Api>>| Json(api.gate.standings());
    let stand = async |State(api): State<Arc<Api>>, Path(name): Path<String>, Json(standing): Json<Standing>| {
        if api.gate.set(&name, standing) { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
    };
    let stats = async |State(api): State<Arc<Api>>| Json(api.counters());
    let router = Router::new()
        .route("/1.1/statuses/lookup.json", get(lookup(Dialect::TwitterV1)).post(lookup(Dialect::TwitterV1)))
        .route("/1.1/application/rate_limit_status.json", get(status))
        .route("/oauth2/token", post(token))
        .route("/2/tweets", get(lookup(Dialect::XV2)))
        .route("/2/usage/tweets", get(check(Dialect::XV2)))
        .route("/2/tweets/{id}", get(lookup(Dialect::XPost)))
        .route("/xrpc/app.bsky.feed.getPosts", get(lookup(Dialect::Bluesky)))
        .route("/xrpc/com.atproto.server.getSession", get(check(Dialect::Bluesky)))
        .route("/xrpc/_health", get(async || Json(json!({ "version": "simulated" }))))
        .route("/simulator/credentials", get(standings))
        .route("/simulator/credentials/{name}", put(stand))
        .route("/simulator/faults", get(rules).put(set_rules).delete(no_rules))
        .route("/simulator/stats", get(stats))
        .fallback(last::unknown)
        .method_not_allowed_fallback(last::wrong_method);
    let router = with_slash(router, "/api/v1/statuses", get(lookup(Dialect::Mastodon)));
    let router = with_slash(router, "/api/v1/statuses/{id}", get(lookup(Dialect::MastodonStatus)));
    let router = with_slash(router, "/api/v1/apps/verify_credentials", get(check(Dialect::Mastodon)));
    let router =
        crate::simulator::twitter_v1::users::routes(single::routes(streams::routes(timelines::routes(router))));
    router.layer(from_fn_with_state(api.clone(), last::finish)).with_state(api)
}

/// An address of Mastodon, which answers with a slash at its end, too.
pub(crate) fn with_slash(router: Router<Arc<Api>>, path: &str, methods: MethodRouter<Arc<Api>>) -> Router<Arc<Api>> {
    router.route(path, methods.clone()).route(&format!("{path}/"), methods)
}

/// Who was let in, and the window that was charged.
pub(crate) struct Entered {
    pub(crate) caller: Caller,
    pub(crate) window: Option<Window>,
}

impl Api {
    pub fn new(mut options: SimulatorOptions, replay: Option<Replay>, stop: CancellationToken) -> Self {
        let gate = Gate::new(&mut options);
        Self {
            world: World::new(&options),
            padding: render::padding(options.body_padding),
            options,
            replay,
            faults: Faults::default(),
            gate,
            windows: Windows::default(),
            streams: Arc::default(),
            requests: AtomicU64::new(0),
            exchanges: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            faulted: AtomicU64::new(0),
            lookups: Mutex::default(),
            charged: Mutex::default(),
            kept: timelines::Kept::default(),
            stop,
        }
    }

    pub fn counters(&self) -> Counters {
        Counters {
            requests: self.requests.load(Ordering::Relaxed),
            exchanges: self.exchanges.load(Ordering::Relaxed),
            ids: self.ids.load(Ordering::Relaxed),
            throttled: self.throttled.load(Ordering::Relaxed),
            faulted: self.faulted.load(Ordering::Relaxed),
            charged: self.charged.lock().unwrap_or_else(PoisonError::into_inner).len() as u64,
        }
    }

    pub fn lookups(&self) -> HashMap<String, u64> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits, but not longer than the simulator runs.
    pub async fn pause(&self, span: Duration) {
        if !span.is_zero() {
            let _ = self.stop.run_until_cancelled(tokio::time::sleep(span)).await;
        }
    }

    /// The simulated API's clock, in ms since the epoch.
    pub fn now(&self) -> Millis {
        clock::wall_ms().saturating_add(self.options.clock_skew)
    }

    /// The exchange of an application's keys for its token.
    async fn token(&self, call: &Call) -> Response {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        let token = match self.gate.exchange(call) {
            Ok(token) => token,
            Err((status, code)) => return twitter_refusal(status, code),
        };
        let body = || json!({ "token_type": "bearer", "access_token": token }).to_string();
        if let Some(fault) = self.strike(Endpoint::Token, &[]).await
            && let Some(response) = faulty::answer(self, Dialect::TwitterV1, &fault, None, body).await
        {
            return response;
        }
        success(body())
    }

    /// Lets a call in and takes it from its window; `Err` is the refusal. `limit` is asked for who calls.
    #[expect(clippy::result_large_err, reason = "a refusal is sent at once")]
    pub(crate) fn enter(
        &self,
        dialect: Dialect,
        call: &Call,
        endpoint: &'static str,
        limit: impl FnOnce(Pool) -> Limit,
    ) -> Result<Entered, Response> {
        let caller = self.gate.admit(call, self.now()).map_err(|(status, code)| dialect.refusal(status, code))?;
        match self.take(&caller.name, endpoint, limit(caller.pool)) {
            Ok(window) => Ok(Entered { caller, window }),
            Err(window) => {
                self.throttled.fetch_add(1, Ordering::Relaxed);
                Err(dialect.with(Some(window), dialect.refusal(429, 88)))
            }
        }
    }

    /// The same, at an endpoint whose own figures are these: calls per window of a user and of an application.
    #[expect(clippy::result_large_err, reason = "a refusal is sent at once")]
    pub(crate) fn enter_own(
        &self,
        dialect: Dialect,
        call: &Call,
        endpoint: &'static str,
        calls: (u32, u32),
    ) -> Result<Entered, Response> {
        self.enter(dialect, call, endpoint, |pool| dialect.limit_of(&self.options, pool, calls))
    }

    /// The fault that strikes this call, if one does.
    async fn strike(&self, at: Endpoint, ids: &[&str]) -> Option<Fault> {
        let Drawn { slower, fault } = self.faults.draw(self.options.seed, at, ids);
        self.pause(slower).await;
        self.faulted.fetch_add(u64::from(fault.is_some()), Ordering::Relaxed);
        fault
    }

    async fn lookup(self: Arc<Self>, dialect: Dialect, call: &Call) -> Response {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let jitter = self.options.jitter.mul_f64(unit(mix(mix(self.options.seed) ^ number)));
        self.pause(self.options.latency + jitter).await;
        let limit = |pool| dialect.limit(&self.options, pool);
        let window = match self.enter(dialect, call, dialect.endpoint(), limit) {
            Ok(Entered { window, .. }) => window,
            Err(refused) => return refused,
        };
        if dialect == Dialect::Mastodon && !self.has_batches() {
            return dialect.with(window, dialect.refusal(404, 34));
        }
        let ids = match dialect.asked(call) {
            Ok(ids) => ids,
            Err((status, code)) => return dialect.with(window, dialect.refusal(status, code)),
        };
        let own: &[&str] = if dialect == Dialect::XV2 { &["ids"] } else { &[] };
        let fields = match dialect.fields(call, own) {
            Ok(fields) => fields,
            Err(unknown) => return dialect.with(window, x_refusal_of(&unknown)),
        };
        // Charged is what was made, whether the answer arrives or not.
        let found = || self.charge(dialect, self.find(dialect, &ids, call, &fields));
        let body = match self.strike(Endpoint::Lookup, &ids).await {
            None => dialect.write(&found()),
            Some(fault) => {
                let body = || dialect.write(&found());
                match faulty::answer(&self, dialect, &fault, window, body).await {
                    Some(response) => return response,
                    None => faulty::tweets(dialect, &fault, found()),
                }
            }
        };
        if body.is_empty() {
            return dialect.with(window, dialect.refusal(404, 34));
        }
        self.answered(dialect, &ids, window, body)
    }

    /// What X returns, it charges for.
    fn charge<'a>(&self, dialect: Dialect, found: Found<'a>) -> Found<'a> {
        if dialect.is_x() {
            let returned = found.ids.iter().zip(&found.objects).filter(|(_, object)| object.is_some());
            self.charge_for(returned.map(|(id, _)| (*id).to_owned()));
        }
        found
    }

    /// These posts of X were returned.
    pub(crate) fn charge_for(&self, ids: impl Iterator<Item = String>) {
        let day = self.now().div_euclid(clock::millis(Duration::from_secs(86_400)));
        self.charged.lock().unwrap_or_else(PoisonError::into_inner).extend(ids.map(|id| (id, day)));
    }

    /// Whether the simulated instance knows `GET /api/v1/statuses`, which came with 4.3.
    fn has_batches(&self) -> bool {
        let mut parts = self.options.mastodon_version.split('.').map_while(|part| part.parse::<u32>().ok());
        (parts.next(), parts.next()) >= (Some(4), Some(3))
    }

    /// A call that asks for no post: who calls. An instance counts it with the others.
    fn check(&self, dialect: Dialect, call: &Call) -> Response {
        let unlimited = |_| Limit { calls: 0, length: 0, aligned: false };
        let limit = |pool| if dialect.is_x() { unlimited(pool) } else { dialect.limit(&self.options, pool) };
        let told = || {
            let charged = self.counters().charged.to_string();
            let body = match dialect {
                Dialect::XV2 => {
                    let usage = json!({ "project_usage": charged, "project_cap": "2000000", "cap_reset_day": 1 });
                    json!({ "data": usage })
                }
                Dialect::Bluesky => json!({ "handle": "simulated.bsky.example.org", "did": "did:plc:simulated" }),
                _ => json!({ "name": "simulated", "website": null }),
            };
            success(body.to_string())
        };
        match self.enter(dialect, call, dialect.endpoint(), limit) {
            Ok(Entered { window, .. }) => dialect.with(window, told()),
            Err(refused) => refused,
        }
    }

    fn answered(&self, dialect: Dialect, ids: &[&str], window: Option<Window>, body: String) -> Response {
        self.ids.fetch_add(ids.len() as u64, Ordering::Relaxed);
        if self.options.count_ids {
            let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
            for id in ids {
                *lookups.entry((*id).to_owned()).or_default() += 1;
            }
        }
        dialect.with(window, success(body))
    }

    /// The asked tweets as they are now. An id that is no number is like one that is not there: that is
    /// what the recorded answer to `id=X` shows.
    fn find<'a>(&self, dialect: Dialect, ids: &[&'a str], call: &Call, fields: &Fields) -> Found<'a> {
        let view = View::of(call);
        let map = dialect == Dialect::TwitterV1 && call.flag("map").unwrap_or(false);
        let shown = Shown { fields: fields.clone(), ..self.shown(clock::wall_ms(), view) };
        let mut ids = ids.to_vec();
        if !map && dialect != Dialect::Bluesky {
            // Not the order asked; nobody is promised any, but the same one every time.
            ids.sort_by_key(|id| dialect.tweet_id(id).map_or(0, |id| self.world.dice(id, Salt::Order)));
        }
        let objects = ids.iter().map(|id| self.object(dialect, id, &shown)).collect();
        let includes = if dialect.is_x() { self.includes(&ids, &shown) } else { None };
        Found { ids, objects, map, includes }
    }

    /// What the expansions bring of these posts of X.
    pub(crate) fn includes(&self, ids: &[&str], shown: &Shown<'_>) -> Option<String> {
        if !shown.fields.has_expansions() || self.replay.is_some() {
            return None;
        }
        let version = |id: &&str| self.world.version(Dialect::XV2.tweet_id(id)?, shown.now);
        let versions: Vec<Version> = ids.iter().filter_map(version).collect();
        x_includes(shown, &versions)
    }

    pub(crate) fn shown(&self, now: Millis, view: View) -> Shown<'_> {
        Shown { world: &self.world, now, padding: &self.padding, view, fields: Fields::default() }
    }

    pub(crate) fn object(&self, dialect: Dialect, id: &str, shown: &Shown<'_>) -> Option<String> {
        match &self.replay {
            Some(replay) if dialect == Dialect::TwitterV1 => replay.get(id).map(str::to_owned),
            // What is recorded is v1.1's alone.
            Some(_) => None,
            None => dialect.object(id, shown),
        }
    }

    /// Takes a call from the window; `Ok(None)` where there is no limit.
    fn take(&self, who: &str, endpoint: &'static str, limit: Limit) -> Result<Option<Window>, Window> {
        if limit.calls == 0 {
            return Ok(None);
        }
        self.windows.take(who, endpoint, limit, self.now()).map(Some)
    }

    fn rate_limit_status(&self, call: &Call) -> Response {
        let Caller { name, pool } = match self.gate.admit(call, self.now()) {
            Ok(caller) => caller,
            Err((status, code)) => return twitter_refusal(status, code),
        };
        let dialect = Dialect::TwitterV1;
        let status_limit = Limit { calls: STATUS_CALLS, length: clock::millis(self.options.window), aligned: false };
        let window = match self.take(&name, STATUS, status_limit) {
            Ok(window) => window,
            Err(window) => return dialect.with(Some(window), twitter_refusal(429, 88)),
        };
        let families = call.parameter("resources");
        let asked = |family: &str| families.is_none_or(|families| families.split(',').any(|one| one == family));
        let own = [(dialect.endpoint(), dialect.limit(&self.options, pool)), (STATUS, status_limit)];
        let mut resources: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (endpoint, limit) in own.into_iter().chain(timelines::twitter_limits(&self.options, pool)) {
            let family = endpoint.split('/').nth(1).unwrap_or_default();
            if asked(family) {
                let limit = if limit.calls == 0 { Limit { calls: u32::MAX, ..limit } } else { limit };
                let Window { limit, remaining, reset } = self.windows.look(&name, endpoint, limit, self.now());
                let told = json!({ "limit": limit, "remaining": remaining, "reset": reset });
                resources.entry(family).or_default().insert(endpoint.to_owned(), told);
            }
        }
        let body = json!({ "rate_limit_context": { "application": "dummykey" }, "resources": resources });
        dialect.with(window, success(body.to_string()))
    }
}
