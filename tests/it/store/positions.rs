//! Positions of sources: one contract, every backend.

use twitter_updater::store::{
    Positions, SavedPage, SavedSource, SourceGap, SourceRow, SourceTrouble, Store, StoreError,
};

use super::{PATIENCE, T, open_postgres};
use crate::support::postgres;

/// The tests see both sides of a store.
trait Both: Store + Positions {}
impl<S: Store + Positions> Both for S {}

const POLL: &str = "source:poll:search/tweets";

fn gap(from: &str, to: &str, noted_at: i64) -> SourceGap {
    SourceGap { from: from.to_owned(), to: to.to_owned(), reason: "it is 'too' old".to_owned(), noted_at }
}

fn page<'a>(at: i64, position: &'a str, gaps: &'a [SourceGap]) -> SavedPage<'a> {
    SavedPage { at, position, is_start: false, gaps, has_new_posts: true, notes: None, followed_at: None }
}

async fn save(store: &dyn Both, namespace: &str, source: &str, at: i64, position: &str, gaps: &[SourceGap]) {
    store.save_page(namespace, source, &page(at, position, gaps)).await.unwrap();
}

async fn position(store: &dyn Both, namespace: &str, source: &str) -> Option<String> {
    store.saved_source(namespace, source).await.unwrap().position
}

async fn contract(store: &dyn Both) {
    for error in [
        store.saved_source(POLL, "a").await.unwrap_err(),
        store.save_page(POLL, "a", &page(T, "{}", &[])).await.unwrap_err(),
        store.gaps(POLL, "a").await.unwrap_err(),
        store.sources(3).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Schema(_)), "{error}");
    }
    store.migrate().await.unwrap();
    assert_eq!(position(store, POLL, "a").await, None);
    assert_eq!(store.gaps(POLL, "a").await.unwrap(), []);
    assert_eq!(store.sources(3).await.unwrap(), []);

    save(store, POLL, "a", T, r#"{"since":"1"}"#, &[]).await;
    save(store, POLL, "b", T, "b's", &[gap("5", "6", T)]).await;
    save(store, "source:poll:other", "a", T, "another's", &[]).await;
    assert_eq!(position(store, POLL, "a").await.as_deref(), Some(r#"{"since":"1"}"#));

    // Again, and later: the last position, and each gap once, as it was noted first.
    for at in [T + 2, T + 2, T + 3] {
        save(store, POLL, "a", at, "newer", &[gap("3", "4", at), gap("1", "2", at)]).await;
    }
    save(store, POLL, "a", T + 4, "newest", &[gap("0", "9", T + 4), gap("1", "2", T + 4)]).await;
    assert_eq!(position(store, POLL, "a").await.as_deref(), Some("newest"));
    // As it was noted first, in that order.
    let of_a = [gap("1", "2", T + 2), gap("3", "4", T + 2), gap("0", "9", T + 4)];
    assert_eq!(store.gaps(POLL, "a").await.unwrap(), of_a);
    assert_eq!(position(store, POLL, "b").await.as_deref(), Some("b's"));
    assert_eq!(store.gaps(POLL, "b").await.unwrap(), [gap("5", "6", T)]);
    assert_eq!(position(store, "source:poll:other", "a").await.as_deref(), Some("another's"));
    assert_eq!(store.gaps("source:poll:other", "a").await.unwrap(), []);

    // All of them at once; the latest gaps first, and all counted.
    let row = |namespace: &str, source: &str, position: &str, saved_at, gaps, latest_gaps: &[SourceGap]| SourceRow {
        namespace: namespace.to_owned(),
        source: source.to_owned(),
        position: Some(position.to_owned()),
        saved_at: Some(saved_at),
        brought_at: Some(saved_at),
        trouble: None,
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

/// Of two processes that read a first page at once, the first one saves its start.
async fn started(store: &dyn Both) {
    store.migrate().await.unwrap();
    let start = async |at, position| {
        store.save_page(POLL, "two", &SavedPage { is_start: true, ..page(at, position, &[]) }).await
    };
    let trouble = SourceTrouble { since: T, failures: 1, error: "HTTP 500".to_owned(), at: T };
    store.save_trouble(POLL, "two", &trouble).await.unwrap();
    assert!(start(T + 1, "first").await.unwrap(), "a failed attempt is no position");
    assert!(!start(T + 2, "second").await.unwrap());
    assert_eq!(position(store, POLL, "two").await.as_deref(), Some("first"));
    save(store, POLL, "two", T + 3, "read", &[]).await;
    assert!(!start(T + 4, "third").await.unwrap());
    let row = store.sources(0).await.unwrap().into_iter().find(|row| row.source == "two").unwrap();
    assert_eq!((row.position.as_deref(), row.saved_at), (Some("read"), Some(T + 3)));
}

/// What keeps a source from being read, also before its first page.
async fn troubled(store: &dyn Both) {
    store.migrate().await.unwrap();
    let trouble = |since, failures, at| SourceTrouble { since, failures, error: "HTTP 500; it's 'odd'".to_owned(), at };
    let row = async |source: &str| {
        store.sources(3).await.unwrap().into_iter().find(|row| row.namespace == POLL && row.source == source).unwrap()
    };
    store.save_trouble(POLL, "new", &trouble(T, 0, T)).await.unwrap();
    store.save_trouble(POLL, "new", &trouble(T, 2, T + 5)).await.unwrap();
    let kept = SavedSource { position: None, trouble: Some(trouble(T, 2, T + 5)), notes: None, followed_at: None };
    assert_eq!(store.saved_source(POLL, "new").await.unwrap(), kept);
    let shown = row("new").await;
    assert_eq!((shown.position, shown.saved_at, shown.brought_at), (None, None, Some(T)));
    assert_eq!(shown.trouble, kept.trouble);

    // What an API answers may hold anything.
    let hostile = SourceTrouble { error: format!("a\0b\r\n</td>{}", "é".repeat(10_000)), ..trouble(T, 3, T + 6) };
    store.save_trouble(POLL, "hostile", &hostile).await.unwrap();
    let error = row("hostile").await.trouble.unwrap().error;
    assert!(error.starts_with("a\u{fffd}b\r\n</td>é") && error.chars().count() == 10_010, "PostgreSQL keeps no NUL");

    // Whether the API answers shows in other sources, in those namespaces, later.
    let namespaces = [POLL.to_owned(), "source:poll:lists/statuses".to_owned()];
    let is_read_within = async |source: (&str, &str), within: (i64, i64)| {
        store.was_another_source_read(&namespaces, source, within).await.unwrap()
    };
    let is_read = async |source: (&str, &str), since| is_read_within(source, (since, T + 100)).await;
    assert!(!is_read((POLL, "new"), T).await);
    save(store, "source:poll:other", "new", T + 9, "elsewhere", &[]).await;
    assert!(!is_read((POLL, "new"), T).await);
    save(store, "source:poll:lists/statuses", "new", T + 9, "read", &[]).await;
    assert!(is_read((POLL, "new"), T + 8).await && !is_read((POLL, "new"), T + 9).await);
    assert!(is_read_within((POLL, "new"), (T, T + 9)).await, "read just now");
    assert!(!is_read_within((POLL, "new"), (T, T + 8)).await, "it is dated ahead");
    assert!(!is_read(("source:poll:lists/statuses", "new"), T).await, "itself is no other");

    // A page ends it. One that brings nothing is not what was brought last.
    let empty = SavedPage { has_new_posts: false, ..page(T + 20, "{}", &[]) };
    store.save_page(POLL, "new", &empty).await.unwrap();
    let shown = row("new").await;
    assert_eq!((shown.saved_at, shown.brought_at, shown.trouble), (Some(T + 20), Some(T), None));
    save(store, POLL, "new", T + 30, "{}", &[]).await;
    assert_eq!(row("new").await.brought_at, Some(T + 30));
    // The position stays where a later poll fails.
    store.save_trouble(POLL, "new", &trouble(T + 40, 0, T + 40)).await.unwrap();
    assert_eq!(position(store, POLL, "new").await.as_deref(), Some("{}"));
}

#[tokio::test]
async fn in_postgres() {
    started(&open_postgres(&postgres::database().await).await).await;
    troubled(&open_postgres(&postgres::database().await).await).await;
    contract(&open_postgres(&postgres::database().await).await).await;
}

#[tokio::test]
async fn in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let store = twitter_updater::store::SqliteStore::open(&folder.path().join("tweets.db"), PATIENCE).await.unwrap();
    contract(&store).await;
    let store = twitter_updater::store::SqliteStore::open(&folder.path().join("other.db"), PATIENCE).await.unwrap();
    troubled(&store).await;
    let store = twitter_updater::store::SqliteStore::open(&folder.path().join("third.db"), PATIENCE).await.unwrap();
    started(&store).await;
}
