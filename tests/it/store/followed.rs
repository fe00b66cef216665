//! The list of followed accounts: one contract, every backend.

use twitter_updater::model::post::ItemState;
use twitter_updater::store::{FollowList, NewItem, Positions, PostgresStore, SavedPage, SqliteStore, Store, Way};

use super::{PATIENCE, T, open_postgres};
use crate::support::postgres;

/// The tests see all sides of a store.
trait Whole: Store + FollowList + Positions {}
impl<S: Store + FollowList + Positions> Whole for S {}

const OF: &str = "visits:twitter";

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

async fn record(store: &dyn Whole, namespace: &str, id: &str) {
    let row = NewItem { id: id.to_owned(), created_at: None, next_due: Some(T), content: None, read_at: None };
    store.record(namespace, T, &Way::new("follow"), &[row]).await.unwrap();
}

async fn state(store: &dyn Whole, namespace: &str, id: &str) -> Option<ItemState> {
    store.standing(namespace, &ids(&[id])).await.unwrap().remove(0).map(|known| known.state)
}

async fn contract(store: &dyn Whole) {
    store.migrate().await.unwrap();
    let asked = ids(&["1", "2", "3", "it's 'odd' \u{1f600}"]);
    assert_eq!(store.followed(OF, &asked).await.unwrap(), [None, None, None, None]);
    let given: Vec<(String, i64)> = asked.iter().zip([0, 1, 0, 2]).map(|(id, part)| (id.clone(), part)).collect();
    assert_eq!(store.follow(OF, T, &given).await.unwrap(), [0, 1, 0, 2]);
    // Again, with other parts and twice in a call: each stays where it is.
    let again = [("2".to_owned(), 0), ("2".to_owned(), 3), ("1".to_owned(), 1)];
    assert_eq!(store.follow(OF, T + 5, &again).await.unwrap(), [1, 1, 0]);
    assert_eq!(store.followed("visits:x", &asked).await.unwrap(), [None, None, None, None]);
    assert!(store.follow(OF, T, &[]).await.unwrap().is_empty());

    // Notes stand beside the position, and stay where a page brings none.
    let followed_at = store.saved_source(OF, "2").await.unwrap().followed_at;
    assert_eq!(followed_at, Some(T));
    let page = |notes, position, followed_at| SavedPage {
        at: T,
        position,
        is_start: false,
        gaps: &[],
        has_new_posts: true,
        notes,
        followed_at,
    };
    assert!(store.save_page(OF, "2", &page(Some("a rhythm"), "{}", followed_at)).await.unwrap());
    assert!(store.save_page(OF, "2", &page(None, "{}", followed_at)).await.unwrap());
    assert!(
        !store.save_page(OF, "9", &page(None, "{}", followed_at)).await.unwrap(),
        "of an account that is forgotten"
    );
    assert_eq!(store.saved_source(OF, "2").await.unwrap().notes.as_deref(), Some("a rhythm"));
    let pages = store.page_followed(OF, "1", 2).await.unwrap();
    let told: Vec<_> = pages.iter().map(|one| (one.account.as_str(), one.part, one.notes.as_deref())).collect();
    assert_eq!(told, [("2", 1, Some("a rhythm")), ("3", 0, None)]);

    // Followed no more: the life ends in the pipeline of its part, and in no other.
    for (namespace, id) in [(OF, "1"), ("visits:twitter:p1", "2"), (OF, "2")] {
        record(store, namespace, id).await;
    }
    let mut left = store.unfollow(OF, T + 9, &ids(&["1", "2", "9"])).await.unwrap();
    left.sort();
    assert_eq!(left, [("1".to_owned(), 0), ("2".to_owned(), 1)]);
    assert_eq!(store.unfollow(OF, T + 10, &ids(&["1", "2"])).await.unwrap(), []);
    assert_eq!(store.followed(OF, &asked).await.unwrap()[..3], [None, None, Some(0)]);
    assert_eq!(state(store, OF, "1").await, Some(ItemState::Ended));
    assert_eq!(state(store, "visits:twitter:p1", "2").await, Some(ItemState::Ended));
    assert_eq!(state(store, OF, "2").await, Some(ItemState::Live), "not the part that it was in");
    store.end_visits(OF, 0, "2").await.unwrap();
    assert_eq!(state(store, OF, "2").await, Some(ItemState::Ended));

    // A visit that began before saves nothing any more, also when somebody follows the account again.
    let late = page(None, "late", followed_at);
    let kept = async || store.saved_source(OF, "2").await.unwrap();
    assert!(!store.save_page(OF, "2", &late).await.unwrap());
    assert_eq!((kept().await.position.as_deref(), kept().await.followed_at), (Some("{}"), None));

    // Followed again, in the part that is given now. Its life does not end there.
    assert_eq!(store.follow(OF, T + 20, &[("2".to_owned(), 0)]).await.unwrap(), [0]);
    assert!(!store.save_page(OF, "2", &late).await.unwrap());
    assert_eq!((kept().await.position.as_deref(), kept().await.followed_at), (Some("{}"), Some(T + 20)));
    assert!(store.save_page(OF, "2", &page(None, "new", Some(T + 20))).await.unwrap());
    assert_eq!(kept().await.position.as_deref(), Some("new"));
    record(store, OF, "2").await;
    store.end_visits(OF, 0, "2").await.unwrap();
    assert_eq!(state(store, OF, "2").await, Some(ItemState::Live));
    // Handed over.
    store.move_to_part(OF, 7, &ids(&["2", "1"])).await.unwrap();
    assert_eq!(store.followed(OF, &asked).await.unwrap()[..2], [None, Some(7)]);
    store.end_visits(OF, 0, "2").await.unwrap();
    assert_eq!(state(store, OF, "2").await, Some(ItemState::Ended));
}

#[tokio::test]
async fn the_contract_holds_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    contract(&SqliteStore::open(&folder.path().join("tweets.db"), PATIENCE).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds_on_postgres() {
    let store: PostgresStore = open_postgres(&postgres::database().await).await;
    contract(&store).await;
}
