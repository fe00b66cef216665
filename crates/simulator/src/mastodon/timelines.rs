//! `GET /api/v1/timelines/public`, `/timelines/tag/{hashtag}`, `/accounts/{id}/statuses`: missing statuses are left out before
//! the count is applied. A cache may keep responses to calls without a token.

use std::sync::PoisonError;

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, LINK};
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use axum::routing::get;

use crate::api::timelines::Slice;
use crate::api::{Api, ApiState, Routes, with_slash};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::render::View;
use crate::reply::success;
use crate::timeline::Network;
use engine::base::clock;

const MISSING_ACCOUNT: &str = "404";
const MEMBERS_ONLY: &str = "#members";

/// Statuses per page: the default and the maximum.
const COUNT: (usize, usize) = (20, 40);

pub fn routes(router: Routes) -> Routes {
    let public = async |State(api): ApiState, uri: Uri, call: Call| api.statuses("public", &uri, &call).await;
    let tag = async |State(api): ApiState, Path(tag): Path<String>, uri: Uri, call: Call| {
        api.statuses(&format!("#{tag}"), &uri, &call).await
    };
    let account =
        async |State(api): ApiState, Path(id): Path<String>, uri: Uri, call: Call| api.statuses(&id, &uri, &call).await;
    let router = with_slash(router, "/api/v1/timelines/public", get(public));
    let router = with_slash(router, "/api/v1/timelines/tag/{hashtag}", get(tag));
    with_slash(router, "/api/v1/accounts/{id}/statuses", get(account))
}

impl Api {
    async fn statuses(&self, target: &str, uri: &Uri, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::Mastodon;
        let window = self.admit_after_latency(dialect, call).await?.window;
        let is_anonymous = call.authorization.is_none();
        match target {
            MISSING_ACCOUNT => return Err(dialect.with_window(window, dialect.refusal(404, 34))),
            MEMBERS_ONLY if is_anonymous => return Err(dialect.with_window(window, dialect.refusal(422, 0))),
            _ => self.inject_timeline_fault(dialect, target, window).await?,
        }
        let ids = match is_anonymous {
            true => self.cached_status_ids(&uri.to_string(), || self.status_ids(target, call)),
            false => self.status_ids(target, call),
        };
        let view = View { extended: true, trim_user: false, entities: false };
        let context = self.render_context(self.now(), view);
        let objects: Vec<String> =
            ids.iter().filter_map(|id| self.object(dialect, &id.to_string(), &context)).collect();
        let mut response = success(format!("[{}]", objects.join(",")));
        let control = if is_anonymous { "max-age=15, public, stale-while-revalidate=30" } else { "private, no-store" };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(control));
        if let (Some(first), Some(last)) = (ids.first(), ids.last()) {
            let link = format!(
                "<{}?max_id={last}>; rel=\"next\", <{}?min_id={first}>; rel=\"prev\"",
                call.address, call.address
            );
            if let Ok(link) = HeaderValue::from_str(&link) {
                response.headers_mut().insert(LINK, link);
            }
        }
        Ok(dialect.with_window(window, response))
    }

    fn status_ids(&self, target: &str, call: &Call) -> Vec<u64> {
        let number = |name| call.number(name);
        let now = self.now();
        let count = number("limit").map_or(COUNT.0, |limit| limit as usize).clamp(1, COUNT.1);
        let min = number("min_id");
        let slice = Slice {
            since: min.or(number("since_id")).unwrap_or(0),
            below: number("max_id").unwrap_or(u64::MAX),
            depth: None,
            oldest: 0,
            now,
        };
        let is_there = |id: &u64| {
            let post = Dialect::Mastodon.tweet_id(&id.to_string());
            post.is_some_and(|post| self.world.tweet(post, now).is_some())
        };
        let ids = self.ids(Network::Mastodon, target, slice).filter(is_there);
        let mut ids: Vec<u64> = if min.is_some() { ids.collect() } else { ids.take(count).collect() };
        ids.sort_unstable_by(|a, b| b.cmp(a));
        // `min_id` asks for the statuses just above it.
        let newer = ids.len().saturating_sub(count);
        ids.drain(..newer);
        ids
    }

    fn cached_status_ids(&self, asked: &str, answer: impl Fn() -> Vec<u64>) -> Vec<u64> {
        let now = self.now();
        let mut kept = self.cached_statuses.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (until, _)| *until > now);
        let until = now + clock::millis(self.options.mastodon_kept);
        kept.entry(asked.to_owned()).or_insert_with(|| (until, answer())).1.clone()
    }
}
