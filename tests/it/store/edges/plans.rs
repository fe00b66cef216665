//! PostgreSQL reads few rows for a question also where it has no statistics of a table.

use std::ops::ControlFlow;

use sqlx::{Connection, Executor, PgConnection};
use twitter_updater::store::{GraphFilter, ListBounds};

use super::*;
use crate::store::{PATIENCE, open_postgres};
use crate::support::postgres;
use crate::support::wait::until_true;

/// Lists that are read twice, and the second time have other members.
const FILL: &str = r"
    ALTER TABLE list_account SET (autovacuum_enabled = off);
    ALTER TABLE list_crawl SET (autovacuum_enabled = off);
    ALTER TABLE list_edge SET (autovacuum_enabled = off);
    ALTER TABLE list_owner SET (autovacuum_enabled = off);
    ALTER TABLE list_page SET (autovacuum_enabled = off);
    INSERT INTO list_network (name) VALUES ('twitter');
    INSERT INTO list_owner (namespace, id) SELECT 'followers:twitter', number FROM generate_series(1, 2000) AS number;
    INSERT INTO list_account (network, id) SELECT 1, number FROM generate_series(1, 20000) AS number;
    INSERT INTO list_crawl (list, kind, started_at, newest_at, ended, ended_at, pages)
        SELECT 1 + number % 2000, 'complete', 10 * number, 10 * number + 3, 'complete', 10 * number + 5, 1
        FROM generate_series(0, 3999) AS number;
    INSERT INTO list_page (list, crawl, asked_at, at, members)
        SELECT list, key, started_at, newest_at, '\x00' FROM list_crawl ORDER BY key;
    INSERT INTO list_edge (list, member, first_page, last_page, closed_by)
        SELECT list, 1 + (key * 10 + member) % 20000, key,
            CASE WHEN key <= 2000 THEN key END, CASE WHEN key <= 2000 THEN crawl + 2000 END
        FROM list_page, generate_series(1, 10) AS member;
";

/// Edges of a page that is read.
const PAGE: i64 = 50;

/// A database as after a first crawl: the server has not looked at its tables yet.
async fn filled() -> (String, PgConnection) {
    let url = postgres::database().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let store = open_postgres(&url).await;
    store.migrate().await.unwrap();
    connection.execute(FILL).await.unwrap();
    (url, connection)
}

#[tokio::test]
async fn a_page_of_changes_reads_no_others_without_statistics() {
    let (url, mut connection) = filled().await;
    for change in [EdgeChange::Appeared, EdgeChange::Vanished] {
        // The server has counted what a connection read by the time that it ends.
        let before = read_when_alone(&mut connection, &["list_edge"]).await;
        let store = open_postgres(&url).await;
        let page = store.edge_changes(NS, change, (0, Millis::MAX), None, PAGE as u32).await.unwrap();
        assert_eq!(page.len() as i64, PAGE);
        drop(store);
        let read = read_when_alone(&mut connection, &["list_edge"]).await - before;
        assert!((PAGE..4 * PAGE).contains(&read), "{read} rows for {PAGE} of {change:?}");
    }
}

#[tokio::test]
async fn totals_of_lists_read_their_own_crawls_and_no_edge_without_statistics() {
    let (url, mut connection) = filled().await;
    let lists = r"INSERT INTO tweet (namespace, id, state, first_seen, checked_at, next_due, lookups, misses)
        SELECT 'followers:twitter', number, 'live', 1, CASE WHEN number % 2 = 0 THEN 5 END, 9, 1, 0
        FROM generate_series(1, 2000) AS number";
    connection.execute(lists).await.unwrap();
    let tables: [&[&str]; 2] = [&["list_crawl"], &["list_edge", "list_page", "list_account"]];
    let before = [read_when_alone(&mut connection, tables[0]).await, read_when_alone(&mut connection, tables[1]).await];
    let store = open_postgres(&url).await;
    let bounds = ListBounds {
        recorded_before: 2,
        intervals: [0, Millis::MAX, Millis::MAX],
        complete_before: [0; 3],
        page: 100,
        longest: 0,
    };
    let totals = store.list_totals(NS, &bounds).await.unwrap();
    assert_eq!((totals.tiers[0].complete, totals.unread.overdue), (1_000, 1_000));
    drop(store);
    let crawls = read_when_alone(&mut connection, tables[0]).await - before[0];
    assert!((1_000..=2_000).contains(&crawls), "{crawls} crawls for 1,000 lists that were read twice");
    assert_eq!(read_when_alone(&mut connection, tables[1]).await, before[1]);
}

/// Without them, a graph around 2,000 of these accounts took 50 s; with them, it takes one.
#[tokio::test]
async fn what_goes_through_whole_tables_has_statistics() {
    let known = "SELECT reltuples > 0 FROM pg_class WHERE oid = 'list_edge'::regclass";
    for of in ["export", "graph"] {
        let (url, mut connection) = filled().await;
        let store = open_postgres(&url).await;
        assert!(!sqlx::query_scalar::<_, bool>(known).fetch_one(&mut connection).await.unwrap(), "{of}");
        if of == "export" {
            let _: Vec<_> = store
                .rows(&EDGES[0], &ExportFilter { namespace: NS.into(), ..ExportFilter::default() })
                .try_collect()
                .await
                .unwrap();
        } else {
            let mut parts = 0;
            let wanted = GraphFilter { lists: vec![NS.to_owned()], ..GraphFilter::default() };
            let count = &mut |_| {
                parts += 1;
                ControlFlow::Continue(())
            };
            store.graph(&wanted, count).await.unwrap();
            assert_eq!(parts, 60_000, "accounts, and their follows");
        }
        assert!(sqlx::query_scalar::<_, bool>(known).fetch_one(&mut connection).await.unwrap(), "{of}");
    }
}

/// Rows of these tables that were read so far, once no other connection is open.
pub(in crate::store) async fn read_when_alone(connection: &mut PgConnection, tables: &[&str]) -> i64 {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    until_true("the other connections end", PATIENCE, async || {
        sqlx::query_scalar::<_, i64>(others).fetch_one(&mut *connection).await.unwrap() == 0
    })
    .await;
    // A server counts what a connection read when that is idle for a while, or ends.
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(&mut *connection).await.unwrap();
    let read = "SELECT SUM(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables WHERE relname = ANY($1)";
    sqlx::query_scalar(read).bind(tables).fetch_one(connection).await.unwrap()
}
