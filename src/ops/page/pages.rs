//! The pages of one namespace, their sources, and the results that all viewers share.

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
use crate::ops::{Archive, DatabaseAtHand, LatestReading, Reader, Terms, WholeQueue};
use crate::pipelines::kind::Words;

/// Parts of a front page that are refreshed while it is open. The id of a part names its place.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// Time of its figures, or the current time if there are none; ms since the epoch.
    pub at: Millis,
    pub parts: Vec<(Part, String)>,
}

#[derive(Debug)]
pub struct PageInputs {
    pub whole: Arc<WholeQueue>,
    pub archive: Archive,
    pub terms: Reloadable<Terms>,
    pub database: DatabaseAtHand,
}

#[derive(Debug)]
pub(super) struct Page {
    pub whole: Arc<WholeQueue>,
    pub archive: Archive,
    pub database: DatabaseAtHand,
    pub routes: Routes,
    pub reader: Arc<Reader>,
    _reading: AbortOnDropHandle<()>,
    /// The last front page, shared by all viewers.
    pub made: Mutex<Option<(LatestReading, Arc<Front>)>>,
    /// The past by range, with the minute of its reading.
    pub past: Mutex<HashMap<Range, (Millis, Arc<Past>)>>,
    /// The last buried posts, with the number of dead posts at that reading.
    pub latest: Mutex<(u64, Vec<Buried>)>,
    pub young: Young,
    pub media: MediaCounts,
    pub community: CommunityRead,
    pub errors: Errors,
    pub in_common: InCommon,
}

#[derive(Debug, Clone)]
pub(super) struct InCommon {
    /// Required by every change; without one, the pages are read-only.
    pub token: Option<AccessToken>,
    pub watchers: Arc<Watchers>,
    pub broadcasts: Arc<Broadcasts>,
    pub sessions: Arc<Sessions>,
    pub polled: Option<Arc<Polled>>,
}

impl Page {
    /// Starts the task that reads the figures: call it on the runtime.
    pub(super) fn new(shown: PageInputs, routes: Routes, mut in_common: InCommon) -> Arc<Self> {
        let PageInputs { whole, archive, terms, database } = shown;
        let reader = Reader::new(whole.clone(), archive.store(), terms);
        let reader = Arc::new(reader.with_database(database.clone()).with_polled(in_common.polled.clone()));
        // With several namespaces, only the overview shows the sources.
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
    pub(super) fn words(&self) -> Words {
        self.whole.terms.load().words
    }
}

/// Current time by the queue's clock, or by our own if the figures are old or missing. ms since the epoch.
pub(super) fn now(seen: &LatestReading) -> Millis {
    let fresh = seen.snapshot.as_ref().filter(|_| seen.outage.is_none());
    fresh.map_or_else(clock::wall_ms, |snapshot| snapshot.at_ms())
}
