//! The common part of all endpoints.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::MethodRouter;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::connections::Streams;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::faults::{Endpoint, Fault, FaultDraw, Faults};
use crate::gate::{Caller, Gate};
use crate::options::SimulatorOptions;
use crate::render::{self, RenderContext, View};
use crate::reply::success;
use crate::twitter_v1::replay::Replay;
use crate::windows::{Limit, Pool, Window, Windows};
use crate::world::{Version, World};
use crate::x_v2::dialect as x_v2;
use crate::x_v2::dialect::Fields;
use engine::base::clock::{self, Millis};

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
    pub(super) requests: AtomicU64,
    pub exchanges: AtomicU64,
    ids: AtomicU64,
    throttled: AtomicU64,
    faulted: AtomicU64,
    lookups: Mutex<HashMap<String, u64>>,
    /// Posts of X that were returned, with the UTC day: X charges each once per day.
    charged: Mutex<HashSet<(String, Millis)>>,
    /// Cached responses of Mastodon, by request: expiry (ms since the epoch) and ids.
    pub cached_statuses: Mutex<HashMap<String, (Millis, Vec<u64>)>>,
    pub stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Lookups, failed ones included.
    pub requests: u64,
    /// Calls of `oauth2/token`, failed ones included.
    pub exchanges: u64,
    /// Ids in calls that were answered with posts, even broken or missing ones.
    pub ids: u64,
    pub throttled: u64,
    pub faulted: u64,
    /// Posts that X charges for: returned posts, each once per UTC day.
    pub charged: u64,
}

pub type Routes = Router<Arc<Api>>;
pub type ApiState = State<Arc<Api>>;

/// A Mastodon address, which also works with a slash at its end.
pub(crate) fn with_slash(router: Routes, path: &str, methods: MethodRouter<Arc<Api>>) -> Routes {
    router.route(path, methods.clone()).route(&format!("{path}/"), methods)
}

pub(crate) struct AdmittedCall {
    pub caller: Caller,
    pub window: Option<Window>,
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
            cached_statuses: Mutex::default(),
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

    /// Admits a call and takes it from its window; `Err` is the error response. `limit` gives the limit for the caller's pool.
    #[expect(clippy::result_large_err, reason = "a refusal is sent at once")]
    pub(crate) fn admit_call(
        &self,
        dialect: Dialect,
        call: &Call,
        endpoint: &'static str,
        limit: impl FnOnce(Pool) -> Limit,
    ) -> Result<AdmittedCall, Response> {
        let caller = self.gate.admit(call, self.now()).map_err(|(status, code)| dialect.refusal(status, code))?;
        match self.take_call(&caller.name, endpoint, limit(caller.pool)) {
            Ok(window) => Ok(AdmittedCall { caller, window }),
            Err(window) => {
                self.throttled.fetch_add(1, Ordering::Relaxed);
                Err(dialect.with_window(Some(window), dialect.refusal(429, 88)))
            }
        }
    }

    /// Waits for the usual latency, then admits a call of a provider with one window for all calls.
    pub(crate) async fn admit_after_latency(&self, dialect: Dialect, call: &Call) -> Result<AdmittedCall, Response> {
        self.pause(self.options.latency).await;
        self.admit_call(dialect, call, dialect.endpoint(), |pool| dialect.limit(&self.options, pool))
    }

    /// Waits for the usual latency, then admits a call to an endpoint with its own limits. `calls`: limits of a user and of an
    /// application, per window.
    pub(crate) async fn admit_with_limits(
        &self,
        dialect: Dialect,
        call: &Call,
        endpoint: &'static str,
        calls: (u32, u32),
    ) -> Result<AdmittedCall, Response> {
        self.pause(self.options.latency).await;
        self.admit_call(dialect, call, endpoint, |pool| dialect.limit_of(&self.options, pool, calls))
    }

    /// Waits for the delay that the rules inject, and returns their fault for this call, if any.
    pub(crate) async fn draw_fault(&self, at: Endpoint, ids: &[&str]) -> Option<Fault> {
        let FaultDraw { delay, fault } = self.faults.draw(self.options.seed, at, ids);
        self.pause(delay).await;
        self.faulted.fetch_add(u64::from(fault.is_some()), Ordering::Relaxed);
        fault
    }

    pub fn charge_reads(&self, ids: impl Iterator<Item = String>) {
        let day = self.now().div_euclid(clock::millis(Duration::from_secs(86_400)));
        self.charged.lock().unwrap_or_else(PoisonError::into_inner).extend(ids.map(|id| (id, day)));
    }

    /// Counts lookups of single ids, if `count_ids` is on.
    pub(super) fn count_lookups(&self, ids: &[&str]) {
        if self.options.count_ids {
            let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
            for id in ids {
                *lookups.entry((*id).to_owned()).or_default() += 1;
            }
        }
    }

    pub(super) fn respond(&self, dialect: Dialect, ids: &[&str], window: Option<Window>, body: String) -> Response {
        self.ids.fetch_add(ids.len() as u64, Ordering::Relaxed);
        self.count_lookups(ids);
        dialect.with_window(window, success(body))
    }

    /// JSON of `includes` for these posts; `None` if the call requests no expansions, or posts are replayed.
    pub fn includes(&self, ids: &[&str], context: &RenderContext<'_>) -> Option<String> {
        if !context.fields.has_expansions() || self.replay.is_some() {
            return None;
        }
        let version = |id: &&str| self.world.version(Dialect::XV2.tweet_id(id)?, context.now);
        let versions: Vec<Version> = ids.iter().filter_map(version).collect();
        x_v2::includes(context, &versions)
    }

    pub(crate) fn render_context(&self, now: Millis, view: View) -> RenderContext<'_> {
        RenderContext { world: &self.world, now, padding: &self.padding, view, fields: Fields::default() }
    }

    pub fn object(&self, dialect: Dialect, id: &str, context: &RenderContext<'_>) -> Option<String> {
        match &self.replay {
            Some(replay) if dialect == Dialect::TwitterV1 => replay.get(id).map(str::to_owned),
            // Only v1.1 posts are recorded.
            Some(_) => None,
            None => dialect.object(id, context),
        }
    }

    /// Counts a call. Returns the window, or `None` without a limit. `Err`: the window has no call left.
    pub(crate) fn take_call(&self, who: &str, endpoint: &'static str, limit: Limit) -> Result<Option<Window>, Window> {
        if limit.calls == 0 {
            return Ok(None);
        }
        self.windows.take_call(who, endpoint, limit, self.now()).map(Some)
    }
}
