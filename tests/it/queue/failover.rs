//! What several Redis servers can get wrong together: one takes over from another, or each has a part.

use twitter_updater::base::clock;

use super::redis_only::world;
use super::*;
use crate::support::redis::Watched;

async fn set(redis: &TestRedis, key: &str, value: &str) {
    let mut raw = redis.connection().await;
    let () = redis::cmd("SET").arg(key).arg(value).query_async(&mut raw).await.unwrap();
}

/// As after a failover: the replica had not heard of a claim, its clock is behind, and another claim
/// got the same deadline.
#[tokio::test]
async fn the_fence_of_a_lost_claim_is_not_that_of_another() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    schedule(&queue, &young(), 0, &["1", "2"]).await;
    let theirs = batch(&queue, request("theirs")).await;
    let lost = Fence { token: "lost".into(), ..theirs.fence.clone() };
    let both = SettleOutcome { settled: 0, lost: 2 };
    assert_eq!(queue.settle(&lost, &reschedule(&theirs, &old(), 0), &[]).await.unwrap(), both);
    assert_eq!(queue.release(&lost, &theirs.jobs).await.unwrap(), both);
    // Nor where the same token stands for an earlier claim.
    set(redis, &format!("{prefix}claim:lost"), &format!("{}9 1\n", theirs.fence.deadline)).await;
    assert_eq!(queue.settle(&lost, &reschedule(&theirs, &old(), 0), &[]).await.unwrap(), both);
    let settled = queue.settle(&theirs.fence, &reschedule(&theirs, &old(), 0), &[]).await.unwrap();
    assert_eq!(settled, SettleOutcome { settled: 2, lost: 0 });
}

/// As after a failover to a server whose clock is behind: leases and the last fence are in its future.
#[tokio::test]
async fn a_clock_that_stepped_back_delays_and_breaks_nothing() {
    let redis = TestRedis::shared();
    let (queue, prefix) = world(redis);
    schedule(&queue, &young(), 0, &["1", "2", "3", "4"]).await;
    let lease = Duration::from_millis(100);
    let lingering = |token| ClaimRequest { limit: 1, lease, linger: Duration::from_millis(20), ..request(token) };
    let before = next_batch(&queue, lingering("before")).await;
    // The last fence and that lease, as the other clock had them.
    let ahead = before.claimed_at + 1_500;
    let mut raw = redis.connection().await;
    let leased = format!("{prefix}leased");
    let () = redis::cmd("ZADD").arg(&leased).arg(ahead).arg(&before.jobs[0].id).query_async(&mut raw).await.unwrap();
    set(redis, &format!("{prefix}fence"), &ahead.to_string()).await;
    set(redis, &format!("{prefix}claim:before"), &format!("{ahead} {}\n", before.claimed_at)).await;

    let (first, second) = (next_batch(&queue, lingering("first")).await, next_batch(&queue, lingering("second")).await);
    assert_eq!((first.fence.deadline, second.fence.deadline), (ahead + 1, ahead + 2), "unique, and rising");
    assert_eq!(queue.settle(&first.fence, &reschedule(&first, &old(), 60_000), &[]).await.unwrap().settled, 1);
    // Who has lived on since settles; whose lease runs out loses it when this clock is there.
    let third = next_batch(&queue, lingering("third")).await;
    let fence = Fence { deadline: ahead, token: "before".into() };
    assert_eq!(queue.settle(&fence, &reschedule(&before, &old(), 60_000), &[]).await.unwrap().settled, 1);
    let mut again = BTreeSet::new();
    while again.len() < 2 {
        for job in next_batch(&queue, ClaimRequest { limit: 4, ..lingering("again") }).await.jobs {
            assert_eq!(job.deliveries, 1);
            let ends = [&second, &third].map(|batch| batch.fence.deadline);
            assert!(ends.contains(&(job.due + clock::millis(lease))), "{job:?}");
            again.insert(job.id);
        }
    }
    assert_eq!(queue.settle(&second.fence, &reschedule(&second, &old(), 0), &[]).await.unwrap().lost, 1);
    assert_eq!(queue.settle(&third.fence, &reschedule(&third, &old(), 0), &[]).await.unwrap().lost, 1);
}

/// Whoever has become a replica is not asked again: the next connection may find the master.
#[tokio::test]
async fn no_connection_to_a_replica_is_kept() {
    let redis = TestRedis::start(&[]);
    let (queue, _) = world(&redis);
    schedule(&queue, &young(), 0, &["1"]).await;
    let mut raw = redis.connection().await;
    let replica_of = async |raw: &mut redis::aio::MultiplexedConnection, host: &str, port: &str| {
        let () = redis::cmd("REPLICAOF").arg(host).arg(port).query_async(raw).await.unwrap();
    };
    let connections = async |raw: &mut redis::aio::MultiplexedConnection| -> u64 {
        let info: redis::InfoDict = redis::cmd("INFO").arg("stats").query_async(raw).await.unwrap();
        info.get("total_connections_received").unwrap()
    };
    let before = connections(&mut raw).await;
    replica_of(&mut raw, "127.0.0.1", "1").await;
    for n in 1..=2 {
        let error = queue.claim(&request("a")).await.unwrap_err();
        assert!(matches!(error, QueueError::Unavailable(_)), "{error}");
        assert_eq!(connections(&mut raw).await, before + n - 1, "the one that was there, then a new one");
    }
    replica_of(&mut raw, "NO", "ONE").await;
    assert_eq!(batch(&queue, request("a")).await.jobs.len(), 1);
}

/// Hosts that take a connection and say nothing are given up, and the others asked.
#[tokio::test]
async fn silent_hosts_among_the_sentinels_and_nodes_are_passed_by() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("://{},", silent.local_addr().unwrap());
    let watched = Watched::start().await;
    for url in [&Cluster::shared().await.url, &watched.url] {
        let options = RedisOptions {
            url: url.replace("://", &silent).into(),
            tls: Tls::default(),
            connections: 1,
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(10),
        };
        let queue = RedisQueue::new(RedisPool::new(&options).unwrap(), &namespace());
        assert!(queue.check().await.unwrap()[0].contains("AOF on"));
    }
}

/// Each master of a cluster is looked at, and namespaces share them.
#[tokio::test]
async fn namespaces_are_spread_over_a_cluster() {
    let cluster = Cluster::start().await;
    for _ in 0..8 {
        let queue = RedisQueue::new(pool(&cluster.url), &namespace());
        let findings = queue.check().await.unwrap();
        assert_eq!(findings.len(), 1, "all three say the same: {findings:?}");
        schedule(&queue, &young(), 0, &["1"]).await;
        assert_eq!(batch(&queue, request("a")).await.jobs.len(), 1);
    }
    let mut listed = BTreeSet::new();
    let mut used = 0;
    for master in &cluster.masters {
        let mut raw = master.connection().await;
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut raw).await.unwrap();
        used += usize::from(keys.iter().any(|key| key.ends_with(":leased")));
        if keys.iter().any(|key| key == twitter_updater::engine::queue::keys::NAMESPACES) {
            let of: BTreeSet<String> = redis::cmd("SMEMBERS")
                .arg(twitter_updater::engine::queue::keys::NAMESPACES)
                .query_async(&mut raw)
                .await
                .unwrap();
            listed.extend(of);
        }
    }
    assert_eq!(listed.len(), 8);
    assert!(used >= 2, "8 namespaces on one of three masters");
    let mut raw = cluster.masters[1].connection().await;
    let mut evict = redis::cmd("CONFIG");
    let () = evict.arg("SET").arg("maxmemory-policy").arg("allkeys-lru").query_async(&mut raw).await.unwrap();
    let error = RedisQueue::new(pool(&cluster.url), "n").check().await.unwrap_err().to_string();
    assert!(error.contains("allkeys-lru"), "one of three would throw tweets away: {error}");
}
