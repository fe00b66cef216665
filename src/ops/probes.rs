//! `/live`, `/ready` and `/metrics`.

use std::fmt::Display;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;

use super::{exposition, metrics_format};
use engine::health::ProcessHealth;

pub fn metrics_router(registry: Registry) -> Router {
    let registry = Arc::new(registry);
    let metrics = async |State(registry): State<Arc<Registry>>, headers: HeaderMap| {
        metrics_format::metrics_response(&headers, exposition::encode_text(&registry))
    };
    Router::new().route("/metrics", get(metrics)).with_state(registry)
}

pub fn probe_router(vitals: impl Into<ProcessHealth>) -> Router {
    let live = async |State(vitals): State<ProcessHealth>| respond(vitals.check_live().map(|()| Vec::new()));
    let ready = async |State(vitals): State<ProcessHealth>| respond(vitals.check_ready());
    Router::new().route("/live", get(live)).route("/ready", get(ready)).with_state(vitals.into())
}

fn respond(state: Result<Vec<String>, impl Display>) -> Response {
    match state {
        Ok(but) if but.is_empty() => "yes\n".into_response(),
        Ok(but) => format!("yes, but for\n{}\n", but.join("\n")).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("no: {why}\n")).into_response(),
    }
}
