//! Media that are gone when their files come: forgotten with a person, or with a file that somebody removes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::queue::Verdict;
use twitter_updater::engine::worker::UnmeteredHandler;
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::pipelines::item_handler::ItemHandler;
use twitter_updater::pipelines::media::fetch::{Fetch, FetchOutcome, FileRequest, StoredFile};
use twitter_updater::pipelines::media::files::CompleteFile;
use twitter_updater::pipelines::media::handler::{MediaWork, RetryLimits};
use twitter_updater::pipelines::store_call::PipelineStore;
use twitter_updater::store::{
    Finding, Forgetting, ItemSet, Lifecycle, MediaStore, MediumSighting, NewItem, Observation, Posts, SqliteStore, Way,
};

use super::fetch::World;
use crate::support::claim::claimed;

const NS: &str = "media:twitter";
const ID: &str = "1";
const POST: &str = "2";
const ANN: &str = "700100";
const SHA256: &str = "aa";
const NOW: Millis = 1_800_000_000_000;

/// A host that takes so long that something happens to the medium meanwhile.
struct Host {
    store: Arc<SqliteStore>,
    is_forgotten: bool,
}

#[async_trait]
impl Fetch for Host {
    async fn fetch(&self, wanted: FileRequest<'_>, _: Duration) -> FetchOutcome {
        self.store.reserve_file(SHA256, 7, NOW, 0).await.unwrap();
        if self.is_forgotten {
            let items = ItemSet { namespace: NS.to_owned(), ids: vec![wanted.id.to_owned()] };
            self.store.remove_items(&items).await.unwrap();
        } else {
            let looked = self.store.unused_files(NOW + 1, NOW + 1, "", 10).await.unwrap();
            assert_eq!(looked.unused, [SHA256]);
        }
        let file = CompleteFile { sha256: SHA256.to_owned(), bytes: 7, kind: "image/png" };
        FetchOutcome::Stored(StoredFile { file, is_new: true, is_continued: false, smaller: None })
    }
}

async fn store() -> (Arc<SqliteStore>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("t.db"), Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    (Arc::new(store), folder)
}

async fn record(store: &SqliteStore) {
    let new = NewItem { id: ID.to_owned(), created_at: None, next_due: Some(NOW), content: None, read_at: None };
    store.record(NS, NOW, &Way::new("fan_out"), &[new]).await.unwrap();
}

/// As a found post does that shows it.
async fn show(store: &SqliteStore) {
    record(store).await;
    let medium = Medium { id: ID.to_owned(), url: "https://h/1".to_owned(), kind: MediaKind::Photo };
    store.record_media(NS, &[MediumSighting { medium, author: None, post: POST.to_owned(), at: NOW }]).await.unwrap();
}

/// Has the handler do it; says what the queue is told, and the state of its life.
async fn handle(store: &Arc<SqliteStore>, fetcher: &Arc<dyn Fetch>) -> (Verdict, Option<ItemState>) {
    let items = PipelineStore {
        namespace: NS.to_owned(),
        store: store.clone(),
        save_timeout: Duration::from_secs(20),
        max_deliveries: 3,
    };
    let work = MediaWork {
        items,
        fetcher: fetcher.clone(),
        smaller: |_| Vec::new(),
        retrying: RetryLimits {
            first_delay: Duration::from_secs(30),
            longest_delay: Duration::from_secs(60),
            give_up_after: Duration::from_secs(600),
        },
        counters: Arc::default(),
        metrics: Arc::default(),
    };
    let handled = ItemHandler(work).handle(&claimed(ID, "fresh", NOW)).await;
    let [(_, verdict)] = &handled.verdicts[..] else { panic!("{:?}", handled.verdicts) };
    (verdict.clone(), store.tweet(NS, ID).await.unwrap().map(|row| row.state))
}

const AGAIN: Verdict = Verdict::Retry { after: 30_000, counted: false };

#[tokio::test]
async fn a_medium_of_a_forgotten_person_gets_no_row_and_leaves_no_part() {
    let (world, (store, _folder)) = (World::new().await, store().await);
    // Her post was asked for before: its media are recorded, it is not, and the medium is in the queue all the same.
    store.block_account("twitter", ANN, NOW).await.unwrap();
    show(&store).await;
    let post = Tweet { id: POST.into(), author_id: Some(ANN.into()), raw: "{}".into(), ..Tweet::default() };
    let found = Observation::new(POST, NOW, Finding::Found(post), ItemState::Live, Some(NOW + 1));
    store.save("tweet:update", &[found]).await.unwrap();
    // A part of it came before.
    let part = world.storage.parts.lock_part(NS, ID).unwrap().unwrap();
    part.note_validator("https://h/1", Some("\"tag\""), None).unwrap();
    drop(part);
    assert_eq!(world.files(), 2);
    let root = world.root;
    let fetcher: Arc<dyn Fetch> = Arc::new(world.fetcher);
    assert_eq!(handle(&store, &fetcher).await, (Verdict::Finish, None));
    assert_eq!(std::fs::read_dir(root.path().join("parts")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_medium_that_is_forgotten_while_its_file_comes_gets_no_row() {
    let (store, _folder) = store().await;
    show(&store).await;
    let host: Arc<dyn Fetch> = Arc::new(Host { store: store.clone(), is_forgotten: true });
    assert_eq!(handle(&store, &host).await, (AGAIN, None));
    assert_eq!(handle(&store, &host).await, (Verdict::Finish, None));
}

#[tokio::test]
async fn a_medium_waits_whose_file_is_being_removed() {
    let (store, _folder) = store().await;
    show(&store).await;
    let host: Arc<dyn Fetch> = Arc::new(Host { store: store.clone(), is_forgotten: false });
    assert_eq!(handle(&store, &host).await, (AGAIN, Some(ItemState::Live)));
    let medium = store.media(NS, &[ID.to_owned()]).await.unwrap().remove(0).unwrap();
    assert_eq!((medium.state, medium.sha256), (MediaState::Waiting, None));
}

#[tokio::test]
async fn an_id_that_was_put_in_by_hand_ends() {
    let (store, _folder) = store().await;
    record(&store).await;
    let host: Arc<dyn Fetch> = Arc::new(Host { store: store.clone(), is_forgotten: false });
    assert_eq!(handle(&store, &host).await, (Verdict::Finish, Some(ItemState::Ended)));
}
