//! What the queue tells of time: what comes due, and what was done minute by minute; and who holds what.

use super::*;

pub(super) async fn what_comes_due_is_counted_by_lane(world: World) {
    let queue = &*world.one;
    assert_eq!(queue.due_counts_by(&[0]).await.unwrap(), [], "no lane is known");
    schedule_late(queue, &[(&old(), 9_000_000, "late"), (&young(), 2_000_000, "later")]).await;
    schedule(queue, &young(), 0, &["now"]).await;
    schedule(queue, &young(), 1_000_000, &["1", "2"]).await;
    schedule(queue, &old(), 3_000_000, &["3"]).await;
    let due = |lane: &str, counts: &[u64]| LaneDue { lane: lane.into(), counts: counts.into() };
    let offsets = [Millis::MIN, -5_000_000, -1_000_000, 0, 500_000, 1_000_000, 3_000_000, Millis::MAX];
    assert_eq!(
        world.two.due_counts_by(&offsets).await.unwrap(),
        [due("young", &[0, 0, 1, 2, 2, 4, 4, 4]), due("old", &[0, 1, 1, 1, 1, 1, 2, 2])]
    );
    // What is leased comes due in no lane; the lane stays.
    let claimed = batch(queue, ClaimRequest { limit: 3, ..request("a") }).await;
    assert_eq!(claimed.jobs.len(), 3);
    assert_eq!(queue.due_counts_by(&[0, 1_000_000]).await.unwrap(), [due("young", &[0, 2]), due("old", &[0, 0])]);
    assert_eq!(queue.due_counts_by(&[]).await.unwrap(), [due("young", &[]), due("old", &[])]);
}

/// All of these together: a test may run over the edge of a minute.
fn together(minutes: &[Minute]) -> Minute {
    let mut sum = Minute::default();
    for minute in minutes {
        for (name, by) in &minute.counters {
            *sum.counters.entry(name.clone()).or_default() += by;
        }
        sum.lateness.merge(&minute.lateness);
    }
    sum
}

fn lateness(of: &[(Millis, u64)]) -> Lateness {
    let mut lateness = Lateness::default();
    of.iter().for_each(|(late, ids)| lateness.add(*late, *ids));
    lateness
}

pub(super) async fn minutes_are_told_one_by_one(world: World) {
    let queue = &*world.one;
    for count in [1, 3, MINUTES_KEPT, 1_000] {
        let minutes = queue.minutes(count).await.unwrap();
        assert_eq!(minutes.len(), count.min(MINUTES_KEPT) as usize);
        assert!(minutes.windows(2).all(|pair| pair[1].at_ms - pair[0].at_ms == MINUTE_MS));
        assert!(minutes.iter().all(|minute| *minute == Minute { at_ms: minute.at_ms, ..Minute::default() }));
        let (this, now) = (minutes.last().unwrap().at_ms, queue.stats().await.unwrap().now_ms);
        assert!(this % MINUTE_MS == 0 && (0..2 * MINUTE_MS).contains(&(now - this)), "{this} {now}");
    }
    assert_eq!(queue.minutes(0).await.unwrap(), []);

    schedule(queue, &young(), 0, &["1", "2", "3"]).await;
    let claimed = batch(queue, request("a")).await;
    queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 60_000), &[]).await.unwrap();
    let month = 2_592_000_000;
    queue.heartbeat("w1", &[], &[("requests", 2), ("changes", 0)], &lateness(&[(0, 5), (1_400, 2)])).await.unwrap();
    queue
        .heartbeat("w2", &[], &[("requests", 3)], &lateness(&[(1_500, 4), (month, 1), (Millis::MAX, 1)]))
        .await
        .unwrap();
    queue.heartbeat("w2", &[], &[], &Lateness::default()).await.unwrap();
    let sum = together(&world.two.minutes(3).await.unwrap());
    assert_eq!(sum.lateness, lateness(&[(0, 5), (1_400, 6), (month, 1), (Millis::MAX, 1)]));
    assert_eq!(sum.lateness.quantile(0.5), Some(1_536));
    for (counter, count) in [("scheduled", 3), ("claims", 1), ("claimed", 3), ("rescheduled", 3), ("requests", 5)] {
        assert_eq!(sum.count(counter), count, "{counter}: {sum:?}");
    }
    assert_eq!(sum.count("finished"), 0);
    let since_ever = queue.stats().await.unwrap().counters;
    assert_eq!(sum.counters, since_ever, "nothing is older than these minutes");
}

/// All of these together, and how many minutes they are made of.
async fn hours_together(queue: &dyn Queue) -> (Minute, u32) {
    let hours = queue.hours(1_000).await.unwrap();
    assert!(hours.iter().all(|hour| hour.at_ms % HOUR_MS == 0 && (1..=60).contains(&hour.minutes)), "{hours:?}");
    assert!(hours.is_sorted_by_key(|hour| hour.at_ms));
    let part = |hour: &Hour| Minute { counters: hour.counters.clone(), lateness: hour.lateness.clone(), at_ms: 0 };
    (together(&hours.iter().map(part).collect::<Vec<_>>()), hours.iter().map(|hour| hour.minutes).sum())
}

/// The current minute is not in them, and one may end meanwhile.
fn are_kept(minutes: u32) -> bool {
    (MINUTES_KEPT - 1..=MINUTES_KEPT + 1).contains(&minutes)
}

pub(super) async fn minutes_are_added_to_their_hours_once(world: World) {
    let queue = &*world.one;
    assert_eq!((queue.hours(1_000).await.unwrap(), queue.hours(0).await.unwrap()), (vec![], vec![]));
    let before = queue.stats().await.unwrap().now_ms / MINUTE_MS;
    queue.heartbeat("w1", &[], &[("requests", 2)], &lateness(&[(5, 3)])).await.unwrap();
    for _ in 0..3 {
        tokio::try_join!(world.one.sum_hours(), world.two.sum_hours()).unwrap();
    }
    let (sum, minutes) = hours_together(&*world.two).await;
    assert!(are_kept(minutes), "{minutes}");
    let is_same_minute = queue.stats().await.unwrap().now_ms / MINUTE_MS == before;
    // It has not ended, so it is in no hour yet.
    assert!(sum.count("requests") == 0 || !is_same_minute && sum.count("requests") == 2, "{sum:?}");
    let known = queue.hours(3).await.unwrap();
    assert_eq!(queue.hours(1).await.unwrap().first(), known.last().filter(|hour| hour.at_ms >= before / 60 * HOUR_MS));
}

/// `plant` writes into a minute since the epoch that so many ids were claimed 5 ms late, as many requests.
pub(super) async fn planted_minutes_are_summed(queue: &dyn Queue, plant: impl AsyncFn(Millis, i64)) {
    let this = queue.stats().await.unwrap().now_ms / MINUTE_MS;
    let planted = [(1, 3), (60, 5), (61, 7), (118, 11)];
    for (ago, ids) in planted {
        plant(this - ago, ids).await;
    }
    plant(this - 130, 100).await; // no longer kept
    let expected = |hour: Millis| -> i64 {
        planted.iter().filter(|(ago, _)| (this - ago) / 60 == hour / HOUR_MS).map(|(_, ids)| ids).sum()
    };
    for _ in 0..2 {
        queue.sum_hours().await.unwrap();
        let hours = queue.hours(4).await.unwrap();
        for hour in &hours {
            let requests = hour.counters.get("requests").copied().unwrap_or(0);
            assert_eq!((requests, hour.lateness.ids() as i64), (expected(hour.at_ms), requests), "{hours:?}");
            assert!(!hour.counters.contains_key("minutes"));
        }
        let (sum, minutes) = hours_together(queue).await;
        assert!(sum.count("requests") == 26 && are_kept(minutes), "{sum:?} {minutes}");
        assert_eq!(sum.lateness, lateness(&[(5, 26)]));
        // Of a minute that was added: it is not read again.
        plant(this - 1, 1_000).await;
    }
}

pub(super) async fn a_lease_names_the_worker_that_holds_it(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["1", "2"]).await;
    schedule(queue, &young(), 60_000, &["free"]).await;
    let one = ClaimRequest { limit: 1, ..request("web-1-77-0123456789abcdef") };
    // Once the lease has run out nobody holds it.
    let short = batch(queue, ClaimRequest { lease: Duration::from_millis(20), token: "w-1", ..one }).await;
    until_expired(queue).await;
    let place = place(queue, &short.jobs[0].id).await;
    assert_eq!(place, Some(Place::Leased { fence: short.fence.deadline, by: None }));
    let first = batch(queue, one).await;
    let second = batch(queue, ClaimRequest { token: "*?[x]-00", ..one }).await;
    queue.adopt("rebuild-7f", &["new".into()], Duration::from_secs(60)).await.unwrap();
    let ids = [&*first.jobs[0].id, &second.jobs[0].id, "new", "free", "nowhere"].map(str::to_owned);
    let holders: Vec<Option<String>> = world
        .two
        .locate(&ids)
        .await
        .unwrap()
        .into_iter()
        .map(|places| match &places[..] {
            [Place::Leased { by, .. }] => by.clone(),
            _ => None,
        })
        .collect();
    let by = |worker: &str| Some(worker.to_owned());
    assert_eq!(holders, [by("web-1-77"), by("*?[x]"), by("rebuild"), None, None]);
}

#[test]
fn a_token_names_its_worker() {
    for (token, worker) in [
        ("web-1-77-0123456789abcdef", "web-1-77"),
        ("rebuild-00ff", "rebuild"),
        ("of a person", "of a person"),
        ("some-thing", "some-thing"),
        ("web-", "web-"),
        ("", ""),
    ] {
        assert_eq!(worker_name_of_token(token), worker);
    }
}

#[tokio::test]
async fn minutes_expire_in_redis() {
    let redis = TestRedis::shared();
    let (queue, prefix) = redis_only::world(redis);
    queue.heartbeat("w", &[], &[("requests", 1)], &lateness(&[(9, 1)])).await.unwrap();
    let this = queue.minutes(1).await.unwrap()[0].at_ms / MINUTE_MS;
    let mut raw = redis.connection().await;
    let mut kept = Vec::new();
    for minute in [this - 1, this] {
        for name in ["rate", "lateness"] {
            let key = format!("{prefix}{name}:{minute}");
            kept.push(redis::cmd("TTL").arg(key).query_async::<i64>(&mut raw).await.unwrap());
        }
    }
    kept.retain(|left| *left != -2);
    assert!(kept.len() >= 2 && kept.iter().all(|left| (7_000..=7_200).contains(left)), "{kept:?}");
}

#[tokio::test]
async fn minutes_expire_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let queue = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    let raw = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let this = wall_ms() / MINUTE_MS;
    for minute in [this - 121, this - 60] {
        for row in ["queue_counter VALUES ('test', ?, 'requests', 7)", "queue_lateness VALUES ('test', ?, 8, 7)"] {
            let sql = format!("INSERT INTO {row}");
            sqlx::query(sqlx::AssertSqlSafe(sql)).bind(minute).execute(&raw).await.unwrap();
        }
    }
    queue.heartbeat("w", &[], &[("requests", 1)], &lateness(&[(9, 1)])).await.unwrap();
    for table in ["queue_counter", "queue_lateness"] {
        let sql = format!("SELECT min(minute) FROM {table} WHERE minute > 0");
        let oldest: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&raw).await.unwrap();
        assert_eq!(oldest, this - 60, "{table}");
    }
    let sum = together(&queue.minutes(MINUTES_KEPT).await.unwrap());
    assert_eq!((sum.count("requests"), sum.lateness), (8, lateness(&[(8, 7), (9, 1)])));
    raw.close().await;
}

#[tokio::test]
async fn who_has_not_beaten_for_a_minute_is_no_worker() {
    let redis = TestRedis::shared();
    let (queue, prefix) = redis_only::world(redis);
    let mut raw = redis.connection().await;
    let beats = [("silent", wall_ms() - 60_001), ("slow", wall_ms() - 30_000)];
    let () = redis::pipe()
        .zadd_multiple(format!("{prefix}workers"), &beats.map(|(name, at)| (at, name)))
        .ignore()
        .query_async(&mut raw)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let embedded = EmbeddedQueue::open(&file, "test", Duration::from_secs(20)).await.unwrap();
    let rows = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    for (worker, beat) in beats {
        sqlx::query("INSERT INTO queue_worker VALUES ('test', ?, ?, '{}')")
            .bind(worker)
            .bind(beat)
            .execute(&rows)
            .await
            .unwrap();
    }
    for queue in [&queue as &dyn Queue, &embedded] {
        let workers = queue.stats().await.unwrap().workers;
        let named: Vec<_> = workers.iter().map(|worker| worker.worker.as_str()).collect();
        assert_eq!(named, ["slow"], "{queue:?}");
    }
    rows.close().await;
}
