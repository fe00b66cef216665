//! `search/tweets`, `statuses/user_timeline`, `lists/statuses`, `statuses/home_timeline`: the count is applied first, then
//! missing posts are left out.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::dialect::refusal;
use super::relations;
use crate::api::timelines::{DAY_MS, Slice};
use crate::api::{AdmittedCall, Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::gate::Rejection;
use crate::options::SimulatorOptions;
use crate::render::{View, parse_date};
use crate::reply::success;
use crate::timeline::Network;
use crate::windows::{Limit, Pool};
use networks::model::post::TweetId;

/// A missing user, by handle and by id.
const MISSING_USER: [&str; 2] = ["@missing", "404"];
/// A user with protected posts.
const PROTECTED: [&str; 2] = ["@protected", "403"];

#[derive(Debug, Clone, Copy)]
struct Endpoint {
    path: &'static str,
    /// Calls per window of a user and of an application.
    calls: (u32, u32),
    /// Limit of posts per page.
    count: usize,
    /// Limits of the newest posts, and of their age in days.
    depth: Option<i64>,
    days: Option<i64>,
    target: TargetKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    /// `q`.
    Query,
    /// `screen_name` or `user_id`.
    User,
    /// `list_id`, or `slug` with its owner.
    List,
    Caller,
}

const ENDPOINTS: [Endpoint; 4] = [
    Endpoint {
        path: "/search/tweets",
        calls: (180, 450),
        count: 100,
        depth: None,
        days: Some(7),
        target: TargetKind::Query,
    },
    Endpoint {
        path: "/statuses/user_timeline",
        calls: (900, 1_500),
        count: 200,
        depth: Some(3_200),
        days: None,
        target: TargetKind::User,
    },
    Endpoint {
        path: "/lists/statuses",
        calls: (900, 900),
        count: 200,
        depth: None,
        days: None,
        target: TargetKind::List,
    },
    Endpoint {
        path: "/statuses/home_timeline",
        calls: (15, 0),
        count: 200,
        depth: Some(800),
        days: None,
        target: TargetKind::Caller,
    },
];

pub fn limits(options: &SimulatorOptions, pool: Pool) -> impl Iterator<Item = (&'static str, Limit)> {
    let is_there = move |endpoint: &&Endpoint| pool == Pool::Users || endpoint.calls.1 > 0;
    let limit = move |endpoint: &Endpoint| (endpoint.path, Dialect::TwitterV1.limit_of(options, pool, endpoint.calls));
    let lists = relations::PATHS
        .into_iter()
        .map(move |path| (path, Dialect::TwitterV1.limit_of(options, pool, (relations::CALLS, relations::CALLS))));
    ENDPOINTS.iter().filter(is_there).map(limit).chain(lists)
}

pub fn routes(mut router: Routes) -> Routes {
    for endpoint in ENDPOINTS {
        let answer = async move |State(api): ApiState, call: Call| api.timeline(&endpoint, &call).await;
        router = router.route(&format!("/1.1{}.json", endpoint.path), get(answer));
    }
    router
}

impl Api {
    async fn timeline(&self, endpoint: &Endpoint, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::TwitterV1;
        let AdmittedCall { caller, window } =
            self.admit_with_limits(dialect, call, endpoint.path, endpoint.calls).await?;
        if caller.pool == Pool::Applications && endpoint.calls.1 == 0 {
            return Err(refusal(403, 220));
        }
        let target = match read_target(endpoint.target, call) {
            Err((status, code)) => return Err(dialect.with_window(window, refusal(status, code))),
            Ok(Some(target)) if MISSING_USER.contains(&target.as_str()) || self.is_missing(endpoint, &target) => {
                return Err(dialect.with_window(window, refusal(404, 34)));
            }
            Ok(Some(target)) if PROTECTED.contains(&target.as_str()) => {
                let body = r#"{"request":"","error":"Not authorized."}"#.to_owned();
                return Err(dialect.with_window(window, (StatusCode::UNAUTHORIZED, success(body)).into_response()));
            }
            Ok(Some(target)) => target,
            Ok(None) => caller.name,
        };
        self.inject_timeline_fault(dialect, &target, window).await?;
        let (ids, objects) = self.page(endpoint, &target, call);
        let list = format!("[{}]", objects.join(","));
        let body = match endpoint.target {
            TargetKind::Query => format!("{{\"statuses\":{list},\"search_metadata\":{}}}", metadata(call, &ids)),
            _ => list,
        };
        Ok(dialect.with_window(window, success(body)))
    }

    fn is_missing(&self, endpoint: &Endpoint, target: &str) -> bool {
        endpoint.target == TargetKind::User && self.is_free_handle(target, self.now())
    }

    /// The ids of a page, newest first, and the objects of the posts that still exist.
    fn page(&self, endpoint: &Endpoint, target: &str, call: &Call) -> (Vec<u64>, Vec<String>) {
        let now = self.now();
        let mut slice = Slice {
            since: call.number("since_id").unwrap_or(0),
            below: call.number("max_id").map_or(u64::MAX, |id| id.saturating_add(1)),
            depth: endpoint.depth,
            oldest: endpoint.days.map_or(0, |days| now - days * DAY_MS),
            now,
        };
        if endpoint.target == TargetKind::Query {
            let word = |name: &str| target.split(' ').find_map(|word| word.strip_prefix(name));
            let day = |text: &str| parse_date(&format!("{text}T00:00:00Z"));
            let until = call.parameter("until").or_else(|| word("until:")).and_then(day);
            slice.below = slice.below.min(until.map_or(u64::MAX, |until| TweetId::at(until, 0).get()));
            slice.oldest = slice.oldest.max(word("since:").and_then(day).unwrap_or(0));
        }
        // The days are not part of the search text.
        let is_a_day = |word: &&str| {
            endpoint.target == TargetKind::Query && (word.starts_with("until:") || word.starts_with("since:"))
        };
        let words: Vec<&str> = target.split(' ').filter(|word| !is_a_day(word)).collect();
        let count = call.number("count").map_or(20, |count| count as usize).clamp(1, endpoint.count);
        let context = self.render_context(now, View::from_call(call));
        let mut ids: Vec<u64> = self.ids(Network::Twitter, &words.join(" "), slice).take(count).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let is_shown = |id: &u64| {
            (call.flag("include_rts") != Some(false) || !self.is_retweet(*id, now))
                && (call.flag("exclude_replies") != Some(true) || !self.is_reply(*id, now))
        };
        let there = ids.iter().filter(|id| is_shown(id));
        let objects = there.filter_map(|id| self.object(Dialect::TwitterV1, &id.to_string(), &context)).collect();
        (ids, objects)
    }
}

/// The target of a timeline; `None` for the caller's own.
fn read_target(target: TargetKind, call: &Call) -> Result<Option<String>, Rejection> {
    let given = |name| call.parameter(name).filter(|text| !text.is_empty());
    let handle = |name| given(name).map(|handle| format!("@{}", handle.trim_start_matches('@')));
    match target {
        TargetKind::Query => given("q").map(|query| Some(query.to_owned())).ok_or((403, 38)),
        TargetKind::User => {
            let user = given("user_id").map(str::to_owned).or_else(|| handle("screen_name"));
            user.map(Some).ok_or((403, 38))
        }
        TargetKind::List => {
            let owner = || given("owner_id").map(str::to_owned).or_else(|| handle("owner_screen_name"));
            let by_slug = || Some(format!("list {}/{}", owner()?, given("slug")?));
            let list = given("list_id").map(|id| format!("list {id}")).or_else(by_slug);
            match owner().filter(|owner| MISSING_USER.contains(&owner.as_str())) {
                Some(_) => Err((404, 34)),
                None => list.map(Some).ok_or((400, 112)),
            }
        }
        TargetKind::Caller => Ok(None),
    }
}

fn metadata(call: &Call, ids: &[u64]) -> String {
    let query = call.parameter("q").unwrap_or_default();
    let encoded = percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC).to_string();
    let newest = ids.first().copied().unwrap_or_default();
    let mut metadata = json!({
        "completed_in": 0.01,
        "max_id": newest,
        "max_id_str": newest.to_string(),
        "query": encoded,
        "refresh_url": format!("?since_id={newest}&q={encoded}&include_entities=1"),
        "count": call.number("count").unwrap_or(15).min(100),
        "since_id": call.number("since_id").unwrap_or(0),
        "since_id_str": call.number("since_id").unwrap_or(0).to_string(),
    });
    if let Some(oldest) = ids.last() {
        metadata["next_results"] = format!("?max_id={}&q={encoded}&include_entities=1", oldest - 1).into();
    }
    metadata.to_string()
}
