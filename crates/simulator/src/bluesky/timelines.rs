//! `GET /xrpc/app.bsky.feed.getAuthorFeed`, `/xrpc/app.bsky.feed.searchPosts`: a page is cut first, then missing posts are left
//! out, so a page may be empty. An author feed's cursor is a time. A search's cursor is a count of posts, and needs a token.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::dialect::{bluesky_uri, invalid_request};
use crate::api::timelines::Slice;
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::people::HANDLE_DOMAIN;
use crate::render::{View, iso, parse_date};
use crate::reply::success;
use crate::timeline::Network;
use engine::base::clock::Millis;
use networks::model::post::TweetId;

/// Start of the handle, and end of the DID, of a missing actor.
const MISSING_ACTOR: &str = "missing";
const MEMBERS_ONLY: &str = "members";

/// Largest search cursor, in posts.
const DEEPEST: usize = 10_000;

type ErrorText = String;

pub fn routes(router: Routes) -> Routes {
    let author = async |State(api): ApiState, call: Call| api.bluesky_page(&call, Api::author_feed).await;
    let search = async |State(api): ApiState, call: Call| api.bluesky_page(&call, Api::search_posts).await;
    router.route("/xrpc/app.bsky.feed.getAuthorFeed", get(author)).route("/xrpc/app.bsky.feed.searchPosts", get(search))
}

impl Api {
    async fn bluesky_page(
        &self,
        call: &Call,
        page: fn(&Self, &Call) -> Result<String, ErrorText>,
    ) -> Result<Response, Response> {
        let dialect = Dialect::Bluesky;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let target = call.parameter("actor").or_else(|| call.parameter("q")).unwrap_or_default();
        self.inject_timeline_fault(dialect, target, window).await?;
        let is_members_only = call.parameter("q").is_some_and(|query| query == MEMBERS_ONLY);
        if call.authorization.is_none() && call.parameter("q").is_some() {
            // The server in front of the API decides this, and knows no lexicon.
            if is_members_only || call.parameter("cursor").is_some() {
                let page = "<html><body><h1>403 Forbidden</h1>Request forbidden by administrative rules.</body></html>";
                return Err((StatusCode::FORBIDDEN, Html(page)).into_response());
            }
        }
        let response = page(self, call).map_or_else(|why| invalid_request(&why), success);
        Ok(dialect.with_window(window, response))
    }

    fn author_feed(&self, call: &Call) -> Result<String, ErrorText> {
        let actor = require_parameter(call, "actor")?;
        let name = actor.strip_prefix("did:plc:").or_else(|| actor.split_once('.').map(|(name, _)| name));
        let name = name.ok_or("Error: actor must be a valid did or a handle")?;
        let count = parse_limit(call, 50)?;
        if name == MISSING_ACTOR {
            return Err("Profile not found".to_owned());
        }
        let cursor = call.parameter("cursor");
        if cursor.is_some_and(|cursor| cursor.contains("::")) {
            return Ok(json!({ "feed": [] }).to_string()); // cursor of an older server
        }
        let below = cursor.map(|cursor| parse_date(cursor).ok_or("Malformed cursor")).transpose()?;
        let target = format!("@{}", actor.strip_suffix(HANDLE_DOMAIN).unwrap_or(actor));
        if self.is_free_handle(&target, self.now()) {
            return Err("Profile not found".to_owned());
        }
        let ids: Vec<u64> = self.ids(Network::Twitter, &target, self.build_slice(None, below)).take(count).collect();
        let feed: Vec<String> = self.views(&ids).map(|view| format!("{{\"post\":{view}}}")).collect();
        Ok(page_body("feed", &feed, ids.last().map(|least| iso(Network::Twitter.made_at(*least)))))
    }

    fn search_posts(&self, call: &Call) -> Result<String, ErrorText> {
        let query = require_parameter(call, "q")?;
        let count = parse_limit(call, 25)?;
        let date = |name: &str| match call.parameter(name) {
            None => Ok(None),
            Some(text) => match parse_date(text).or_else(|| parse_date(&format!("{text}T00:00:00Z"))) {
                Some(at) => Ok(Some(at)),
                None => Err(format!("Error: {name} must be a datetime or a date")),
            },
        };
        let slice = self.build_slice(date("since")?, date("until")?);
        let cursor = call.parameter("cursor").map(|cursor| cursor.parse::<usize>().map_err(|_| "Malformed cursor"));
        let passed = cursor.transpose()?.unwrap_or(0);
        let mut ids: Vec<u64> = self.ids(Network::Twitter, query, slice).skip(passed).take(count + 1).collect();
        let goes_on = ids.len() > count && passed + count < DEEPEST;
        ids.truncate(count);
        let posts: Vec<String> = self.views(&ids).collect();
        Ok(page_body("posts", &posts, goes_on.then(|| (passed + count).to_string())))
    }

    /// Posts from `since` on and before `until`, ms since the epoch.
    fn build_slice(&self, since: Option<Millis>, until: Option<Millis>) -> Slice {
        let first = |at: Millis| TweetId::at(at, 0).get();
        Slice {
            since: since.map_or(0, |at| first(at).saturating_sub(1)),
            below: until.map_or(u64::MAX, first),
            depth: None,
            oldest: 0,
            now: self.now(),
        }
    }

    fn views(&self, ids: &[u64]) -> impl Iterator<Item = String> {
        let view = View { extended: true, trim_user: false, entities: false };
        let context = self.render_context(self.now(), view);
        ids.iter().filter_map(move |id| self.object(Dialect::Bluesky, &uri(*id), &context))
    }
}

pub fn uri(id: u64) -> String {
    bluesky_uri(Network::Twitter.made_at(id), (id & 0x3f_ffff) as u32)
}

fn require_parameter<'a>(call: &'a Call, name: &str) -> Result<&'a str, ErrorText> {
    let text = call.parameter(name).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("Error: Params must have the property \"{name}\""))
}

fn parse_limit(call: &Call, usual: usize) -> Result<usize, ErrorText> {
    let number = |text: &str| text.parse::<i64>().map_err(|_| "Error: limit must be an integer");
    match call.parameter("limit").map(number).transpose()? {
        None => Ok(usual),
        Some(..1) => Err("Error: limit can not be less than 1".to_owned()),
        Some(limit @ 1..=100) => Ok(limit as usize),
        Some(_) => Err("Error: limit can not be greater than 100".to_owned()),
    }
}

fn page_body(name: &str, objects: &[String], cursor: Option<String>) -> String {
    let cursor = cursor.map(|cursor| format!(",\"cursor\":\"{cursor}\"")).unwrap_or_default();
    format!("{{\"{name}\":[{}]{cursor}}}", objects.join(","))
}
