//! `GET /2/tweets/search/recent`, `GET /2/users/{id}/tweets`: pages by tokens that are bound to their parameters. Filters apply
//! after a page is cut. A search covers seven days, without the newest posts.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::dialect::{Fields, missing_user_body, refuse_parameter};
use crate::api::timelines::{DAY_MS, Slice};
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::random::mix;
use crate::render::{RenderContext, View, parse_date};
use crate::reply::success;
use crate::timeline::Network;
use engine::base::clock::{self, Millis};
use networks::model::post::TweetId;

/// A missing user.
const MISSING_USER: &str = "404";
/// A user with protected posts.
const PROTECTED: &str = "403";

#[derive(Debug, Clone, Copy)]
struct Endpoint {
    name: &'static str,
    /// Calls per window of a user and of an application.
    calls: (u32, u32),
    /// Minimum and maximum of posts per page.
    count: (u64, u64),
    token: &'static str,
    depth: Option<i64>,
    days: Option<i64>,
    /// Its parameters, beside [`PARAMETERS`].
    own: &'static [&'static str],
}

const PARAMETERS: [&str; 6] = ["max_results", "since_id", "until_id", "start_time", "end_time", "pagination_token"];

const SEARCH: Endpoint = Endpoint {
    name: "/2/tweets/search/recent",
    calls: (300, 450),
    count: (10, 100),
    token: "next_token",
    depth: None,
    days: Some(7),
    own: &["query", "next_token", "sort_order"],
};
const USER: Endpoint = Endpoint {
    name: "/2/users/:id/tweets",
    calls: (900, 10_000),
    count: (5, 100),
    token: "pagination_token",
    depth: Some(3_200),
    days: None,
    own: &["exclude"],
};

pub fn routes(router: Routes) -> Routes {
    let search = async |State(api): ApiState, call: Call| {
        let query = call.parameter("query").unwrap_or_default().to_owned();
        api.x_timeline(&SEARCH, &query, &call).await
    };
    let user =
        async |State(api): ApiState, Path(user): Path<String>, call: Call| api.x_timeline(&USER, &user, &call).await;
    router.route("/2/tweets/search/recent", get(search)).route("/2/users/{id}/tweets", get(user))
}

type BadParameter = (&'static str, &'static str);

impl Api {
    async fn x_timeline(&self, endpoint: &Endpoint, target: &str, call: &Call) -> Result<Response, Response> {
        let window = self.admit_with_limits(Dialect::XV2, call, endpoint.name, endpoint.calls).await?.window;
        self.inject_timeline_fault(Dialect::XV2, target, window).await?;
        let own: Vec<&str> = PARAMETERS.iter().chain(endpoint.own).copied().collect();
        let fields = Dialect::XV2
            .fields(call, &own)
            .map_err(|unknown| Dialect::XV2.with_window(window, refuse_parameter(&unknown)))?;
        let body = match (endpoint.days, target) {
            (Some(_), "") => Err(("query", "can not be empty")),
            (None, MISSING_USER) => Ok(missing_user_body(MISSING_USER, "resource-not-found")),
            (None, PROTECTED) => Ok(missing_user_body(PROTECTED, "not-authorized-for-resource")),
            _ => self.x_page(endpoint, target, call, fields),
        };
        let refused = |(parameter, why): BadParameter| {
            refuse_parameter(&(parameter.to_owned(), format!("The `{parameter}` query parameter {why}")))
        };
        Ok(Dialect::XV2.with_window(window, body.map_or_else(refused, success)))
    }

    fn x_page(&self, endpoint: &Endpoint, target: &str, call: &Call, fields: Fields) -> Result<String, BadParameter> {
        let number = |name| match call.parameter(name).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err((name, "is not valid")),
        };
        let now = self.now();
        let oldest = endpoint.days.map_or(0, |days| now - days * DAY_MS);
        let (since, until) = (number("since_id")?, number("until_id")?);
        for (name, id) in [("since_id", since), ("until_id", until)] {
            if id.is_some_and(|id| Network::Twitter.made_at(id) < oldest) {
                return Err((name, "must be a post id created after the oldest that can be had"));
            }
        }
        let (since, until) = narrow_ids(call, since, until, oldest, now)?;
        let count = number("max_results")?.unwrap_or(10);
        if !(endpoint.count.0..=endpoint.count.1).contains(&count) {
            return Err(("max_results", "is not between the least and the most"));
        }
        // The parameters to which a token is bound.
        let exclude = call.parameter("exclude").unwrap_or_default();
        if !exclude.split(',').all(|one| matches!(one, "" | "replies" | "retweets")) {
            return Err(("exclude", "value is not one of [replies,retweets]"));
        }
        let asked = format!("{target} {since:?} {until:?} {count} {exclude}");
        let asked = asked.bytes().fold(self.options.seed, |sum, byte| mix(sum ^ u64::from(byte)));
        let token = [endpoint.token, "pagination_token"].into_iter().find_map(|name| call.parameter(name));
        let below = match token {
            None => until.unwrap_or(u64::MAX),
            Some(token) => self.read_page_start(token, asked, now).ok_or((endpoint.token, "is not valid"))?,
        };
        let behind = if endpoint.days.is_some() { clock::millis(self.options.x_search_behind) } else { 0 };
        let slice = Slice { since: since.unwrap_or(0), below, depth: endpoint.depth, oldest, now: now - behind };
        let mut raw = self.newest_versions(target, slice, count as usize + 1);
        let is_last = raw.len() <= count as usize;
        raw.truncate(count as usize);
        let next_token = raw.last().filter(|_| !is_last).map(|least| self::write_token(now, *least, asked));
        if exclude.split(',').any(|one| one == "retweets") {
            // Filtered after the page was cut, as the real API does.
            raw.retain(|id| !self.is_retweet(*id, now));
        }
        if exclude.split(',').any(|one| one == "replies") {
            raw.retain(|id| !self.is_reply(*id, now));
        }
        let view = View { extended: true, trim_user: true, entities: false };
        let context = RenderContext { fields, ..self.render_context(now, view) };
        let posts: Vec<(u64, String)> =
            raw.iter().filter_map(|id| Some((*id, self.object(Dialect::XV2, &id.to_string(), &context)?))).collect();
        self.charge_reads(posts.iter().map(|(id, _)| id.to_string()));
        let mut meta = json!({ "result_count": posts.len() });
        if let (Some((newest, _)), Some((oldest, _))) = (posts.first(), posts.last()) {
            meta["newest_id"] = newest.to_string().into();
            meta["oldest_id"] = oldest.to_string().into();
        }
        if let Some(token) = next_token {
            meta["next_token"] = token.into();
        }
        let data: Vec<&str> = posts.iter().map(|(_, object)| object.as_str()).collect();
        let ids: Vec<String> = posts.iter().map(|(id, _)| id.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let includes = self.includes(&ids, &context).map(|of| format!("\"includes\":{of},")).unwrap_or_default();
        Ok(match data.is_empty() {
            true => format!("{{\"meta\":{meta}}}"),
            false => format!("{{\"data\":[{}],{includes}\"meta\":{meta}}}", data.join(",")),
        })
    }

    /// The newest versions of a timeline's posts whose own ids are in the slice: up to `most`, newest first.
    fn newest_versions(&self, target: &str, slice: Slice, most: usize) -> Vec<u64> {
        // An edit gives a post an id that may be an hour later.
        let reach = self.world.max_edit_delay().unsigned_abs() << 22;
        let from_earlier = Slice { since: slice.since.saturating_sub(reach), ..slice };
        let mut newest: Vec<u64> = Vec::with_capacity(most + 1);
        for id in self.ids(Network::Twitter, target, from_earlier) {
            if newest.len() == most && newest.last().is_some_and(|last| id.saturating_add(reach) < *last) {
                break;
            }
            let history =
                TweetId::parse(&id.to_string()).map(|id| self.world.history(id, slice.now)).unwrap_or_default();
            let id = history.last().map_or(id, |version| version.get());
            if id > slice.since && id < slice.below {
                newest.insert(newest.partition_point(|known| *known > id), id);
                newest.truncate(most);
            }
        }
        newest
    }

    /// Start of a token's page; `None` if the token is foreign, bound to other parameters, or expired.
    fn read_page_start(&self, token: &str, asked: u64, now: Millis) -> Option<u64> {
        let part = |n| u64::from_str_radix(token.split('-').nth(n)?, 16).ok();
        let (issued, below, given_for) = (part(0)?, part(1)?, part(2)?);
        let age = now - Millis::try_from(issued).ok()?;
        (given_for == asked && age < clock::millis(self.options.x_tokens_last)).then_some(below)
    }
}

/// Narrows the ids of a page to `start_time` (inclusive) and `end_time` (exclusive).
fn narrow_ids(
    call: &Call,
    since: Option<u64>,
    until: Option<u64>,
    oldest: Millis,
    now: Millis,
) -> Result<(Option<u64>, Option<u64>), BadParameter> {
    let read = |name| {
        call.parameter(name)
            .map(|text| parse_date(text).ok_or((name, "value is not a valid RFC 3339 date")))
            .transpose()
    };
    let (start, end) = (read("start_time")?, read("end_time")?);
    if start.is_some_and(|start| start < oldest || start > now) {
        return Err(("start_time", "must be after the oldest post that can be had, and not in the future"));
    }
    if end.is_some_and(|end| end > now - YOUNGEST_END || start.is_some_and(|start| start >= end)) {
        return Err(("end_time", "must be 10 seconds in the past or more, and after 'start_time'"));
    }
    let id = |at: Millis| TweetId::at(at, 0).get();
    let since = since.max(start.map(|start| id(start).saturating_sub(1)));
    let until = [until, end.map(id)].into_iter().flatten().min();
    Ok((since, until))
}

/// Minimum age of `end_time`, ms.
const YOUNGEST_END: Millis = 10_000;

fn write_token(now: Millis, below: u64, asked: u64) -> String {
    format!("{now:x}-{below:x}-{asked:x}")
}
