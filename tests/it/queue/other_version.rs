//! A file of another version is refused when it is opened, and stays as it is.

use sqlx::{Connection, SqliteConnection};
use twitter_updater::engine::queue::QueueError;

use super::*;

#[tokio::test]
async fn is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let open = || async { EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await };
    schedule(&open().await.unwrap(), &young(), 0, &["1"]).await;
    let mut raw = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    for (change, back) in [
        ("ALTER TABLE queue_lane RENAME COLUMN tier TO rank", "ALTER TABLE queue_lane RENAME COLUMN rank TO tier"),
        ("ALTER TABLE queue_job RENAME COLUMN token TO claim", "ALTER TABLE queue_job RENAME COLUMN claim TO token"),
    ] {
        sqlx::query(change).execute(&mut raw).await.unwrap();
        let error = open().await.unwrap_err();
        assert!(matches!(error, QueueError::Refused(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("the table queue_") && text.contains("rebuild") && !text.contains('\n'), "{text}");
        sqlx::query(back).execute(&mut raw).await.unwrap();
    }
    assert!(matches!(place(&open().await.unwrap(), "1").await, Some(Place::Delayed { .. })));
}
