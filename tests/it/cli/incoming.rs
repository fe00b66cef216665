//! `incoming`: any program with a Redis client puts ids there, an updater takes them.

use std::collections::{BTreeSet, HashMap};

use redis::AsyncCommands;
use twitter_updater::model::post::ItemState;
use twitter_updater::simulator::{self, SimulatorOptions};
use twitter_updater::store::{Posts, SqliteStore};

use super::*;
use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::wait::until_true;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_somebody_put_there_are_scheduled_and_the_rest_is_told() {
    let home = Home::new();
    let redis = TestRedis::start(&[]);
    let mut connection = redis.connection().await;
    let now = wall_ms();
    let good: Vec<(String, i64)> =
        vec![(id_aged(MINUTE, 1), 0), (id_aged(DAY, 2), now - DAY), ("20".to_owned(), now - 2 * DAY)];
    let too_old = [(id_aged(40 * DAY, 3), 0), ("21".to_owned(), now - 40 * DAY)];
    let malformed: [(&[u8], i64, &str); 8] = [
        (b"tweet", 0, "not a digit"),
        (b"-5", 0, "negative"),
        (b"", 0, "empty"),
        (b" 12", 0, "not a digit"),
        (b"1111111111222222222233333333334444444444", 0, "40 digits"),
        (b"22", 0, "created_at is needed"),
        (b"23", now / 1_000, "seconds"),
        (b"\xff\xfe", 0, "not a digit"),
    ];
    let mut put = redis::pipe();
    for (id, created_at) in good.iter().chain(&too_old) {
        put.cmd("ZADD").arg("{tweet:update}:incoming").arg(created_at).arg(id).ignore();
    }
    for (member, created_at, _) in malformed {
        put.cmd("ZADD").arg("{tweet:update}:incoming").arg(created_at).arg(member).ignore();
    }
    put.exec_async(&mut connection).await.unwrap();

    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let own = [("queue.backend", "redis"), ("queue.redis.url", &*redis.url), ("twitter.api", &*api.base_url())];
    let settings = home.settings(&own);
    assert_eq!(status(&settings)["incoming"], good.len() + too_old.len() + malformed.len());
    let log = home.path("log");
    let mut updater = Process::start(&["updater"], &settings, &log);
    until_true("incoming is empty", Duration::from_secs(20), async || {
        connection.zcard::<_, u64>("{tweet:update}:incoming").await.unwrap() == 0
    })
    .await;
    updater.signal("TERM");
    assert_eq!(updater.ended(Duration::from_secs(10)).await.code(), Some(0), "{}", log_text(&log));

    let stats = status(&settings);
    assert_eq!((&stats["delayed"], &stats["incoming_refused"]), (&good.len().into(), &malformed.len().into()));
    let mut scheduled = BTreeSet::new();
    for lane in ["18m", "60m", "1d", "7d", "30d"] {
        let key = format!("{{tweet:update}}:delayed:{lane}");
        scheduled.extend(connection.zrange::<_, Vec<String>>(key, 0, -1).await.unwrap());
    }
    assert_eq!(scheduled, good.iter().map(|(id, _)| id.clone()).collect::<BTreeSet<_>>());
    let refused: HashMap<Vec<u8>, String> = connection.hgetall("{tweet:update}:incoming:refused").await.unwrap();
    for (member, _, says) in malformed {
        let reason = refused.get(member).unwrap_or_else(|| panic!("{member:?} is not among {refused:?}"));
        assert!(reason.contains(says), "{member:?}: {reason}");
    }
    let store = SqliteStore::open(&home.path("home.db"), Duration::from_secs(5)).await.unwrap();
    for (id, created_at) in good {
        let tweet = store.tweet("tweet:update", &id).await.unwrap().unwrap();
        assert_eq!(tweet.state, ItemState::Live);
        if created_at != 0 {
            assert_eq!(tweet.created_at, Some(created_at));
        }
    }
    let says = log_text(&log);
    let told =
        "members of incoming are past the last age bracket and are not looked up; enqueue --once looks them up once";
    assert!(says.contains(told) && says.contains("too_old=2"), "{says}");
    for (id, _) in too_old {
        assert!(!refused.contains_key(id.as_bytes()), "an archive would push out the malformed");
        assert_eq!(store.tweet("tweet:update", &id).await.unwrap(), None);
    }
}
