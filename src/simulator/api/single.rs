//! `statuses/show` of v1.1: one tweet, and why it cannot be had.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::get;

use super::{Api, Entered};
use crate::simulator::call::Call;
use crate::simulator::dialect::{Dialect, is_hidden};
use crate::simulator::render::View;
use crate::simulator::reply::{success, twitter_refusal};

/// The addresses.
pub fn routes(router: Router<Arc<Api>>) -> Router<Arc<Api>> {
    let by_parameter = async |State(api): State<Arc<Api>>, request: Request| match Call::read(request).await {
        Ok(call) => api.show(call.parameter("id").unwrap_or_default(), &call).await,
        Err(refused) => refused,
    };
    let by_path = async |State(api): State<Arc<Api>>, Path(name): Path<String>, request: Request| match (
        Call::read(request).await,
        name.strip_suffix(".json"),
    ) {
        (Ok(call), Some(id)) => api.show(id, &call).await,
        (Ok(_), None) => twitter_refusal(404, 34),
        (Err(refused), _) => refused,
    };
    router.route("/1.1/statuses/show.json", get(by_parameter)).route("/1.1/statuses/show/{name}", get(by_path))
}

impl Api {
    async fn show(&self, id: &str, call: &Call) -> Response {
        self.pause(self.options.latency).await;
        let dialect = Dialect::TwitterV1;
        let window = match self.enter_own(dialect, call, "/statuses/show/:id", (900, 900)) {
            Ok(Entered { window, .. }) => window,
            Err(refused) => return refused,
        };
        let response = match self.object(dialect, id, &self.shown(self.now(), View::of(call))) {
            Some(object) => success(object),
            None if dialect.tweet_id(id).is_some() && is_hidden(id) => twitter_refusal(403, 179),
            None => twitter_refusal(404, 144),
        };
        dialect.with(window, response)
    }
}
