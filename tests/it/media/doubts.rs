//! What a host with a fault says, too: it is believed when it has lasted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::Verdict;
use twitter_updater::engine::worker::UnmeteredHandler;
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::media::fetch::{Fetch, FetchOutcome, FileRequest, StoredFile};
use twitter_updater::pipelines::media::files::CompleteFile;
use twitter_updater::pipelines::media::handler::{MediaWork, RetryLimits};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::providers::registry::smaller_pictures;
use twitter_updater::store::{MediumSighting, NewItem, Store, StoredMedium, Way};

use crate::support::claim::claimed;
use crate::support::memory_store::MemoryStore;

const NS: &str = "media:twitter";
const ID: &str = "1";
const NOW: Millis = 1_800_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);

/// A host that says this of each file; and the smaller sizes that it was asked for at last.
struct Host(Mutex<FetchOutcome>, Mutex<Vec<String>>);

#[async_trait]
impl Fetch for Host {
    async fn fetch(&self, wanted: FileRequest<'_>, _: Duration) -> FetchOutcome {
        *self.1.lock().unwrap() = wanted.smaller.to_vec();
        self.0.lock().unwrap().clone()
    }
}

/// One medium, its host, and who fetches it.
struct World {
    host: Arc<Host>,
    store: Arc<dyn Store>,
    handler: ItemHandler<MediaWork>,
}

impl World {
    async fn new(longest_retry: Duration, give_up_after: Duration) -> Self {
        Self::of("https://h/1", longest_retry, give_up_after).await
    }

    async fn of(url: &str, longest_retry: Duration, give_up_after: Duration) -> Self {
        let host = Arc::new(Host(Mutex::new(FetchOutcome::Interrupted), Mutex::default()));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let new = NewItem { id: ID.to_owned(), created_at: None, next_due: Some(NOW), content: None, read_at: None };
        store.record(NS, NOW, &Way::new("fan_out"), &[new]).await.unwrap();
        let medium = Medium { id: ID.to_owned(), url: url.to_owned(), kind: MediaKind::Photo };
        store
            .record_media(NS, &[MediumSighting { medium, author: None, post: "2".to_owned(), at: NOW }])
            .await
            .unwrap();
        let items = PipelineStore {
            namespace: NS.to_owned(),
            store: store.clone(),
            save_timeout: Duration::from_secs(1),
            max_deliveries: 3,
        };
        let work = MediaWork {
            items,
            fetcher: host.clone(),
            smaller: smaller_pictures(&Provider::Twitter),
            retrying: RetryLimits { first_delay: Duration::from_secs(30), longest_delay: longest_retry, give_up_after },
            counters: Arc::default(),
            metrics: Arc::default(),
        };
        Self { host, store, handler: ItemHandler(work) }
    }

    /// Tries it that many minutes after the start; it is in the queue as long as it waits.
    async fn at(&self, minute: Millis, says: &FetchOutcome) -> StoredMedium {
        *self.host.0.lock().unwrap() = says.clone();
        let at = NOW + minute * 60_000;
        let handled = self.handler.handle(&claimed(ID, "retry", at)).await;
        let medium = self.store.media(NS, &[ID.to_owned()]).await.unwrap().pop().flatten().unwrap();
        match &handled.verdicts[..] {
            [(_, Verdict::Reschedule { .. })] => assert_eq!(medium.state, MediaState::Waiting),
            [(_, Verdict::Finish)] => assert!(medium.state.is_final(), "{medium:?}"),
            verdicts => panic!("{verdicts:?}"),
        }
        medium
    }

    /// It waits still after each of these tries.
    async fn waits(&self, minutes: &[Millis], says: &FetchOutcome) {
        for minute in minutes {
            let medium = self.at(*minute, says).await;
            assert_eq!(medium.state, MediaState::Waiting, "in minute {minute}: {medium:?}");
        }
    }
}

fn doubted(state: MediaState, why: &str) -> FetchOutcome {
    FetchOutcome::Unconfirmed { state, why: why.to_owned() }
}

#[tokio::test]
async fn it_is_believed_after_an_hour_and_four_attempts() {
    for (end, says) in [(MediaState::Gone, "HTTP 404"), (MediaState::Refused, "a page to sign in")] {
        let says = doubted(end, says);
        let world = World::new(DAY, 7 * DAY).await;
        world.waits(&[0, 1, 3, 7, 59], &says).await;
        let medium = world.at(61, &says).await;
        assert_eq!((medium.state, medium.attempts), (end, 6), "{medium:?}");
        let counters = &world.handler.0.counters;
        let ended = (counters.media_gone.get(), counters.media_refused.get(), counters.media_failed.get());
        assert_eq!(ended, if end == MediaState::Gone { (1, 0, 0) } else { (0, 1, 0) });
        assert_eq!(counters.media_attempts_failed.get(), 5);
        let world = World::new(DAY, 7 * DAY).await;
        world.waits(&[0, 61, 62], &says).await;
        assert_eq!(world.at(63, &says).await.state, end);
    }
}

#[tokio::test]
async fn a_fault_that_ends_leaves_the_file() {
    let world = World::new(DAY, 7 * DAY).await;
    world.waits(&[0, 1, 3, 7, 15, 31], &doubted(MediaState::Gone, "HTTP 403")).await;
    let file = CompleteFile { sha256: "aa".to_owned(), bytes: 7, kind: "image/png" };
    world.store.reserve_file("aa", 7, NOW, 0).await.unwrap();
    let stored = FetchOutcome::Stored(StoredFile { file, is_new: true, is_continued: false, smaller: None });
    assert_eq!(world.at(63, &stored).await.state, MediaState::Stored);
}

#[tokio::test]
async fn another_failure_before_it_proves_nothing() {
    let world = World::new(DAY, 7 * DAY).await;
    let out = FetchOutcome::Failed { why: "HTTP 503".to_owned(), is_of_host: true, after: None };
    world.waits(&[0, 1, 3, 7, 200], &out).await;
    let gone = doubted(MediaState::Gone, "HTTP 404");
    world.waits(&[400], &gone).await;
    assert_eq!(world.at(700, &gone).await.state, MediaState::Gone);
}

#[tokio::test]
async fn short_delays_make_no_hundreds_of_requests() {
    let (minute, gone) = (Duration::from_secs(60), doubted(MediaState::Gone, "HTTP 404"));
    for (longest_retry, give_up_after) in [(minute, 7 * DAY), (DAY, 4 * minute)] {
        let world = World::new(longest_retry, give_up_after).await;
        world.waits(&[0, 1, 2, 3], &gone).await;
        assert_eq!(world.at(5, &gone).await.state, MediaState::Gone);
    }
}

#[tokio::test]
async fn what_is_told_for_good_ends_it_at_once() {
    for (end, says) in [
        (MediaState::Gone, FetchOutcome::Gone("HTTP 410".to_owned())),
        (MediaState::Refused, FetchOutcome::Refused("larger than media.max_bytes".to_owned())),
    ] {
        assert_eq!(World::new(DAY, 7 * DAY).await.at(0, &says).await.state, end);
    }
}

#[tokio::test]
async fn smaller_sizes_are_requested_after_two_failures_and_the_stored_one_is_named() {
    let orig = "https://pbs.twimg.com/media/A.jpg?name=orig";
    let [huge, large] = ["4096x4096", "large"].map(|size| format!("https://pbs.twimg.com/media/A.jpg?name={size}"));
    let out = FetchOutcome::Failed { why: "HTTP 504".to_owned(), is_of_host: true, after: None };
    let world = World::of(orig, DAY, 7 * DAY).await;
    for minute in [0, 1] {
        world.waits(&[minute], &out).await;
        assert!(world.host.1.lock().unwrap().is_empty(), "in minute {minute}");
    }
    let file = CompleteFile { sha256: "aa".to_owned(), bytes: 7, kind: "image/png" };
    world.store.reserve_file("aa", 7, NOW, 0).await.unwrap();
    let smaller = Some(huge.clone());
    let stored = FetchOutcome::Stored(StoredFile { file, is_new: true, is_continued: false, smaller });
    let medium = world.at(3, &stored).await;
    assert_eq!((medium.state, medium.url), (MediaState::Stored, huge.clone()));
    assert_eq!(*world.host.1.lock().unwrap(), [huge, large]);
    // An address without sizes has no smaller ones.
    let world = World::new(DAY, 7 * DAY).await;
    world.waits(&[0, 1, 3], &out).await;
    assert!(world.host.1.lock().unwrap().is_empty());
}
