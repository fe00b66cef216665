//! What only Redis can get wrong.

use super::*;
use crate::support::stepping_clock::SteppingClock;

pub fn world(redis: &TestRedis) -> (RedisQueue, String) {
    let namespace = namespace();
    (RedisQueue::new(redis.pool(), &namespace), format!("{{{namespace}}}:"))
}

#[tokio::test]
async fn found_in_two_places_leased_wins() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    schedule(&queue, &young(), 0, &["1", "2"]).await;
    let held = batch(&queue, ClaimRequest { limit: 1, ..request("a") }).await;
    let id = held.jobs[0].id.clone();
    // As a half-run script would leave it: back in a lane, and still leased.
    let mut raw = redis.connection().await;
    let () =
        redis::cmd("ZADD").arg(format!("{prefix}delayed:young")).arg(1).arg(&id).query_async(&mut raw).await.unwrap();
    let other = batch(&queue, request("b")).await;
    assert_eq!(other.jobs.len(), 1);
    assert_ne!(other.jobs[0].id, id, "it is leased by somebody else");
    assert!(matches!(place(&queue, &id).await, Some(Place::Leased { fence, .. }) if fence == held.fence.deadline));

    // The same with a lease that runs out, and with an id in two lanes when its life ends.
    let () =
        redis::cmd("ZADD").arg(format!("{prefix}delayed:young")).arg(1).arg(&id).query_async(&mut raw).await.unwrap();
    let () = redis::cmd("ZADD").arg(format!("{prefix}leased")).arg(2).arg(&id).query_async(&mut raw).await.unwrap();
    let again = batch(&queue, request("c")).await;
    assert_eq!(ids(&again), [id.as_str()]);
    let () =
        redis::cmd("ZADD").arg(format!("{prefix}delayed:young")).arg(1).arg(&id).query_async(&mut raw).await.unwrap();
    queue.settle(&again.fence, &[(again.jobs[0].clone(), Verdict::Finish)], &[]).await.unwrap();
    assert_eq!(place(&queue, &id).await, None, "Finish removes it everywhere");
}

#[tokio::test]
async fn a_full_redis_refuses_new_jobs_and_still_drains() {
    let redis = TestRedis::start(&[]);
    let (queue, _) = world(&redis);
    schedule(&queue, &young(), 0, &["1", "2", "3"]).await;
    let mut raw = redis.connection().await;
    let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").query_async(&mut raw).await.unwrap();
    let job = NewJob { id: "4".into(), lane: young(), due: 0.into() };
    assert!(matches!(queue.schedule(&[job]).await, Err(QueueError::Full(_))));
    let known = NewJob { id: "1".into(), lane: young(), due: 0.into() };
    assert!(matches!(queue.promote(&[known]).await, Err(QueueError::Full(_))));
    let claimed = batch(&queue, ClaimRequest { limit: 2, ..request("a") }).await;
    assert_eq!(queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 5)[..1], &[]).await.unwrap().settled, 1);
    assert_eq!(queue.release(&claimed.fence, &claimed.jobs[1..]).await.unwrap().settled, 1);
    assert_eq!(queue.stats().await.unwrap().delayed, 3);
}

#[tokio::test]
async fn a_flushed_script_cache_is_filled_again() {
    let redis = TestRedis::start(&[]);
    let (queue, _) = world(&redis);
    schedule(&queue, &young(), 0, &["1"]).await;
    let mut raw = redis.connection().await;
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
    let claimed = batch(&queue, request("a")).await;
    let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw).await.unwrap();
    assert_eq!(queue.settle(&claimed.fence, &reschedule(&claimed, &young(), 5), &[]).await.unwrap().settled, 1);
}

#[tokio::test]
async fn the_check_names_what_is_wrong_with_the_server() {
    let redis = TestRedis::start(&["--appendonly", "no"]);
    let (queue, _) = world(&redis);
    let findings = queue.check().await.unwrap();
    assert!(findings[0].contains("noeviction") && findings[0].contains("AOF off"), "{findings:?}");
    assert!(findings[1].contains("appendonly yes"), "{findings:?}");
    let mut raw = redis.connection().await;
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("allkeys-lru").query_async(&mut raw).await.unwrap();
    let error = queue.check().await.unwrap_err().to_string();
    assert!(error.contains("allkeys-lru") && error.contains("noeviction"), "{error}");
    drop(redis);
    let error = queue.check().await.unwrap_err();
    assert!(matches!(error, QueueError::Unavailable(_)), "{error}");
}

#[tokio::test]
async fn every_key_written_is_in_keys_rs_and_in_the_namespace() {
    let redis = TestRedis::start(&[]);
    let (queue, prefix) = world(&redis);
    queue.check().await.unwrap();
    schedule(&queue, &young(), 0, &["1", "2", "3", "4"]).await;
    batch(&queue, ClaimRequest { limit: 1, lease: Duration::from_millis(1), ..request("a") }).await;
    until_expired(&queue).await;
    let held = batch(&queue, ClaimRequest { limit: 4, ..request("b") }).await;
    let claimed = batch(&queue, ClaimRequest { limit: 1, ..request("c") }).await;
    let sooner = |job: &Job| NewJob { id: job.id.clone(), lane: old(), due: 0.into() };
    assert_eq!(queue.promote(&[sooner(&held.jobs[0])]).await.unwrap(), [PromoteOutcome::Noted]);
    queue
        .settle(&claimed.fence, &[(claimed.jobs[0].clone(), Verdict::MarkDead { reason: "x".into() })], &[])
        .await
        .unwrap();
    queue
        .add_incoming(&[
            Incoming { member: "5".into(), created_at: 0 },
            Incoming { member: "x x".into(), created_at: 0 },
        ])
        .await
        .unwrap();
    queue.read_incoming("w", 10).await.unwrap();
    queue.refuse_incoming(&[("x x".into(), "why".into())]).await.unwrap();
    let mut lateness = Lateness::default();
    lateness.add(7, 1);
    queue.heartbeat("w", &[("version", "1".into())], &[], &lateness).await.unwrap();
    queue.pause(Some("why")).await.unwrap();
    let mut raw = redis.connection().await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut raw).await.unwrap();
    let documented = include_str!("../../../crates/engine/src/queue/keys.rs");
    for key in keys {
        if key == twitter_updater::engine::queue::keys::NAMESPACES {
            continue;
        }
        let name = key.strip_prefix(&prefix).unwrap_or_else(|| panic!("{key} is outside the namespace"));
        let pattern = match name.split_once(':') {
            Some(("delayed", _)) => "delayed:<lane>".to_owned(),
            Some(("claim", _)) => "claim:<token>".to_owned(),
            Some(("rate", _)) => "rate:<minute>".to_owned(),
            Some(("lateness", _)) => "lateness:<minute>".to_owned(),
            Some(("worker", _)) => "worker:<id>".to_owned(),
            _ => name.to_owned(),
        };
        assert!(documented.contains(&format!("`{{ns}}:{pattern}`")), "{pattern} is not in keys.rs");
    }
}

#[tokio::test]
async fn members_that_are_no_text_are_moved_aside_too() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    let mut raw = redis.connection().await;
    let () = redis::cmd("ZADD")
        .arg(format!("{prefix}incoming"))
        .arg(0)
        .arg(&b"\xff\xfe"[..])
        .query_async(&mut raw)
        .await
        .unwrap();
    let read = queue.read_incoming("w", 10).await.unwrap();
    queue.refuse_incoming(&[(read[0].member.clone(), "not text".into())]).await.unwrap();
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.incoming, stats.incoming_refused), (0, 1));
}

#[tokio::test]
async fn a_wrong_password_shows_nowhere() {
    let redis = TestRedis::start(&["--requirepass", "right"]);
    let url = redis.url.replace("redis+unix://", "redis+unix://:wrong-canary@");
    let options = RedisOptions {
        url: url.into(),
        tls: Tls::default(),
        connections: 1,
        connect_timeout: Duration::from_secs(2),
        response_timeout: Duration::from_secs(2),
    };
    assert!(!format!("{options:?}").contains("canary"));
    if let Ok(pool) = RedisPool::new(&options) {
        let error = RedisQueue::new(pool, "n").check().await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

/// A late reply: the fence is a value anybody could hold for ever; it never comes back to life.
#[tokio::test]
async fn a_fence_of_the_past_holds_nothing() {
    let (queue, _) = world(TestRedis::shared());
    schedule(&queue, &young(), 0, &["1"]).await;
    let claimed = batch(&queue, request("a")).await;
    let past = Fence { deadline: wall_ms() - 1, token: "a".into() };
    assert_eq!(queue.settle(&past, &[(claimed.jobs[0].clone(), Verdict::Finish)], &[]).await.unwrap().lost, 1);
    assert!(place(&queue, "1").await.is_some());
}

/// Notes cost a settle nothing once they are taken: the key is gone.
#[tokio::test]
async fn no_note_is_left_when_its_lease_has_ended() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    schedule(&queue, &young(), 0, &["1", "2", "3", "4"]).await;
    let claimed = batch(&queue, request("a")).await;
    let jobs: Vec<_> =
        claimed.jobs.iter().map(|job| NewJob { id: job.id.clone(), lane: old(), due: 0.into() }).collect();
    assert_eq!(queue.promote(&jobs).await.unwrap(), [PromoteOutcome::Noted; 4]);
    let mut raw = redis.connection().await;
    let notes = format!("{prefix}promoted");
    let note: String = redis::cmd("HGET").arg(&notes).arg(&claimed.jobs[0].id).query_async(&mut raw).await.unwrap();
    let (due, lane) = note.split_once(' ').unwrap();
    assert!(due.parse::<Millis>().unwrap() >= claimed.claimed_at && lane == "86400000 old", "{note}");
    let job = |at: usize| claimed.jobs[at].clone();
    let verdicts = [
        (job(0), Verdict::Reschedule { lane: young(), due: 0.into() }),
        (job(1), Verdict::Finish),
        (job(2), Verdict::MarkDead { reason: "why".into() }),
    ];
    queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap();
    let left: Vec<String> = redis::cmd("HKEYS").arg(&notes).query_async(&mut raw).await.unwrap();
    assert_eq!(left, [job(3).id]);
    queue.release(&claimed.fence, &[job(3)]).await.unwrap();
    let exists: bool = redis::cmd("EXISTS").arg(&notes).query_async(&mut raw).await.unwrap();
    assert!(!exists);
}

/// As the version before wrote them: a patience and nothing else; and its notes.
#[tokio::test]
async fn lanes_and_notes_of_the_version_before_are_read() {
    let (queue, prefix) = world(TestRedis::shared());
    let mut raw = TestRedis::shared().connection().await;
    let lanes = format!("{prefix}lanes");
    let () = redis::cmd("HSET").arg(&lanes).arg("old").arg("86400000").query_async(&mut raw).await.unwrap();
    let () =
        redis::cmd("ZADD").arg(format!("{prefix}delayed:old")).arg(5).arg("1").query_async(&mut raw).await.unwrap();
    let claimed = batch(&queue, request("a")).await;
    assert_eq!((&*claimed.jobs[0].lane, claimed.jobs[0].order), ("old", Order::ByLateness));
    let note = ["1", "9 180000 young"];
    let () = redis::cmd("HSET").arg(format!("{prefix}promoted")).arg(&note).query_async(&mut raw).await.unwrap();
    queue.release(&claimed.fence, &claimed.jobs).await.unwrap();
    assert!(matches!(place(&queue, "1").await, Some(Place::Delayed { lane, due: 5 }) if lane == "young"));
    let kinds: BTreeMap<String, String> = redis::cmd("HGETALL").arg(&lanes).query_async(&mut raw).await.unwrap();
    assert_eq!(kinds["young"], "180000");
    // Lanes that use none of it look as they did; the others say what they are.
    schedule(&queue, &old(), 0, &["2"]).await;
    schedule(&queue, &young().with_tier(2).with_order(Order::NewestFirst), 0, &["3"]).await;
    let kinds: BTreeMap<String, String> = redis::cmd("HGETALL").arg(&lanes).query_async(&mut raw).await.unwrap();
    assert_eq!((&*kinds["old"], &*kinds["young"]), ("86400000", "180000:2:newest"));
}

/// Somebody's mistake with redis-cli costs that member, and nobody else.
#[tokio::test]
async fn what_is_no_id_in_a_lane_is_set_aside_by_the_claim_that_meets_it() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    let good = ["1", "2", "3", "4"];
    schedule(&queue, &young(), 0, &good).await;
    let mut raw = redis.connection().await;
    let bad: [&[u8]; 5] = [b"\xff\xfe", b"1 2", b" ", b"line\nend", b"\x01"];
    for (at, member) in bad.iter().enumerate() {
        let lane = format!("{prefix}delayed:young");
        let () = redis::cmd("ZADD").arg(lane).arg(at + 1).arg(*member).query_async(&mut raw).await.unwrap();
    }
    // Looking at them harms nobody.
    assert_eq!(queue.sample(10).await.unwrap()[0].total, 9);
    let claimed = batch(&queue, request("a")).await;
    assert_eq!(ids(&claimed).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(good));
    let refused: BTreeMap<Vec<u8>, String> =
        redis::cmd("HGETALL").arg(format!("{prefix}incoming:refused")).query_async(&mut raw).await.unwrap();
    assert_eq!(refused.keys().map(Vec::as_slice).collect::<BTreeSet<_>>(), BTreeSet::from(bad));
    assert!(refused[&b"\xff\xfe"[..]].contains("UTF-8") && refused[&b"1 2"[..]].contains("white space"), "{refused:?}");
    // The same claim again, as after a lost reply.
    assert_eq!(batch(&queue, request("a")).await.jobs.len(), 4);
    let later = reschedule(&claimed, &old(), 3_600_000);
    assert_eq!(queue.settle(&claimed.fence, &later, &[]).await.unwrap().settled, 4);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.delayed, stats.leased, stats.incoming_refused), (4, 0, 5));

    // Alone, and under a lease that ran out: another batch comes, or none.
    let leased = format!("{prefix}leased");
    let () = redis::cmd("ZADD").arg(&leased).arg(2).arg(&b"\xfd"[..]).query_async(&mut raw).await.unwrap();
    assert!(matches!(queue.claim(&request("b")).await.unwrap(), Claim::Empty { .. }));
    assert_eq!(queue.stats().await.unwrap().incoming_refused, 6);
}

#[tokio::test]
async fn what_was_refused_is_bounded_in_number_and_time() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    let (refused, times) = (format!("{prefix}incoming:refused"), format!("{prefix}incoming:refused:at"));
    let mut raw = redis.connection().await;
    // As a version left it that kept no times, and more than are kept now.
    let mut old = redis::cmd("HSET");
    old.arg(&refused);
    for n in 0..REFUSED_KEPT + 10 {
        old.arg(format!("old {n}")).arg("why");
    }
    let () = old.query_async(&mut raw).await.unwrap();
    let refuse = async |members: &[&str]| {
        let put = members.iter().map(|member| Incoming { member: (*member).into(), created_at: 0 });
        queue.add_incoming(&put.collect::<Vec<_>>()).await.unwrap();
        let why = members.iter().map(|member| ((*member).to_owned(), "why".to_owned()));
        queue.refuse_incoming(&why.collect::<Vec<_>>()).await.unwrap();
        queue.stats().await.unwrap().incoming_refused
    };
    assert_eq!(refuse(&["x x", "y y"]).await, REFUSED_KEPT as u64);
    for key in [&refused, &times] {
        let expiry: i64 = redis::cmd("PTTL").arg(key).query_async(&mut raw).await.unwrap();
        assert!(expiry > 0 && expiry <= clock_ms(REFUSED_KEPT_FOR), "{key}: {expiry}");
    }
    let newest: Vec<String> = redis::cmd("ZRANGE").arg(&times).arg(-2).arg(-1).query_async(&mut raw).await.unwrap();
    assert_eq!(newest, ["x x", "y y"]);
    // All but these are older than what is kept.
    let all: Vec<String> = redis::cmd("ZRANGE").arg(&times).arg(0).arg(-3).query_async(&mut raw).await.unwrap();
    let mut age = redis::pipe();
    for member in &all {
        age.cmd("ZADD").arg(&times).arg(wall_ms() - clock_ms(REFUSED_KEPT_FOR) - 1_000).arg(member).ignore();
    }
    let () = age.query_async(&mut raw).await.unwrap();
    assert_eq!(refuse(&["z z"]).await, 3);
}

fn clock_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap()
}

#[tokio::test]
async fn past_minutes_are_summed_by_the_hour_and_hours_expire() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    let raw = redis.connection().await;
    let plant = async |minute: Millis, ids: i64| {
        for (hash, field) in [("rate", "requests"), ("lateness", "5")] {
            let mut plant = redis::cmd("HINCRBY");
            plant.arg(format!("{prefix}{hash}:{minute}")).arg(field).arg(ids);
            let _: i64 = plant.query_async(&mut raw.clone()).await.unwrap();
        }
    };
    planted_minutes_are_summed(&queue, plant).await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("{prefix}hour:*")).query_async(&mut raw.clone()).await.unwrap();
    assert!(keys.len() >= 5, "{keys:?}");
    for key in keys {
        let seconds: i64 = redis::cmd("TTL").arg(&key).query_async(&mut raw.clone()).await.unwrap();
        assert!((2_678_000..=2_678_400).contains(&seconds), "{key}: {seconds} s");
    }
}

#[tokio::test]
async fn no_minute_is_added_twice_where_the_clock_stepped_back() {
    let clock = SteppingClock::new();
    let redis = TestRedis::start_by(&clock.program(), &[]);
    let (queue, _) = world(&redis);
    let requests = async || -> i64 {
        queue.sum_hours().await.unwrap();
        queue.hours(HOURS_KEPT).await.unwrap().iter().filter_map(|hour| hour.counters.get("requests")).sum()
    };
    let request = async || queue.heartbeat("w1", &[], &[("requests", 1)], &Lateness::default()).await.unwrap();
    request().await;
    clock.step(60);
    assert_eq!(requests().await, 1);
    // The same minute once more: it was added.
    clock.step(0);
    request().await;
    assert_eq!(requests().await, 1);
    clock.step(180);
    request().await;
    clock.step(240);
    assert_eq!(requests().await, 2);
    // A clock that was years ahead stops nothing.
    clock.step(100_000_000);
    requests().await;
    clock.step(400);
    let before = requests().await;
    request().await;
    clock.step(460);
    assert_eq!(requests().await, before + 1);
}

#[tokio::test]
async fn a_clock_that_was_ahead_delays_nothing_that_is_given_back() {
    let clock = SteppingClock::new();
    let redis = TestRedis::start_by(&clock.program(), &[]);
    let (queue, _) = world(&redis);
    what_is_given_back_while_the_clock_is_ahead_waits_for_nothing(&queue, |seconds| clock.step(seconds)).await;
}

#[tokio::test]
async fn errors_are_kept_for_a_week_by_the_clock_of_redis() {
    let clock = SteppingClock::new();
    let redis = TestRedis::start_by(&clock.program(), &[]);
    let (queue, prefix) = world(&redis);
    let error = |host: &str, days: Millis| RecordedError {
        host: host.to_owned(),
        count: 1,
        last_ms: wall_ms() + days * 86_400_000,
        ..RecordedError::default()
    };
    queue.record_errors(&[error("old", 0)]).await.unwrap();
    clock.step(6 * 86_400);
    queue.record_errors(&[error("new", 6)]).await.unwrap();
    assert_eq!(queue.errors(10).await.unwrap().len(), 2);
    clock.step(7 * 86_400 + 60);
    assert_eq!(queue.errors(10).await.unwrap().len(), 1, "none is read that is too old");
    queue.record_errors(&[error("newest", 7)]).await.unwrap();
    let mut raw = redis.connection().await;
    let stored: usize = redis::cmd("HLEN").arg(format!("{prefix}errors")).query_async(&mut raw).await.unwrap();
    assert_eq!(stored, 2, "the old one is removed");
    // A corrupt value does not stop heartbeats.
    let place = error("newest", 7).key();
    let set = redis::cmd("HSET").arg(format!("{prefix}errors")).arg(&place).arg("{").take();
    let () = set.query_async(&mut raw).await.unwrap();
    queue.forget(&["20".to_owned()]).await.unwrap();
    queue.record_errors(&[error("newest", 7)]).await.unwrap();
    assert_eq!(queue.errors(10).await.unwrap().len(), 2);
}
