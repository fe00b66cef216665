//! What only a file can get wrong.

use sqlx::sqlite::SqlitePool;
use twitter_updater::base::clock;
use twitter_updater::engine::queue::Stats;
use twitter_updater::quota::{EmbeddedLedger, Ledger};

use super::*;

#[tokio::test]
async fn nothing_is_written_into_a_file_that_was_deleted_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    let ledger = EmbeddedLedger::open(&file, "twitter", Duration::from_secs(20)).await.unwrap();
    schedule(&queue, &young(), 0, &["1", "2"]).await;
    let claimed = batch(&queue, request("a")).await;
    let names = ["a".to_owned()];
    let ask = one_call(&names);
    let verdicts = reschedule(&claimed, &old(), 5);
    let all_gone = async |says: &str| {
        for error in [
            queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap_err(),
            queue.claim(&request("b")).await.unwrap_err(),
            queue.schedule(&[NewJob { id: "3".into(), lane: young(), due: 0.into() }]).await.unwrap_err(),
            ledger.acquire(&ask).await.unwrap_err(),
        ] {
            assert!(matches!(&error, QueueError::Gone(why) if why.contains(says)), "{error}");
        }
    };
    let aside = folder.path().join("aside");
    std::fs::create_dir(&aside).unwrap();
    let names_of = ["queue.db", "queue.db-wal", "queue.db-shm"];
    for name in names_of {
        std::fs::rename(folder.path().join(name), aside.join(name)).unwrap();
    }
    all_gone(".db was deleted").await;
    drop(EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap());
    all_gone(".db was replaced").await;
    // The old file, as before: its jobs are there, and the work goes on.
    for name in names_of {
        std::fs::rename(aside.join(name), folder.path().join(name)).unwrap();
    }
    assert_eq!(queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap(), SettleOutcome { settled: 2, lost: 0 });
}

#[tokio::test]
async fn what_was_refused_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    let raw = SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    // As a version left it that did not say when, and more than are kept now.
    sqlx::query(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
         INSERT INTO queue_incoming_refused (namespace, member, reason) SELECT 'test', 'old ' || n, 'why' FROM n",
    )
    .bind(REFUSED_KEPT as i64 + 10)
    .execute(&raw)
    .await
    .unwrap();
    queue.refuse_incoming(&[("x x".into(), "why".into())]).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().incoming_refused, REFUSED_KEPT as u64);
    let long_ago = wall_ms() - i64::try_from(REFUSED_KEPT_FOR.as_millis()).unwrap() - 1_000;
    let old = "UPDATE queue_incoming_refused SET at = ? WHERE member <> 'x x'";
    sqlx::query(old).bind(long_ago).execute(&raw).await.unwrap();
    queue.refuse_incoming(&[("y y".into(), "why".into())]).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().incoming_refused, 2);
}

/// Lanes are walked for the page alone: a worker asks who leads, and nobody asks it for them.
#[tokio::test]
async fn what_is_told_in_brief_has_no_lanes() {
    let folder = tempfile::tempdir().unwrap();
    let queue = EmbeddedQueue::open(&folder.path().join("queue.db"), "test", Duration::from_secs(20)).await.unwrap();
    schedule(&queue, &young(), 0, &["1", "2"]).await;
    let claimed = batch(&queue, ClaimRequest { limit: 1, ..request("a") }).await;
    queue.heartbeat("a", &[], &[("requests", 2)], &Lateness::default()).await.unwrap();
    let (stats, brief) = (queue.stats().await.unwrap(), queue.brief_stats().await.unwrap());
    assert_eq!((stats.lanes.len(), stats.delayed, brief.lanes.len(), brief.delayed), (1, 1, 0, 0));
    assert_eq!((brief.leased, brief.leased, claimed.jobs.len()), (1, stats.leased, 1));
    assert_eq!((&brief.namespace, &brief.counters), (&stats.namespace, &stats.counters));
    let workers = |of: &Stats| of.workers.iter().map(|worker| worker.worker.clone()).collect::<Vec<_>>();
    assert_eq!((workers(&brief), workers(&stats)), (vec!["a".to_owned()], vec!["a".to_owned()]));
}

#[tokio::test]
async fn past_minutes_are_summed_by_the_hour_and_hours_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    let raw = SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let plant = async |minute: Millis, ids: i64| {
        let counter =
            "INSERT INTO queue_counter VALUES ('test', ?, 'requests', ?) ON CONFLICT DO UPDATE SET value = value + 1";
        sqlx::query(counter).bind(minute).bind(ids).execute(&raw).await.unwrap();
        let late = "INSERT INTO queue_lateness VALUES ('test', ?, 5, ?) ON CONFLICT DO UPDATE SET ids = ids + 1";
        sqlx::query(late).bind(minute).bind(ids).execute(&raw).await.unwrap();
    };
    planted_minutes_are_summed(&queue, plant).await;
    // A month later.
    for old in [
        "UPDATE queue_hour SET hour = hour - 31 * 24",
        "UPDATE queue_hour_lateness SET hour = hour - 31 * 24",
        "UPDATE queue_namespace SET hours_until = hours_until - 31 * 24 * 60",
    ] {
        sqlx::query(old).execute(&raw).await.unwrap();
    }
    queue.sum_hours().await.unwrap();
    let oldest: i64 = sqlx::query_scalar("SELECT min(hour) FROM queue_hour").fetch_one(&raw).await.unwrap();
    assert!(oldest > wall_ms() / HOUR_MS - i64::from(HOURS_KEPT), "{oldest}");
    assert!(queue.hours(HOURS_KEPT).await.unwrap().len() <= 4);
}

#[tokio::test]
async fn a_clock_that_was_ahead_delays_nothing_that_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let queue = EmbeddedQueue::open(&folder.path().join("queue.db"), "test", Duration::from_secs(20)).await.unwrap();
    let clock = std::cell::Cell::new(None);
    let step = |seconds: i64| {
        drop(clock.take());
        clock.set(Some(clock::simulate_clock(wall_ms() + 1_000 * seconds)));
    };
    what_is_given_back_while_the_clock_is_ahead_waits_for_nothing(&queue, step).await;
}

#[tokio::test]
async fn errors_of_a_week_ago_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    let raw = SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let error =
        |host: &str| RecordedError { host: host.to_owned(), count: 1, last_ms: wall_ms(), ..RecordedError::default() };
    let stored =
        async || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM queue_error").fetch_one(&raw).await.unwrap();
    let week_ago = "UPDATE queue_error SET last = last - 7 * 86400000";
    // By a merge, and where nothing fails any more.
    queue.record_errors(&[error("old")]).await.unwrap();
    sqlx::query(week_ago).execute(&raw).await.unwrap();
    assert_eq!(queue.errors(10).await.unwrap(), []);
    queue.record_errors(&[error("new")]).await.unwrap();
    assert_eq!(stored().await, 1);
    sqlx::query(week_ago).execute(&raw).await.unwrap();
    queue.sum_hours().await.unwrap();
    assert_eq!(stored().await, 0);
}
