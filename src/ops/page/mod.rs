//! The page: one address that answers at a glance whether everything is fresh, and if not, why.
//!
//! | address | what |
//! |---|---|
//! | `GET /` | the whole queue, its quota, its workers |
//! | `GET /tweet?id=` | a tweet, by its id or its address on the web |
//! | `GET /dead` | the dead, a page after the other |
//! | `POST /dead/retry`, `/dead/drop` | does it to one; form fields `id` and `token` |
//! | `GET /events` | what has changed of the front page, or of `?tweet=`, as server-sent events |
//! | `GET /page.css`, `/page.js`, `/icon.svg` | what the pages load: nothing comes from elsewhere |
//!
//! Where there are several namespaces, each has these below `/n/<namespace>`, all but what the pages load, which is one
//! for all; `GET /` and `GET /events` are an overview of them.
//!
//! HTML is made here and nowhere else: the script puts what `/events` sends into place and knows no figures.
//! Without it the page shows everything once.

mod assets;
mod chart;
mod dead;
mod events;
mod front;
mod guesses;
mod ids;
mod layout;
mod overview;
mod polled;
mod routes;
mod site;
mod state_sections;
mod time_sections;
mod tweet;
mod words;
mod young;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Redirect;
use axum::routing::{get, post};
use secrecy::SecretString;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use self::front::Front;
use self::guesses::Guesses;
use self::routes::Routes;
pub use self::site::{Shown, Site};
use self::young::Young;
use super::archive::Archive;
use super::polled::Polled;
use super::reader::Reader;
use super::whole_queue::WholeQueue;
use crate::engine::queue::Buried;
use crate::ops::snapshot::Seen;

/// The longest form, in bytes: an id and a token.
const FORM_BYTES: usize = 16 << 10;

/// The pages of one namespace, and what they are made from.
#[derive(Debug)]
struct Page {
    whole: Arc<WholeQueue>,
    archive: Archive,
    routes: Routes,
    token: Option<SecretString>,
    reader: Arc<Reader>,
    /// Ends with the page.
    _reading: AbortOnDropHandle<()>,
    /// A place for each who watches, here or on another page.
    places: Arc<Semaphore>,
    /// The front page, as it was made last for all who watch.
    made: Mutex<Option<(Seen, Arc<Front>)>>,
    /// The last that were buried, when there were so many.
    latest: Mutex<(u64, Vec<Buried>)>,
    young: Young,
    /// At the token, here or on another namespace's page.
    guesses: Arc<Guesses>,
    /// Where no other page shows them.
    polled: Option<Arc<Polled>>,
}

/// What the pages of all namespaces have in common.
#[derive(Debug, Clone)]
struct InCommon {
    token: Option<SecretString>,
    places: Arc<Semaphore>,
    guesses: Arc<Guesses>,
    polled: Option<Arc<Polled>>,
}

impl Page {
    /// Starts the one who reads the figures: call it on the runtime.
    fn new(shown: Shown, routes: Routes, in_common: InCommon, is_alone: bool) -> Arc<Self> {
        let InCommon { token, places, guesses, polled } = in_common;
        let Shown { whole, archive, terms } = shown;
        let reader = Reader::new(whole.clone(), archive.store(), terms);
        let reader = Arc::new(match &polled {
            Some(polled) => reader.with_polled(polled.clone()),
            None => reader,
        });
        // Of several, the overview shows the sources.
        let polled = polled.filter(|_| is_alone);
        let reading = {
            let reader = reader.clone();
            tokio::spawn(async move { reader.run().await })
        };
        Arc::new(Self {
            whole,
            archive,
            routes,
            token,
            reader,
            _reading: AbortOnDropHandle::new(reading),
            places,
            made: Mutex::default(),
            latest: Mutex::default(),
            young: Young::default(),
            guesses,
            polled,
        })
    }

    /// Its routes, where its ways lead.
    fn router(self: &Arc<Self>) -> Router {
        let to = |path: &str| self.routes.to(path);
        let pages = Router::new()
            .route(&to("/"), get(front::show))
            .route(&to("/tweet"), get(tweet::show))
            .route(&to("/dead"), get(dead::show))
            .route(&to("/dead/retry"), post(dead::retry))
            .route(&to("/dead/drop"), post(dead::drop))
            .layer(DefaultBodyLimit::max(FORM_BYTES))
            .route(&to("/events"), get(events::stream))
            .with_state(self.clone());
        // Without the last slash, as people type it.
        let (typed, meant) = (to(""), to("/"));
        if typed.is_empty() { pages } else { pages.route(&typed, get(async move || Redirect::permanent(&meant))) }
    }
}
