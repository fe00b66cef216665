//! All that `ops` serves: the pages of each namespace, an overview of several, and the figures for programs.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::join_all;
use secrecy::SecretString;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::{Archive, InCommon, Page, assets, events, overview};
use crate::base::clock;
use crate::base::reload::Reloadable;
use crate::engine::health::Vitals;
use crate::ops::page::routes::Routes;
use crate::ops::polled::Polled;
use crate::ops::probes::{exposed, probes};
use crate::ops::report::sources::{SourceBook, Sources};
use crate::ops::report::status::{Known, Report};
use crate::ops::snapshot::{Seen, Terms};
use crate::ops::whole_queue::{self, WholeQueue};

/// A namespace that is shown.
#[derive(Debug)]
pub struct Shown {
    /// Its queue, and the credentials that serve it.
    pub whole: Arc<WholeQueue>,
    /// For its tweets and its dead.
    pub archive: Archive,
    /// What its figures are reckoned by.
    pub terms: Reloadable<Terms>,
}

/// The pages of all namespaces: of a single one at `/`; of several an overview there, and each below `/n/`.
#[derive(Debug)]
pub struct Site {
    /// Of each namespace, in the order given.
    pub(super) pages: Vec<Arc<Page>>,
    /// Of what they have in common.
    pub(super) routes: Routes,
    /// A place for each who watches.
    pub(super) places: Arc<Semaphore>,
    /// The polled sources.
    pub(super) polled: Option<Arc<Polled>>,
}

/// Of which namespace.
#[derive(Debug, Default, Deserialize)]
struct Asked {
    namespace: Option<String>,
}

impl Site {
    /// Of these namespaces, in this order. Retrying and dropping the dead asks for the token; without one nobody may. The
    /// polled sources are shown where there are any, by who knows them.
    ///
    /// Starts those who read the figures: call it on the runtime.
    #[must_use]
    pub fn new(shown: Vec<Shown>, token: Option<&SecretString>, sources: Option<SourceBook>) -> Arc<Self> {
        let names: Vec<String> = shown.iter().map(|one| one.whole.queue.namespace().to_owned()).collect();
        let places = Arc::new(Semaphore::new(events::WATCHERS));
        let routes = Routes::of(&names);
        let in_common = routes.first().map(Routes::in_common).unwrap_or_default();
        let polled = sources.map(|book| Arc::new(Polled::new(book)));
        let is_alone = names.len() == 1;
        let shared =
            InCommon { token: token.cloned(), places: places.clone(), guesses: Arc::default(), polled: polled.clone() };
        let page = |(one, routes)| Page::new(one, routes, shared.clone(), is_alone);
        let pages = shown.into_iter().zip(routes).map(page).collect();
        Arc::new(Self { pages, routes: in_common, places, polled })
    }

    /// All routes, and the probes of the process.
    pub fn router(self: &Arc<Self>) -> Router {
        let metrics = async |State(site): State<Arc<Self>>| {
            let (seen, sources) = tokio::join!(site.seen(), site.sources());
            exposed(whole_queue::metrics(&seen, &sources, clock::wall_ms()))
        };
        let mut own = Router::new()
            .route("/page.css", get(assets::css))
            .route("/page.js", get(assets::script))
            .route("/icon.svg", get(assets::icon))
            .route("/status", get(status))
            .route("/metrics", get(metrics));
        if self.pages.len() > 1 {
            own = own.route("/", get(overview::show)).route("/events", get(overview::stream));
        }
        let queues = self.queues();
        let vitals = Vitals::new(queues.iter().map(|one| (one.queue.namespace().to_owned(), one.health.clone())));
        let router = own.with_state(self.clone()).merge(probes(vitals));
        self.pages.iter().fold(router, |router, page| router.merge(page.router()))
    }

    /// What is seen of each namespace at this moment.
    async fn seen(&self) -> Vec<(Arc<WholeQueue>, Seen)> {
        join_all(self.pages.iter().map(async |page| (page.whole.clone(), page.reader.look().await))).await
    }

    /// The polled sources, as read a moment ago.
    async fn sources(&self) -> Sources {
        match &self.polled {
            Some(polled) => polled.sources().await,
            None => Sources::default(),
        }
    }

    fn queues(&self) -> Vec<Arc<WholeQueue>> {
        self.pages.iter().map(|page| page.whole.clone()).collect()
    }
}

fn code(answers: bool) -> StatusCode {
    if answers { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `GET /status`: as `twitter-updater status --json` says it; of several namespaces all, or the one that is asked for.
async fn status(State(site): State<Arc<Site>>, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    let Ok(Query(asked)) = asked else { return (StatusCode::BAD_REQUEST, "ask for ?namespace=NAME\n").into_response() };
    if let Some(name) = &asked.namespace {
        let Some(page) = site.pages.iter().find(|page| page.whole.queue.namespace() == name) else {
            let names: Vec<&str> = site.pages.iter().map(|page| page.whole.queue.namespace()).collect();
            let why = format!("no such namespace is shown here; these are: {}\n", names.join(", "));
            return (StatusCode::NOT_FOUND, why).into_response();
        };
        if site.pages.len() > 1 {
            let known = page.reader.look().await.known(name);
            return (code(matches!(known, Known::Status(_))), Json(known)).into_response();
        }
    }
    let (seen, sources) = tokio::join!(site.seen(), site.sources());
    let known = |(whole, seen): &(Arc<WholeQueue>, Seen)| seen.known(whole.queue.namespace());
    let report = Report::of(seen.iter().map(known).collect(), sources);
    // What one does not say must not hide what the others do.
    (code(report.answers()), Json(report)).into_response()
}
