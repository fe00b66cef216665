//! A service that is asked for and not there, or not fit: one clear line, 69, and no other in its place.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use twitter_updater::simulator::{self, Fault, SimulatorOptions};

use super::*;
use crate::support::port::Port;
use crate::support::postgres;
use crate::support::process::command;
use crate::support::redis::TestRedis;

/// The commands that need the queue, and those that need the store.
const QUEUE: [&[&str]; 4] = [&["status"], &["enqueue"], &["updater"], &["dead", "list"]];
const LEDGER: &[&str] = &["credentials"];
const STORE: [&[&str]; 4] = [&["enqueue"], &["updater"], &["rebuild"], &["dead", "retry", "--all"]];

/// The one line that is no log line.
fn refuses(home: &Home, arguments: &[&str], settings: &[(&str, &str)], says: &str) {
    // No paths are set: what is made by mistake is made in the folder it runs in.
    let settings = variables(&[&[("twitter.api", "http://127.0.0.1:9"), ("log.level", "error")], settings].concat());
    let output = command(arguments, &settings).current_dir(home.folder.path()).output().unwrap();
    says_one_line(&output, 69, says);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(!text(&output.stderr).contains("canary"), "{}", text(&output.stderr));
}

/// The same of `rebuild`, which needs the queue once there is a store.
fn refuses_to_rebuild(settings: &[(&str, &str)], says: &str) {
    let home = Home::new();
    let (store, queue) = (home.path("store.db"), home.path("queue.db"));
    let store = ("store.sqlite.path", store.to_str().unwrap());
    let stored = home.settings(&[store, ("queue.embedded.path", queue.to_str().unwrap())]);
    assert!(run(&["enqueue", &home.file("ids.txt", young(1).join("\n"))], &stored).status.success());
    refuses(&home, &["rebuild"], &[settings, &[store]].concat(), says);
}

fn files(home: &Home) -> usize {
    std::fs::read_dir(home.folder.path()).unwrap().count()
}

#[test]
fn a_redis_that_is_not_there_is_not_replaced() {
    let home = Home::new();
    let port = Port::take();
    let free = port.address();
    let nobody = format!("redis://:canary@{free}");
    let no_socket = format!("redis+unix://{}/none.sock?pass=canary", home.folder.path().display());
    let no_sentinel = format!("redis+sentinel://:canary@{free},{free}/service?sentinel_password=canary");
    let no_node = format!("redis+cluster://:canary@{free},{free}");
    for arguments in QUEUE {
        for url in [&nobody, &no_socket, &no_sentinel, &no_node] {
            refuses(
                &home,
                arguments,
                &[("queue.backend", "redis"), ("queue.redis.url", url), ("queue.redis.allow_plain_password", "true")],
                "the queue cannot be used (queue.redis.url is redis",
            );
        }
    }
    let absent = [("queue.backend", "redis"), ("queue.redis.url", &*nobody)];
    refuses_to_rebuild(&absent, "the queue cannot be used (queue.redis.url is redis");
    refuses(
        &home,
        LEDGER,
        &[("queue.backend", "redis"), ("queue.redis.url", &nobody)],
        &format!("the quota ledger cannot be used (queue.redis.url is redis://***@{free}"),
    );
    assert_eq!(files(&home), 0, "an embedded file was made");
}

/// A browser's history, say, to which a setting leads by mistake.
#[tokio::test]
async fn the_file_of_another_program_is_refused_and_stays_as_it_is() {
    let home = Home::new();
    let file = home.path("history.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let mut other = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    other.execute("CREATE TABLE visits (url TEXT)").await.unwrap();
    other.close().await.unwrap();
    let (before, path) = (std::fs::read(&file).unwrap(), file.to_str().unwrap());
    for (setting, commands) in
        [("queue.embedded.path", &QUEUE[..]), ("store.sqlite.path", &STORE), ("queue.embedded.path", &[LEDGER])]
    {
        for arguments in commands {
            refuses(
                &home,
                arguments,
                &[(setting, path)],
                "history.db belongs to another program (it has the table \"visits\")",
            );
        }
    }
    refuses_to_rebuild(&[("queue.embedded.path", path)], "history.db belongs to another program");
    refuses(&home, &["export", "posts"], &[("store.sqlite.path", path)], "belongs to another program");
    assert!(std::fs::read(&file).unwrap() == before);
    assert!(!home.path("history.db-wal").exists() && !home.path("history.db-shm").exists());
}

#[test]
fn a_redis_that_would_forget_is_refused() {
    let home = Home::new();
    let redis = TestRedis::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    for arguments in QUEUE {
        let settings = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
        refuses(&home, arguments, &settings, "maxmemory-policy \"allkeys-lru\"");
    }
    let settings = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
    refuses_to_rebuild(&settings, "maxmemory-policy \"allkeys-lru\"");
    assert_eq!(files(&home), 0, "an embedded file was made");
}

#[test]
fn a_redis_with_another_password_is_told_from_one_that_is_away() {
    let home = Home::new();
    let redis = TestRedis::start(&["--requirepass", "another"]);
    let url = format!("{}?pass=canary", redis.url);
    refuses(&home, &["status"], &[("queue.backend", "redis"), ("queue.redis.url", &url)], "password");
    let without = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url)];
    refuses(&home, &["status"], &without, "Redis requires a password: write queue.redis.url as ");
}

#[test]
fn a_postgres_that_is_not_there_is_not_replaced() {
    let home = Home::new();
    let queue = home.path("queue.db");
    let nobody = format!("postgres:///db?host={}&user=me&password=canary", home.folder.path().display());
    for arguments in STORE {
        let settings = [
            ("store.backend", "postgres"),
            ("store.postgres.url", &nobody),
            ("queue.embedded.path", queue.to_str().unwrap()),
        ];
        refuses(&home, arguments, &settings, "the store cannot be used (store.postgres.url is postgres:///db?host=");
    }
    assert!(!home.path("twitter-updater.db").exists(), "an embedded file was made");
    refuses(
        &home,
        &["migrate"],
        &[("store.backend", "postgres"), ("store.postgres.url", &nobody)],
        "the store cannot be used (store.postgres.url is ",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_can_never_serve_ends_the_updater() {
    let home = Home::new();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    api.faults().add(Fault::Status { status: 403, code: Some(453) });
    let own = [("tweet_age", "1h: 100ms"), ("updater.buffer_ttl", "50ms"), ("log.level", "off")];
    let settings = home.settings(&[&own[..], &[("twitter.api", &*api.base_url())]].concat());
    let ids = home.file("ids.txt", young(10).join("\n"));
    assert!(run(&["enqueue", &ids], &settings).status.success());
    says_one_line(&run(&["updater"], &settings), 69, "does not include statuses/lookup");
    let stats = status(&settings);
    assert_eq!((&stats["delayed"], &stats["leased"]), (&10.into(), &0.into()));
}

/// Windows and old clusters make such databases.
#[tokio::test]
async fn a_database_that_cannot_store_all_characters_is_refused() {
    let home = Home::new();
    let database = postgres::database().await;
    let mut connection = PgConnection::connect(&database).await.unwrap();
    for encoding in ["WIN1252", "LATIN1", "EUC_JP", "SQL_ASCII"] {
        let name = format!("in_{}", encoding.to_lowercase());
        let make = format!("CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
        connection.execute(AssertSqlSafe(make)).await.unwrap();
        let (_, server) = database.split_once("postgres:///").unwrap();
        let url = format!("postgres:///{name}?{}", server.split_once('?').unwrap().1);
        let settings =
            [("store.backend", "postgres"), ("store.postgres.url", &*url), ("queue.embedded.path", "queue.db")];
        let says = format!("the database \"{name}\" has the encoding {encoding}");
        for arguments in STORE.into_iter().chain([&["migrate"] as &[&str], &["export", "posts"]]) {
            refuses(&home, arguments, &settings, &says);
            refuses(&home, arguments, &settings, "ENCODING 'UTF8'");
        }
    }
}

#[tokio::test]
async fn a_postgres_without_tables_says_what_to_do() {
    let home = Home::new();
    let queue = home.path("queue.db");
    let database = postgres::database().await;
    let settings = [
        ("store.backend", "postgres"),
        ("store.postgres.url", &*database),
        ("queue.embedded.path", queue.to_str().unwrap()),
    ];
    for arguments in STORE {
        refuses(&home, arguments, &settings, "run `twitter-updater migrate`");
    }
    for _ in 0..2 {
        let migrated = run(&["migrate"], &home.settings(&settings));
        assert_eq!(
            (migrated.status.code(), text(&migrated.stdout)),
            (Some(0), "the store's tables are up to date\n".into())
        );
    }
    let ids = home.file("ids.txt", young(2).join("\n"));
    assert_eq!(run(&["enqueue", &ids], &home.settings(&settings)).status.code(), Some(0));
}
