//! The pages of one namespace: what they are made from, and what of them is kept for all who watch.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::broadcast::Broadcasts;
pub(super) use super::broadcast::Part;
use super::community::CommunityRead;
use super::errors::Errors;
use super::media::MediaCounts;
use super::past::{Past, Range};
use super::routes::Routes;
use super::sessions::Sessions;
use super::watchers::Watchers;
use super::young::Young;
use crate::base::clock::{self, Millis};
use crate::base::reload::Reloadable;
use crate::base::shutdown::Stop;
use crate::base::supervise::{LogAlone, supervise};
use crate::base::task::{Task, waits};
use crate::base::token::AccessToken;
use crate::engine::queue::Buried;
use crate::ops::polled::Polled;
use crate::ops::{Archive, DatabaseAtHand, Reader, Seen, Terms, WholeQueue};
use crate::pipelines::kind::Words;

/// The live parts of a front page: each part has an id, by which it is replaced.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// The moment of its figures, or of now where there are none, ms since the epoch.
    pub at: Millis,
    /// The parts, by their ids, from the top.
    pub parts: Vec<(Part, String)>,
}

/// A namespace that is shown.
#[derive(Debug)]
pub struct Shown {
    /// Its queue, and the credentials that serve it.
    pub whole: Arc<WholeQueue>,
    /// For its tweets and its dead.
    pub archive: Archive,
    /// What its figures are reckoned by.
    pub terms: Reloadable<Terms>,
    /// All that lies in the database.
    pub database: DatabaseAtHand,
}

/// The pages of one namespace, and what they are made from.
#[derive(Debug)]
pub(super) struct Page {
    pub whole: Arc<WholeQueue>,
    pub archive: Archive,
    pub database: DatabaseAtHand,
    pub routes: Routes,
    pub reader: Arc<Reader>,
    /// Ends with the page.
    _reading: AbortOnDropHandle<()>,
    /// The front page, as it was made last for all who watch.
    pub made: Mutex<Option<(Seen, Arc<Front>)>>,
    /// The past by range, as it was read in a minute, ms since the epoch.
    pub past: Mutex<HashMap<Range, (Millis, Arc<Past>)>>,
    /// The last that were buried, when there were so many.
    pub latest: Mutex<(u64, Vec<Buried>)>,
    pub young: Young,
    pub media: MediaCounts,
    pub community: CommunityRead,
    pub errors: Errors,
    pub in_common: InCommon,
}

/// What the pages of all namespaces have in common.
#[derive(Debug, Clone)]
pub(super) struct InCommon {
    /// Asked for by everything that changes something; without one, nothing can be changed.
    pub token: Option<AccessToken>,
    /// The streams of all pages.
    pub watchers: Arc<Watchers>,
    /// The renderings that are watched.
    pub broadcasts: Arc<Broadcasts>,
    /// Browsers that sent the token.
    pub sessions: Arc<Sessions>,
    /// The polled sources, where this page shows them.
    pub polled: Option<Arc<Polled>>,
}

impl Page {
    /// Starts the one who reads the figures: call it on the runtime.
    pub(super) fn new(shown: Shown, routes: Routes, mut in_common: InCommon) -> Arc<Self> {
        let Shown { whole, archive, terms, database } = shown;
        let reader = Reader::new(whole.clone(), archive.store(), terms);
        let reader = Arc::new(reader.with_database(database.clone()).with_polled(in_common.polled.clone()));
        // Of several, the overview shows the sources.
        in_common.polled = in_common.polled.filter(|_| routes.all.is_empty());
        let (own, namespace) = (reader.clone(), whole.queue.namespace().to_owned());
        let reading = tokio::spawn(async move {
            let task = Task::new(namespace, "figures");
            let begin = async || {
                waits("reads for those who watch", None);
                own.run().await;
            };
            supervise(&task, &LogAlone, &Stop::new(), begin).await;
        });
        Arc::new(Self {
            whole,
            archive,
            database,
            routes,
            reader,
            _reading: AbortOnDropHandle::new(reading),
            made: Mutex::default(),
            past: Mutex::default(),
            latest: Mutex::default(),
            young: Young::default(),
            media: MediaCounts::default(),
            community: CommunityRead::default(),
            errors: Errors::default(),
            in_common,
        })
    }
}

impl Page {
    /// The words for its items.
    pub(super) fn words(&self) -> Words {
        self.whole.terms.load().words
    }
}

/// Now, by the clock of the figures, which is the queue's; by our own where they are old, or none. ms since the epoch.
pub(super) fn now(seen: &Seen) -> Millis {
    let fresh = seen.snapshot.as_ref().filter(|_| seen.outage.is_none());
    fresh.map_or_else(clock::wall_ms, |snapshot| snapshot.at_ms())
}
