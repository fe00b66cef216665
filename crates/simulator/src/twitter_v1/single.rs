//! `statuses/show` of v1.1: one tweet, or the reason why it is missing.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;

use super::dialect::refusal;
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::render::View;
use crate::reply::success;
use crate::x_v2::dialect::is_hidden;

pub fn routes(router: Routes) -> Routes {
    let by_parameter =
        async |State(api): ApiState, call: Call| api.show(call.parameter("id").unwrap_or_default(), &call).await;
    let by_path = async |State(api): ApiState, Path(name): Path<String>, call: Call| match name.strip_suffix(".json") {
        Some(id) => api.show(id, &call).await,
        None => Err(refusal(404, 34)),
    };
    router.route("/1.1/statuses/show.json", get(by_parameter)).route("/1.1/statuses/show/{name}", get(by_path))
}

impl Api {
    async fn show(&self, id: &str, call: &Call) -> Result<Response, Response> {
        let dialect = Dialect::TwitterV1;
        let window = self.admit_with_limits(dialect, call, "/statuses/show/:id", (900, 900)).await?.window;
        let response = match self.object(dialect, id, &self.render_context(self.now(), View::from_call(call))) {
            Some(object) => success(object),
            None if dialect.tweet_id(id).is_some() && is_hidden(id) => refusal(403, 179),
            None => refusal(404, 144),
        };
        Ok(dialect.with_window(window, response))
    }
}
