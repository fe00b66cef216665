//! All routes of `ops`: the pages of each namespace, an overview of several, and the figures for programs.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::dead::Whom;
use super::form::FORM_BYTES;
use super::layout::FIND;
use super::pages::Page;
use super::routes::{ACCOUNT, TWEET};
use super::site::Site;
use super::{assets, dead, error_list, events, front, hands, overview, tweet};
use crate::base::clock;
use crate::engine::health::Vitals;
use crate::ops::dead::Act;
use crate::ops::probes::probes;
use crate::ops::report::status::{NamespaceStatus, Report};
use crate::ops::{LatestReading, WholeQueue, metrics_format, whole_queue};

#[derive(Debug, Default, Deserialize)]
struct StatusQuery {
    namespace: Option<String>,
}

impl Site {
    pub fn router(self: &Arc<Self>) -> Router {
        self.pages().merge(self.figures()).merge(self.metrics())
    }

    pub fn metrics(self: &Arc<Self>) -> Router {
        let metrics = async |State(site): State<Arc<Self>>, headers: HeaderMap| {
            let (readings, sources) = tokio::join!(site.readings(), site.sources());
            metrics_format::metrics_response(&headers, whole_queue::metrics(&readings, &sources, clock::wall_ms()))
        };
        Router::new().route("/metrics", get(metrics)).with_state(self.clone())
    }

    pub fn figures(self: &Arc<Self>) -> Router {
        let whole = self.pages.iter().map(|page| &page.whole);
        let vitals = Vitals::new(whole.map(|one| (one.queue.namespace().to_owned(), one.health.clone())));
        Router::new().route("/status", get(status)).with_state(self.clone()).merge(probes(vitals))
    }

    pub fn pages(self: &Arc<Self>) -> Router {
        let mut own = Router::new()
            .route("/page.css", get(assets::css))
            .route("/page.js", get(assets::script))
            .route("/icon.svg", get(assets::icon));
        if self.routes.optional.logout {
            own = own.route("/logout", post(hands::log_out));
        }
        if self.pages.len() > 1 {
            own = own
                .route("/", get(overview::show))
                .route(FIND, get(overview::find))
                .route("/events", get(overview::stream));
        }
        let router = own.with_state(self.clone());
        self.pages.iter().fold(router, |router, page| router.merge(page.router()))
    }
}

impl Page {
    fn router(self: &Arc<Self>) -> Router {
        let to = |path: &str| self.routes.to(path);
        let pages = Router::new()
            .route(&to("/"), get(front::show))
            .route(&to(TWEET), get(tweet::show))
            .route(&to("/dead"), get(dead::show))
            .route(&to("/errors"), get(error_list::show))
            .route(&to("/dead/retry"), dead::post(Act::Retry, Whom::One))
            .route(&to("/dead/drop"), dead::post(Act::Drop, Whom::One))
            .route(&to("/dead/retry-all"), dead::post(Act::Retry, Whom::All))
            .route(&to("/dead/drop-all"), dead::post(Act::Drop, Whom::All))
            .route(&to("/pause"), hands::post(hands::Act::Pause))
            .route(&to("/resume"), hands::post(hands::Act::Resume))
            .route(&to("/refresh"), hands::post(hands::Act::Refresh))
            .route(&to("/belong"), hands::post(hands::Act::Belong))
            .layer(DefaultBodyLimit::max(FORM_BYTES))
            .route(&to("/events"), get(events::stream))
            .with_state(self.clone());
        let pages = match self.routes.holds_accounts() {
            true => pages.merge(Router::new().route(&to(ACCOUNT), get(tweet::show)).with_state(self.clone())),
            false => pages,
        };
        // People type the address without the last slash.
        let (typed, meant) = (to(""), to("/"));
        if typed.is_empty() { pages } else { pages.route(&typed, get(async move || Redirect::permanent(&meant))) }
    }
}

fn code(answers: bool) -> StatusCode {
    if answers { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `GET /status`: the answer of `twitter-updater status --json`, for all namespaces or for the requested one.
async fn status(State(site): State<Arc<Site>>, asked: Result<Query<StatusQuery>, QueryRejection>) -> Response {
    let Ok(Query(asked)) = asked else { return (StatusCode::BAD_REQUEST, "ask for ?namespace=NAME\n").into_response() };
    if let Some(name) = &asked.namespace {
        let Some(page) = site.pages.iter().find(|page| page.whole.queue.namespace() == name) else {
            let names: Vec<&str> = site.pages.iter().map(|page| page.whole.queue.namespace()).collect();
            let why = format!("no such namespace is shown here; these are: {}\n", names.join(", "));
            return (StatusCode::NOT_FOUND, why).into_response();
        };
        if site.pages.len() > 1 {
            let namespace_status = page.reader.look().await.namespace_status(name);
            return (code(matches!(namespace_status, NamespaceStatus::Status(_))), Json(namespace_status))
                .into_response();
        }
    }
    let (readings, sources) = tokio::join!(site.readings(), site.sources());
    let namespace_status =
        |(whole, reading): &(Arc<WholeQueue>, LatestReading)| reading.namespace_status(whole.queue.namespace());
    let report = Report::of(readings.iter().map(namespace_status).collect(), sources);
    // A silent namespace must not hide the answers of the others.
    (code(report.answers()), Json(report)).into_response()
}
