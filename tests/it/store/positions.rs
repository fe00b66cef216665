//! Positions of sources: one contract, every backend.

use twitter_updater::store::{Positions, SourceGap, SourceRow, Store, StoreError};

use super::{PATIENCE, T, open_postgres};
use crate::support::postgres;

/// The tests see both sides of a store.
trait Both: Store + Positions {}
impl<S: Store + Positions> Both for S {}

const POLL: &str = "source:poll:search/tweets";

fn gap(from: &str, to: &str, noted_at: i64) -> SourceGap {
    SourceGap { from: from.to_owned(), to: to.to_owned(), reason: "it is 'too' old".to_owned(), noted_at }
}

async fn contract(store: &dyn Both) {
    for error in [
        store.position(POLL, "a").await.unwrap_err(),
        store.save_position(POLL, "a", T, "{}", &[]).await.unwrap_err(),
        store.gaps(POLL, "a").await.unwrap_err(),
        store.sources(3).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Schema(_)), "{error}");
    }
    store.migrate().await.unwrap();
    assert_eq!(store.position(POLL, "a").await.unwrap(), None);
    assert_eq!(store.gaps(POLL, "a").await.unwrap(), []);
    assert_eq!(store.sources(3).await.unwrap(), []);

    store.save_position(POLL, "a", T, r#"{"since":"1"}"#, &[]).await.unwrap();
    store.save_position(POLL, "b", T, "b's", &[gap("5", "6", T)]).await.unwrap();
    store.save_position("source:poll:other", "a", T, "another's", &[]).await.unwrap();
    assert_eq!(store.position(POLL, "a").await.unwrap().as_deref(), Some(r#"{"since":"1"}"#));

    // Again, and later: the last position, and each gap once, as it was noted first.
    for at in [T + 2, T + 2, T + 3] {
        store.save_position(POLL, "a", at, "newer", &[gap("3", "4", at), gap("1", "2", at)]).await.unwrap();
    }
    store.save_position(POLL, "a", T + 4, "newest", &[gap("0", "9", T + 4), gap("1", "2", T + 4)]).await.unwrap();
    assert_eq!(store.position(POLL, "a").await.unwrap().as_deref(), Some("newest"));
    // As it was noted first, in that order.
    let of_a = [gap("1", "2", T + 2), gap("3", "4", T + 2), gap("0", "9", T + 4)];
    assert_eq!(store.gaps(POLL, "a").await.unwrap(), of_a);
    assert_eq!(store.position(POLL, "b").await.unwrap().as_deref(), Some("b's"));
    assert_eq!(store.gaps(POLL, "b").await.unwrap(), [gap("5", "6", T)]);
    assert_eq!(store.position("source:poll:other", "a").await.unwrap().as_deref(), Some("another's"));
    assert_eq!(store.gaps("source:poll:other", "a").await.unwrap(), []);

    // All of them at once; the latest gaps first, and all counted.
    let row = |namespace: &str, source: &str, position: &str, saved_at, gaps, latest_gaps: &[SourceGap]| SourceRow {
        namespace: namespace.to_owned(),
        source: source.to_owned(),
        position: position.to_owned(),
        saved_at,
        gaps,
        latest_gaps: latest_gaps.to_vec(),
    };
    let [first, second, third] = of_a;
    let all = |latest: &[SourceGap], latest_of_b: &[SourceGap]| {
        [
            row("source:poll:other", "a", "another's", T, 0, &[]),
            row(POLL, "a", "newest", T + 4, 3, latest),
            row(POLL, "b", "b's", T, 1, latest_of_b),
        ]
    };
    let of_b = [gap("5", "6", T)];
    assert_eq!(store.sources(2).await.unwrap(), all(&[third.clone(), second.clone()], &of_b));
    assert_eq!(store.sources(9).await.unwrap(), all(&[third, second, first], &of_b));
    assert_eq!(store.sources(0).await.unwrap(), all(&[], &[]), "counted all the same");
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
