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
//! HTML is made here and nowhere else: the script puts what `/events` sends into place and knows no figures.
//! Without it the page shows everything once.

mod assets;
mod chart;
mod dead;
mod events;
mod front;
mod layout;
mod state_sections;
mod time_sections;
mod tweet;
mod words;
mod young;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use secrecy::SecretString;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use self::front::Front;
use self::young::Young;
use super::archive::Archive;
use super::figures::{Seen, Terms};
use super::reader::Reader;
use super::whole_queue::WholeQueue;
use crate::live::Live;
use crate::queue::Buried;

/// The longest form, in bytes: an id and a token.
const FORM_BYTES: usize = 16 << 10;

/// The pages of one queue, and what they are made from.
#[derive(Debug)]
pub struct Page {
    whole: Arc<WholeQueue>,
    archive: Archive,
    token: Option<SecretString>,
    reader: Arc<Reader>,
    /// Ends with the page.
    _reading: AbortOnDropHandle<()>,
    /// A place for each who watches.
    places: Arc<Semaphore>,
    /// The front page, as it was made last for all who watch.
    made: Mutex<Option<(Seen, Arc<Front>)>>,
    /// The last that were buried, when there were so many.
    latest: Mutex<(u64, Vec<Buried>)>,
    young: Young,
}

impl Page {
    /// Of that queue; with the archive for tweets and the dead. Retrying and dropping the dead asks for the token;
    /// without one nobody may.
    ///
    /// Starts the one who reads the figures: call it on the runtime.
    #[must_use]
    pub fn new(whole: Arc<WholeQueue>, archive: Archive, token: Option<SecretString>, terms: Live<Terms>) -> Arc<Self> {
        let reader = Arc::new(Reader::new(whole.clone(), archive.store(), terms));
        let reading = {
            let reader = reader.clone();
            tokio::spawn(async move { reader.run().await })
        };
        Arc::new(Self {
            whole,
            archive,
            token,
            reader,
            _reading: AbortOnDropHandle::new(reading),
            places: Arc::new(Semaphore::new(events::WATCHERS)),
            made: Mutex::default(),
            latest: Mutex::default(),
            young: Young::default(),
        })
    }

    /// All that `ops` serves: its routes, those of the whole queue, and the probes of the process.
    pub fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/", get(front::show))
            .route("/tweet", get(tweet::show))
            .route("/dead", get(dead::show))
            .route("/dead/retry", post(dead::retry))
            .route("/dead/drop", post(dead::drop))
            .layer(DefaultBodyLimit::max(FORM_BYTES))
            .route("/events", get(events::stream))
            .route("/page.css", get(assets::css))
            .route("/page.js", get(assets::script))
            .route("/icon.svg", get(assets::icon))
            .with_state(self.clone())
            .merge(self.whole.router())
    }
}
