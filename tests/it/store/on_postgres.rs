//! What PostgreSQL adds: a server that is slow, refuses, goes away and comes back.

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::Duration;

use secrecy::SecretString;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use twitter_updater::store::{Finding, Lifecycle, Listing, PostgresStore, Posts, SaveCounts, StoreError};

use super::{NS, PATIENCE, T, counts, found, new_tweet, open_postgres, way};
use crate::support::postgres;
use crate::support::wait::{until, until_true};

async fn migrated() -> (PostgresStore, PgConnection) {
    let url = postgres::database().await;
    let store = open_postgres(&url).await;
    store.migrate().await.unwrap();
    (store, PgConnection::connect(&url).await.unwrap())
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_given_up() {
    let url = postgres::database().await;
    let store = PostgresStore::connect(&SecretString::from(url.as_str()), 2, Duration::from_secs(1)).await.unwrap();
    store.migrate().await.unwrap();
    let batch = [found("1", T, counts(1, 2))];
    store.save(NS, &batch).await.unwrap();

    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut holder = other.begin().await.unwrap();
    holder.execute("SELECT FROM tweet FOR UPDATE").await.unwrap();
    let newer = [found("1", T + 1, counts(1, 2))];
    let error = store.save(NS, &newer).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("statement timeout")), "{error:?}");
    holder.rollback().await.unwrap();
    assert_eq!(store.save(NS, &newer).await.unwrap(), SaveCounts { saved: 1, older: 0, changed: 0 });
}

/// After a failover the address leads to the primary again, and connections of the time before do not.
#[tokio::test]
async fn a_connection_to_a_server_that_only_reads_is_given_up() {
    let url = postgres::database().await;
    open_postgres(&url).await.migrate().await.unwrap();
    let mut other = PgConnection::connect(&url).await.unwrap();
    let database: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut other).await.unwrap();
    let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
    other.execute(AssertSqlSafe(set)).await.unwrap();

    let (store, batch) = (open_postgres(&url).await, [found("1", T, counts(1, 2))]);
    let error = store.save(NS, &batch).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("read-only")), "{error:?}");
    assert_eq!(store.tweet(NS, "1").await.unwrap(), None);
    let reset = format!("ALTER DATABASE {database} RESET default_transaction_read_only");
    other.execute(AssertSqlSafe(reset)).await.unwrap();
    assert_eq!(store.save(NS, &batch).await.unwrap().saved, 1);
}

/// The servers here are set to forget it; see also `faults::store`.
#[tokio::test]
async fn what_is_saved_outlives_a_crash_of_the_server() {
    let (store, mut connection) = migrated().await;
    let own: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&mut connection).await.unwrap();
    assert_eq!(own, "off");
    connection
        .execute(
            "CREATE TABLE seen (setting TEXT);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
             CREATE TRIGGER note BEFORE INSERT ON tweet FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .await
        .unwrap();
    store.save(NS, &[found("1", T, counts(1, 2))]).await.unwrap();
    let seen: Vec<String> = sqlx::query_scalar("SELECT setting FROM seen").fetch_all(&mut connection).await.unwrap();
    assert_eq!(seen, ["local"]);
}

#[tokio::test]
async fn migrations_have_no_time_limit() {
    let url = postgres::database().await;
    let store = PostgresStore::connect(&SecretString::from(url.as_str()), 2, Duration::from_millis(1)).await.unwrap();
    let mut other = PgConnection::connect(&url).await.unwrap();
    // A migration that takes longer than a statement may: it waits for a name that is taken here.
    let mut holder = other.begin().await.unwrap();
    holder.execute("CREATE TABLE store_migrations (version BIGINT)").await.unwrap();
    let (migrated, ()) = tokio::join!(store.migrate(), async {
        waiting_for_a_lock(&url).await;
        // And not for a moment only: longer than a statement may take.
        sqlx::query("SELECT pg_sleep(0.1)").execute(&mut *holder).await.unwrap();
        holder.rollback().await.unwrap();
    });
    migrated.unwrap();
}

#[tokio::test]
async fn a_server_that_went_away_is_used_again_when_it_is_back() {
    let mut server = postgres::own();
    let store = open_postgres(&server.url("postgres")).await;
    store.migrate().await.unwrap();
    let batch = [found("1", T, counts(1, 2))];
    store.save(NS, &batch).await.unwrap();

    server.stop();
    for _ in 0..2 {
        let error = store.save(NS, &batch).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    }
    let error = store.check().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    let url = SecretString::from(server.url("postgres"));
    let error = PostgresStore::connect(&url, 1, PATIENCE).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");

    server.start();
    store.check().await.unwrap();
    assert_eq!(store.save(NS, &batch).await.unwrap(), SaveCounts { saved: 1, older: 0, changed: 0 });
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    // It takes the connection (the system does, in its name) and never a word of it.
    let folder = tempfile::tempdir().unwrap();
    let _silent = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let url = format!("postgres:///tweets?host={}&user=me", folder.path().display());
    let error = PostgresStore::connect(&SecretString::from(url), 1, PATIENCE).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("5000 ms")), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_replaced() {
    let url = postgres::database().await;
    // One connection, so that the silent one would be in the way.
    let store = PostgresStore::connect(&SecretString::from(url.as_str()), 1, Duration::from_secs(1)).await.unwrap();
    store.migrate().await.unwrap();
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut holder = other.begin().await.unwrap();
    holder.execute("LOCK TABLE tweet").await.unwrap();
    // Frozen while it waits for the lock, the server can neither answer nor see its own time limit.
    let (counted, backend) = tokio::join!(store.counts(NS), async {
        let backend = waiting_for_a_lock(&url).await;
        signal(backend, "-STOP");
        backend
    });
    holder.rollback().await.unwrap();
    let next = store.counts(NS).await;
    signal(backend, "-CONT");
    let error = counted.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("6000 ms")), "{error:?}");
    next.unwrap();
}

fn signal(process: i32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// The process that waits for a lock in the database at `url`, as soon as one does.
async fn waiting_for_a_lock(url: &str) -> i32 {
    let mut watcher = PgConnection::connect(url).await.unwrap();
    let waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        if let Some(pid) = sqlx::query_scalar(waiting).fetch_optional(&mut watcher).await.unwrap() {
            return pid;
        }
    }
}

#[tokio::test]
async fn errors_say_what_to_do_next() {
    let (store, mut connection) = migrated().await;
    // Whatever goes wrong inside a statement, as the server reports it.
    connection
        .execute(
            "CREATE TABLE fault (sqlstate TEXT);
             CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = (SELECT sqlstate FROM fault); END $$;
             CREATE TRIGGER fail BEFORE INSERT ON tweet FOR EACH ROW EXECUTE FUNCTION fail()",
        )
        .await
        .unwrap();
    let unavailable =
        ["53100", "53200", "53300", "57014", "57P01", "57P03", "40001", "40P01", "08006", "25006", "58030"];
    let schema = ["42P01", "42703"];
    let refused = ["22003", "23514", "42601", "XX001"];
    for (code, expected) in std::iter::empty()
        .chain(unavailable.map(|code| (code, "Unavailable")))
        .chain(schema.map(|code| (code, "Schema")))
        .chain(refused.map(|code| (code, "Refused")))
    {
        connection
            .execute(AssertSqlSafe(format!("DELETE FROM fault; INSERT INTO fault VALUES ('{code}')")))
            .await
            .unwrap();
        let error = store.save(NS, &[found("1", T, counts(1, 2))]).await.unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{code}: {error:?}");
    }
    assert_eq!(store.tweet(NS, "1").await.unwrap(), None);
}

#[tokio::test]
async fn a_lost_race_is_run_again() {
    let (store, mut connection) = migrated().await;
    // A sequence counts the attempts: it does not roll back.
    connection
        .execute(
            "CREATE SEQUENCE attempt;
             CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN
                IF nextval('attempt') < 3 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END IF;
                RETURN NEW;
             END $$;
             CREATE TRIGGER lose BEFORE INSERT ON tweet FOR EACH ROW EXECUTE FUNCTION lose()",
        )
        .await
        .unwrap();
    let saved = store.save(NS, &[found("1", T, counts(1, 2))]).await.unwrap();
    assert_eq!(saved, SaveCounts { saved: 1, older: 0, changed: 1 });
}

#[tokio::test]
async fn tables_of_another_version_are_told() {
    let (store, mut connection) = migrated().await;
    store.check().await.unwrap();
    connection
        .execute("INSERT INTO store_migrations VALUES (999, 'from the future', now(), true, '', 0)")
        .await
        .unwrap();
    for error in [store.check().await.unwrap_err(), store.migrate().await.unwrap_err()] {
        assert!(matches!(&error, StoreError::Schema(why) if why.contains("999")), "{error:?}");
        let told = error.to_string();
        assert!(told.starts_with("the store was written by a newer version") && !told.contains("migrate`"), "{told}");
    }
    connection.execute("UPDATE store_migrations SET checksum = '\\x00'").await.unwrap();
    for error in [store.check().await.unwrap_err(), store.migrate().await.unwrap_err()] {
        assert!(error.to_string().contains("an unreleased version of twitter-updater: export its data"), "{error}");
    }
    connection.execute("DELETE FROM store_migrations").await.unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Schema(_))));
}

#[tokio::test]
async fn a_dropped_table_is_told() {
    let (store, mut connection) = migrated().await;
    connection.execute("DROP TABLE tweet_metrics").await.unwrap();
    assert!(matches!(store.check().await, Err(StoreError::Schema(_))));
}

#[tokio::test]
async fn it_shows_its_name_to_the_server() {
    let url = postgres::database().await;
    let store = PostgresStore::connect(&SecretString::from(url.as_str()), 1, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(names, ["twitter-updater"]);
}

#[tokio::test]
async fn an_error_never_shows_the_password() {
    let secret = "hunter2";
    let urls = [
        format!("me:{secret}@localhost/tweets"),
        format!("postgres://me:{secret}@localhost:99999/tweets"),
        format!("postgres://me:{secret}@localhost/tweets?sslmode={secret}"),
        format!("postgres:///tweets?host=/nowhere&user=me&password={secret}"),
    ];
    for url in urls {
        let error = PostgresStore::connect(&SecretString::from(url.as_str()), 1, PATIENCE).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_touches_no_index_and_leaves_nothing_to_vacuum() {
    const ANSWERS: i64 = 10;
    // A server of its own: an open transaction, in another test's database too, keeps old versions in their places.
    let server = postgres::own();
    let store = open_postgres(&server.url("postgres")).await;
    store.migrate().await.unwrap();
    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
    let answer = |at: i64| {
        let mut answer = found("1", T + at, counts(at, at));
        if let Finding::Found(tweet) = &mut answer.finding {
            // 5 KB, 2 KB of them in no pattern.
            let mut dice = 1_u64;
            let digit = |_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{:x}", dice >> 60)
            };
            let media: String = (0..2_048).map(digit).collect();
            tweet.raw = format!(r#"{{"n":{at},"media":"{media}","{}":0}}"#, "same ".repeat(600));
        }
        answer
    };
    let beside = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'tweet'::regclass";
    store.save(NS, &[answer(0)]).await.unwrap();
    let before: i64 = sqlx::query_scalar(beside).fetch_one(&mut connection).await.unwrap();
    assert_eq!(before, 0, "the object is in the row itself");
    for at in 1..=ANSWERS {
        assert_eq!(store.save(NS, &[answer(at)]).await.unwrap().saved, 1);
    }
    assert_eq!(sqlx::query_scalar::<_, i64>(beside).fetch_one(&mut connection).await.unwrap(), before);
    // The server's own count, which it gives when it finds time.
    let updates = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tweet'";
    let (all, hot) = until("the updates are counted", PATIENCE, async || {
        let counted: (i64, i64) = sqlx::query_as(updates).fetch_one(&mut connection).await.unwrap();
        (counted.0 == ANSWERS).then_some(counted)
    })
    .await;
    assert_eq!(all, hot, "each new version stands beside the old one");
}

#[tokio::test]
async fn a_page_is_read_from_its_index() {
    let (store, mut connection) = migrated().await;
    let ended: Vec<_> = (10_000..20_000).map(|n| new_tweet(&n.to_string(), T, None)).collect();
    let live: Vec<_> = (20_000..22_000).map(|n| new_tweet(&n.to_string(), T, Some(T))).collect();
    store.record(NS, T, &way(), &ended).await.unwrap();
    store.record(NS, T, &way(), &live).await.unwrap();
    let dead: Vec<_> = (0..2_000).map(|n| (format!("dead{n}"), "why".to_owned())).collect();
    store.mark_dead(NS, T, &dead).await.unwrap();
    connection.execute("ANALYZE tweet").await.unwrap();
    for of in [Listing::Tracked, Listing::Dead, Listing::Ended] {
        let first = store.page(NS, of, None, 100).await.unwrap();
        assert_eq!(store.page(NS, of, Some(&first[99].id), 100).await.unwrap().len(), 100);
    }
    // The server's own count, which it gives when it finds time.
    let scans = "SELECT count(*) FROM pg_stat_user_indexes \
                 WHERE indexrelname IN ('tweet_living', 'tweet_dead', 'tweet_ended') AND idx_scan = 2 AND idx_tup_read = 200";
    until_true("both pages of each kind are read from their index", PATIENCE, async || {
        sqlx::query_scalar::<_, i64>(scans).fetch_one(&mut connection).await.unwrap() == 3
    })
    .await;
}

#[tokio::test]
async fn the_oldest_transaction_is_named_until_it_ends() {
    let (store, mut notebook) = migrated().await;
    let older_than = async |ms| store.old_reader(Duration::from_millis(ms)).await.unwrap();
    assert_eq!(older_than(0).await, None, "a session without a transaction keeps nothing");
    for statement in
        ["SET application_name = 'a notebook'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM tweet"]
    {
        notebook.execute(statement).await.unwrap();
    }
    let old = until("it is old enough", PATIENCE, async || older_than(200).await).await;
    assert!(old.age_ms > 200 && old.what.contains("a notebook, idle in transaction"), "{old:?}");
    assert_eq!(older_than(3_600_000).await, None);
    notebook.execute("COMMIT").await.unwrap();
    assert_eq!(older_than(0).await, None);
}
