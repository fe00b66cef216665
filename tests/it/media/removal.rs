//! Files go with the last stored post that shows them.

use std::sync::Arc;
use std::time::Duration;

use twitter_updater::base::clock::{Millis, wall_ms};
use twitter_updater::base::shutdown::Stop;
use twitter_updater::engine::queue::{Lateness, Workers};
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::pipelines::media::counters::FetchCounters;
use twitter_updater::pipelines::media::fetch::FetchOutcome;
use twitter_updater::pipelines::media::partial_files::PartialFiles;
use twitter_updater::pipelines::media::removal::{MIN_UNUSED_AGE, UnusedMediaRemoval};
use twitter_updater::pipelines::media::storage::MediaStorage;
use twitter_updater::store::{
    Expiry, FetchAttempt, Finding, MediumSighting, NewItem, Observation, SqliteStore, Store, Way,
};

use super::fetch::World;
use crate::support::memory_queue::{MemoryQueue, ServiceClock};
use crate::support::queue_model::Rules;

const NS: &str = "media:twitter";

/// A stored medium that a post shows which is not stored.
async fn put(world: &World, store: &dyn Store, id: &str) -> String {
    let FetchOutcome::Stored(stored) = world.fetch("/ok/1").await else { panic!() };
    let now = wall_ms();
    let new = NewItem { id: id.to_owned(), created_at: None, next_due: Some(now), content: None, read_at: None };
    store.record(NS, now, &Way::new("fan_out"), &[new]).await.unwrap();
    let medium = Medium { id: id.to_owned(), url: world.server.url("/ok/1"), kind: MediaKind::Photo };
    store
        .record_media(NS, &[MediumSighting { medium, author: None, post: format!("of {id}"), at: now - 10 }])
        .await
        .unwrap();
    let bytes = stored.file.bytes as i64;
    store.reserve_file(&stored.file.sha256, bytes, now, 0).await.unwrap();
    let tried = FetchAttempt {
        id: id.to_owned(),
        at: now,
        state: MediaState::Stored,
        bytes: Some(bytes),
        sha256: Some(stored.file.sha256.clone()),
        ..FetchAttempt::default()
    };
    store.save_media(NS, &[tried]).await.unwrap();
    stored.file.sha256
}

fn found(id: &str) -> Observation {
    Observation {
        id: id.to_owned(),
        answered_at: 2,
        finding: Finding::Found(Tweet { id: id.to_owned(), raw: "{}".to_owned(), ..Tweet::default() }),
        state: ItemState::Live,
        next_due: None,
        follow: None,
        forget: false,
        recent: None,
    }
}

#[tokio::test]
async fn a_file_is_removed_with_its_last_post_and_not_while_it_is_young() {
    let world = World::new().await;
    let database = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&database.path().join("t.db"), Duration::from_secs(20)).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    store.migrate().await.unwrap();
    let sha256 = put(&world, &*store, "a").await;
    assert_eq!(put(&world, &*store, "b").await, sha256);
    let (counters, stop) = (Arc::<FetchCounters>::default(), Stop::new());
    let (parts, files) = (PartialFiles::open(world.root.path(), 0, 0).unwrap(), Arc::new(world.folder.clone()));
    let storage = Arc::new(MediaStorage { parts, files, store: store.clone() });
    let file = world.storage.store.media_bytes().await.unwrap();
    let queue = Arc::new(MemoryQueue::new(NS, ServiceClock::right(), Rules::default()));
    let removal_of = |worker: &str| UnusedMediaRemoval {
        namespace: NS.to_owned(),
        posts: "tweet:update".to_owned(),
        queue: queue.clone(),
        worker: worker.to_owned(),
        storage: storage.clone(),
        store: store.clone(),
        counters: counters.clone(),
    };
    let removal = removal_of("a");
    assert_eq!(removal.remove_unused(MIN_UNUSED_AGE, &stop).await.unwrap(), 0, "seen and written within the hour");
    assert!(world.folder.path(&sha256).exists());
    // A post that is stored keeps what it shows.
    let new = NewItem { id: "of b".to_owned(), created_at: None, next_due: Some(1), content: None, read_at: None };
    store.record("tweet:update", 1, &Way::new("enqueue"), &[new]).await.unwrap();
    queue.heartbeat("a", &[], &[], &Lateness::default()).await.unwrap();
    assert_eq!(
        removal_of("b").remove_unused(Duration::ZERO, &stop).await.unwrap(),
        0,
        "the first worker does it for all"
    );
    assert_eq!(removal.remove_unused(Duration::ZERO, &stop).await.unwrap(), 1);
    assert!(world.folder.path(&sha256).exists(), "another medium has the same file");
    let states = async || -> Vec<MediaState> {
        let media = store.media(NS, &["a".to_owned(), "b".to_owned()]).await.unwrap();
        media.into_iter().flatten().map(|medium| medium.state).collect()
    };
    assert_eq!(states().await, [MediaState::Removed, MediaState::Stored]);
    assert_eq!((removal.storage.parts.used() as i64, counters.media_removed.get()), (file, 1));
    // Without the post the file goes, too, and its bytes are free.
    let over = Observation { state: ItemState::Ended, ..found("of b") };
    store.save("tweet:update", &[over]).await.unwrap();
    store.remove("tweet:update", Expiry::Before(Millis::MAX), &["of b".to_owned()]).await.unwrap();
    assert_eq!(removal.remove_unused(Duration::ZERO, &stop).await.unwrap(), 1);
    assert!(!world.folder.path(&sha256).exists());
    assert_eq!((removal.storage.parts.used(), store.media_bytes().await.unwrap()), (0, 0));
}
