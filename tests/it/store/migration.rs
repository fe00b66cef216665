//! A store that the version before has filled: its rows get what this version reads out of their objects.
//!
//! `MIGRATION_ROWS=1000000 cargo test --test it store::migration -- --nocapture --test-threads 1` has the figures of a large
//! one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use twitter_updater::model::pipeline_id::NAMESPACE;
use twitter_updater::providers::registry::details_of;
use twitter_updater::store::{
    Communities, Lifecycle, Positions, Posts, SavedPage, Sighting, SourceRow, SourceTrouble, SqliteStore, Store,
};

use super::{PATIENCE, T, counts, found, new_tweet, on_sqlite, open_postgres, way};
use crate::support::postgres;

/// Nobody waits longer for a row while the tables change.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

fn rows() -> u64 {
    std::env::var("MIGRATION_ROWS").map_or(5_000, |rows| rows.parse().unwrap())
}

/// Takes away what PostgreSQL's migration made that brought details.
fn undo() -> String {
    let columns =
        ["lang", "reply_to", "retweet_of", "quote_of", "conversation_id", "reply_settings", "truncated", "unreadable"];
    let columns: String = columns.map(|column| format!("ALTER TABLE tweet DROP COLUMN {column};")).concat();
    format!(
        "DROP TRIGGER tweet_changes ON tweet; DROP FUNCTION tweet_changes;
         DROP TABLE tweet_change; DROP TABLE tweet_way; DROP TABLE tweet_fill; {columns}
         DELETE FROM store_migrations WHERE version = 5;"
    )
}

/// Fills the table with objects of 4 KB, their ids in no order; `series` gives n from 0 on.
fn fill(series: &str) -> String {
    // A prime above, so that each n has another id.
    let id = "(1400000000000000000 + (n * 7919) % 10000019)";
    let object = format!(
        r#"'{{"id_str":"' || {id} || '","created_at":"Tue Mar 21 20:50:14 +0000 2006","full_text":"n ' || n ||
           '","lang":"pt","in_reply_to_status_id_str":"20","user":{{"id_str":"12","screen_name":"jack"}},"entities":"{}"}}'"#,
        "4 KB of them ".repeat(300)
    );
    format!(
        "INSERT INTO tweet (namespace, id, state, text, raw, first_seen, checked_at, lookups, misses)
         SELECT '{NAMESPACE}', {id} || '', 'live', 'n ' || n, {object}, 0, 1, 1, 0 FROM {series}"
    )
}

/// Migrates and fills in; in between it ends and begins again.
async fn migrated(store: &dyn Store, again: &dyn Store, what: &str) {
    let watch = Instant::now();
    store.migrate().await.unwrap();
    let tables = watch.elapsed();
    let mut filled = store.fill_details(details_of).await.unwrap();
    loop {
        match again.fill_details(details_of).await.unwrap() {
            0 => break,
            rows => filled += rows,
        }
    }
    let pages = rows() / 1_000 + 1;
    assert!((rows()..=rows() + pages).contains(&filled), "{filled}: each page once");
    println!("{what}: {} rows; tables after {tables:?}, all filled in after {:?}", rows(), watch.elapsed());
    let stored = again.tweet(NAMESPACE, "1400000000000000000").await.unwrap().unwrap();
    let details = stored.details;
    assert_eq!(
        (details.lang.as_deref(), details.reply_to.as_deref(), details.truncated),
        (Some("pt"), Some("20"), Some(false))
    );
    assert_eq!((stored.text.as_deref(), stored.checked_at.is_some()), (Some("n 0"), true));
    assert_eq!(again.changes(NAMESPACE, "1400000000000000000").await.unwrap(), [], "filled in is no change");
}

const FILLED: &str = "SELECT count(*) FROM tweet WHERE lang = 'pt' AND reply_to = '20'";

#[tokio::test]
async fn of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let open = async || SqliteStore::open(&path, PATIENCE).await.unwrap();
    drop(open().await); // makes the file
    let mut plain = on_sqlite::plain(&path).await;
    let mut before = sqlx_macros::migrate!("src/store/migrations/sqlite");
    before.dangerous_set_table_name("store_migrations");
    before.run_direct(Some(3), &mut plain, false).await.unwrap();
    let series = format!(
        "(WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {}) SELECT n FROM s)",
        rows()
    );
    plain.execute(AssertSqlSafe(fill(&series))).await.unwrap();
    let history = "INSERT INTO tweet_metrics (namespace, id, checked_at, favorite_count)
                   SELECT namespace, id, 1, substr(id, -1) + 0 FROM tweet";
    plain.execute(history).await.unwrap();
    migrated(&open().await, &open().await, "SQLite").await;
    let id = "1400000000000007919";
    let history = open().await.history(NAMESPACE, id).await.unwrap();
    assert_eq!(history.iter().map(|row| row.metrics.favorite_count).collect::<Vec<_>>(), [Some(9)]);
    let rows_of_history: i64 =
        sqlx::query_scalar("SELECT count(*) FROM tweet_metrics").fetch_one(&mut plain).await.unwrap();
    assert_eq!(rows_of_history as u64, rows());
    let filled: i64 = sqlx::query_scalar(FILLED).fetch_one(&mut plain).await.unwrap();
    assert_eq!(filled as u64, rows());
}

#[tokio::test]
async fn of_postgres_while_others_write() {
    let server = postgres::own();
    let url = server.url("postgres");
    open_postgres(&url).await.migrate().await.unwrap();
    let mut plain = PgConnection::connect(&url).await.unwrap();
    plain.execute(AssertSqlSafe(undo())).await.unwrap();
    let series = format!("generate_series(0::bigint, {}) AS s (n)", rows() - 1);
    plain.execute(AssertSqlSafe(fill(&series))).await.unwrap();

    // What the version before does all the while: a batch of rows, written in the order of their ids.
    let (done, longest_ms, writes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let others = async {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        while !done.load(Ordering::Relaxed) {
            let watch = Instant::now();
            connection
                .execute(
                    "WITH locked AS MATERIALIZED (SELECT id FROM tweet ORDER BY namespace, id LIMIT 100 FOR UPDATE)
                     UPDATE tweet SET favorite_count = COALESCE(favorite_count, 0) + 1, checked_at = checked_at + 1
                     FROM locked WHERE tweet.id = locked.id",
                )
                .await
                .unwrap();
            longest_ms.fetch_max(watch.elapsed().as_millis() as u64, Ordering::Relaxed);
            writes.fetch_add(1, Ordering::Relaxed);
        }
    };
    let migrating = async {
        migrated(&open_postgres(&url).await, &open_postgres(&url).await, "PostgreSQL").await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(others, migrating);
    let (longest, writes) = (Duration::from_millis(longest_ms.into_inner()), writes.into_inner());
    println!("{writes} batches of others meanwhile; the longest took {longest:?}");
    assert!(writes > 1 && longest < LONGEST_WAIT, "{writes} batches, {longest:?}");
    let filled: i64 = sqlx::query_scalar(FILLED).fetch_one(&mut plain).await.unwrap();
    assert_eq!(filled as u64, rows());
}

/// Rows of the version before get what their objects say of an answered account and of labels.
async fn of_replies(store: &dyn Store, mut plain: impl AsyncFnMut(&str), undo: &str) {
    store.migrate().await.unwrap();
    let uri = |key: &str| format!("at://did:plc:ann/app.bsky.feed.post/{key}");
    let raw = format!(
        r#"{{"uri":"{}","author":{{"did":"did:plc:ann","labels":[{{"val":"!no-unauthenticated"}}]}},"record":{{"text":"a","reply":{{"parent":{{"uri":"at://did:plc:bob/app.bsky.feed.post/k"}}}}}}}}"#,
        uri("a")
    );
    for (namespace, id, raw) in [
        (NAMESPACE, "21".to_owned(), r#"{"id_str":"21","full_text":"a","in_reply_to_user_id_str":"12"}"#.to_owned()),
        ("bluesky:update", uri("a"), raw),
    ] {
        plain(&format!(
            "INSERT INTO tweet (namespace, id, state, text, raw, first_seen, checked_at, lookups, misses)
             VALUES ('{namespace}', '{id}', 'live', 'a', '{raw}', 0, 1, 1, 0)"
        ))
        .await;
    }
    plain(undo).await;
    store.migrate().await.unwrap();
    while store.fill_details(details_of).await.unwrap() > 0 {}
    let details = async |namespace: &str, id: &str| store.tweet(namespace, id).await.unwrap().unwrap().details;
    assert_eq!(details(NAMESPACE, "21").await.reply_to_author.as_deref(), Some("12"));
    let of_bluesky = details("bluesky:update", &uri("a")).await;
    assert_eq!(
        (of_bluesky.reply_to_author.as_deref(), of_bluesky.labels.as_deref()),
        (Some("did:plc:bob"), Some("!no-unauthenticated"))
    );
}

const UNDO_REPLIES: &str =
    "ALTER TABLE tweet DROP COLUMN missing_reason; ALTER TABLE tweet DROP COLUMN reply_to_author;
     ALTER TABLE tweet DROP COLUMN labels; DELETE FROM store_migrations WHERE version = 23;";

#[tokio::test]
async fn replies_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    let mut plain = on_sqlite::plain(&path).await;
    let undo = format!("DROP TRIGGER account_takes_handle; DROP TRIGGER account_takes_first_handle; {UNDO_REPLIES}");
    of_replies(
        &store,
        async |text: &str| {
            plain.execute(AssertSqlSafe(text.to_owned())).await.unwrap();
        },
        &undo,
    )
    .await;
}

#[tokio::test]
async fn replies_of_postgres() {
    let server = postgres::own();
    let url = server.url("postgres");
    let store = open_postgres(&url).await;
    let mut plain = PgConnection::connect(&url).await.unwrap();
    let undo = format!("DROP FUNCTION account_takes_handle CASCADE; {UNDO_REPLIES}");
    of_replies(
        &store,
        async |text: &str| {
            plain.execute(AssertSqlSafe(text.to_owned())).await.unwrap();
        },
        &undo,
    )
    .await;
}

const POLL: &str = "source:poll:search/tweets";

/// What the version before saves of a source.
fn save_of_before(source: &str, at: i64) -> String {
    format!(
        "INSERT INTO source_position (namespace, source, position, saved_at) VALUES ('{POLL}', '{source}', '{{}}', {at})
         ON CONFLICT (namespace, source) DO UPDATE SET position = excluded.position, saved_at = excluded.saved_at"
    )
}

/// Positions of the version before get the new columns, and it may go on writing while this version reads and writes.
async fn of_positions<S: Store + Positions>(store: &S, mut before: impl AsyncFnMut(String), undo: String) {
    store.migrate().await.unwrap();
    before(undo).await;
    before(save_of_before("old", 10)).await;
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    let row = async |source: &str| -> SourceRow {
        store.sources(3).await.unwrap().into_iter().find(|row| row.source == source).unwrap()
    };
    let moments = async |source: &str| {
        let row = row(source).await;
        (row.saved_at, row.brought_at, row.trouble.map(|trouble| trouble.at))
    };
    assert_eq!(moments("old").await, (Some(10), Some(10), None));
    before(save_of_before("old", 20)).await;
    before(save_of_before("new", 20)).await;
    assert_eq!(moments("old").await, (Some(20), Some(10), None));
    assert_eq!(moments("new").await, (Some(20), None, None), "it does not say");
    assert_eq!(store.saved(POLL, "new").await.unwrap().position.as_deref(), Some("{}"));

    // From the next page on it is known, also where that brings nothing.
    let page = SavedPage { at: 30, position: "{}", gaps: &[], brought: false, notes: None, followed_at: None };
    store.save_page(POLL, "new", &page).await.unwrap();
    assert_eq!(moments("new").await, (Some(30), Some(30), None));

    // A trouble that the version before does not end is older than its page, which is how the two are told apart.
    let trouble = SourceTrouble { since: 35, failures: 2, error: "HTTP 500".to_owned(), at: 40 };
    store.save_trouble(POLL, "old", &trouble).await.unwrap();
    before(save_of_before("old", 50)).await;
    assert_eq!(moments("old").await, (Some(50), Some(10), Some(40)));
    store.save_page(POLL, "old", &SavedPage { at: 60, brought: true, ..page }).await.unwrap();
    assert_eq!(moments("old").await, (Some(60), Some(60), None));
}

#[tokio::test]
async fn of_positions_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    let mut plain = on_sqlite::plain(&path).await;
    let undo = format!(
        "DROP TABLE source_position; DROP TABLE source_gap; DROP TABLE visit; {} \
         DELETE FROM store_migrations WHERE version IN (5, 16);",
        include_str!("../../../src/store/migrations/sqlite/0003_sources.sql")
    );
    let before = async |sql: String| {
        plain.execute(AssertSqlSafe(sql)).await.unwrap();
    };
    of_positions(&store, before, undo).await;
}

#[tokio::test]
async fn of_positions_in_postgres() {
    let url = postgres::database().await;
    let store = open_postgres(&url).await;
    let mut plain = PgConnection::connect(&url).await.unwrap();
    let undo = format!(
        "DROP TABLE source_position; DROP TABLE source_gap; DROP TABLE visit; {} \
         DELETE FROM store_migrations WHERE version IN (6, 16);",
        include_str!("../../../src/store/migrations/postgres/0004_sources.sql")
    );
    let before = async |sql: String| {
        plain.execute(AssertSqlSafe(sql)).await.unwrap();
    };
    of_positions(&store, before, undo).await;
}

/// What the version before left of posts that it removed (2) or blanked (3) goes; what it says of others stays.
async fn of_appearances<S: Store + Communities>(store: &S, mut before: impl AsyncFnMut(String)) {
    store.migrate().await.unwrap();
    before(
        "DROP INDEX community_appearance_by_post; DELETE FROM store_migrations WHERE version IN (19, 21);".to_owned(),
    )
    .await;
    let networks = [
        ("tweet:update", "followers:twitter", "community:twitter:pt-pt"),
        ("bluesky:update", "friends:bluesky", "community:bluesky:pt"),
        ("mastodon:update:social", "followers:mastodon:social", "community:mastodon:social:pt"),
    ];
    for (posts, list, community) in networks {
        store.save(posts, &[found("1", T, counts(1, 1))]).await.unwrap();
        store.record(posts, T, &way(), &[new_tweet("3", T, Some(T))]).await.unwrap();
        store.record(list, T, &way(), &[new_tweet("12", T, Some(T))]).await.unwrap();
        let sightings = ["1", "2", "3"].map(|post| Sighting { account: "12".into(), post: post.into(), at: T });
        store.record_sightings(list, &sightings).await.unwrap();
        let shown = [(1, "'1'"), (2, "'2'"), (3, "'3'"), (4, "NULL")]
            .map(|(n, post)| format!("('{community}', 'a', '{n}', 'mentioned', {post}, 0)"));
        let searched = [1, 2, 3].map(|post| format!("('{community}', 'b', '{post}', 'search', '{post}', 0)"));
        let rows = [&shown[..], &searched[..]].concat().join(", ");
        before(format!(
            "INSERT INTO community_appearance (namespace, account, source, reason, post, first_at) VALUES {rows}"
        ))
        .await;
    }
    store.migrate().await.unwrap();
    for (_, list, community) in networks {
        assert_eq!(store.posts_of(list, "12", 9).await.unwrap(), ["1"], "{list}");
        let posts = async |account: &str| -> Vec<Option<String>> {
            let known = store.appearances(community, account, 9).await.unwrap();
            known.into_iter().map(|of| of.post).collect()
        };
        assert_eq!(posts("b").await, [Some("1".to_owned())], "{community}");
        let shown = posts("a").await;
        let still: Vec<&str> = shown.iter().flatten().map(String::as_str).collect();
        assert_eq!((shown.len(), still), (4, vec!["1"]), "{community}");
    }
}

#[tokio::test]
async fn of_appearances_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    let mut plain = on_sqlite::plain(&path).await;
    let before = async |sql: String| {
        plain.execute(AssertSqlSafe(sql)).await.unwrap();
    };
    of_appearances(&store, before).await;
}

#[tokio::test]
async fn of_appearances_in_postgres() {
    let url = postgres::database().await;
    let store = open_postgres(&url).await;
    let mut plain = PgConnection::connect(&url).await.unwrap();
    let before = async |sql: String| {
        plain.execute(AssertSqlSafe(sql)).await.unwrap();
    };
    of_appearances(&store, before).await;
}
