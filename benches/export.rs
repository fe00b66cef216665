//! Export of a million posts, beside what the databases do with the same columns and nothing else: a bare SELECT of SQLite
//! (Python's sqlite3), and COPY TO of PostgreSQL.

use std::path::Path;
use std::process::Command;

use futures::TryStreamExt;
use serde_json::{Value, json};
use sqlx::postgres::PgPoolCopyExt;
use sqlx::{Connection, PgConnection, PgPool, SqliteConnection};
use twitter_updater::base::clock::Stopwatch;
use twitter_updater::store::export::{ColumnKind, POSTS};

use crate::Size;
use crate::enqueue::peak_mb;
use crate::pipeline::{Kind, Services, round, succeed};
use crate::report::{Report, Table, machine};
use crate::support::process::{command, text};

/// Posts in random order of ids, with texts of 40 to 140 characters. Both databases take it, each with its own list of
/// numbers and its own scatter.
fn fill(numbers: &str, scattered: &str) -> String {
    format!(
        "INSERT INTO tweet (namespace, id, state, created_at, text, lang, author_id, author_name, retweet_count, \
         favorite_count, reply_count, first_seen, checked_at, changed_at, next_due, lookups, misses) \
         SELECT 'tweet:update', {scattered}, 'live', 1700000000000 + n, \
         SUBSTR('{}', 1, 40 + n % 100), 'pt', '12', 'jack', n % 100, n % 1000, n % 10, 1700000000000 + n, \
         1700000000000 + n, 1700000000000 + n, 1800000000000, 3, 0 FROM {numbers}",
        "She said: \"it, too\", and left; nobody knew why. ".repeat(3),
    )
}

/// See the module.
pub async fn run(size: Size) -> Report {
    let posts: u64 = size.pick(1_000_000, 5_000);
    let mut table =
        Table::new("posts exported", &["store", "what", "rows/s", "MB", "peak memory, MB", "of the bare reading"]);
    for kind in [Kind::OneFile, Kind::Postgres] {
        let services = Services::start(kind).await;
        succeed(&["migrate"], &services.settings, b"");
        let (store, bare) = match &services.postgres {
            Some(postgres) => ("PostgreSQL", copy(&postgres.url(), posts).await),
            None => ("one SQLite file", select(&services, posts).await),
        };
        let what = if services.postgres.is_some() { "COPY TO, CSV" } else { "bare SELECT" };
        table.row(vec![json!(store), json!(what), json!(bare.round()), Value::Null, Value::Null, json!(1)]);
        for end in ["csv", "ndjson", "parquet"] {
            if end == "parquet" && !cfg!(feature = "parquet") {
                continue;
            }
            let to = services.folder.path().join(format!("posts.{end}"));
            let (seconds, peak) = export(&services, &to).await;
            let (rate, bytes) = (posts as f64 / seconds, std::fs::metadata(&to).unwrap().len() as f64);
            let figures = [rate.round(), round(bytes / 1e6), round(peak), (rate / bare * 100.0).round() / 100.0];
            table.row([json!(store), json!(end)].into_iter().chain(figures.map(|figure| json!(figure))).collect());
        }
    }
    let about = vec![format!("{}; {posts} posts, ids in random order, all columns of `export posts`", machine())];
    Report { about, tables: vec![table] }
}

/// Seconds, and the maximum of memory, MB.
async fn export(services: &Services, to: &Path) -> (f64, f64) {
    let watch = Stopwatch::start();
    let mut child = command(&["export", "posts", "--to", to.to_str().unwrap()], &services.settings).spawn().unwrap();
    let peak = peak_mb(&mut child).await;
    assert!(child.wait().unwrap().success());
    (watch.elapsed().as_secs_f64(), peak)
}

/// The stored columns of the table, as both databases name them.
fn columns() -> String {
    let posts = POSTS.iter().find(|table| table.name == "posts").unwrap();
    posts
        .columns
        .iter()
        .filter(|column| column.kind != ColumnKind::PlainText)
        .map(|column| column.name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Fills SQLite; rows a second of a bare SELECT.
async fn select(services: &Services, posts: u64) -> f64 {
    let file = services.folder.path().join("queue.db");
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let numbers = format!(
        "(WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {posts}) \
         SELECT n FROM numbers)"
    );
    // A prime that divides no number of posts: each id once, in no order.
    let fill = fill(&numbers, &format!("CAST((n * 7368787) % {posts} + 1400000000000000000 AS TEXT)"));
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let program = "import sqlite3, sys, time\nfile = sqlite3.connect(sys.argv[1])\nbegun = time.time()\n\
                   rows = sum(1 for _ in file.execute(sys.argv[2]))\nprint(rows / (time.time() - begun))";
    let statement = format!("SELECT {} FROM tweet ORDER BY key", columns());
    let output = Command::new("python3").args(["-c", program]).arg(file).arg(statement).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().parse().unwrap()
}

/// Fills PostgreSQL; rows a second of COPY TO, read and thrown away.
async fn copy(url: &str, posts: u64) -> f64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let numbers = format!("generate_series(0, {}) AS numbers (n)", posts - 1);
    let fill = fill(&numbers, &format!("((n::bigint * 7368787) % {posts} + 1400000000000000000)::text"));
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(&mut connection).await.unwrap();
    sqlx::raw_sql("ANALYZE tweet").execute(&mut connection).await.unwrap();
    let pool = PgPool::connect(url).await.unwrap();
    let watch = Stopwatch::start();
    let copy = format!("COPY (SELECT {} FROM tweet ORDER BY id) TO STDOUT (FORMAT csv)", columns());
    let rows = pool.copy_out_raw(&copy).await.unwrap();
    rows.try_for_each(|_| async { Ok(()) }).await.unwrap();
    posts as f64 / watch.elapsed().as_secs_f64()
}
