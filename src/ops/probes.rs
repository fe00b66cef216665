//! `/live`, `/ready` and `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;

use super::exposition;
use crate::health::Health;

/// The probes of a process, and its own metrics.
pub fn router(health: &Arc<Health>, registry: Registry) -> Router {
    let registry = Arc::new(registry);
    let metrics = async |State(registry): State<Arc<Registry>>| exposed(exposition::text(&registry));
    Router::new().route("/metrics", get(metrics)).with_state(registry).merge(probes(health))
}

/// The probes alone.
pub(super) fn probes(health: &Arc<Health>) -> Router {
    let live = async |State(health): State<Arc<Health>>| answer(health.live());
    let ready = async |State(health): State<Arc<Health>>| answer(health.ready());
    Router::new().route("/live", get(live)).route("/ready", get(ready)).with_state(health.clone())
}

/// Metrics as an answer.
pub(super) fn exposed(text: String) -> impl IntoResponse {
    ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], text)
}

fn answer(state: Result<(), String>) -> Response {
    match state {
        Ok(()) => "yes\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("no: {why}\n")).into_response(),
    }
}
