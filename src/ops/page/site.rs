//! The pages of all namespaces, and their common parts.

use std::sync::Arc;

use futures::future::join_all;

use super::broadcast::Broadcasts;
use super::pages::{InCommon, Page, PageInputs};
use super::routes::{OptionalRoutes, Routes};
use super::sessions::Sessions;
use super::watchers::Watchers;
use crate::base::token::AccessToken;
use crate::ops::polled::Polled;
use crate::ops::report::sources::{SourceBook, Sources};
use crate::ops::{LatestReading, WholeQueue};

/// The pages of all namespaces: a single one at `/`; several below `/n/`, with an overview at `/`.
#[derive(Debug)]
pub struct Site {
    pub(super) pages: Vec<Arc<Page>>,
    pub(super) routes: Routes,
    pub(super) watchers: Arc<Watchers>,
    pub(super) broadcasts: Arc<Broadcasts>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) polled: Option<Arc<Polled>>,
}

#[derive(Debug, Default)]
pub struct Access {
    /// Required by every change; without one the pages are read-only.
    pub token: Option<AccessToken>,
    /// True if browsers come through a proxy that speaks TLS with them.
    pub behind_tls: bool,
    pub has_metrics_port: bool,
}

impl Site {
    /// Builds the pages of these namespaces, in this order, and starts the readers of their figures: call it on the runtime.
    #[must_use]
    pub fn new(shown: Vec<PageInputs>, access: Access, sources: Option<SourceBook>) -> Arc<Self> {
        let Access { token, behind_tls, has_metrics_port } = access;
        let names: Vec<String> = shown.iter().map(|one| one.whole.queue.namespace().to_owned()).collect();
        let watchers = Arc::<Watchers>::default();
        let optional = OptionalRoutes { logout: token.is_some(), metrics: !has_metrics_port };
        let routes = Routes::of(&names, optional);
        let sessions = Arc::new(Sessions::new(behind_tls));
        let in_common = routes.first().map(Routes::in_common).unwrap_or_default();
        let polled = sources.map(|book| Arc::new(Polled::new(book)));
        let broadcasts = Arc::<Broadcasts>::default();
        let shared = InCommon {
            token,
            watchers: watchers.clone(),
            broadcasts: broadcasts.clone(),
            sessions: sessions.clone(),
            polled: polled.clone(),
        };
        let page = |(one, routes)| Page::new(one, routes, shared.clone());
        let pages = shown.into_iter().zip(routes).map(page).collect();
        Arc::new(Self { pages, routes: in_common, watchers, broadcasts, sessions, polled })
    }

    pub(super) async fn readings(&self) -> Vec<(Arc<WholeQueue>, LatestReading)> {
        join_all(self.pages.iter().map(async |page| (page.whole.clone(), page.reader.look().await))).await
    }

    pub(super) async fn sources(&self) -> Sources {
        match &self.polled {
            Some(polled) => polled.sources().await,
            None => Sources::default(),
        }
    }
}
