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
    for (table, column) in [
        ("queue_job", "failures"),
        ("queue_job", "trial"),
        ("queue_job", "promoted_due"),
        ("queue_job", "promoted_lane"),
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
    let claimed = batch(&queue, request("a")).await;
    assert_eq!((claimed.jobs[0].deliveries, claimed.jobs[0].failures), (0, 0));
    assert!(queue.try_alone(&claimed.fence).await.unwrap());
    let sooner = NewJob { id: "1".into(), lane: old(), due: 0.into() };
    assert_eq!(queue.promote(&[sooner]).await.unwrap(), [Promoted::Noted]);
    assert_eq!(queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 5), &[]).await.unwrap().settled, 1);
    assert!(matches!(place(&queue, "1").await, Some(Place::Delayed { lane, .. }) if lane == "old"));
}
