//! Simulated timelines: `search/tweets`, `statuses/user_timeline`, `lists/statuses`, `statuses/home_timeline`.
//!
//! A timeline has its posts at an even pace, from always until always, each a while after its id says that it was made: ids
//! become visible out of order. What a timeline holds depends on the seed and on what it is of. As with Twitter, the count
//! is applied first, and what is gone is left out afterwards.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;

use super::super::Running;
use super::super::call::Call;
use super::super::dialect::{Dialect, Shown};
use super::super::gate::{Caller, Pool};
use super::super::render::View;
use super::super::reply::{success, twitter_refusal};
use super::super::windows::Limit;
use super::super::world::{mix, unit};
use super::Api;
use crate::clock::{self, Millis};
use crate::tweet::{SNOWFLAKE_EPOCH_MS, TweetId};

/// A user that is not there,
const NOBODY: &str = "nobody";
/// and one whose posts are not for everybody.
const PROTECTED: &str = "protected";

const DAY_MS: Millis = 86_400_000;

/// An endpoint's limits.
#[derive(Debug, Clone, Copy)]
struct Endpoint {
    path: &'static str,
    /// Calls per window of a user and of an application.
    calls: (u32, u32),
    /// Posts in a page, at the most.
    count: usize,
    /// Only so many of the newest, and only those of so many days.
    depth: Option<i64>,
    days: Option<i64>,
    /// The parameter that says what it is a timeline of.
    of: Option<&'static str>,
}

const ENDPOINTS: [Endpoint; 4] = [
    Endpoint { path: "/search/tweets", calls: (180, 450), count: 100, depth: None, days: Some(7), of: Some("q") },
    Endpoint {
        path: "/statuses/user_timeline",
        calls: (900, 1_500),
        count: 200,
        depth: Some(3_200),
        days: None,
        of: Some("screen_name"),
    },
    Endpoint { path: "/lists/statuses", calls: (900, 900), count: 200, depth: None, days: None, of: Some("list_id") },
    Endpoint { path: "/statuses/home_timeline", calls: (15, 0), count: 200, depth: Some(800), days: None, of: None },
];

/// A post of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelinePost {
    /// Its id, which says when it was made.
    pub id: TweetId,
    /// When it is first seen, ms since the epoch.
    pub visible_at: Millis,
}

/// The addresses.
pub fn routes(mut router: Router<Arc<Api>>) -> Router<Arc<Api>> {
    for endpoint in ENDPOINTS {
        let answer = async move |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
            Ok(call) => api.timeline(&endpoint, &call).await,
            Err(refused) => refused,
        };
        router = router.route(&format!("/1.1{}.json", endpoint.path), get(answer));
    }
    router
}

impl Api {
    async fn timeline(&self, endpoint: &Endpoint, call: &Call) -> Response {
        self.pause(self.options.latency).await;
        let Caller { name, pool } = match self.gate.admit(call, self.now()) {
            Ok(caller) => caller,
            Err((status, code)) => return twitter_refusal(status, code),
        };
        let calls = match pool {
            Pool::Users => endpoint.calls.0,
            Pool::Applications if endpoint.calls.1 == 0 => return twitter_refusal(403, 220),
            Pool::Applications => endpoint.calls.1,
        };
        let calls = if self.options.calls_per_window > 0 { calls } else { 0 };
        let limit = Limit { calls, length: clock::millis(self.options.window), aligned: false };
        let window = match self.take(&name, endpoint.path, limit) {
            Ok(window) => window,
            Err(window) => return Dialect::TwitterV1.with(Some(window), twitter_refusal(429, 88)),
        };
        let target = match endpoint.of.map(|parameter| call.parameter(parameter).unwrap_or_default()) {
            Some("") => return Dialect::TwitterV1.with(window, twitter_refusal(403, 38)),
            Some(NOBODY) => return Dialect::TwitterV1.with(window, twitter_refusal(404, 34)),
            Some(PROTECTED) => {
                let mut response = success(r#"{"request":"","error":"Not authorized."}"#.to_owned());
                *response.status_mut() = axum::http::StatusCode::UNAUTHORIZED;
                return Dialect::TwitterV1.with(window, response);
            }
            Some(target) => target,
            None => &name,
        };
        let objects = self.page(endpoint, target, call);
        let list = format!("[{}]", objects.join(","));
        let body =
            if endpoint.of == Some("q") { format!("{{\"statuses\":{list},\"search_metadata\":{{}}}}") } else { list };
        Dialect::TwitterV1.with(window, success(body))
    }

    /// The objects of a page, newest first.
    fn page(&self, endpoint: &Endpoint, target: &str, call: &Call) -> Vec<String> {
        let number = |name| call.parameter(name).and_then(|text| text.parse::<u64>().ok());
        let now = self.now();
        let since = number("since_id").unwrap_or(0);
        let below = number("max_id").map_or(u64::MAX, |id| id.saturating_add(1));
        let count = number("count").map_or(20, |count| count as usize).clamp(1, endpoint.count);
        let since_ms = made_at(since);
        let newest = self.slot(now);
        let first = endpoint.depth.map_or(0, |depth| newest - depth);
        let oldest = endpoint.days.map_or(0, |days| now - days * DAY_MS);
        let mut slot = newest.min(self.slot(made_at(below))) + 1;
        let mut raw = Vec::new();
        while raw.len() < count && slot > first {
            slot -= 1;
            let post = self.post(target, slot);
            let id = post.id.get();
            let made = self.made(target, slot);
            if made < since_ms || made < oldest {
                break;
            }
            if id > since && id < below && post.visible_at <= now {
                raw.push(post.id);
            }
        }
        raw.sort_unstable_by(|a, b| b.cmp(a));
        let view = View {
            extended: call.parameter("tweet_mode") == Some("extended"),
            trim_user: false,
            entities: call.parameter("include_entities") != Some("false"),
        };
        let shown = Shown { world: &self.world, now, padding: &self.padding, view };
        raw.iter().filter_map(|id| self.object(Dialect::TwitterV1, &id.to_string(), &shown)).collect()
    }

    fn pace_ms(&self) -> f64 {
        1_000.0 / self.options.posts_per_second.clamp(0.001, 500.0)
    }

    fn slot(&self, at: Millis) -> i64 {
        (at as f64 / self.pace_ms()) as i64
    }

    fn dice(&self, target: &str, slot: i64, of: u64) -> u64 {
        let target = target.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        mix(mix(self.options.seed ^ target ^ of.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ slot.unsigned_abs())
    }

    /// When the post of a slot was made, ms since the epoch: somewhere in the slot.
    fn made(&self, target: &str, slot: i64) -> Millis {
        ((slot as f64 + unit(self.dice(target, slot, 1))) * self.pace_ms()) as Millis
    }

    fn post(&self, target: &str, slot: i64) -> TimelinePost {
        let made = self.made(target, slot);
        let late = clock::millis(self.options.posts_late) as f64 * unit(self.dice(target, slot, 2));
        TimelinePost {
            id: TweetId::at(made, (self.dice(target, slot, 3) & 0x3f_ffff) as u32),
            visible_at: made + late as Millis,
        }
    }
}

impl Running {
    /// The posts of a timeline that were made in a span of time (ms since the epoch) and are not deleted: what a
    /// poller has to have had. `target` is the query, the user, the list; of a home timeline, the caller.
    #[must_use]
    pub fn timeline(&self, target: &str, from: Millis, to: Millis) -> Vec<TimelinePost> {
        let api = &self.api;
        let slots = api.slot(from)..=api.slot(to);
        let posts = slots.map(|slot| api.post(target, slot));
        posts
            .filter(|post| post.id.created_at().is_some_and(|made| (from..to).contains(&made)))
            .filter(|post| api.world.tweet(post.id, Millis::MAX / 2).is_some())
            .collect()
    }
}

/// When a Snowflake id was made, ms since the epoch.
fn made_at(id: u64) -> Millis {
    (id >> 22) as Millis + SNOWFLAKE_EPOCH_MS
}
