//! `search/tweets`, `statuses/user_timeline`, `lists/statuses`, `statuses/home_timeline`: the count is applied first, and
//! what is gone is left out afterwards.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;

use super::{DAY_MS, Network, Slice};
use crate::clock;
use crate::simulator::api::Api;
use crate::simulator::call::Call;
use crate::simulator::dialect::Dialect;
use crate::simulator::gate::{Caller, Pool};
use crate::simulator::render::View;
use crate::simulator::reply::{success, twitter_refusal};
use crate::simulator::windows::Limit;

/// A user that is not there,
const NOBODY: &str = "nobody";
/// and one whose posts are not for everybody.
const PROTECTED: &str = "protected";

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
        let slice = Slice {
            since: number("since_id").unwrap_or(0),
            below: number("max_id").map_or(u64::MAX, |id| id.saturating_add(1)),
            depth: endpoint.depth,
            oldest: endpoint.days.map_or(0, |days| now - days * DAY_MS),
            now,
        };
        let count = number("count").map_or(20, |count| count as usize).clamp(1, endpoint.count);
        let view = View {
            extended: call.parameter("tweet_mode") == Some("extended"),
            trim_user: false,
            entities: call.parameter("include_entities") != Some("false"),
        };
        let shown = self.shown(now, view);
        let mut raw: Vec<u64> = self.ids(Network::Twitter, target, slice).take(count).collect();
        raw.sort_unstable_by(|a, b| b.cmp(a));
        raw.iter().filter_map(|id| self.object(Dialect::TwitterV1, &id.to_string(), &shown)).collect()
    }
}
