//! The pages of one namespace: their sources, and the caches that all viewers share.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::broadcast::Broadcasts;
pub(super) use super::broadcast::PartId;
use super::community::CommunityCache;
use super::errors::ErrorHistory;
use super::media::MediaCounts;
use super::routes::Routes;
use super::sessions::Sessions;
use super::time_range::{Past, Range};
use super::watchers::Watchers;
use super::youngest_posts::YoungestPosts;
use crate::ops::cached_sources::CachedSources;
use crate::ops::{FigureSettings, LatestReading, OpenedDatabase, SnapshotReader, StoreAccess, WholeQueue};
use collect::pipelines::kind::{ItemContent, ItemWords};
use engine::base::clock::{self, Millis};
use engine::base::reload::Reloadable;
use engine::base::shutdown::Stop;
use engine::base::supervise::{LogOnly, supervise};
use engine::base::task::{Task, waits};
use engine::base::token::AccessToken;
use engine::queue::DeadJob;

/// Parts of a front page that are refreshed while it is open, by the ids of their elements.
#[derive(Debug, Default)]
pub(super) struct FrontPage {
    /// Time of its figures, or the current time if there are none; ms since the epoch.
    pub at: Millis,
    pub parts: Vec<(PartId, String)>,
}

#[derive(Debug)]
pub struct PageInputs {
    pub whole: Arc<WholeQueue>,
    pub archive: StoreAccess,
    pub terms: Reloadable<FigureSettings>,
    pub database: OpenedDatabase,
}

#[derive(Debug)]
pub(super) struct Page {
    pub whole: Arc<WholeQueue>,
    pub archive: StoreAccess,
    pub database: OpenedDatabase,
    pub routes: Routes,
    pub reader: Arc<SnapshotReader>,
    _reading: AbortOnDropHandle<()>,
    pub front_cache: Mutex<Option<(LatestReading, Arc<FrontPage>)>>,
    /// The past by range, with the minute in which it was read.
    pub past_cache: Mutex<HashMap<Range, (Millis, Arc<Past>)>>,
    /// The last dead posts, with the number of dead posts at that time.
    pub dead_cache: Mutex<(u64, Vec<DeadJob>)>,
    pub young: YoungestPosts,
    pub media: MediaCounts,
    pub community: CommunityCache,
    pub errors: ErrorHistory,
    pub shared: SharedState,
}

#[derive(Debug, Clone)]
pub(super) struct SharedState {
    /// Required by every action; without one, the pages are read-only.
    pub token: Option<AccessToken>,
    pub watchers: Arc<Watchers>,
    pub broadcasts: Arc<Broadcasts>,
    pub sessions: Arc<Sessions>,
    pub polled: Option<Arc<CachedSources>>,
}

impl Page {
    /// Starts the task that reads the figures: call it on the runtime.
    pub(super) fn new(shown: PageInputs, routes: Routes, mut shared: SharedState) -> Arc<Self> {
        let PageInputs { whole, archive, terms, database } = shown;
        let reader = SnapshotReader::new(whole.clone(), archive.store(), terms);
        let reader = Arc::new(reader.with_database(database.clone()).with_polled(shared.polled.clone()));
        // With several namespaces, only the overview shows the sources.
        shared.polled = shared.polled.filter(|_| routes.all.is_empty());
        let (own, namespace) = (reader.clone(), whole.queue.namespace().to_owned());
        let reading = tokio::spawn(async move {
            let task = Task::new(namespace, "figures");
            let begin = async || {
                waits("reads for those who watch", None);
                own.run().await;
            };
            supervise(&task, &LogOnly, &Stop::new(), begin).await;
        });
        Arc::new(Self {
            whole,
            archive,
            database,
            routes,
            reader,
            _reading: AbortOnDropHandle::new(reading),
            front_cache: Mutex::default(),
            past_cache: Mutex::default(),
            dead_cache: Mutex::default(),
            young: YoungestPosts::default(),
            media: MediaCounts::default(),
            community: CommunityCache::default(),
            errors: ErrorHistory::default(),
            shared,
        })
    }
}

impl Page {
    pub(super) fn words(&self) -> ItemWords {
        self.whole.terms.load().words
    }

    pub(super) fn content(&self) -> ItemContent {
        self.words().content
    }
}

/// Current time by the queue's clock, or by our own if the figures are old or missing. ms since the epoch.
pub(super) fn reading_now(reading: &LatestReading) -> Millis {
    let fresh = reading.snapshot.as_ref().filter(|_| reading.outage.is_none());
    fresh.map_or_else(clock::wall_ms, |snapshot| snapshot.at_ms())
}
