//! Routes of `ops`: the pages of each namespace, an overview of several, and the figures for programs.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::dead::Selection;
use super::form::FORM_BYTES;
use super::layout::FIND_PATH;
use super::pages::Page;
use super::routes::{ACCOUNT, TWEET};
use super::site::Site;
use super::{actions, assets, dead, error_list, events, front, overview, tweet};
use crate::data::dead::DeadAction;
use crate::ops::probes::probe_router;
use crate::ops::report::status::{NamespaceStatus, StatusReport};
use crate::ops::{LatestReading, WholeQueue, metrics_format, whole_queue};
use collect::pipelines::kind::ItemContent;
use engine::base::clock;
use engine::health::ProcessHealth;

#[derive(Debug, Default, Deserialize)]
struct StatusQuery {
    namespace: Option<String>,
}

impl Site {
    pub fn router(self: &Arc<Self>) -> Router {
        self.page_routes().merge(self.status_routes()).merge(self.metrics_routes())
    }

    pub fn metrics_routes(self: &Arc<Self>) -> Router {
        let metrics = async |State(site): State<Arc<Self>>, headers: HeaderMap| {
            let (readings, sources) = tokio::join!(site.readings(), site.sources());
            metrics_format::metrics_response(
                &headers,
                whole_queue::render_metrics(&readings, &sources, clock::wall_ms()),
            )
        };
        Router::new().route("/metrics", get(metrics)).with_state(self.clone())
    }

    pub fn status_routes(self: &Arc<Self>) -> Router {
        let whole = self.pages.iter().map(|page| &page.whole);
        let vitals = ProcessHealth::new(whole.map(|one| (one.queue.namespace().to_owned(), one.health.clone())));
        Router::new().route("/status", get(status)).with_state(self.clone()).merge(probe_router(vitals))
    }

    pub fn page_routes(self: &Arc<Self>) -> Router {
        let mut own = Router::new()
            .route("/page.css", get(assets::css))
            .route("/page.js", get(assets::script))
            .route("/icon.svg", get(assets::icon));
        if self.routes.optional.logout {
            own = own.route("/logout", post(actions::log_out));
        }
        if self.pages.len() > 1 {
            own = own
                .route("/", get(overview::show_page))
                .route(FIND_PATH, get(overview::find))
                .route("/events", get(overview::stream));
        }
        let router = own.with_state(self.clone());
        self.pages.iter().fold(router, |router, page| router.merge(page.router()))
    }
}

impl Page {
    fn router(self: &Arc<Self>) -> Router {
        let to = |path: &str| self.routes.address(path);
        let pages = Router::new()
            .route(&to("/"), get(front::show_page))
            .route(&to(TWEET), get(tweet::show_page))
            .route(&to("/dead"), get(dead::show_page))
            .route(&to("/errors"), get(error_list::show_page))
            .route(&to("/dead/retry"), dead::action_route(DeadAction::Retry, Selection::One))
            .route(&to("/dead/drop"), dead::action_route(DeadAction::Drop, Selection::One))
            .route(&to("/dead/retry-all"), dead::action_route(DeadAction::Retry, Selection::All))
            .route(&to("/dead/drop-all"), dead::action_route(DeadAction::Drop, Selection::All))
            .route(&to("/pause"), actions::action_route(actions::PageAction::Pause))
            .route(&to("/resume"), actions::action_route(actions::PageAction::Resume))
            .route(&to("/refresh"), actions::action_route(actions::PageAction::Refresh))
            .route(&to("/belong"), actions::action_route(actions::PageAction::Belong))
            .layer(DefaultBodyLimit::max(FORM_BYTES))
            .route(&to("/events"), get(events::stream))
            .with_state(self.clone());
        let pages = match self.content() == ItemContent::Accounts {
            true => pages.merge(Router::new().route(&to(ACCOUNT), get(tweet::show_page)).with_state(self.clone())),
            false => pages,
        };
        // People type the address without the last slash.
        let (typed, meant) = (to(""), to("/"));
        if typed.is_empty() { pages } else { pages.route(&typed, get(async move || Redirect::permanent(&meant))) }
    }
}

fn status_code(answers: bool) -> StatusCode {
    if answers { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `GET /status`: the answer of `twitter-updater status --json`, for all namespaces or for the requested one.
async fn status(State(site): State<Arc<Site>>, query: Result<Query<StatusQuery>, QueryRejection>) -> Response {
    let Ok(Query(query)) = query else { return (StatusCode::BAD_REQUEST, "use ?namespace=NAME\n").into_response() };
    if let Some(name) = &query.namespace {
        let Some(page) = site.pages.iter().find(|page| page.whole.queue.namespace() == name) else {
            let names: Vec<&str> = site.pages.iter().map(|page| page.whole.queue.namespace()).collect();
            let why = format!("no such namespace is shown here; these are: {}\n", names.join(", "));
            return (StatusCode::NOT_FOUND, why).into_response();
        };
        if site.pages.len() > 1 {
            let namespace_status = page.reader.current().await.namespace_status(name);
            return (status_code(matches!(namespace_status, NamespaceStatus::Status(_))), Json(namespace_status))
                .into_response();
        }
    }
    let (readings, sources) = tokio::join!(site.readings(), site.sources());
    let namespace_status =
        |(whole, reading): &(Arc<WholeQueue>, LatestReading)| reading.namespace_status(whole.queue.namespace());
    let report = StatusReport::from_namespaces(readings.iter().map(namespace_status).collect(), sources);
    // A namespace without an answer must not hide the answers of the others.
    (status_code(report.has_answer()), Json(report)).into_response()
}
