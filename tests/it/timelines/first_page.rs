//! The first page of a source that two processes read at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{Inspection, Place};
use twitter_updater::pipelines::timelines::paging::Position;
use twitter_updater::providers::lookup::LookupError;
use twitter_updater::providers::source::{Source, SourceKind};
use twitter_updater::providers::timeline::{Page, Rules, Timeline, TimelineRequest};
use twitter_updater::providers::twitter_v1::timeline::Kind;
use twitter_updater::quota::Credential;
use twitter_updater::store::{Lifecycle, Positions, SavedPage, SqliteStore};

use super::source::{BUSY, LATE, Poller, Trap, api, simulated};
use crate::support::rig::eventually;
use crate::timelines::polled;

/// A timeline that another process starts to read while this one waits for its first page.
#[derive(Debug)]
struct StartedElsewhere<T> {
    inner: T,
    store: Arc<SqliteStore>,
    start: Position,
    is_first_page_empty: bool,
    pages: AtomicU32,
    /// The position before the second page.
    position: OnceLock<Option<String>>,
}

impl<T> StartedElsewhere<T> {
    async fn save_start(&self) {
        let position = serde_json::to_string(&self.start).unwrap();
        let start = SavedPage {
            at: wall_ms(),
            position: &position,
            is_start: true,
            gaps: &[],
            has_new_posts: false,
            notes: None,
            followed_at: None,
        };
        assert!(self.store.save_page(&polled("statuses/user_timeline"), "one", &start).await.unwrap());
    }

    async fn note_position(&self) {
        let saved = self.store.saved_source(&polled("statuses/user_timeline"), "one").await.unwrap();
        self.position.set(saved.position).unwrap();
    }
}

#[async_trait]
impl<T: Timeline> Timeline for StartedElsewhere<T> {
    fn rules(&self) -> Rules {
        self.inner.rules()
    }

    async fn page(&self, ask: &TimelineRequest, credential: &Credential) -> Result<Page, LookupError> {
        let page = self.inner.page(ask, credential).await?;
        match self.pages.fetch_add(1, Ordering::Relaxed) {
            0 => self.save_start().await,
            1 => self.note_position().await,
            _ => return Ok(page),
        }
        let is_empty = self.is_first_page_empty && ask.since.is_none();
        Ok(if is_empty { Page { posts: Vec::new(), ..page } } else { page })
    }
}

/// The other process may have stored posts of its page and not have scheduled them.
async fn goes_back_to_the_first_start(is_first_page_empty: bool) {
    let folder = tempfile::tempdir().unwrap();
    let simulator = simulated(400.0).await;
    let begun = wall_ms();
    eventually("there are more posts than a page has", async || {
        simulator.timeline("@one", begun, wall_ms()).len() > 400
    })
    .await;
    let store = Arc::new(SqliteStore::open(&folder.path().join("all.db"), BUSY).await.unwrap());
    store.migrate().await.unwrap();
    let due: Vec<_> = simulator.timeline("@one", begun, wall_ms()).iter().map(|post| post.id).collect();
    let since = due.iter().map(|id| id.get()).min().unwrap() - 1;
    let timeline = Arc::new(StartedElsewhere {
        inner: Kind::User { screen_name: Some("one".to_owned()), user_id: None }.build(&api(&simulator), LATE),
        store,
        start: Position { since, ..Position::default() },
        is_first_page_empty,
        pages: AtomicU32::new(0),
        position: OnceLock::new(),
    });
    let source = Source { timeline: timeline.clone(), query: None };
    let timelines = Arc::new(BTreeMap::from([("one".to_owned(), source)]));
    let poller = Poller::start(folder.path(), timelines, &Arc::new(Trap::default())).await;
    let due: Vec<String> = due.iter().map(ToString::to_string).collect();
    let tweets = poller.tweets.clone();
    eventually("every post since that start is in the queue", async || {
        tweets.locate(&due).await.unwrap().iter().all(|of| matches!(&of[..], [Place::Delayed { .. }]))
    })
    .await;
    let start = serde_json::to_string(&timeline.start).unwrap();
    assert_eq!(timeline.position.get(), Some(&Some(start)), "the first page replaced it");
    assert_eq!(poller.store.gaps(&polled("statuses/user_timeline"), "one").await.unwrap(), []);
    poller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_of_the_process_that_was_first_is_gone_back_to() {
    goes_back_to_the_first_start(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_first_page_replaces_no_start() {
    goes_back_to_the_first_start(true).await;
}
