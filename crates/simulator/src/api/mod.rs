//! The simulated endpoints.

pub mod accounts;
mod connections;
mod last;
pub mod relations;
mod shared;
mod streams;
pub mod timelines;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::json;

pub use self::connections::StreamCounts;
pub(crate) use self::shared::{AdmittedCall, with_slash};
pub use self::shared::{Api, ApiState, Counters, Routes};
use super::call::Call;
use super::dialect::Dialect;
use super::faults::{Endpoint, Rule};
use super::gate::Standing;
use super::random::{mix, to_unit};
use super::render::{RenderContext, View};
use super::reply::{Found, success};
use super::windows::Limit;
use super::world::Salt;
use super::x_v2::dialect::{Fields, refuse_parameter};
use super::{bluesky, faulty, mastodon, twitter_v1, x_v2};
use engine::base::clock;

pub fn router(api: Arc<Api>) -> Router {
    let lookup = |dialect: Dialect| async move |State(api): ApiState, call: Call| api.lookup(dialect, &call).await;
    let check = |dialect: Dialect| async move |State(api): ApiState, call: Call| api.check(dialect, &call);
    let rules = async |State(api): ApiState| Json(api.faults.rules());
    let set_rules = async |State(api): ApiState, Json(rules): Json<Vec<Rule>>| {
        api.faults.replace(rules);
        StatusCode::NO_CONTENT
    };
    let no_rules = async |State(api): ApiState| {
        api.faults.clear();
        StatusCode::NO_CONTENT
    };
    let standings = async |State(api): ApiState| Json(api.gate.standings());
    let stand = async |State(api): ApiState, Path(name): Path<String>, Json(standing): Json<Standing>| {
        if api.gate.set(&name, standing) { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
    };
    let stats = async |State(api): ApiState| Json(api.counters());
    let router = Router::new()
        .route("/1.1/statuses/lookup.json", get(lookup(Dialect::TwitterV1)).post(lookup(Dialect::TwitterV1)))
        .route("/2/tweets", get(lookup(Dialect::XV2)))
        .route("/2/usage/tweets", get(check(Dialect::XV2)))
        .route("/2/tweets/{id}", get(lookup(Dialect::XPost)))
        .route("/xrpc/app.bsky.feed.getPosts", get(lookup(Dialect::Bluesky)))
        .route("/xrpc/com.atproto.server.getSession", get(check(Dialect::Bluesky)))
        .route("/xrpc/com.atproto.server.createSession", post(async || bluesky::dialect::wrong_password()))
        .route("/xrpc/_health", get(async || Json(json!({ "version": "simulated" }))))
        .route("/simulator/credentials", get(standings))
        .route("/simulator/credentials/{name}", put(stand))
        .route("/simulator/faults", get(rules).put(set_rules).delete(no_rules))
        .route("/simulator/stats", get(stats))
        .fallback(last::answer_unknown_address)
        .method_not_allowed_fallback(last::answer_wrong_method);
    let router = with_slash(router, "/api/v1/statuses", get(lookup(Dialect::Mastodon)));
    let router = with_slash(router, "/api/v1/statuses/{id}", get(lookup(Dialect::MastodonStatus)));
    let mut router = with_slash(router, "/api/v1/apps/verify_credentials", get(check(Dialect::Mastodon)));
    for routes in [
        streams::routes,
        twitter_v1::application::routes,
        twitter_v1::single::routes,
        twitter_v1::timelines::routes,
        twitter_v1::relations::routes,
        twitter_v1::users::routes,
        x_v2::timelines::routes,
        x_v2::relations::routes,
        x_v2::users::routes,
        mastodon::accounts::routes,
        mastodon::relations::routes,
        mastodon::timelines::routes,
        bluesky::accounts::routes,
        bluesky::relations::routes,
        bluesky::timelines::routes,
    ] {
        router = routes(router);
    }
    router.layer(from_fn_with_state(api.clone(), last::finish)).with_state(api)
}

impl Api {
    async fn lookup(self: Arc<Self>, dialect: Dialect, call: &Call) -> Result<Response, Response> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let jitter = self.options.jitter.mul_f64(to_unit(mix(mix(self.options.seed) ^ number)));
        self.pause(self.options.latency + jitter).await;
        let limit = |pool| dialect.limit(&self.options, pool);
        let AdmittedCall { window, .. } = self.admit_call(dialect, call, dialect.endpoint(), limit)?;
        if dialect == Dialect::Mastodon && !self.has_batches() {
            return Err(dialect.with_window(window, dialect.refusal(404, 34)));
        }
        let refused = |(status, code)| dialect.with_window(window, dialect.refusal(status, code));
        let ids = dialect.parse_ids(call).map_err(refused)?;
        let own: &[&str] = if dialect == Dialect::XV2 { &["ids"] } else { &[] };
        let fields =
            dialect.fields(call, own).map_err(|unknown| dialect.with_window(window, refuse_parameter(&unknown)))?;
        // The charge covers the computed posts, even if the response does not arrive.
        let found = || self.charge(dialect, self.find(dialect, &ids, call, &fields));
        let body = match self.draw_fault(Endpoint::Lookup, &ids).await {
            None => dialect.write_body(&found()),
            Some(fault) => {
                let body = || dialect.write_body(&found());
                match faulty::faulty_response(&self, dialect, &fault, window, body).await {
                    Some(response) => return Ok(response),
                    None => faulty::spoil_posts(dialect, &fault, found()),
                }
            }
        };
        if body.is_empty() {
            return Err(dialect.with_window(window, dialect.refusal(404, 34)));
        }
        Ok(self.respond(dialect, &ids, window, body))
    }

    fn charge<'a>(&self, dialect: Dialect, found: Found<'a>) -> Found<'a> {
        if dialect.is_x() {
            let returned = found.ids.iter().zip(&found.objects).filter(|(_, object)| object.is_some());
            self.charge_reads(returned.map(|(id, _)| (*id).to_owned()));
        }
        found
    }

    /// Returns true if the simulated instance knows `GET /api/v1/statuses` and `/api/v1/accounts`, which came with 4.3.
    pub(crate) fn has_batches(&self) -> bool {
        self.is_mastodon_since(4, 3)
    }

    pub(crate) fn is_mastodon_since(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.options.mastodon_version.split('.').map_while(|part| part.parse::<u32>().ok());
        (parts.next(), parts.next()) >= (Some(major), Some(minor))
    }

    /// A call for the caller's own identity, without posts. A Mastodon instance counts it with the others.
    fn check(&self, dialect: Dialect, call: &Call) -> Response {
        let unlimited = |_| Limit { calls: 0, length: 0, aligned: false };
        let limit = |pool| if dialect.is_x() { unlimited(pool) } else { dialect.limit(&self.options, pool) };
        let identity = || {
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
        match self.admit_call(dialect, call, dialect.endpoint(), limit) {
            Ok(AdmittedCall { window, .. }) => dialect.with_window(window, identity()),
            Err(refused) => refused,
        }
    }

    /// The requested posts at this moment. An id that is no number counts as missing: the recorded response to `id=X` shows
    /// this.
    fn find<'a>(&self, dialect: Dialect, ids: &[&'a str], call: &Call, fields: &Fields) -> Found<'a> {
        let view = View::from_call(call);
        let map = dialect == Dialect::TwitterV1 && call.flag("map").unwrap_or(false);
        let context = RenderContext { fields: fields.clone(), ..self.render_context(clock::wall_ms(), view) };
        let mut ids = ids.to_vec();
        if !map && dialect != Dialect::Bluesky {
            // Not the requested order: the API promises none. But the order is the same every time.
            ids.sort_by_key(|id| dialect.tweet_id(id).map_or(0, |id| self.world.random(id, Salt::Order)));
        }
        let objects = ids.iter().map(|id| self.object(dialect, id, &context)).collect();
        let includes = if dialect.is_x() { self.includes(&ids, &context) } else { None };
        Found { ids, objects, map, includes }
    }
}
