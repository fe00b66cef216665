//! The pages of all namespaces, and what they have in common.

use std::sync::Arc;

use futures::future::join_all;

use super::broadcast::Broadcasts;
use super::pages::{InCommon, Page, Shown};
use super::routes::{OptionalRoutes, Routes};
use super::sessions::Sessions;
use super::watchers::Watchers;
use crate::base::token::AccessToken;
use crate::ops::polled::Polled;
use crate::ops::report::sources::{SourceBook, Sources};
use crate::ops::{Seen, WholeQueue};

/// The pages of all namespaces: of a single one at `/`; of several an overview there, and each below `/n/`.
#[derive(Debug)]
pub struct Site {
    /// Of each namespace, in the order given.
    pub(super) pages: Vec<Arc<Page>>,
    /// Of what they have in common.
    pub(super) routes: Routes,
    /// The streams of all pages.
    pub(super) watchers: Arc<Watchers>,
    /// The renderings that are watched.
    pub(super) broadcasts: Arc<Broadcasts>,
    /// Browsers that sent the token.
    pub(super) sessions: Arc<Sessions>,
    /// The polled sources.
    pub(super) polled: Option<Arc<Polled>>,
}

/// How a site is reached.
#[derive(Debug, Default)]
pub struct Access {
    /// Every change asks for it; without one the pages are read-only.
    pub token: Option<AccessToken>,
    /// Browsers come through a proxy that speaks TLS with them.
    pub behind_tls: bool,
    /// `/metrics` has a port of its own.
    pub has_metrics_port: bool,
}

impl Site {
    /// Of these namespaces, in this order. The polled sources are shown where there are any, by who knows them.
    ///
    /// Starts those who read the figures: call it on the runtime.
    #[must_use]
    pub fn new(shown: Vec<Shown>, access: Access, sources: Option<SourceBook>) -> Arc<Self> {
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

    /// What is seen of each namespace at this moment.
    pub(super) async fn seen(&self) -> Vec<(Arc<WholeQueue>, Seen)> {
        join_all(self.pages.iter().map(async |page| (page.whole.clone(), page.reader.look().await))).await
    }

    /// The polled sources, as read a moment ago.
    pub(super) async fn sources(&self) -> Sources {
        match &self.polled {
            Some(polled) => polled.sources().await,
            None => Sources::default(),
        }
    }
}
