//! PostgreSQL behind PgBouncer as Debian ships it.

use std::time::Duration;

use futures::future::join_all;
use secrecy::SecretString;
use twitter_updater::store::{Lifecycle, PostgresStore, Posts, StoreError};

use super::{NS, T, counts, found};
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres;

async fn connect(url: &str) -> Result<PostgresStore, StoreError> {
    PostgresStore::connect(&SecretString::from(url), 3, Duration::from_secs(20)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_by_session_works_without_settings_of_its_own() {
    let bouncer = PgBouncer::start(&postgres::database().await, "session", 20).await;
    let stores = [connect(&bouncer.url).await.unwrap(), connect(&bouncer.url).await.unwrap()];
    stores[0].migrate().await.unwrap();
    // Clients that come and go, with the same prepared statements.
    let rounds = (0..40).map(|round: i64| {
        let (store, id) = (&stores[usize::try_from(round % 2).unwrap()], (round % 7).to_string());
        async move { store.save(NS, &[found(&id, T + round, counts(round, 0))]).await }
    });
    for saved in join_all(rounds).await {
        saved.unwrap();
    }
    drop(stores);
    let again = connect(&bouncer.url).await.unwrap();
    again.check().await.unwrap();
    let ids: Vec<String> = (0..7).map(|id| id.to_string()).collect();
    assert!(again.standing(NS, &ids).await.unwrap().iter().all(Option::is_some));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_by_transaction_or_statement_is_refused_with_the_reason() {
    let database = postgres::database().await;
    for (mode, size) in [("transaction", 20), ("transaction", 1), ("statement", 20)] {
        let bouncer = PgBouncer::start(&database, mode, size).await;
        for start in 1..=3 {
            let error = connect(&bouncer.url).await.map(drop).unwrap_err();
            let StoreError::Refused(why) = &error else { panic!("{mode}, {size}: {error}") };
            assert!(why.contains("pool_mode = session"), "{mode}, {size}, start {start}: {why}");
        }
    }
}
