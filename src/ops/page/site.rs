//! The pages of all namespaces, and their common parts.

use std::sync::Arc;

use futures::future::join_all;

use super::broadcast::Broadcasts;
use super::pages::{Page, PageInputs, SharedState};
use super::routes::{OptionalRoutes, Routes};
use super::sessions::Sessions;
use super::watchers::Watchers;
use crate::ops::cached_sources::CachedSources;
use crate::ops::report::sources::{SourceReader, Sources};
use crate::ops::{LatestReading, WholeQueue};
use collect::pipelines::kind::ItemContent;
use engine::base::token::AccessToken;

/// The pages of all namespaces: a single one at `/`; several below `/n/`, with an overview at `/`.
#[derive(Debug)]
pub struct Site {
    pub(super) pages: Vec<Arc<Page>>,
    pub(super) routes: Routes,
    pub(super) watchers: Arc<Watchers>,
    pub(super) broadcasts: Arc<Broadcasts>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) polled: Option<Arc<CachedSources>>,
}

#[derive(Debug, Default)]
pub struct Access {
    /// Required by every action; without one, the pages are read-only.
    pub token: Option<AccessToken>,
    /// True if browsers come through a proxy that speaks TLS with them.
    pub behind_tls: bool,
    pub has_metrics_port: bool,
}

impl Site {
    /// Builds the pages of these namespaces, in this order, and spawns the readers of their figures.
    #[must_use]
    pub fn new(shown: Vec<PageInputs>, access: Access, sources: Option<SourceReader>) -> Arc<Self> {
        let Access { token, behind_tls, has_metrics_port } = access;
        let shows = |one: &PageInputs| (one.whole.queue.namespace().to_owned(), one.terms.load().words.content);
        let namespaces: Vec<(String, ItemContent)> = shown.iter().map(shows).collect();
        let watchers = Arc::<Watchers>::default();
        let optional = OptionalRoutes { logout: token.is_some(), metrics: !has_metrics_port };
        let routes = Routes::for_namespaces(&namespaces, optional);
        let sessions = Arc::new(Sessions::new(behind_tls));
        let common_routes = routes.first().map(Routes::common).unwrap_or_default();
        let polled = sources.map(|book| Arc::new(CachedSources::new(book)));
        let broadcasts = Arc::<Broadcasts>::default();
        let shared = SharedState {
            token,
            watchers: watchers.clone(),
            broadcasts: broadcasts.clone(),
            sessions: sessions.clone(),
            polled: polled.clone(),
        };
        let page = |(one, routes)| Page::new(one, routes, shared.clone());
        let pages = shown.into_iter().zip(routes).map(page).collect();
        Arc::new(Self { pages, routes: common_routes, watchers, broadcasts, sessions, polled })
    }

    pub(super) async fn readings(&self) -> Vec<(Arc<WholeQueue>, LatestReading)> {
        join_all(self.pages.iter().map(async |page| (page.whole.clone(), page.reader.current().await))).await
    }

    pub(super) async fn sources(&self) -> Sources {
        match &self.polled {
            Some(polled) => polled.sources().await,
            None => Sources::default(),
        }
    }
}
