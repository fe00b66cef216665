//! Measures the cost of a researcher's long query for the updates, on PostgreSQL and SQLite.

use std::path::Path;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, SqliteConnection};
use twitter_updater::base::clock::wall_ms;
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::postgres;
use crate::support::process::{Process, Variables, run, run_with_input, text, variables};
use crate::support::wait::until_true;

const POSTS: u32 = 20_000;
const SPAN: Duration = Duration::from_secs(60);
const WITHIN: Duration = Duration::from_secs(120);

/// Figures of the store at one moment.
#[derive(Debug, Clone, Copy)]
struct StoreFigures {
    updates: i64,
    dead_rows: i64,
    bytes: u64,
}

/// A store that the test reads, and in which it holds a transaction open.
enum Store {
    Postgres(String),
    Sqlite(String),
}

impl Store {
    async fn figures(&self) -> StoreFigures {
        const UPDATES: &str = "SELECT CAST(coalesce(sum(lookups), 0) AS BIGINT) FROM tweet";
        match self {
            Self::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let updates = sqlx::query_scalar(UPDATES).fetch_one(&mut connection).await.unwrap();
                let dead = "SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables";
                let dead_rows = sqlx::query_scalar(dead).fetch_one(&mut connection).await.unwrap();
                let size = "SELECT pg_database_size(current_database())";
                let bytes: i64 = sqlx::query_scalar(size).fetch_one(&mut connection).await.unwrap();
                StoreFigures { updates, dead_rows, bytes: bytes.unsigned_abs() }
            }
            Self::Sqlite(path) => {
                let mut connection = SqliteConnection::connect(&format!("sqlite://{path}")).await.unwrap();
                let updates = sqlx::query_scalar(UPDATES).fetch_one(&mut connection).await.unwrap();
                let size = |path: String| std::fs::metadata(path).map_or(0, |file| file.len());
                StoreFigures { updates, dead_rows: 0, bytes: size(path.clone()) + size(format!("{path}-wal")) }
            }
        }
    }

    /// Measures a span: updates per second, and the growth of dead rows and MB.
    async fn measure(&self, what: &str) -> f64 {
        let before = self.figures().await;
        tokio::time::sleep(SPAN).await; // the measured span
        let after = self.figures().await;
        let rate = (after.updates - before.updates) as f64 / SPAN.as_secs_f64();
        println!(
            "{what}: {rate:.0} updates per second, {:+} dead rows, {:+.1} MB in {} s",
            after.dead_rows - before.dead_rows,
            (after.bytes as f64 - before.bytes as f64) / 1e6,
            SPAN.as_secs()
        );
        rate
    }

    /// Measures a span while an open transaction holds a snapshot of all posts.
    async fn measure_beside_a_query(&self, what: &str) -> f64 {
        const ALL: &str = "SELECT count(*) FROM tweet";
        match self {
            Self::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
                connection.execute(ALL).await.unwrap();
                let rate = self.measure(what).await;
                connection.execute("ROLLBACK").await.unwrap();
                rate
            }
            Self::Sqlite(path) => {
                let mut connection = SqliteConnection::connect(&format!("sqlite://{path}")).await.unwrap();
                connection.execute("BEGIN").await.unwrap();
                connection.execute(ALL).await.unwrap();
                let rate = self.measure(what).await;
                connection.execute("ROLLBACK").await.unwrap();
                rate
            }
        }
    }
}

async fn compare(name: &str, folder: &Path, store: &Store, settings: &[(&str, &str)]) {
    let options = SimulatorOptions { calls_per_window: 0, missing_share: 0.0, ..SimulatorOptions::default() };
    let api = simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap();
    let queue = folder.join("jobs.db");
    let mut all: Variables = variables(&[
        ("twitter.api", &api.base_url()),
        ("queue.embedded.path", queue.to_str().unwrap()),
        ("tweet_age", "30d: 5s"),
    ]);
    all.extend(variables(settings));
    assert!(run(&["migrate"], &all).status.success());
    let ids: Vec<String> = (0..POSTS)
        .map(|n| {
            twitter_updater::model::post::TweetId::at(wall_ms() - 86_400_000 - i64::from(n), n % 4_096).to_string()
        })
        .collect();
    let output = run_with_input(&["enqueue", "--first", "now", "-"], &all, ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let updater = Process::start(&["updater"], &all, &folder.join("updater.log"));
    until_true("every post is answered twice", WITHIN, async || store.figures().await.updates > 2 * i64::from(POSTS))
        .await;
    let alone = store.measure(&format!("{name}, alone")).await;
    let beside = store.measure_beside_a_query(&format!("{name}, beside a transaction")).await;
    let after = store.measure(&format!("{name}, after its end")).await;
    assert_eq!(updater.terminate().code(), Some(0));
    assert!(beside > alone / 2.0 && after > alone / 2.0, "{name}: {alone:.0}, {beside:.0}, {after:.0}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes seven minutes of the whole machine: run it with --ignored"]
async fn a_long_query_leaves_at_least_half_of_the_updates() {
    let folder = tempfile::tempdir().unwrap();
    let server = postgres::own();
    let url = server.url("postgres");
    let store = Store::Postgres(url.clone());
    compare("PostgreSQL", folder.path(), &store, &[("store.backend", "postgres"), ("store.postgres.url", &url)]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db").to_str().unwrap().to_owned();
    let store = Store::Sqlite(path.clone());
    compare("SQLite", folder.path(), &store, &[("store.sqlite.path", &path)]).await;
}
