//! A file of an older version is brought up to date when it is opened.

use sqlx::sqlite::SqlitePool;

use super::*;

#[tokio::test]
async fn is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let open = || async { EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap() };
    schedule(&open().await, &young(), 0, &["1"]).await;
    let raw = SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    // Its jobs lay by their ids.
    let by_id = "DROP TABLE queue_job;
         CREATE TABLE queue_job (
             namespace TEXT NOT NULL, id TEXT NOT NULL, state INTEGER NOT NULL, lane TEXT NOT NULL, due INTEGER NOT NULL,
             fence INTEGER, token TEXT, deliveries INTEGER NOT NULL DEFAULT 0, reason TEXT, PRIMARY KEY (namespace, id)
         ) WITHOUT ROWID;
         CREATE INDEX queue_job_delayed ON queue_job (namespace, lane, due) WHERE state = 0;
         CREATE INDEX queue_job_leased ON queue_job (namespace, fence) WHERE state = 1;
         CREATE INDEX queue_job_suspect ON queue_job (namespace, id) WHERE deliveries > 0;
         CREATE INDEX queue_job_dead ON queue_job (namespace, due) WHERE state = 2;
         INSERT INTO queue_job (namespace, id, state, lane, due) VALUES ('test', '1', 0, 'young', 0);
         INSERT INTO queue_job (namespace, id, state, lane, due, reason) VALUES ('test', '2', 2, 'young', 7, 'why');
         INSERT INTO queue_job (namespace, id, state, lane, due, fence, token, deliveries)
             VALUES ('test', '3', 1, 'young', 3, 9000000000000, 'w-1', 2)";
    sqlx::raw_sql(by_id).execute(&raw).await.unwrap();
    for (table, column) in [
        ("queue_namespace", "turns"),
        ("queue_lane", "tier"),
        ("queue_lane", "ordering"),
        ("queue_incoming_refused", "at"),
    ] {
        let drop = format!("ALTER TABLE {table} DROP COLUMN {column}");
        sqlx::query(sqlx::AssertSqlSafe(drop)).execute(&raw).await.unwrap();
    }
    raw.close().await;

    let queue = open().await;
    assert!(matches!(place(&queue, "2").await, Some(Place::Dead { at: 7, reason }) if reason == "why"));
    assert!(matches!(place(&queue, "3").await, Some(Place::Leased { fence: 9_000_000_000_000, .. })));
    let claimed = batch(&queue, request("a")).await;
    assert_eq!((claimed.jobs[0].deliveries, claimed.jobs[0].failures), (0, 0));
    assert!(queue.try_alone(&claimed.fence).await.unwrap());
    let sooner = NewJob { id: "1".into(), lane: old(), due: 0.into() };
    assert_eq!(queue.promote(&[sooner]).await.unwrap(), [Promoted::Noted]);
    assert_eq!(queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 5), &[]).await.unwrap().settled, 1);
    assert!(matches!(place(&queue, "1").await, Some(Place::Delayed { lane, .. }) if lane == "old"));
}
