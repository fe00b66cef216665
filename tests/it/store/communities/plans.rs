//! PostgreSQL reads few rows for a community, also where it has no statistics of most tables.

use sqlx::{Connection, Executor, PgConnection};
use twitter_updater::store::Lifecycle;

use super::*;
use crate::store::edges::plans::read_when_alone;

/// 200 accounts that are decided, every second one a member, and far more that were only seen; lists of ten of them. The account 4
/// has appeared very often, and the account 5 follows the account 100 no more.
const FILL: &str = r"
    ALTER TABLE community_account SET (autovacuum_enabled = off);
    ALTER TABLE community_appearance SET (autovacuum_enabled = off);
    ALTER TABLE list_account SET (autovacuum_enabled = off);
    ALTER TABLE list_edge SET (autovacuum_enabled = off);
    ALTER TABLE list_owner SET (autovacuum_enabled = off);
    INSERT INTO community_account (namespace, account, state, first_at, decided_at)
        SELECT 'community:twitter:pt', number,
            CASE WHEN number > 200 THEN 'seen' WHEN number % 2 = 0 THEN 'member' ELSE 'outside' END, 0, 0
        FROM generate_series(1, 20000) AS number;
    UPDATE community_account SET appearances = 2 WHERE account = '300';
    INSERT INTO community_appearance (namespace, account, source, reason, first_at)
        SELECT 'community:twitter:pt', account, number, 'mentioned', 0
        FROM generate_series(1, 5000) AS number, LATERAL (VALUES ('4'), ((1000 + number)::text)) AS of (account);
    ANALYZE community_appearance;
    INSERT INTO list_network (name) VALUES ('twitter');
    INSERT INTO list_owner (namespace, id) SELECT 'friends:twitter', number FROM generate_series(1, 2000) AS number;
    INSERT INTO list_account (network, id) SELECT 1, number FROM generate_series(1, 20000) AS number;
    INSERT INTO list_edge (list, member, first_page)
        SELECT list, 1 + (list * 10 + member) % 20000, 1 FROM generate_series(1, 2000) AS list, generate_series(1, 10) AS member;
    INSERT INTO list_edge (list, member, first_page, closed_by) VALUES (5, 100, 1, 1);
";

/// Rows that the server read of these tables, and what a question that reads them answers.
async fn read<T>(tables: &[&str], ask: impl AsyncFnOnce(&dyn Communities) -> T) -> (i64, T) {
    let url = postgres::database().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    open_postgres(&url).await.migrate().await.unwrap();
    connection.execute(FILL).await.unwrap();
    // The server has counted what a connection read by the time that it ends.
    let before = read_when_alone(&mut connection, tables).await;
    let store = open_postgres(&url).await;
    let answer = ask(&store).await;
    drop(store);
    (read_when_alone(&mut connection, tables).await - before, answer)
}

#[tokio::test]
async fn the_friends_of_an_account_are_read_and_no_others() {
    let tables = ["list_owner", "list_edge", "list_account", "community_account"];
    let (read, facts) = read(&tables, async |communities| {
        communities.facts(COMMUNITY, OF, &["5".to_owned(), "nobody".to_owned()], 0).await.unwrap()
    })
    .await;
    assert_eq!((facts[0].friends, facts[1].friends), ((5, 5), (0, 0)));
    assert!(read < 100, "{read} rows");
}

#[tokio::test]
async fn of_an_account_that_is_decided_no_appearances_are_read() {
    let (read, new) = read(&["community_appearance"], async |communities| {
        let shown = [appeared("4", "2", Reason::Mentioned), appeared("new", "2", Reason::Mentioned)];
        communities.record_arrivals(COMMUNITY, T, &[], &shown, (POSTS, &[])).await.unwrap();
        communities.community_account(COMMUNITY, "new").await.unwrap().unwrap()
    })
    .await;
    assert_eq!((new.state, new.appearances), (Belonging::Seen, 1));
    assert!(read < 100, "{read} rows");
}

#[tokio::test]
async fn the_room_for_candidates_is_counted_without_those_that_were_only_seen() {
    let (read, admissible) = read(&["community_account"], async |communities| {
        communities.admissible(COMMUNITY, T, &FREE, 10).await.unwrap()
    })
    .await;
    assert_eq!(admissible, ["300"]);
    assert!(read < 1_000, "{read} rows");
}
