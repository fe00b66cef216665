//! What SQLite adds: a file that several processes share.

use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};
use twitter_updater::store::{Lifecycle, Posts, SaveCounts, SqliteStore, StoreError};

use super::{NS, PATIENCE, T, counts, found, new_tweet, way};

pub(super) async fn plain(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_and_migrate_a_fresh_file_at_once() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tweets.db");
        let starts = (0..8).map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let store = SqliteStore::open(&path, PATIENCE).await?;
                store.migrate().await?;
                store.check().await
            })
        });
        for started in join_all(starts).await {
            started.unwrap().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_share_a_file() {
    const ROUNDS: i64 = 50;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let writers = (0..2).map(|writer| {
        let path = path.clone();
        tokio::spawn(async move {
            let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
            store.migrate().await.unwrap();
            for round in 0..ROUNDS {
                let at = T + 2 * round + writer;
                let batch: Vec<_> = (0..20).map(|id| found(&id.to_string(), at, counts(at - T, 0))).collect();
                let saved = store.save(NS, &batch).await.unwrap();
                assert_eq!(saved.saved + saved.older, 20);
                store.record(NS, at, &way(), &[new_tweet(&format!("{writer}-{round}"), T, Some(at))]).await.unwrap();
            }
        })
    });
    for written in join_all(writers).await {
        written.unwrap();
    }
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    for id in 0..20 {
        let stored = store.tweet(NS, &id.to_string()).await.unwrap().unwrap();
        assert_eq!(stored.metrics, counts(2 * ROUNDS - 1, 0));
    }
    assert_eq!(store.counts(NS).await.unwrap().live, 20 + 2 * ROUNDS as u64);
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, Duration::from_millis(50)).await.unwrap();
    store.migrate().await.unwrap();
    let batch = [found("1", T, counts(1, 2))];
    let mut other = plain(&path).await;
    let holder = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let error = store.save(NS, &batch).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    // Reading goes on meanwhile, and a start with nothing to migrate needs no lock.
    store.check().await.unwrap();
    store.migrate().await.unwrap();
    assert_eq!(store.tweet(NS, "1").await.unwrap(), None);
    holder.rollback().await.unwrap();
    assert_eq!(store.save(NS, &batch).await.unwrap(), SaveCounts { saved: 1, older: 0, changed: 1 });
}

#[tokio::test]
async fn the_file_is_durable_and_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    let mut other = plain(&path).await;
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut other).await.unwrap();
    assert_eq!(mode, "wal");
    let tables: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .fetch_all(&mut other)
        .await
        .unwrap();
    let ours = [
        "account_change_row",
        "account_count_row",
        "account_handle",
        "account_post_row",
        "account_row",
        "community_account",
        "community_appearance",
        "community_change",
        "community_growth",
        "forgotten_key",
        "forgotten_person",
        "list_account",
        "list_crawl",
        "list_edge",
        "list_network",
        "list_page",
        "media_file",
        "media_room",
        "media_row",
        "media_use_row",
        "post_language_row",
        "schedule_budget",
        "source_gap",
        "source_position",
        "sqlite_sequence",
        "store_migrations",
        "tweet",
        "tweet_change_row",
        "tweet_metrics_row",
        "tweet_way_row",
        "visit",
    ];
    assert_eq!(tables, ours);
    store.save(NS, &[found("1", T, counts(1, 2))]).await.unwrap();
    drop(store);
    let again = SqliteStore::open(&path, PATIENCE).await.unwrap();
    assert_eq!(again.tweet(NS, "1").await.unwrap().unwrap().metrics, counts(1, 2));
}

#[tokio::test]
async fn tables_of_another_version_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    let mut other = plain(&path).await;
    other.execute("INSERT INTO store_migrations VALUES (999, 'from the future', 0, true, x'', 0)").await.unwrap();
    for error in [store.check().await.unwrap_err(), store.migrate().await.unwrap_err()] {
        assert!(matches!(&error, StoreError::Schema(why) if why.contains("999")), "{error:?}");
        let told = error.to_string();
        assert!(told.starts_with("the store was written by a newer version") && !told.contains("migrate`"), "{told}");
    }
    other.execute("UPDATE store_migrations SET checksum = x'00'").await.unwrap();
    for error in [store.check().await.unwrap_err(), store.migrate().await.unwrap_err()] {
        assert!(error.to_string().contains("an unreleased version of twitter-updater: export its data"), "{error}");
    }
    other.execute("DELETE FROM store_migrations WHERE version = 999; DROP VIEW tweet_metrics").await.unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Schema(_))));
}

#[tokio::test]
async fn what_is_not_a_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    std::fs::write(&path, "not a database, though long enough to have a header of a hundred bytes ".repeat(9)).unwrap();
    let error = SqliteStore::open(&path, PATIENCE).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    // No folder: told at once, whatever the patience.
    let error = SqliteStore::open(&folder.path().join("none/tweets.db"), PATIENCE).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_page_is_read_from_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    SqliteStore::open(&path, PATIENCE).await.unwrap().migrate().await.unwrap();
    let mut plain = plain(&path).await;
    for (states, index) in [("state IN ('live', 'unavailable')", "tweet_living"), ("state = 'dead'", "tweet_dead")] {
        let page = format!(
            "EXPLAIN QUERY PLAN SELECT id, state, created_at, next_due, reason FROM tweet \
             WHERE namespace = $1 AND {states} AND id < $2 ORDER BY id DESC LIMIT $3"
        );
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(page)).fetch_all(&mut plain).await.unwrap();
        let [(.., step)] = &plan[..] else { panic!("more than a walk: {plan:?}") };
        assert!(step.contains(&format!("{index} (namespace=? AND id<?)")), "{step}");
    }
}

#[tokio::test]
async fn nothing_is_written_into_a_file_that_was_deleted_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    let gone = async |says: &str| {
        for error in [
            store.save(NS, &[found("1", T, counts(1, 1))]).await.unwrap_err(),
            store.record(NS, T, &way(), &[new_tweet("2", T, Some(T))]).await.unwrap_err(),
            store.mark_dead(NS, T, &[("3".into(), "why".into())]).await.unwrap_err(),
        ] {
            assert!(matches!(&error, StoreError::Gone(why) if why.contains(says)), "{error}");
        }
    };
    std::fs::rename(&path, folder.path().join("aside.db")).unwrap();
    gone(".db was deleted").await;
    std::fs::write(&path, "").unwrap();
    gone(".db was replaced").await;
    std::fs::rename(folder.path().join("aside.db"), &path).unwrap();
    assert_eq!(store.save(NS, &[found("1", T, counts(1, 1))]).await.unwrap().saved, 1);
}
