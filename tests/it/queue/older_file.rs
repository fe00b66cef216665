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
    for drop in ["queue_job DROP COLUMN failures", "queue_job DROP COLUMN trial", "queue_namespace DROP COLUMN turns"] {
        sqlx::query(sqlx::AssertSqlSafe(format!("ALTER TABLE {drop}"))).execute(&raw).await.unwrap();
    }
    raw.close().await;

    let queue = open().await;
    let claimed = batch(&queue, request("a")).await;
    assert_eq!((claimed.jobs[0].deliveries, claimed.jobs[0].failures), (0, 0));
    assert!(queue.try_alone(&claimed.fence).await.unwrap());
    assert_eq!(queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 5)).await.unwrap().settled, 1);
}
