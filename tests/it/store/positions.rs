//! Positions of sources: one contract, every backend.

use twitter_updater::store::{Positions, SourceGap, Store, StoreError};

use super::{PATIENCE, T, open_postgres};
use crate::support::postgres;

/// The tests see both sides of a store.
trait Both: Store + Positions {}
impl<S: Store + Positions> Both for S {}

const POLL: &str = "source:poll:search/tweets";

fn gap(from: &str, to: &str) -> SourceGap {
    SourceGap { from: from.to_owned(), to: to.to_owned(), reason: "it is 'too' old".to_owned() }
}

async fn contract(store: &dyn Both) {
    for error in [
        store.position(POLL, "a").await.unwrap_err(),
        store.save_position(POLL, "a", T, "{}", &[]).await.unwrap_err(),
        store.gaps(POLL, "a").await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Schema(_)), "{error}");
    }
    store.migrate().await.unwrap();
    assert_eq!(store.position(POLL, "a").await.unwrap(), None);
    assert_eq!(store.gaps(POLL, "a").await.unwrap(), []);

    store.save_position(POLL, "a", T, r#"{"since":"1"}"#, &[]).await.unwrap();
    store.save_position(POLL, "b", T, "b's", &[gap("5", "6")]).await.unwrap();
    store.save_position("source:poll:other", "a", T, "another's", &[]).await.unwrap();
    assert_eq!(store.position(POLL, "a").await.unwrap().as_deref(), Some(r#"{"since":"1"}"#));

    // Again, and later: the last position, and each gap once, as it was noted first.
    for at in [T + 2, T + 2, T + 3] {
        store.save_position(POLL, "a", at, "newer", &[gap("3", "4"), gap("1", "2")]).await.unwrap();
    }
    store.save_position(POLL, "a", T + 4, "newest", &[gap("0", "9"), gap("1", "2")]).await.unwrap();
    assert_eq!(store.position(POLL, "a").await.unwrap().as_deref(), Some("newest"));
    assert_eq!(store.gaps(POLL, "a").await.unwrap(), [gap("1", "2"), gap("3", "4"), gap("0", "9")]);
    assert_eq!(store.position(POLL, "b").await.unwrap().as_deref(), Some("b's"));
    assert_eq!(store.gaps(POLL, "b").await.unwrap(), [gap("5", "6")]);
    assert_eq!(store.position("source:poll:other", "a").await.unwrap().as_deref(), Some("another's"));
    assert_eq!(store.gaps("source:poll:other", "a").await.unwrap(), []);
}

#[tokio::test]
async fn in_postgres() {
    contract(&open_postgres(&postgres::database().await).await).await;
}

#[tokio::test]
async fn in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let store = twitter_updater::store::SqliteStore::open(&folder.path().join("tweets.db"), PATIENCE).await.unwrap();
    contract(&store).await;
}
